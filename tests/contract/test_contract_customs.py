"""Custom resources: becoming served, schemas, pruning, defaults, rules, status and scale."""

import asyncio

import pytest

from tests.contract.crds import DEFINITIONS, definition, until_served, widget
from tests.contract.speaking import GROUP, Object, Speaker

NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object "
    "was invalid; "
    "correct the existing errors to complete validation"
)


def invalid(*problems: str, name: str = "a") -> str:
    listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return f'Widget.{GROUP} "{name}" is invalid: {listed}'


async def create(api: Speaker, name: str = "a", **spec: object) -> Object:
    return (await api.post(api.url("widgets"), widget(name, **spec))).object(201)


async def test_a_definition_becomes_established_and_served_and_goes(api: Speaker) -> None:
    plural, group = "gadgets", f"{api.namespace}.example"
    body = definition(plural, "Gadget", group)
    made = (await api.post(DEFINITIONS, body)).object(201)
    assert made["spec"]["names"]["listKind"] == "GadgetList"
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["metadata"]["generation"] == 1
    await until_served(api, plural, group)
    live = (await api.get(f"{DEFINITIONS}/{plural}.{group}")).object()
    conditions = {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in live["status"]["conditions"]
    }
    assert conditions["NamesAccepted"] == ("True", "NoConflicts", "no conflicts found")
    assert conditions["Established"] == (
        "True",
        "InitialNamesAccepted",
        "the initial names have been accepted",
    )
    assert live["status"]["acceptedNames"]["plural"] == plural
    assert live["status"]["storedVersions"] == ["v1"]
    item = {
        "apiVersion": f"{group}/v1",
        "kind": "Gadget",
        "metadata": {"name": "g"},
        "spec": {"color": "red"},
    }
    (await api.post(f"/apis/{group}/v1/namespaces/{api.namespace}/{plural}", item)).object(201)
    (await api.delete(f"{DEFINITIONS}/{plural}.{group}")).object()
    async with asyncio.timeout(60):
        while (await api.get(f"{DEFINITIONS}/{plural}.{group}")).status != 404:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        while (  # noqa: ASYNC110
            await api.get(f"/apis/{group}/v1/namespaces/{api.namespace}/{plural}")
        ).status != 404:
            await asyncio.sleep(0.05)


async def test_a_definition_must_be_named_and_structural(api: Speaker) -> None:
    body = definition("thingies", "Thingy", f"{api.namespace}.example")
    body["metadata"]["name"] = "bad.example"
    answer = await api.post(DEFINITIONS, body)
    answer.refused(
        422,
        "Invalid",
        'CustomResourceDefinition.apiextensions.k8s.io "bad.example" is invalid: '
        "metadata.name: Invalid value: "
        '"bad.example": must be spec.names.plural+"."+spec.group',
    )
    body = definition("thingies", "Thingy", f"{api.namespace}.example")
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["x"] = {
        "anyOf": [{"type": "string"}]
    }
    answer = await api.post(DEFINITIONS, body)
    assert answer.status == 422
    assert answer.causes() == [
        (
            "FieldValueForbidden",
            "spec.validation.openAPIV3Schema.properties[x].anyOf[0].type",
            "Forbidden: must be empty to be structural",
        ),
        (
            "FieldValueRequired",
            "spec.validation.openAPIV3Schema.properties[x].type",
            "Required value: must not be empty for specified object fields",
        ),
    ]


async def test_a_group_that_is_not_served_is_a_plain_404(api: Speaker) -> None:
    answer = await api.get(f"/apis/none.example/v1/namespaces/{api.namespace}/widgets")
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


async def test_defaults_are_filled_in(widgets: Speaker) -> None:
    made = await create(widgets)
    assert made["spec"] == {
        "color": "red",
        "replicas": 1,
        "seq": 0,
        "perhaps": "set",
        "nested": {"deep": "x"},
    }
    assert made["metadata"]["generation"] == 1


async def test_unknown_fields_are_pruned_and_free_ones_kept(widgets: Speaker) -> None:
    body = widget("a", bogus=1, nested={"other": 1}, free={"k": [1, {"z": 2}]}, amount="5")
    answer = await widgets.post(widgets.url("widgets"), body)
    spec = answer.object(201)["spec"]
    assert spec["nested"] == {"deep": "x"}
    assert spec["free"] == {"k": [1, {"z": 2}]}
    assert spec["amount"] == "5"
    assert "bogus" not in spec
    assert 'unknown field \\"spec.nested.other\\"' in answer.headers["warning"]


async def test_null_is_kept_where_nullable_and_dropped_elsewhere(widgets: Speaker) -> None:
    spec = (await create(widgets, perhaps=None, note=None))["spec"]
    assert spec["perhaps"] is None
    assert "note" not in spec


async def test_strict_names_every_unknown_field(widgets: Speaker) -> None:
    body = widget("a", bogus=1, nested={"other": 1})
    answer = await widgets.post(widgets.url("widgets"), body, fieldValidation="Strict")
    answer.refused(
        400,
        "BadRequest",
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'unknown field "spec.bogus", unknown field "spec.nested.other"',
    )


async def test_patterns_and_bounds_leave_the_rules_to_be_checked_too(widgets: Speaker) -> None:
    answer = await widgets.post(widgets.url("widgets"), widget("a", note="NO"))
    problem = "spec.note: Invalid value: \"NO\": spec.note in body should match '^[a-z]*$'"
    answer.refused(422, "Invalid", invalid(problem))
    answer = await widgets.post(
        widgets.url("widgets"), widget("a", replicas=200, ports=[{"name": "p", "port": 0}])
    )
    low = (
        "spec.ports[0].port: Invalid value: 0: spec.ports[0].port in body should be greater than "
        "or equal to 1"
    )
    answer.refused(422, "Invalid", invalid(low, "spec.replicas: Forbidden: red is limited to 100"))


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"color": "blue"},
            'spec.color: Unsupported value: "blue": supported values: "red", "green"',
        ),
        ({"note": "x" * 11}, "spec.note: Too long: may not be more than 10 bytes"),
        (
            {"when": "then"},
            'spec.when: Invalid value: "then": spec.when in body must be of type date-time: "then"',
        ),
        (
            {"texts": {"k": 1}},
            (
                'spec.texts.k: Invalid value: "integer": spec.texts.k in body must be of type '
                'string: "integer"'
            ),
        ),
        ({"ports": [{"port": 1}]}, "spec.ports[0].name: Required value"),
        (
            {"ports": [{"name": n} for n in "abcd"]},
            "spec.ports: Too many: 4: must have at most 3 items",
        ),
        (
            {"amount": 1.5},
            (
                'spec.amount: Invalid value: "number": spec.amount in body must be of type '
                'integer,string: "number"'
            ),
        ),
        (
            {"seq": "x"},
            'spec.seq: Invalid value: "string": spec.seq in body must be of type integer: "string"',
        ),
    ],
)
async def test_values_are_validated(widgets: Speaker, spec: Object, problem: str) -> None:
    answer = await widgets.post(widgets.url("widgets"), widget("a", **spec))
    details = answer.refused(422, "Invalid", invalid(problem, NOT_CHECKED))
    assert (details["name"], details["group"], details["kind"]) == ("a", GROUP, "Widget")


async def test_list_types_are_validated(widgets: Speaker) -> None:
    answer = await widgets.post(
        widgets.url("widgets"), widget("a", ports=[{"name": "p"}, {"name": "p"}])
    )
    answer.refused(422, "Invalid", invalid('spec.ports[1]: Duplicate value: {"name":"p"}'))
    answer = await widgets.post(widgets.url("widgets"), widget("a", tags=["x", "x"]))
    answer.refused(422, "Invalid", invalid('spec.tags[1]: Duplicate value: "x"'))


async def test_required_fields_are_required(widgets: Speaker) -> None:
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}}
    answer = await widgets.post(widgets.url("widgets"), body)
    answer.refused(422, "Invalid", invalid("spec: Required value", NOT_CHECKED))
    assert answer.causes()[0] == ("FieldValueRequired", "spec", "Required value")


async def test_kind_and_version_are_checked(widgets: Speaker) -> None:
    answer = await widgets.post(
        widgets.url("widgets"), {**widget("a"), "apiVersion": f"{GROUP}/v2"}
    )
    answer.refused(
        400,
        "BadRequest",
        (
            f"the API version in the data ({GROUP}/v2) does not match the expected API version "
            f"({GROUP}/v1)"
        ),
    )
    answer = await widgets.post(widgets.url("widgets"), {**widget("a"), "kind": "Other"})
    assert answer.status == 422
    assert answer.causes()[0] == (
        "FieldValueInvalid",
        "kind",
        'Invalid value: "Other": must be Widget',
    )
    answer = await widgets.post(
        widgets.url("widgets"), {"metadata": {"name": "a"}, "spec": {"color": "red"}}
    )
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert "Object 'Kind' is missing in" in answer.json["message"]


async def test_a_rule_speaks_with_its_own_message_reason_and_path(widgets: Speaker) -> None:
    answer = await widgets.post(widgets.url("widgets"), widget("a", replicas=200))
    answer.refused(422, "Invalid", invalid("spec.replicas: Forbidden: red is limited to 100"))
    assert answer.causes() == [
        ("FieldValueForbidden", "spec.replicas", "Forbidden: red is limited to 100")
    ]
    await create(widgets, replicas=200, note="big")


async def test_a_transition_rule_looks_at_the_old_object(widgets: Speaker) -> None:
    await create(widgets, seq=5)
    path = widgets.url("widgets", "a")
    (await widgets.patch(path, {"spec": {"seq": 6}})).object()
    answer = await widgets.patch(path, {"spec": {"seq": 4}})
    answer.refused(422, "Invalid", invalid("spec: Invalid value: seq may only rise"))
    assert answer.causes() == [("FieldValueInvalid", "spec", "Invalid value: seq may only rise")]
    (await widgets.patch(path, {"spec": {"fixed": "v"}})).object()
    answer = await widgets.patch(path, {"spec": {"fixed": "w"}})
    answer.refused(422, "Invalid", invalid('spec.fixed: Invalid value: "w": fixed is immutable'))


async def test_a_replacement_needs_a_version(widgets: Speaker) -> None:
    await create(widgets)
    answer = await widgets.put(widgets.url("widgets", "a"), widget("a"))
    answer.refused(
        422,
        "Invalid",
        (
            f'widgets.{GROUP} "a" is invalid: metadata.resourceVersion: Invalid value: 0: must '
            "be specified for an update"
        ),
    )
    answer = await widgets.put(widgets.url("widgets", "new"), widget("new"))
    answer.refused(404, "NotFound", f'widgets.{GROUP} "new" not found')


async def test_spec_and_status_are_written_apart(widgets: Speaker) -> None:
    body = {**widget("a"), "status": {"replicas": 9}}
    made = (await widgets.post(widgets.url("widgets"), body)).object(201)
    assert "status" not in made
    path = widgets.url("widgets", "a")
    kept = (await widgets.patch(path, {"status": {"replicas": 3}})).object()
    assert "status" not in kept
    ready = {"type": "Ready", "status": "True"}
    patch = {"spec": {"color": "green"}, "status": {"replicas": 3, "conditions": [ready]}}
    changed = (await widgets.patch(f"{path}/status", patch)).object()
    assert changed["status"] == {"replicas": 3, "conditions": [ready]}
    assert changed["spec"]["color"] == "red"
    assert changed["metadata"]["generation"] == 1
    labelled = (await widgets.patch(path, {"metadata": {"labels": {"x": "1"}}})).object()
    assert labelled["metadata"]["generation"] == 1
    grown = (await widgets.patch(path, {"spec": {"replicas": 2}})).object()
    assert (grown["metadata"]["generation"], grown["status"]["replicas"]) == (2, 3)


async def test_scale_reads_and_writes_the_declared_paths(widgets: Speaker) -> None:
    made = await create(widgets, replicas=2)
    path = widgets.url("widgets", "a")
    await widgets.patch(f"{path}/status", {"status": {"replicas": 1, "selector": "app=a"}})
    scale = (await widgets.get(f"{path}/scale")).object()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"].keys() == {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    }
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "app=a"}
    scale["spec"]["replicas"] = 7
    assert (await widgets.put(f"{path}/scale", scale)).object()["spec"] == {"replicas": 7}
    assert (await widgets.patch(f"{path}/scale", {"spec": {"replicas": 8}})).object()["spec"] == {
        "replicas": 8
    }
    live = (await widgets.get(path)).object()
    assert (live["spec"]["replicas"], live["metadata"]["generation"]) == (8, 3)
    answer = await widgets.patch(f"{path}/scale", {"spec": {"replicas": -1}})
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")


async def test_unknown_subresources_are_not_found(widgets: Speaker) -> None:
    await create(widgets)
    answer = await widgets.get(widgets.url("widgets", "a", "nope"))
    answer.refused(404, "NotFound", f'widgets.{GROUP} "a" not found')
