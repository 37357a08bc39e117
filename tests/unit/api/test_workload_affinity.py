"""`spec.workloadAffinity` of policies: what is read, and what is refused where."""

from typing import Any

import pytest

from federator.api.placement import affinityfields, placementpolicy
from federator.kinds import read
from federator.kinds.read import InvalidObject
from federator.model.terms import WORKLOADS


def policy(**terms: Any) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "p", "namespace": "feed"},
        "spec": {"workloadAffinity": terms},
    }


def test_the_documented_form_is_read() -> None:
    obj = policy(
        affinity=[{"selector": {"matchLabels": {"app": "cache"}}, "topologyKey": "zone"}],
        antiAffinity=[{"matchLabelKeys": ["group"]}, {"matchLabelKeys": ["app"], "weight": 10}],
    )
    read.check(obj)
    made = placementpolicy.to_policy(obj, "policyRef")
    near, apart, rather = made.workloads
    assert near.selector is not None
    assert (near.selector.match_labels, near.topology_key) == ((("app", "cache"),), "zone")
    assert (near.path, near.away, near.weight) == ("workloadAffinity.affinity[0]", False, 0)
    assert (apart.same, apart.topology_key, apart.away, apart.weight) == (("group",), "", True, 0)
    assert (rather.path, rather.weight) == ("workloadAffinity.antiAffinity[1]", 10)
    (wish,) = made.preferences
    assert (wish.scorer, wish.key, wish.weight) == (WORKLOADS, rather.path, 10)
    assert (wish.name, made.problem) == ("antiAffinity[1]", "")


@pytest.mark.parametrize(
    ("term", "where", "why"),
    [
        ({}, "affinity[0]", affinityfields.SELECTS_RULE[1]),
        ({"topologyKey": "zone"}, "affinity[0]", affinityfields.SELECTS_RULE[1]),
        ({"selector": {"matchLabels": {"a b": "c"}}}, "affinity[0]", "matchLabels"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "affinity[0]", ""),
        ({"matchLabelKeys": ["a"], "weight": 0}, "affinity[0].weight", ""),
        ({"matchLabelKeys": ["a"], "weight": 1001}, "affinity[0].weight", ""),
    ],
)
def test_a_term_that_means_nothing_is_refused_with_its_path(
    term: dict[str, Any], where: str, why: str
) -> None:
    obj = policy(affinity=[term])
    with pytest.raises(InvalidObject) as refused:
        read.check(obj)
    (error, *_) = refused.value.errors
    assert f"spec.workloadAffinity.{where}" in str(error)
    assert why in str(error)
    stored = placementpolicy.to_policy(obj, "match").problem
    assert stored.startswith(f"policy p: spec.workloadAffinity.{where}")
    assert why in stored


def test_inline_placement_has_no_terms() -> None:
    inline = {"workloadAffinity": {"affinity": [{"matchLabelKeys": ["a"]}]}}
    obj = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": "web", "namespace": "feed"},
        "spec": {"replicas": 1, "placement": inline},
    }
    with pytest.raises(InvalidObject, match=r"spec\.placement\.workloadAffinity"):
        read.check(obj)


def test_a_required_policy_imposes_no_terms() -> None:
    obj = policy(antiAffinity=[{"matchLabelKeys": ["a"]}])
    obj["kind"], obj["spec"]["enforcement"] = "ClusterPlacementPolicy", "Required"
    del obj["metadata"]["namespace"]
    read.check(obj)
    demand = placementpolicy.to_demand(obj)
    assert demand is not None
    assert not hasattr(demand, "workloads")
