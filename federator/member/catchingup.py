"""Whether this life of a member process has looked at every slice that it found when it started.

Until then slice statuses may still be what an earlier life wrote, so the lease says that the
process is catching up, and a hub that found it silent does not believe them yet.
"""

import asyncio

from federator.kube import errors
from federator.member.cache.caches import Caches
from federator.member.expansion.expanding import Expander
from federator.member.rolling import RollUp
from federator.model.names import WorkloadKey
from federator.model.steps import RequeueAfter


class CatchingUp:
    """Wraps the turns of expansion and roll-up. `done` is set when none of the first slices is left
    to look at."""

    def __init__(self, caches: Caches, expander: Expander, roll_up: RollUp) -> None:
        self._caches = caches
        self._expander = expander
        self._roll_up = roll_up
        self._left: set[WorkloadKey] | None = None
        """None until it is known which slices there are."""
        self._looked_at: set[WorkloadKey] = set()
        """Slices that were looked at before that."""
        self.done = asyncio.Event()

    async def run(self) -> None:
        """Begins to count as soon as everything has been listed."""
        await self._caches.until(lambda: self._caches.room_synced)
        slices = {row.key for row in self._caches.every_slice() if self._ours(row.key)}
        self._left = slices - self._looked_at
        self._looked_at.clear()
        self._look()

    async def expand(self, key: WorkloadKey) -> RequeueAfter | None:
        """The expander's turn."""
        looked = False
        try:
            return await self._expander.turn(key)
        except errors.ApiError as trouble:
            looked = not trouble.transient  # nothing that is tried again would tell more
            raise
        finally:
            if looked or not self._ours(key):
                self._drop(key)

    async def roll_up(self, key: WorkloadKey) -> RequeueAfter | None:
        """The roll-up's turn; one that waits to write, or could not, is not the last."""
        try:
            again = await self._roll_up.turn(key)
        except errors.ApiError as trouble:
            if not trouble.transient:
                self._drop(key)
            raise
        if again is None and (key in self._expander.results or not self._ours(key)):
            self._drop(key)
        return again

    def _ours(self, key: WorkloadKey) -> bool:
        row = self._caches.slice(key)
        return row is not None and not row.deleting and self._expander.mark_of(row) is not None

    def _drop(self, key: WorkloadKey) -> None:
        if self._left is None:
            self._looked_at.add(key)
        elif key in self._left:
            self._left.discard(key)
            self._look()

    def _look(self) -> None:
        if not self._left:
            self.done.set()
