"""Work for the processor beside the event loop: few at once, bounded in time, and leaving the loop
its turn."""

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

T = TypeVar("T")
Stop = Callable[[], bool]
"""Whether the caller has gone."""
WAITING_MAX: Final = 8
"""Computations that may wait for a thread; more are refused, to be tried again."""
SWITCH_S: Final = 0.001
"""How soon a thread that computes gives the interpreter up to the event loop, which asks for it
back after each read and write: with Python's own 5 ms the loop would get done less than half."""


class Overloaded(Exception):
    """Too many wait already."""


class Threads:
    """Computes in `at_once` threads, each answer within `timeout_s` seconds, its wait included.
    `work` is given a function that says when to end; the thread is busy until it has."""

    def __init__(self, at_once: int, timeout_s: float) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="advice")
        self._gate = asyncio.Semaphore(at_once)
        self._timeout_s = timeout_s
        self._waiting = 0

    async def __call__(self, work: Callable[[Stop], T]) -> T:
        """What it computes, or raises. Raises `Overloaded` when too many wait, TimeoutError."""
        if self._waiting >= WAITING_MAX:
            raise Overloaded
        ended = threading.Event()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._gate.acquire()
                sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
                running = self._pool.submit(work, ended.is_set)
                running.add_done_callback(_releasing(self._gate, asyncio.get_running_loop()))
                return await asyncio.wrap_future(running)
        finally:
            ended.set()
            self._waiting -= 1


def _releasing(gate: asyncio.Semaphore, loop: asyncio.AbstractEventLoop) -> Callable[[Any], None]:
    """Gives the place of a computation back when its thread is done, however it ends."""

    def release(_: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(gate.release)

    return release
