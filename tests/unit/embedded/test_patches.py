"""The three patch kinds on plain trees: results, refusals, and that inputs are never changed."""

import copy
from typing import Any

import pytest

from federator.embedded.apply import patches
from federator.embedded.schema import builtins

POD = {
    "spec": {
        "containers": [{"name": "a", "image": "x", "args": ["1"]}, {"name": "b", "image": "y"}]
    }
}
DEPLOYMENT = {
    "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x/1", "x/2"]},
    "spec": {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {
            "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}
        },
    },
}

MERGE = [
    ({"a": 1}, {"a": None}, {}),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}, {"a": {"c": 2, "d": 3}}),
    ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ({"a": "x"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), MERGE)
def test_merge_patch(target: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((target, patch))
    assert patches.merge(target, patch) == expected
    assert (target, patch) == before


JSON_PATCHES = [
    ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    ({"a/b": {"~": 1}}, [{"op": "remove", "path": "/a~1b/~0"}], {"a/b": {}}),
    ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    ({"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "b": {"x": 1}}),
    (
        {"a": 1},
        [{"op": "test", "path": "/a", "value": 1}, {"op": "add", "path": "/b", "value": None}],
        {"a": 1, "b": None},
    ),
]


@pytest.mark.parametrize(("target", "operations", "expected"), JSON_PATCHES)
def test_json_patch(target: Any, operations: Any, expected: Any) -> None:
    before = copy.deepcopy((target, operations))
    assert patches.json_patch(target, operations) == expected
    assert (target, operations) == before


JSON_REFUSED = [
    ([{"op": "test", "path": "/a", "value": True}], 422),
    ([{"op": "remove", "path": "/none"}], 422),
    ([{"op": "replace", "path": "/l/3", "value": 1}], 422),
    ([{"op": "add", "path": "/a/b/c", "value": 1}], 422),
    ([{"op": "add", "path": "a", "value": 1}], 422),
    ([{"op": "add", "path": "/l/5", "value": 1}], 422),
    ([{"op": "add", "path": "/a"}], 422),
    ([{"op": "move", "from": "/l", "path": "/l/0"}], 422),
    ([{"op": "dance", "path": "/a"}], 422),
    ({"op": "add"}, 400),
    (["add"], 400),
    ([{"op": "test", "path": "/a", "value": 1}] * 10_001, 413),
]


@pytest.mark.parametrize(("operations", "status"), JSON_REFUSED)
def test_json_patch_is_refused_as_a_whole(operations: Any, status: int) -> None:
    target = {"a": 1, "l": [1]}
    with pytest.raises(patches.BadPatch) as refused:
        patches.json_patch(target, operations)
    assert refused.value.status == status
    assert target == {"a": 1, "l": [1]}


def _containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": list(items)}}}}


STRATEGIC = [
    ("a new item goes first", _containers({"name": "c"}), ["c", "a", "b"]),
    ("an item is merged in place", _containers({"name": "b", "image": "z"}), ["a", "b"]),
    ("an item is deleted", _containers({"$patch": "delete", "name": "a"}), ["b"]),
    ("the list is replaced", _containers({"$patch": "replace"}, {"name": "only"}), ["only"]),
    (
        "the order is set",
        {
            "spec": {
                "template": {
                    "spec": {
                        "$setElementOrder/containers": [
                            {"name": "b"},
                            {"name": "c"},
                            {"name": "a"},
                        ],
                        "containers": [{"name": "c"}],
                    }
                }
            }
        },
        ["b", "c", "a"],
    ),
]


@pytest.mark.parametrize(
    ("patch", "names"), [pytest.param(p, n, id=title) for title, p, n in STRATEGIC]
)
def test_strategic_patch_of_a_keyed_list(patch: dict[str, Any], names: list[str]) -> None:
    node = builtins.info("apps", "deployments").node
    before = copy.deepcopy((DEPLOYMENT, patch))
    merged = patches.strategic(DEPLOYMENT, patch, node)
    assert [item["name"] for item in merged["spec"]["template"]["spec"]["containers"]] == names
    assert (DEPLOYMENT, patch) == before


def test_strategic_patch_leaves_what_it_does_not_name_shared() -> None:
    node = builtins.info("apps", "deployments").node
    merged = patches.strategic(DEPLOYMENT, {"metadata": {"labels": {"a": None, "c": "3"}}}, node)
    assert merged["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert merged["spec"] is DEPLOYMENT["spec"]


def test_strategic_patch_keeps_only_retained_keys() -> None:
    node = builtins.info("apps", "deployments").node
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert patches.strategic(DEPLOYMENT, patch, node)["spec"]["strategy"] == {"type": "Recreate"}


def test_strategic_patch_unites_and_thins_lists_of_scalars() -> None:
    node = builtins.info("apps", "deployments").node
    grown = patches.strategic(DEPLOYMENT, {"metadata": {"finalizers": ["x/3", "x/1"]}}, node)
    assert sorted(grown["metadata"]["finalizers"]) == ["x/1", "x/2", "x/3"]
    thinned = patches.strategic(
        DEPLOYMENT, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/1"]}}, node
    )
    assert thinned["metadata"]["finalizers"] == ["x/2"]


STRATEGIC_REFUSED = [
    (
        _containers({"image": "z"}),
        500,
        "map: map[image:z] does not contain declared merge key: name",
    ),
    (
        _containers({"$patch": "dance", "name": "a"}),
        500,
        "unknown patch type: dance in map: map[$patch:dance name:a]",
    ),
    ({"spec": {"strategy": {"$retainKeys": "type"}}}, 400, "invalid patch format of retainKeys"),
    (
        {"spec": {"strategy": {"$retainKeys": [], "type": "x"}}},
        500,
        "patch content doesn't match retainKeys list",
    ),
    ([1], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
]


@pytest.mark.parametrize(("patch", "status", "message"), STRATEGIC_REFUSED)
def test_strategic_patch_is_refused(patch: Any, status: int, message: str) -> None:
    with pytest.raises(patches.BadPatch) as refused:
        patches.strategic(DEPLOYMENT, patch, builtins.info("apps", "deployments").node)
    assert (refused.value.status, refused.value.message) == (status, message)
