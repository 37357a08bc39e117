"""What holds a turn of the submissions that are worked on at once."""

import asyncio

from federator.gateway.platforms import federation
from federator.kube.wire.transport import Request, Response, Transport
from tests.unit.gateway import gating
from tests.unit.gateway.test_submissions import RUN, kept
from tests.unit.hub.world import World


class SlowLists:
    """A Transport to a host that takes a second for each list of a search."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.lists = 0

    async def request(self, request: Request) -> Response:
        if any(name == "labelSelector" for name, _ in request.query):
            self.lists += 1
            await asyncio.sleep(1)
        return await self._inner.request(request)

    async def close(self) -> None:
        await self._inner.close()


def test_submissions_that_share_a_search_hold_no_turn_meanwhile() -> None:
    async def scenario(world: World) -> None:
        wrapped: list[SlowLists] = []

        def wrap(inner: Transport) -> SlowLists:
            wrapped.append(SlowLists(inner))
            return wrapped[-1]

        door = await gating.opened(world, kept(), wrap=wrap, submissions_at_once=1)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        submitted = [door.submit("job", RUN, idempotencyKey=f"k{at}") for at in range(20)]
        answers = await asyncio.gather(*submitted)

        assert {code for code, _ in answers} == {201}, answers
        assert loop.time() - begun_s < 5  # of the only turn, each would hold a second
        assert sum(each.lists for each in wrapped) == 2 * len(federation.KINDS)

    gating.play(scenario)
