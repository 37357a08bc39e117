"""How the bounds of a service are split over clusters, what is charged, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.kinds import read
from federator.kinds.service import ask, scaling


def service(**autoscaling: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": "web", "namespace": "feed"},
        "spec": {
            "replicas": 7,
            "autoscaling": autoscaling,
            "template": {"spec": {"containers": [{"name": "app", "image": "app:1"}]}},
        },
    }


@pytest.mark.parametrize(
    ("percent", "copies"), [(None, 100), (100, 100), (0, 10), (50, 55), (1, 11)]
)
def test_what_is_charged_lies_between_the_bounds(percent: int | None, copies: int) -> None:
    more = {} if percent is None else {"chargePercent": percent}
    assert ask.count(service(min=10, max=100, **more)) == copies


def test_a_slice_has_the_copies_that_it_was_given() -> None:
    obj = service(min=10, max=100)
    obj["spec"] |= {"replicas": 30, "slice": {"seq": 1}}
    assert ask.count(obj) == 30
    assert ask.bounds(obj) == (3, 30)


@given(st.integers(1, 200), st.integers(0, 300), st.integers(0, 100), st.data())
def test_all_clusters_together_keep_to_the_bounds_of_the_service(
    least: int, beyond: int, percent: int, data: st.DataObject
) -> None:
    of = {"min": least, "max": least + beyond, "chargePercent": percent}
    left = scaling.charged(of)
    parts = []
    while left:
        parts.append(data.draw(st.integers(1, left)))
        left -= parts[-1]
    bounds = [scaling.bounds(of, part) for part in parts]
    assert sum(low for low, _ in bounds) >= least
    assert sum(high for _, high in bounds) <= least + beyond
    for (low, high), part in zip(bounds, parts, strict=True):
        assert 1 <= low <= part <= high


def test_a_share_of_an_earlier_max_keeps_to_the_present_bounds() -> None:
    # It was 7 of {min: 3, max: 10}: the slice has the new bounds before its new share.
    assert scaling.bounds({"min": 1, "max": 7, "chargePercent": 50}, 7) == (1, 7)


def test_metrics_are_those_of_an_autoscaler() -> None:
    metrics = [
        {"resource": "cpu", "averageUtilization": 60},
        {"resource": "memory", "container": "app", "averageValue": "2Gi"},
        {"pods": "requests", "averageValue": 100},
        {"external": "lag", "matchLabels": {"topic": "a"}, "averageValue": "30"},
    ]
    obj = service(min=1, max=4, metrics=metrics, scaleDownStabilizationSeconds=60)
    read.check(obj)
    spec = scaling.spec_of(scaling.of(obj), 4, "web")
    assert spec["behavior"] == {"scaleDown": {"stabilizationWindowSeconds": 60}}
    value = {"type": "AverageValue", "averageValue": "2Gi"}
    assert spec["metrics"] == [
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 60},
            },
        },
        {
            "type": "ContainerResource",
            "containerResource": {"name": "memory", "container": "app", "target": value},
        },
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": "requests"},
                "target": {"type": "AverageValue", "averageValue": "100"},
            },
        },
        {
            "type": "External",
            "external": {
                "metric": {"name": "lag", "selector": {"matchLabels": {"topic": "a"}}},
                "target": {"type": "AverageValue", "averageValue": "30"},
            },
        },
    ]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"min": 3, "max": 2}, "min is not above max"),
    ({"min": 0, "max": 2}, "at least 1"),
    ({"max": 2}, "spec.autoscaling.min"),
    ({"min": 1, "max": 2, "chargePercent": 101}, "at most 100"),
    ({"min": 1, "max": 2, "metrics": []}, "at least 1"),
    ({"min": 1, "max": 2, "owner": "Member", "metrics": [{"resource": "cpu", "averageValue": 5}]}, "own autoscaler"),
    ({"min": 1, "max": 2, "metrics": [{"averageValue": 5}]}, "names one of"),
    ({"min": 1, "max": 2, "metrics": [{"resource": "cpu", "pods": "x", "averageValue": 5}]}, "names one of"),
    ({"min": 1, "max": 2, "metrics": [{"resource": "cpu"}]}, "has one of"),
    ({"min": 1, "max": 2, "metrics": [{"pods": "x", "averageUtilization": 5}]}, "that containers request"),
    ({"min": 1, "max": 2, "metrics": [{"pods": "x", "container": "a", "averageValue": 5}]}, "resource only"),
    ({"min": 1, "max": 2, "metrics": [{"resource": "gpu", "averageValue": 5}]}, "one of cpu, memory"),
    ({"min": 1, "max": 2, "metrics": [{"resource": "cpu", "matchLabels": {"a": "b"}, "averageValue": 5}]}, "no labels"),
]  # fmt: skip


@pytest.mark.parametrize(("autoscaling", "why"), REFUSED)
def test_what_makes_no_sense_is_refused(autoscaling: dict[str, Any], why: str) -> None:
    with pytest.raises(read.InvalidObject) as refused:
        read.check(service(**autoscaling))
    assert all(error.path.startswith("spec.autoscaling") for error in refused.value.errors)
    assert why in str(refused.value)
