"""`spec.scaleUp` of a MemberCluster: what is read of it, and the errors with their paths."""

from typing import Any

import pytest

from federator.api import capacityfields, membercluster, scaleupfields
from federator.kinds import read
from federator.model.ask import PodShape
from federator.model.fleet import Capacity
from federator.model.kubernetes.taints import Taint
from federator.model.resources import Resources
from federator.model.scaleup import Addition, NodeClass

CLASS: dict[str, Any] = {
    "name": "m6i.4xlarge",
    "shape": {"cpu": "16", "memory": "64Gi"},
    "max": 20,
    "minutes": 5,
    "pricePerHour": "0.77",
    "labels": {"pool": "general"},
    "taints": [
        {"key": "b", "effect": "NoSchedule"},
        {"key": "a", "value": "1", "effect": "NoExecute"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ],
}


def member(*classes: object) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "a"},
        "spec": {"scaleUp": list(classes)},
    }


def test_a_class_is_read_with_the_defaults_of_a_kubelet() -> None:
    read.check(member(CLASS))
    assert membercluster.to_view(member(CLASS), 0.0).scale_up == (
        NodeClass(
            "m6i.4xlarge",
            Resources({"cpu": 16_000, "memory": 64 << 30, "pods": 110}),
            20,
            5,
            770_000,
            (("pool", "general"),),
            (Taint("a", "1", "NoExecute"), Taint("b")),
        ),
    )


def test_the_instance_type_is_the_name_unless_a_label_names_another() -> None:
    (plain,) = scaleupfields.to_classes([CLASS])
    typed = {**CLASS, "labels": {"node.kubernetes.io/instance-type": "m7"}}
    assert plain.instance_type == "m6i.4xlarge"
    assert scaleupfields.to_classes([typed])[0].instance_type == "m7"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"max": -1}, "spec.scaleUp[0].max"),
        ({"minutes": 0}, "spec.scaleUp[0].minutes"),
        ({"minutes": "5"}, "spec.scaleUp[0].minutes"),
        ({"pricePerHour": "cheap"}, "spec.scaleUp[0].pricePerHour"),
        ({"pricePerHour": 0.77}, "spec.scaleUp[0].pricePerHour"),
        ({"name": ""}, "spec.scaleUp[0].name"),
        ({"shape": {"cpu": "much"}}, "spec.scaleUp[0].shape.cpu"),
        ({"shape": {}}, "spec.scaleUp[0]"),
        ({"taints": [{"key": "a", "effect": "Never"}]}, "spec.scaleUp[0].taints[0].effect"),
        ({"size": 3}, "spec.scaleUp[0].size"),
    ],
)
def test_an_error_names_the_path_of_its_field(change: dict[str, Any], path: str) -> None:
    with pytest.raises(read.InvalidObject) as bad:
        read.check(member({**CLASS, **change}))
    assert any(path in str(error) for error in bad.value.errors), bad.value.errors


@pytest.mark.parametrize(
    "value", [None, 7, "m6i", [7], [{}], [{"name": "x"}], [{"name": "x", "shape": {"cpu": "?"}}]]
)
def test_what_is_no_class_adds_nothing(value: object) -> None:
    assert scaleupfields.to_classes(value) == ()


@pytest.mark.parametrize(
    ("text", "price"),
    [("0.77", 770_000), ("3", 3_000_000), ("", None), ("x", None), ("1.0000001", 1_000_000)],
)
def test_prices_are_read_in_millionths(text: str, price: int | None) -> None:
    assert scaleupfields.to_price(text) == price


def test_additions_are_read_back_as_they_were_recorded() -> None:
    additions = (Addition("a", "m6i", 2, 5, 5, 1_540_000), Addition("b", "x", 0, 1, 9))
    assert scaleupfields.to_additions(scaleupfields.from_additions(additions)) == additions


def test_waiting_pods_and_machines_are_read_back_as_they_were_reported() -> None:
    pod = PodShape(Resources({"cpu": 1500, "pods": 1}), '{"nodeSelector":{"a":"b"}}')
    capacity = Capacity(waiting=((pod, 3),), machines={"m6i": 2})
    assert capacityfields.to_capacity(capacityfields.from_capacity(capacity)) == capacity
    assert "waiting" not in capacityfields.from_capacity(Capacity())
