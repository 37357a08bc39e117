"""Server-side apply: ownership of fields, conflicts, giving up, and what is refused."""

import pytest

from tests.contract.bodies import containers, deployment, owned_by, owners
from tests.contract.crds import widget
from tests.contract.speaking import Object, Speaker


def configmap(**fields: object) -> Object:
    metadata: Object = {"name": "a"}
    metadata.update(fields.pop("metadata", {}))  # type: ignore[call-overload]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


async def test_apply_creates_and_owns_exactly_what_was_sent(api: Speaker) -> None:
    made = (await api.apply(api.url("deployments", "web"), deployment(), "one")).object(201)
    assert owners(made) == [("one", "Apply", "")]
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("apps/v1", "FieldsV1")
    assert entry["fieldsV1"] == {
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {
                    "f:containers": {'k:{"name":"app"}': {".": {}, "f:image": {}, "f:name": {}}}
                },
            },
        },
    }


async def test_applying_the_same_again_changes_nothing(api: Speaker) -> None:
    made = (await api.apply(api.url("deployments", "web"), deployment(), "one")).object(201)
    again = (await api.apply(api.url("deployments", "web"), deployment(), "one")).object(200)
    assert again == made


async def test_another_manager_with_another_value_conflicts(api: Speaker) -> None:
    path = api.url("deployments", "web")
    await api.apply(path, deployment(), "one")
    answer = await api.apply(path, deployment(replicas=5), "two")
    answer.refused(
        409, "Conflict", 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
    )
    assert answer.causes() == [("FieldManagerConflict", ".spec.replicas", 'conflict with "one"')]
    answer = await api.apply(path, deployment(replicas=5, image="other:1"), "two")
    answer.refused(
        409,
        "Conflict",
        'Apply failed with 2 conflicts: conflicts with "one":\n'
        "- .spec.replicas\n"
        '- .spec.template.spec.containers[name="app"].image',
    )


async def test_the_same_value_is_shared_without_conflict(api: Speaker) -> None:
    path = api.url("deployments", "web")
    await api.apply(path, deployment(), "one")
    shared = (await api.apply(path, deployment(), "two")).object()
    assert sorted(owners(shared)) == [("one", "Apply", ""), ("two", "Apply", "")]


async def test_force_takes_the_field_from_the_other(api: Speaker) -> None:
    path = api.url("deployments", "web")
    await api.apply(path, deployment(), "one")
    forced = (await api.apply(path, deployment(replicas=5), "two", force="true")).object()
    assert forced["spec"]["replicas"] == 5
    assert "f:replicas" not in owned_by(forced, "one")["f:spec"]
    assert owned_by(forced, "two")["f:spec"]["f:replicas"] == {}


async def test_a_field_given_up_by_its_last_owner_goes(api: Speaker) -> None:
    path = api.url("configmaps", "a")
    await api.apply(path, configmap(data={"k": "1", "l": "2"}), "one")
    left = (await api.apply(path, configmap(data={"k": "1"}), "one")).object()
    assert left["data"] == {"k": "1"}


async def test_a_field_given_up_stays_while_another_owns_it(api: Speaker) -> None:
    path = api.url("configmaps", "a")
    await api.apply(path, configmap(data={"k": "1"}), "one")
    await api.apply(path, configmap(data={"k": "1"}), "two")
    kept = (await api.apply(path, configmap(), "one")).object()
    assert kept["data"] == {"k": "1"}
    assert owners(kept) == [("two", "Apply", "")]


async def test_a_defaulted_field_returns_to_its_default(api: Speaker) -> None:
    path = api.url("deployments", "web")
    await api.apply(path, deployment(replicas=4), "one")
    back = (await api.apply(path, deployment(replicas=None), "one")).object()
    assert back["spec"]["replicas"] == 1


async def test_list_items_are_owned_by_their_key(api: Speaker) -> None:
    path = api.url("deployments", "web")
    await api.apply(path, deployment(), "one")
    body = deployment(replicas=None)
    del body["spec"]["selector"], body["metadata"]["labels"], body["spec"]["template"]["metadata"]
    body["spec"]["template"]["spec"]["containers"] = [{"name": "side", "image": "side:1"}]
    both = (await api.apply(path, body, "two")).object()
    assert containers(both) == [("app", "registry/app:1"), ("side", "side:1")]
    body["spec"]["template"]["spec"]["containers"] = []
    one = (await api.apply(path, body, "two")).object()
    assert containers(one) == [("app", "registry/app:1")]


async def test_an_update_takes_over_and_its_manager_conflicts_by_version(api: Speaker) -> None:
    path = api.url("deployments", "web")
    await api.apply(path, deployment(), "one")
    changed = (await api.patch(path, {"spec": {"replicas": 7}}, fieldManager="three")).object()
    assert owners(changed) == [("one", "Apply", ""), ("three", "Update", "")]
    answer = await api.apply(path, deployment(), "one")
    answer.refused(
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "three" using apps/v1: .spec.replicas',
    )


async def test_owner_references_and_finalizers_are_merged_by_item(api: Speaker) -> None:
    path = api.url("configmaps", "a")
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1-1"}
    body = configmap(metadata={"finalizers": ["contract.example/a"], "ownerReferences": [owner]})
    made = (await api.apply(path, body, "one")).object(201)
    assert owned_by(made, "one") == {
        "f:metadata": {
            "f:finalizers": {'v:"contract.example/a"': {}},
            "f:ownerReferences": {'k:{"uid":"1-1"}': {}},
        }
    }
    more = configmap(metadata={"finalizers": ["contract.example/b"]})
    both = (await api.apply(path, more, "two")).object()
    assert sorted(both["metadata"]["finalizers"]) == ["contract.example/a", "contract.example/b"]
    less = (await api.apply(path, configmap(), "one")).object()
    assert less["metadata"]["finalizers"] == ["contract.example/b"]
    assert "ownerReferences" not in less["metadata"]
    await api.apply(path, configmap(), "two")


async def test_a_dry_run_of_apply_keeps_nothing(api: Speaker) -> None:
    path = api.url("configmaps", "a")
    made = (await api.apply(path, configmap(data={"k": "1"}), "one", dryRun="All")).object(201)
    assert owned_by(made, "one") == {"f:data": {"f:k": {}}}
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize("listing", [[], [{}]])
async def test_empty_managed_fields_in_an_update_clear_them(
    api: Speaker, listing: list[Object]
) -> None:
    path = api.url("configmaps", "a")
    await api.apply(path, configmap(data={"k": "1"}), "one")
    body = configmap(data={"k": "1"}, metadata={"managedFields": listing})
    assert owners((await api.put(path, body, fieldManager="two")).object()) == []


async def test_what_apply_refuses(api: Speaker) -> None:
    path = api.url("deployments", "web")
    (await api.apply(path, deployment(), "one")).object(201)
    body = {"apiVersion": "apps/v1", "kind": "Deployment"}
    answer = await api.patch(path, deployment(), "application/apply-patch+yaml")
    answer.refused(
        422,
        "Invalid",
        (
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required '
            "for apply patch"
        ),
    )
    answer = await api.patch(path, {}, fieldManager="x", force="true")
    answer.refused(
        422,
        "Invalid",
        (
            'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for '
            "non-apply patch"
        ),
    )
    answer = await api.apply(path, {**body, "metadata": {"managedFields": [{}]}}, "x")
    answer.refused(400, "BadRequest", "metadata.managedFields must be nil")
    answer = await api.apply(path, {"kind": "Deployment"}, "x")
    answer.refused(400, "BadRequest", "invalid object type: /, Kind=Deployment")
    answer = await api.apply(path, {**body, "metadata": {"name": "other"}}, "x")
    answer.refused(
        400, "BadRequest", "the name of the object (other) does not match the name on the URL (web)"
    )
    answer = await api.apply(path, {**body, "spec": {"bogus": 1}}, "x")
    answer.refused(
        500,
        None,
        (
            "failed to create typed patch object (/; apps/v1, Kind=Deployment): .spec.bogus: "
            "field not declared in schema"
        ),
    )
    answer = await api.apply(path, {**body, "spec": {"replicas": "many"}}, "x")
    answer.refused(
        500,
        None,
        "failed to create typed patch object (/; apps/v1, Kind=Deployment): "
        ".spec.replicas: expected numeric (int or float), got string",
    )
    twice = {"template": {"spec": {"containers": [{"name": "q"}, {"name": "q"}]}}}
    answer = await api.apply(path, {**body, "spec": twice}, "x")
    answer.refused(
        500,
        None,
        "failed to create typed patch object (/; apps/v1, Kind=Deployment): "
        '.spec.template.spec.containers: duplicate entries for key [name="q"]',
    )


async def test_apply_reads_yaml(api: Speaker) -> None:
    body = b'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: "1"\n'
    made = (
        await api.patch(
            api.url("configmaps", "a"), body, "application/apply-patch+yaml", fieldManager="one"
        )
    ).object(201)
    assert made["data"] == {"k": "1"}


async def test_custom_resources_merge_maps_and_sets(widgets: Speaker) -> None:
    path = widgets.url("widgets", "a")
    first = widget("a", tags=["x"], ports=[{"name": "p", "port": 1}])
    made = (await widgets.apply(path, first, "one")).object(201)
    assert owned_by(made, "one") == {
        "f:spec": {
            "f:color": {},
            "f:ports": {'k:{"name":"p"}': {".": {}, "f:name": {}, "f:port": {}}},
            "f:tags": {'v:"x"': {}},
        }
    }
    second = widget("a", tags=["y"], ports=[{"name": "q", "port": 2}])
    both = (await widgets.apply(path, second, "two")).object()
    assert both["spec"]["tags"] == ["x", "y"]
    assert [port["name"] for port in both["spec"]["ports"]] == ["p", "q"]
    third = widget("a", color="green", ports=[{"name": "p", "port": 9}])
    answer = await widgets.apply(path, third, "three")
    assert answer.status == 409
    assert sorted(answer.causes()) == [
        ("FieldManagerConflict", ".spec.color", 'conflict with "one"'),
        ("FieldManagerConflict", ".spec.color", 'conflict with "two"'),
        ("FieldManagerConflict", '.spec.ports[name="p"].port', 'conflict with "one"'),
    ]
    answer = await widgets.apply(path, widget("a", bogus=1), "one")
    answer.refused(
        500,
        None,
        "failed to create typed patch object (/a; contract.example/v1, Kind=Widget): "
        ".spec.bogus: field not declared in schema",
    )


async def test_status_is_applied_apart_from_the_spec(widgets: Speaker) -> None:
    path = widgets.url("widgets", "a")
    await widgets.apply(path, widget("a"), "one")
    body = {**widget("a"), "status": {"replicas": 2}}
    del body["spec"]
    changed = (await widgets.apply(f"{path}/status", body, "reporter")).object()
    assert changed["status"] == {"replicas": 2}
    assert ("reporter", "Apply", "status") in owners(changed)
    assert owned_by(changed, "reporter", subresource="status") == {"f:status": {"f:replicas": {}}}
