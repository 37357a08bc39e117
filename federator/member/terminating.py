"""Counts the pods of a slice that exist in addition to those that its status counts.

The hub charges them to the quota account: a controller that replaces or removes a pod does not wait
until it has ended, which takes as long as the pod's grace period. Pods and controllers are watched
separately. So a pod that the controller counts no more may not show yet that it is terminating, and
one that is terminating may still be counted.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.member.cache.rows import SliceRow
from federator.member.cache.stores import Stores
from federator.model.ask import Unit
from federator.model.names import WorkloadKey
from federator.model.steps import Patch

FIELD: Final = "terminatingReplicas"
DEREGISTERED: Final = "deregisteredReplicas"
INTERVAL_S: Final = 5.0
"""Seconds between status writes that only say that fewer pods are terminating, until none is, or
how many of them have left their registry."""


class Terminating:
    """Counts terminating pods by slice. Remembers their controllers, which may be deleted before
    them."""

    def __init__(self, caches: Stores) -> None:
        self._caches = caches
        self._crews: dict[WorkloadKey, tuple[str, ...]] = {}
        """Controllers with terminating pods at the last look."""

    def forget(self, key: WorkloadKey) -> None:
        """The slice is gone."""
        self._crews.pop(key, None)

    def of(self, row: SliceRow, crews: Sequence[str], figures: Mapping[str, Any]) -> dict[str, int]:
        """`terminating` and `deregistered` of a slice of one of our kinds. `crews`: controllers of
        its pods; `figures`: what its status counts."""
        alive, terminating = self._alive(row, crews)
        if not alive:
            return {}
        more = beyond(alive, terminating, *_counted(row, figures, alive - terminating))
        books = self._caches.commitments
        left = sum(map(books.deregistered, self._crews.get(row.key, ())))
        return {"terminating": more, "deregistered": left}

    def of_carried(self, row: SliceRow, crews: Sequence[str], obj: Mapping[str, Any]) -> int:
        """Of a carried Deployment in a cluster that does not count them itself."""
        status = raw.mapping(obj, "status")
        if FIELD in status:
            return 0
        alive, terminating = self._alive(row, crews)
        wanted, actual = row.verbs.count(obj), raw.figure(status, "replicas")
        rolls = raw.figure(status, "updatedReplicas") < actual
        return beyond(alive, terminating, actual, 2 * wanted if rolls else wanted)

    def _alive(self, row: SliceRow, crews: Sequence[str]) -> tuple[int, int]:
        """Pods of the slice that have not ended, and how many of these are terminating."""
        books, alive, terminating = self._caches.commitments, 0, 0
        ending = []
        for crew in dict.fromkeys((*crews, *self._crews.get(row.key, ()))):
            there, leave = books.alive(crew)
            alive, terminating = alive + there, terminating + leave
            if leave:
                books.belongs(crew, row.key)
                ending.append(crew)
        if ending:
            self._crews[row.key] = tuple(ending)
        else:
            self._crews.pop(row.key, None)
        return alive, terminating


def beyond(alive: int, terminating: int, counted: int, allowed: int) -> int:
    """Pods in addition to those that a controller counts. `alive` pods exist, of which some are
    `terminating`; `allowed`: the most that it may keep.

        12 exist, and the controller counts 1 of 1 allowed: 11, even if none is terminating yet
        12 exist, of which 11 are terminating, and the controller still counts 12: 0
        10 exist, none is terminating, and the controller counts 8 of 10 so far: 0
    """
    least = max(alive - max(counted, allowed), 0)
    return max(min(terminating, alive - counted), least)


def _counted(row: SliceRow, figures: Mapping[str, Any], active: int) -> tuple[int, int]:
    """Pods that the status counts, and the most that controllers may keep. `active` pods are not
    terminating."""
    if row.verbs.every_node:
        nodes = figures["nodes"]
        return nodes.current, 2 * nodes.desired
    if row.verbs.repeats is not None:
        return active, row.verbs.count(row.obj())
    if row.verbs.gang is not None:
        roles = figures["gang"].roles
        return sum(role.active for role in roles), sum(role.wanted for role in roles)
    counted = figures["actual"]
    if row.verbs.unit is Unit.SHARDS:
        return counted, row.verbs.slots(row.obj())
    rolls = figures["updated"] < counted
    return counted, 2 * figures["desired"] if rolls else figures["desired"]


def interval_s(step: Patch, row: SliceRow) -> float:
    """Seconds that a write may have to wait after the last one, because it only says that fewer
    pods are terminating, or how many have left their registry; 0.0 for any other."""
    status = step.body.get("status") or {}
    before = raw.figure(row.obj(), "status", FIELD)
    now = status.get(FIELD, before)
    only = status and status.keys() <= {FIELD, DEREGISTERED}
    if not only or not isinstance(now, int) or not now:
        return 0.0
    return INTERVAL_S if now < before or FIELD not in status else 0.0
