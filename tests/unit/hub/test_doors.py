"""The doors of a service over clusters that serve different kinds, and its exports."""

import asyncio
from typing import Any

from federator.kinds.natives import NATIVES
from federator.sandbox.fleetfile import FleetSpec
from tests.unit.hub.world import World, play, service, small_fleet

PSVC = "PinterestService"
KINDS = ("HTTPRoute", "Ingress", "ServiceExport")


def fleet() -> FleetSpec:
    """a serves routes and exports, b does not."""
    first, second = small_fleet(2).members
    return FleetSpec(members=[first.model_copy(update={"gateway": True}), second])


async def doors(world: World) -> dict[str, list[str]]:
    """Cluster -> the doors and exports of feed/web there."""
    made: dict[str, list[str]] = {}
    for cluster in "ab":
        made[cluster] = []
        for kind in KINDS if cluster == "a" else ("Ingress",):
            row = NATIVES[kind]
            listed = await world.user(cluster).list(row.api_version, row.plural, "feed")
            made[cluster] += [f"{kind}/{obj['metadata']['name']}" for obj in listed.items]
    return made


def test_each_cluster_gets_the_doors_that_it_serves_and_loses_what_is_given_up() -> None:
    async def scenario(world: World) -> None:
        async def patched(**spec: Any) -> dict[str, list[str]]:
            await world.patch(PSVC, "feed", "web", {"spec": spec})
            await world.settle()
            await asyncio.sleep(10)
            return await doors(world)

        ports = {"ports": [{"port": 80, "protocol": "TCP"}]}
        spec = service(4, service=ports, loadBalancers=[{"port": 80, "host": "web.example"}])
        await world.create(PSVC, "feed", "web", spec)
        await world.settle()
        assert await doors(world) == {"a": ["Ingress/web"], "b": ["Ingress/web"]}
        given = await patched(gateway={"name": "edge"}, service={"export": True})
        assert given == {"a": ["HTTPRoute/web", "ServiceExport/web"], "b": ["Ingress/web"]}
        assert (await world.condition(PSVC, "feed", "web", "Healthy"))["status"] == "True"
        assert (await patched(service={"export": None}))["a"] == ["HTTPRoute/web"]
        assert (await patched(gateway=None))["a"] == ["Ingress/web"]

    play(scenario, fleet=fleet())
