"""The hub's own taints of a MemberCluster, and since when the NoExecute taints of people lie on it.

`spec.taints[].timeAdded` says it where a person or a tool writes it. For the others the hub records
in the status when it saw the taint first, because it writes no spec; so tolerations with seconds
go on counting when another hub leads.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from federator.api import capacityfields, raw
from federator.api.common import LabelKey, LabelValue, Model, Moment
from federator.api.raw import Obj
from federator.model.kubernetes import taints
from federator.model.kubernetes.taints import Taint


class HubTaint(Model):
    """A taint that the hub has set itself."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """federation.pinterest.com/unreachable: nothing is heard of the cluster."""
    effect: Literal["NoExecute"]
    """NoExecute: work that does not tolerate it leaves, at the pace of failovers."""
    time_added: Moment
    """When it was set."""


class TaintTime(Model):
    """When the hub saw a NoExecute taint of `spec.taints` first that does not say when it was
    added."""

    key: LabelKey
    """Key of the taint."""
    value: LabelValue = ""
    """Value of the taint."""
    time_added: Moment
    """When it was seen first."""


def added_s(obj: Obj) -> tuple[tuple[Taint, float], ...]:
    """The NoExecute taints of people with the time of each in epoch seconds; without those that
    nobody has timed yet."""
    seen = _seen(raw.mapping(obj, "status"))
    timed = ((taint, time or seen.get((taint.key, taint.value), "")) for taint, time in _own(obj))
    return tuple((taint, at_s) for taint, time in timed if (at_s := raw.epoch_s(time)))


def times(obj: Obj, live: Obj, now: str) -> list[dict[str, Any]]:
    """`status.taintTimes`: each untimed taint keeps the time that the status (`live`) has of it; a
    new one gets the present."""
    seen = _seen(live)
    return [
        {
            "key": taint.key,
            **({"value": taint.value} if taint.value else {}),
            "timeAdded": seen.get((taint.key, taint.value), now),
        }
        for taint, time in _own(obj)
        if not time
    ]


def _own(obj: Obj) -> Iterator[tuple[Taint, str]]:
    """The NoExecute taints of people, and when each was added by `spec.taints`, "" for unknown."""
    for entry in raw.objects(obj, "spec", "taints"):
        for taint in taints.evicting(capacityfields.taints_of([entry])):
            yield taint, raw.text(entry, "timeAdded")


def _seen(status: Obj) -> dict[tuple[str, str], str]:
    return {
        (raw.text(entry, "key"), raw.text(entry, "value")): raw.text(entry, "timeAdded")
        for entry in raw.objects(status, "taintTimes")
    }
