"""The client's promises: errors by their reason, deadlines, retries of reads only, answers that are
not Kubernetes.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.wire import exchange
from federator.kube.wire.transport import Request
from federator.model.steps import ObjectRef
from tests.unit.kube.scripted import (
    FOREVER,
    Answer,
    Script,
    bookmark,
    line,
    listing,
    on_virtual_time,
    reply,
    status,
    stream,
    thing,
)

REF = ObjectRef("apps/v1", "deployments", "ns", "web", "Deployment")


def client(script: Script) -> Client:
    return Client(script, "m1", rng=random.Random(7))


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (409, "", errors.Conflict),
        (404, "NotFound", errors.NotServed),
        (410, "Expired", errors.Expired),
        (410, "Gone", errors.Expired),
        (422, "Invalid", errors.Invalid),
        (400, "BadRequest", errors.Invalid),
        (403, "Forbidden", errors.Denied),
        (401, "Unauthorized", errors.Unauthenticated),
        (429, "TooManyRequests", errors.Throttled),
        (500, "InternalError", errors.ServerTrouble),
        (504, "Timeout", errors.ServerTrouble),
        (418, "Teapot", errors.ServerTrouble),
    ],
)
@on_virtual_time
async def test_the_reason_of_a_status_decides_the_class_of_an_error(
    code: int, reason: str, expected: type[errors.ApiError]
) -> None:
    with pytest.raises(errors.ApiError) as caught:
        await client(Script(status(code, reason))).create(REF, {})
    assert type(caught.value) is expected
    assert caught.value.status == code
    assert caught.value.reason == reason


@on_virtual_time
async def test_retry_after_comes_from_the_status_or_from_the_header() -> None:
    script = Script(
        status(429, "TooManyRequests", details={"retryAfterSeconds": 30}),
        status(503, "ServiceUnavailable", retry_after="7"),
        status(429, "TooManyRequests", retry_after="soon"),
        status(429, "TooManyRequests", retry_after="999999"),
    )
    told = []
    for _ in range(4):
        with pytest.raises(errors.Throttled) as caught:
            await client(script).create(REF, {})
        told.append(caught.value.retry_after_s)
    assert told == [30.0, 7.0, None, 600.0]


@on_virtual_time
async def test_field_errors_of_a_status_reach_the_caller() -> None:
    causes = [
        {"reason": "FieldValueInvalid", "field": "spec.replicas", "message": "must not be negative"}
    ]
    with pytest.raises(errors.Invalid) as caught:
        await client(Script(status(422, "Invalid", details={"causes": causes}))).create(REF, {})
    assert caught.value.causes == tuple(causes)


@on_virtual_time
async def test_a_write_is_never_sent_twice() -> None:
    write: Callable[[Client], Awaitable[object]]
    for failure in (
        errors.Unreachable("gone"),
        status(500, "InternalError"),
        status(429, "TooManyRequests"),
    ):
        for write in (
            lambda c: c.create(REF, {}),
            lambda c: c.replace(REF, {}),
            lambda c: c.patch(REF, {}),
            lambda c: c.delete(REF, uid="u"),
        ):
            script = Script(failure)
            with pytest.raises(errors.ApiError):
                await write(client(script))
            assert len(script.requests) == 1


@on_virtual_time
async def test_a_read_is_tried_again_after_jittered_waits() -> None:
    script = Script(
        errors.Unreachable("reset"), status(503, "ServiceUnavailable"), reply(thing("web", 3))
    )
    found = await client(script).get(REF)
    assert found["metadata"]["resourceVersion"] == "3"
    waits = [
        later - earlier for earlier, later in zip(script.times, script.times[1:], strict=False)
    ]
    assert all(0 < wait <= 0.4 for wait in waits)


@on_virtual_time
async def test_a_read_gives_up_after_a_few_tries() -> None:
    script = Script(after=errors.Unreachable("reset"))
    with pytest.raises(errors.Unreachable):
        await client(script).get(REF)
    assert len(script.requests) == 4


@on_virtual_time
async def test_retries_are_a_small_share_when_everything_fails() -> None:
    script = Script(after=errors.Unreachable("reset"))
    shared = client(script)
    for _ in range(100):
        with pytest.raises(errors.Unreachable):
            await shared.get(REF)
    assert len(script.requests) <= 100 + 10 + 11


@on_virtual_time
async def test_a_read_does_not_sleep_through_a_long_retry_after() -> None:
    script = Script(status(429, "TooManyRequests", retry_after="30"))
    with pytest.raises(errors.Throttled) as caught:
        await client(script).get(REF)
    assert caught.value.retry_after_s == 30.0
    assert asyncio.get_running_loop().time() < 1.0


@on_virtual_time
async def test_every_call_ends_at_its_deadline() -> None:
    async def hangs(_request: Request) -> None:
        await asyncio.sleep(FOREVER)

    call: Callable[[Client], Awaitable[object]]
    for call in (
        lambda c: c.get(REF),
        lambda c: c.list("v1", "things"),
        lambda c: c.create(REF, {}),
        lambda c: c.open_watch("v1", "things"),
        lambda c: c.discover(),
    ):
        begun = asyncio.get_running_loop().time()
        with pytest.raises(errors.Unreachable):
            await call(client(Script(after=hangs)))
        assert asyncio.get_running_loop().time() - begun == pytest.approx(30.0)


@on_virtual_time
async def test_a_body_that_never_ends_meets_the_same_deadline() -> None:
    script = Script(after=Answer(200, (b"{", FOREVER)))
    with pytest.raises(errors.Unreachable):
        await client(script).get(REF)
    assert asyncio.get_running_loop().time() == pytest.approx(30.0)
    assert script.answers[0].closed


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, (b"<html>please log in</html>",), {"content-type": "text/html"}),
        Answer(200, (b"[]",)),
        Answer(200, (b'{"kind":"Deployment"}',)),
        Answer(200, (b'{"metadata":{"name":"other"}}',)),
        Answer(404, (b"<html>not here</html>",), {"content-type": "text/html"}),
        Answer(302, (), {"location": "https://elsewhere/"}),
        Answer(200, (b'{"metadata":' + b"[" * 5000,)),
        Answer(200, (b"\xff\xfe",)),
    ],
    ids=[
        "html",
        "array",
        "no metadata",
        "another object",
        "foreign 404",
        "redirect",
        "nesting",
        "no utf-8",
    ],
)
def test_what_is_no_kubernetes_answer_is_malformed_and_never_absence(answer: Answer) -> None:
    async def main() -> None:
        with pytest.raises(errors.Malformed):
            await client(Script(answer)).get(REF)

    on_virtual_time(main)()


@on_virtual_time
async def test_a_path_that_is_not_served_is_not_found() -> None:
    answer = Answer(404, (b"404 page not found\n",), {"content-type": "text/plain"})
    with pytest.raises(errors.NotServed):
        await client(Script(answer)).list("no.such/v1", "things")


@on_virtual_time
async def test_an_object_is_absent_only_when_a_status_names_it() -> None:
    named = status(404, "NotFound", details={"name": "web", "kind": "deployments"})
    with pytest.raises(errors.NotFound) as caught:
        await client(Script(named)).get(REF)
    assert type(caught.value) is errors.NotFound
    for answer in (status(404, "NotFound"), Answer(404, (b"404 page not found",))):
        with pytest.raises(errors.NotServed):
            await client(Script(answer)).get(REF)
    with pytest.raises(errors.Malformed):
        await client(Script(Answer(404))).get(REF)


class Refreshing(Script):
    refreshed = 0

    async def refresh_credentials(self) -> bool:
        self.refreshed += 1
        return True


@on_virtual_time
async def test_credentials_are_refreshed_once_on_401_even_for_a_write() -> None:
    script = Refreshing(status(401, "Unauthorized"), reply(thing("web", 3)))
    await client(script).create(REF, {})
    assert script.refreshed == 1
    script = Refreshing(after=status(401, "Unauthorized"))
    with pytest.raises(errors.Unauthenticated):
        await client(script).create(REF, {})
    assert (script.refreshed, len(script.requests)) == (1, 2)


@on_virtual_time
async def test_a_list_is_put_together_from_its_pages() -> None:
    script = Script(listing(9, thing("a", 1), token="next"), listing(9, thing("b", 2)))
    found = await client(script).list("v1", "things", "ns", label_selector="app=web,tier in (a,b)")
    assert [item["metadata"]["name"] for item in found.items] == ["a", "b"]
    assert found.resource_version == "9"
    assert script.query(0) == {"labelSelector": "app=web,tier in (a,b)", "limit": "500"}
    assert script.query(1)["continue"] == "next"


@on_virtual_time
async def test_a_list_begins_anew_when_its_token_expires_and_asks_for_all_in_the_end() -> None:
    expired = [listing(9, thing("a", 1), token="next"), status(410, "Expired")]
    script = Script(*expired, *expired, listing(12, thing("b", 2)))
    found = await client(script).list("v1", "things")
    assert [item["metadata"]["name"] for item in found.items] == ["b"]
    assert "limit" not in script.query(4)


@on_virtual_time
async def test_a_list_whose_next_page_is_the_same_again_is_refused() -> None:
    script = Script(*(listing(9, thing(name, 1), token="next") for name in "abc"))
    with pytest.raises(errors.Malformed, match="the same page again"):
        await client(script).list("v1", "things")
    assert len(script.requests) == 2


@on_virtual_time
async def test_a_list_without_end_is_refused_before_it_takes_all_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("federator.kube.client.OBJECTS_MAX", 3)
    pages = [
        listing(9, thing(f"a{number}", 1), thing(f"b{number}", 1), token=f"t{number}")
        for number in range(9)
    ]
    script = Script(*pages)
    with pytest.raises(errors.Malformed, match="more than 3 objects"):
        await client(script).list("v1", "things")
    assert len(script.requests) == 2


@on_virtual_time
async def test_a_list_of_pages_with_next_to_nothing_is_refused() -> None:
    """Each with another token: no number of objects ends it, and nothing is worth the questions."""
    for objects in ((), (thing("a", 1),)):
        script = Script(*(listing(9, *objects, token=f"t{number}") for number in range(200)))
        with pytest.raises(errors.Malformed, match="pages have"):
            await client(script).list("v1", "things")
        assert len(script.requests) <= 70
    script = Script(
        *(listing(9, token=f"t{number}") for number in range(60)), listing(9, thing("a", 1))
    )
    assert len((await client(script).list("v1", "things")).items) == 1


@on_virtual_time
async def test_a_list_that_trickles_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("federator.kube.client.LIST_S", 20.0)
    script = Script(
        *(listing(9, *(thing(f"a{one}", 1) for one in range(50)), token=f"t{n}") for n in range(99))
    )

    async def slowly() -> None:
        async for _ in client(script).pages("v1", "things"):
            await asyncio.sleep(6)

    with pytest.raises(errors.Malformed, match="not ended within 20 s"):
        await slowly()
    assert len(script.requests) == 4


@on_virtual_time
async def test_a_list_asks_for_the_newest_version_there_is() -> None:
    """With a resourceVersion a server may answer from a cache that lags behind: a new leader must
    not be told so of the decisions of the one before it.
    """
    script = Script(listing(9, thing("a", 1), token="next"), listing(9, thing("b", 1)))
    await client(script).list("v1", "things")
    asked = script.query(0).keys() | script.query(1).keys()
    assert asked == {"limit", "continue"}


@on_virtual_time
async def test_of_a_list_as_much_is_read_as_is_wanted() -> None:
    pages = [
        listing(9, thing(f"a{number}", 1), thing(f"b{number}", 1), token=f"t{number}")
        for number in range(9)
    ]
    script = Script(*pages)

    def keep(obj: dict[str, Any]) -> str | None:
        name: str = obj["metadata"]["name"]
        return name if name.startswith("b") else None

    assert await client(script).collect("v1", "things", keep, most=2) == ("b0", "b1")
    assert len(script.requests) == 2


@on_virtual_time
async def test_what_one_object_can_be_is_read_and_no_more() -> None:
    large = reply(thing("web", 1) | {"data": "x" * (exchange.OBJECT_LIMIT - 100_000)})
    assert len((await client(Script(large)).get(REF))["data"]) > 8_000_000
    larger = reply(thing("web", 1) | {"data": "x" * exchange.OBJECT_LIMIT})
    with pytest.raises(errors.Malformed):
        await client(Script(larger)).get(REF)
    kube_system = reply(thing("kube-system", 1) | {"data": "x" * exchange.SMALL_LIMIT})
    with pytest.raises(errors.Malformed):
        await client(Script(kube_system)).kube_system_uid()


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
@on_virtual_time
async def test_identities_of_no_length_that_servers_give_are_refused(field: str) -> None:
    found = thing("web", 1)
    found["metadata"][field] = "1" * 300
    with pytest.raises(errors.Malformed, match="more than 253"):
        await client(Script(reply(found))).get(REF)


@on_virtual_time
async def test_list_items_are_given_the_type_that_servers_leave_out() -> None:
    item = {"metadata": {"name": "p"}}
    found = await client(Script(listing(1, item, kind="PodList"))).list("v1", "pods")
    assert found.items[0] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


@on_virtual_time
async def test_an_empty_list_may_say_null() -> None:
    answer = reply({"kind": "PodList", "metadata": {"resourceVersion": "4"}, "items": None})
    assert (await client(Script(answer)).list("v1", "pods")).items == ()


@on_virtual_time
async def test_names_are_encoded_and_cannot_climb_out_of_their_segment() -> None:
    script = Script(reply({"metadata": {"name": "a/b %2f?", "uid": "u"}}))
    await client(script).get(ObjectRef("v1", "configmaps", "ns", "a/b %2f?", "ConfigMap"))
    assert script.requests[0].path == "/api/v1/namespaces/ns/configmaps/a%2Fb%20%252f%3F"
    for name in ("", ".", ".."):
        with pytest.raises(errors.Invalid):
            await client(Script()).get(ObjectRef("v1", "configmaps", "ns", name, "ConfigMap"))


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"},
        {"metadata": {"name": REF.name}},
        {"metadata": {"name": REF.name, "uid": 7}},
        {"metadata": {"uid": "u"}},
    ],
)
@on_virtual_time
async def test_an_answer_that_no_server_holds_is_no_object(answer: dict[str, object]) -> None:
    ask: Callable[[Client], Awaitable[object]]
    for ask in (
        lambda one: one.get(REF),
        lambda one: one.create(REF, {}),
        lambda one: one.patch(REF, {}),
    ):
        with pytest.raises(errors.Malformed):
            await ask(client(Script(reply(answer))))


@on_virtual_time
async def test_writes_say_who_writes_how_and_under_which_conditions() -> None:
    script = Script(after=reply({"metadata": {"name": REF.name, "uid": "u"}}))
    one = client(script)
    await one.patch(REF, {"a": 1}, kind="apply", force=True, dry_run=True, strict=True)
    await one.delete(REF, uid="u1", resource_version="5", propagation="Foreground")
    applied, deleted = script.requests
    assert applied.headers["content-type"] == "application/apply-patch+yaml"
    assert script.query(0) == {
        "fieldManager": "federator",
        "dryRun": "All",
        "fieldValidation": "Strict",
        "force": "true",
    }
    assert json.loads(deleted.body)["preconditions"] == {"uid": "u1", "resourceVersion": "5"}
    assert json.loads(deleted.body)["propagationPolicy"] == "Foreground"


@on_virtual_time
async def test_request_ids_come_from_the_generator_and_differ() -> None:
    ids = []
    for _ in range(2):
        script = Script(after=reply({"metadata": {"name": REF.name, "uid": "u"}}))
        one = client(script)
        await one.get(REF)
        await one.get(REF)
        ids.append([request.headers["x-request-id"] for request in script.requests])
    assert ids[0] == ids[1]
    assert ids[0][0] != ids[0][1]


@on_virtual_time
async def test_ready_takes_nothing_but_ok_for_an_answer() -> None:
    assert await client(Script(Answer(200, (b"ok",), {"date": "today"}))).ready() == "today"
    for answer in (Answer(200, (b"<html>ok</html>",)), status(500, "InternalError")):
        script = Script(answer)
        with pytest.raises(errors.ApiError):
            await client(script).ready()
        assert len(script.requests) == 1


@on_virtual_time
async def test_watch_gives_decoded_events_and_raises_what_an_error_event_carries() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    script = Script(stream(line("ADDED", thing("a", 5)), bookmark(6), line("ERROR", gone)))
    seen = []

    async def follow() -> None:
        async for event in client(script).watch("v1", "things", resource_version="4"):
            seen.append((event.type, event.object["metadata"]["resourceVersion"]))

    with pytest.raises(errors.Expired):
        await follow()
    assert seen == [("ADDED", "5"), ("BOOKMARK", "6")]
    assert script.answers[0].closed
    assert script.query(0)["resourceVersion"] == "4"
    assert script.requests[0].total_timeout_s is None


@on_virtual_time
async def test_discovery_reads_the_aggregated_form_and_the_older_one() -> None:
    aggregated = reply(
        {
            "kind": "APIGroupDiscoveryList",
            "items": [
                {
                    "metadata": {"name": "apps"},
                    "versions": [
                        {
                            "version": "v1",
                            "resources": [
                                {
                                    "resource": "deployments",
                                    "responseKind": {"kind": "Deployment"},
                                    "scope": "Namespaced",
                                    "verbs": ["list", "get"],
                                }
                            ],
                        }
                    ],
                }
            ],
        }
    )
    older = [
        reply({"kind": "APIVersions", "versions": ["v1"]}),
        reply(
            {
                "resources": [
                    {"name": "nodes", "kind": "Node"},
                    {"name": "nodes/status", "kind": "Node"},
                ]
            }
        ),
    ]
    found = await client(Script(*older, aggregated)).discover()
    assert [(one.api_version, one.plural, one.namespaced) for one in found] == [
        ("apps/v1", "deployments", True),
        ("v1", "nodes", False),
    ]
    assert found[0].verbs == ("get", "list")


async def test_what_a_server_serves_is_read_anew_each_time() -> None:
    """Also when documents that have been read before come again, in another order."""

    def serving(*plurals: str) -> Answer:
        rows = [{"resource": each, "responseKind": {"kind": "K"}} for each in plurals]
        groups = [{"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": rows}]}]
        return reply({"kind": "APIGroupDiscoveryList", "items": groups})

    nothing, first, second = serving(), serving("b", "a", "b"), serving("c")
    speaking = client(Script(nothing, first, nothing, second, nothing, first))
    found = [[each.plural for each in await speaking.discover()] for _ in range(3)]
    assert found == [["a", "b"], ["c"], ["a", "b"]]
