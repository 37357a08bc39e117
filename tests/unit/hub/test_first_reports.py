"""New workloads wait until each member has reported its capacity once, for at most 10 s; nothing
else waits.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from federator.hub.options import HubOptions
from federator.hub.placing.first_reports import MOST_S
from federator.kinds import registry
from tests import virtual_time
from tests.faults.links import Cut
from tests.unit.hub.world import World, service, small_fleet

PROMPT_S = 3.0
"""A decision that waits for nothing is there within this."""


class Beginning(World):
    """A federation in which only some processes have started."""

    def __init__(self, members: int = 3) -> None:
        super().__init__(small_fleet(members), HubOptions(), 1)

    async def begin(self, *reporting: str) -> None:
        """The clusters are installed; the hub and the member processes of these start."""
        self.federation.start_clusters()
        await self.federation.install()
        for name in reporting:
            self.federation.start_member(name)
        self.federation.start_hub()

    async def serve(self, name: str = "web") -> None:
        await self.create("PinterestService", "feed", name, service(6))

    async def decided(self, name: str = "web", within_s: float = 60.0) -> tuple[float, set[str]]:
        """Seconds until there is a decision on a service, and the clusters of the first one."""
        begun_s = self.now_s
        while not (shares := await self.shares("feed", name)):
            assert self.now_s < begun_s + within_s, f"nothing is decided after {within_s} s"
            await asyncio.sleep(0.05)
        return self.now_s - begun_s, set(shares)

    @property
    def now_s(self) -> float:
        return asyncio.get_running_loop().time()


def play(story: Callable[[Beginning], Awaitable[None]], members: int = 3) -> None:
    async def main() -> None:
        world = Beginning(members)
        try:
            await story(world)
            world.federation.check()
        finally:
            await world.federation.stop()

    virtual_time.run(main())


def test_the_first_workloads_wait_for_a_slow_member_and_go_to_all() -> None:
    async def story(world: Beginning) -> None:
        await world.begin("a")
        await world.serve()
        await asyncio.sleep(4.0)
        assert not await world.decisions()
        world.federation.start_member("b")
        await asyncio.sleep(2.0)
        assert not await world.decisions()
        world.federation.start_member("c")
        took_s, clusters = await world.decided()
        assert took_s < PROMPT_S
        assert clusters == {"a", "b", "c"}

    play(story)


def test_a_member_that_never_reports_is_waited_for_10_s_and_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: Beginning) -> None:
        await world.begin("a", "b")
        await world.serve()
        took_s, clusters = await world.decided()
        assert MOST_S - PROMPT_S < took_s < MOST_S + PROMPT_S
        assert clusters == {"a", "b"}
        await world.serve("later")
        assert (await world.decided("later"))[0] < PROMPT_S

    with caplog.at_level(logging.WARNING, logger="federator.hub.placing.first_reports"):
        play(story)
    (line,) = (r.getMessage() for r in caplog.records if "first_reports" in r.name)
    assert line.startswith("1 new workloads are placed without a capacity report of c:")


def test_a_dead_member_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: Beginning) -> None:
        await world.cut("c")
        await world.begin("a", "b")
        await world.serve()
        took_s, clusters = await world.decided()
        assert took_s < PROMPT_S
        assert clusters == {"a", "b"}

    play(story)
    assert not [r for r in caplog.records if "first_reports" in r.name]


def test_a_member_that_falls_silent_before_its_report_is_waited_for_no_longer_than_10_s() -> None:
    async def story(world: Beginning) -> None:
        await world.begin("a", "b")
        await world.serve()
        await asyncio.sleep(2.0)
        assert not await world.decisions()
        await world.cut("c", how=Cut.SILENT)
        took_s, clusters = await world.decided()
        assert took_s < MOST_S
        assert clusters == {"a", "b"}

    play(story)


def test_a_federation_without_clusters_says_so_without_waiting() -> None:
    async def story(world: Beginning) -> None:
        await world.begin()
        await world.serve()
        begun_s = world.now_s
        while not await world.decisions():
            assert world.now_s < begun_s + PROMPT_S
            await asyncio.sleep(0.05)

    play(story, members=0)


def test_workloads_that_are_placed_do_not_wait_for_a_new_member() -> None:
    """A cluster joined, without a member process, while no hub led."""

    async def story(world: Beginning) -> None:
        await world.begin("a", "b", "c")
        await world.serve()
        await world.settle()
        await world.federation.kill("member c")
        await world.federation.kill("hub")
        capacity = registry.KINDS["ClusterCapacity"].ref("", "cluster")
        there = world.federation.members["c"]
        info = there.registry.get("federation.pinterest.com", "clustercapacities")
        there.store.delete(info, "", capacity.name, finalizers=())
        world.federation.start_hub()
        web = registry.KINDS["PinterestService"].ref("feed", "web")
        await world.host.patch(web, {"spec": {"replicas": 9}})
        await world.serve("new")
        await asyncio.sleep(PROMPT_S)
        assert sum((await world.shares("feed", "web")).values()) == 9
        assert not await world.shares("feed", "new")
        took_s, _ = await world.decided("new")
        assert took_s > PROMPT_S

    play(story)


def test_a_restarted_hub_places_new_workloads_without_waiting() -> None:
    async def story(world: Beginning) -> None:
        await world.begin("a", "b", "c")
        await world.serve()
        await world.settle()
        await world.federation.kill("hub")
        await world.serve("new")
        world.federation.start_hub()
        took_s, clusters = await world.decided("new")
        assert took_s < PROMPT_S
        assert clusters == {"a", "b", "c"}

    play(story)
