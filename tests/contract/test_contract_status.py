"""The status sub-resource: what else a write to it changes, and which it refuses."""

import pytest

from tests.contract.bodies import deployment, owned_by
from tests.contract.crds import widget
from tests.contract.speaking import MERGE, STRATEGIC, Speaker

OTHER_UID = "11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize("media", [MERGE, STRATEGIC])
async def test_a_patch_of_a_status_for_another_uid_is_refused(api: Speaker, media: str) -> None:
    (await api.post(api.url("deployments"), deployment())).object(201)
    body = {"metadata": {"uid": OTHER_UID}, "status": {"replicas": 1}}
    answer = await api.patch(api.url("deployments", "web", "status"), body, media)
    assert answer.status == 422
    assert answer.json["message"].startswith(
        f'Deployment.apps "web" is invalid: metadata.uid: Invalid value: "{OTHER_UID}": '
        "field is immutable"
    )
    assert "replicas" not in (await api.get(api.url("deployments", "web"))).object()["status"]


async def test_a_replacement_of_a_status_for_another_uid_conflicts(api: Speaker) -> None:
    made = (await api.post(api.url("deployments"), deployment())).object(201)
    made["metadata"]["uid"] = OTHER_UID
    answer = await api.put(api.url("deployments", "web", "status"), made)
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert (
        f"Precondition failed: UID in precondition: {OTHER_UID}, UID in object meta: "
        in answer.json["message"]
    )


async def test_a_stale_version_in_a_patch_of_a_status_conflicts(api: Speaker) -> None:
    (await api.post(api.url("deployments"), deployment())).object(201)
    body = {"metadata": {"resourceVersion": "1"}, "status": {"replicas": 1}}
    answer = await api.patch(api.url("deployments", "web", "status"), body)
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")


async def test_a_status_of_a_deployment_brings_annotations_and_finalizers_but_no_labels(
    api: Speaker,
) -> None:
    (await api.post(api.url("deployments"), deployment())).object(201)
    metadata = {
        "labels": {"x": "y"},
        "annotations": {"x": "y"},
        "finalizers": ["contract.example/hold"],
    }
    path = api.url("deployments", "web", "status")
    changed = (await api.patch(path, {"metadata": metadata}, fieldManager="who")).object()[
        "metadata"
    ]
    assert changed["labels"] == {"app": "web"}
    assert (changed["annotations"], changed["finalizers"]) == (
        {"x": "y"},
        ["contract.example/hold"],
    )
    assert changed["generation"] == 1
    mine = owned_by({"metadata": changed}, "who", "Update", "status")["f:metadata"]
    assert mine == {
        "f:annotations": {".": {}, "f:x": {}},
        "f:finalizers": {".": {}, 'v:"contract.example/hold"': {}},
    }
    (await api.patch(api.url("deployments", "web"), {"metadata": {"finalizers": None}})).object()


async def test_a_status_of_a_pod_brings_labels_but_no_owners(api: Speaker) -> None:
    spec = {"schedulerName": "nobody", "containers": [{"name": "app", "image": "busybox"}]}
    (await api.post(api.url("pods"), {"metadata": {"name": "p"}, "spec": spec})).object(201)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": OTHER_UID}
    metadata = {"labels": {"x": "y"}, "ownerReferences": [owner]}
    changed = (await api.patch(api.url("pods", "p", "status"), {"metadata": metadata})).object()[
        "metadata"
    ]
    assert changed["labels"] == {"x": "y"}
    assert "ownerReferences" not in changed


async def test_a_status_of_a_custom_resource_brings_no_metadata(widgets: Speaker) -> None:
    made = (await widgets.post(widgets.url("widgets"), widget("w"))).object(201)["metadata"]
    metadata = {"uid": OTHER_UID, "labels": {"x": "y"}, "finalizers": ["contract.example/hold"]}
    path = widgets.url("widgets", "w", "status")
    changed = (await widgets.patch(path, {"metadata": metadata})).object()["metadata"]
    assert changed == made
    applied = {**widget("w"), "metadata": {"name": "other"}}
    answer = await widgets.apply(path, applied, "one")
    answer.refused(
        400, "BadRequest", "the name of the object (other) does not match the name on the URL (w)"
    )
    answer = await widgets.apply(
        path, {**widget("w"), "metadata": {"name": "w", "resourceVersion": "1"}}, "one"
    )
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
