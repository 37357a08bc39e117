"""Merge, JSON and strategic merge patches."""

import pytest

from tests.contract.bodies import containers, deployment, owned_by, owners
from tests.contract.crds import widget
from tests.contract.speaking import APPLY, JSON_PATCH, MERGE, STRATEGIC, Object, Speaker

REJECTED = "the server rejected our request due to an error in our request"


async def made(api: Speaker, body: Object | None = None) -> str:
    """Creates a Deployment and returns its path."""
    (await api.post(api.url("deployments"), body or deployment(), fieldManager="maker")).object(201)
    return api.url("deployments", "web")


async def test_a_merge_patch_merges_maps_replaces_lists_and_removes_with_null(api: Speaker) -> None:
    await api.configmap("a", data={"k": "1", "l": "2"}, labels={"x": "1", "y": "2"})
    patch = {"data": {"l": None, "m": "3"}, "metadata": {"labels": {"x": None}}}
    changed = (await api.patch(api.url("configmaps", "a"), patch)).object()
    assert changed["data"] == {"k": "1", "m": "3"}
    assert changed["metadata"]["labels"] == {"y": "2"}


async def test_a_patch_that_changes_nothing_keeps_version_and_generation(api: Speaker) -> None:
    path = await made(api)
    before = (await api.get(path)).object()["metadata"]
    after = (await api.patch(path, {"spec": {"replicas": 3}})).object()["metadata"]
    assert (after["resourceVersion"], after["generation"]) == (before["resourceVersion"], 1)


async def test_generation_counts_changes_of_the_spec_only(api: Speaker) -> None:
    path = await made(api)
    assert (await api.patch(path, {"metadata": {"labels": {"x": "1"}}})).object()["metadata"][
        "generation"
    ] == 1
    assert (await api.patch(path, {"spec": {"replicas": 4}})).object()["metadata"][
        "generation"
    ] == 2
    status = {"status": {"observedGeneration": 2}}
    assert (await api.patch(f"{path}/status", status)).object()["metadata"]["generation"] == 2


async def test_a_version_or_uid_in_a_patch_is_a_precondition(api: Speaker) -> None:
    await api.configmap("a")
    answer = await api.patch(
        api.url("configmaps", "a"), {"metadata": {"resourceVersion": "1"}, "data": {"k": "1"}}
    )
    answer.refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again",
    )
    other = "11111111-1111-1111-1111-111111111111"
    answer = await api.patch(api.url("configmaps", "a"), {"metadata": {"uid": other}})
    assert answer.json["message"].startswith(
        f'ConfigMap "a" is invalid: metadata.uid: Invalid value: "{other}": field is immutable'
    )


async def test_a_json_patch_applies_its_steps_in_order(api: Speaker) -> None:
    await api.configmap("a", data={"k": "1", "l": "2"})
    steps = [
        {"op": "test", "path": "/data/k", "value": "1"},
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/x~1y", "value": "1"},
        {"op": "replace", "path": "/data/k", "value": "3"},
        {"op": "move", "from": "/data/l", "path": "/data/m"},
        {"op": "copy", "from": "/data/m", "path": "/data/n"},
        {"op": "remove", "path": "/data/k"},
    ]
    changed = (await api.patch(api.url("configmaps", "a"), steps, JSON_PATCH)).object()
    assert changed["data"] == {"m": "2", "n": "2"}
    assert changed["metadata"]["labels"] == {"x/y": "1"}


@pytest.mark.parametrize(
    "step",
    [
        {"op": "test", "path": "/data/k", "value": "other"},
        {"op": "remove", "path": "/data/missing"},
        {"op": "nope", "path": "/data/k"},
    ],
)
async def test_a_json_patch_that_does_not_apply_is_rejected(api: Speaker, step: Object) -> None:
    await api.configmap("a", data={"k": "1"})
    answer = await api.patch(api.url("configmaps", "a"), [step], JSON_PATCH)
    answer.refused(422, "Invalid", REJECTED)


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        (
            b'{"a": 1}',
            JSON_PATCH,
            (
                "error decoding patch: json: cannot unmarshal object into Go value of type "
                "[]handlers.jsonPatchOp"
            ),
        ),
        (
            b"[1]",
            MERGE,
            (
                "error decoding patch: json: cannot unmarshal array into Go value of type "
                "map[string]interface {}"
            ),
        ),
    ],
)
async def test_a_patch_of_the_wrong_form_is_refused(
    api: Speaker, body: bytes, content_type: str, message: str
) -> None:
    await api.configmap("a")
    answer = await api.patch(api.url("configmaps", "a"), body, content_type)
    answer.refused(400, "BadRequest", message)


@pytest.mark.parametrize(
    ("content_type", "before"),
    [
        (
            MERGE,
            (
                "error decoding patch: invalid character 'b' looking for beginning of object key "
                "string"
            ),
        ),
        (STRATEGIC, "invalid character 'b' looking for beginning of object key string"),
    ],
)
async def test_a_patch_that_is_no_json_is_refused(
    api: Speaker, newest: bool, content_type: str, before: str
) -> None:
    await api.configmap("a")
    answer = await api.patch(api.url("configmaps", "a"), b"{bad", content_type)
    answer.refused(400, "BadRequest", "invalid JSON patch" if newest else before)
    if newest:  # whether there is anything to patch is asked afterwards
        answer = await api.patch(api.url("configmaps", "b"), b"{bad", content_type)
        answer.refused(400, "BadRequest", "invalid JSON patch")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            b"a: [",
            (
                "error encoding patch: yaml: line ",
                "error decoding YAML: error converting YAML to JSON: yaml: ",
            ),
        ),
        (
            b"{a: [",
            (
                "error decoding patch: error converting YAML to JSON: yaml: line ",
                "error decoding YAML: error converting YAML to JSON: yaml: ",
            ),
        ),
        (
            b"- 1",
            (
                (
                    "error decoding patch: error unmarshaling JSON: while decoding JSON: json: "
                    "cannot unmarshal array into"
                ),
                (
                    "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: "
                    "cannot unmarshal array into"
                ),
            ),
        ),
    ],
)
async def test_what_is_applied_has_to_be_an_object(
    api: Speaker, newest: bool, body: bytes, words: tuple[str, str]
) -> None:
    answer = await api.patch(api.url("configmaps", "a"), body, APPLY, fieldManager="me")
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.json["message"].startswith(words[0 if newest else 1])


async def test_a_patch_needs_a_patch_content_type(api: Speaker) -> None:
    await api.configmap("a")
    answer = await api.patch(api.url("configmaps", "a"), {}, "application/json")
    assert (answer.status, answer.json["reason"]) == (415, "UnsupportedMediaType")


async def test_a_patch_cannot_rename(api: Speaker) -> None:
    await api.configmap("a")
    answer = await api.patch(api.url("configmaps", "a"), {"metadata": {"name": "b"}})
    answer.refused(
        400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)"
    )


async def test_strict_patches_name_unknown_fields(api: Speaker) -> None:
    await api.configmap("a")
    answer = await api.patch(
        api.url("configmaps", "a"), {"bogus": {}}, STRATEGIC, fieldValidation="Strict"
    )
    answer.refused(
        422,
        "Invalid",
        (
            ' "" is invalid: patch: Invalid value: "map[bogus:map[]]": strict decoding error: '
            'unknown field "bogus"'
        ),
    )
    answer = await api.patch(api.url("configmaps", "a"), {"bogus": {}}, fieldValidation="Strict")
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert answer.json["message"].endswith('strict decoding error: unknown field "bogus"')


async def test_a_strategic_patch_merges_lists_by_their_key(api: Speaker) -> None:
    path = await made(api)
    added = [
        {"name": "side", "image": "side:1"},
        {"name": "app", "env": [{"name": "A", "value": "1"}]},
    ]
    changed = (
        await api.patch(path, {"spec": {"template": {"spec": {"containers": added}}}}, STRATEGIC)
    ).object()
    assert sorted(containers(changed)) == [("app", "registry/app:1"), ("side", "side:1")]
    more = [{"name": "app", "env": [{"name": "B", "value": "2"}]}]
    changed = (
        await api.patch(path, {"spec": {"template": {"spec": {"containers": more}}}}, STRATEGIC)
    ).object()
    (app,) = (
        each for each in changed["spec"]["template"]["spec"]["containers"] if each["name"] == "app"
    )
    assert sorted(each["name"] for each in app["env"]) == ["A", "B"]


@pytest.mark.parametrize(
    ("patch", "left"),
    [
        ({"containers": [{"name": "z", "image": "z:1"}]}, ["z", "app"]),
        (
            {
                "$setElementOrder/containers": [{"name": "app"}, {"name": "z"}],
                "containers": [{"name": "z", "image": "z:1"}],
            },
            ["app", "z"],
        ),
        ({"containers": [{"$patch": "replace"}, {"name": "only", "image": "o:1"}]}, ["only"]),
        (
            {"containers": [{"name": "z", "image": "z:1"}, {"name": "app", "$patch": "delete"}]},
            ["z"],
        ),
    ],
)
async def test_strategic_directives(api: Speaker, patch: Object, left: list[str]) -> None:
    path = await made(api)
    changed = (await api.patch(path, {"spec": {"template": {"spec": patch}}}, STRATEGIC)).object()
    assert [name for name, _ in containers(changed)] == left


async def test_strategic_retain_keys_and_primitive_lists(api: Speaker) -> None:
    path = await made(api)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert (await api.patch(path, patch, STRATEGIC)).object()["spec"]["strategy"] == {
        "type": "Recreate"
    }
    await api.patch(path, {"metadata": {"finalizers": ["contract.example/a"]}}, STRATEGIC)
    both = (
        await api.patch(path, {"metadata": {"finalizers": ["contract.example/b"]}}, STRATEGIC)
    ).object()
    assert sorted(both["metadata"]["finalizers"]) == ["contract.example/a", "contract.example/b"]
    drop = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["contract.example/a", "contract.example/b"]
        }
    }
    assert "finalizers" not in (await api.patch(path, drop, STRATEGIC)).object()["metadata"]


async def test_updates_are_recorded_with_their_manager(api: Speaker) -> None:
    path = await made(api)
    changed = (await api.patch(path, {"spec": {"replicas": 5}}, fieldManager="scaler")).object()
    assert owners(changed) == [("maker", "Update", ""), ("scaler", "Update", "")]
    assert owned_by(changed, "scaler", "Update") == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in owned_by(changed, "maker", "Update")["f:spec"]


async def test_a_manager_is_named_after_the_user_agent_when_it_names_none(api: Speaker) -> None:
    made = await api.configmap("a", data={"k": "1"})
    (entry,) = made["metadata"]["managedFields"]
    assert entry["manager"]
    assert (entry["operation"], entry["apiVersion"]) == ("Update", "v1")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}


async def test_an_object_without_owners_gets_none_by_updates(api: Speaker) -> None:
    assert owners(await api.configmap("a")) == []
    assert (
        owners((await api.patch(api.url("configmaps", "a"), {"data": {"k": "1"}})).object()) == []
    )


async def test_a_custom_resource_takes_no_strategic_patch(widgets: Speaker) -> None:
    await widgets.post(widgets.url("widgets"), widget("a"))
    answer = await widgets.patch(widgets.url("widgets", "a"), {"spec": {}}, STRATEGIC)
    answer.refused(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    )
