"""What batches that are still being written give up: who takes it must wait until the host has it.

Batches are decided one after the other and written side by side. A later one counts on what an
earlier one gives up as soon as that is booked; the host must hear of it in that order all the same.
Used by placing, on the event loop only.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence


class Pledge:
    """What one batch gives up. `open_before` are the pledges of earlier batches that were not kept
    yet."""

    def __init__(self, open_before: Sequence["Pledge"]) -> None:
        self._open_before = tuple(open_before)
        self._kept: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def settle(self, *, kept: bool) -> None:
        """All of it was taken by the host, or not all will be. Only the first word counts."""
        if not self._kept.done():
            self._kept.set_result(kept)

    async def earlier_kept(self) -> bool:
        """Waits for every earlier batch; whether all of them kept theirs. Earlier ones never wait
        for later ones."""
        return all([await one._kept for one in self._open_before])


class Pledges:
    """Of all batches that are being written."""

    def __init__(self) -> None:
        self._open: list[Pledge] = []

    @contextlib.asynccontextmanager
    async def made(self) -> AsyncIterator[Pledge]:
        """The pledge of a batch while it is written; whatever ends that, nobody waits for it any
        more."""
        pledge = Pledge(self._open)
        self._open.append(pledge)
        try:
            yield pledge
        finally:
            pledge.settle(kept=False)
            self._open.remove(pledge)
