"""Bounds on how much of one thing happens at once, in the whole process or with one server, which
hung servers cannot use up.

Reflectors list behind some (F37): fifty members that reconnect in one second are not read all at
the same time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from federator.kube.store import Flag

GATE_S = 5.0
"""A place is held for this long at most, in seconds, where nothing else is said."""


@contextlib.asynccontextmanager
async def place_in(*bounds: asyncio.Semaphore, hold_s: float = GATE_S) -> AsyncIterator[None]:
    """Holds a place in each, got in this order, and gives them up `hold_s` after the last even if
    the body goes on."""
    held: list[asyncio.Semaphore] = []

    def give_up() -> None:
        while held:
            held.pop().release()

    try:
        for bound in bounds:
            await bound.acquire()
            held.append(bound)
        timer = asyncio.get_running_loop().call_later(hold_s, give_up)
        try:
            yield
        finally:
            timer.cancel()
    finally:
        give_up()


class Wait:
    """A wait that others may cut short."""

    __slots__ = ("_over",)

    def __init__(self) -> None:
        self._over = Flag()

    def end(self) -> None:
        """Ends the wait that is going on, if there is one."""
        self._over.set()

    async def at_most(self, seconds: float) -> None:
        """Waits so long, or until `end` is called."""
        self._over.clear()
        await set_within(self._over, seconds)


async def set_within(event: asyncio.Event | Flag, within_s: float) -> bool:
    """Waits for the event, `within_s` seconds at most. Returns whether it is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()
    return event.is_set()
