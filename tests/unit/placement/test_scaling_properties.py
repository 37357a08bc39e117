"""Nodes to be added, on random fleets and batches, against a checker that lays every copy on a node
of its own account: it shares no code with the engine.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import Ask, PodShape
from federator.model.decision import Decision
from federator.model.fleet import Capacity, ClusterView, Commitment, FleetSnapshot, NodeRow
from federator.model.policy import Policy
from federator.model.resources import Resources
from federator.model.scaleup import NodeClass, ScaleUp
from federator.placement.room.commitments import Commitments
from tests.unit.placement import worlds
from tests.unit.placement.fleets import cluster, decide, fleet, jobs, service

CPUS = st.integers(1, 6)


def pod(cpu: int) -> PodShape:
    return PodShape(Resources({"cpu": 1000 * cpu, "pods": 1}))


@st.composite
def node_classes(draw: st.DrawFn) -> tuple[NodeClass, ...]:
    names = draw(st.lists(st.sampled_from("xyz"), unique=True, max_size=3))
    return tuple(
        NodeClass(
            name,
            Resources({"cpu": 1000 * draw(st.integers(1, 8)), "pods": draw(st.integers(1, 6))}),
            draw(st.integers(0, 4)),
            draw(st.integers(1, 9)),
            draw(st.none() | st.integers(0, 9)),
        )
        for name in sorted(names)
    )


@st.composite
def clusters(draw: st.DrawFn, name: str) -> ClusterView:
    size = Resources({"cpu": 1000 * draw(st.integers(1, 6)), "pods": 9})
    rows = (NodeRow(draw(st.integers(1, 3)), size, size),)
    classes = draw(node_classes())
    machines = {each.name: draw(st.integers(0, 2)) for each in classes}
    waiting = tuple(
        (pod(cpu), draw(st.integers(1, 4))) for cpu in draw(st.lists(CPUS, unique=True, max_size=2))
    )
    report = Capacity(rows, waiting=waiting, machines=machines)
    return cluster(name, 0, capacity=report, scale_up=classes)


@st.composite
def batches(draw: st.DrawFn) -> tuple[FleetSnapshot, list[Ask]]:
    views = [draw(clusters(name)) for name in "ab"[: draw(st.integers(1, 2))]]
    asks = []
    for number in range(draw(st.integers(1, 5))):
        policy = Policy(name="p", origin="match", scale_up=draw(st.sampled_from(ScaleUp)))
        count, shape, name = draw(st.integers(1, 12)), pod(draw(CPUS)), f"w{number}"
        asks.append(
            service(count, name=name, policy=policy, shape=shape)
            if draw(st.booleans())
            else jobs(count, count, name=name, policy=policy, shape=shape)
        )
    return fleet(*views), asks


@dataclass
class Machine:
    """A node by itself."""

    cpu: int
    pods: int

    def takes(self, cpu: int) -> bool:
        return self.cpu >= cpu and self.pods >= 1


def decided(
    snapshot: FleetSnapshot, asks: Sequence[Ask], *, cycles: bool
) -> list[tuple[Ask, Decision]]:
    """All decided one after the other: in one ledger, or in one each above what is in flight."""
    commitments, made = Commitments(), []
    ledger = commitments.open(snapshot)
    for seq, ask in enumerate(asks, start=1):
        if cycles:
            ledger = commitments.open(snapshot)
        decision = decide(ask, snapshot, ledger=ledger, seq=seq)
        made.append((ask, decision))
        if cycles:
            commitments.assume(Commitment.of(ask, decision.shares))
    return made


def per_node(ask: Ask, node_class: NodeClass) -> int:
    need = ask.shape.requests["cpu"]
    return min(node_class.allocatable["cpu"] // need, node_class.allocatable["pods"])


@given(batches(), st.booleans())
def test_promises_keep_within_the_classes_and_are_made_once(
    batch: tuple[FleetSnapshot, list[Ask]], cycles: bool
) -> None:
    snapshot, asks = batch
    promised: Counter[tuple[str, str]] = Counter()
    amount: Counter[tuple[str, str]] = Counter()
    slots: Counter[tuple[str, str]] = Counter()
    given_in: Counter[str] = Counter()
    for ask, decision in decided(snapshot, asks, cycles=cycles):
        for added in decision.additions:
            promised[added.cluster, added.node_class] += added.nodes
            amount[added.cluster, added.node_class] += added.copies * ask.shape.requests["cpu"]
            slots[added.cluster, added.node_class] += added.copies
        for share in decision.shares:
            given_in[share.cluster] += share.slots * ask.shape.requests["cpu"]
    for name, view in snapshot.clusters.items():
        assert view.capacity is not None
        for each in view.scale_up:
            left = max(each.most - view.capacity.machines[each.name], 0)
            key = (name, each.name)
            assert promised[key] <= left
            # No copy is charged twice to one node, nor to one that pods wait for already.
            assert amount[key] <= left * each.allocatable["cpu"]
            assert slots[key] <= left * each.allocatable["pods"]
        room = sum(row.count * row.free["cpu"] for row in view.capacity.rows)
        beyond = sum(amount[name, each.name] for each in view.scale_up)
        assert given_in[name] <= room + beyond


@given(batches())
def test_never_places_nothing_beyond_free_room(batch: tuple[FleetSnapshot, list[Ask]]) -> None:
    snapshot, asks = batch
    never = [
        dataclasses.replace(ask, policy=Policy(name="p", scale_up=ScaleUp.NEVER)) for ask in asks
    ]
    bare = dataclasses.replace(
        snapshot,
        clusters={
            name: dataclasses.replace(view, scale_up=()) for name, view in snapshot.clusters.items()
        },
    )
    grown, plain = (decided(each, never, cycles=False) for each in (snapshot, bare))
    assert [decision.shares for _, decision in grown] == [decision.shares for _, decision in plain]
    assert not any(decision.additions for _, decision in grown)


@given(batches(), st.booleans())
def test_when_short_uses_the_free_room_that_there_is(
    batch: tuple[FleetSnapshot, list[Ask]], cycles: bool
) -> None:
    """A single workload waits for nodes only with the copies that free room does not hold."""
    snapshot, (ask, *_) = batch
    ask = dataclasses.replace(ask, policy=Policy(name="p", scale_up=ScaleUp.WHEN_SHORT))
    never = dataclasses.replace(ask, policy=Policy(name="p", scale_up=ScaleUp.NEVER))
    ((_, decision),) = decided(snapshot, [ask], cycles=cycles)
    ((_, free),) = decided(snapshot, [never], cycles=cycles)
    now = sum(share.slots for share in free.shares)
    waiting = sum(added.copies for added in decision.additions)
    assert sum(share.slots for share in decision.shares) == now + waiting
    assert decision.shortfall <= free.shortfall


@given(batches())
def test_what_is_told_of_nodes_holds_the_copies_that_wait(
    batch: tuple[FleetSnapshot, list[Ask]],
) -> None:
    """Each copy is laid on a machine by hand: enough nodes were promised, and none in vain."""
    snapshot, (ask, *_) = batch
    ((_, decision),) = decided(snapshot, [ask], cycles=False)
    for added in decision.additions:
        view = snapshot.clusters[added.cluster]
        (each,) = (one for one in view.scale_up if one.name == added.node_class)
        assert added.minutes == each.minutes
        assert added.price == (None if each.price is None else each.price * added.nodes)
        cpu = ask.shape.requests["cpu"]
        machines = [
            Machine(each.allocatable["cpu"], each.allocatable["pods"]) for _ in range(added.nodes)
        ]
        laid = 0
        for _ in range(added.copies):
            machine = next((one for one in machines if one.takes(cpu)), None)
            if machine is None:
                break
            machine.cpu, machine.pods, laid = machine.cpu - cpu, machine.pods - 1, laid + 1
        # The rest shares nodes that pods of the report wait for.
        assert view.capacity is not None
        assert laid == added.copies or view.capacity.waiting
        assert per_node(ask, each) > 0
        assert added.nodes <= -(-added.copies // per_node(ask, each))


@given(worlds.snapshots(), worlds.asks(), st.sampled_from(ScaleUp))
def test_a_fleet_without_scale_up_decides_as_before(
    snapshot: FleetSnapshot, ask: Ask, scale_up: ScaleUp
) -> None:
    policy = dataclasses.replace(ask.policy, scale_up=scale_up)
    other = decide(dataclasses.replace(ask, policy=policy), snapshot)
    assert dataclasses.replace(other, inputs_hash="") == dataclasses.replace(
        decide(ask, snapshot), inputs_hash=""
    )
