"""`place --live` and `explain` judge claims of host names as the hub does: by the age of a claim."""

import asyncio
import json
from typing import Any

from federator.cli import explain
from federator.kinds import registry
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.asking import grant, port_of
from tests.unit.query.test_advising import WRITER, sending

KIND = registry.KINDS["PinterestService"]
PAY = "pay.example"


def door(host: str) -> dict[str, Any]:
    opened = {"service": {"ports": [{"port": 80}]}, "loadBalancers": [{"port": 80, "host": host}]}
    return worlds.service(3) | opened


async def tried(world: World, namespace: str, name: str, host: str) -> tuple[str, int]:
    """Reason and placed copies of the leader's answer to `place --live`."""
    meta = {"name": name, "namespace": namespace}
    obj = {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": meta, "spec": door(host)}
    path = f"/v1/namespaces/{namespace}/pinterestservices/place"
    body = json.dumps(obj).encode()
    answer = asking.body(await port_of(world).answer(sending(path, body, namespace)))
    return answer["spec"]["reason"], answer["spec"]["placed"]


async def explained(world: World, namespace: str, name: str) -> str:
    """The reason that an operator's `explain` computes from the host's objects."""
    return str((await explain.gathered(world.host, KIND, namespace, name))["reason"])


def test_an_older_service_that_adds_a_host_name_later_loses_it_in_place_and_explain() -> None:
    async def scenario(world: World) -> None:
        for namespace in ("evil", "pay"):
            await grant(world, namespace, namespace, WRITER)
        await world.create(KIND.kind, "evil", "old", door("old.example"))
        await asyncio.sleep(20)
        await world.create(KIND.kind, "pay", "web", door(PAY))
        await asyncio.sleep(30)

        for host in (PAY, "*.example"):
            assert (await tried(world, "evil", "old", host))[0] == "IdentityNotAllowed"
            assert await tried(world, "evil", "new", host) == ("IdentityNotAllowed", 0)
        assert await tried(world, "evil", "old", "old.example") == ("Chosen", 3)
        assert await tried(world, "evil", "old", "new.example") == ("Chosen", 3)
        assert await tried(world, "pay", "web", PAY) == ("Chosen", 3)
        assert await tried(world, "pay", "web", "old.example") == ("IdentityNotAllowed", 3)

        await world.federation.kill("hub")
        edit = {"spec": {"loadBalancers": door(PAY)["loadBalancers"]}}
        await world.patch(KIND.kind, "evil", "old", edit)
        assert await explained(world, "evil", "old") == "IdentityNotAllowed", "before the hub does"
        assert await explained(world, "pay", "web") != "IdentityNotAllowed"

        world.federation.start_hub()
        await asyncio.sleep(60)
        assert await explained(world, "evil", "old") == "IdentityNotAllowed"
        assert await explained(world, "pay", "web") != "IdentityNotAllowed"
        assert (await tried(world, "evil", "old", PAY))[0] == "IdentityNotAllowed"
        assert await tried(world, "pay", "web", PAY) == ("Chosen", 3)

    worlds.play(scenario)
