"""Long work lets other tasks run after a slice of time, not after a number of items."""

import asyncio

import pytest

from federator.kube import clock
from federator.kube.clock import Clock
from tests.unit.kube.scripted import on_virtual_time


class Work(Clock):
    """Advances with the work done."""

    __slots__ = ("spent_s",)

    def __init__(self) -> None:
        super().__init__(0.0)
        self.spent_s = 0.0

    def elapsed(self) -> float:
        return self.spent_s


@pytest.mark.parametrize(("item_s", "turns"), [(0.001, 19), (0.0001, 1), (0.02, 99), (0.0, 0)])
@on_virtual_time
async def test_other_tasks_run_after_each_five_milliseconds_of_work(
    item_s: float, turns: int
) -> None:
    work, taken, seen = Work(), 0, list[int]()

    async def other() -> None:
        nonlocal taken
        while True:
            await asyncio.sleep(0)
            taken += 1

    beside = asyncio.create_task(other())
    await asyncio.sleep(0)
    taken = 0
    async for item in clock.in_slices(range(100), work):
        seen.append(item)
        work.spent_s += item_s
    beside.cancel()

    assert seen == list(range(100))
    assert taken == turns


def test_parts_end_when_their_slice_is_used_up() -> None:
    work, parts = Work(), list[list[int]]()
    for part in clock.parts(range(12), work):
        parts.append([])
        for item in part:
            parts[-1].append(item)
            work.spent_s += 0.0011

    assert parts == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]


def test_nothing_to_do_has_no_parts() -> None:
    assert list(clock.parts([], Work())) == []
