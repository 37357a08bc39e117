"""Tells a cancellation that was meant for the task it arrives in from one that strayed into it.

A library may cancel a future that a task of ours waits for (aiohttp does, with those who wait for a
connection or for the name of a server while their connector is closed). The task sees a
CancelledError as if somebody had cancelled it, and a server of a queue that takes it for its own
end is gone without a word.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Astray(Exception):
    """What was waited for was cancelled by somebody who did not mean us."""


def is_ours() -> bool:
    """Whether somebody has cancelled the running task itself."""
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
