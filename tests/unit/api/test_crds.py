"""The generated CRDs: equal to those in config/crd, structural, bounded, described."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from federator.api import schema, structural
from federator.kinds import crds
from federator.kinds.registry import KINDS

ROOT = Path(__file__).parents[3]
OURS = sorted(name for name, kind in KINDS.items() if kind.model is not None)
UNKNOWN_TO_SERVERS = (
    "$ref",
    "$defs",
    "const",
    "prefixItems",
    "uniqueItems",
    "discriminator",
    "patternProperties",
    "propertyNames",
    "examples",
    "readOnly",
    "writeOnly",
    "deprecated",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "title",
    "allOf",
    "oneOf",
)

THEIRS = (
    ".template.",
    ".container.",
    "volumeClaimTemplates[].spec.",
    ".spec.env[].",
    ".spec.volumes[].",
    ".spec.volumeMounts[].",
)
"""Marks in paths of fields that are Kubernetes' own."""


def _schema(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = crds.crd(KINDS[kind])["spec"]["versions"][0]["schema"][
        "openAPIV3Schema"
    ]
    return found


def _nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(node.get(key), dict):
            yield from _nodes(node[key], path + mark)


def _structural_faults(path: str, node: dict[str, Any]) -> Iterator[str]:
    """What a real API server refuses or silently drops, by ECOSYSTEM's table."""
    for word in UNKNOWN_TO_SERVERS:
        if word in node:
            yield f"{path}: {word}"
    free = node.get("x-kubernetes-preserve-unknown-fields") or node.get(
        "x-kubernetes-int-or-string"
    )
    if "type" not in node and not free:
        yield f"{path}: no type"
    if "anyOf" in node and node["anyOf"] != [{"type": "integer"}, {"type": "string"}]:
        yield f"{path}: anyOf"
    if "default" in node and node["default"] is None:
        yield f"{path}: default null"
    if node.get("type") == "array" and "items" not in node:
        yield f"{path}: array without items"
    if "additionalProperties" in node and (
        "properties" in node or node["additionalProperties"] is False
    ):
        yield f"{path}: additionalProperties"
    if node.get("format", "int32") not in schema.FORMATS:
        yield f"{path}: format {node['format']}"
    keys = node.get("x-kubernetes-list-map-keys", ())
    if (node.get("x-kubernetes-list-type") == "map") != bool(keys):
        yield f"{path}: list type map without keys"
    for key in keys:
        if (
            key not in node["items"].get("required", ())
            and "default" not in node["items"]["properties"][key]
        ):
            yield f"{path}: key {key} is neither required nor defaulted"
    for word in ("minimum", "maximum"):
        if not schema.survives(node.get(word, 0)):
            yield f"{path}: {word} is not exact as a float"


def test_config_crd_holds_what_is_written_and_nothing_of_kinds_that_are_gone(
    tmp_path: Path,
) -> None:
    (tmp_path / "old.pinterest.com.yaml").write_text("gone")

    crds.write(tmp_path)

    assert _texts(tmp_path) == _texts(ROOT / "config" / "crd"), (
        "run `federator crd print` (crds.write) and commit config/crd"
    )


def _texts(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.pinterest.com.yaml")
    }


@pytest.mark.parametrize("kind", OURS)
def test_the_schema_has_nothing_that_a_real_api_server_refuses_or_drops(kind: str) -> None:
    assert [
        fault for path, node in _nodes(_schema(kind)) for fault in _structural_faults(path, node)
    ] == []


@pytest.mark.parametrize("kind", OURS)
def test_every_default_is_valid_by_its_own_schema(kind: str) -> None:
    for path, node in _nodes(_schema(kind)):
        if "default" in node:
            assert list(structural.problems(node["default"], node, path)) == []


@pytest.mark.parametrize("kind", OURS)
def test_a_status_has_no_defaults_so_that_it_says_only_what_its_writer_wrote(kind: str) -> None:
    status = _schema(kind)["properties"].get("status", {})
    assert [
        path
        for path, node in _nodes(status)
        if "default" in node and not _is_list_key(path, status)
    ] == []


def _is_list_key(path: str, root: dict[str, Any]) -> bool:
    parent = path.rpartition("[].")
    lists = [p for p, n in _nodes(root) if parent[2] in n.get("x-kubernetes-list-map-keys", ())]
    return parent[0] in lists


@pytest.mark.parametrize("kind", OURS)
def test_every_field_of_ours_is_described_and_no_field_of_the_pod_template_is(kind: str) -> None:
    for path, node in _nodes(_schema(kind)):
        theirs = any(mark in path for mark in THEIRS)
        mine = bool(path) and not theirs and not path.endswith(("[]", ".*", ".metadata"))
        assert bool(node.get("description")) or not mine, path
        assert not (theirs and "description" in node), path


@pytest.mark.parametrize("kind", OURS)
def test_every_list_and_map_and_text_of_ours_under_a_rule_is_bounded(kind: str) -> None:
    """CEL cost is estimated from these bounds; a list without one makes the whole CRD refused."""
    for path, node in _nodes(_schema(kind)):
        if any(mark in path for mark in THEIRS) or path == ".metadata":
            continue
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if isinstance(node.get("additionalProperties"), dict):
            assert "maxProperties" in node, path


@pytest.mark.parametrize("kind", OURS)
def test_a_crd_is_well_below_the_limit_of_a_request(kind: str) -> None:
    assert len(json.dumps(crds.crd(KINDS[kind]))) < 400_000


def test_names_scope_subresources_and_category() -> None:
    rows = {body["spec"]["names"]["kind"]: body["spec"] for body in crds.all_crds()}
    assert {kind: spec["names"]["shortNames"] for kind, spec in rows.items()} == {
        "PinterestService": ["psvc"],
        "PinterestJobSet": ["pjs"],
        "PinterestCronJob": ["pcj"],
        "PinterestDaemon": ["pdm"],
        "PinterestTrainingJob": ["ptj"],
        "PinterestStatefulSet": ["psts"],
        "PinterestNativeCronJob": ["pncj"],
        "RuntimeProfile": ["rp"],
        "MemberCluster": ["mc"],
        "PlacementPolicy": ["pp"],
        "ClusterPlacementPolicy": ["cpp"],
        "PlacementDecision": ["pd"],
        "FederatedQuota": ["fq"],
        "PlacementInvariant": ["pi"],
        "ClusterStandard": ["cstd"],
        "SubmissionPolicy": ["sp"],
        "ClusterCapacity": ["ccap"],
    }
    for kind, spec in rows.items():
        also = ["all"] if kind.startswith("Pinterest") else []
        assert spec["names"]["categories"] == ["federator", *also], kind
    namespaced = {kind for kind, spec in rows.items() if spec["scope"] == "Namespaced"}
    workloads = {"Service", "JobSet", "Daemon", "CronJob", "StatefulSet", "TrainingJob"}
    workloads |= {"NativeCronJob"}
    assert namespaced == {f"Pinterest{name}" for name in workloads} | {
        "PlacementPolicy",
        "PlacementDecision",
    }
    assert rows["PinterestService"]["versions"][0]["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert "subresources" not in rows["PlacementDecision"]["versions"][0]


@pytest.mark.parametrize("kind", OURS)
def test_printer_columns_show_scalars_that_exist(kind: str) -> None:
    root = _schema(kind)
    for column in crds.crd(KINDS[kind])["spec"]["versions"][0]["additionalPrinterColumns"]:
        steps = (
            re.sub(r'\[\?\(@\.type=="\w+"\)\]', "[]", column["jsonPath"])
            .removeprefix(".")
            .split(".")
        )
        if steps[0] == "metadata":
            continue
        node = root
        for step in steps:
            node = node["properties"][step.removesuffix("[]")]
            node = node["items"] if step.endswith("[]") else node
        if column["type"] == "date":
            assert (node["type"], node["format"]) == ("string", "date-time"), column
        else:
            assert node["type"] == column["type"], column


def test_the_pod_template_keeps_the_keys_of_its_lists_and_only_defaults_that_keys_need() -> None:
    template = crds.embedded_schema("PodTemplateSpec")
    container = template["properties"]["spec"]["properties"]["containers"]
    ports = container["items"]["properties"]["ports"]
    assert container["x-kubernetes-list-map-keys"] == ["name"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    defaults = {path: node["default"] for path, node in _nodes(dict(template)) if "default" in node}
    assert {path.rpartition(".")[2] for path in defaults} == {"protocol", "name"}
    assert crds.kubernetes_version() == "v1.37.2"
