"""The edits that people make with a button or a command, as merge patches: scale, suspend, restart,
undo, cordon, drain and pause. Pure.

A patch has no precondition; `kube.optimistic` writes it into the object that somebody has seen.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.kind import Kind
from federator.kinds.pods import podparts, revisions
from federator.kinds.pods.revisions import Revision
from federator.model.ask import Unit
from federator.model.errors import FieldError
from federator.model.kubernetes import diffs

Patch = dict[str, Any]
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""Annotation of a pod template: a change of it replaces every pod."""
REASON_MAX: Final = 256
"""Characters of the reason for a pause."""


def scaled(kind: Kind, count: int) -> Patch:
    """Sets the number of replicas."""
    assert scales(kind)
    return {"spec": {"replicas": count}}


def scales(kind: Kind) -> bool:
    """Whether workloads of a kind have a number of replicas."""
    return kind.verbs is not None and kind.verbs.amount == "replicas"


def suspended(kind: Kind, yes: bool) -> Patch:
    """Suspends a workload, or lets it run again."""
    assert kind.verbs is not None
    path = kind.verbs.fields["suspend"]
    value: Any = ("true" if "annotations" in path else True) if yes else None
    for name in reversed(path):
        value = {name: value}
    patch: Patch = value
    return patch


def rolls_out(kind: Kind) -> bool:
    """Whether a changed template of a workload of this kind replaces its pods."""
    return kind.verbs is not None and kind.verbs.unit is Unit.REPLICAS


def restarted(obj: Obj, stamp: str) -> Patch:
    """Replaces every pod, as kubectl does. `stamp`: RFC 3339. Raises FieldError for a workload that
    was restarted in the same second."""
    if raw.text(obj, "spec", "template", "metadata", "annotations", RESTARTED_AT) == stamp:
        raise FieldError("", "it was already restarted in this second; try again")
    return {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: stamp}}}}}


def present(kind: Kind, obj: Obj) -> Revision:
    """The state of a workload that never rolled out, as revision 1."""
    assert kind.verbs is not None
    created = raw.text(obj, "metadata", "creationTimestamp")
    return Revision("", "", 1, kind.verbs.pods(obj), ("", ""), revisions.cause_of(obj), created)


def earlier(kept: Sequence[Revision], parts: Mapping[str, Any], number: int = 0) -> Revision:
    """The revision with that number; for 0 the newest that differs from the current parts. Raises
    FieldError."""
    if number:
        chosen = next((each for each in kept if each.number == number), None)
        if chosen is None:
            numbers = ", ".join(str(each.number) for each in kept)
            raise FieldError("", f"unable to find revision {number}; there are {numbers}")
        return chosen
    chosen = next((each for each in reversed(kept) if dict(each.parts) != parts), None)
    if chosen is None:
        raise FieldError("", "no rollout history found: its pods have never changed")
    return chosen


def undone(kind: Kind, obj: Obj, chosen: Revision) -> Patch:
    """Writes the pods of a revision back."""
    fields = ("template",) if kind.model is None else podparts.FIELDS
    spec = raw.mapping(obj, "spec")
    live = {name: spec[name] for name in fields if name in spec}
    wanted = dict(chosen.parts)
    if pin := raw.mapping(spec, "runtime", "version"):  # it is no part of the pods, and stays
        wanted["runtime"] = {**raw.mapping(wanted, "runtime"), "version": pin}
    patch: Patch = {"spec": diffs.replacement_patch(live, wanted)}
    if chosen.cause != revisions.cause_of(obj):
        patch["metadata"] = {"annotations": {revisions.CHANGE_CAUSE: chosen.cause or None}}
    return patch


def cordoned(yes: bool) -> Patch:
    """Keeps new copies away from a cluster, or lets them in again."""
    return {"spec": {"cordoned": yes}}


def drained(wish: Mapping[str, Any] | None) -> Patch:
    """Moves everything in a cluster to others. `wish`: the options of the drain; None ends it."""
    return {"spec": {"drain": None if wish is None else dict(wish)}}


def paused(by: str, since: str, reason: str) -> dict[str, str]:
    """The data of the pause object: nothing is placed or dispatched."""
    words = " ".join(reason.split())
    return {"paused": "true", "since": since, "by": by} | ({"reason": words} if words else {})


RESUMED: Final[Mapping[str, str]] = {"paused": "false"}
"""The data of the pause object without a pause."""
