"""Lists: order, versions, chunks, selectors and tables."""

import base64
import json
from collections.abc import Callable

import pytest

from tests.contract.crds import widget
from tests.contract.speaking import TABLE, Object, Speaker


def names(listing: Object) -> list[str]:
    return [item["metadata"]["name"] for item in listing["items"]]


async def three(api: Speaker) -> None:
    await api.configmap("b", labels={"tier": "web", "x": "1"})
    await api.configmap("a", labels={"tier": "web"})
    await api.configmap("c", labels={"tier": "db"})


async def ours(api: Speaker, **query: object) -> list[str]:
    """Names in the test's namespace; a server with controllers adds a ConfigMap of its own."""
    found = names((await api.get(api.url("configmaps"), **query)).object())
    return [name for name in found if name != "kube-root-ca.crt"]


async def test_a_list_is_in_order_of_names_and_has_a_version(api: Speaker) -> None:
    await three(api)
    listing = (await api.get(api.url("configmaps"))).object()
    assert (listing["kind"], listing["apiVersion"]) == ("ConfigMapList", "v1")
    assert [name for name in names(listing) if name != "kube-root-ca.crt"] == ["a", "b", "c"]
    newest = max(int(item["metadata"]["resourceVersion"]) for item in listing["items"])
    assert int(listing["metadata"]["resourceVersion"]) >= newest
    assert "kind" not in listing["items"][0]


async def test_an_empty_list_has_an_empty_array(api: Speaker) -> None:
    listing = (await api.get(api.url("secrets"))).object()
    assert listing["items"] == []
    assert listing["metadata"].keys() == {"resourceVersion"}


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("tier=web", ["a", "b"]),
        ("tier==db", ["c"]),
        ("tier!=web", ["c"]),
        ("x", ["b"]),
        ("!x", ["a", "c"]),
        ("tier in (web, db),x!=1", ["a", "c"]),
        ("tier notin (web)", ["c"]),
        ("tier=web,x=1", ["b"]),
        ("tier=none", []),
    ],
)
async def test_label_selectors_select(api: Speaker, selector: str, found: list[str]) -> None:
    await three(api)
    assert await ours(api, labelSelector=selector) == found


async def test_field_selectors_select_by_name(api: Speaker) -> None:
    await three(api)
    assert await ours(api, fieldSelector="metadata.name=b") == ["b"]
    assert await ours(api, fieldSelector="metadata.name!=b") == ["a", "c"]
    assert await ours(api, fieldSelector=f"metadata.namespace={api.namespace},metadata.name=a") == [
        "a"
    ]


async def test_pods_are_selected_by_node_and_phase(api: Speaker) -> None:
    for name, node in (("p1", "n1"), ("p2", "n2")):
        spec = {"nodeName": node, "containers": [{"name": "app", "image": "busybox"}]}
        (await api.post(api.url("pods"), {"metadata": {"name": name}, "spec": spec})).object(201)
    assert names((await api.get(api.url("pods"), fieldSelector="spec.nodeName=n2")).object()) == [
        "p2"
    ]
    assert names(
        (await api.get(api.url("pods"), fieldSelector="status.phase=Pending")).object()
    ) == ["p1", "p2"]
    assert (
        names((await api.get(api.url("pods"), fieldSelector="status.phase=Running")).object()) == []
    )


async def test_selectors_that_cannot_be_read_are_refused(api: Speaker) -> None:
    answer = await api.get(api.url("configmaps"), labelSelector="a===b")
    answer.refused(
        400, "BadRequest", "unable to parse requirement: found '=', expected: identifier"
    )
    answer = await api.get(api.url("configmaps"), fieldSelector="data.a=1")
    answer.refused(
        400,
        "BadRequest",
        '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
    )


async def test_chunks_add_up_to_one_consistent_list(api: Speaker) -> None:
    await three(api)
    first = (await api.get(api.url("configmaps"), limit=1, labelSelector="tier")).object()
    version = first["metadata"]["resourceVersion"]
    await api.configmap("bb", labels={"tier": "late"})
    found = names(first)
    token = first["metadata"]["continue"]
    while token:
        page = (
            await api.get(
                api.url("configmaps"), limit=1, labelSelector="tier", **{"continue": token}
            )
        ).object()
        assert page["metadata"]["resourceVersion"] == version
        found += names(page)
        token = page["metadata"].get("continue")
    assert found == ["a", "b", "c"]


async def test_a_chunk_says_how_many_remain_unless_it_selects(api: Speaker) -> None:
    for name in ("a", "b", "c"):
        (await api.post(api.url("secrets"), {"metadata": {"name": name}})).object(201)
    page = (await api.get(api.url("secrets"), limit=2)).object()
    assert page["metadata"]["remainingItemCount"] == 1
    whole = (await api.get(api.url("secrets"), limit=3)).object()
    assert whole["metadata"].keys() == {"resourceVersion"}


async def test_a_chunk_that_comes_too_late_has_expired(
    api: Speaker, forget: Callable[[], object]
) -> None:
    await api.configmap("a")
    forget()
    # A continue token as servers make it, for a version that is forgotten.
    body = json.dumps({"v": "meta.k8s.io/v1", "rv": 2, "start": "/a\u0000"}).encode()
    token = base64.urlsafe_b64encode(body).decode().rstrip("=")
    answer = await api.get(api.url("configmaps"), limit=1, **{"continue": token})
    assert (answer.status, answer.json["reason"], answer.json["code"]) == (410, "Expired", 410)
    assert answer.json["message"].startswith(
        "The provided continue parameter is too old to display a consistent list result. You "
        "can start a new list "
        "without the continue parameter, or use the continue token in this response to "
        "retrieve the remainder"
    )
    answer = await api.get(api.url("configmaps"), resourceVersion=2, resourceVersionMatch="Exact")
    answer.refused(410, "Expired", "The resourceVersion for the provided list is too old.")


async def test_an_expired_chunk_comes_with_a_token_for_the_rest_as_it_is_now(
    api: Speaker, forget: Callable[[], object]
) -> None:
    for name in ("a", "b", "c"):
        await api.configmap(name)
    token = (await api.get(api.url("configmaps"), limit=1)).json["metadata"]["continue"]
    forget()
    body = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    old = base64.urlsafe_b64encode(json.dumps({**body, "rv": 2}).encode()).decode().rstrip("=")
    await api.configmap("d")
    answer = await api.get(api.url("configmaps"), limit=2, **{"continue": old})
    assert (answer.status, answer.json["reason"]) == (410, "Expired")
    rest = (
        await api.get(
            api.url("configmaps"), limit=2, **{"continue": answer.json["metadata"]["continue"]}
        )
    ).object()
    assert names(rest) == ["b", "c"]
    last = (
        await api.get(api.url("configmaps"), limit=2, **{"continue": rest["metadata"]["continue"]})
    ).object()
    assert names(last) == ["d"]


async def test_a_list_of_any_version_comes_whole(api: Speaker) -> None:
    await three(api)
    (await api.get(api.url("configmaps"))).object()
    listing = (await api.get(api.url("configmaps"), resourceVersion=0, limit=1)).object()
    assert names(listing) == ["a", "b", "c"]
    assert "continue" not in listing["metadata"]


async def test_the_match_decides_which_version_a_list_shows(api: Speaker) -> None:
    await api.configmap("a")
    then = (await api.get(api.url("configmaps"))).json["metadata"]["resourceVersion"]
    await api.configmap("b")
    exact = (
        await api.get(api.url("configmaps"), resourceVersion=then, resourceVersionMatch="Exact")
    ).object()
    assert (names(exact), exact["metadata"]["resourceVersion"]) == (["a"], then)
    now = (await api.get(api.url("configmaps"))).object()
    assert names(now) == ["a", "b"]
    later = now["metadata"]["resourceVersion"]
    fresh = (
        await api.get(
            api.url("configmaps"), resourceVersion=later, resourceVersionMatch="NotOlderThan"
        )
    ).object()
    assert names(fresh) == ["a", "b"]
    answer = await api.get(api.url("configmaps"), resourceVersion=0, resourceVersionMatch="Exact")
    answer.refused(
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
    )


async def test_bad_list_options_are_refused(api: Speaker) -> None:
    answer = await api.get(api.url("configmaps"), limit="x")
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    answer = await api.get(api.url("configmaps"), **{"continue": "garbage"})
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.json["message"].startswith("invalid continue token")
    answer = await api.get(api.url("configmaps"), resourceVersionMatch="Exact")
    answer.refused(
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        "resourceVersionMatch is forbidden unless resourceVersion is provided",
    )


async def test_a_version_from_the_future_times_out(api: Speaker) -> None:
    answer = await api.get(api.url("configmaps"), resourceVersion=999_999_999)
    assert (answer.status, answer.json["reason"]) == (504, "Timeout")
    assert answer.json["message"].startswith(
        "Timeout: Too large resource version: 999999999, current: "
    )
    assert answer.json["details"]["retryAfterSeconds"] == 1
    assert answer.causes() == [("ResourceVersionTooLarge", "", "Too large resource version")]


async def test_version_zero_answers_from_the_cache(api: Speaker) -> None:
    await api.configmap("a")
    listing = (await api.get(api.url("configmaps"), resourceVersion=0)).object()
    assert listing["kind"] == "ConfigMapList"


async def test_configmaps_as_a_table(api: Speaker) -> None:
    await api.configmap("a", data={"k": "1", "l": "2"})
    table = (await api.get(api.url("configmaps", "a"), accept=TABLE)).object()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [
        (column["name"], column["type"], column["format"], column["priority"])
        for column in table["columnDefinitions"]
    ]
    assert columns == [
        ("Name", "string", "name", 0),
        ("Data", "string", "", 0),
        ("Age", "string", "", 0),
    ]
    (row,) = table["rows"]
    assert row["cells"][:2] == ["a", 2]
    assert row["cells"][2].endswith("s")
    assert (row["object"]["kind"], row["object"]["apiVersion"]) == (
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
    )
    assert row["object"]["metadata"]["name"] == "a"


async def test_a_table_can_carry_whole_objects_or_none(api: Speaker) -> None:
    await api.configmap("a", data={"k": "1"})
    whole = (
        await api.get(api.url("configmaps", "a"), accept=TABLE, includeObject="Object")
    ).object()
    assert whole["rows"][0]["object"]["data"] == {"k": "1"}
    none = (await api.get(api.url("configmaps", "a"), accept=TABLE, includeObject="None")).object()
    assert none["rows"][0].get("object") is None


async def test_an_empty_table_has_columns_and_no_rows(api: Speaker) -> None:
    table = (await api.get(api.url("secrets"), accept=TABLE)).object()
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Type",
        "Data",
        "Age",
    ]
    assert not table["rows"]


async def test_a_missing_object_is_no_table(api: Speaker) -> None:
    answer = await api.get(api.url("configmaps", "a"), accept=TABLE)
    answer.refused(404, "NotFound", 'configmaps "a" not found')


async def test_a_custom_resource_has_its_own_columns(widgets: Speaker) -> None:
    made = (await widgets.post(widgets.url("widgets"), widget("a", replicas=3, note="hi"))).object(
        201
    )
    table = (await widgets.get(widgets.url("widgets"), accept=TABLE)).object()
    columns = [
        (column["name"], column["type"], column["priority"])
        for column in table["columnDefinitions"]
    ]
    assert columns == [
        ("Name", "string", 0),
        ("Desired", "integer", 0),
        ("Ready", "string", 0),
        ("Note", "string", 1),
        ("Age", "date", 0),
    ]
    (row,) = table["rows"]
    assert row["cells"][:4] == ["a", 3, None, "hi"]
    assert made["metadata"]["name"] == "a"


async def test_custom_resources_are_selected_by_their_declared_fields(widgets: Speaker) -> None:
    await widgets.post(widgets.url("widgets"), widget("a"))
    await widgets.post(widgets.url("widgets"), widget("b", color="green"))
    assert names(
        (await widgets.get(widgets.url("widgets"), fieldSelector="spec.color=green")).object()
    ) == ["b"]
    answer = await widgets.get(widgets.url("widgets"), fieldSelector="spec.note=x")
    answer.refused(400, "BadRequest", "field label not supported: spec.note")
