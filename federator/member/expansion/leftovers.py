"""Removes natives that must outlive another object of their workload, once that has gone.

The garbage collector deletes all that an owner has at once; what has to go last has no owner
(`natives.NativeKind.outlives`). It goes when no slice of its workload and no such object is left,
also where this process did not run when they went.
"""

import random
from typing import Final

from federator.kinds.natives import NATIVES
from federator.kube.control.applier import Applier
from federator.kube.control.work_queue import WorkQueue
from federator.kube.metrics import Metrics
from federator.member.cache.caches import Caches
from federator.member.cache.rows import NativeRow
from federator.member.cache.stores import native_ref
from federator.model.names import WorkloadKey
from federator.model.steps import Delete

_LAST: Final = tuple(name for name, row in NATIVES.items() if row.outlives)


class Leftovers:
    """One per process; a turn looks at all objects of one kind."""

    def __init__(
        self,
        caches: Caches,
        applier: Applier,
        *,
        fleet: str,
        rng: random.Random,
        metrics: Metrics | None,
    ) -> None:
        self._caches = caches
        self._applier = applier
        self._fleet = fleet
        self._queue: WorkQueue[str] = WorkQueue("leftovers", rng=rng, metrics=metrics)
        caches.signals.to_expand.append(self._on_slice)
        caches.signals.to_reference.append(self._on_native)

    async def run(self) -> None:
        """Until cancelled. Not before everything is listed: an absence means nothing until then."""
        await self._queue.run(self._turn, 1)

    def _on_native(self, kind: str, namespace: str, name: str) -> None:
        for last in _LAST:
            if kind in (last, NATIVES[last].outlives):
                self._queue.add(last)

    def _on_slice(self, key: WorkloadKey) -> None:
        if self._caches.slice(key) is None:
            for last in _LAST:
                if len(self._caches.natives[last]):
                    self._queue.add(last)

    async def _turn(self, kind: str) -> None:
        """Deletes those that nothing needs any more. Raises ApiErrors of writes."""
        left = [row for row in self._caches.natives[kind].items().values() if self._is_left(row)]
        for row in left:
            outcome = await self._applier.apply(Delete(native_ref(row.key), row.uid), kind)
            if outcome.error is not None and not outcome.gone:
                raise outcome.error

    def _is_left(self, row: NativeRow) -> bool:
        ours = row.managed and row.fleet == self._fleet and bool(row.workload_uid)
        if not ours or row.owner_uid or row.deleting:
            return False
        before = self._caches.natives[NATIVES[row.key[0]].outlives].items().values()
        if any(other.workload_uid == row.workload_uid for other in before):
            return False
        return not any(
            living.mark is not None and living.mark.workload_uid == row.workload_uid
            for living in self._caches.every_slice()
        )
