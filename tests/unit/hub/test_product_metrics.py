"""What the leading hub publishes of its product: reconcile latency, workloads, quota and room."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

from federator import app
from federator.advice import drills as worker_drills
from federator.advice.trials import never
from federator.hub.cache.state import HubState
from federator.hub.evacuation import drilling
from federator.hub.metering import figures
from federator.hub.snapshot.computing import Broken, InProcess
from federator.hub.snapshot.places import Full, Kind
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.kube.threads import Stop
from federator.model.ask import Tier
from federator.model.decision import Share
from federator.model.fleet import FleetSnapshot
from federator.model.steps import ObjectRef
from federator.scheduling import drill
from federator.scheduling.drill import DrillResult
from tests.unit.hub.world import World, jobset, play, service

T = TypeVar("T")
PSVC, PJS = "PinterestService", "PinterestJobSet"


async def measured(world: World) -> Callable[[str], float | None]:
    """A hub with metrics leads, and has read its first figures; returns what reads a sample."""
    world.federation.metrics = Metrics()
    await world.federation.kill("hub")
    world.federation.start_hub()
    await asyncio.sleep(30)
    await world.settle()

    def sample(name: str) -> float | None:
        metrics = world.federation.metrics
        assert metrics is not None
        values = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines())
        return float(values[name]) if name in values else None

    return sample


def test_the_way_of_a_change_is_measured_step_by_step() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "old", service(2))
        await world.settle()
        sample = await measured(world)

        def took(step: str, kind: str = PSVC, what: str = "count") -> float | None:
            return sample(f'federator_reconcile_seconds_{what}{{kind="{kind}",step="{step}"}}')

        # What a leader reads at its start is no change; a series without changes begins at 0.
        assert took("decided") == 0.0
        await world.create(PSVC, "feed", "web", service(6))
        await world.create(PJS, "feed", "train", jobset(4, 4))
        await world.settle()

        steps = ("decided", "written", "made", "ready")
        assert [took(step) for step in steps] == [1.0, 1.0, 1.0, 1.0]
        sums = [took(step, what="sum") for step in steps]
        assert sums == sorted(sums, key=lambda value: value or 0.0)
        assert 0.0 < (sums[3] or 0.0) < 30.0
        assert [took(step, PJS) for step in steps] == [1.0, 1.0, 1.0, None]

        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await world.settle()
        assert took("ready") == 2.0

    play(scenario)


def test_a_change_that_a_member_cannot_get_is_shown_as_waiting_with_its_age() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        sample = await measured(world)
        await world.cut("b")
        await world.patch(
            PSVC, "feed", "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}
        )
        await asyncio.sleep(25)

        waiting = f'federator_reconcile_waiting{{kind="{PSVC}",step="written"}}'
        assert sample(waiting) == 1.0
        assert (sample('federator_reconcile_oldest_seconds{step="written"}') or 0.0) > 5.0

        world.heal()
        await world.settle()
        await asyncio.sleep(figures.PASS_S)
        assert sample(waiting) is None
        assert sample(f'federator_reconcile_seconds_count{{kind="{PSVC}",step="ready"}}') == 1.0

    play(scenario)


def test_workloads_copies_quota_and_room_are_published_by_the_leader_alone() -> None:
    async def scenario(world: World) -> None:
        guaranteed = {"Reserved": {"guaranteed": {"cpu": "4"}, "max": {"cpu": "4"}}}
        await world.create(
            "FederatedQuota",
            "",
            "ads",
            {"projects": ["ads"], "namespaces": ["ads"], "tiers": guaranteed},
        )
        ads = {"project": "ads", "tier": "Reserved"}
        await world.create(PSVC, "ads", "small", service(2, **ads))
        await world.settle()
        await world.create(PSVC, "ads", "large", service(10, **ads))
        await world.create(PJS, "ads", "off", {**jobset(4, 4), **ads, "suspend": True})
        await world.settle()
        sample = await measured(world)
        await asyncio.sleep(figures.PASS_S)

        def workloads(kind: str, state: str, reason: str) -> float | None:
            return sample(f'federator_workloads{{kind="{kind}",reason="{reason}",state="{state}"}}')

        assert workloads(PSVC, "placed", "Chosen") == 1.0
        assert workloads(PSVC, "short", "ExceedsMaxQuota") == 1.0
        assert workloads(PJS, "suspended", "Suspended") == 1.0
        copies = [sample(f'federator_copies{{cluster="{name}",kind="{PSVC}"}}') for name in "abc"]
        assert sum(value or 0.0 for value in copies) == 8.0
        quota = 'federator_quota{{account="ads",figure="{}",resource="cpu",tier="Reserved"}}'
        assert sample(quota.format("used")) == 4.0
        assert sample(quota.format("guaranteed")) == 4.0
        assert sample('federator_cluster_capacity{cluster="a",resource="cpu"}') == 32.0
        assert (sample('federator_cluster_free{cluster="a",resource="cpu"}') or 0.0) < 32.0

        assert sample("federator_paused") == 0.0
        meta = {"name": "federator", "namespace": "federator-system"}
        switch = ObjectRef("v1", "configmaps", meta["namespace"], meta["name"], "ConfigMap")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        await world.host.create(switch, {**body, "data": {"paused": "true"}})
        await asyncio.sleep(2 * figures.PASS_S)
        assert sample("federator_paused") == 1.0

        await world.federation.kill("hub")
        assert sample("federator_paused") is None
        assert sample('federator_cluster_capacity{cluster="a",resource="cpu"}') is None

    play(scenario)


def test_a_hub_that_starts_queues_no_slice_that_a_decision_accounts_for() -> None:
    async def scenario(world: World) -> None:
        for number in range(4):
            await world.create(PSVC, "feed", f"w{number}", service(3))
        await world.settle()
        world.hold_up("host", "/pinterestservices", 3.0)  # members answer first
        world.hold_up("host", "/placementdecisions", 3.0)
        sample = await measured(world)
        assert sample('workqueue_adds_total{name="orphans"}') is None
        assert sample('workqueue_adds_total{name="placing"}')

    play(scenario)


@pytest.mark.parametrize("worker", [False, True], ids=["on the loop", "next to the loop"])
def test_the_hub_drills_the_loss_of_each_cluster_without_end(*, worker: bool) -> None:
    drilled = list[str]()

    async def scenario(world: World) -> None:
        # 3 clusters of 32 cpus: without one of them 64 are left for 72
        await world.create(PSVC, "feed", "web", service(72, cpu="1"))
        await world.settle()
        sample = await measured(world)
        process = world.federation.processes["hub"]

        async def compute(work: Callable[[Stop], list[DrillResult]]) -> list[DrillResult]:
            outcomes = work(never)
            drilled.extend(outcome.loss.name for outcome in outcomes)
            return outcomes

        if worker:
            beside = InProcess(lambda: process.state, process.clock, compute)
            elsewhere = app.drilling_with(process, beside, lambda: True)
            process.controllers.drilling.elsewhere = elsewhere
        await asyncio.sleep(drilling.ROUND_S)

        def lacking(cluster: str) -> float | None:
            labels = f'cluster="{cluster}",tier="OnDemand"'
            return sample(f"federator_drill_unplaceable_replicas{{{labels}}}")

        assert [lacking(cluster) for cluster in "abc"] == [8.0, 8.0, 8.0]
        # 24 copies are there, 16 of them have a place: at 300 a minute
        assert sample('federator_drill_recovery_seconds{cluster="a"}') == 16 * 60 / 300

        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 60}})
        await world.settle()
        await asyncio.sleep(2 * drilling.ROUND_S)
        assert [lacking(cluster) for cluster in "abc"] == [0.0, 0.0, 0.0]

    play(scenario)
    assert set(drilled) == (set("abc") if worker else set())


def test_a_worker_is_asked_for_many_losses_at_once_and_each_costs_no_look_at_the_fleet() -> None:
    asked, looks = list[int](), 0

    async def scenario(world: World) -> None:
        nonlocal looks
        await world.create(PSVC, "feed", "web", service(6, cpu="1"))
        await world.settle()
        process = world.federation.processes["hub"]
        drills, state = process.controllers.drilling, process.state

        async def compute(work: Callable[[Stop], list[DrillResult]]) -> list[DrillResult]:
            outcomes = work(never)
            asked.append(len(outcomes))
            return outcomes

        drills.elsewhere = app.drilling_with(
            process, InProcess(lambda: process.state, process.clock, compute), lambda: True
        )
        (first, *_) = losses = drill.losses(state.snapshot(process.clock))
        await drills.drill([replace(first, name=f"loss {number}") for number in range(10)])
        assert (asked, len(drills.outcomes)) == ([1, 2, 4, 3], 10)

        drills.elsewhere = None
        whole = type(state).snapshot

        def counted(self: HubState, clock: Clock) -> FleetSnapshot:
            nonlocal looks
            looks += 1
            return whole(self, clock)

        with patch.object(type(state), "snapshot", counted):
            await drills.drill(losses)
        assert (looks, set(drills.outcomes)) == (1, {*"abc"})

    play(scenario)


@pytest.mark.parametrize(
    ("answer_s", "answered"),
    [pytest.param(0.0, [0, 0, 0], id="too large"), pytest.param(60.0, [1, 2], id="in parts")],
)
def test_a_loss_that_takes_the_worker_too_long_is_drilled_on_the_loop(
    monkeypatch: pytest.MonkeyPatch, answer_s: float, answered: list[int]
) -> None:
    """What an answer says does not depend on the parts in which it is computed."""
    monkeypatch.setattr(worker_drills, "ANSWER_S", answer_s)
    monkeypatch.setattr(worker_drills, "PART", 1)

    async def scenario(world: World) -> None:
        for number in range(3):
            await world.create(PSVC, "feed", f"w{number}", service(24, cpu="1"))
        await world.settle()
        process, asked = world.federation.processes["hub"], list[int]()
        controller = process.controllers.drilling

        async def compute(work: Callable[[Stop], list[DrillResult]]) -> list[DrillResult]:
            outcomes = work(never)
            asked.append(len(outcomes))
            return outcomes

        beside = InProcess(lambda: process.state, process.clock, compute)
        controller.elsewhere = app.drilling_with(process, beside, lambda: True)
        await controller.drill(drill.losses(process.state.snapshot(process.clock)))

        assert asked == answered
        outcomes = controller.outcomes
        assert {name: outcomes[name].missing(Tier.ON_DEMAND) for name in outcomes} == dict.fromkeys(
            "abc", 8
        )
        assert {outcomes[name].copies for name in outcomes} == {24}

    play(scenario)


@pytest.mark.parametrize("trouble", [Broken(), Full(), TimeoutError()], ids=repr)
def test_the_hub_drills_on_its_loop_while_no_worker_answers(trouble: Exception) -> None:
    async def scenario(world: World) -> None:
        async def compute(kind: Kind, work: Callable[..., T], *arguments: Any) -> T:
            raise trouble

        await world.create(PSVC, "feed", "web", service(72, cpu="1"))
        await world.settle()
        sample = await measured(world)
        process = world.federation.processes["hub"]
        elsewhere = app.drilling_with(process, compute, lambda: True)
        process.controllers.drilling.elsewhere = elsewhere
        await asyncio.sleep(drilling.ROUND_S)

        labels = 'cluster="a",tier="OnDemand"'
        assert sample(f"federator_drill_unplaceable_replicas{{{labels}}}") == 8.0

    play(scenario)


@pytest.mark.parametrize(
    ("before", "after", "copies"),
    [
        pytest.param({}, {"a": 3}, 0, id="new"),
        pytest.param({"a": 3}, {}, 0, id="gone"),
        pytest.param({"a": 3}, {"a": 2, "b": 1}, 1, id="moved"),
        pytest.param({"a": 3, "b": 2}, {"a": 1, "b": 5}, 2, id="moved and grown"),
        pytest.param({"a": 3, "b": 2}, {"b": 3}, 1, id="moved and shrunk"),
    ],
)
def test_copies_that_change_clusters_are_moves_and_growth_is_none(
    before: dict[str, int], after: dict[str, int], copies: int
) -> None:
    def shares(counts: dict[str, int]) -> list[Share]:
        return [Share(cluster, count, 0) for cluster, count in counts.items()]

    assert figures.moved(shares(before), shares(after)) == copies


def test_a_cluster_that_left_the_fleet_has_no_samples_any_more() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await measured(world)

        def shown() -> list[str]:
            assert world.federation.metrics is not None
            text = world.federation.metrics.render().decode()
            return [line for line in text.splitlines() if 'cluster="a"' in line]

        assert shown()
        await world.delete("MemberCluster", "", "a")
        await world.settle()
        await asyncio.sleep(2 * figures.PASS_S)
        assert await world.get("MemberCluster", "", "a") is None
        assert shown() == []

    play(scenario)
