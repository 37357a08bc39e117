"""Progress of a workload, computed from the host's object alone: what `rollout status` and `wait`
print, and when they end. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.kind import Kind
from federator.model.ask import Unit
from federator.model.decision import Reason

BY_ACCOUNT: Final = frozenset(
    reason.value
    for reason in (Reason.EXCEEDS_MAX_QUOTA, Reason.PRIORITY_EXCEEDS_MAX, Reason.NOT_ALLOWED)
)
"""Reasons of Stalled that an edit of a FederatedQuota may lift."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`done`; or `failed`, with the reason why waiting longer cannot help; or `waits`, what is
    still missing."""

    done: bool = False
    failed: str = ""
    waits: str = ""
    passing: bool = False
    """The failure is a refusal by an account. It may be older than the last edit of the account,
    which does not show in the workload."""
    explained: bool = False
    """Copies lack a place, so that `federator explain` prints fixes."""


DONE: Final = Progress(done=True)


def name_of(kind: Kind, obj: Obj) -> str:
    """`psvc "web"`, as kubectl names a Deployment during a rollout."""
    short = kind.singular if kind.model is None else (kind.short_names or (kind.singular,))[0]
    return f'{short} "{raw.text(obj, "metadata", "name")}"'


def condition(obj: Obj, which: str) -> Obj:
    """The condition if it was observed at the current generation; else an empty object."""
    current = raw.condition(obj, which)
    observed = raw.integer(obj, "status", "observedGeneration")
    return (
        current
        if raw.integer(current, "observedGeneration", default=observed) >= _generation(obj)
        else raw.NO_FIELDS
    )


def _generation(obj: Obj) -> int:
    return raw.integer(obj, "metadata", "generation")


def stalled(obj: Obj) -> str:
    """Reason and message of condition Stalled, which needs a change by a user; "" when it is not
    stalled."""
    current = condition(obj, "Stalled")
    return (
        f"{current.get('reason')}: {current.get('message')}"
        if current.get("status") == "True"
        else ""
    )


def _failed(kind: Kind, obj: Obj, why: str) -> Progress:
    """The progress of a workload that is stalled."""
    return Progress(
        failed=f"{name_of(kind, obj)} is stalled: {why}",
        passing=condition(obj, "Stalled").get("reason") in BY_ACCOUNT,
        explained=_unplaced(obj),
    )


def _unplaced(obj: Obj) -> bool:
    return condition(obj, "Placed").get("status") == "False"


def rolled_out(kind: Kind, obj: Obj) -> Progress:
    """Done when every copy has the current template and is ready, and no older copy is left."""
    name, status = name_of(kind, obj), raw.mapping(obj, "status")
    if kind.verbs is None or kind.verbs.unit is not Unit.REPLICAS:
        return Progress(
            failed=(
                f"a {kind.kind} has no rollout: its shards keep the template that they started with"
            )
        )
    if kind.verbs.suspended(obj):
        return Progress(failed=f"{name} is suspended: it does not change until it is resumed")
    if why := stalled(obj):
        return _failed(kind, obj, why)
    if raw.integer(status, "observedGeneration") < _generation(obj):
        return Progress(waits=f"Waiting for {name} spec update to be observed...")
    native = kind.model is None
    desired = kind.verbs.count(obj) if native else raw.integer(status, "desired")
    every_node = kind.verbs.every_node
    things = "pods" if every_node else "replicas"
    updated = raw.integer(status, "updated" if every_node else "updatedReplicas")
    exist = raw.integer(status, "current" if every_node else "replicas")
    ready = raw.integer(status, "readyReplicas" if native else "ready")
    finish = f"Waiting for {name} rollout to finish:"
    placed = condition(obj, "Placed")
    if placed.get("status") == "False":
        return Progress(waits=f"{finish} {placed.get('message')}", explained=True)
    if updated < desired:
        return Progress(
            waits=f"{finish} {updated} out of {desired} new {things} have been updated..."
        )
    if exist > updated:
        return Progress(waits=f"{finish} {exist - updated} old {things} are pending termination...")
    if ready < updated:
        return Progress(waits=f"{finish} {ready} of {updated} updated {things} are available...")
    return (
        DONE
        if condition(obj, "Ready").get("status") == "True"
        else Progress(waits=f"{finish} {_condition_text(obj, 'Ready')}")
    )


def _condition_text(obj: Obj, which: str) -> str:
    current = raw.condition(obj, which)
    if not current:
        return f"there is no condition {which} yet"
    status, message = current.get("status"), current.get("message") or ""
    return f"{which} is {status} ({current.get('reason')}): {message}".strip()


def clusters(obj: Obj) -> dict[str, str]:
    """Cluster -> its state, for clusters with a part of the workload; empty for carried native
    kinds."""
    return {
        raw.text(row, "cluster"): _row(row) for row in raw.objects(obj, "status", "clusterStatuses")
    }


def _row(row: Obj) -> str:
    names = ("desired" if "desired" in row else "replicas", "updated", "ready")
    desired, updated, ready = (raw.integer(row, name) for name in names)
    text = f"{updated}/{desired} updated, {ready} ready"
    if not raw.flag(row, "known"):
        return f"{text} at its last report"
    reason, message = raw.text(row, "reason"), raw.text(row, "message")
    return text + (f" ({reason}: {message})" if reason else "")


def _true(which: str) -> Callable[[Kind, Obj], Progress]:
    def judge(kind: Kind, obj: Obj) -> Progress:
        if condition(obj, which).get("status") == "True":
            return DONE
        if why := stalled(obj):
            return _failed(kind, obj, why)
        waits = _behind(obj) or _condition_text(obj, which)
        return Progress(waits=waits, explained=_unplaced(obj))

    return judge


def _behind(obj: Obj) -> str:
    observed = raw.integer(obj, "status", "observedGeneration")
    return (
        ""
        if observed >= _generation(obj)
        else f"generation {_generation(obj)} has not been observed yet"
    )


def _complete(kind: Kind, obj: Obj) -> Progress:
    name = name_of(kind, obj)
    if kind.verbs is None or kind.verbs.unit is not Unit.SHARDS:
        return Progress(
            failed=f"{name} never completes: it is a service; wait for ready or rolled-out"
        )
    if raw.condition(obj, "Failed").get("status") == "True":
        return Progress(
            failed=f"{name} failed: {raw.text(raw.condition(obj, 'Failed'), 'message')}"
        )
    return (
        _true("Complete")(kind, obj)
        if raw.condition(obj, "Complete")
        else Progress(waits=_condition_text(obj, "Ready"))
    )


GOALS: Mapping[str, Callable[[Kind, Obj], Progress]] = {
    "ready": _true("Ready"),
    "available": _true("Available"),
    "placed": _true("Placed"),
    "rolled-out": rolled_out,
    "complete": _complete,
}
"""Goals of `wait --for` for an existing object; `deleted` is handled by its absence."""


def decisions_left(decisions: Sequence[Obj], kind: Kind, name: str) -> list[Obj]:
    """The decisions of a deleted workload that are still emptying its clusters."""
    own = {"kind": kind.kind, "name": name}
    return [
        each for each in decisions if own.items() <= raw.mapping(each, "spec", "workload").items()
    ]
