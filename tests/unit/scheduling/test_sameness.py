"""Hub, `place` and `explain` take the same decision for the same input, what schedulers could not
bind included.
"""

import asyncio
import itertools
import random
from collections.abc import Mapping
from typing import Any

import pytest

from federator.advice import facts, trials
from federator.cli.files import situations
from federator.hub.placing import offline
from federator.hub.placing.offline import Situation
from federator.hub.query import advising
from federator.hub.query.advising import Inputs
from federator.hub.snapshot import world as snapshots
from federator.hub.snapshot.computing import InProcess
from federator.kinds import registry
from federator.model.decision import Decision, Reason
from federator.model.names import WorkloadKey
from federator.scheduling import cycle
from federator.scheduling.entry import Entry
from tests.unit.hub.test_unschedulable_caps import befriend, choosy
from tests.unit.hub.world import World, jobset, play, service, small_fleet
from tests.unit.query.asking import at_once

PSVC, PJS = "PinterestService", "PinterestJobSet"
QUOTA = {
    "projects": ["feed"],
    "namespaces": ["feed"],
    "tiers": {"OnDemand": {"max": {"cpu": "30"}}},
}
SPREAD = {
    "spread": [
        {
            "topologyKey": "zone",
            "minDomains": 2,
            "maxSkew": 2,
            "whenUnsatisfiable": "ScheduleAnyway",
        }
    ]
}
EXCLUDED = {"clusters": {"exclude": ["c"]}}


def told(decision: Decision) -> Any:
    """What a decision says, without its numbers and times."""
    return (
        [(one.cluster, one.count, one.slots, one.ranges) for one in decision.shares],
        (
            decision.wanted,
            decision.shortfall,
            decision.held,
            decision.to_move,
            decision.held_back,
            decision.surplus,
        ),
        (
            decision.reason,
            decision.inputs_hash,
            decision.policy_name,
            decision.tolerated,
            decision.per_cluster,
        ),
        [(one.cluster, one.reason, one.got) for one in decision.verdicts],
    )


async def on_the_host(world: World) -> list[dict[str, Any]]:
    """All objects that placing reads, as `explain` reads them."""
    found: list[dict[str, Any]] = []
    for name in (*situations.READ, *registry.WORKLOADS, "PlacementDecision"):
        kind = registry.KINDS[name]
        listing = await world.host.list(kind.api_version, kind.plural)
        found += [{**obj, "apiVersion": kind.api_version, "kind": name} for obj in listing.items]
    return found


def by_hub(world: World, key: WorkloadKey) -> Decision:
    """What the hub would decide, were it to look at the workload now."""
    placing = world.federation.hub.controllers.placing
    state = placing.state
    workload = state.workloads[key]
    ask = placing.asked(workload)
    assert ask is not None
    standing = placing.standing(workload, state.record_of(workload))
    entry = Entry(ask=ask, standing=standing, refused=state.refusal(workload))
    numbers = itertools.count(1)
    made = cycle.run(
        [entry],
        placing.inadmissible,
        state.snapshot(placing.clock),
        state.commitments,
        seq=numbers.__next__,
    )
    return made.decided[0].decision


async def by_port(world: World, key: WorkloadKey) -> Decision:
    """What the port that answers `explain` for an owner asks."""
    obj = await world.get(key.kind, key.namespace, key.name)
    assert obj is not None
    return alone(await by_objects(world, key.kind, obj), key)


async def by_objects(world: World, kind: str, obj: Mapping[str, Any]) -> Situation:
    """The situation of one workload, as the port makes it."""
    inputs = inputs_of(world)
    subject = await advising.subject_of(inputs, kind, obj)
    return advising.situation_of(snapshots.StateCopy.of(inputs.state, inputs.clock), subject)


def inputs_of(world: World) -> Inputs:
    hub = world.federation.hub
    return Inputs(
        hub.state,
        hub.host,
        world.federation.clock,
        InProcess(lambda: hub.state, world.federation.clock, at_once),
        hub.controllers.placing.as_now,
        timeout_s=5.0,
        for_room=hub.controllers.placing.inadmissible.for_room,
    )


def alone(situation: Situation, key: WorkloadKey) -> Decision:
    """As `explain` decides."""
    workload = situation.workloads[key]
    ask = situation.ask_of(workload)
    assert ask is not None
    return trials.decided(situation, workload, ask, situation.snapshot)


async def compared(world: World) -> dict[WorkloadKey, Decision]:
    """Every workload's decision, the same whoever asks."""
    clock = world.federation.clock
    objs = await on_the_host(world)
    together = {
        ask.key: decision for ask, decision in offline.read(objs, as_of=clock.now()).decide_all()
    }
    situation = offline.read(objs, as_of=clock.now())
    found = {}
    for key in sorted(world.federation.hub.state.workloads):
        found[key] = by_hub(world, key)
        assert told(alone(situation, key)) == told(found[key]), f"explain of {key}"
        assert told(await by_port(world, key)) == told(found[key]), f"explain of {key} by the port"
        assert told(together[key]) == told(found[key]), f"place of {key}"
        recorded = situation.records[key]
        assert [(one.cluster, one.count) for one in recorded.shares] == [
            row[:2] for row in told(found[key])[0]
        ]
    return found


async def crowded(world: World, rng: random.Random) -> None:
    """Some workloads that a quota, spread, a taint, jobs and room all have a say in."""
    await world.create("FederatedQuota", "", "feed", QUOTA)
    placements: list[dict[str, Any]] = [
        {},
        SPREAD,
        EXCLUDED,
        {"division": {"strategy": "Duplicate"}},
    ]
    for number in range(4):
        more = {"placement": placement} if (placement := placements[number]) else {}
        spec = service(
            rng.randrange(1, 12), cpu=rng.choice(["500m", "1", "3"]), project="feed", **more
        )
        await world.create(PSVC, "feed", f"web-{number}", spec)
    await world.create(PJS, "feed", "index", jobset(rng.randrange(4, 30), rng.randrange(2, 9)))
    refused = service(2, iamRole="role-of-others", project="feed")
    await world.create(PSVC, "feed", "claims", refused)


@pytest.mark.parametrize("seed", range(4))
def test_whoever_asks_gets_the_decision_of_the_hub(seed: int) -> None:
    async def scenario(world: World) -> None:
        await crowded(world, random.Random(seed))
        await asyncio.sleep(60)
        found = await compared(world)
        assert len({one.reason for one in found.values()}) > 1

    play(scenario, fleet=small_fleet(3, nodes=2), seed=seed)


def alone_on_it(cpu: str, run_s: int, deadline_s: int | None = None) -> dict[str, Any]:
    """A job set of one shard."""
    spec = jobset(1, 1, cpu, {"embedded.federator/run-seconds": str(run_s)})
    return spec | ({"activeDeadlineSeconds": deadline_s} if deadline_s else {})


def test_room_that_is_kept_for_wide_work_is_kept_by_all() -> None:
    """One node of 8 cpus: the wide job waits for 7 of them, small work passes it only if it has
    ended by then, or into the cpu that is left."""

    async def scenario(world: World) -> None:
        keeps = {"projects": ["feed"], "queueing": "Backfilling"}
        await world.create("FederatedQuota", "", "feed", keeps)
        await world.create(PJS, "feed", "runs", alone_on_it("5", 120, 200))
        await asyncio.sleep(20)
        await world.create(PJS, "feed", "wide", alone_on_it("7", 30))
        await asyncio.sleep(10)
        await world.create(PJS, "feed", "late", alone_on_it("2", 5))
        await world.create(PSVC, "feed", "web", service(2, "1", project="feed"))
        await world.create(PJS, "feed", "brief", alone_on_it("2", 20, 60))
        await asyncio.sleep(10)

        found = {key.name: decision for key, decision in (await compared(world)).items()}
        placed = {name: sum(one.slots for one in made.shares) for name, made in found.items()}
        assert placed == {"runs": 1, "wide": 0, "late": 0, "web": 1, "brief": 1}
        waits = await world.condition(PSVC, "feed", "web", "Placed")
        assert waits["reason"] == "InsufficientCapacity"
        assert "room is kept" in found["web"].message
        assert "wide" not in found["web"].message

        await asyncio.sleep(110)
        assert await world._by_cluster("feed", "wide", "slots") == {"a": 1}
        assert await world.shares("feed", "web") == {"a": 1}, "what is beside it"

    play(scenario, fleet=small_fleet(1, nodes=1))


def test_a_cluster_that_the_hub_has_capped_is_chosen_by_nobody() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", choosy(4))
        await asyncio.sleep(20)
        await befriend(world, "b")
        await asyncio.sleep(70)
        key = WorkloadKey(PSVC, "feed", "web")
        assert world.federation.hub.controllers.caps.capped(key) == {"a": 0, "c": 0}

        decision = (await compared(world))[key]
        assert {one.cluster: one.reason for one in decision.verdicts} == {
            "a": Reason.UNSCHEDULABLE,
            "b": Reason.CHOSEN,
            "c": Reason.UNSCHEDULABLE,
        }
        obj = await world.get(PSVC, "feed", "web")
        assert obj is not None
        situation = offline.read(await on_the_host(world), as_of=world.federation.clock.now())
        rows = facts.facts(obj, situation, situation.workloads[key])["clusters"]
        assert [row["cluster"] for row in rows if row["atMost"] == 0] == ["a", "c"], (
            "the arithmetic knows it, too"
        )

    play(scenario, fleet=small_fleet(3))


@pytest.mark.parametrize(
    "edit", [choosy(5), {**choosy(4), "priority": 7}], ids=["more copies", "another priority"]
)
def test_a_trial_of_an_edit_knows_the_caps_as_long_as_the_pods_stay_as_they_are(
    edit: dict[str, Any],
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", choosy(4))
        await asyncio.sleep(20)
        await befriend(world, "b")
        await asyncio.sleep(70)
        placed = await world.get(PSVC, "feed", "web")
        assert placed is not None
        live = advising.edited({**placed, "spec": edit}, placed, world.federation.clock.rfc3339())
        key = WorkloadKey(PSVC, "feed", "web")
        same = alone(await by_objects(world, PSVC, live), key)
        assert {one.cluster: one.count for one in same.shares} == {"b": edit["replicas"]}

        edit["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200m"
        other = advising.edited({**placed, "spec": edit}, placed, world.federation.clock.rfc3339())
        changed = alone(await by_objects(world, PSVC, other), key)
        assert Reason.UNSCHEDULABLE not in {one.reason for one in changed.verdicts}

    play(scenario, fleet=small_fleet(3))
