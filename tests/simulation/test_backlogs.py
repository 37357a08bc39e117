"""Job sets that queue for a quota, and a host that takes no statuses: what is done is given back,
and done once.
"""

import asyncio
import itertools
from collections import Counter

import pytest

from federator.model import shards
from tests.simulation import running, solo
from tests.simulation.drawing import Parameters, draw, has_backlog
from tests.simulation.invariants import finished
from tests.simulation.script import JOBSET
from tests.simulation.unreleased import UNRELEASED
from tests.simulation.world import World

BACKLOGS = tuple(itertools.islice(filter(has_backlog, itertools.count()), 5))
"""The first seeds with a backlog; most have a host that refuses statuses for a while."""


@pytest.mark.long
@pytest.mark.parametrize("what", sorted(UNRELEASED))
def test_a_bug_in_what_job_sets_give_back_is_caught(what: str) -> None:
    rule, plant = UNRELEASED[what]

    def caught(parameters: Parameters) -> bool:
        try:
            running.simulate(parameters, plant)
        except running.Broken as error:
            return rule in error.rules
        return False

    assert any(caught(draw(seed)) or caught(draw(seed).without_faults()) for seed in BACKLOGS)


@pytest.mark.long
def test_shards_of_one_cluster_are_divided_over_two_others_and_who_waits_is_served() -> None:
    judged = Counter[str]()
    for seed in BACKLOGS:
        judged += running.simulate(draw(seed).without_faults()).judged
        if judged["divided"] and judged["served"]:
            return
    pytest.fail(f"the first worlds with a backlog show no more than {judged}")


def test_what_is_done_while_the_host_takes_no_statuses_is_recorded_afterwards() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "statuses-refused"):
            await asyncio.sleep(30)
            told = [
                finished(solo.one_of(world, JOBSET, "index", member)) for member in world.members
            ]
            assert shards.normal(one for ranges in told for one in ranges) == ((0, 3),)
            assert finished(solo.one_of(world, JOBSET, "index")) == ()
        await solo.settled(world, 120.0)
        assert finished(solo.one_of(world, JOBSET, "index")) == ((0, 3),)

    running.simulate(solo.world(), course=running.Course(solo.BEGINNING, story=story))
