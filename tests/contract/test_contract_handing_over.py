"""Objects that are created first and applied later, as member processes write natives: what the
create owned by Update is handed over to Apply by writing managedFields, so that the apply removes
what it no longer names.
"""

from typing import Any

from federator.model.kubernetes import owned_fields
from tests.contract.bodies import containers, deployment, owned_by, owners
from tests.contract.speaking import Answer, Object, Speaker

ONE = "one"


async def _hand_over(api: Speaker, path: str, live: Object, **meta: Any) -> Answer:
    """What is sent before the first apply."""
    entries = owned_fields.handed_over(live["metadata"], ONE)
    assert entries is not None
    version = live["metadata"]["resourceVersion"]
    body = {"metadata": {"managedFields": entries, "resourceVersion": version, **meta}}
    return await api.patch(path, body, fieldManager=ONE)


def _web(env: list[Object], **spec: Any) -> Object:
    body = deployment(**spec)
    body["spec"]["template"]["spec"]["containers"][0]["env"] = env
    return body


async def test_without_handing_over_an_apply_leaves_what_a_create_set(api: Speaker) -> None:
    path = api.url("configmaps", "a")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    await api.post(api.url("configmaps"), {**body, "data": {"k": "1", "l": "2"}}, fieldManager=ONE)
    left = (await api.apply(path, {**body, "data": {"k": "1"}}, ONE, force="true")).object()
    assert left["data"] == {"k": "1", "l": "2"}
    assert sorted(owners(left)) == [(ONE, "Apply", ""), (ONE, "Update", "")]


async def test_after_handing_over_an_apply_removes_what_it_no_longer_names(api: Speaker) -> None:
    path = api.url("deployments", "web")
    both = [{"name": "KEPT", "value": "1"}, {"name": "DROPPED", "value": "2"}]
    made = (await api.post(api.url("deployments"), _web(both), fieldManager=ONE)).object(201)
    assert owners(made) == [(ONE, "Update", "")]
    handed = (await _hand_over(api, path, made)).object()
    assert owners(handed) == [(ONE, "Apply", "")]
    assert handed["metadata"]["generation"] == made["metadata"]["generation"]
    assert handed["spec"] == made["spec"]
    applied = (await api.apply(path, _web(both[:1]), ONE, force="true")).object()
    found = applied["spec"]["template"]["spec"]["containers"][0]
    assert found["env"] == both[:1]
    assert owners(applied) == [(ONE, "Apply", "")]
    # What it owned of the server's defaults is set again as it was.
    template = made["spec"]["template"]
    template["spec"]["containers"][0]["env"] = both[:1]
    assert applied["spec"] == {**made["spec"], "template": template}
    assert "f:strategy" not in owned_by(applied, ONE)["f:spec"]


async def test_an_apply_of_the_same_after_handing_over_changes_no_spec(api: Speaker) -> None:
    path = api.url("services", "web")
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]},
    }
    made = (await api.post(api.url("services"), body, fieldManager=ONE)).object(201)
    await _hand_over(api, path, made)
    applied = (await api.apply(path, body, ONE, force="true")).object()
    assert applied["spec"] == made["spec"]
    assert owners(applied) == [(ONE, "Apply", "")]


async def test_handing_over_leaves_fields_of_others_to_them(api: Speaker) -> None:
    path = api.url("deployments", "web")
    await api.post(api.url("deployments"), _web([]), fieldManager=ONE)
    await api.patch(path, {"spec": {"replicas": 7}}, fieldManager="two")
    sidecar = {"name": "mesh", "image": "registry/mesh:1"}
    body = {"spec": {"template": {"spec": {"containers": [sidecar]}}}}
    strategic = "application/strategic-merge-patch+json"
    live = (await api.patch(path, body, strategic, fieldManager="two")).object()
    handed = (await _hand_over(api, path, live)).object()
    assert sorted(owners(handed)) == [(ONE, "Apply", ""), ("two", "Update", "")]
    applied = (await api.apply(path, _web([], replicas=None), ONE, force="true")).object()
    assert applied["spec"]["replicas"] == 7
    assert sorted(containers(applied)) == [("app", "registry/app:1"), ("mesh", "registry/mesh:1")]


async def test_handing_over_an_older_state_is_refused(api: Speaker) -> None:
    path = api.url("configmaps", "a")
    body = {"metadata": {"name": "a"}, "data": {"k": "1"}}
    made = (await api.post(api.url("configmaps"), body, fieldManager=ONE)).object(201)
    await api.patch(path, {"data": {"l": "2"}}, fieldManager="two")
    answer = await _hand_over(api, path, made)
    assert answer.status == 409
    assert answer.json["reason"] == "Conflict"


async def test_an_apply_that_names_a_uid_leaves_another_object_of_the_name_alone(
    api: Speaker,
) -> None:
    path = api.url("configmaps", "a")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    compared = (await api.post(api.url("configmaps"), body, fieldManager=ONE)).object(201)
    (await api.delete(path)).object()
    theirs = {**body, "data": {"theirs": "1"}}
    other = (await api.post(api.url("configmaps"), theirs, fieldManager="two")).object(201)
    uid = compared["metadata"]["uid"]
    assert other["metadata"]["uid"] != uid
    named = {**body, "metadata": {"name": "a", "uid": uid}}
    answer = await api.apply(path, named, ONE, force="true")
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert answer.json["message"].startswith(
        f'ConfigMap "a" is invalid: metadata.uid: Invalid value: "{uid}": field is immutable'
    )
    assert (await api.get(path)).object() == other


async def test_an_apply_that_names_a_uid_creates_no_object(api: Speaker) -> None:
    path = api.url("configmaps", "a")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    compared = (await api.post(api.url("configmaps"), body, fieldManager=ONE)).object(201)
    (await api.delete(path)).object()
    uid = compared["metadata"]["uid"]
    named = {**body, "metadata": {"name": "a", "uid": uid}}
    (await api.apply(path, named, ONE, force="true")).refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object '
        f"specified uid {uid}, and no existing object was found",
    )
    assert (await api.get(path)).status == 404


async def test_handing_over_another_object_of_the_name_is_refused(api: Speaker) -> None:
    path = api.url("configmaps", "a")
    body = {"metadata": {"name": "a"}, "data": {"k": "1"}}
    compared = (await api.post(api.url("configmaps"), body, fieldManager=ONE)).object(201)
    (await api.delete(path)).object()
    other = (await api.post(api.url("configmaps"), body, fieldManager="two")).object(201)
    answer = await _hand_over(api, path, compared, uid=compared["metadata"]["uid"])
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert (await api.get(path)).object() == other
