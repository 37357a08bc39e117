"""What each slice may have at once: the shape of a copy, as the hub charged it, and how many.
Remembered by the slice's content.

Read by the capacity report for every slice and every survey, so nothing is computed twice for an
unchanged slice.
"""

import contextlib
from typing import Any

from federator.api import raw
from federator.kinds import asks
from federator.member.cache import jobs
from federator.member.cache.rows import SliceRow
from federator.member.cache.stores import Stores
from federator.member.expansion.expanding import Expander, ExpansionRefused
from federator.model import shards
from federator.model.ask import PodShape, Unit
from federator.model.errors import FieldError
from federator.model.names import WorkloadKey

Owed = tuple[PodShape, int]


class Entitlements:
    """Callable: slice -> (shape, copies), None for what is not ours to count."""

    def __init__(self, caches: Stores, expander: Expander) -> None:
        self._caches = caches
        self._expander = expander
        self._cached: dict[WorkloadKey, tuple[tuple[str, str, bool], Owed | None]] = {}

    def __call__(self, row: SliceRow) -> Owed | None:
        mark = self._expander.mark_of(row)
        if mark is None or row.deleting:
            self._cached.pop(row.key, None)
            return None
        profile = None
        # it is counted without its support until the profile is here
        with contextlib.suppress(ExpansionRefused):
            profile = self._expander.profile_of(mark)
        state = (row.uid, row.content, profile is not None)
        cached = self._cached.get(row.key)
        if cached is None or cached[0] != state:
            cached = self._cached[row.key] = (state, self._compute(row, mark.ranges, profile))
        return cached[1]

    def _compute(
        self, row: SliceRow, ranges: shards.Ranges, profile: dict[str, Any] | None
    ) -> Owed | None:
        obj = row.obj()
        try:
            shape = asks.shape_of(obj, row.verbs, profile)
        except FieldError:
            return None
        if shape.every_node:
            return shape, 1
        if row.verbs.unit is Unit.REPLICAS:
            return shape, row.verbs.count(obj)
        left = shards.minus(shards.normal(ranges), jobs.done(raw.mapping(obj, "status")))
        return shape, min(row.verbs.slots(obj), shards.size(left))
