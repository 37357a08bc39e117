"""A host that refuses statuses of one workload: they are not sent again at every word of a
member.
"""

import asyncio
import json

from tests.unit.hub.world import World, jobset, play, service

PSVC, PJS = "PinterestService", "PinterestJobSet"
STATUS = "pinterestjobsets/index/status"
SHORT = {"embedded.federator/run-seconds": "1"}


def refusal(code: int, reason: str) -> tuple[int, bytes]:
    said = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
    }
    return code, json.dumps(
        said | {"message": 'admission webhook "policy.example.com" denied the request'}
    ).encode()


def test_a_refused_status_is_sent_again_ever_later_and_at_once_when_somebody_edits() -> None:
    async def scenario(world: World) -> None:
        world.answer("host", STATUS, *refusal(403, "Forbidden"))
        await world.create(PJS, "feed", "index", jobset(120, 2, annotations=SHORT))
        await asyncio.sleep(60)
        assert 4 <= world.answered[STATUS] <= 14

        await world.create(PSVC, "feed", "web", service(2))
        await asyncio.sleep(5)
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"

        before = world.answered[STATUS]
        await world.patch(
            PJS, "feed", "index", {"metadata": {"annotations": {"example.com/by": "a person"}}}
        )
        await asyncio.sleep(2)
        assert world.answered[STATUS] > before

        world.clear()
        await asyncio.sleep(16)
        found = await world.get(PJS, "feed", "index")
        assert found is not None
        assert found["status"]["completedIndexes"].startswith("0-")

    play(scenario)


def test_a_server_that_stumbles_once_delays_a_status_by_seconds() -> None:
    async def scenario(world: World) -> None:
        world.answer("host", "web/status", *refusal(500, "InternalError"))
        await world.create(PSVC, "feed", "web", service(2))
        await asyncio.sleep(2)
        assert 1 <= world.answered["web/status"] <= 2
        world.clear()
        await asyncio.sleep(3)
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"

    play(scenario)
