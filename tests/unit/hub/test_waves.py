"""What one workload gives up goes to the host before another takes it; and how late this process's
loop is, is told.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping

import pytest

from federator.api.placement.decisionfacts import decision_facts
from federator.embedded.storage.revisions import Event
from federator.hub.leading.process import HubProcess
from federator.hub.placing.pledges import Pledges
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.model.ask import PodShape, Tier
from federator.model.fleet import Commitment, Holding
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.sandbox.federation import Federation
from federator.scheduling import write_order
from federator.scheduling.write_order import Effect
from tests import virtual_time
from tests.unit.hub.world import World, play, service, small_fleet
from tests.worlds import EPOCH_S

LIMIT_CPU = 4000
QUOTA = {
    "projects": ["feed"],
    "namespaces": ["feed"],
    "tiers": {"OnDemand": {"max": {"cpu": "4", "memory": "64Gi"}}},
}


def held(copies: int, requests: Mapping[str, int], project: str = "feed") -> Commitment:
    key = WorkloadKey("PinterestService", "feed", "web")
    shape = PodShape(requests=Resources(requests))
    return Commitment(
        "1", key, project, "feed", Tier.ON_DEMAND, shape, (Holding("a", copies, copies, 1),)
    )


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        (None, held(2, {"cpu": 500}), Effect.TAKES),
        (None, held(0, {"cpu": 500}), Effect.TAKES),
        (held(2, {"cpu": 500}), held(3, {"cpu": 500}), Effect.TAKES),
        (held(3, {"cpu": 500}), held(2, {"cpu": 500}), Effect.FREES),
        (held(2, {"cpu": 500}), held(2, {"cpu": 500}), Effect.FREES),
        (held(2, {"cpu": 500}), held(2, {"cpu": 400, "memory": 1}), Effect.BOTH),
        (held(2, {"cpu": 500}), held(2, {"cpu": 500}, "ads"), Effect.BOTH),
        (held(2, {"cpu": 500}), held(0, {"cpu": 500}, "ads"), Effect.FREES),
        (held(0, {"cpu": 500}), held(2, {"cpu": 500}, "ads"), Effect.TAKES),
    ],
)
def test_what_a_decision_does_to_the_accounts_is_read_off_what_is_held_before_and_after(
    before: Commitment | None, after: Commitment, effect: Effect
) -> None:
    assert write_order.effect(before, after) is effect


def uses(world: World, seen: list[int]) -> None:
    """Notes, at every write of a decision, the cpus that all decisions on the host take
    together.
    """
    host = world.federation.host
    info = host.registry.get("federation.pinterest.com", "placementdecisions")

    def look(event: Event) -> None:
        if event.current.obj["kind"] != "PlacementDecision":
            return
        taken = 0
        for one in host.store.items(info):
            facts = decision_facts(one.obj)
            taken += facts.placed * (
                facts.terms.shape.requests["cpu"] if facts.terms.shape is not None else 0
            )
        seen.append(taken)

    host.store.subscribe_all(look)


def test_no_account_is_over_its_limit_while_one_workload_shrinks_and_another_grows() -> None:
    async def scenario(world: World) -> None:
        seen: list[int] = []
        uses(world, seen)
        await world.create("FederatedQuota", "", "feed", QUOTA)
        await world.create("PinterestService", "feed", "web", service(7, project="feed"))
        await world.create("PinterestService", "feed", "api", service(1, project="feed"))
        await world.settle()
        for web, api in ((1, 7), (7, 1), (2, 6), (7, 1)):
            await world.patch("PinterestService", "feed", "web", {"spec": {"replicas": web}})
            await world.patch("PinterestService", "feed", "api", {"spec": {"replicas": api}})
            await world.settle()
            assert sum((await world.shares("feed", "web")).values()) == web
            assert sum((await world.shares("feed", "api")).values()) == api
        assert max(seen) == LIMIT_CPU

    play(scenario)


def test_a_batch_takes_what_an_earlier_one_gives_up_only_when_the_host_has_that() -> None:
    said: list[str] = []

    async def batch(pledges: Pledges, name: str, gives_s: float, *, kept: bool = True) -> None:
        async with pledges.made() as pledge:
            await asyncio.sleep(gives_s)
            said.append(f"{name} gave")
            pledge.settle(kept=kept)
            said.append(f"{name} takes" if await pledge.earlier_kept() else f"{name} decides again")

    async def main() -> None:
        pledges = Pledges()
        async with asyncio.TaskGroup() as group:
            for name, gives_s, kept in (
                ("first", 3.0, True),
                ("second", 1.0, False),
                ("third", 0.0, True),
            ):
                group.create_task(batch(pledges, name, gives_s, kept=kept))
                await asyncio.sleep(0)
        await batch(pledges, "last", 0.0)

    virtual_time.run(main())
    assert said[:4] == ["third gave", "second gave", "first gave", "first takes"]
    assert sorted(said[4:6]) == ["second takes", "third decides again"]
    assert said[6:] == ["last gave", "last takes"]


def test_what_a_workload_gives_up_is_offered_when_its_pods_have_ended() -> None:
    async def scenario(world: World) -> None:
        await world.create("FederatedQuota", "", "feed", QUOTA)
        await world.create("PinterestService", "feed", "web", service(8, project="feed"))
        await world.settle()
        await world.create("PinterestService", "feed", "api", service(4, project="feed"))
        await world.settle()
        assert sum((await world.shares("feed", "api")).values()) == 0

        await world.patch("PinterestService", "feed", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(1)
        assert sum((await world.shares("feed", "api")).values()) == 0
        await asyncio.sleep(4)
        assert sum((await world.shares("feed", "api")).values()) == 4

    play(scenario)


def test_a_hub_measures_how_late_its_loop_is() -> None:
    metrics = Metrics()

    async def main() -> None:
        federation = Federation(fleet=small_fleet(1), clock=Clock(EPOCH_S), rng=random.Random(1))
        federation.start_clusters()
        await federation.install()
        process = HubProcess(
            federation.client("host", "hub"),
            federation.connect,
            options=federation.hub_options,
            clock=federation.clock,
            rng=random.Random(2),
            metrics=metrics,
        )
        task = asyncio.create_task(process.run())
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.wait([task])
        await federation.stop()

    virtual_time.run(main())
    found: Counter[str] = Counter()
    for family in metrics.registry.collect():
        for sample in family.samples:
            found[sample.name] += int(sample.value)
    assert found["federator_loop_lag_seconds_count"] >= 9
