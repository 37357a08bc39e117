"""Warnings of a real API server about pod specs that it stores nevertheless.

Called by `validation` for pods and for every kind with a pod template. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.resources import ResourceInfo

Struct = Mapping[str, Any]

_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "pods"): (),
    ("", "podtemplates"): ("template",),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}


def of(obj: Struct, old: Struct | None, info: ResourceInfo) -> list[str]:
    """What to say about the pod spec of an object; nothing when an update leaves it alone."""
    path = _TEMPLATES.get(info.key)
    if path is None:
        return []
    spec = _below(obj, path).get("spec") or {}
    if old is not None and (not path or _below(old, path) == _below(obj, path)):
        return []
    return list(_about(spec, ".".join((*path, "spec"))))


def _below(obj: Struct, path: tuple[str, ...]) -> Struct:
    for part in path:
        obj = obj.get(part) or {}
    return obj


def _about(spec: Struct, path: str) -> Iterator[str]:
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        problem = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {problem}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("labelSelector") is None:
            at = f"{path}.topologySpreadConstraints[{index}]"
            yield f"{at}.labelSelector: a null labelSelector results in matching no pod"
    yield from _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    named: dict[str, str] = {}
    defined: dict[tuple[Any, ...], str] = {}
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            at = f"{path}.{kind}[{index}]"
            yield from _environment(container, at)
            if kind == "containers" or container.get("restartPolicy") == "Always":
                yield from _ports(container, at, named, defined)


def _affinity(affinity: Struct, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for when, inner in ((_REQUIRED, ""), (_PREFERRED, "podAffinityTerm")):
            for index, term in enumerate(terms.get(when) or ()):
                held = (term.get(inner) or {}) if inner else term
                if held.get("labelSelector") is None:
                    at = f"{path}.{kind}.{when}[{index}]" + (f".{inner}" if inner else "")
                    yield f"{at}.labelSelector: a null labelSelector results in matching no pod"


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _environment(container: Struct, at: str) -> Iterator[str]:
    seen: dict[str, int] = {}
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen:
            yield (f'{at}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply')
        seen[name] = index


def _ports(container: Struct, at: str, named: dict[str, str], defined: dict[tuple[Any, ...], str]) -> Iterator[str]:
    for index, port in enumerate(container.get("ports") or ()):
        here, name = f"{at}.ports[{index}]", port.get("name")
        key = (port.get("containerPort"), port.get("protocol"), port.get("hostPort"), port.get("hostIP"))
        if key in defined:
            yield f"{here}: duplicate port definition with {defined[key]}"
        defined.setdefault(key, here)
        if not name:
            continue
        if name in named:
            yield (
                f'{here}: duplicate port name "{name}" with {named[name]}, services and probes that select ports by '
                f"name will use {named[name]}"
            )
        else:
            named[name] = here
