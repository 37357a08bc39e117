"""The question whether a member is still itself: put after each wish to know, shared, and never a
flood.
"""

import asyncio

import pytest

from federator.hub.members.connecting.identity import AT_ONCE, PAUSE_S, Sameness
from federator.kube import errors
from federator.kube.clock import Clock
from tests import virtual_time


class Cluster:
    """Answers as `uid`, and counts."""

    def __init__(self) -> None:
        self.uid = "one"
        self.asked = 0

    async def kube_system_uid(self) -> str:
        self.asked += 1
        await asyncio.sleep(0.1)
        return self.uid


def test_those_who_ask_together_share_an_answer_to_a_question_put_after_they_asked() -> None:
    async def main() -> None:
        cluster, told = Cluster(), list[str]()
        same = Sameness(cluster, "a", "one", Clock(0.0), told.append)
        await asyncio.gather(*(same.check() for _ in range(5)))
        assert cluster.asked == 1

    virtual_time.run(main())


def test_an_answer_from_before_is_not_enough_and_another_cluster_is_told() -> None:
    async def main() -> None:
        cluster, told = Cluster(), list[str]()
        same = Sameness(cluster, "a", "one", Clock(0.0), told.append)
        first = asyncio.create_task(same.check())
        await asyncio.sleep(0.05)
        cluster.uid = "two"
        with pytest.raises(errors.ServerTrouble, match="answers as two"):
            await asyncio.gather(first, same.check())
        assert told == ["two"]

    virtual_time.run(main())


def test_many_questions_have_pauses_between_them() -> None:
    async def main() -> None:
        cluster, clock, told = Cluster(), Clock(0.0), list[str]()
        same = Sameness(cluster, "a", "one", clock, told.append)
        for _ in range(AT_ONCE):
            await same.check()
        assert clock.monotonic() < PAUSE_S
        for _ in range(4):
            await same.check()
        assert clock.monotonic() >= 3 * PAUSE_S

    virtual_time.run(main())
