"""The doors of a service: HTTPRoutes where the cluster serves them, an Ingress elsewhere; exports
where those are served.
"""

import asyncio
from typing import Any

from federator.sandbox import gateways
from federator.sandbox.gateways import Gateways
from tests.unit.member.memberworld import MemberWorld, condition_of, in_member, service

DOORS = [{"port": 80, "host": "a.example"}, {"port": 80, "host": "b.example", "path": "/b"}]
KINDS = ("HTTPRoute", "ServiceExport")


def doors(**more: Any) -> dict[str, Any]:
    ports = {"ports": [{"port": 80, "protocol": "TCP"}], "export": True}
    return service(
        service=ports, loadBalancers=DOORS, gateway={"name": "edge", "namespace": "gw"}, **more
    )


async def defined(world: MemberWorld) -> None:
    for crd in gateways.definitions():
        await world.create(crd)


async def undefined(world: MemberWorld) -> None:
    for crd in gateways.definitions():
        await world.delete("CustomResourceDefinition", crd["metadata"]["name"])


async def routed(world: MemberWorld) -> bool:
    return (
        len(await world.names("HTTPRoute")) == 2
        and await world.names("ServiceExport") == ["web"]
        and await world.names("Ingress") == []
    )


async def by_ingress(world: MemberWorld) -> bool:
    return await world.names("Ingress") == ["web"]


@in_member()
async def test_a_cluster_that_serves_routes_gets_these_and_no_ingress(world: MemberWorld) -> None:
    await defined(world)
    await world.restart_member()
    await world.create(doors())
    await world.until(lambda: routed(world))

    route = await world.get("HTTPRoute", "web")
    assert route["spec"]["hostnames"] == ["a.example"]
    assert route["spec"]["parentRefs"][0]["name"] == "edge"
    await world.until_status("PinterestService", "web", ready=3)
    healthy = condition_of(await world.get("PinterestService", "web"), "Ready")
    assert healthy["reason"] == "NotAccepted"
    stand_in = Gateways(world.client, clock=world.clock, rng=world.rng)
    world.tasks.append(asyncio.get_running_loop().create_task(stand_in.run(), name="gateways"))
    await world.until_status("PinterestService", "web", healthy=True)
    await asyncio.sleep(30)  # Events come a little later
    written = list(world.log)
    await asyncio.sleep(120)
    assert world.log == written

    gone = {"spec": {"gateway": None, "service": {"export": None}}}
    await world.patch("PinterestService", "web", gone)
    await world.until(lambda: by_ingress(world))
    for kind in KINDS:
        assert await world.names(kind) == []


@in_member()
async def test_routes_come_with_their_definition_and_go_with_it(world: MemberWorld) -> None:
    await world.create(doors())
    await world.until_status("PinterestService", "web", healthy=True)
    assert await by_ingress(world)

    await defined(world)
    await world.until(lambda: routed(world))
    await undefined(world)
    await world.until(lambda: by_ingress(world))
    await world.until_status("PinterestService", "web", healthy=True)
    await asyncio.sleep(30)  # Events come a little later
    written = list(world.log)
    await asyncio.sleep(120)
    assert world.log == written
