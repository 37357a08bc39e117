"""`clusters` of a policy and what MemberClusters state: what is read, and what is refused where."""

from typing import Any

import pytest

from federator.api import clusterchoice, membercluster
from federator.api.placement import placementpolicy
from federator.kinds import read
from federator.kinds.read import InvalidObject
from federator.model.properties import PROPERTIES
from federator.model.terms import NO_CONDITIONS, PROPERTY, SELECTOR, WORKLOADS, Operator
from federator.placement.selection import scorers


def policy(kind: str = "PlacementPolicy", **clusters: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"clusters": clusters}
    if kind == "ClusterPlacementPolicy":
        spec["enforcement"] = "Required"
    meta = {"name": "p"} if kind == "ClusterPlacementPolicy" else {"name": "p", "namespace": "feed"}
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": kind,
        "metadata": meta,
        "spec": spec,
    }


def test_the_documented_form_is_read() -> None:
    obj = policy(
        properties=[
            {"key": "gpu.free", "operator": "Gt", "value": "8"},
            {"cel": "cluster.version >= semver('1.36') && cluster.price < 4.0"},
        ],
        preferences=[
            {"weight": 30, "property": "price", "order": "Ascending"},
            {"weight": 10, "selector": {"matchLabels": {"pool": "spot"}}},
            {"weight": 1, "scorer": "Fit"},
        ],
        anyOf=[{"names": ["a"]}, {"properties": [{"key": "labels.zone", "operator": "Exists"}]}],
    )
    read.check(obj)
    made = placementpolicy.to_policy(obj, "policyRef")
    gpus, expression = made.conditions.terms
    assert (gpus.key, gpus.operator, gpus.values, gpus.reported) == (
        "gpu.free",
        Operator.GREATER_THAN,
        ("8",),
        True,
    )
    assert (expression.reported, expression.path) == (False, "clusters.properties[1]")
    assert [each.path for each in made.conditions.any_of] == [
        "clusters.anyOf[0]",
        "clusters.anyOf[1]",
    ]
    assert [wish.name for wish in made.preferences] == ["price Ascending", "pool=spot", "Fit"]
    assert (made.reads_reports, made.problem) == (True, "")


@pytest.mark.parametrize(
    ("clusters", "where", "why"),
    [
        ({"properties": [{"key": "gpus", "operator": "Exists"}]}, "properties[0]", "no property"),
        ({"properties": [{"key": "price", "operator": "Gt"}]}, "properties[0]", "take value"),
        (
            {"properties": [{"key": "price", "operator": "Gt", "value": "cheap"}]},
            "properties[0]",
            "value: 'cheap' is not a quantity",
        ),
        (
            {"properties": [{"key": "version", "operator": "Lt", "value": "new"}]},
            "properties[0]",
            "value: 'new' is not a version",
        ),
        (
            {"properties": [{"key": "price", "operator": "Exists", "value": "1"}]},
            "properties[0]",
            "neither",
        ),
        ({"properties": [{"key": "price"}]}, "properties[0]", "key and operator, or cel alone"),
        (
            {"properties": [{"key": "price", "cel": "true"}]},
            "properties[0]",
            "key and operator, or cel alone",
        ),
        (
            {"properties": [{"cel": "cluster.prize < 4.0"}]},
            "properties[0]",
            "cel: column 9: unknown name prize",
        ),
        (
            {"anyOf": [{}, {"properties": [{"cel": "cluster.price"}]}]},
            "anyOf[1].properties[0]",
            "cel: column 1: the expression is a double",
        ),
        ({"preferences": [{"weight": 1}]}, "preferences[0]", "one of property"),
        (
            {"preferences": [{"weight": 1, "property": "prize", "order": "Ascending"}]},
            "preferences[0]",
            "no property",
        ),
        (
            {"preferences": [{"weight": 1, "property": "version", "order": "Ascending"}]},
            "preferences[0]",
            "no number to sort by",
        ),
        ({"preferences": [{"weight": 1, "property": "price"}]}, "preferences[0]", "order"),
        ({"preferences": [{"weight": 1, "scorer": "Best"}]}, "preferences[0]", "no scorer"),
    ],
)
def test_an_error_is_refused_with_its_path_and_leaves_a_stored_policy_unusable(
    clusters: dict[str, Any], where: str, why: str
) -> None:
    with pytest.raises(InvalidObject) as refused:
        read.check(policy(**clusters))
    (error,) = refused.value.errors
    assert f"spec.clusters.{where}" in str(error)
    assert why in str(error)
    stored = placementpolicy.to_policy(policy(**clusters), "match")
    assert stored.problem.startswith(f"policy p: spec.clusters.{where}")
    assert why in stored.problem
    demand = placementpolicy.to_demand(policy("ClusterPlacementPolicy", **clusters))
    assert demand is not None
    refers_to_clusters = "preferences" not in clusters
    assert why in demand.problem or not refers_to_clusters


@pytest.mark.parametrize("weight", [0, -1, 1001, 1.5])
def test_weights_are_whole_numbers_from_1_to_1000(weight: float) -> None:
    with pytest.raises(InvalidObject, match=r"spec.clusters.preferences\[0\].weight"):
        read.check(policy(preferences=[{"weight": weight, "scorer": "Fit"}]))


def test_scorers_that_policies_may_name_are_those_of_the_engine() -> None:
    preferred = [name for name, term in scorers.SCORERS.items() if term.preferred]
    assert [PROPERTY, SELECTOR, WORKLOADS, *clusterchoice.SCORERS_BY_NAME] == preferred
    for name, reported in clusterchoice.SCORERS_BY_NAME.items():
        reads = scorers.SCORERS[name].reads
        assert reported is (bool(reads) and PROPERTIES[reads].reported)


def test_a_policy_without_the_fields_has_no_conditions() -> None:
    made = placementpolicy.to_policy(policy(names=["a"]), "match")
    assert (made.conditions, made.preferences, made.reads_reports) == (NO_CONDITIONS, (), False)


def member(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
        "status": {"version": "v1.36.2"},
    }


def test_what_operators_state_of_a_cluster_is_read() -> None:
    obj = member(properties={"network": "100"}, pricePerHour="0.77", topology={"zone": ["b", "a"]})
    read.check(obj)
    stated = membercluster.to_view(obj, 0.0).stated
    assert (stated.version, stated.price, stated.properties) == (
        "v1.36.2",
        "0.77",
        {"network": "100"},
    )
    assert (stated.topology, stated.created_s) == ({"zone": ("a", "b")}, 1767225600.0)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"pricePerHour": "cheap"}, "spec.pricePerHour"),
        ({"pricePerHour": "-1"}, "spec.pricePerHour"),
        ({"properties": {"a b": "1"}}, "spec.properties"),
        ({"properties": {"a": 1}}, "spec.properties.a"),
        ({"topology": {"zone": []}}, "spec.topology.zone"),
        ({"topology": {"zone": ["a b"]}}, "spec.topology.zone"),
        ({"topology": {"zone": "a"}}, "spec.topology.zone"),
    ],
)
def test_what_cannot_be_stated_is_refused_and_left_out(spec: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidObject, match=where):
        read.check(member(**spec))
    stated = membercluster.to_view(member(**spec), 0.0).stated
    assert (stated.price in ("", "-1"), stated.topology) == (True, {})
