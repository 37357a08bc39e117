"""How far a workload is, from the host's object alone: what `rollout status` and `wait` print, and when they end.
Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.kind import Kind
from federator.model.ask import Unit


@dataclass(frozen=True, slots=True)
class Progress:
    """`done`, or `failed` with a sentence (waiting longer is of no use), or what is waited for."""

    done: bool = False
    failed: str = ""
    waits: str = ""


DONE: Final = Progress(done=True)


def name_of(kind: Kind, obj: Obj) -> str:
    """`psvc "web"`: as kubectl names a Deployment while it rolls."""
    short = kind.singular if kind.model is None else (kind.short_names or (kind.singular,))[0]
    return f'{short} "{raw.text(obj, "metadata", "name")}"'


def condition(obj: Obj, which: str) -> Obj:
    """The condition, if it speaks of the present generation; else nothing."""
    found = raw.condition(obj, which)
    observed = raw.integer(obj, "status", "observedGeneration")
    return found if raw.integer(found, "observedGeneration", default=observed) >= _generation(obj) else raw.NO_FIELDS


def _generation(obj: Obj) -> int:
    return raw.integer(obj, "metadata", "generation")


def stalled(obj: Obj) -> str:
    """Why it does not go on unless somebody changes something; "" when it does."""
    found = condition(obj, "Stalled")
    return f"{found.get('reason')}: {found.get('message')}" if found.get("status") == "True" else ""


def rolled_out(kind: Kind, obj: Obj) -> Progress:
    """Whether every copy is of the present template and ready, and none of another is left."""
    name, status = name_of(kind, obj), raw.mapping(obj, "status")
    if kind.verbs is None or kind.verbs.unit is not Unit.REPLICAS:
        return Progress(failed=f"a {kind.kind} does not roll: its shards keep the template that they began with")
    if kind.verbs.suspended(obj):
        return Progress(failed=f"{name} is suspended: nothing of it is changed until it is resumed")
    if why := stalled(obj):
        return Progress(failed=f"{name} is stalled: {why}")
    if raw.integer(status, "observedGeneration") < _generation(obj):
        return Progress(waits=f"Waiting for {name} spec update to be observed...")
    native = kind.model is None
    wanted = kind.verbs.count(obj) if native else raw.integer(status, "desired")
    updated, exist = raw.integer(status, "updatedReplicas"), raw.integer(status, "replicas")
    ready = raw.integer(status, "readyReplicas" if native else "ready")
    finish = f"Waiting for {name} rollout to finish:"
    placed = condition(obj, "Placed")
    if placed.get("status") == "False":
        return Progress(waits=f"{finish} {placed.get('message')}")
    if updated < wanted:
        return Progress(waits=f"{finish} {updated} out of {wanted} new replicas have been updated...")
    if exist > updated:
        return Progress(waits=f"{finish} {exist - updated} old replicas are pending termination...")
    if ready < updated:
        return Progress(waits=f"{finish} {ready} of {updated} updated replicas are available...")
    return (
        DONE if condition(obj, "Ready").get("status") == "True" else Progress(waits=f"{finish} {_said(obj, 'Ready')}")
    )


def _said(obj: Obj, which: str) -> str:
    found = raw.condition(obj, which)
    if not found:
        return f"there is no condition {which} yet"
    return f"{which} is {found.get('status')} ({found.get('reason')}): {found.get('message') or ''}".strip()


def clusters(obj: Obj) -> dict[str, str]:
    """One line per cluster that has, or still holds, a part; a carried native kind does not tell them apart."""
    return {raw.text(row, "cluster"): _row(row) for row in raw.objects(obj, "status", "clusterStatuses")}


def _row(row: Obj) -> str:
    wanted, updated, ready = (raw.integer(row, name) for name in ("replicas", "updated", "ready"))
    text = f"{updated}/{wanted} updated, {ready} ready"
    if not raw.flag(row, "known"):
        return f"{text} when it was last heard"
    reason, message = raw.text(row, "reason"), raw.text(row, "message")
    return text + (f" ({reason}: {message})" if reason else "")


def _true(which: str) -> Callable[[Kind, Obj], Progress]:
    def judge(kind: Kind, obj: Obj) -> Progress:
        if condition(obj, which).get("status") == "True":
            return DONE
        if why := stalled(obj):
            return Progress(failed=f"{name_of(kind, obj)} is stalled: {why}")
        return Progress(waits=_behind(obj) or _said(obj, which))

    return judge


def _behind(obj: Obj) -> str:
    observed = raw.integer(obj, "status", "observedGeneration")
    return "" if observed >= _generation(obj) else f"generation {_generation(obj)} has not been observed yet"


def _complete(kind: Kind, obj: Obj) -> Progress:
    name = name_of(kind, obj)
    if kind.verbs is None or kind.verbs.unit is not Unit.SHARDS:
        return Progress(failed=f"{name} never completes: it is a service; wait for ready or rolled-out")
    if raw.condition(obj, "Failed").get("status") == "True":
        return Progress(failed=f"{name} failed: {raw.text(raw.condition(obj, 'Failed'), 'message')}")
    return _true("Complete")(kind, obj) if raw.condition(obj, "Complete") else Progress(waits=_said(obj, "Ready"))


GOALS: Mapping[str, Callable[[Kind, Obj], Progress]] = {
    "ready": _true("Ready"),
    "available": _true("Available"),
    "placed": _true("Placed"),
    "rolled-out": rolled_out,
    "complete": _complete,
}
"""What `wait --for` knows of an object that exists; `deleted` is its absence."""


def decisions_left(decisions: Sequence[Obj], kind: Kind, name: str) -> list[Obj]:
    """Of a workload that is gone: the decisions that still empty its clusters."""
    own = {"kind": kind.kind, "name": name}
    return [one for one in decisions if own.items() <= raw.mapping(one, "spec", "workload").items()]
