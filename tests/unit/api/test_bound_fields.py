"""`division.perCluster`, `spread.maxDomains` and `status.taintTimes`: what is read, and what is refused
with its path. Models and CRDs agree.
"""

from typing import Any

import pytest

from federator.api import membercluster, tainttimes
from federator.api.placement import placementpolicy
from federator.kinds import read
from federator.kinds.read import InvalidObject
from federator.model.bounds import PerCluster
from federator.model.kubernetes import selectors
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.policy import SpreadRule

SPOT = {"matchLabels": {"pool": "spot"}}


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "p", "namespace": "feed"},
        "spec": spec,
    }


def test_bounds_of_single_clusters_are_read() -> None:
    entries = [
        {"selector": SPOT, "min": 3, "max": "40%"},
        {"cluster": "a", "max": 5},
        {"cluster": "b", "min": 2},
        {"cluster": "c", "max": "0%"},
    ]
    obj = policy(division={"perCluster": entries})
    read.check(obj)
    field = "division.perCluster[{}]".format
    assert placementpolicy.to_policy(obj, "match").division.per_cluster == (
        PerCluster(field(0), "", selectors.from_dict(SPOT, ""), 3, None, 40),
        PerCluster(field(1), "a", None, 0, 5),
        PerCluster(field(2), "b", None, 2),
        PerCluster(field(3), "c", None, 0, None, 0),
    )


@pytest.mark.parametrize(
    ("percent", "copies", "most"),
    [(40, 10, 4), (40, 12, 4), (40, 2, 1), (1, 3000, 30), (0, 9, 0), (100, 7, 7), (50, 0, 0)],
)
def test_a_percentage_is_rounded_down_and_allows_at_least_one_copy(
    percent: int, copies: int, most: int
) -> None:
    assert PerCluster("f", "a", percent=percent).of(copies) == most


def test_max_domains_and_tolerations_that_end_are_read() -> None:
    rule = {"topologyKey": "zone", "minDomains": 2, "maxDomains": 3}
    toleration = {"key": "old", "operator": "Exists", "tolerationSeconds": 60}
    obj = policy(spread=[rule], tolerations=[toleration])
    read.check(obj)
    made = placementpolicy.to_policy(obj, "match")
    assert made.spread == (SpreadRule("zone", 2, max_domains=3),)
    assert made.tolerations == (Toleration("old", "Exists", seconds=60),)


@pytest.mark.parametrize(
    ("spec", "path", "why"),
    [
        ({"division": {"perCluster": [{"max": 3}]}}, "perCluster", "either cluster or selector"),
        (
            {"division": {"perCluster": [{"cluster": "a", "selector": SPOT, "max": 3}]}},
            "perCluster",
            "either cluster or selector",
        ),
        ({"division": {"perCluster": [{"cluster": "a"}]}}, "perCluster", "min, max or both"),
        (
            {"division": {"perCluster": [{"cluster": "a", "min": 4, "max": 3}]}},
            "perCluster",
            "min must not be above max",
        ),
        ({"division": {"perCluster": [{"cluster": "a", "max": "140%"}]}}, "max", "does not have"),
        ({"division": {"perCluster": [{"cluster": "a", "max": "4"}]}}, "max", "does not have"),
        ({"division": {"perCluster": [{"cluster": "a", "max": -1}]}}, "max", "0"),
        ({"division": {"perCluster": [{"cluster": "a", "min": -1}]}}, "min", "0"),
        ({"division": {"perCluster": [{"cluster": "A_b", "max": 1}]}}, "cluster", "does not have"),
        (
            {"spread": [{"topologyKey": "zone", "minDomains": 3, "maxDomains": 2}]},
            "spread",
            "minDomains must not be above maxDomains",
        ),
        ({"spread": [{"topologyKey": "zone", "maxDomains": 0}]}, "maxDomains", "1"),
        (
            {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]},
            "tolerations",
            "effect NoExecute",
        ),
    ],
)
def test_what_means_nothing_is_refused_with_its_path(
    spec: dict[str, Any], path: str, why: str
) -> None:
    with pytest.raises(InvalidObject) as refused:
        read.check(policy(**spec))
    assert path in str(refused.value)
    assert why in str(refused.value)


def test_what_an_api_server_may_hold_without_us_bounds_nothing() -> None:
    strange = policy(division={"perCluster": [{"cluster": 7, "min": -3, "max": "many"}]})
    (entry,) = placementpolicy.to_policy(strange, "match").division.per_cluster
    assert (entry.least, entry.of(10), entry.matches("a", {})) == (0, None, False)


def test_taints_of_people_are_timed_once() -> None:
    old, new = {"key": "old", "effect": "NoExecute"}, {"key": "new", "effect": "NoExecute"}
    told = {**old, "key": "told", "value": "x", "timeAdded": "2026-01-01T00:00:00Z"}
    spec = {"taints": [old, new, told, {"key": "soft", "effect": "NoSchedule"}]}
    live = {"taintTimes": [{"key": "old", "timeAdded": "2026-01-01T00:01:00Z"}]}
    obj = {"metadata": {"name": "a"}, "spec": spec, "status": live}
    now = "2026-01-01T00:02:00Z"
    times = tainttimes.times(obj, live, now)
    assert times == [
        {"key": "old", "timeAdded": "2026-01-01T00:01:00Z"},
        {"key": "new", "timeAdded": now},
    ]
    view = membercluster.to_view(obj, 0.0)
    first = dict(view.tainted_s)[Taint("told", "x", "NoExecute")]
    assert dict(view.tainted_s) == {
        Taint("told", "x", "NoExecute"): first,
        Taint("old", "", "NoExecute"): first + 60,
    }
    assert tainttimes.times({"spec": {"taints": []}}, live, now) == []
