"""Watches in process: bookmarks, selections, ends, and readers that are too slow."""

import asyncio
import json
from typing import Any

import pytest

from federator.embedded.rest import watching
from federator.kube import errors
from federator.kube.wire.transport import Request, Response, Transport
from tests.unit.embedded.inprocess import CONFIGMAPS, cluster, configmap, on_virtual_time

PATH = "/api/v1/namespaces/default/configmaps"


async def opened(transport: Transport, read_timeout_s: float = 1e6, **query: Any) -> Response:
    asked = (("watch", "1"), *((name, str(value)) for name, value in query.items()))
    return await transport.request(
        Request("GET", PATH, asked, read_timeout_s=read_timeout_s, total_timeout_s=None)
    )


async def everything(response: Response) -> list[dict[str, Any]]:
    body = b"".join([chunk async for chunk in response.chunks()])
    return [json.loads(line) for line in body.splitlines()]


def told(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@on_virtual_time
async def test_bookmarks_come_about_once_a_minute_and_carry_the_latest_version() -> None:
    made = cluster()
    response = await opened(made.transport(), allowWatchBookmarks="true", timeoutSeconds=150)
    made.store.create(CONFIGMAPS, configmap("a", "elsewhere"))
    events = await everything(response)
    assert told(events) == [("BOOKMARK", "")] * 3
    assert {event["object"]["metadata"]["resourceVersion"] for event in events} == {
        str(made.store.revision)
    }
    assert asyncio.get_running_loop().time() == 150.0


@on_virtual_time
async def test_without_being_asked_there_are_no_bookmarks() -> None:
    made = cluster()
    assert await everything(await opened(made.transport(), timeoutSeconds=600)) == []


@on_virtual_time
async def test_a_watch_without_an_end_ends_between_half_an_hour_and_an_hour() -> None:
    made = cluster()
    await everything(await opened(made.transport(), resourceVersion=made.store.revision))
    assert 1800 <= asyncio.get_running_loop().time() <= 3600


@on_virtual_time
async def test_entering_a_selection_is_an_addition_and_leaving_it_a_deletion() -> None:
    made = cluster()
    response = await opened(made.transport(), labelSelector="on=yes", timeoutSeconds=1)
    made.store.create(CONFIGMAPS, configmap("a"))
    made.store.update(CONFIGMAPS, configmap("a", metadata={"labels": {"on": "yes"}}))
    made.store.update(CONFIGMAPS, configmap("a", metadata={"labels": {"on": "yes", "more": "x"}}))
    left = made.store.update(CONFIGMAPS, configmap("a", metadata={"labels": {"on": "no"}}))
    made.store.delete(CONFIGMAPS, "default", "a")
    events = await everything(response)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    last = events[-1]["object"]["metadata"]
    assert (last["labels"]["on"], last["resourceVersion"]) == ("yes", str(left.number))


@on_virtual_time
async def test_initial_events_end_with_a_marked_bookmark() -> None:
    made = cluster()
    made.store.create(CONFIGMAPS, configmap("a"))
    query: dict[str, Any] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    events = await everything(await opened(made.transport(), timeoutSeconds=1, **query))
    assert told(events)[:2] == [("ADDED", "a"), ("BOOKMARK", "")]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@on_virtual_time
async def test_a_version_from_before_compaction_is_an_expired_event() -> None:
    made = cluster()
    made.store.create(CONFIGMAPS, configmap("a"))
    made.store.compact(CONFIGMAPS)
    response = await opened(made.transport(), resourceVersion=1)
    events = await everything(response)
    assert (
        response.status,
        [(e["type"], e["object"]["code"], e["object"]["reason"]) for e in events],
    ) == (
        200,
        [("ERROR", 410, "Expired")],
    )


@on_virtual_time
async def test_a_reader_that_is_too_slow_loses_its_watch_but_no_event_before_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "BACKLOG_MAX", 5)
    made = cluster()
    response = await opened(made.transport())
    for number in range(9):
        made.store.create(CONFIGMAPS, configmap(f"c{number}"))
    assert told(await everything(response)) == [("ADDED", f"c{number}") for number in range(5)]


@on_virtual_time
async def test_silence_beyond_the_read_timeout_is_unreachable() -> None:
    made = cluster()
    response = await opened(made.transport(), read_timeout_s=10)
    with pytest.raises(errors.Unreachable, match="silent for 10 s"):
        await everything(response)
    assert asyncio.get_running_loop().time() == 10.0


@on_virtual_time
async def test_closing_gives_the_subscription_and_the_timers_back() -> None:
    made = cluster()
    transport = made.transport()
    for _ in range(3):
        await opened(transport, allowWatchBookmarks="true")
    held = made.store._shelves[CONFIGMAPS.key].callbacks
    assert len(held) == 3
    await transport.close()
    assert held == []
    with pytest.raises(errors.Unreachable, match="closed"):
        await opened(transport)


@on_virtual_time
async def test_a_table_watch_sends_its_columns_once() -> None:
    made = cluster()
    for name in ("a", "b"):
        made.store.create(CONFIGMAPS, configmap(name))
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    query = (("watch", "1"), ("timeoutSeconds", "1"))
    response = await made.transport().request(
        Request("GET", PATH, query, headers, total_timeout_s=None)
    )
    events = await everything(response)
    assert [bool(event["object"]["columnDefinitions"]) for event in events] == [True, False]
    assert [event["object"]["rows"][0]["cells"] for event in events] == [
        ["a", 0, "0s"],
        ["b", 0, "0s"],
    ]
