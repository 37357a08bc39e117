"""Failover buffers in a running federation: what was lent comes back when a cluster is lost, and is
lent again when that is home.
"""

import asyncio
from typing import Any

import pytest

from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.unit.hub.test_failover import events
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"


def fleet() -> FleetSpec:
    """Three clusters of ten nodes with a cpu each, six of which ordinary work may have."""
    pool = Pool(count=10, cpu="1", memory="8Gi")
    return FleetSpec(
        members=[
            MemberSpec(name=name, labels={}, taints=[], nodes=[pool], failoverBuffer="40%")
            for name in "abc"
        ]
    )


def asked(copies: int, tier: str, *names: str, **more: Any) -> dict[str, Any]:
    failover = {"afterSeconds": 30, "cooldownSeconds": 60, "failbackAfterSeconds": 300}
    placement: dict[str, Any] = {"failover": failover}
    if names:
        placement["division"] = {
            "groups": [
                {"name": "first", "names": list(names)},
                {"name": "rest", "names": sorted(set("abc") - set(names))},
            ]
        }
    return service(copies, cpu="900m", tier=tier, placement=placement, **more)


@pytest.mark.long
def test_lent_room_comes_back_when_a_cluster_is_lost_and_is_lent_again_when_it_is_home() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "api", asked(5, "Reserved", "a"))
        await world.create(PSVC, "feed", "ordinary", asked(13, "OnDemand"))
        await world.settle()
        await world.create(PSVC, "feed", "batch", asked(12, "Preemptible"))
        await world.settle()
        at_first = {name: await world.shares("feed", name) for name in ("api", "ordinary", "batch")}
        assert at_first["api"] == {"a": 5}
        assert sum(at_first["ordinary"].values()) == 13
        assert sum(at_first["batch"].values()) == 12, "what is lent"
        assert max(at_first["ordinary"].values()) <= 6, "no further than to the buffers"

        await world.cut("a")
        await asyncio.sleep(400)
        api, batch = await world.shares("feed", "api"), await world.shares("feed", "batch")
        assert (sum(api.values()), api.get("a")) == (5, None), "Reserved work has another place"
        here = sum(batch.get(name, 0) for name in "bc")
        was = sum(at_first["batch"].get(name, 0) for name in "bc")
        assert here < was, "Preemptible work has left for it"
        decided = {one["spec"]["workload"]["name"]: one["spec"] for one in await world.decisions()}
        assert decided["batch"]["preempted"]["reason"] == "FailoverBuffer"
        assert "Preempted" in await events(world, PSVC, "batch")

        world.heal()
        await asyncio.sleep(1800)
        assert sum((await world.shares("feed", "api")).values()) == 5
        assert sum((await world.shares("feed", "batch")).values()) == 12, "lent again"
        decided = {one["spec"]["workload"]["name"]: one["spec"] for one in await world.decisions()}
        assert not decided["batch"].get("preempted")

    play(scenario, fleet=fleet())


@pytest.mark.long
def test_a_drain_counts_lent_room_and_who_lacks_copies_does_not_grow_into_it_meanwhile() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "api", asked(5, "Reserved", "a"))
        await world.create(PSVC, "feed", "ordinary", asked(20, "OnDemand"))
        await world.settle()
        lent = asked(8, "Preemptible")
        lent["placement"]["clusters"] = {"names": ["b", "c"]}
        await world.create(PSVC, "feed", "batch", lent)
        await world.settle()
        before = await world.shares("feed", "ordinary")
        assert sum(before.values()) == 13
        found = await world.get(PSVC, "feed", "ordinary")
        assert found is not None
        assert "spec.failoverBuffer" in str(found["status"]["conditions"])
        await world.patch("MemberCluster", "", "a", {"spec": {"drain": {}}})
        await asyncio.sleep(900)
        said = await world.condition("MemberCluster", "", "a", "Draining")
        assert (said["status"], said["reason"]) == ("True", "Emptied"), said["message"]
        after = await world.shares("feed", "ordinary")
        assert ("a" in after, sum(after.values())) == (False, 13)
        assert sum((await world.shares("feed", "api")).values()) == 5

    play(scenario, fleet=fleet())
