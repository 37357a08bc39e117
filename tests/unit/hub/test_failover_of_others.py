"""Failovers as people of other federations met them, and what becomes of them here: each test names
the thread in which it was told. The others of them are in test_failover.
"""

import asyncio
from typing import Any

import pytest

from federator.cli.planning import rebalance
from federator.model.names import WorkloadKey
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.unit.hub.world import World, jobset, play, service

PSVC, PJS, CLUSTER = "PinterestService", "PinterestJobSet", "MemberCluster"
WEB = WorkloadKey(PSVC, "feed", "web")
HOME_FIRST: dict[str, Any] = {
    "division": {
        "groups": [
            {"name": "ours", "names": ["a"]},
            {"name": "rented", "names": ["b", "c"]},
        ]
    }
}
"""Machines of our own before those that cost by the hour."""
HELD = (
    ("pinterest.com/v1beta1", "pinterestservices"),
    ("pinterest.com/v1beta1", "pinterestjobsets"),
    ("apps/v1", "deployments"),
    ("v1", "services"),
    ("v1", "configmaps"),
    ("batch/v1", "jobs"),
    ("v1", "pods"),
)


async def lose(world: World, name: str, seconds: float) -> None:
    await world.cut(name)
    await asyncio.sleep(seconds)
    world.heal(name)


@pytest.mark.long
@pytest.mark.parametrize("failback", ["Auto", "Manual"])
def test_what_went_to_the_second_group_comes_back_to_the_first(failback: str) -> None:
    """karmada #5070: on-premises first, a public cloud when that is gone. When the first was back,
    even a person's WorkloadRebalancer began its search at the second, and all stayed there.
    """

    async def scenario(world: World) -> None:
        failover: dict[str, Any] = {"afterSeconds": 60, "failback": failback}
        if failback == "Auto":
            failover["failbackAfterSeconds"] = 300
        placement = {**HOME_FIRST, "failover": failover}
        await world.create(PSVC, "feed", "web", service(12, placement=placement))
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 12}
        await lose(world, "a", 240)
        away = await world.shares("feed", "web")
        assert "a" not in away
        assert sum(away.values()) == 12
        await asyncio.sleep(1200)
        if failback == "Manual":
            assert await world.shares("feed", "web") == away
            await rebalance.ask(world.host, {WEB})
            await asyncio.sleep(120)
        assert await world.shares("feed", "web") == {"a": 12}
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["ready"] == 12

    pool = [Pool(count=4, cpu="8", memory="32Gi")]
    fleet = FleetSpec(members=[MemberSpec(name=name, nodes=pool) for name in "abc"])
    play(scenario, fleet=fleet)


@pytest.mark.long
def test_a_member_process_that_was_down_takes_nothing_away_when_it_is_back() -> None:
    """karmada #5406: the agent of a cluster went down and came up, and deleted everything that the
    cluster held. Failover was off; here it is on, and a silent process moves nothing either.
    """

    async def held(world: World) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for api_version, plural in HELD:
            listed = await world.member("a").list(api_version, plural, namespace="feed")
            found |= {
                f"{plural} {obj['metadata']['name']}": obj["metadata"] for obj in listed.items
            }
        return {name: (meta["uid"], meta.get("generation")) for name, meta in found.items()}

    async def scenario(world: World) -> None:
        soon: dict[str, Any] = {"placement": {"failover": {"afterSeconds": 0}}}
        ports: dict[str, Any] = {"service": {"ports": [{"port": 80}]}, "config": {"app": "a=1"}}
        long = {"embedded.federator/run-seconds": "7200"}
        await world.create(PSVC, "feed", "web", service(12, **ports, **soon))
        await world.create(PJS, "feed", "run", jobset(12, 12, annotations=long))
        await asyncio.sleep(60)
        before = await held(world)
        assert {name.partition(" ")[0] for name in before} == {plural for _, plural in HELD}
        await world.federation.kill("member a")
        await asyncio.sleep(1800)
        assert (await world.condition(CLUSTER, "", "a", "Ready"))["reason"] == "NotReporting"
        world.federation.start_member("a")
        await asyncio.sleep(300)
        assert await held(world) == before
        assert (await world.condition(CLUSTER, "", "a", "Ready"))["status"] == "True"

    play(scenario)
