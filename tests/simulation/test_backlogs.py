"""Job sets that queue for a quota, and a host that takes no statuses: what is done is given back, and done once."""

import asyncio

import pytest

from federator.model import shards
from tests.simulation import running, solo
from tests.simulation.drawing import draw
from tests.simulation.invariants import finished
from tests.simulation.script import JOBSET
from tests.simulation.unreleased import UNRELEASED
from tests.simulation.world import World

BACKLOG = 0
"""A seed with a backlog and a host that refuses statuses for a while."""
DIVIDED = 18
"""A seed in which the shards of one cluster are divided over two others, also without faults."""


@pytest.mark.parametrize("what", sorted(UNRELEASED))
def test_a_bug_in_what_job_sets_give_back_is_caught(what: str) -> None:
    rule, plant = UNRELEASED[what]
    with pytest.raises(running.Broken) as caught:
        running.simulate(draw(BACKLOG), plant)

    assert rule in caught.value.rules, caught.value.breaches[:5]


def test_shards_of_one_cluster_are_divided_over_two_others_and_who_waits_is_served() -> None:
    report = running.simulate(draw(DIVIDED).without_faults())

    assert report.judged["divided"] > 0
    assert report.judged["served"] > 0


def test_what_is_done_while_the_host_takes_no_statuses_is_recorded_afterwards() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "statuses-refused"):
            await asyncio.sleep(30)
            told = [finished(solo.one_of(world, JOBSET, "index", member)) for member in world.members]
            assert shards.normal(one for ranges in told for one in ranges) == ((0, 3),)
            assert finished(solo.one_of(world, JOBSET, "index")) == ()
        await solo.settled(world, 120.0)
        assert finished(solo.one_of(world, JOBSET, "index")) == ((0, 3),)

    running.simulate(solo.world(), course=running.Course(solo.BEGINNING, story=story))
