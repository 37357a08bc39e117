"""What of a workload's pods somebody has to allow: the Pod Security level of its namespace, or a
list of its project.

Looks at the whole pod that a member would be given, support of the RuntimeProfile included, because
the member's namespace holds for all of it; the path says whether the template or the profile is the
cause. Pure; whether it is allowed is decided by `placement.policy.permitted`.
"""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.pods import alike, inject, priorities
from federator.kinds.pods.alike import Question
from federator.kinds.verbs import WorkloadVerbs
from federator.model import interning
from federator.model.ask import Privileges, Unit
from federator.model.kubernetes import pod_security
from federator.model.kubernetes.pod_security import Level, Violation

_PART: Final = re.compile(
    r"spec\.(initContainers|containers|ephemeralContainers|volumes)\[(\d+)\](.*)", re.DOTALL
)
_OWN_ACCOUNT: Final = "default"
SYSTEM_PRIORITY: Final = "system-"


def of(obj: Obj, verbs: WorkloadVerbs, profile: Obj | None) -> Privileges:
    """Of all pods of the workload together. Raises FieldError as injection does."""
    if verbs.gang is None:
        of_pods = _of_template(obj, verbs.pod_template(obj), verbs, profile)
        return interning.value(of_pods if verbs.carried else _with_doors(of_pods, obj))
    per_role = [
        _at(_of_template(obj, role.template, verbs, profile), role.path)
        for role in verbs.gang.roles(obj)
    ]
    joined: dict[str, Any] = {
        name: next(filter(None, (getattr(privileges, name) for privileges in per_role)), "")
        for name in _FIELDS
    }
    graces = [privileges.grace for privileges in per_role if privileges.grace is not None]
    longest = max(graces, key=lambda grace: grace[1], default=None)
    return interning.value(Privileges(**joined, grace=longest))


_FIELDS: Final = tuple(field.name for field in fields(Privileges) if field.default == "")


def _with_doors(privileges: Privileges, obj: Obj) -> Privileges:
    """With what a workload's Services and doors from outside ask for."""
    spec = raw.mapping(obj, "spec")
    services = [("spec.service", raw.mapping(spec, "service"))]
    for index, service in enumerate(raw.objects(spec, "additionalServices")):
        services.append((f"spec.additionalServices[{index}]", service))
    hosts = tuple(
        (f"spec.loadBalancers[{index}].host", raw.text(door, "host") or EVERY_HOST)
        for index, door in enumerate(raw.objects(spec, "loadBalancers"))
    )
    annotations = tuple(
        (f"{path}.annotations", key)
        for path, service in services
        for key in sorted(raw.text_map(service, "annotations"))
    )
    types = tuple(
        (f"{path}.type", kind)
        for path, service in services
        if (kind := raw.text(service, "type")) in OUTSIDE
    )
    if not (hosts or annotations or types):
        return privileges
    return replace(privileges, hosts=hosts, service_annotations=annotations, service_types=types)


EVERY_HOST: Final = "*"
OUTSIDE: Final = ("NodePort", "LoadBalancer")
"""Types of Services that are open to the outside."""


def _at(privileges: Privileges, path: str) -> Privileges:
    """The same with the path at which the template stands."""
    texts: dict[str, Any] = {
        name: path + text.removeprefix(inject.TEMPLATE)
        for name in ("baseline", "restricted", "nodes")
        if (text := getattr(privileges, name)).startswith(f"{inject.TEMPLATE}.")
    }
    if privileges.grace is not None:
        field, seconds = privileges.grace
        texts["grace"] = (path + field.removeprefix(inject.TEMPLATE), seconds)
    return replace(privileges, **texts)


def _of_template(obj: Obj, template: Obj, verbs: WorkloadVerbs, profile: Obj | None) -> Privileges:
    batch, spec = verbs.unit is Unit.SHARDS, raw.mapping(template, "spec")
    asked = alike.question(
        _decisive(template, spec), template, profile, verbs.sidecars(obj), batch=batch
    )
    baseline, restricted = _violated(asked)
    own = priorities.class_name(verbs.tier(obj))
    named = raw.text(spec, "priorityClassName")
    return Privileges(
        baseline=baseline,
        restricted=restricted,
        nodes=_nodes(spec),
        service_account=_account(obj, spec, carried=verbs.carried),
        iam_role=interning.text(raw.text(obj, "spec", "iamRole")) if not verbs.carried else "",
        priority_class=interning.text(named) if named not in ("", own) else "",
        grace=_grace(spec),
    )


_POD: Final = ("os", "hostNetwork", "hostPID", "hostIPC", "securityContext", "volumes")
_CONTAINER: Final = (
    *("name", "securityContext", "ports"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)
"""Fields that the Pod Security Standards look at; by its name a container's origin is told."""


def _decisive(template: Obj, spec: Obj) -> tuple[Any, ...]:
    """All of a template that its violations, and their paths, depend on."""
    containers = [_containers(spec.get(field)) for field in pod_security.CONTAINERS]
    annotations = raw.mapping(template, "metadata", "annotations")
    profiles = [
        item for item in annotations.items() if str(item[0]).startswith(pod_security.APPARMOR)
    ]
    return [spec.get(field) for field in _POD], containers, profiles


def _containers(listed: Any) -> Any:
    """What decides of a list of containers; all of what is no such list."""
    if not isinstance(listed, list) or any(type(entry) is not dict for entry in listed):
        return listed
    return [[entry.get(field) for field in _CONTAINER] for entry in listed]


@lru_cache(maxsize=alike.REMEMBERED)
def _violated(asked: Question) -> tuple[str, str]:
    """What of the whole pod violates the levels baseline and restricted. Raises FieldError."""
    pod = inject.inject(asked.template, asked.profile, asked.sidecars, batch=asked.batch)
    strict = list(pod_security.violations(pod, Level.RESTRICTED))
    baseline = [violation for violation in strict if violation.level is Level.BASELINE]
    source = _Source(asked.template, asked.profile, pod)
    return _summary(baseline, source), _summary(strict, source)


def _nodes(spec: Obj) -> str:
    """What would take the choice of nodes, or the nodes' own pods, away from members."""
    if (node := spec.get("nodeName")) not in (None, ""):
        return (
            f"{inject.TEMPLATE}.spec.nodeName: is {str(node)[:80]}; the scheduler of a member "
            "chooses nodes"
        )
    named = spec.get("priorityClassName")
    if isinstance(named, str) and named.startswith(SYSTEM_PRIORITY):
        return (
            f"{inject.TEMPLATE}.spec.priorityClassName: is {named[:80]}, which is for the nodes' "
            "own pods"
        )
    return ""


def _account(obj: Obj, spec: Obj, *, carried: bool) -> str:
    """The service account that needs leave: not the namespace's default, nor one of the workload's
    own name, which the federation makes for it and shares with nobody.
    """
    named = raw.text(spec, "serviceAccountName") or raw.text(spec, "serviceAccount")
    if named in ("", _OWN_ACCOUNT) or (not carried and named == raw.text(obj, "metadata", "name")):
        return ""
    return interning.text(named)


def _grace(spec: Obj) -> tuple[str, int] | None:
    """The time that the pods may take to end; None where the template leaves it to Kubernetes."""
    seconds = raw.integer(spec, "terminationGracePeriodSeconds")
    return (f"{inject.TEMPLATE}.spec.terminationGracePeriodSeconds", seconds) if seconds else None


class _Source:
    """Where a field of the whole pod comes from."""

    def __init__(self, template: Obj, profile: Obj | None, pod: Obj) -> None:
        self._template = template
        self._profile = profile
        self._pod = pod

    def path(self, path: str) -> str:
        """The path as the author of the field would name it."""
        if self._profile is None:
            return f"{inject.TEMPLATE}.{path}"
        if match := _PART.fullmatch(path):
            field, index, rest = match[1], int(match[2]), match[3]
            return self._of_part(field, raw.items(self._pod, "spec", field)[index], rest)
        key = path.removeprefix("metadata.annotations[").removesuffix("]")
        if key != path and key not in raw.mapping(self._template, "metadata", "annotations"):
            return f"{self._title} spec.podAnnotations[{key}]"
        return f"{inject.TEMPLATE}.{path}"

    def _of_part(self, field: str, part: object, rest: str) -> str:
        name = part.get("name") if isinstance(part, Mapping) else None
        for index, own in enumerate(raw.items(self._template, "spec", field)):
            if isinstance(own, Mapping) and own.get("name") == name:
                return f"{inject.TEMPLATE}.spec.{field}[{index}]{rest}"
        groups = ("volumes",) if field == "volumes" else ("initContainers", "sidecars")
        for group in groups:
            for index, given in enumerate(raw.objects(self._profile, "spec", group)):
                if given.get("name") == name:
                    inner = "" if field == "volumes" else ".container"
                    return f"{self._title} spec.{group}[{index}]{inner}{rest}"
        return f"{inject.TEMPLATE}.spec.{field}{rest}"

    @property
    def _title(self) -> str:
        return f"RuntimeProfile {raw.text(self._profile, 'metadata', 'name')}:"


def _summary(violations: list[Violation], source: _Source) -> str:
    """The first violation with its path and its control, and how many more there are; "" for
    none.
    """
    if not violations:
        return ""
    first = violations[0]
    more = f"; {len(violations) - 1} more" if len(violations) > 1 else ""
    return interning.text(f"{source.path(first.path)}: {first.message} ({first.control}){more}")
