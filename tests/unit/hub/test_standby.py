"""Standby hubs as witnesses: what the leader alone does not hear is not lost, and what nobody hears
is.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.kube.metrics import Metrics
from federator.model import names
from federator.model.steps import ObjectRef
from federator.scheduling.governor import Health
from tests import virtual_time
from tests.unit.hub.test_failover import events
from tests.unit.hub.world import World, service, small_fleet

PSVC, CLUSTER = "PinterestService", "MemberCluster"
SOON = {"failover": {"afterSeconds": 30}}


class Hubs(World):
    """A federation with several hubs, of which one leads."""

    def __init__(self, hubs: int) -> None:
        super().__init__(small_fleet(), HubOptions(), 1, hubs=hubs)
        self.federation.metrics = Metrics()

    async def ready(self) -> None:
        await self.create(PSVC, "feed", "web", service(12, placement=SOON))
        await self.settle()
        await asyncio.sleep(40)  # every standby has given more than one account

    def leader(self) -> str:
        (found,) = [name for name, hub in self.federation.processes.items() if hub.state.leading]
        return found

    def others(self) -> list[str]:
        return [name for name in self.federation.hub_names if name != self.leader()]

    def health(self, cluster: str) -> Health:
        return self.federation.hub.state.members[cluster].health

    async def accounts(self) -> dict[str, Any]:
        """Lease -> holder and account."""
        found = {}
        for lease in (await self.host.list("coordination.k8s.io/v1", "leases")).items:
            meta = lease["metadata"]
            if text := (meta.get("annotations") or {}).get(names.SIGHT_ANNOTATION):
                found[meta["name"]] = lease["spec"]["holderIdentity"], json.loads(text)
        return found

    async def ready_says(self, cluster: str) -> Mapping[str, Any]:
        return await self.condition(CLUSTER, "", cluster, "Ready")

    def metric(self, name: str) -> float:
        assert self.federation.metrics is not None
        lines = self.federation.metrics.render().decode().splitlines()
        return float(next(line.split(" ")[1] for line in lines if line.startswith(f"{name} ")))


def play(scenario: Callable[[Hubs], Awaitable[None]], hubs: int = 2) -> None:
    async def main() -> None:
        world = Hubs(hubs)
        try:
            await world.federation.start()
            await world.ready()
            await scenario(world)
            world.federation.check()
        finally:
            await world.federation.stop()

    virtual_time.run(main())


@pytest.mark.long
def test_a_cluster_that_only_the_leader_does_not_hear_is_suspect_and_nothing_leaves_it() -> None:
    async def scenario(world: Hubs) -> None:
        before, (standby,) = await world.shares("feed", "web"), world.others()
        await world.cut("a", process=world.leader())
        await asyncio.sleep(600)
        assert world.health("a") is Health.SUSPECT
        assert await world.shares("feed", "web") == before
        ready = await world.ready_says("a")
        assert (ready["status"], ready["reason"]) == ("Unknown", "Unreachable")
        assert f"the standby hub {standby} hears it" in ready["message"]
        assert (await events(world, CLUSTER, "a")).count("HeardByStandby") == 1
        assert world.metric("federator_clusters_heard_by_standby") == 1
        assert world.metric("federator_standby_accounts") == 1
        world.heal()
        await asyncio.sleep(30)
        assert world.health("a") is Health.LIVE
        assert (await world.ready_says("a"))["status"] == "True"
        assert world.metric("federator_clusters_heard_by_standby") == 0

    play(scenario)


def test_a_cluster_that_no_hub_hears_is_lost_as_soon_as_without_witnesses() -> None:
    async def scenario(world: Hubs) -> None:
        (standby,) = world.others()
        for hub in world.federation.hub_names:
            await world.cut("a", process=hub)
        await asyncio.sleep(56)
        assert world.health("a") is Health.UNREACHABLE
        await asyncio.sleep(60)
        assert "a" not in await world.shares("feed", "web")
        (decision,) = await world.decisions()
        (cause,) = [one for one in decision["spec"]["causes"] if one.startswith("failover")]
        assert cause.startswith("failover from a, not heard since 20")
        assert cause.endswith(f"(nor by the standby hub {standby})")
        assert "HeardByStandby" not in await events(world, CLUSTER)

    play(scenario)


def test_an_account_that_is_not_renewed_counts_no_more() -> None:
    """The standby goes away with the cluster that it heard."""

    async def scenario(world: Hubs) -> None:
        (standby,) = world.others()
        await world.cut("a", process=world.leader())
        await asyncio.sleep(120)
        assert world.health("a") is Health.SUSPECT
        await world.federation.kill(standby)
        await asyncio.sleep(60)
        assert world.health("a") is Health.UNREACHABLE
        await asyncio.sleep(60)
        assert "a" not in await world.shares("feed", "web")
        world.federation.start_hub(standby)
        await asyncio.sleep(90)
        assert world.health("a") is Health.SUSPECT
        assert list(await world.accounts()) == ["federator-hub-standby-0"]

    play(scenario)


def test_one_standby_of_several_is_enough_and_each_has_a_lease_of_its_own() -> None:
    async def scenario(world: Hubs) -> None:
        first, second = world.others()
        holders = {holder.rpartition("_")[0] for holder, _ in (await world.accounts()).values()}
        assert holders == {first, second}
        for hub in (world.leader(), first):
            await world.cut("a", process=hub)
        await asyncio.sleep(300)
        assert world.health("a") is Health.SUSPECT
        assert f"the standby hub {second} hears it" in (await world.ready_says("a"))["message"]
        said = {
            holder.rpartition("_")[0]: text for holder, text in (await world.accounts()).values()
        }
        assert said[first]["silent"] == ["a"]
        assert "silent" not in said[second]

    play(scenario, hubs=3)


def test_a_new_leader_is_no_witness_of_its_own_and_the_old_one_takes_its_lease() -> None:
    async def scenario(world: Hubs) -> None:
        old, (standby,) = world.leader(), world.others()
        await world.federation.kill(old)
        await asyncio.sleep(20)
        assert world.leader() == standby
        await world.cut("a", process=standby)
        await asyncio.sleep(60)
        assert world.health("a") is Health.UNREACHABLE, "its own former account says it hears it"
        world.federation.start_hub(old)
        await asyncio.sleep(60)
        assert world.health("a") is Health.SUSPECT
        ((lease, (holder, _)),) = (await world.accounts()).items()
        assert (lease, holder.rpartition("_")[0]) == ("federator-hub-standby-0", old)

    play(scenario)


def test_a_cluster_that_the_standby_does_not_know_yet_has_no_witness() -> None:
    async def scenario(world: Hubs) -> None:
        (standby,) = world.others()
        await world.cut("host", process=standby)  # from now on it hears of no new cluster
        await asyncio.sleep(60)
        await world.cut("a", process=world.leader())
        await asyncio.sleep(70)
        assert world.health("a") is Health.UNREACHABLE

    play(scenario)


def test_a_person_s_word_stands_against_what_a_standby_hears() -> None:
    """Machines may be off where an API server is not."""

    async def scenario(world: Hubs) -> None:
        await world.cut("a", process=world.leader())
        await asyncio.sleep(120)
        assert "a" in await world.shares("feed", "web")
        found = await world.get(CLUSTER, "", "a")
        assert found is not None
        word = {"spec": {"declaredDead": found["status"]["lastHeard"]}}
        await world.patch(CLUSTER, "", "a", word)
        await asyncio.sleep(60)
        assert world.health("a") is Health.DEAD
        assert "a" not in await world.shares("feed", "web")

    play(scenario)


@pytest.mark.parametrize("text", ["", "{", '{"v": 9}'])
def test_a_lease_that_says_nothing_readable_is_nobody_s_account(text: str) -> None:
    async def scenario(world: Hubs) -> None:
        (standby,) = world.others()
        await world.federation.kill(standby)
        note = {names.SIGHT_ANNOTATION: text}
        (found,) = [
            one
            for one in (await world.host.list("coordination.k8s.io/v1", "leases")).items
            if one["metadata"]["name"] == "federator-hub-standby-0"
        ]
        meta = {**found["metadata"], "annotations": note}
        ref = ObjectRef(
            "coordination.k8s.io/v1", "leases", "federator-system", meta["name"], "Lease"
        )
        await world.host.replace(ref, {**found, "metadata": meta})
        await world.cut("a", process=world.leader())
        await asyncio.sleep(70)
        assert world.health("a") is Health.UNREACHABLE

    play(scenario)
