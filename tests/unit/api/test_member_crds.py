"""The light CRDs of members keep every field of slices, check that seq never falls, and are small."""

from typing import Any

import msgspec
import pytest

from federator.api import schema
from federator.api.common import SEQ_RULE
from federator.kinds import crds
from federator.kinds.registry import EXPANDED, KINDS

NAMES = [row.kind for row in KINDS.values() if row.in_members and row.model is not None]
SLICES = [row.kind for row in EXPANDED]


def _of(bodies: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    body = next(one for one in bodies if one["spec"]["names"]["kind"] == kind)
    (version,) = body["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def _lost(full: dict[str, Any], light: dict[str, Any] | None, path: str = "") -> list[str]:
    """Paths of fields of `full` that a server with `light` would prune."""
    if light is None:
        return [path]
    if light.get("x-kubernetes-preserve-unknown-fields"):
        known = light.get("properties", {})
        return [
            lost
            for name, node in known.items()
            for lost in _lost(full["properties"][name], node, f"{path}.{name}")
        ]
    if full.get("x-kubernetes-preserve-unknown-fields"):
        return [f"{path}.*"]
    lost = []
    for name, node in full.get("properties", {}).items():
        lost += _lost(node, light.get("properties", {}).get(name), f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(full.get(key), dict):
            lost += _lost(full[key], light.get(key), f"{path}[]")
    return lost


def test_members_get_the_kinds_that_they_need() -> None:
    given = [body["spec"]["names"]["kind"] for body in crds.member_crds()]
    assert sorted(given) == sorted(NAMES)
    assert {"FederatedQuota", "PlacementPolicy", "MemberCluster"}.isdisjoint(given)


@pytest.mark.parametrize("kind", NAMES)
def test_no_field_that_the_host_keeps_is_pruned_in_a_member(kind: str) -> None:
    """So that a member's stored slices survive the step from the former, full definitions."""
    assert _lost(_of(crds.all_crds(), kind), _of(crds.member_crds(), kind)) == []


@pytest.mark.parametrize("kind", NAMES)
def test_versions_columns_and_subresources_are_those_of_the_host(kind: str) -> None:
    full, light = (
        {
            name: value
            for body in bodies
            if body["spec"]["names"]["kind"] == kind
            for name, value in body["spec"]["versions"][0].items()
            if name != "schema"
        }
        for bodies in (crds.all_crds(), crds.member_crds())
    )
    assert light == full


@pytest.mark.parametrize("kind", SLICES)
def test_one_rule_is_left_that_an_older_decision_never_overwrites_a_newer_one(kind: str) -> None:
    light = _of(crds.member_crds(), kind)
    encoded = msgspec.json.encode(light).decode()
    assert encoded.count('"rule":') == 1
    assert light["properties"]["spec"]["x-kubernetes-validations"][0]["rule"] == SEQ_RULE[0]
    assert "slice" in light["properties"]["spec"]["properties"]


@pytest.mark.parametrize("kind", NAMES)
def test_only_what_a_server_reads_is_described(kind: str) -> None:
    """Each field costs an API server several times its size."""
    parts = _of(crds.member_crds(), kind)["properties"]
    assert "properties" not in parts.get("status", {})
    said = parts["spec"].get("properties", {})
    assert set(said) <= {"replicas", "slice"}
    if kind in SLICES:
        assert set(said["slice"]["properties"]) == {"seq", "workloadUID"}


def test_they_are_small_beside_the_full_ones() -> None:
    full = sum(len(encoded) for _, encoded in crds.encoded())
    light = sum(len(encoded) for _, encoded in crds.encoded(member=True))
    assert light * 50 < full


def test_a_lost_field_would_be_seen() -> None:
    full = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}}
    assert _lost(full, {"type": "object", "properties": {"a": {"type": "object"}}}) == [".a.b"]
    assert schema.EMBED not in msgspec.json.encode(crds.member_crds()).decode()
