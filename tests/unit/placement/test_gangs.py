"""Gangs: all pods of all components in one cluster, or none; elastic ones between their bounds."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, Component, PodShape, Tier, Unit
from federator.model.decision import Decision, Reason, grouped
from federator.model.fleet import Capacity, ClusterView, Commitment, FleetSnapshot, NodeRow
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.placement import engine
from federator.placement.room.commitments import Commitments
from tests.examples import examples


def pod(cpu: int, gpu: int = 0) -> PodShape:
    return PodShape(Resources({"cpu": cpu, "nvidia.com/gpu": gpu, "pods": 1}))


def cluster(name: str, nodes: int, cpu: int, gpu: int = 0) -> ClusterView:
    amounts = Resources({"cpu": cpu, "nvidia.com/gpu": gpu, "pods": 110})
    return ClusterView(name, capacity=Capacity(rows=(NodeRow(nodes, amounts, amounts),)))


def fleet(*views: ClusterView, quotas: tuple[QuotaAccount, ...] = ()) -> FleetSnapshot:
    return FleetSnapshot(0.0, {view.name: view for view in views}, quotas)


def gang(*parts: Component, uid: str = "u") -> Ask:
    key = WorkloadKey("PinterestTrainingJob", "ml", f"job-{uid}")
    return Ask(key, uid, 1, Unit.SHARDS, 1, 1, PodShape.together(parts), "ml", whole=True)


def decide(ask: Ask, snapshot: FleetSnapshot, commitments: Commitments | None = None) -> Decision:
    ledger = (commitments or Commitments()).open(snapshot)
    return engine.decide(ask, (), snapshot, ledger, seq=1)


def test_a_cluster_that_lacks_nodes_for_a_component_could_take_no_gang() -> None:
    both = PodShape.together((Component("ps", pod(6000), 1, 1), Component("w", pod(100, 1), 1, 1)))
    ledger = Commitments().open(fleet(cluster("a", 2, 8000), cluster("b", 2, 8000, gpu=1)))
    assert [ledger.could_take(name, both) for name in ("a", "b", "nowhere")] == [0, 1, 0]


def test_components_of_different_shapes_are_placed_together_or_not_at_all() -> None:
    # Either component alone would fit into a, both only into b.
    snapshot = fleet(cluster("a", 2, 8000), cluster("b", 3, 8000))
    made = decide(
        gang(Component("ps", pod(6000), 2, 2), Component("worker", pod(3000), 2, 2)), snapshot
    )
    assert [share.cluster for share in made.shares] == ["b"]
    assert (made.wanted, made.shortfall) == (1, 0)
    said = {verdict.cluster: verdict.message for verdict in made.verdicts}
    assert said["a"] == "cluster a has room for 0 of 2 pods of worker (cpu 3, pods 1 each)"
    (group,) = grouped(made.verdicts).rejected
    assert group.message == said["a"]


def test_where_nothing_has_room_for_all_the_component_and_the_resource_are_named() -> None:
    snapshot = fleet(cluster("a", 2, 8000, gpu=4), cluster("b", 1, 64000))
    made = decide(
        gang(Component("master", pod(1000), 1, 1), Component("worker", pod(2000, 4), 3, 3)),
        snapshot,
    )
    assert (made.shares, made.shortfall, made.reason) == ((), 1, Reason.INSUFFICIENT_CAPACITY)
    assert made.message == (
        "no cluster has room for all 4 pods at once; nearest: a has room for 2 of 3 pods of worker"
        " (cpu 2, nvidia.com/gpu 4, pods 1 each), short of nvidia.com/gpu (enough for 2)"
    )
    said = {verdict.cluster: verdict.message for verdict in made.verdicts}
    assert "room for 0 of 3 pods of worker" in said["b"]
    assert "short of nvidia.com/gpu" in said["b"]


def test_an_elastic_gang_gets_what_the_roomiest_cluster_has_and_keeps_it() -> None:
    snapshot = fleet(cluster("a", 3, 8000), cluster("b", 5, 8000))
    ask = gang(Component("master", pod(5000), 1, 1), Component("worker", pod(5000), 8, 2))
    made = decide(ask, snapshot)
    assert [(share.cluster, share.pods) for share in made.shares] == [("b", (1, 4))]
    held = Commitment.of(ask, made.shares)
    assert held.usage == Resources({"cpu": 25000, "pods": 5})


def test_quota_bounds_an_elastic_gang_and_refuses_one_below_its_minimum() -> None:
    def account(cpu: int) -> QuotaAccount:
        most = TierQuota(guaranteed=Resources({"cpu": cpu}), maximum=Resources({"cpu": cpu}))
        return QuotaAccount(
            "ml",
            projects=frozenset({"ml"}),
            namespaces=frozenset({"ml"}),
            tiers=dict.fromkeys(Tier, most),
        )

    ask = gang(Component("worker", pod(2000), 8, 3))
    views = cluster("a", 10, 8000)
    made = decide(ask, fleet(views, quotas=(account(9000),)))
    assert [share.pods for share in made.shares] == [(4,)]
    refused = decide(ask, fleet(views, quotas=(account(5000),)))
    assert (refused.shares, refused.reason) == ((), Reason.EXCEEDS_MAX_QUOTA)


@st.composite
def fleets_and_gangs(draw: st.DrawFn) -> tuple[FleetSnapshot, list[Ask]]:
    small = st.integers(1, 4)
    views = [
        cluster(name, draw(small), draw(st.integers(1, 8)) * 1000, draw(st.integers(0, 4)))
        for name in "abc"[: draw(small.filter(lambda n: n < 4))]
    ]
    asks = []
    for number in range(draw(small)):
        parts = []
        for name in ("one", "two", "three")[: draw(st.integers(1, 3))]:
            count = draw(small)
            shape = pod(draw(st.integers(1, 4)) * 1000, draw(st.integers(0, 2)))
            parts.append(Component(name, shape, count, draw(st.integers(1, count))))
        asks.append(gang(*parts, uid=f"u{number}"))
    return fleet(*views), asks


@given(fleets_and_gangs())
@examples(200)
def test_all_or_nothing_within_bounds_and_never_more_than_there_is(
    case: tuple[FleetSnapshot, list[Ask]],
) -> None:
    snapshot, asks = case
    commitments = Commitments()
    ledger = commitments.open(snapshot)
    taken: dict[str, Resources] = {}
    for ask in asks:
        made = engine.decide(ask, (), snapshot, ledger, seq=1)
        assert made.wanted == sum(share.count for share in made.shares) + made.shortfall == 1
        if not made.shares:
            smallest = replace(ask, shape=ask.shape.granted([part.min for part in ask.shape.parts]))
            assert not ledger.rooms(smallest.shape).any()
            continue
        (share,) = made.shares
        counts = share.pods or tuple(part.count for part in ask.shape.parts)
        assert all(
            part.min <= count <= part.count
            for part, count in zip(ask.shape.parts, counts, strict=True)
        )
        usage = Commitment.of(ask, made.shares).usage
        taken[share.cluster] = taken.get(share.cluster, Resources()) + usage
    for name, usage in taken.items():
        view = snapshot.clusters[name]
        assert view.capacity is not None
        assert usage.within(view.capacity.free)
        # Every pod was charged on a node: nothing of a gang was ignored for want of room.
        nodes = ledger.left(name)[0]
        assert nodes is not None
        left = Resources(
            {
                resource: int((nodes.counts * nodes.free[at]).sum())
                for at, resource in enumerate(nodes.names)
            }
        )
        assert left + usage == view.capacity.free


@given(fleets_and_gangs())
@examples(100)
def test_what_is_taken_back_leaves_the_room_as_it_was(
    case: tuple[FleetSnapshot, list[Ask]],
) -> None:
    snapshot, asks = case
    ledger = Commitments().open(snapshot)
    rooms = ledger.rooms(pod(1000)).tolist()
    mark = ledger.mark()
    for ask in asks:
        engine.decide(ask, (), snapshot, ledger, seq=1)
    ledger.rollback(mark)
    assert ledger.rooms(pod(1000)).tolist() == rooms
