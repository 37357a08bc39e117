"""From a workload object to its Ask: what placement needs to know, free of the kind.

Called by the hub for every change of a workload, and by the command line's offline engine.
"""

from dataclasses import replace

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import registry
from federator.kinds.pods import effective, inject, privileges
from federator.kinds.shared import runtimefields
from federator.kinds.verbs import Role, WorkloadVerbs
from federator.model import interning
from federator.model.ask import Ask, Component, PodShape, StatedPod, Unit
from federator.model.errors import FieldError
from federator.model.names import WorkloadKey
from federator.model.policy import Policy
from federator.model.quickly import quickly
from federator.model.resources import Resources


def ask(
    obj: Obj,
    verbs: WorkloadVerbs,
    policy: Policy,
    profile: Obj | None = None,
    *,
    created_s: float | None = None,
    key: WorkloadKey | None = None,
) -> Ask:
    """Raises FieldError, with the path in the object, for what can never be placed as it is
    written.

    `profile` is the RuntimeProfile object that `verbs.profile(obj)` names, None where there is
    none. `created_s` defaults to the object's creationTimestamp, `key` to what it says of itself.
    """
    refusal = verbs.refusal(obj)
    if refusal is not None:
        raise refusal
    runtimefields.check(obj, profile)
    shape, stated = _pods(obj, verbs, profile)
    created = (
        raw.epoch_s(raw.text(obj, "metadata", "creationTimestamp"))
        if created_s is None
        else created_s
    )
    exclusive, whole = verbs.exclusive(obj), verbs.unit is Unit.SHARDS
    return _ask(
        key=key if key is not None else registry.key_of(obj),
        uid=interning.uid(raw.text(obj, "metadata", "uid")),
        generation=raw.integer(obj, "metadata", "generation"),
        unit=verbs.unit,
        count=verbs.count(obj),
        slots=verbs.slots(obj),
        shape=shape,
        project=interning.text(verbs.project(obj)),
        tier=verbs.tier(obj),
        priority=verbs.priority(obj),
        created_s=created,
        policy=policy,
        labels=interning.labels(raw.text_map(obj, "metadata", "labels")),
        whole=whole,
        least=max(raw.integer(obj, "spec", "minParallelism"), 0) if whole else 0,
        suspended=verbs.suspended(obj),
        privileges=privileges.of(obj, verbs, profile),
        overlaps=verbs.overlaps and not exclusive,
        exclusive=exclusive,
        guarded=verbs.guarded(obj),
        ordinals=verbs.ordinals.of(obj) if verbs.ordinals is not None else None,
        run_s=_run_s(obj, verbs),
        needs=verbs.needs(obj),
        disruptions=verbs.disruptions(obj),
        own=own_requests(obj, verbs, shape) if profile is not None else None,
        stated=stated,
        ties_by_name=True,
    )


_ask = quickly(Ask)


def own_requests(obj: Obj, verbs: WorkloadVerbs, shape: PodShape) -> Resources | None:
    """What the template's containers request, if the RuntimeProfile raises `shape` above that; None
    otherwise. Raises FieldError as `ask`."""
    if verbs.gang is not None:
        return None
    own = effective.pod_requests(raw.mapping(verbs.pod_template(obj), "spec"))
    return None if own == shape.requests else interning.value(own)


def _run_s(obj: Obj, verbs: WorkloadVerbs) -> int | None:
    """The deadline of what ends, which is the only run time that is certain."""
    if verbs.unit is not Unit.SHARDS:
        return None
    return max(raw.integer(obj, "spec", "activeDeadlineSeconds"), 0) or None


def shape_of(obj: Obj, verbs: WorkloadVerbs, profile: Obj | None) -> PodShape:
    """What one copy of a workload, or of its slice, takes. Raises FieldError as `ask`."""
    return _pods(obj, verbs, profile)[0]


def _pods(
    obj: Obj, verbs: WorkloadVerbs, profile: Obj | None
) -> tuple[PodShape, tuple[StatedPod, ...]]:
    """The shape of a copy, and what each of its pods states."""
    batch, sidecars = verbs.unit is Unit.SHARDS, verbs.sidecars(obj)
    if verbs.gang is not None:
        parts = [_part(role, profile, sidecars) for role in verbs.gang.roles(obj)]
        shape = interning.value(PodShape.together(part for part, _ in parts))
        return shape, interning.value(tuple(stated for _, stated in parts))
    shape, pod = effective.pod_of(verbs.pod_template(obj), profile, sidecars, batch=batch)
    if verbs.every_node:
        shape = interning.value(replace(shape, one_per_node=True, every_node=True))
    return shape, interning.value((pod,))


def _part(role: Role, profile: Obj | None, sidecars: Obj) -> tuple[Component, StatedPod]:
    try:
        shape, pod = effective.pod_of(role.template, profile, sidecars, batch=True)
    except FieldError as bad:
        path = bad.path.replace(inject.TEMPLATE, role.path, 1)
        raise FieldError(path, bad.message) from None
    return Component(role.name, shape, role.count, role.least), replace(pod, count=role.count)
