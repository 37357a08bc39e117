"""Copies that fit, against real nodes; summaries never promise more; charging spreads or packs as
the member does.
"""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import PodShape
from federator.model.fleet import NodeRow
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.resources import Resources
from federator.placement.room import capacity
from federator.placement.room import nodes as working
from federator.placement.room.nodes import Nodes
from tests import casetables

MEBI = 1 << 20


def amounts(cpu: int, memory: int, gpu: int) -> Resources:
    return Resources({"cpu": cpu, "memory": memory * MEBI, "nvidia.com/gpu": gpu})


def node(cpu: int, pods: int = 110, *, count: int = 1, taints: tuple[Taint, ...] = ()) -> NodeRow:
    room = Resources({"cpu": cpu, "pods": pods})
    return NodeRow(count, room, room, taints=taints)


def pod(cpu: int, **more: object) -> PodShape:
    return PodShape(Resources({"cpu": cpu, "pods": 1}), **more)  # type: ignore[arg-type]


def test_every_row_of_the_real_fleet_is_answered_exactly_from_the_published_histogram() -> None:
    folder = casetables.data("openb-8-clusters")
    nodes: dict[str, list[NodeRow]] = {}
    with (folder / "nodes.csv").open() as file:
        for row in csv.DictReader(file):
            room = amounts(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]))
            nodes.setdefault(row["cluster"], []).append(
                NodeRow(1, room, room, model=row["gpu_model"])
            )
    published = {cluster: capacity.summarise(each) for cluster, each in nodes.items()}
    assert all(not capacity.lost(nodes[cluster], rows) for cluster, rows in published.items())
    wrong, seen = [], 0
    with (folder / "max_replicas.csv").open() as file:
        for row in csv.DictReader(file):
            seen += 1
            shape = PodShape(
                amounts(int(row["req_cpu_milli"]), int(row["req_memory_mib"]), int(row["req_gpu"]))
            )
            got = capacity.copies(published[row["cluster"]], shape)
            if got != int(row["replicas_by_nodes"]):
                wrong.append((row, got))
    assert not wrong
    assert seen == 88


def test_a_pod_must_fit_one_node_however_much_is_free_in_sum() -> None:
    assert capacity.copies([node(500, count=100)], pod(1000)) == 0


def test_pods_without_requests_are_bounded_by_pod_slots() -> None:
    assert capacity.copies([node(4000, pods=110, count=3)], PodShape(Resources())) == 330


def test_a_request_for_what_no_node_has_fits_nowhere() -> None:
    assert capacity.copies([node(4000)], PodShape(Resources({"nvidia.com/gpu": 1}))) == 0


def test_tainted_nodes_take_only_what_tolerates_them() -> None:
    rows = [node(2000), node(8000, taints=(Taint("gpu", "yes", "NoSchedule"),))]
    assert capacity.copies(rows, pod(1000)) == 2
    assert capacity.copies(rows, pod(1000, tolerations=(Toleration("gpu", "Exists"),))) == 10


def test_taints_that_only_ask_to_keep_away_do_not_lower_the_count() -> None:
    assert (
        capacity.copies([node(2000, taints=(Taint("spot", "", "PreferNoSchedule"),))], pod(1000))
        == 2
    )


def test_one_copy_per_node_counts_nodes() -> None:
    assert (
        capacity.copies([node(8000, count=5), node(500, count=9)], pod(1000, one_per_node=True))
        == 5
    )


def test_more_than_256_kinds_of_nodes_are_rounded_down_and_the_error_is_stated() -> None:
    nodes = [node(1000 + 7 * i) for i in range(1000)]
    rows = capacity.summarise(nodes)
    assert len(rows) <= 256
    lost = capacity.lost(nodes, rows)
    free = sum(one.free["cpu"] for one in nodes)
    assert 0 < lost["cpu"] < free // 64
    assert sum(row.count for row in rows) == 1000


def test_nodes_too_different_to_round_are_left_out_rather_than_overstated() -> None:
    nodes = [node(1000, taints=(Taint(f"tenant-{i}"),)) for i in range(400)]
    rows = capacity.summarise(nodes)
    assert len(rows) == 256
    assert capacity.lost(nodes, rows) == Resources({"cpu": 144_000, "pods": 144 * 110})


sizes = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=8)


@given(sizes, st.integers(1, 10), st.integers(0, 200), st.booleans())
def test_charging_n_copies_leaves_exactly_n_fewer(
    rows: list[tuple[int, int]], need: int, n: int, packs: bool
) -> None:
    nodes = Nodes.of([node(cpu, count=count) for cpu, count in rows])
    before = nodes.copies(pod(need))
    after = nodes.charge(pod(need), n, packs=packs)
    assert after.copies(pod(need)) == max(before - n, 0)
    assert sum(row[0] for row in after.rows) == sum(count for _, count in rows)


def test_packing_keeps_whole_nodes_free_for_larger_pods() -> None:
    nodes = Nodes.of([node(10_000, count=2)])
    assert nodes.charge(pod(2000), 5, packs=True).copies(pod(10_000)) == 1
    assert nodes.charge(pod(2000), 5).copies(pod(10_000)) == 0


def test_spreading_takes_other_nodes_first_and_then_the_emptier_ones() -> None:
    nodes = Nodes.of([node(10_000), node(4_000)]).charge(pod(1000), 7)
    assert sorted(row[1][0] for row in nodes.rows) == [1_000, 6_000]


@given(
    st.lists(
        st.tuples(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 3)), max_size=400
    ),
    st.integers(1, 900),
)
def test_a_summary_never_promises_more_than_the_nodes(
    nodes: list[tuple[int, int, int]], need: int
) -> None:
    rows = [
        NodeRow(
            count,
            Resources({"cpu": 5000, "memory": 5000}),
            Resources({"cpu": cpu, "memory": memory}),
        )
        for cpu, memory, count in nodes
    ]
    shape = PodShape(Resources({"cpu": need, "memory": need}))
    small = capacity.summarise(rows, limit=16)
    assert len(small) <= 16
    assert capacity.copies(small, shape) <= capacity.copies(rows, shape)


def test_working_rows_stay_bounded_however_often_a_cluster_is_charged() -> None:
    nodes = Nodes.of([node(100_000 + 13 * i, pods=100_000) for i in range(200)])
    for i in range(1, 1200):
        nodes = nodes.charge(pod(3 + i % 97), 1 + i % 5)
    assert len(nodes.rows) <= 200 + working.MAX_ROWS_KEPT


@pytest.mark.parametrize("count", [0, -3])
def test_charging_nothing_changes_nothing(count: int) -> None:
    nodes = Nodes.of([node(1000)])
    assert nodes.charge(pod(100), count) is nodes
