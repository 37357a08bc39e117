"""Watches: what comes, in which order, from which version on, and when it is too late."""

from collections.abc import Callable
from typing import Any

from tests.contract.crds import widget
from tests.contract.speaking import TABLE, Speaker


async def version(api: Speaker, plural: str = "configmaps") -> str:
    found: str = (await api.get(api.url(plural))).object()["metadata"]["resourceVersion"]
    return found


async def test_changes_after_the_listed_version_come_in_order(api: Speaker) -> None:
    since = await version(api)
    await api.configmap("a")
    await api.patch(api.url("configmaps", "a"), {"data": {"k": "1"}})
    await api.configmap("b")
    await api.delete(api.url("configmaps", "a"))
    async with api.watching(
        api.url("configmaps"),
        resourceVersion=since,
        fieldSelector="metadata.name!=kube-root-ca.crt",
    ) as watch:
        assert watch.status == 200
        assert watch.headers["content-type"] == "application/json"
        assert await watch.events(4) == [
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("ADDED", "b"),
            ("DELETED", "a"),
        ]


async def test_versions_of_events_rise_and_a_deletion_has_its_own(api: Speaker) -> None:
    made = await api.configmap("a")
    await api.delete(api.url("configmaps", "a"))
    start = str(int(made["metadata"]["resourceVersion"]) - 1)
    async with api.watching(
        api.url("configmaps"), resourceVersion=start, fieldSelector="metadata.name=a"
    ) as watch:
        added, deleted = await watch.next(), await watch.next()
    assert added is not None
    assert deleted is not None
    assert added["object"]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(
        made["metadata"]["resourceVersion"]
    )
    assert (deleted["object"]["kind"], deleted["object"]["apiVersion"]) == ("ConfigMap", "v1")


async def test_without_a_version_what_exists_comes_first(api: Speaker) -> None:
    await api.configmap("b", labels={"x": "1"})
    await api.configmap("a", labels={"x": "1"})
    starts: tuple[dict[str, Any], ...] = ({}, {"resourceVersion": 0})
    for start in starts:
        async with api.watching(api.url("configmaps"), labelSelector="x=1", **start) as watch:
            assert await watch.events(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_live_changes_arrive_while_watching(api: Speaker) -> None:
    async with api.watching(
        api.url("configmaps"), resourceVersion=await version(api), labelSelector="x"
    ) as watch:
        await api.configmap("a", labels={"x": "1"})
        assert await watch.events(1) == [("ADDED", "a")]


async def test_leaving_a_selection_is_a_deletion_and_entering_an_addition(api: Speaker) -> None:
    since = await version(api)
    await api.configmap("a", labels={"x": "1"})
    moved = (
        await api.patch(api.url("configmaps", "a"), {"metadata": {"labels": {"x": "2"}}})
    ).object()
    await api.patch(api.url("configmaps", "a"), {"metadata": {"labels": {"x": "1"}}})
    async with api.watching(
        api.url("configmaps"), resourceVersion=since, labelSelector="x=1"
    ) as watch:
        assert await watch.events(1) == [("ADDED", "a")]
        left = await watch.next()
        assert left is not None
        assert left["type"] == "DELETED"
        assert left["object"]["metadata"]["labels"] == {"x": "1"}
        assert left["object"]["metadata"]["resourceVersion"] == moved["metadata"]["resourceVersion"]
        assert await watch.events(1) == [("ADDED", "a")]


async def test_a_held_deletion_is_a_modification_first(api: Speaker) -> None:
    since = await version(api)
    await api.configmap("a", finalizers=["contract.example/hold"])
    await api.delete(api.url("configmaps", "a"))
    await api.patch(api.url("configmaps", "a"), {"metadata": {"finalizers": None}})
    async with api.watching(
        api.url("configmaps"), resourceVersion=since, fieldSelector="metadata.name=a"
    ) as watch:
        assert await watch.events(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_from_a_version_that_is_yet_to_come_is_taken_and_told_nothing(
    api: Speaker,
) -> None:
    """So does a restored server with everybody who was there before: who watches must look at its
    version.
    """
    ahead = int(await version(api)) + 100_000
    async with api.watching(
        api.url("configmaps"), resourceVersion=ahead, timeoutSeconds=2
    ) as watch:
        assert watch.status == 200
        await api.configmap("a")
        assert await watch.next() is None


async def test_the_server_ends_a_watch_after_its_time(api: Speaker) -> None:
    since = await version(api)
    async with api.watching(api.url("secrets"), resourceVersion=since, timeoutSeconds=1) as watch:
        assert await watch.next(timeout_s=5.0) is None


async def test_a_bookmark_carries_a_version_and_nothing_else(api: Speaker) -> None:
    since = await version(api)
    query: dict[str, Any] = {
        "resourceVersion": since,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": 6,
    }
    async with api.watching(api.url("configmaps"), labelSelector="none", **query) as watch:
        made = await api.configmap("unseen")
        event = await watch.next(timeout_s=8.0)
    assert event is not None
    assert event["type"] == "BOOKMARK"
    mark = event["object"]
    assert (mark["kind"], mark["apiVersion"]) == ("ConfigMap", "v1")
    assert int(mark["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    assert set(mark["metadata"]) <= {"resourceVersion", "creationTimestamp"}


async def test_a_streaming_list_ends_with_a_marked_bookmark(api: Speaker) -> None:
    await api.configmap("a", labels={"x": "1"})
    query: dict[str, Any] = {
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    async with api.watching(api.url("configmaps"), labelSelector="x", **query) as watch:
        assert await watch.events(1) == [("ADDED", "a")]
        mark = await watch.next()
    assert mark is not None
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_streaming_list_needs_its_version_match(api: Speaker) -> None:
    answer = await api.get(api.url("configmaps"), watch="true", sendInitialEvents="true")
    answer.refused(
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        "sendInitialEvents requires setting "
        "resourceVersionMatch to NotOlderThan",
    )


async def test_a_version_that_is_too_old_is_an_expired_event(
    widgets: Speaker, forget: Callable[[], object]
) -> None:
    forget()
    async with widgets.watching(widgets.url("widgets"), resourceVersion=1) as watch:
        assert watch.status == 200
        event = await watch.next()
        assert event is not None
        assert event["type"] == "ERROR"
        problem = event["object"]
        assert (problem["kind"], problem["code"], problem["reason"]) == ("Status", 410, "Expired")
        assert problem["message"].startswith("too old resource version: 1 (")
        assert await watch.next() is None


async def test_custom_resources_are_watched_with_their_kind(widgets: Speaker) -> None:
    since = await version(widgets, "widgets")
    await widgets.post(widgets.url("widgets"), widget("a"))
    async with widgets.watching(widgets.url("widgets"), resourceVersion=since) as watch:
        event = await watch.next()
    assert event is not None
    assert (event["type"], event["object"]["kind"], event["object"]["spec"]["nested"]) == (
        "ADDED",
        "Widget",
        {"deep": "x"},
    )


async def test_a_table_watch_sends_one_row_at_a_time_and_columns_once(api: Speaker) -> None:
    await api.configmap("a", labels={"x": "1"})
    await api.configmap("b", labels={"x": "1"})
    async with api.watching(api.url("configmaps"), accept=TABLE, labelSelector="x") as watch:
        first, second = await watch.next(), await watch.next()
    assert first is not None
    assert second is not None
    assert first["object"]["kind"] == "Table"
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == [
        "Name",
        "Data",
        "Age",
    ]
    assert second["object"]["columnDefinitions"] is None
    assert [event["object"]["rows"][0]["cells"][0] for event in (first, second)] == ["a", "b"]
