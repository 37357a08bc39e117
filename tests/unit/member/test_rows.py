"""Projections: what is kept of objects, and that nothing an API server may hold breaks them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.kinds import registry
from federator.member.cache import rows
from federator.member.expansion import references
from federator.model.resources import Resources

FIELDS = [
    "metadata",
    "spec",
    "status",
    "labels",
    "annotations",
    "ownerReferences",
    "containers",
    "initContainers",
    "resources",
    "requests",
    "cpu",
    "template",
    "slice",
    "conditions",
    "taints",
    "allocatable",
    "tolerations",
    "affinity",
    "containerStatuses",
    "volumes",
    "envFrom",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6)


@given(objects)
def test_projections_are_total_on_what_a_server_may_hold(obj: dict[str, Any]) -> None:
    shapes = rows.Shapes()
    for kind in registry.WORKLOADS:
        rows.slice_row(kind, obj)
    rows.native_row("Deployment", obj)
    rows.native_row("Job", obj)
    rows.pod_row(obj, shapes)
    rows.node_row(obj, ("gpu",), ("family",))
    rows.daemon_row(obj, shapes)
    rows.owner_row(obj)
    references.of_template(obj)
    rows.account_of(obj)


def test_equal_pods_share_one_shape() -> None:
    def pod(name: str) -> dict[str, Any]:
        container = {"name": "a", "resources": {"requests": {"cpu": "250m"}}}
        return {"metadata": {"name": name}, "spec": {"containers": [container]}}

    shapes = rows.Shapes()
    first, second = rows.pod_row(pod("a"), shapes), rows.pod_row(pod("b"), shapes)
    assert first.shape is second.shape
    assert first.shape.requests == Resources({"cpu": 250, "pods": 1})


@pytest.mark.parametrize(
    ("allocatable", "kept"),
    [
        ({"cpu": "4", "memory": "1Gi"}, {"cpu": 4000, "memory": 1 << 30}),
        ({"cpu": "NaN", "memory": "1Gi"}, {"memory": 1 << 30}),
        ({"cpu": "-4", "pods": "10"}, {"pods": 10}),
        ({"cpu": 1.5, "pods": "10"}, {"pods": 10}),
    ],
)
def test_amounts_that_make_no_sense_count_as_nothing(
    allocatable: dict[str, Any], kept: dict[str, int]
) -> None:
    assert rows.amounts(allocatable) == Resources(kept)


def test_a_node_is_usable_only_when_ready_and_not_cordoned() -> None:
    def node(ready: str, **spec: Any) -> rows.Node:
        status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"cpu": "1"}}
        labels = {
            "nvidia.com/gpu.product": "A100",
            "node.kubernetes.io/instance-type": "p4d.24xlarge",
        }
        obj = {"metadata": {"name": "n", "labels": labels}, "spec": spec, "status": status}
        return rows.node_row(obj, ("nvidia.com/gpu.product",), ("family",))

    assert node("True").usable
    assert not node("Unknown").usable
    assert not node("True", unschedulable=True).usable
    assert (node("True").model, node("True").family) == ("A100", "p4d")


def test_status_and_bookkeeping_do_not_count_as_change_of_a_native() -> None:
    base = {"metadata": {"name": "web", "resourceVersion": "1"}, "spec": {"replicas": 3}}
    later = {
        "metadata": {"name": "web", "resourceVersion": "9"},
        "spec": {"replicas": 3},
        "status": {"replicas": 3},
    }
    drifted = {"metadata": {"name": "web"}, "spec": {"replicas": 4}}
    assert rows.native_row("Deployment", base).live == rows.native_row("Deployment", later).live
    assert rows.native_row("Deployment", base).live != rows.native_row("Deployment", drifted).live


def test_the_content_of_a_slice_changes_with_what_its_natives_are_made_from() -> None:
    def content(**more: Any) -> str:
        obj = {"metadata": {"name": "crunch"}, "spec": {"shards": 4}, **more}
        return rows.slice_row("PinterestJobSet", obj).content

    assert content(status={"ready": 1}) == content(status={"ready": 2})
    assert content(status={"completedIndexes": "0"}) != content(status={"completedIndexes": "0-1"})
    assert content(spec={"shards": 5}) != content()


def test_references_of_a_template_are_found_once_and_optional_ones_left_out() -> None:
    template = {
        "spec": {
            "serviceAccountName": "robot",
            "priorityClassName": "urgent",
            "volumes": [
                {"name": "a", "configMap": {"name": "settings"}},
                {"name": "b", "configMap": {"name": "extra", "optional": True}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "d", "projected": {"sources": [{"configMap": {"name": "ca"}}]}},
            ],
            "containers": [
                {
                    "name": "app",
                    "envFrom": [
                        {"configMapRef": {"name": "settings"}},
                        {"secretRef": {"name": "token"}},
                    ],
                    "env": [
                        {
                            "name": "X",
                            "valueFrom": {"configMapKeyRef": {"name": "flags", "key": "x"}},
                        }
                    ],
                }
            ],
        }
    }
    assert references.of_template(template) == (
        ("ConfigMap", "ca"),
        ("ConfigMap", "flags"),
        ("ConfigMap", "settings"),
        ("PersistentVolumeClaim", "data"),
        ("PriorityClass", "urgent"),
    )
    assert rows.account_of(template) == "robot"
