"""Callers whom the host knows are answered by the query port while strangers ask it."""

import asyncio

from federator.hub.query import access
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query.asking import LOGS, PODS, PSVC, WEB, grant, port_of, request

STRANGER, OWN = "192.0.2.66", "192.0.2.1"


def test_strangers_do_not_keep_known_callers_out() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(6))
        await world.settle()
        users = [f"owner-{number}" for number in range(12)]
        for user in users:
            await grant(world, user, "feed", PSVC, PODS, LOGS)
        port = port_of(world)
        for user in users:
            answer = await port.answer(request(f"{WEB}/pods", user=user, address=OWN))
            assert answer.status == 200

        await asyncio.sleep(access.REMEMBERED_S + 1)  # known tokens have to be reviewed again
        strangers = [
            request(f"{WEB}/pods", user=f"stranger-{number}", address=STRANGER)
            for number in range(60)
        ]
        known = [request(f"{WEB}/pods", user=user, address=OWN) for user in users]
        found = await asyncio.gather(*map(port.answer, [*strangers, *known]))

        assert [answer.status for answer in found[60:]] == [200] * len(users)
        refused = [answer.status for answer in found[:60]]
        assert (refused.count(401), refused.count(429)) == (access.UNKNOWN_OF_ONE_ADDRESS, 52)
        assert all("Retry-After" in one.headers for one in found[:60] if one.status == 429)

    worlds.play(scenario)


def test_a_new_caller_from_another_address_is_identified_beside_strangers() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(6))
        await world.settle()
        await grant(world, "owner", "feed", PSVC, PODS)
        port = port_of(world)
        asked = [
            *(
                request(f"{WEB}/pods", user=f"stranger-{number}", address=STRANGER)
                for number in range(60)
            ),
            request(f"{WEB}/pods", user="owner", address=OWN),
        ]
        found = await asyncio.gather(*map(port.answer, asked))
        assert found[-1].status == 200

    worlds.play(scenario)
