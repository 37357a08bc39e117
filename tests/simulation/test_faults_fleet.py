"""Members that come and go, all of them at once, hours without hubs and host, a race for the last
of a quota: nothing that runs is taken away or run twice for it. Without failover: that a silence
moves work is told elsewhere.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Collection

import pytest

from federator.api.placement.decisionfacts import decision_facts
from federator.embedded.storage.revisions import DELETED, Event
from tests.faults.links import Cut
from tests.simulation import rest, running, script, solo
from tests.simulation.invariants import Obj, all_of, finished
from tests.simulation.script import JOBSET, SERVICE, Action
from tests.simulation.world import World

pytestmark = pytest.mark.long

UP_S, DOWN_S = 10.0, 20.0
TURNS = 20
LONG_S = 180.0
AWAY_S = 2 * 3600.0
"""Instead of a day, which takes minutes of processor: nothing in a member counts hours."""
THREE = solo.world(members=3)
SERVICES = (solo.service("web", 6), solo.service("shop", 3))


@contextlib.asynccontextmanager
async def unreachable(world: World, clusters: Collection[str]) -> AsyncIterator[None]:
    """No hub reaches these clusters; whoever lives there does."""
    pairs = [(hub, cluster) for hub in world.hubs for cluster in clusters]
    for hub, cluster in pairs:
        await world.links.sever(hub, cluster, Cut.REFUSED)
    try:
        yield
    finally:
        for hub, cluster in pairs:
            world.links.heal(hub, cluster, Cut.REFUSED)


class Evictions:
    """What leaves members: slices and natives that are deleted; and whether any decision has
    changed.
    """

    def __init__(self, world: World) -> None:
        self.found: list[str] = []
        self._decided = self._decisions(world)
        for name in world.members:
            world.clusters[name].store.subscribe_all(functools.partial(self._see, name))

    def _see(self, cluster: str, event: Event) -> None:
        obj = event.current.obj
        if event.type is DELETED and obj["kind"] in (SERVICE, JOBSET, "Deployment", "Job"):
            self.found.append(f"{obj['kind']} {obj['metadata']['name']} in {cluster}")

    def _decisions(self, world: World) -> dict[str, object]:
        found = map(decision_facts, all_of(world.federation.host, "PlacementDecision"))
        return {facts.name: facts.shares for facts in found}

    def none(self, world: World) -> bool:
        """Nothing left, and every decision gives what it gave."""
        return not self.found and self._decisions(world) == self._decided


async def _flap(world: World, cluster: str, evictions: Evictions) -> None:
    for _ in range(TURNS):
        async with unreachable(world, [cluster]):
            await asyncio.sleep(DOWN_S)
        await asyncio.sleep(UP_S)
        assert evictions.none(world), evictions.found


def test_a_member_that_flaps_is_not_emptied_and_nobody_moves() -> None:
    """F24."""

    async def story(world: World) -> None:
        before, evictions = solo.shares(world), Evictions(world)
        await _flap(world, "a", evictions)
        await solo.settled(world)
        assert solo.shares(world) == before

    solo.tell(story, THREE, SERVICES)


@pytest.mark.parametrize("lost", [("a", "b"), ("a", "b", "c")])
def test_most_members_or_all_out_of_reach_cost_nobody_his_copies(lost: tuple[str, ...]) -> None:
    """F25 and F26: two of three, and all at once, for three minutes."""

    async def story(world: World) -> None:
        before, evictions = solo.shares(world), Evictions(world)
        async with unreachable(world, lost):
            await asyncio.sleep(LONG_S)
            assert evictions.none(world), evictions.found
            members = {
                obj["metadata"]["name"]: solo.conditions(obj)["Ready"] for obj in _members(world)
            }
            assert {name for name, ready in members.items() if ready[0] != "True"} == set(lost)
        await solo.settled(world)
        assert evictions.none(world), evictions.found
        assert solo.shares(world) == before

    solo.tell(story, THREE, SERVICES)


def test_shards_of_a_member_that_is_cut_off_run_there_and_nowhere_else() -> None:
    """F28, of execution MayOverlap while nobody says that the cluster is lost: its shards stay its
    own.
    """

    async def story(world: World) -> None:
        await asyncio.sleep(UP_S)
        uid = solo.one_of(world, JOBSET, "index")["metadata"]["uid"]
        evictions = Evictions(world)
        holder = next(
            name for name in world.members if rest.jobs(world.federation.members[name], uid)
        )
        made = {name: len(rest.jobs(world.federation.members[name], uid)) for name in world.members}
        async with unreachable(world, [holder]):
            await asyncio.sleep(LONG_S / 2)
            assert {
                name: len(rest.jobs(world.federation.members[name], uid)) for name in world.members
            } == made
            assert evictions.none(world), evictions.found
        await solo.settled(world)
        assert finished(solo.one_of(world, JOBSET, "index")) == ((0, 7),)

    running.simulate(THREE, course=running.Course((solo.jobset("index", 8, 150),), story=story))


def test_hours_without_hubs_and_host_changes_nothing_in_members() -> None:
    """F32, and F31 on the way."""

    async def story(world: World) -> None:
        before, evictions = solo.shares(world), Evictions(world)
        for hub in world.hubs:
            world.hold_down(hub)
        await asyncio.sleep(AWAY_S)
        assert evictions.none(world), evictions.found
        assert solo.shares(world) == before
        for hub in world.hubs:
            world.let_up(hub)
        await solo.settled(world)
        assert evictions.none(world), evictions.found
        assert solo.shares(world) == before

    solo.tell(story, solo.world(), SERVICES)


@pytest.mark.parametrize("seed", range(3))
def test_of_two_that_come_for_the_last_of_a_quota_one_is_admitted(seed: int) -> None:
    """F43: at the same instant, under two hubs, room for one of them."""
    limits = {"tiers": {"OnDemand": {"max": {"cpu": "3", "memory": "64Gi"}}}}
    account = Action(
        0.0, "create", "FederatedQuota", "", "feed", {"spec": {"projects": ["feed"], **limits}}
    )

    async def story(world: World) -> None:
        rivals = [solo.service(name, 4) for name in ("one", "two")]
        await asyncio.gather(*(script.perform(rival, world.host) for rival in rivals))
        await asyncio.sleep(LONG_S / 3)
        found = [decision_facts(obj) for obj in all_of(world.federation.host, "PlacementDecision")]
        placed = sorted(facts.placed for facts in found if facts.key.name in ("one", "two"))
        assert sum(placed) == 4, placed
        assert sum(facts.placed for facts in found) == 6

    solo.tell(story, solo.world(seed=seed), (account, solo.service("web", 2)))


def _members(world: World) -> list[Obj]:
    return all_of(world.federation.host, "MemberCluster")
