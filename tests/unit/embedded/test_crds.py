"""What a CustomResourceDefinition brings: resources, status, published schema; and that our own are
sound.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.embedded.catalogue import crds
from federator.embedded.rest import validation
from federator.embedded.schema import builtins, defaults, openapi, pruning
from tests.unit.embedded.inprocess import cluster, on_virtual_time, speaker

OWN = sorted((Path(__file__).parents[3] / "config" / "crd").glob("*.pinterest.com.yaml"))
DEFINITIONS = builtins.info("apiextensions.k8s.io", "customresourcedefinitions")


def _crd(**version: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {
                "plural": "things",
                "kind": "Thing",
                "shortNames": ["th"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_our_own_definitions_are_accepted_strictly(path: Path) -> None:
    pruned = pruning.prune(yaml.load(path.read_text(), Loader=yaml.CSafeLoader), DEFINITIONS)
    assert pruned.unknown == []
    defaults.fill(pruned.obj, DEFINITIONS)
    assert validation.check(pruned.obj, None, DEFINITIONS) == []
    for info in crds.resource_infos(pruned.obj):
        assert info.node.fields["spec"].raw["type"] == "object"


def test_a_definition_may_keep_the_finalizer_that_its_own_server_puts_on_it() -> None:
    crd = _crd()
    defaults.fill(crd, DEFINITIONS)
    crd["metadata"]["finalizers"] = ["customresourcecleanup.apiextensions.k8s.io"]
    assert validation.check(crd, None, DEFINITIONS) == []


def test_resource_has_what_the_definition_says() -> None:
    crd = _crd(
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
        },
        additionalPrinterColumns=[
            {"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1}
        ],
    )
    defaults.fill(crd, DEFINITIONS)
    (info,) = crds.resource_infos(crd)
    assert (info.plural, info.singular, info.list_kind, info.short_names) == (
        "things",
        "thing",
        "ThingList",
        ("th",),
    )
    assert sorted(info.subresources) == ["scale", "status"]
    assert info.subresources["scale"].group == "autoscaling"
    assert info.scale is not None
    assert info.scale.spec == ".spec.n"
    assert [(column.name, column.priority) for column in info.printer_columns] == [("N", 1)]


def test_resource_without_columns_shows_its_age() -> None:
    (info,) = crds.resource_infos(_crd())
    assert [column.name for column in info.printer_columns] == ["Age"]


def test_version_that_is_not_served_is_no_resource() -> None:
    assert crds.resource_infos(_crd(served=False)) == []


def test_established_status_keeps_its_times_and_its_stored_versions() -> None:
    crd = _crd()
    crd["status"] = crds.established_status(crd, "then")
    assert crds.is_established(crd)
    crd["spec"]["versions"] = [{**crd["spec"]["versions"][0], "name": "v2"}]
    again = crds.established_status(crd, "now")
    assert {condition["lastTransitionTime"] for condition in again["conditions"]} == {"then"}
    assert again["storedVersions"] == ["v1", "v2"]


def test_equal_schemas_are_parsed_once_for_the_whole_process() -> None:
    first, second = _crd(), json.loads(json.dumps(_crd()))
    assert crds.resource_infos(first)[0].node is crds.resource_infos(second)[0].node
    crds.share_schemas(first)
    crds.share_schemas(second)
    schemas = [crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in (first, second)]
    assert schemas[0] is schemas[1]


def test_published_schema_refers_to_object_metadata() -> None:
    (info,) = crds.resource_infos(_crd())
    document = json.loads(openapi.document([info]))
    schema = document["components"]["schemas"]["org.example.v1.Thing"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "example.org", "kind": "Thing", "version": "v1"}
    ]
    assert schema["properties"]["metadata"]["allOf"][0]["$ref"].endswith("ObjectMeta")
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in document["components"]["schemas"]


def test_patch_of_custom_resources_is_not_offered_strategically() -> None:
    """kubectl sends a strategic patch wherever a document lists it, and custom resources
    refuse it.
    """
    (info,) = crds.resource_infos(_crd())
    custom = json.loads(openapi.document([info]))["paths"][
        "/apis/example.org/v1/namespaces/{namespace}/things/{name}"
    ]
    assert "application/strategic-merge-patch+json" not in custom["patch"]["requestBody"]["content"]
    apps = json.loads(openapi.document([builtins.info("apps", "deployments")]))
    builtin = apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    assert "application/strategic-merge-patch+json" in builtin["patch"]["requestBody"]["content"]


def test_index_address_changes_with_the_schema_only() -> None:
    def address(crd: dict[str, Any]) -> str:
        index = openapi.index([*crds.resource_infos(crd), *builtins.resource_infos()])
        return str(index["paths"]["apis/example.org/v1"]["serverRelativeURL"])

    crd = _crd()
    assert address(crd) == address(json.loads(json.dumps(crd)))
    other = json.loads(json.dumps(crd))
    other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "description"
    ] = "new"
    assert address(other) != address(crd)


DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@on_virtual_time
async def test_servers_share_the_schema_of_equal_definitions_and_nothing_else() -> None:
    body = _crd()
    one, other = cluster(), cluster()
    created = (await speaker(one).post(DEFINITIONS_PATH, body)).object(201)
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"names": {"shortNames": ["x"]}}}
    (await speaker(one).patch(f"{DEFINITIONS_PATH}/things.example.org", patch)).object()
    assert (await speaker(other).post(DEFINITIONS_PATH, body)).object(201) == created
    first, second = (
        server.store.get(server.registry.crd, "", "things.example.org") for server in (one, other)
    )
    assert first is not None
    assert second is not None
    schemas = [
        stored.obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for stored in (first, second)
    ]
    assert schemas[0] is schemas[1]
    assert first.obj["spec"]["names"]["shortNames"] == ["x"]
    assert second.obj["spec"]["names"]["shortNames"] == ["th"]
    assert "labels" not in second.obj["metadata"]


@on_virtual_time
async def test_a_definition_with_another_schema_gets_its_own() -> None:
    """Also when its body was read once before with other options."""
    narrow = _crd()
    narrow["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "a"
    ]["enum"] = ["x"]
    thing = {
        "apiVersion": "example.org/v1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        "spec": {"a": "y"},
    }
    for crd, status in ((_crd(), 201), (narrow, 422), (_crd(), 201)):
        api = speaker()
        (await api.post(DEFINITIONS_PATH, crd)).object(201)
        things = "/apis/example.org/v1/namespaces/default/things"
        assert (await api.post(things, thing)).status == status


@on_virtual_time
async def test_field_validation_of_a_definition_holds_for_each_request() -> None:
    crd = _crd()
    crd["spec"]["unknown"] = 1
    assert (await speaker().post(DEFINITIONS_PATH, crd)).status == 201
    for _ in range(2):
        answer = await speaker().post(DEFINITIONS_PATH, crd, fieldValidation="Strict")
        assert answer.status == 400


def test_every_reference_of_a_document_is_in_it() -> None:
    for group, version in {(info.group, info.version) for info in builtins.resource_infos()}:
        members = [
            info
            for info in builtins.resource_infos()
            if (info.group, info.version) == (group, version)
        ]
        text = openapi.document(members).decode()
        schemas = json.loads(text)["components"]["schemas"]
        names = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
        assert names <= schemas.keys()
