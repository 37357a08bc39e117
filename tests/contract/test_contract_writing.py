"""Create, replace and delete: what a server answers and what it keeps."""

import pytest

from tests.contract.speaking import Speaker

OTHER_UID = "11111111-1111-1111-1111-111111111111"
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


async def test_create_gives_identity_and_a_version(api: Speaker) -> None:
    made = await api.configmap("a", data={"k": "v"})
    metadata = made["metadata"]
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"k": "v"})
    assert (metadata["name"], metadata["namespace"]) == ("a", api.namespace)
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    assert "generation" not in metadata
    assert (await api.get(api.url("configmaps", "a"))).object() == made


async def test_create_twice_is_already_exists(api: Speaker) -> None:
    await api.configmap("a")
    answer = await api.post(api.url("configmaps"), {"metadata": {"name": "a"}})
    details = answer.refused(409, "AlreadyExists", 'configmaps "a" already exists')
    assert details == {"name": "a", "kind": "configmaps"}


async def test_names_of_other_groups_carry_the_group(api: Speaker) -> None:
    answer = await api.get(api.url("deployments", "a"))
    details = answer.refused(404, "NotFound", 'deployments.apps "a" not found')
    assert details == {"name": "a", "group": "apps", "kind": "deployments"}


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_a_missing_object_is_not_found_for_every_verb(api: Speaker, method: str) -> None:
    body = {"metadata": {"name": "a"}} if method in ("PUT", "PATCH") else None
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await api.call(method, api.url("configmaps", "a"), body, content_type=content_type)
    assert answer.refused(404, "NotFound", 'configmaps "a" not found') == {
        "name": "a",
        "kind": "configmaps",
    }


async def test_a_missing_namespace_is_not_found(api: Speaker) -> None:
    answer = await api.post("/api/v1/namespaces/absent/configmaps", {"metadata": {"name": "a"}})
    assert answer.refused(404, "NotFound", 'namespaces "absent" not found') == {
        "name": "absent",
        "kind": "namespaces",
    }


async def test_an_unknown_resource_and_an_unknown_group_are_not_found(api: Speaker) -> None:
    answer = await api.get(api.url("frobs", "a"))
    answer.refused(404, "NotFound", "the server could not find the requested resource")
    answer = await api.get("/apis/none.example/v1/frobs")
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["content-type"].startswith("text/plain")


async def test_a_namespace_in_the_body_must_be_the_one_in_the_path(api: Speaker) -> None:
    answer = await api.post(
        api.url("configmaps"), {"metadata": {"name": "a", "namespace": "default"}}
    )
    answer.refused(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    )


async def test_a_name_is_required_and_checked(api: Speaker) -> None:
    answer = await api.post(api.url("configmaps"), {"metadata": {}})
    details = answer.refused(
        422,
        "Invalid",
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    )
    assert details["kind"] == "ConfigMap"
    assert answer.causes() == [
        ("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")
    ]
    answer = await api.post(api.url("configmaps"), {"metadata": {"name": "Bad_Name"}})
    answer.refused(
        422,
        "Invalid",
        f'ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": {SUBDOMAIN}',
    )
    assert answer.causes() == [
        ("FieldValueInvalid", "metadata.name", f'Invalid value: "Bad_Name": {SUBDOMAIN}')
    ]


async def test_generate_name_adds_five_characters(api: Speaker) -> None:
    body = {"metadata": {"generateName": "gen-"}}
    first = (await api.post(api.url("configmaps"), body)).object(201)["metadata"]
    second = (await api.post(api.url("configmaps"), body)).object(201)["metadata"]
    assert first["generateName"] == "gen-"
    assert first["name"].startswith("gen-")
    assert len(first["name"]) == len("gen-") + 5
    assert first["name"] != second["name"]


async def test_the_body_must_be_of_the_kind_of_the_path(api: Speaker) -> None:
    body = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}
    answer = await api.post(api.url("configmaps"), body)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.json["message"].startswith(
        'Secret in version "v1" cannot be handled as a ConfigMap'
    )


@pytest.mark.parametrize(
    ("body", "content_type", "code", "reason"),
    [
        (b"{bad json", "application/json", 400, "BadRequest"),
        (b"", "application/json", 400, "BadRequest"),
        (b"x", "text/plain", 415, "UnsupportedMediaType"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(
    api: Speaker, body: bytes, content_type: str, code: int, reason: str
) -> None:
    answer = await api.post(api.url("configmaps"), body, content_type=content_type)
    assert (answer.status, answer.json["reason"]) == (code, reason)


async def test_yaml_is_read(api: Speaker) -> None:
    body = b'metadata: {name: a}\ndata: {k: "1"}\n'
    made = (await api.post(api.url("configmaps"), body, content_type="application/yaml")).object(
        201
    )
    assert made["data"] == {"k": "1"}


async def test_a_value_of_the_wrong_type_names_the_field(api: Speaker) -> None:
    answer = await api.post(api.url("configmaps"), {"metadata": {"name": "a"}, "data": {"k": 1}})
    answer.refused(
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    )


async def test_strict_refuses_unknown_fields_by_name(api: Speaker) -> None:
    body = {"metadata": {"name": "a"}, "dat": {}, "bogus": 1}
    answer = await api.post(api.url("configmaps"), body, fieldValidation="Strict")
    answer.refused(
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
        'strict decoding error: unknown field "dat", unknown field "bogus"',
    )


async def test_strict_refuses_duplicate_fields(api: Speaker) -> None:
    body = b'{"metadata":{"name":"a","name":"b"}}'
    answer = await api.post(api.url("configmaps"), body, fieldValidation="Strict")
    answer.refused(
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
        'strict decoding error: duplicate field "metadata.name"',
    )


@pytest.mark.parametrize(("mode", "warns"), [("Warn", True), (None, True), ("Ignore", False)])
async def test_unknown_fields_are_dropped_with_a_warning_unless_ignored(
    api: Speaker, mode: str | None, warns: bool
) -> None:
    query = {"fieldValidation": mode} if mode else {}
    answer = await api.post(api.url("configmaps"), {"metadata": {"name": "a"}, "dat": {}}, **query)
    assert "dat" not in answer.object(201)
    assert answer.headers.get("warning") == ('299 - "unknown field \\"dat\\""' if warns else None)


async def test_options_are_validated(api: Speaker) -> None:
    answer = await api.post(
        api.url("configmaps"), {"metadata": {"name": "a"}}, fieldValidation="Foo"
    )
    answer.refused(
        422,
        "Invalid",
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: '
        'Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn"',
    )
    answer = await api.post(api.url("configmaps"), {"metadata": {"name": "a"}}, dryRun="Some")
    answer.refused(
        422,
        "Invalid",
        (
            'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: '
            'supported values: "All"'
        ),
    )


async def test_dry_run_answers_as_if_and_keeps_nothing(api: Speaker) -> None:
    made = (
        await api.post(api.url("configmaps"), {"metadata": {"name": "a"}}, dryRun="All")
    ).object(201)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert (await api.get(api.url("configmaps", "a"))).status == 404
    kept = await api.configmap("b", data={"k": "1"})
    changed = (
        await api.patch(api.url("configmaps", "b"), {"data": {"k": "2"}}, dryRun="All")
    ).object()
    assert changed["data"] == {"k": "2"}
    (await api.delete(api.url("configmaps", "b"), dryRun="All")).object()
    assert (await api.get(api.url("configmaps", "b"))).object() == kept


async def test_dry_run_of_an_existing_name_is_already_exists(api: Speaker) -> None:
    await api.configmap("a")
    answer = await api.post(api.url("configmaps"), {"metadata": {"name": "a"}}, dryRun="All")
    answer.refused(409, "AlreadyExists", 'configmaps "a" already exists')


async def test_replace_with_a_stale_version_is_a_conflict(api: Speaker) -> None:
    made = await api.configmap("a", data={"k": "1"})
    made["data"] = {"k": "2"}
    newer = (await api.put(api.url("configmaps", "a"), made)).object()
    assert int(newer["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    answer = await api.put(api.url("configmaps", "a"), made)
    details = answer.refused(
        409, "Conflict", f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}'
    )
    assert details == {"name": "a", "kind": "configmaps"}


async def test_replace_without_a_version_is_unconditional_for_core_kinds(api: Speaker) -> None:
    made = await api.configmap("a", data={"k": "1"}, labels={"x": "y"})
    changed = (
        await api.put(api.url("configmaps", "a"), {"metadata": {"name": "a"}, "data": {"k": "2"}})
    ).object()
    assert changed["data"] == {"k": "2"}
    assert "labels" not in changed["metadata"]
    for kept in ("uid", "creationTimestamp"):
        assert changed["metadata"][kept] == made["metadata"][kept]


async def test_replace_with_another_name_or_uid_is_refused(api: Speaker) -> None:
    await api.configmap("a")
    answer = await api.put(api.url("configmaps", "a"), {"metadata": {"name": "b"}})
    answer.refused(
        400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)"
    )
    answer = await api.put(
        api.url("configmaps", "a"), {"metadata": {"name": "a", "uid": OTHER_UID}}
    )
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")


async def test_a_write_that_changes_nothing_keeps_the_version(api: Speaker) -> None:
    made = await api.configmap("a", data={"k": "1"})
    again = (await api.put(api.url("configmaps", "a"), made)).object()
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_delete_answers_with_a_status_and_the_uid(api: Speaker) -> None:
    made = await api.configmap("a")
    answer = (await api.delete(api.url("configmaps", "a"))).object()
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    assert (await api.get(api.url("configmaps", "a"))).status == 404


async def test_delete_preconditions_hold(api: Speaker) -> None:
    made = await api.configmap("a")
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    answer = await api.delete(api.url("configmaps", "a"), {"preconditions": {"uid": OTHER_UID}})
    answer.refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition '
        f"({OTHER_UID}) does not match "
        f"the UID in record ({uid}). The object might have been deleted and then recreated",
    )
    answer = await api.delete(
        api.url("configmaps", "a"), {"preconditions": {"resourceVersion": "1"}}
    )
    answer.refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the '
        "precondition (1) does not match "
        f"the ResourceVersion in record ({version}). The object might have been modified",
    )
    (
        await api.delete(
            api.url("configmaps", "a"), {"preconditions": {"uid": uid, "resourceVersion": version}}
        )
    ).object()


async def test_delete_collection_takes_what_is_selected(api: Speaker) -> None:
    await api.configmap("a", labels={"x": "1"})
    await api.configmap("b", labels={"x": "2"})
    answer = (await api.delete(api.url("configmaps"), labelSelector="x=1")).object()
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a"]
    left = (await api.get(api.url("configmaps"), labelSelector="x")).object()
    assert [item["metadata"]["name"] for item in left["items"]] == ["b"]


async def test_metadata_is_validated_with_all_its_errors(api: Speaker, newest: bool) -> None:
    answer = await api.post(
        api.url("configmaps"),
        {"metadata": {"name": "a", "ownerReferences": [{"kind": "X", "name": "y"}]}},
    )
    owner = "metadata.ownerReferences"
    said = (
        (
            f"{owner}[0].apiVersion: Required value: must not be empty, {owner}[0].uid: Required "
            "value: must not be empty"
        )
        if newest
        else f'{owner}.apiVersion: Invalid value: "": version must not be empty, '
        f'{owner}.uid: Invalid value: "": must not be empty'
    )
    answer.refused(422, "Invalid", f'ConfigMap "a" is invalid: [{said}]')
    answer = await api.post(
        api.url("configmaps"), {"metadata": {"name": "a", "labels": {"x": "-y"}}}
    )
    assert [cause[:2] for cause in answer.causes()] == [("FieldValueInvalid", "metadata.labels")]


async def test_a_collection_of_all_namespaces_cannot_be_posted_to(api: Speaker) -> None:
    answer = await api.post("/apis/apps/v1/deployments", {"metadata": {"name": "a"}})
    answer.refused(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )
