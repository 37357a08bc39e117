"""Distinguishes the cancellation of a task from a cancellation that only strayed into it.

A library may cancel a future that a task of ours waits for (aiohttp does, with tasks that wait for
a connection or for the name of a server while their connector is closed). The task sees a
CancelledError as if it had been cancelled itself, and a worker of a queue that ends on it is gone
without an error.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Astray(Exception):
    """What the task waited for was cancelled, and the task itself was not."""


def is_ours() -> bool:
    """Whether the running task itself has been cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def contained(work: Awaitable[T]) -> T:
    """The result of `work`. Raises `Astray` for a cancellation that does not mean the running
    task."""
    try:
        return await work
    except asyncio.CancelledError as exc:
        if is_ours():
            raise
        raise Astray("what was waited for was cancelled") from exc
