"""Who computes at the same time: a place for each class, and the shared ones by urgency."""

import asyncio
import contextlib

import pytest

from federator.hub.snapshot.places import WAITING_MAX, Full, Kind, Places

pytestmark = pytest.mark.asyncio


class Callers:
    """Callers of one kind of places, each until it is let go."""

    def __init__(self, shared: int) -> None:
        self.places = Places(shared)
        self.inside: list[str] = []
        self._tasks: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}

    async def come(self, name: str, kind: Kind) -> None:
        go = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._stay(name, kind, go)), go
        await turns()

    async def go(self, name: str) -> None:
        task, go = self._tasks.pop(name)
        go.set()
        await task
        await turns()

    async def leave(self, name: str) -> None:
        """Gives up."""
        task, _ = self._tasks.pop(name)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await turns()

    async def _stay(self, name: str, kind: Kind, go: asyncio.Event) -> None:
        async with self.places.taken(kind):
            self.inside.append(name)
            try:
                await go.wait()
            finally:
                self.inside.remove(name)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_class_is_kept_out_by_others() -> None:
    callers = Callers(shared=1)
    for number in range(5):
        await callers.come(f"plan{number}", Kind.PLAN)
    for kind in (Kind.VERDICT, Kind.WHAT_IF, Kind.DRILL):
        await callers.come(kind.name, kind)

    assert callers.inside == ["plan0", "plan1", "VERDICT", "WHAT_IF", "DRILL"]


async def test_a_shared_place_goes_to_the_most_urgent_class() -> None:
    callers = Callers(shared=1)
    for kind in (Kind.PLAN, Kind.WHAT_IF, Kind.DRILL):
        await callers.come(f"{kind.name}1", kind)
    await callers.come("shared", Kind.PLAN)
    for kind in (Kind.DRILL, Kind.PLAN, Kind.WHAT_IF):
        await callers.come(f"{kind.name}2", kind)

    await callers.go("shared")
    assert callers.inside[-1] == "WHAT_IF2"
    await callers.go("WHAT_IF2")
    assert callers.inside[-1] == "PLAN2"
    await callers.go("DRILL1")  # the place of its own class
    assert callers.inside[-1] == "DRILL2"


async def test_who_leaves_while_waiting_takes_no_place() -> None:
    callers = Callers(shared=0)
    for name in ("first", "second", "third"):
        await callers.come(name, Kind.PLAN)

    await callers.leave("second")
    await callers.go("first")

    assert callers.inside == ["third"]
    await callers.go("third")
    await callers.come("last", Kind.PLAN)
    assert callers.inside == ["last"]


async def test_too_many_that_wait_are_refused() -> None:
    callers = Callers(shared=0)
    for number in range(WAITING_MAX + 1):
        await callers.come(str(number), Kind.PLAN)

    with pytest.raises(Full):
        async with callers.places.taken(Kind.PLAN):
            pass
    await callers.leave("5")
    await callers.come("next", Kind.PLAN)
    assert callers.inside == ["0"]
