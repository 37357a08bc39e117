"""Steps become requests in a lane; what became of them is data; Events are few."""

import json
import random
from typing import Any

import pytest

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.kube.control.lanes import Lane, LaneClosed
from federator.model.steps import Apply, Create, Delete, EmitEvent, ObjectRef, Patch, Step
from tests.unit.kube.scripted import Script, on_virtual_time, reply, status

REF = ObjectRef("apps/v1", "deployments", "ns", "web", "Deployment")
OK: Any = {"metadata": {"name": "web", "uid": "u"}}


def applier(script: Script) -> Applier:
    clock = Clock(1_700_000_000.0)
    return Applier(Client(script, "m1"), Lane("m1", clock=clock, rng=random.Random(1)), clock=clock)


@pytest.mark.parametrize(
    ("step", "method", "path", "query", "body"),
    [
        (Create(REF, {"a": 1}), "POST", "deployments", {}, {"a": 1}),
        (
            Create(REF, {"a": 1}, strict=True),
            "POST",
            "deployments",
            {"fieldValidation": "Strict"},
            {"a": 1},
        ),
        (
            Patch(REF, {"spec": {"a": 1}}, "status"),
            "PATCH",
            "deployments/web/status",
            {},
            {"spec": {"a": 1}},
        ),
        (
            Patch(REF, {"metadata": {"labels": {"l": "v"}}}, uid="u", resource_version="5"),
            "PATCH",
            "deployments/web",
            {},
            {"metadata": {"labels": {"l": "v"}, "uid": "u", "resourceVersion": "5"}},
        ),
        (Apply(REF, {"a": 1}), "PATCH", "deployments/web", {"force": "true"}, {"a": 1}),
        (
            Apply(REF, {"a": 1}, uid="u", resource_version="5"),
            "PATCH",
            "deployments/web",
            {"force": "true"},
            {"a": 1, "metadata": {"uid": "u", "resourceVersion": "5"}},
        ),
        (
            Delete(REF, "u", resource_version="5"),
            "DELETE",
            "deployments/web",
            {},
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "u", "resourceVersion": "5"},
            },
        ),
    ],
    ids=[
        "create",
        "strict create",
        "status patch",
        "conditional patch",
        "apply",
        "conditional apply",
        "delete",
    ],
)
def test_each_step_is_one_request(
    step: Step, method: str, path: str, query: dict[str, str], body: dict[str, Any]
) -> None:
    async def main() -> None:
        script = Script(reply(OK))
        outcome = await applier(script).apply(step)
        assert outcome.ok
        request = script.requests[0]
        assert (request.method, request.path) == (method, f"/apis/apps/v1/namespaces/ns/{path}")
        assert query.items() <= script.query(0).items()
        assert json.loads(request.body) == body

    on_virtual_time(main)()


@on_virtual_time
async def test_deleting_what_is_gone_is_success_and_another_uid_is_not() -> None:
    gone = status(404, "NotFound", details={"name": "web"})
    one = applier(Script(gone, status(404, "NotFound"), status(409, "Conflict")))
    assert (await one.apply(Delete(REF, "u"))).ok
    assert not (
        await one.apply(Delete(REF, "u"))
    ).ok  # the kind is not served: nothing is known of its objects
    outcome = await one.apply(Delete(REF, "u"))
    assert isinstance(outcome.error, errors.Conflict)


@on_virtual_time
async def test_a_write_without_an_answer_is_unknown_and_a_refused_one_is_not() -> None:
    one = applier(Script(errors.Unreachable("reset"), status(422, "Invalid"), reply(OK)))
    outcomes = [await one.apply(Create(REF, {})) for _ in range(3)]
    assert [outcome.unknown for outcome in outcomes] == [True, False, False]
    assert [outcome.ok for outcome in outcomes] == [False, False, True]


@on_virtual_time
async def test_a_closed_lane_is_an_outcome_that_sent_nothing() -> None:
    one = applier(Script(status(429, "TooManyRequests", retry_after="60")))
    assert not isinstance((await one.apply(Create(REF, {}))).error, LaneClosed)
    outcome = await one.apply(Create(REF, {}))
    assert isinstance(outcome.error, LaneClosed)
    assert outcome.error.retry_after_s


@on_virtual_time
async def test_an_event_says_who_what_and_about_whom() -> None:
    script = Script(reply(OK))
    await applier(script).apply(
        EmitEvent(REF, "u1", "ApplyFailed", "x" * 2000 + "é", warning=True, action="Apply")
    )
    body = json.loads(script.requests[0].body)
    assert script.requests[0].path == "/apis/events.k8s.io/v1/namespaces/ns/events"
    assert body["regarding"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "namespace": "ns",
        "uid": "u1",
    }
    assert (body["type"], body["reason"], body["action"]) == ("Warning", "ApplyFailed", "Apply")
    assert len(body["note"].encode()) <= 1024
    assert body["eventTime"] == "2023-11-14T22:13:20.000000Z"
    assert body["metadata"]["name"].startswith("web.")


@on_virtual_time
async def test_an_event_about_a_cluster_scoped_object_goes_to_default() -> None:
    script = Script(reply(OK))
    cluster = ObjectRef(
        "federation.pinterest.com/v1alpha1", "memberclusters", "", "east", "MemberCluster"
    )
    await applier(script).apply(EmitEvent(cluster, "u1", "NotReady", "silent for 40 s"))
    assert "/namespaces/default/events" in script.requests[0].path
    assert "namespace" not in json.loads(script.requests[0].body)["regarding"]


@on_virtual_time
async def test_the_same_event_again_is_counted_in_the_first() -> None:
    script = Script(after=reply(OK))
    one = applier(script)
    for _ in range(3):
        await one.apply(EmitEvent(REF, "u1", "ApplyFailed", "no"))
    methods = [request.method for request in script.requests]
    assert methods == ["POST", "PATCH", "PATCH"]
    assert json.loads(script.requests[2].body)["series"]["count"] == 3
    assert (
        script.requests[1].path.rsplit("/", 1)[1]
        == json.loads(script.requests[0].body)["metadata"]["name"]
    )


@on_virtual_time
async def test_a_talkative_object_is_slowed_down_and_others_are_not() -> None:
    script = Script(after=reply(OK))
    one = applier(script)
    for number in range(50):
        await one.apply(EmitEvent(REF, "u1", "Moved", f"move {number}"))
    assert len(script.requests) == 10
    assert one.recorder.dropped == 40
    await one.apply(EmitEvent(REF, "u2", "Moved", "another object"))
    assert len(script.requests) == 11
