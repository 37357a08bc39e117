"""The room of all clusters in columns against the same, cluster by cluster; and taking charges
back.
"""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import PodShape
from federator.model.fleet import Capacity, ClusterView, Commitment, FleetSnapshot, NodeRow
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.placement.room import nodes
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.selection.candidates import places
from tests.unit.placement import worlds
from tests.unit.placement.fleets import POD, cluster, commitment, fleet, held, service
from tests.unit.placement.plainledger import PlainLedger

charges = st.lists(
    st.tuples(
        worlds.shapes,
        st.dictionaries(st.sampled_from((*worlds.NAMES, "gone")), st.integers(0, 40), min_size=1),
        st.sampled_from((False, False, False, True)),
    ),
    max_size=12,
)


def key_of(at: int) -> Commitment:
    return Commitment(
        f"u{at}", WorkloadKey("PinterestService", "n", f"w{at}"), "p", "n", service(1).tier, POD, ()
    )


def commit(ledger: Ledger, at: int, shape: PodShape, grown: dict[str, int]) -> None:
    one = key_of(at)
    ledger.commit(
        Commitment(one.uid, one.key, one.project, one.namespace, one.tier, shape, ()),
        dict(sorted(grown.items())),
    )


def agree(one: Ledger, other: Ledger, snapshot: FleetSnapshot, shapes: list[PodShape]) -> None:
    for name in snapshot.clusters:
        for shape in shapes:
            assert one.room(name, shape) == other.room(name, shape), (name, shape)
            assert one.nodes_with_room(name, shape) == other.nodes_with_room(name, shape), (
                name,
                shape,
            )
            assert one.all_nodes_with_room(shape)[one.world.at[name]] == other.nodes_with_room(
                name, shape
            ), (
                name,
                shape,
            )
        (mine, left), (theirs, left_too) = one.left(name), other.left(name)
        assert (mine is None) == (theirs is None)
        assert (
            mine is None or theirs is None or (mine.names, mine.rows) == (theirs.names, theirs.rows)
        )
        assert (left is None) == (left_too is None)
        if left is not None and left_too is not None:
            assert {name: left[name] for name in ("cpu", "memory")} == {
                n: left_too[n] for n in ("cpu", "memory")
            }


SHAPES = [
    PodShape(Resources({"cpu": 1000, "pods": 1})),
    PodShape(Resources({"cpu": 300, "memory": 700, "pods": 1})),
    PodShape(Resources({"memory": 2500})),
    PodShape(Resources({"cpu": 1000, "pods": 1}), one_per_node=True),
    PodShape(Resources({"cpu": 500, "pods": 1}), node_selector='{"disk":"ssd"}'),
    PodShape(Resources({"nvidia.com/gpu": 1})),
]


@given(worlds.snapshots(), charges)
def test_columns_give_the_numbers_of_single_clusters_and_take_charges_back(
    snapshot: FleetSnapshot, given_: list[tuple[PodShape, dict[str, int], bool]]
) -> None:
    ledger, plain = Commitments().open(snapshot), PlainLedger(Commitments(), snapshot)
    for at, (shape, grown, taken_back) in enumerate(given_):
        ledger.room("a", SHAPES[at % len(SHAPES)])  # what is remembered must be counted again
        mark, plain_mark = ledger.mark(), plain.mark()
        commit(ledger, at, shape, grown)
        commit(plain, at, shape, grown)
        if taken_back:
            ledger.rollback(mark)
            plain.rollback(plain_mark)
    agree(ledger, plain, snapshot, SHAPES)
    ledger.rollback(0)
    agree(ledger, PlainLedger(Commitments(), snapshot), snapshot, SHAPES)


def _mixed(rng: random.Random, at: int) -> ClusterView:
    """A cluster of several shapes of nodes; some have GPUs, taints, no limit on pods, a packing
    scheduler.
    """
    rows = []
    for _ in range(rng.randint(1, 9)):
        amounts = {
            "cpu": rng.randint(2, 64) * 1000,
            "memory": rng.randint(4, 256) << 30,
            "pods": rng.choice((20, 110)),
        }
        if rng.random() < 0.3:
            amounts["nvidia.com/gpu"] = rng.choice((1, 4, 8))
        if rng.random() < 0.1:
            del amounts["pods"]
        whole = Resources(amounts)
        free = Resources(
            {name: amount * rng.randint(3, 10) // 10 for name, amount in amounts.items()}
        )
        marks = (Taint("gpu", "", "NoSchedule"),) if rng.random() < 0.15 else ()
        rows.append(NodeRow(rng.randint(1, 30), whole, free, taints=marks))
    capacity = Capacity(rows=tuple(rows), packs=rng.random() < 0.2)
    return ClusterView(
        f"c{at:02d}", usable_permille=rng.choice((1000, 1000, 900)), capacity=capacity
    )


def test_a_long_batch_splits_and_merges_rows_as_single_clusters_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nodes, "MAX_ROWS_KEPT", 64)  # or these few nodes are never too many rows
    rng = random.Random(20)
    snapshot = FleetSnapshot(
        0.0, {one.name: one for one in (_mixed(rng, at) for at in range(6))}, ()
    )
    ledger, plain = Commitments().open(snapshot), PlainLedger(Commitments(), snapshot)
    shapes = [
        PodShape(
            Resources({"cpu": 50 + 130 * (at % 7), "memory": (64 + 96 * (at % 5)) << 20, "pods": 1})
        )
        for at in range(35)
    ]
    half = 0
    for at in range(400):
        half = ledger.mark() if at == 200 else half
        grown = {name: rng.randint(1, 12) for name in snapshot.clusters if rng.random() < 0.6}
        if at % 3 == 0:  # one cluster is charged in another way than several
            grown = {rng.choice(list(snapshot.clusters)): rng.choice((1, 1, 5, 40))}
        commit(ledger, at, shapes[at % 35], grown)
        commit(plain, at, shapes[at % 35], grown)
        if at % 40 == 0 or at == 199:
            agree(ledger, plain, snapshot, shapes[:4])
    agree(ledger, plain, snapshot, shapes)
    room = ledger.rooms(shapes[0]).copy()
    ledger.rollback(half)
    assert (ledger.rooms(shapes[0]) >= room).all()
    ledger.rollback(0)
    assert np.array_equal(ledger.rooms(shapes[0]), Commitments().open(snapshot).rooms(shapes[0]))


@pytest.mark.parametrize("rows_kept", [8, 400])
def test_room_that_follows_charges_is_room_that_is_counted_anew(
    monkeypatch: pytest.MonkeyPatch, rows_kept: int
) -> None:
    monkeypatch.setattr(nodes, "MAX_ROWS_KEPT", rows_kept)
    rng, followed = random.Random(rows_kept), 0
    views = [replace(_mixed(rng, at), usable_permille=1000) for at in range(80)]
    snapshot = FleetSnapshot(0.0, {view.name: view for view in views}, ())
    ledger, plain = Commitments().open(snapshot), PlainLedger(Commitments(), snapshot)
    shapes = [*SHAPES[:4], SHAPES[5]]
    shapes += [replace(SHAPES[1], tolerations=(Toleration("gpu", "Exists"),))]
    for at in range(150):
        mark, plain_mark = ledger.mark(), plain.mark()
        grown = {
            name: rng.choice((1, 2, 30, 200)) for name in rng.sample(sorted(snapshot.clusters), 4)
        }
        shape = rng.choice(shapes)
        commit(ledger, at, shape, grown)
        commit(plain, at, shape, grown)
        if rng.random() < 0.1:
            ledger.rollback(mark)
            plain.rollback(plain_mark)
        before, shape = ledger.world.nodes.position, rng.choice(shapes)
        measure = [plain.room(name, shape) for name in sorted(snapshot.clusters)]
        assert ledger.rooms(shape).tolist() == measure
        counted = ledger.world.nodes.copies(shape, slice(None))
        commit(ledger, 1000 + at, shape, {"c00": 1})
        commit(plain, 1000 + at, shape, {"c00": 1})
        again = ledger.world.nodes.updated(counted, shape, before)
        followed += again is not None
        assert again is None or again[0] == ledger.rooms(shape)[0]
    assert followed > 20


def test_the_kept_world_follows_summaries_and_decisions_and_leaves_open_ledgers_alone() -> None:
    commitments = Commitments()
    before = fleet(cluster("a", 10), cluster("b", 10))
    first = commitments.open(before)
    assert first.rooms(POD).tolist() == [10, 10]
    smaller = fleet(cluster("a", 4), before.clusters["b"])
    assert commitments.open(smaller).rooms(POD).tolist() == [4, 10]
    assert first.rooms(POD).tolist() == [10, 10]
    commitments.assume(commitment(service(3), held(b=3)))
    assert commitments.open(smaller).rooms(POD).tolist() == [4, 7]
    commitments.forget("uid-web")
    assert commitments.open(smaller).rooms(POD).tolist() == [4, 10]
    stale = fleet(cluster("a", 4, stale=True), cluster("b", 10), cluster("c", 2))
    assert commitments.open(stale).rooms(POD).tolist() == [0, 10, 2]


def test_a_ledger_that_charges_leaves_the_kept_world_as_it_is() -> None:
    commitments, snapshot = Commitments(), fleet(cluster("a", 10), cluster("b", 10))
    ledger = commitments.open(snapshot)
    ledger.charge("a", POD, 4)
    assert ledger.rooms(POD).tolist() == [6, 10]
    assert commitments.open(snapshot).rooms(POD).tolist() == [10, 10]


def test_what_was_judged_of_clusters_is_kept_until_more_than_their_amounts_differs() -> None:
    commitments, snapshot = Commitments(), fleet(cluster("a", 10), cluster("b", 10))
    first = commitments.open(snapshot)
    first.memo["found"] = 1
    assert commitments.open(fleet(*snapshot.clusters.values())).memo is first.memo
    fuller = fleet(cluster("a", 3), snapshot.clusters["b"])
    assert commitments.open(fuller).memo is first.memo
    assert (
        commitments.open(FleetSnapshot(0.0, dict(reversed([*fuller.clusters.items()])), ())).memo
        is first.memo
    )
    older = replace(snapshot.clusters["a"], capacity_age_s=9.0)
    assert commitments.open(fleet(older, snapshot.clusters["b"])).memo is first.memo
    silent = replace(snapshot.clusters["a"], capacity=None)
    assert "found" not in commitments.open(fleet(silent, snapshot.clusters["b"])).memo
    old = replace(snapshot.clusters["a"], capacity_age_s=9.0, stale=True)
    stale = commitments.open(fleet(old, snapshot.clusters["b"]))
    assert "found" not in stale.memo
    stale.memo["found"] = 1
    older = replace(old, capacity_age_s=10.0)  # the sentence of its verdict has the age
    assert "found" not in commitments.open(fleet(older, snapshot.clusters["b"])).memo
    cordoned = fleet(cluster("a", 10, cordoned=True), snapshot.clusters["b"])
    assert "found" not in commitments.open(cordoned).memo
    clusters = dict(cordoned.clusters)
    turned = FleetSnapshot(0.0, clusters, ())
    before = commitments.open(turned).memo
    clusters["b"] = cluster("b", 3, cordoned=True)  # by whoever owns the mapping
    assert commitments.open(turned).memo is not before
    assert "found" not in Commitments().open(snapshot).memo


def test_a_project_of_its_own_is_judged_apart_where_a_cluster_is_closed_to_some() -> None:
    closed = fleet(cluster("a", 10, projects=frozenset({"ads"})), cluster("b", 10))
    ledger = Commitments().open(closed)
    open_to = {
        project: [
            name
            for name, place in places(service(1, project=project), closed, ledger).items()
            if place.refusal is None
        ]
        for project in ("ads", "feed")
    }
    assert open_to == {"ads": ["a", "b"], "feed": ["b"]}


@pytest.mark.parametrize("seed", range(6))
def test_single_copies_go_to_the_nodes_of_single_clusters_with_few_rows(seed: int) -> None:
    """Also where nodes are tainted, are all of one kind, or have no limit on pods."""
    rng = random.Random(seed)
    clusters = {}
    for name in ("a", "b", "c"):
        limited = rng.random() < 0.5
        rows = []
        for _ in range(rng.randint(1, 4)):
            size = {"cpu": rng.randint(1, 6) * 1000, "memory": 1000 * rng.randint(1, 6)}
            size |= {"pods": rng.randint(1, 5)} if limited else {}
            whole = Resources(size)
            taints = (Taint("t", "", "NoSchedule"),) if rng.random() < 0.2 else ()
            rows.append(NodeRow(rng.randint(1, 4), whole, whole, taints=taints))
        clusters[name] = ClusterView(name, ready=True, capacity=Capacity(rows=tuple(rows)))
    snapshot = FleetSnapshot(0.0, clusters, ())
    ledger, plain = Commitments().open(snapshot), PlainLedger(Commitments(), snapshot)
    for at in range(40):
        shape, name = rng.choice(SHAPES), rng.choice("abc")
        if ledger.room(name, shape) < 1:
            continue
        mark = ledger.mark()
        commit(ledger, at, shape, {name: 1})
        if rng.random() < 0.3:
            agree(ledger, ledger, snapshot, SHAPES[:1])  # it is charged
            ledger.rollback(mark)
            continue
        one = key_of(at)
        plain.commit(replace(one, shape=shape), {name: 1})
        agree(ledger, plain, snapshot, SHAPES)


def reported(chance: random.Random, name: str) -> ClusterView:
    """A cluster of some nodes with some of their room free; of one nobody says how many pods a node
    takes, and it has no GPUs."""
    size = {"cpu": 8000, "memory": 64 << 30}
    if name != "a":
        size |= {"pods": 110, "nvidia.com/gpu": 8}
    rows = [
        NodeRow(
            chance.randint(1, 5),
            Resources(size),
            Resources({each: chance.randint(0, amount) for each, amount in size.items()}),
        )
        for _ in range(chance.randint(0, 4))
    ]
    return ClusterView(name, capacity=Capacity(tuple(rows)))


@pytest.mark.parametrize("seed", range(12))
def test_rooms_follow_reports_as_if_all_were_read_at_once(seed: int) -> None:
    chance, kept = random.Random(seed), Commitments()
    shapes = [
        PodShape(Resources({"cpu": 1500, "pods": 1})),
        PodShape(Resources({"cpu": 500, "memory": 3 << 30, "nvidia.com/gpu": 2, "pods": 1})),
        PodShape(Resources({"memory": 5 << 30, "pods": 1}), one_per_node=True),
    ]
    views = {name: reported(chance, name) for name in "abcdef"}
    for now in range(60):
        for name in chance.sample(sorted(views), chance.choice((0, 1, 1, 2, 5))):
            views = {**views, name: reported(chance, name)}
        snapshot = FleetSnapshot(float(now), views)
        ledgers = kept.open(snapshot), Commitments().open(snapshot)
        for shape in chance.choices(shapes, k=chance.choice((1, 2))):
            mine, fresh = (ledger.rooms(shape).tolist() for ledger in ledgers)
            assert mine == fresh
            if chance.random() < 0.3:  # then the columns are written, of this ledger alone
                for ledger in ledgers:
                    ledger.charge("b", shape, 1)
