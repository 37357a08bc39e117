"""How many answers are computed at the same time: places by class. Belongs to one event loop.

Each class has a place of its own, so that no class is ever kept out by others. Beyond those there
are shared places. A free shared place goes to the class that is first in `Kind`.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """Classes of questions, the most urgent first."""

    VERDICT = 0
    """A submission waits for it."""
    WHAT_IF = 1
    """A person waits for one workload: `explain`, `place`, a page."""
    PLAN = 2
    DRILL = 3
    """Nobody waits for it."""


WORKER_NICE: Final = 2
NICE: Final = {Kind.VERDICT: 0, Kind.WHAT_IF: 0, Kind.PLAN: 5, Kind.DRILL: 10}
"""How much less of the processor a class gets than the worker, which gets less than the hub."""
RESERVED: Final = {Kind.VERDICT: 1, Kind.WHAT_IF: 1, Kind.PLAN: 1, Kind.DRILL: 1}
WAITING_MAX: Final = 8
"""Questions of one class that may wait for a place; more are refused, to be asked again."""


class Full(Exception):
    """Too many of this class wait already."""


class Places:
    """`shared`: places beside the reserved ones."""

    def __init__(self, shared: int) -> None:
        self._reserved = dict(RESERVED)
        self._shared = shared
        self._waiting: dict[Kind, deque[asyncio.Future[bool]]] = {kind: deque() for kind in Kind}

    @contextlib.asynccontextmanager
    async def taken(self, kind: Kind) -> AsyncIterator[None]:
        """A place for one answer, as soon as there is one. Raises `Full`."""
        own = await self._take(kind)
        try:
            yield
        finally:
            self._leave(kind, own=own)

    async def _take(self, kind: Kind) -> bool:
        """Whether the place is one of those of the class."""
        if self._reserved[kind]:
            self._reserved[kind] -= 1
            return True
        if self._shared:
            self._shared -= 1
            return False
        turns = self._waiting[kind]
        if sum(not turn.done() for turn in turns) >= WAITING_MAX:
            raise Full
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[kind] = deque(each for each in turns if not each.done())
        self._waiting[kind].append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(kind, own=turn.result())  # it had its turn in the same moment
            raise

    def _leave(self, kind: Kind, *, own: bool) -> None:
        """Gives the place to the first that waits, or back."""
        for waiting in (kind,) if own else Kind:
            turns = self._waiting[waiting]
            while turns:
                if not (turn := turns.popleft()).done():  # else its caller has left
                    turn.set_result(own)
                    return
        if own:
            self._reserved[kind] += 1
        else:
            self._shared += 1
