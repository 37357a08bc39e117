"""Candidates under every trouble and under hands on their Lease (F7): never two that may write."""

import asyncio
import random
from typing import Any

import pytest

from federator.kube import errors
from federator.kube.leader import lease
from federator.kube.leader.elector import LeaseLost
from federator.kube.leader.lease import LeaseOptions
from federator.model.steps import ObjectRef
from tests import virtual_time
from tests.unit.kube.leaseworld import FIRST_S, LEASE, LONGEST_S, NAMESPACE, TROUBLES, LeaseWorld
from tests.unit.kube.scripted import on_virtual_time


async def _meddle(world: LeaseWorld, how: str) -> None:
    match how:
        case "deleted":
            await world.delete()
        case "another's":
            await world.edit(holderIdentity="bogus")
        case "emptied":
            await world.edit(holderIdentity="")
        case "emptied like a released one":
            await world.edit(holderIdentity="", leaseDurationSeconds=lease.RELEASED_S)
        case "given to the standby":
            await world.edit(holderIdentity="b")
        case "stripped":
            await world.client.patch(LEASE, {"spec": None})


@pytest.mark.parametrize(
    "how",
    [
        "deleted",
        "another's",
        "emptied",
        "emptied like a released one",
        "given to the standby",
        "stripped",
    ],
)
@on_virtual_time
async def test_a_hand_on_the_lease_ends_the_leader_before_another_acts(how: str) -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    (b,) = await world.begin("b")
    await asyncio.sleep(5)
    await _meddle(world, how)
    await world.until("b", 20)

    assert isinstance(a.died_of(), LeaseLost)
    assert a.ended[0] < b.began[0] - 4
    await world.end()


@pytest.mark.parametrize("seed", range(8))
def test_a_lease_that_is_deleted_again_between_two_looks_of_another_makes_no_two_leaders(
    seed: int,
) -> None:
    """Simulation seed 1925: b saw no Lease before a made it and none after it was deleted again."""

    async def main() -> None:
        world = LeaseWorld(seed)
        a, b = await world.begin("a", "b", recampaign=True)
        deleted = False
        for _ in range(5000):
            if world.leaders() and not deleted:
                await world.delete()
                deleted = True
            assert len(world.leaders()) < 2
            await asyncio.sleep(0.01)
        ended, began = [*a.ended, *b.ended], [*a.began, *b.began]
        assert (len(ended), len(began)) == (1, 2)
        await world.end()

    virtual_time.run(main())


@pytest.mark.parametrize("how", ["deleted", "emptied"])
@on_virtual_time
async def test_a_name_on_a_lease_that_nobody_held_runs_out_with_who_wrote_it(how: str) -> None:
    """It is not released by who stops before it led: somebody may lead who does not know of it."""
    world = LeaseWorld()
    (old,) = await world.begin("old")
    await world.until("old", FIRST_S)
    await old.wire.befall("hang")
    await _meddle(world, how)
    (a,) = await world.begin("a")
    await asyncio.sleep(1.0)
    spec = await world.lease()
    assert (spec["holderIdentity"], "acquireTime" in spec) == ("a", False)
    (b,) = await world.begin("b")
    await asyncio.sleep(2.0)
    await a.stop()
    assert (await world.lease())["holderIdentity"] == "a"
    assert old.leading
    await world.until("b", LONGEST_S)

    assert not a.terms
    assert b.began[0] > old.ended[0]
    await world.end()


@on_virtual_time
async def test_a_label_or_a_lowered_count_is_outlived_and_put_right() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    a.elector.raise_term(9)
    await asyncio.sleep(3)
    await world.client.patch(LEASE, {"metadata": {"labels": {"team": "sre"}}})
    await asyncio.sleep(5)
    await world.edit(leaseTransitions=0, leaseDurationSeconds=3)
    await asyncio.sleep(5)

    assert a.leading
    spec = await world.lease()
    assert (spec["leaseTransitions"], spec["leaseDurationSeconds"]) == (9, 15)
    await world.end()


@on_virtual_time
async def test_a_claim_whose_reply_was_lost_is_taken_up_at_once() -> None:
    world = LeaseWorld()
    space = ObjectRef("v1", "namespaces", "", NAMESPACE, "Namespace")
    await world.client.create(
        space, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    (a,) = await world.begin("a")
    await asyncio.sleep(9.5)
    await a.wire.befall("lost")
    await asyncio.sleep(2.5)
    assert (await world.lease())["holderIdentity"] == "a"
    await a.wire.befall("")

    assert await world.until("a", 5) <= 2.1
    assert a.terms[0] > 1
    await world.end()


class Storm:
    """Three candidates whose processes, connections, clocks and Lease suffer at random; `broken`
    says what was seen.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world: LeaseWorld
        self.rng = random.Random(f"storm {seed}")
        self.lives = 0
        self.broken: list[str] = []
        self.led: set[str] = set()

    async def run(self, for_s: float = 300.0) -> None:
        self.world = LeaseWorld(self.seed)
        await self.world.begin()
        slots = [self._life() for _ in range(3)]
        watch = asyncio.create_task(self._watch())
        loop = asyncio.get_running_loop()
        while loop.time() < for_s:
            await asyncio.sleep(self.rng.uniform(0.0, 6.0))
            await self._trouble(slots)
        for index, one in enumerate(slots):
            await one.wire.befall("")
            if one.task is None or one.task.done():
                slots[index] = self._life()
        await asyncio.sleep(45)
        if len(self.world.leaders()) != 1:
            self.broken.append(f"after healing there are {len(self.world.leaders())} leaders")
        watch.cancel()
        await self.world.end()

    def _life(self) -> Any:
        self.lives += 1
        made = self.world.candidate(f"life-{self.lives}", recampaign=self.rng.random() < 0.5)
        made.clock.wall_epoch_s += self.rng.choice((0.0, 3600.0, -86400.0))
        return made.start()

    async def _trouble(self, slots: list[Any]) -> None:
        index = self.rng.randrange(3)
        one = slots[index]
        if one.task.done():
            slots[index] = self._life()
            return
        what = self.rng.choice((*TROUBLES, "", "", "", "kill", "stop", "jump", "meddle"))
        if what == "kill":
            await one.kill()
        elif what == "stop":
            await one.stop()
        elif what == "jump":
            one.clock.wall_epoch_s += self.rng.choice((3600.0, -3600.0))
        elif what == "meddle":
            try:
                await _meddle(
                    self.world,
                    self.rng.choice(
                        ("deleted", "another's", "emptied", "given to the standby", "stripped")
                    ),
                )
            except errors.ApiError:
                return
        else:
            await one.wire.befall(what, self.rng.uniform(1.0, 60.0))

    async def _watch(self) -> None:
        while True:
            leaders = self.world.leaders()
            self.led |= set(leaders)
            if len(leaders) > 1:
                self.broken.append(f"{asyncio.get_running_loop().time():.2f}: {leaders} lead")
            await asyncio.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("block", range(4))
def test_never_two_leaders_under_random_troubles_and_one_after_them(block: int) -> None:
    led = 0
    for seed in range(block * 10, block * 10 + 10):
        storm = Storm(seed)
        virtual_time.run(storm.run())
        assert not storm.broken, (seed, storm.broken[:3])
        led += len(storm.led)
    assert led >= 30, "the storms were too strong to show anything"


def test_a_deadline_beyond_the_lease_would_be_seen() -> None:
    """The control: candidates that may go on for longer than others wait do lead together."""
    options = LeaseOptions()
    object.__setattr__(options, "renew_deadline_s", 40.0)

    async def main() -> list[str]:
        world = LeaseWorld()
        _a, _b = await world.begin("a", "b", options=options)
        await asyncio.sleep(41)
        leader = next(one for one in world.candidates if one.leading)
        await leader.wire.befall("hang")
        await asyncio.sleep(20)
        found = world.leaders()
        await world.end()
        return found

    assert len(virtual_time.run(main())) == 2
