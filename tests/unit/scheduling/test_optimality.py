"""The optimality gap of a batch, against placements that are found by trying all of them, and
against an exact solver. Neither shares code with the bound.
"""

import dataclasses
import itertools
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, Component, PodShape, Tier
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, Holding, NodeRow
from federator.model.kubernetes.taints import Effect, Taint
from federator.model.policy import Division, Policy, Strategy
from federator.model.resources import Resources
from federator.model.scaleup import NodeClass, ScaleUp
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle, optimality
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.optimality import Batch, Gap
from federator.scheduling.queue import Queue
from federator.scheduling.write_order import Decided
from tests.bench import ordering
from tests.unit.placement.fleets import cluster, commitment, commitments_with, fleet, held, service

Node = tuple[str, tuple[int, int, int]]
"""Cluster; cpu, memory and pods that are free."""


def batch_of(
    snapshot: FleetSnapshot,
    *asks: Ask,
    commitments: Commitments | None = None,
    has: Sequence[Holding] = (),
) -> tuple[Batch, Sequence[Decided]]:
    above, numbers = commitments or Commitments(), itertools.count(100)
    entries = [Entry(ask=ask, standing=Standing(held=tuple(has))) for ask in asks]
    made = cycle.run(entries, Queue(), snapshot, above, seq=numbers.__next__)
    assert not made.failed
    return optimality.of_cycle(made.decided, above.open(snapshot)), made.decided


def pod(cpu: int, memory: int = 1) -> PodShape:
    return PodShape(Resources({"cpu": 1000 * cpu, "memory": memory << 30, "pods": 1}))


def node(cpu: int, memory: int, pods: int = 9) -> Resources:
    return Resources({"cpu": 1000 * cpu, "memory": memory << 30, "pods": pods})


@st.composite
def batches(draw: st.DrawFn) -> tuple[FleetSnapshot, list[Ask], list[Node]]:
    """Two clusters of one or two nodes, some of which they have to add, and up to six copies."""
    views, nodes = [], list[Node]()
    for name in "ab":
        rows = []
        for _ in range(draw(st.integers(0, 2))):
            cpu, memory, pods = draw(st.integers(1, 6)), draw(st.integers(1, 6)), 1 + draw(CPUS)
            rows.append(NodeRow(1, node(cpu, memory, pods), node(cpu, memory, pods)))
            nodes.append((name, (cpu, memory, pods)))
        adds = tuple(NodeClass("m", node(4, 3), 1, 5) for _ in range(draw(st.integers(0, 1))))
        nodes += [(f"{name} later", (4, 3, 9)) for _ in adds]
        views.append(cluster(name, 0, capacity=Capacity(tuple(rows)), scale_up=adds))
    asks = []
    for number in range(draw(st.integers(1, 3))):
        policy = Policy(
            name="p",
            origin="match",
            names=draw(st.sampled_from([(), ("a",), ("b",)])),
            scale_up=draw(st.sampled_from(ScaleUp)),
        )
        shape = pod(draw(CPUS), draw(CPUS))
        asks.append(service(draw(st.integers(1, 2)), name=f"w{number}", policy=policy, shape=shape))
    return fleet(*views), asks, nodes


CPUS = st.integers(1, 4)


def best(nodes: list[Node], asks: Sequence[Ask], worth: Mapping[str, float]) -> float:
    """The most worth of any placement, found by trying each node for each copy."""
    copies = [ask for ask in asks for _ in range(ask.count)]

    def most(at: int, left: tuple[tuple[int, int, int], ...]) -> float:
        if at == len(copies):
            return 0.0
        ask = copies[at]
        cpu, memory = ask.shape.requests["cpu"] // 1000, ask.shape.requests["memory"] >> 30
        found = most(at + 1, left)
        for place, (name, _) in enumerate(nodes):
            free = left[place]
            added = name.endswith(" later")
            allowed = not ask.policy.names or name[0] in ask.policy.names
            if added and ask.policy.scale_up is ScaleUp.NEVER:
                continue
            if allowed and free[0] >= cpu and free[1] >= memory and free[2] >= 1:
                after = (free[0] - cpu, free[1] - memory, free[2] - 1)
                rest = (*left[:place], after, *left[place + 1 :])
                found = max(found, worth[ask.uid] + most(at + 1, rest))
        return found

    return most(0, tuple(free for _, free in nodes))


def worths(nodes: list[Node], asks: Sequence[Ask]) -> Mapping[str, float]:
    """By uid: the largest part that a copy takes of any resource of all nodes."""
    cpu, memory, pods = (sum(free[index] for _, free in nodes) for index in range(3))
    return {
        ask.uid: max(
            ask.shape.requests["cpu"] / 1000 / cpu,
            (ask.shape.requests["memory"] >> 30) / memory,
            1 / pods,
        )
        for ask in asks
    }


@settings(max_examples=80)
@given(batches())
def test_no_placement_exceeds_the_bound(
    drawn: tuple[FleetSnapshot, list[Ask], list[Node]],
) -> None:
    snapshot, asks, nodes = drawn
    batch, decided = batch_of(snapshot, *asks)
    if not nodes:
        assert batch.gap() == Gap(0.0, 0.0)
        return
    worth = worths(nodes, asks)

    placed = sum(worth[each.entry.ask.uid] * each.after.copies for each in decided)
    gaps = list(batch.gaps())

    for gap in gaps:
        assert gap.placed == pytest.approx(placed)
        assert gap.bound >= placed * (1 - 1e-9)
        if batch.packing is not None:
            assert gap.bound >= best(nodes, asks, worth) * (1 - 1e-9)
    assert [gap.bound for gap in gaps] == sorted((gap.bound for gap in gaps), reverse=True)
    assert 0.0 <= gaps[-1].ratio <= 1.0
    short = any(each.decision.reason in optimality.ROOM for each in decided)
    assert (batch.packing is not None) == short


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_that_of_an_exact_solver(seed: int) -> None:
    rng = random.Random(seed)
    scene = ordering.mixed(rng)
    asks = ordering.batch(scene, 0.95, rng)
    batch, _ = batch_of(scene.snapshot, *asks)
    gap, packing = batch.gap(), batch.packing
    assert packing is not None
    totals = {**dict(scene.total), "pods": sum(250 * row.count for _, row in scene.kinds)}

    def weigh(shape: PodShape) -> float:
        return max(need / totals[name] for name, need in shape.requests.items())

    exact = ordering.upper_bound(asks, scene, weigh)

    # what the batch got: of workloads that lack nothing but room, nothing differs from what they ask
    assert gap.bound == pytest.approx(exact, rel=0.002)
    assert gap.bound >= exact * (1 - 1e-6)
    assert gap.ratio == pytest.approx(1 - gap.placed / gap.bound)


def test_what_fits_as_a_whole_leaves_no_gap() -> None:
    batch, _ = batch_of(fleet(cluster("a", 4)), service(4))

    assert batch.packing is None
    assert batch.gap().ratio == 0.0
    assert batch.gap().placed == pytest.approx(1.0)


def test_a_batch_in_a_bad_order_shows_its_gap() -> None:
    # Two machines of 4 cores: copies of 3 leave a core on each that those of 4 would have used.
    view = cluster("a", 4, nodes=2)
    small = service(2, name="small", shape=pod_of(3000), priority=9)
    large = service(2, name="large", shape=pod_of(4000), priority=1)

    gap = batch_of(fleet(view), small, large)[0].gap()

    assert gap.placed == pytest.approx(0.75)
    assert gap.bound == pytest.approx(1.0, rel=0.01)
    assert gap.ratio == pytest.approx(0.25, rel=0.05)


def pod_of(cpu: int) -> PodShape:
    return PodShape(Resources({"cpu": cpu, "pods": 1}))


def test_what_is_short_of_quota_counts_as_asked_for_what_it_got() -> None:
    account = QuotaAccount(
        "feed",
        projects=frozenset({"feed"}),
        tiers={Tier.ON_DEMAND: TierQuota(Resources({"cpu": 2000}))},
        generation=1,
    )
    snapshot = fleet(cluster("a", 9), quotas=[account])
    other = service(99, name="other", project="free", policy=Policy(names=("b",)))

    batch, decided = batch_of(snapshot, service(5), other)

    assert sum(each.after.copies for each in decided) == 2
    assert batch.gap().ratio == 0.0


def test_usable_and_taints_are_no_room() -> None:
    half = cluster("a", 10, usable_permille=500)
    closed = ClusterView(
        "b",
        capacity=Capacity(
            (NodeRow(1, node(10, 10), node(10, 10), taints=(Taint("k", "", Effect.NO_SCHEDULE),)),)
        ),
    )

    gap = batch_of(fleet(half, closed), service(20))[0].gap()

    assert gap.ratio == pytest.approx(0.0, abs=1e-3)


def test_copies_that_ran_before_are_not_counted() -> None:
    ask = service(9)
    before = commitments_with(commitment(ask, held(a=3)))
    view = cluster("a", 4, capacity=Capacity((NodeRow(1, POD_ROOM, POD_ROOM),), includes_seq=9))

    batch, decided = batch_of(fleet(view), ask, commitments=before, has=held(a=3))

    assert decided[0].after.copies == 7
    assert batch.placed == pytest.approx(1.0)
    assert batch.gap().ratio == pytest.approx(0.0, abs=1e-3)


POD_ROOM = Resources({"cpu": 4000, "pods": 100})


def test_gangs_count_by_their_pods_and_daemons_not_at_all() -> None:
    parts = [Component("ps", pod_of(1000), 1, 1), Component("worker", pod_of(2000), 2, 2)]
    gangs = service(1, name="gang", shape=PodShape.together(parts))
    daemon = dataclasses.replace(pod_of(1000), one_per_node=True, every_node=True)
    every = service(
        1,
        name="daemon",
        shape=daemon,
        policy=Policy(division=Division(strategy=Strategy.DUPLICATE)),
    )

    batch, decided = batch_of(fleet(cluster("a", 8)), gangs, every)

    assert {each.entry.ask.key.name: each.after.copies for each in decided}["gang"] == 1
    assert batch.placed == pytest.approx(5 / 8)


def test_large_fleets_are_bounded_by_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    scene = ordering.mixed(rng)
    asks = ordering.batch(scene, 0.95, rng)
    fine = batch_of(scene.snapshot, *asks)[0].gap()
    monkeypatch.setattr(optimality, "_LARGE", 0)

    coarse = batch_of(scene.snapshot, *asks)[0]

    assert coarse.packing is not None
    assert coarse.packing.free.shape[0] == len(scene.snapshot.clusters)
    assert coarse.gap().bound >= fine.bound * (1 - 2e-3)
