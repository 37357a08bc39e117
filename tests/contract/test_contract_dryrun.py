"""Dry-run of every verb, delete options in bodies and queries, and updates that create."""

import pytest

from tests.contract.bodies import deployment
from tests.contract.speaking import JSON_PATCH, STRATEGIC, Object, Speaker

DRY = {"dryRun": "All"}


async def _version(api: Speaker, path: str) -> str:
    version: str = (await api.get(path)).object()["metadata"]["resourceVersion"]
    return version


async def test_a_dry_run_of_each_write_answers_and_keeps_nothing(api: Speaker) -> None:
    made = (await api.post(api.url("deployments"), deployment())).object(201)
    path, version = api.url("deployments", "web"), made["metadata"]["resourceVersion"]
    changed = {**made, "spec": {**made["spec"], "replicas": 9}}
    assert (await api.put(path, changed, **DRY)).object()["spec"]["replicas"] == 9
    patch = {"spec": {"replicas": 8}}
    assert (await api.patch(path, patch, **DRY)).object()["spec"]["replicas"] == 8
    assert (await api.patch(path, patch, STRATEGIC, **DRY)).object()["spec"]["replicas"] == 8
    step = [{"op": "replace", "path": "/spec/replicas", "value": 7}]
    assert (await api.patch(path, step, JSON_PATCH, **DRY)).object()["spec"]["replicas"] == 7
    applied = await api.apply(path, deployment(replicas=6), "x", force="true", **DRY)
    assert applied.object()["spec"]["replicas"] == 6
    scale = {"metadata": {"name": "web"}, "spec": {"replicas": 5}}
    assert (await api.put(f"{path}/scale", scale, **DRY)).object()["spec"]["replicas"] == 5
    status = {"status": {"replicas": 4}}
    assert (await api.patch(f"{path}/status", status, **DRY)).object()["status"]["replicas"] == 4
    assert (await api.delete(path, **DRY)).object()["status"] == "Success"
    (await api.delete(api.url("deployments"), **DRY)).object()
    assert await _version(api, path) == version


async def test_a_body_of_a_deletion_silences_its_query(api: Speaker) -> None:
    await api.configmap("a")
    body = {"apiVersion": "v1", "kind": "DeleteOptions"}
    (await api.delete(api.url("configmaps", "a"), body, **DRY)).object()
    assert (await api.get(api.url("configmaps", "a"))).status == 404


async def test_a_deletion_that_cascades_by_request_is_accepted_while_it_waits(api: Speaker) -> None:
    await api.configmap("a", finalizers=["example.com/hold"])
    answer = await api.delete(api.url("configmaps", "a"), {"orphanDependents": False})
    assert answer.status == 202
    assert answer.json["metadata"]["deletionTimestamp"]


async def test_the_pods_of_a_job_stay_by_default_and_that_is_said(api: Speaker) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}
    (
        await api.post(api.url("jobs"), {"metadata": {"name": "j"}, "spec": {"template": template}})
    ).object(201)
    answer = await api.delete(api.url("jobs", "j"))
    assert "child pods are preserved by default" in answer.headers["warning"]
    assert answer.object()["metadata"]["finalizers"] == ["orphan"]


@pytest.mark.parametrize("grace", ["x", "1.5"])
async def test_a_grace_that_is_no_number_is_a_bad_request(api: Speaker, grace: str) -> None:
    await api.configmap("a")
    answer = await api.delete(api.url("configmaps", "a"), gracePeriodSeconds=grace)
    answer.refused(400, "BadRequest", f'strconv.ParseInt: parsing "{grace}": invalid syntax')


async def test_some_kinds_are_created_by_a_replacement(api: Speaker) -> None:
    home = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases/l"
    lease: Object = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    assert (await api.put(home, lease)).object(201)["spec"]["holderIdentity"] == "me"
    answer = await api.put(home, lease)
    answer.refused(
        422,
        "Invalid",
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update",
    )
    (await api.put(api.url("configmaps", "c"), {"metadata": {"name": "c"}})).refused(
        404, "NotFound", 'configmaps "c" not found'
    )


async def test_a_refusal_carries_the_warnings_about_its_body(api: Speaker) -> None:
    answer = await api.put(api.url("configmaps", "a"), {"metadata": {"name": "a"}, "bogus": 1})
    assert answer.status == 404
    assert answer.headers["warning"] == '299 - "unknown field \\"bogus\\""'


async def test_a_method_or_form_that_is_not_served_is_refused(api: Speaker) -> None:
    answer = await api.post(api.url("configmaps", "a"), {})
    assert (answer.status, answer.json["reason"]) == (405, "MethodNotAllowed")
    answer = await api.get(api.url("configmaps"), accept="application/pdf")
    assert answer.status == 406
    answer = await api.patch(api.url("configmaps", "a"), {}, "application/json")
    assert answer.status == 415
    steps = [{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001
    await api.configmap("a")
    answer = await api.patch(api.url("configmaps", "a"), steps, JSON_PATCH)
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")
