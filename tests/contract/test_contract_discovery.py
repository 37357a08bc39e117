"""Discovery, versions, health, OpenAPI and reviews of access: what kubectl asks before it does
anything.
"""

import asyncio

import pytest

from tests.contract.speaking import GROUP, Speaker

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_version_and_health(api: Speaker) -> None:
    version = (await api.get("/version")).object()
    assert version["major"] == "1"
    assert version["gitVersion"].startswith(f"v1.{version['minor']}.")
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await api.get(path)
        assert (answer.status, answer.body) == (200, b"ok")
        assert answer.headers["content-type"].startswith("text/plain")


async def test_core_versions(api: Speaker) -> None:
    found = (await api.get("/api")).object()
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


async def test_groups_are_listed(widgets: Speaker) -> None:
    groups = (await widgets.get("/apis")).object()
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    by_name = {group["name"]: group for group in groups["groups"]}
    assert {"apps", "batch", "networking.k8s.io", "apiextensions.k8s.io", GROUP} <= by_name.keys()
    assert by_name["apps"]["versions"] == [{"groupVersion": "apps/v1", "version": "v1"}]
    assert by_name[GROUP]["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}


async def test_resources_of_a_group_are_listed(api: Speaker) -> None:
    found = (await api.get("/apis/apps/v1")).object()
    assert (found["kind"], found["apiVersion"], found["groupVersion"]) == (
        "APIResourceList",
        "v1",
        "apps/v1",
    )
    by_name = {each["name"]: each for each in found["resources"]}
    deployments = by_name["deployments"]
    del deployments["storageVersionHash"]
    assert deployments == {
        "name": "deployments",
        "singularName": "deployment",
        "namespaced": True,
        "kind": "Deployment",
        "verbs": [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        "shortNames": ["deploy"],
        "categories": ["all"],
    }
    assert by_name["deployments/status"]["verbs"] == ["get", "patch", "update"]
    scale = by_name["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


async def test_custom_resources_are_discovered(widgets: Speaker) -> None:
    found = (await widgets.get(f"/apis/{GROUP}/v1")).object()
    by_name = {each["name"]: each for each in found["resources"]}
    assert by_name.keys() == {"widgets", "widgets/status", "widgets/scale"}
    assert by_name["widgets"]["shortNames"] == ["wix"]
    assert by_name["widgets"]["verbs"] == [
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch",
    ]


async def test_aggregated_discovery_has_everything_in_two_answers(widgets: Speaker) -> None:
    core = await widgets.get("/api", accept=AGGREGATED)
    assert core.headers["content-type"] == AGGREGATED
    found = core.object()
    assert (found["kind"], found["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    (version,) = found["items"][0]["versions"]
    pods = next(each for each in version["resources"] if each["resource"] == "pods")
    assert pods["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    assert (pods["scope"], pods["singularResource"], pods["shortNames"]) == (
        "Namespaced",
        "pod",
        ["po"],
    )
    assert {each["subresource"] for each in pods["subresources"]} >= {"status", "binding", "log"}

    async with asyncio.timeout(60):
        while True:  # a real server needs a moment to aggregate a new group
            groups = {
                each["metadata"]["name"]: each
                for each in (await widgets.get("/apis", accept=AGGREGATED)).object()["items"]
            }
            if GROUP in groups:
                break
            await asyncio.sleep(0.1)
    (version,) = groups[GROUP]["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    (resource,) = version["resources"]
    assert resource["responseKind"] == {"group": GROUP, "version": "v1", "kind": "Widget"}
    assert {each["subresource"] for each in resource["subresources"]} == {"status", "scale"}


async def test_openapi_has_an_index_and_a_document_per_version(widgets: Speaker) -> None:
    async with asyncio.timeout(60):
        while True:  # published in the background
            paths = (await widgets.get("/openapi/v3")).object()["paths"]
            if f"apis/{GROUP}/v1" in paths:
                break
            await asyncio.sleep(0.1)
    assert {"api/v1", "apis/apps/v1"} <= paths.keys()
    url, _, query = paths[f"apis/{GROUP}/v1"]["serverRelativeURL"].partition("?")
    assert url == f"/openapi/v3/apis/{GROUP}/v1"
    document = (await widgets.get(url, hash=query.partition("=")[2])).object()
    assert document["openapi"] == "3.0.0"
    schema = document["components"]["schemas"]["example.contract.v1.Widget"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": GROUP, "kind": "Widget", "version": "v1"}
    ]
    assert schema["properties"]["spec"]["properties"]["color"]["description"] == "Its color."


async def test_openapi_of_natives_carries_merge_keys(api: Speaker) -> None:
    document = (await api.get("/openapi/v3/apis/apps/v1")).object()
    containers = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"][
        "containers"
    ]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]


@pytest.mark.parametrize("namespace", ["", "default"])
async def test_an_administrator_may(api: Speaker, namespace: str) -> None:
    attributes = {
        "verb": "create",
        "group": "apps",
        "resource": "deployments",
        "namespace": namespace,
    }
    answer = await api.post(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        },
    )
    review = answer.object(201)
    assert review["kind"] == "SelfSubjectAccessReview"
    assert review["status"]["allowed"] is True


async def test_reviews_cannot_be_read(api: Speaker) -> None:
    answer = await api.get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    answer.refused(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


async def test_who_am_i(api: Speaker) -> None:
    review = (await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})).object(201)
    assert review["status"]["userInfo"]["username"]
    assert "system:authenticated" in review["status"]["userInfo"]["groups"]
