"""Warnings of a real API server about pod specs that it stores nevertheless.

Called by `validation` for pods and for every kind with a pod template. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from federator.embedded.schema import facts
from federator.embedded.storage.resources import ResourceInfo

Struct = Mapping[str, Any]

_TEMPLATES: Final[Mapping[tuple[str, str], Sequence[str]]] = facts.by_resource("podTemplates")


def of(obj: Struct, old: Struct | None, info: ResourceInfo) -> list[str]:
    """What to say about the pod spec of an object; nothing when an update leaves it alone."""
    path = _TEMPLATES.get(info.key)
    if path is None:
        return []
    spec = _below(obj, path).get("spec") or {}
    # Updates of pods themselves come too often to be talked about.
    if old is not None and (not path or _is_same(obj, old)):
        return []
    return list(about(spec, ".".join((*path, "spec"))))


def _is_same(obj: Struct, old: Struct) -> bool:
    """Whether an update leaves the generation alone; then nothing is said. A Deployment's
    annotations count."""
    if obj.get("kind") == "Deployment" and obj["metadata"].get("annotations") != old[
        "metadata"
    ].get("annotations"):
        return False
    return bool(old.get("spec") == obj.get("spec"))


def _below(obj: Struct, path: Sequence[str]) -> Struct:
    for part in path:
        obj = obj.get(part) or {}
    return obj


def about(spec: Struct, path: str) -> Iterator[str]:
    """What to say about the pod spec that stands at this path."""
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        problem = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {problem}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("labelSelector") is None:
            at = f"{path}.topologySpreadConstraints[{index}]"
            yield f"{at}.labelSelector: a null labelSelector results in matching no pod"
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        yield from _repeated(spec.get(field) or (), f"{path}.{field}", key)
    yield from _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    listed = [
        (container, f"{path}.{kind}[{index}]")
        for kind in ("initContainers", "containers")
        for index, container in enumerate(spec.get(kind) or ())
    ]
    for container, at in listed:
        yield from _environment(container, at)
    serving = [
        each
        for each in listed
        if ".initContainers[" not in each[1] or each[0].get("restartPolicy") == "Always"
    ]
    yield from _port_definitions(serving)
    yield from _port_names(serving)


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


def _repeated(entries: Sequence[Struct], at: str, key: str) -> Iterator[str]:
    seen: set[object] = set()
    for index, entry in enumerate(entries):
        value = entry.get(key, "")
        if value in seen:
            yield f'{at}[{index}].{key}: duplicate {key} "{value}"'
        seen.add(value)


def _environment(container: Struct, at: str) -> Iterator[str]:
    """A variable that builds on the one before it (X=a, then X=$(X)b) is meant."""
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value") or ""
        reference = f"$({name})"
        builds_on_it = reference in value and value != reference
        if name in seen and (variable.get("valueFrom") is not None or not builds_on_it):
            yield (
                f'{at}.env[{index}]: hides previous definition of "{name}", which may be dropped'
                " when using apply"
            )
        seen.add(name)


def _ports(listed: list[tuple[Struct, str]]) -> Iterator[tuple[Struct, str]]:
    for container, at in listed:
        for index, port in enumerate(container.get("ports") or ()):
            yield port, f"{at}.ports[{index}]"


def _port_definitions(listed: list[tuple[Struct, str]]) -> Iterator[str]:
    seen: dict[tuple[Any, str], list[tuple[Struct, str]]] = {}
    for port, here in _ports(listed):
        others = seen.setdefault((port.get("containerPort"), port.get("protocol") or "TCP"), [])
        for other, there in others:
            if problem := _clash(port, other):
                yield f"{here}: {problem} port definition with {there}"
        others.append((port, here))


def _clash(port: Struct, other: Struct) -> str:
    """How two entries for one port and protocol stand in each other's way; "" where they do not."""
    (host, address), (other_host, other_address) = (
        (each.get("hostPort") or 0, each.get("hostIP") or "") for each in (port, other)
    )
    if (host, address) == (other_host, other_address):
        return "duplicate"
    if not host or not other_host:
        return "overlapping"
    is_ambiguous = host == other_host and bool(address) != bool(other_address)
    return "dangerously ambiguous" if is_ambiguous else ""


def _port_names(listed: list[tuple[Struct, str]]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for port, here in _ports(listed):
        name = port.get("name")
        if name and name in seen:
            yield (
                f'{here}: duplicate port name "{name}" with {seen[name]}, services and probes that'
                " select ports by "
                f"name will use {seen[name]}"
            )
        elif name:
            seen[name] = here
