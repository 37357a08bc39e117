"""What a hub does not look at closely would have shown nothing: its shortcuts agree with the long
way, in whatever state a workload is met.
"""

import asyncio
from collections import Counter

from federator.model.names import WorkloadKey
from federator.scheduling.rollout import ActionKind
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"


class Watching:
    """Compares at every signal to fold, which is when somebody heard or wrote something."""

    def __init__(self, world: World) -> None:
        self.hub = world.federation.hub
        self.met: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.hub.state.signals.aggregate.append(self.look)

    def look(self, key: WorkloadKey) -> None:
        state, aggregation, view = (
            self.hub.state,
            self.hub.controllers.aggregation,
            self.hub.controllers.view,
        )
        workload = state.workloads.get(key)
        record = state.record_of(workload) if workload is not None else None
        if workload is None or record is None:
            return
        settled = aggregation.fold(workload).settled
        if aggregation.on_its_way(workload):
            self.met["not folded"] += 1
            if settled:
                self.wrong.append(f"{key} has settled and was not folded")
        self.met["settled"] += settled
        planned = view.plan(workload, record)
        for name, member in state.members.items():
            share, seen = record.share_of(name), member.contents.slice_of(key)
            if (
                share is not None
                and share.count
                and seen
                and view.carries(member, workload, share, seen)
            ):
                self.met["not planned"] += 1
                if (planned[name].kind, planned[name].count) != (ActionKind.NOTHING, share.count):
                    self.wrong.append(f"in {name} {planned[name]} was due and not planned")
            elif name in planned:
                self.met["planned"] += 1


def test_a_workload_passed_over_is_never_settled_and_a_slice_passed_over_never_due() -> None:
    met: Counter[str] = Counter()

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        watching = Watching(world)
        await world.settle()
        for spec in (
            {"replicas": 15},
            {"iamRole": "another"},
            {"replicas": 4},
            {"suspend": True},
            {"suspend": False},
        ):
            await world.patch(PSVC, "feed", "web", {"spec": spec})
            await world.settle()
        await world.cut("b")
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await world.patch(PSVC, "feed", "web", {"metadata": {"labels": {"tier": "x"}}}, at="c")
        await asyncio.sleep(60)
        world.heal()
        await world.settle()
        assert watching.wrong == []
        met.update(watching.met)

    play(scenario)
    assert min(met[name] for name in ("settled", "not folded", "planned", "not planned")) > 5, met


def test_a_roll_out_is_composed_once_for_each_of_its_statuses_and_not_for_each_pod() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(60))
        hub = world.federation.hub
        folded: list[bool] = []

        def signalled(key: WorkloadKey) -> None:
            workload = hub.state.workloads.get(key)
            if workload is not None and hub.state.record_of(workload) is not None:
                folded.append(not hub.controllers.aggregation.on_its_way(workload))

        hub.state.signals.aggregate.append(signalled)
        await world.settle()
        assert sum(folded) * 3 < len(folded)

    play(scenario)


def test_a_slice_that_was_read_ahead_of_its_watch_is_not_read_again() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        await world.cut("b")
        await world.patch(PSVC, "feed", "web", {"metadata": {"labels": {"seen": "first"}}}, at="b")
        await asyncio.sleep(
            0.5
        )  # the watch has shown that, and what it makes of the slice could not be read
        world.mute("b")
        await world.patch(PSVC, "feed", "web", {"metadata": {"labels": {"seen": "later"}}}, at="b")
        world.heal()
        world.reads.clear()
        await asyncio.sleep(10)
        path = "/apis/pinterest.com/v1beta1/namespaces/feed/pinterestservices/web"
        assert world.reads["hub", "b", path] == 1
        await world.unmute()
        await world.settle()

    play(scenario)
