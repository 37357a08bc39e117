"""A submission that is cancelled while somebody else writes the same object."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from federator.kinds import registry
from federator.kube.wire.transport import Request, Response, Transport
from tests.unit.gateway import gating
from tests.unit.gateway.gating import SUBMISSIONS, Door
from tests.unit.gateway.test_submissions import RUN, kept
from tests.unit.hub.world import World

Write = Callable[[], Awaitable[object]]
SERVING = registry.KINDS["PinterestService"].ref("ads", "serving")


class Overtaken:
    """A Transport on which others write just before a deletion arrives, so many times."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.write: Write | None = None
        self.times = 1
        self.deletions = 0

    async def request(self, request: Request) -> Response:
        if request.method == "DELETE":
            self.deletions += 1
            if self.write is not None and self.times:
                self.times -= 1
                await self.write()
        return await self._inner.request(request)

    async def close(self) -> None:
        await self._inner.close()


async def _opened(world: World) -> tuple[Door, Overtaken]:
    made: list[Overtaken] = []

    def wrap(inner: Transport) -> Transport:
        made.append(Overtaken(inner))
        return made[0]

    return await gating.opened(world, kept(), wrap=wrap), made[0]


async def _cancelled(door: Door, path: str) -> tuple[int, dict[str, Any]]:
    answer = await door.ask("DELETE", path)
    return answer.status, json.loads(answer.body)


def test_a_cancel_that_races_an_edit_is_refused_and_deletes_nothing() -> None:
    async def scenario(world: World) -> None:
        door, way = await _opened(world)
        _, made = await door.submit("v1")
        host = world.federation.client("host")

        async def edit() -> None:
            await host.patch(SERVING, {"spec": {"replicas": 7}})

        way.write = edit
        status, problem = await _cancelled(door, f"{SUBMISSIONS}/{made['id']}")
        assert (status, problem["title"]) == (409, "Changed")
        assert problem["detail"].startswith("PinterestService/serving was changed while")
        stored = await world.get("PinterestService", "ads", "serving")
        assert stored is not None
        assert stored["spec"]["replicas"] == 7
        # Nobody writes any more.
        way.write = None
        assert (await _cancelled(door, f"{SUBMISSIONS}/{made['id']}"))[0] == 200

    gating.play(scenario)


def test_a_cancel_that_races_a_later_submission_deletes_nothing() -> None:
    async def scenario(world: World) -> None:
        door, way = await _opened(world)
        other = await gating.another(world, door.versions, process="other")
        _, made = await door.submit("v1")

        async def submit() -> None:
            assert (await other.submit("v2"))[0] == 201

        way.write = submit
        status, problem = await _cancelled(door, f"{SUBMISSIONS}/{made['id']}")
        assert (status, problem["title"]) == (409, "Changed")
        assert await world.get("PinterestService", "ads", "serving") is not None

    gating.play(scenario)


def test_a_cancel_is_not_held_up_by_the_status() -> None:
    async def scenario(world: World) -> None:
        door, way = await _opened(world)
        _, made = await door.submit("v1")
        host, counted = world.federation.client("host"), 0

        async def report() -> None:
            nonlocal counted
            counted += 1
            body = {"status": {"ready": 100 + counted}}
            await host.patch(SERVING, body, subresource="status")

        way.write, way.times = report, 4
        status, shown = await _cancelled(door, f"{SUBMISSIONS}/{made['id']}")
        assert (status, shown.get("state")) == (200, "Deleted"), shown
        assert (counted, way.deletions) == (4, 5)

    gating.play(scenario)


def test_two_cancels_at_once_both_end_well() -> None:
    async def scenario(world: World) -> None:
        door, way = await _opened(world)
        other = await gating.another(world, door.versions, process="other")
        _, made = await door.submit("job", RUN)

        async def cancel() -> None:
            assert (await _cancelled(other, f"{RUN}/{made['id']}"))[0] == 200

        way.write = cancel
        assert (await _cancelled(door, f"{RUN}/{made['id']}"))[0] == 200

    gating.play(scenario)
