"""Field ownership beyond the recorded stories: what is shared, capped, reset, handed over."""

import asyncio
from typing import Any

import pytest

from federator.embedded.apply import fieldsets, managers, ownership
from federator.embedded.controllers import NodePool
from federator.embedded.schema import builtins
from tests.contract.bodies import deployment
from tests.unit.embedded import recordings
from tests.unit.embedded.inprocess import cluster, on_virtual_time, speaker

MAPS = builtins.info("", "configmaps")
THEN = "2026-01-01T00:00:00Z"


def _config(data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", **meta},
    }
    return obj if data is None else {**obj, "data": data}


def _tracked(
    old: dict[str, Any] | None, new: dict[str, Any], manager: str, now: str = THEN
) -> dict[str, Any]:
    fields = ownership.track(old, new, manager, MAPS, now)
    return {**new, "metadata": {**new["metadata"], "managedFields": fields}}


def test_equal_ownership_is_one_object_in_memory() -> None:
    first = ownership.track(None, _config({"a": "1"}), "m", MAPS, THEN)
    second = ownership.track(None, _config({"a": "2"}), "m", MAPS, THEN)
    assert first[0]["fieldsV1"] is second[0]["fieldsV1"]


def test_shared_sub_trees_are_not_looked_into() -> None:
    data = {"a": "1"}
    old = _tracked(None, _config(data), "m")
    new = {**old, "metadata": {**old["metadata"], "labels": {"x": "y"}}}
    assert fieldsets.compare(old["data"], new["data"], MAPS.node.fields["data"]) == (None, None)
    fields = ownership.track(old, new, "other", MAPS, THEN)
    assert [entry["manager"] for entry in fields] == ["m", "other"]


def test_write_that_changes_nothing_leaves_owners_and_times() -> None:
    old = _tracked(None, _config({"a": "1"}), "m")
    assert (
        ownership.track(old, _config({"a": "1"}), "other", MAPS, "2026-01-02T00:00:00Z")
        == (old["metadata"]["managedFields"])
    )


def test_many_writers_are_merged_into_ancient_changes() -> None:
    obj = _tracked(None, _config({"k0": "0"}), "m0", "2026-01-01T00:00:00Z")
    for index in range(1, 14):
        new = _config({**obj["data"], f"k{index}": "0"})
        new["metadata"]["managedFields"] = obj["metadata"]["managedFields"]
        obj = _tracked(obj, new, f"m{index}", f"2026-01-01T00:00:{index:02d}Z")
    entries = obj["metadata"]["managedFields"]
    assert len(entries) == managers.MAX_UPDATERS
    assert entries[0]["manager"] == "ancient-changes"
    assert set(entries[0]["fieldsV1"]["f:data"]) == {".", "f:k0", "f:k1", "f:k2", "f:k3", "f:k4"}


def test_object_without_owners_stays_without_until_somebody_applies() -> None:
    live = _config({"a": "1"})
    assert ownership.track(live, _config({"a": "2"}), "m", MAPS, THEN) == []
    merged = ownership.apply(live, _config({"b": "1"}), "m", False, MAPS, THEN)
    assert [entry["manager"] for entry in merged.obj["metadata"]["managedFields"]] == [
        "m",
        "before-first-apply",
    ]


def test_status_is_owned_apart_from_the_rest() -> None:
    info = recordings.widget()
    old: dict[str, Any] = {
        "apiVersion": info.api_version,
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"color": "red"},
    }
    old["metadata"]["managedFields"] = ownership.track(None, old, "spec-writer", info, THEN)
    new = {**old, "spec": {"color": "green"}, "status": {"note": "x"}}
    fields = ownership.track(old, new, "status-writer", info, THEN, "status")
    assert [
        (entry["manager"], entry.get("subresource"), sorted(entry["fieldsV1"])) for entry in fields
    ] == [
        ("spec-writer", None, ["f:spec"]),
        ("status-writer", "status", ["f:status"]),
    ]


def test_apply_to_the_status_claims_the_status_alone() -> None:
    info = recordings.widget()
    live: dict[str, Any] = {
        "apiVersion": info.api_version,
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"color": "red"},
    }
    config = {**live, "spec": {"color": "green"}, "status": {"note": "x"}}
    merged = ownership.apply(live, config, "m", False, info, THEN, "status").obj
    assert merged["spec"] == {"color": "red"}
    assert merged["status"] == {"note": "x"}


@on_virtual_time
async def test_a_controllers_annotation_stays_when_an_applier_takes_its_last_one_back() -> None:
    made = cluster(controllers=True, nodes=[NodePool(count=2)])
    assert made.controllers is not None
    running = asyncio.create_task(made.controllers.run())
    api = speaker(made)
    config = deployment()
    path = api.url("deployments", config["metadata"]["name"])
    noted = {**config, "metadata": {**config["metadata"], "annotations": {"team": "a"}}}
    (await api.apply(path, noted, "team")).object(201)
    await asyncio.sleep(5)
    (await api.apply(path, config, "team")).object()
    meta = (await api.get(path)).object()["metadata"]
    assert meta["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    written = [
        (one["manager"], one["operation"], one.get("subresource")) for one in meta["managedFields"]
    ]
    assert written == [("team", "Apply", None), ("kube-controller-manager", "Update", "status")]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_apply_that_changes_nothing_gives_the_live_object_back() -> None:
    config = _config({"a": "1"})
    live = ownership.apply(None, config, "m", False, MAPS, THEN).obj
    assert ownership.apply(live, config, "m", False, MAPS, "2026-01-02T00:00:00Z").obj is live


def test_kubectl_takes_over_what_it_applied_from_the_client_side() -> None:
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"}}'
    live = _tracked(
        None,
        _config({"a": "1"}, annotations={ownership.LAST_APPLIED: last}),
        "kubectl-client-side-apply",
    )
    assert ownership.apply(live, _config({"a": "2"}), "somebody", False, MAPS, THEN).conflicts
    merged = ownership.apply(live, _config({"a": "2"}), "kubectl", False, MAPS, THEN)
    assert merged.conflicts == []
    assert '"a":"2"' in merged.obj["metadata"]["annotations"][ownership.LAST_APPLIED]


UNTYPABLE = [
    ({"data": [1]}, ".data: expected map, got &{[1]}"),
    ({"dat": {}}, ".dat: field not declared in schema"),
    ({"data": {"a": 1}}, ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
]


@pytest.mark.parametrize(("extra", "why"), UNTYPABLE)
def test_apply_of_what_does_not_fit_the_schema_is_an_error(extra: dict[str, Any], why: str) -> None:
    with pytest.raises(ownership.Untypable) as refused:
        ownership.apply(None, {**_config(), **extra}, "m", False, MAPS, THEN)
    assert (
        str(refused.value)
        == f"failed to create typed patch object (/x; /v1, Kind=ConfigMap): {why}"
    )


TRIES: list[tuple[Any, ...]] = [
    ({"f:a": {}}, {"f:b": {}}, {"f:a": {}, "f:b": {}}, {"f:a": {}}, None),
    ({"f:a": {}}, {"f:a": {"f:x": {}}}, {"f:a": {".": {}, "f:x": {}}}, {"f:a": {}}, None),
    (
        {"f:a": {".": {}, "f:x": {}}},
        {"f:a": {}},
        {"f:a": {".": {}, "f:x": {}}},
        {"f:a": {"f:x": {}}},
        {"f:a": {}},
    ),
    ({"f:a": {"f:x": {}}}, {"f:a": {"f:x": {}}}, {"f:a": {"f:x": {}}}, None, {"f:a": {"f:x": {}}}),
]


@pytest.mark.parametrize(("left", "right", "union", "difference", "intersection"), TRIES)
def test_set_arithmetic(
    left: Any, right: Any, union: Any, difference: Any, intersection: Any
) -> None:
    assert fieldsets.union(left, right) == union
    assert fieldsets.difference(left, right) == difference
    assert fieldsets.intersection(left, right) == intersection


def test_paths_are_printed_level_by_level() -> None:
    trie: dict[str, Any] = {
        "f:spec": {
            "f:z": {},
            'k:{"name":"a"}': {".": {}, "f:image": {}},
            "f:a": {"f:b": {}},
            'v:"x"': {},
        }
    }
    assert list(fieldsets.paths(trie)) == [
        ".spec.z",
        '.spec[name="a"]',
        '.spec[="x"]',
        ".spec.a.b",
        '.spec[name="a"].image',
    ]
