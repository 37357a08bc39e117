"""A flag wakes as an event of asyncio does, and takes little memory while nobody waits."""

import asyncio
import sys
from collections import deque

import pytest

from federator.kube.store import Flag

KINDS = (Flag, asyncio.Event)


@pytest.mark.parametrize("kind", KINDS)
async def test_all_that_wait_are_woken_and_later_ones_do_not_wait(kind: type[Flag]) -> None:
    flag, woken = kind(), []

    async def wait(name: str) -> None:
        await flag.wait()
        woken.append(name)

    tasks = [asyncio.create_task(wait(name)) for name in "ab"]
    await asyncio.sleep(0)
    assert not flag.is_set()
    assert woken == []
    flag.set()
    flag.clear()  # those that were woken go on nevertheless
    await asyncio.gather(*tasks)
    assert woken == ["a", "b"]
    flag.set()
    assert flag.is_set()
    await flag.wait()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cleared_flag_is_waited_for_again(kind: type[Flag]) -> None:
    flag = kind()
    flag.set()
    flag.clear()
    waiting = asyncio.create_task(flag.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    flag.set()
    await waiting


async def test_a_wait_that_is_cancelled_leaves_nothing() -> None:
    flag = Flag()
    waiting = asyncio.create_task(flag.wait())
    other = asyncio.create_task(flag.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(flag._waiters) == 1
    flag.set()
    await other
    assert not flag._waiters


def test_it_takes_a_tenth_of_what_an_event_does() -> None:
    assert 10 * sys.getsizeof(Flag()) < sys.getsizeof(deque()) + sys.getsizeof(asyncio.Event())
