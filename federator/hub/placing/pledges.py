"""Room that batches will free while they are still being written: a decision that takes it waits
until the host has them.

Batches are decided in order and written concurrently. A later batch may use what an earlier one
frees as soon as it is charged, but the host must get the writes in that order. Used by placing, on
the event loop only.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence


class Pledge:
    """What one batch will free. `open_before` are the open pledges of earlier batches."""

    def __init__(self, open_before: Sequence["Pledge"]) -> None:
        self._open_before = tuple(open_before)
        self._kept: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def settle(self, *, kept: bool) -> None:
        """The host has accepted all of it, or will not accept some. Only the first call counts."""
        if not self._kept.done():
            self._kept.set_result(kept)

    async def earlier_kept(self) -> bool:
        """Waits for every earlier batch; returns whether all kept their pledges. Earlier ones never
        wait for later ones."""
        return all([await pledge._kept for pledge in self._open_before])


class Pledges:
    """The pledges of all batches that are being written."""

    def __init__(self) -> None:
        self._open: list[Pledge] = []

    @contextlib.asynccontextmanager
    async def made(self) -> AsyncIterator[Pledge]:
        """The pledge of a batch while it is written. It is settled at the end in any case, so that
        nothing waits for ever."""
        pledge = Pledge(self._open)
        self._open.append(pledge)
        try:
            yield pledge
        finally:
            pledge.settle(kept=False)
            self._open.remove(pledge)
