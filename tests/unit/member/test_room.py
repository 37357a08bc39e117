"""Free room as a matrix: claims, questions, and who may use which node."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.api import capacityfields
from federator.member.cache.rows import Node
from federator.member.capacity.room import Masks, Room
from federator.model.ask import PodShape
from federator.model.fleet import Capacity
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.resources import Resources
from federator.placement.room import capacity


def node(name: str, cpu: int, *, taints: tuple[Taint, ...] = (), **labels: str) -> Node:
    return Node(name, True, Resources({"cpu": cpu, "pods": 10}), labels, taints, "", "")


def shape(cpu: int, **more: Any) -> PodShape:
    return PodShape(Resources({"cpu": cpu, "pods": 1}), **more)


def room(*nodes: Node, used: dict[str, dict[str, int]] | None = None) -> Room:
    return Room(Masks(nodes), used or {})


def test_a_copy_must_fit_one_node() -> None:
    assert room(node("a", 3), node("b", 3)).copies(shape(2)) == 2


def test_what_pods_use_is_gone_and_pod_slots_count() -> None:
    assert room(node("a", 8), used={"a": {"cpu": 5, "pods": 1}}).copies(shape(1)) == 3
    assert room(node("a", 100), used={"a": {"pods": 8}}).copies(shape(1)) == 2


def test_a_resource_that_no_node_has_fits_nowhere() -> None:
    wanted = PodShape(Resources({"cpu": 1, "pods": 1, "nvidia.com/gpu": 1}))
    assert room(node("a", 8)).copies(wanted) == 0


def test_a_node_that_takes_no_pods_is_reported_as_such() -> None:
    none = Node("a", True, Resources({"cpu": 8000}), {}, (), "", "")
    (row,) = room(none).rows()
    assert room(none).copies(shape(1000)) == capacity.copies([row], shape(1000)) == 0
    body = capacityfields.from_capacity(Capacity(rows=(row,)))
    assert body["nodes"][0]["allocatable"] == {"cpu": "8", "pods": "0"}
    assert capacityfields.to_capacity(body).rows == (row,)


def test_taints_keep_out_what_does_not_tolerate_them() -> None:
    tainted = node("a", 4, taints=(Taint("gpu", "", "NoSchedule"),))
    assert room(tainted).copies(shape(1)) == 0
    assert room(tainted).copies(shape(1, tolerations=(Toleration("gpu", "Exists"),))) == 4


@pytest.mark.parametrize(
    ("selector", "copies"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, 2),
        (
            {
                "nodeAffinity": [
                    {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["ssd"]}]}
                ]
            },
            4,
        ),
        (
            {
                "nodeAffinity": [
                    {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}
                ]
            },
            2,
        ),
        (
            {
                "nodeAffinity": [
                    {"matchExpressions": [{"key": "gen", "operator": "Lt", "values": ["3"]}]}
                ]
            },
            4,
        ),
        (
            {
                "nodeAffinity": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
                ]
            },
            4,
        ),
        ({"nodeAffinity": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}, {}]}, 2),
        ({"nodeAffinity": [{}]}, 0),
        ({"nodeAffinity": [{"matchExpressions": [{"key": "disk", "operator": "Near"}]}]}, 0),
        ({"somethingNew": 1}, 0),
    ],
)
def test_node_selectors_are_answered_exactly(selector: dict[str, Any], copies: int) -> None:
    nodes = (node("a", 2, disk="ssd", gen="4"), node("b", 4, gen="2"))
    assert room(*nodes).copies(shape(1, node_selector=json.dumps(selector))) == copies


def test_one_per_node_takes_one_of_each() -> None:
    assert room(node("a", 8), node("b", 8)).copies(shape(1, one_per_node=True)) == 2


def test_claims_go_to_different_nodes_and_then_to_the_emptier_one() -> None:
    free = room(node("a", 8), node("b", 4))
    assert free.claim(shape(1), 2) == 2
    assert free.fits(shape(1)).tolist() == [7, 3]
    assert free.claim(shape(1), 1) == 1
    assert free.fits(shape(1)).tolist() == [6, 3], "6 of 8 are a larger part than 2 of 4"


def test_what_fits_nowhere_takes_nothing() -> None:
    free = room(node("a", 2))
    assert free.claim(shape(1), 5) == 2
    assert free.claim(shape(4), 1) == 0
    assert free.copies(shape(1)) == 0


def test_claims_on_each_node_skip_the_full_ones() -> None:
    free = room(node("a", 4), node("b", 1), node("c", 4))
    free.claim_each(shape(2), np.array([True, True, False]))
    assert free.fits(shape(1)).tolist() == [2, 1, 4]


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(0, 40),
    st.integers(1, 5),
)
def test_matrix_and_histogram_give_the_same_answers(
    free: list[int], cpu: int, claimed: int, asked: int
) -> None:
    field = room(*(node(f"n{i}", amount) for i, amount in enumerate(free)))
    before = field.copies(shape(cpu))
    taken = field.claim(shape(cpu), claimed)
    assert taken == min(before, claimed)
    assert field.copies(shape(cpu)) == before - taken
    assert field.copies(shape(asked)) == capacity.copies(field.rows(), shape(asked))
    assert sum(row.count for row in field.rows()) == len(free)
