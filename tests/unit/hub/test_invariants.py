"""A PlacementInvariant on a running federation: what it refuses, and what its status, its Events and
the metric say while workloads and clusters change.
"""

import asyncio
from typing import Any

from federator.hub.status import invariant_status
from federator.model.steps import ObjectRef
from tests.unit.hub.test_failover import events
from tests.unit.hub.test_product_metrics import measured
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
KIND = "PlacementInvariant"
SWEPT_S = 4 * invariant_status.SETTLE_S


def share(percent: int = 40, **more: Any) -> dict[str, Any]:
    return {"rule": {"maxShare": {"topologyKey": "zone", "percent": percent}}, **more}


async def status(world: World, name: str = "zones") -> dict[str, Any]:
    found = await world.get(KIND, "", name)
    assert found is not None
    said: dict[str, Any] = found.get("status") or {}
    return said


async def holds(world: World, name: str = "zones") -> tuple[str, str]:
    found = await world.condition(KIND, "", name, "Holds")
    return found["status"], found["reason"]


def test_copies_that_would_break_a_refusing_invariant_wait_until_it_is_relaxed() -> None:
    async def scenario(world: World) -> None:
        await world.create(KIND, "", "zones", share(40, enforcement="Refuse"))
        only_a: dict[str, Any] = {"placement": {"clusters": {"names": ["a"]}}}
        await world.create(PSVC, "feed", "web", service(10, **only_a))
        await world.settle()

        assert await world.shares("feed", "web") == {"a": 4}
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "InvariantViolation")
        assert "PlacementInvariant zones allows 4 of 10 copies in zone=z-a" in placed["message"]
        await asyncio.sleep(SWEPT_S)
        assert await holds(world) == ("True", "InvariantHolds")

        await world.patch(KIND, "", "zones", {"spec": share(70, enforcement="Refuse")})
        await asyncio.sleep(3)  # no retry without a hint comes so early
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 7}

        await world.delete(KIND, "", "zones")
        await asyncio.sleep(3)
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 10}

    play(scenario)


def test_a_breach_is_in_the_status_an_event_and_the_metric_until_it_ends() -> None:
    async def scenario(world: World) -> None:
        sample = await measured(world)
        figure = 'federator_invariant_breached_workloads{invariant="zones"}'
        await world.create(KIND, "", "zones", share(40))
        only_a: dict[str, Any] = {"placement": {"clusters": {"names": ["a"]}}}
        await world.create(PSVC, "feed", "web", service(10, **only_a))
        await world.create(PSVC, "feed", "even", service(6))
        await world.settle()
        await asyncio.sleep(SWEPT_S)

        assert await holds(world) == ("False", "InvariantBroken")
        said = await status(world)
        assert (said["workloads"], said["breached"]) == (2, 1)
        assert said["summary"] == "1 of 2 in breach"
        assert said["breaches"] == [
            {"workload": f"{PSVC}/feed/web", "domain": "z-a", "copies": 10, "most": 4}
        ]
        assert "web has 10 copies in zone=z-a; at most 4 may be there" in said["message"]
        assert await events(world, KIND) == ["InvariantBroken"]
        assert sample(figure) == 1.0
        assert await world.shares("feed", "web") == {"a": 10}, "a warning moves nothing"

        await world.delete(PSVC, "feed", "web")
        await world.settle()
        await asyncio.sleep(SWEPT_S)
        assert await holds(world) == ("True", "InvariantHolds")
        assert (await status(world))["breaches"] == []
        assert sorted(await events(world, KIND)) == ["InvariantBroken", "InvariantHolds"]
        assert sample(figure) == 0.0

        await asyncio.sleep(60)
        writes = world.count()
        await asyncio.sleep(120)
        assert world.count() == writes, "nothing is written while nothing changes"

    play(scenario)


def test_failover_is_not_refused_and_what_it_breaks_is_reported() -> None:
    async def scenario(world: World) -> None:
        await world.create(KIND, "", "zones", share(40, enforcement="Refuse"))
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        assert max((await world.shares("feed", "web")).values()) == 4

        await world.cut("a")
        await asyncio.sleep(400)

        left = await world.shares("feed", "web")
        assert left.get("b", 0) + left.get("c", 0) == 12
        assert await holds(world) == ("False", "InvariantBroken")

    play(scenario)


def test_losses_that_leave_copies_without_a_place_break_survives() -> None:
    async def scenario(world: World) -> None:
        # 3 clusters of 32 cpus: without one of them 64 are left for 72
        rule = {"survives": {"topologyKey": "zone", "tiers": ["OnDemand"]}}
        await world.create(KIND, "", "n-1", {"rule": rule})
        await world.create(PSVC, "feed", "web", service(72, cpu="1"))
        await world.settle()
        await asyncio.sleep(2 * invariant_status.DRILL_S)

        assert await holds(world, "n-1") == ("False", "InvariantBroken")
        said = await status(world, "n-1")
        assert said["breaches"][0] == {"workload": f"{PSVC}/feed/web", "domain": "z-a", "copies": 8}
        assert "have no place once zone z-a is lost" in said["message"]

        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 60}})
        await world.settle()
        await asyncio.sleep(3 * invariant_status.DRILL_S)
        assert await holds(world, "n-1") == ("True", "InvariantHolds")

    play(scenario)


def test_an_invariant_that_can_never_hold_says_so() -> None:
    async def scenario(world: World) -> None:
        await world.create(KIND, "", "zones", share(30))
        await asyncio.sleep(SWEPT_S)

        found = await world.condition(KIND, "", "zones", "Valid")
        assert (found["status"], found["reason"]) == ("False", "NeverHolds")
        assert "needs 4 domains, and the clusters make 3" in found["message"]

    play(scenario)


def test_a_host_without_the_definition_is_served_all_the_same() -> None:
    """As after an upgrade of the hub before `federator crd install`."""

    async def scenario(world: World) -> None:
        name = "placementinvariants.federation.pinterest.com"
        definition = ObjectRef(
            "apiextensions.k8s.io/v1", "customresourcedefinitions", "", name, "CRD"
        )
        await world.federation.kill("hub")
        found = await world.host.get(definition)
        await world.host.delete(definition, uid=found["metadata"]["uid"])
        await asyncio.sleep(30)
        world.federation.start_hub()
        await world.create(PSVC, "feed", "web", service(6))
        await asyncio.sleep(60)
        assert sum((await world.shares("feed", "web")).values()) == 6

    play(scenario)


def test_a_host_that_is_slow_to_write_a_status_delays_no_later_one() -> None:
    async def scenario(world: World) -> None:
        await world.create(KIND, "", "zones", share(40))
        await world.settle()
        world.answer("host", "placementinvariants/zones", 503)
        await world.create(PSVC, "feed", "even", service(6))
        await asyncio.sleep(60)
        world.clear()
        await asyncio.sleep(SWEPT_S + 2 * invariant_status.RETRY_S + 10)
        assert (await status(world))["workloads"] == 1

    play(scenario)
