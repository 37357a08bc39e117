"""What the gateway makes of requests that are wrong: bodies, paths, headers, rates. Each is refused
with its reason, and nothing is stored.
"""

import asyncio
import json
from typing import Any

from federator.embedded.storage.messages import Caller
from federator.gateway import limits
from federator.gateway.api import models, openapi, routes
from federator.gateway.api.problems import Problem
from federator.gateway.options import GatewayOptions
from federator.gateway.platforms import table
from federator.gateway.server import Gateway
from federator.kube.metrics import Metrics
from federator.kube.tlsserver import BodyRefused, Incoming, Outgoing
from tests.unit.gateway import gating
from tests.unit.gateway.gating import SOURCE, SUBMISSIONS, Door
from tests.unit.gateway.test_submissions import RUN, kept
from tests.unit.hub.world import World
from tests.unit.kube.scripted import on_virtual_time


def body(**more: Any) -> bytes:
    return json.dumps({"artifact": SOURCE, "version": "v1", **more}).encode()


def raw(text: str) -> bytes:
    return f'{{"artifact": "{SOURCE}", "version": "v1", {text}}}'.encode()


_DEEP = 5000
HOSTILE: dict[str, tuple[bytes, int]] = {
    "empty": (b"", 400),
    "white space": (b"   ", 400),
    "no JSON": (b"artifact: x", 400),
    "cut": (body()[:-5], 400),
    "two documents": (body() + body(), 400),
    "a comma too many": (b'{"artifact": "x",}', 400),
    "single quotes": (b"{'artifact': 'x'}", 400),
    "a comment": (b'{"artifact": "x" /* */}', 400),
    "a byte order mark": (b"\xef\xbb\xbf" + body(), 400),
    "UTF-16": (body().decode().encode("utf-16"), 400),
    "no UTF-8": (body() + b"\xff", 400),
    "a lone surrogate": (raw('"idempotencyKey": "\\ud800"'), 400),
    "zeros": (b"\0" * 100, 400),
    "null": (b"null", 400),
    "a list": (b"[]", 400),
    "a text": (b'"x"', 400),
    "a number": (b"1", 400),
    "true": (b"true", 400),
    "nested lists": (b"[" * _DEEP + b"]" * _DEEP, 400),
    "nested objects": (b'{"a":' * _DEEP + b"1" + b"}" * _DEEP, 400),
    "nested within a parameter": (raw('"parameters": {"a": ' + "[" * 20 + "]" * 20 + "}"), 400),
    "many values": (raw('"parameters": {"a": [' + "1," * 3000 + "1]}"), 400),
    "nothing": (b"{}", 422),
    "an unknown field": (body(force=True), 422),
    "a field of another spelling": (raw('"dry_run": true'), 422),
    "another case": (raw('"DryRun": true'), 422),
    "a field twice": (raw('"version": "v2"'), 400),
    "a parameter twice": (raw('"parameters": {"a": 1, "a": 2}'), 400),
    "__proto__": (raw('"__proto__": {"dryRun": true}'), 422),
    "constructor": (raw('"constructor": {}'), 422),
    "artifact null": (b'{"artifact": null}', 422),
    "artifact a list": (b'{"artifact": ["oci://x/y"]}', 422),
    "artifact an object": (b'{"artifact": {"source": "x"}}', 422),
    "artifact empty": (b'{"artifact": ""}', 422),
    "artifact of a thousand characters": (b'{"artifact": "' + b"a" * 1000 + b'"}', 422),
    "version a number": (raw('"parameters": {}').replace(b'"v1"', b"1"), 422),
    "version of a thousand characters": (body(version="v" * 1000), 422),
    "dryRun as a text": (body(dryRun="true"), 422),
    "dryRun as a number": (body(dryRun=1), 422),
    "dryRun null": (body(dryRun=None), 422),
    "a key that is empty": (body(idempotencyKey=""), 422),
    "a key with a blank": (body(idempotencyKey="a b"), 422),
    "a key with a line break": (body(idempotencyKey="a\nb"), 422),
    "a key of other letters": (body(idempotencyKey="schlüssel"), 422),
    "a key that is too long": (body(idempotencyKey="k" * 129), 422),
    "a key that is a number": (body(idempotencyKey=7), 422),
    "parameters as a list": (body(parameters=["a"]), 422),
    "parameters as a text": (body(parameters="a=1"), 422),
    "a parameter without a name": (body(parameters={"": 1}), 422),
    "a parameter named as a path": (body(parameters={"../../x": 1}), 422),
    "a parameter with a dot": (body(parameters={"a.b": 1}), 422),
    "a parameter that is null": (body(parameters={"replicas": None}), 422),
    "a parameter that is a list": (body(parameters={"replicas": [1]}), 422),
    "a parameter that is an object": (body(parameters={"replicas": {"$ref": "x"}}), 422),
    "a parameter that is long": (body(parameters={"model": "x" * 5000}), 422),
    "too many parameters": (body(parameters={f"p{at}": at for at in range(65)}), 422),
    "NaN": (raw('"parameters": {"replicas": NaN}'), 400),
    "Infinity": (raw('"parameters": {"replicas": -Infinity}'), 400),
    "a number of a thousand digits": (raw('"parameters": {"replicas": ' + "9" * 1000 + "}"), 400),
    "a float beyond floats": (raw('"parameters": {"replicas": 1e999}'), 400),
    "a parameter out of bounds": (body(parameters={"replicas": 501}), 422),
    "a parameter of another type": (body(parameters={"replicas": True}), 422),
    "a parameter that is not declared": (body(parameters={"cpu": 1}), 422),
    "a reference as a value": (body(parameters={"model": "${parameters.replicas}" * 9}), 422),
    "a source that is not allowed": (body(artifact="oci://evil.example/ads/x"), 403),
    "a source at a metadata service": (body(artifact="http://169.254.169.254/ads"), 400),
    "a version that is not there": (body(version="v9"), 404),
    "more than is read": (b"{" + b" " * models.BODY_MAX + b"}", 413),
}


def test_hostile_bodies_are_refused_with_their_reason() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept(), burst=1000)
        found = {}
        for name, (given, _) in HOSTILE.items():
            answer = await door.ask("POST", SUBMISSIONS, given)
            document = json.loads(answer.body)
            assert answer.content_type == "application/problem+json", name
            assert document["status"] == answer.status
            assert document["detail"], name
            assert "Traceback" not in document["detail"]
            found[name] = answer.status
        assert found == {name: status for name, (_, status) in HOSTILE.items()}
        assert await world.get("PinterestService", "ads", "serving") is None

    gating.play(scenario)


PATHS: dict[str, tuple[str, str, int]] = {
    "the root": ("GET", "/", 404),
    "another version": ("GET", SUBMISSIONS.replace("/v1/", "/v2/"), 404),
    "a slash at the end": ("GET", SUBMISSIONS + "/", 404),
    "two slashes": ("GET", SUBMISSIONS.replace("/ads/", "//ads/"), 404),
    "dots": ("GET", "/v1/workflows/ads/../../openapi.json/submissions", 404),
    "dots encoded": ("GET", "/v1/workflows/ads/%2e%2e/submissions", 400),
    "a slash encoded": ("GET", "/v1/workflows/ads%2Fserving/x/submissions", 400),
    "a zero": ("GET", "/v1/workflows/ads/%00/submissions", 400),
    "bytes that are no UTF-8": ("GET", "/v1/workflows/ads/%ff/submissions", 400),
    "upper case": ("GET", SUBMISSIONS.replace("/ads/", "/ADS/"), 400),
    "a long name": ("GET", f"/v1/workflows/ads/{'x' * 64}/submissions", 400),
    "a long path": ("GET", "/v1/workflows/" + "x" * 2000, 400),
    "the namespace of the system": ("GET", SUBMISSIONS.replace("/ads/", "/kube-system/"), 403),
    "the namespace of the hub": (
        "POST",
        SUBMISSIONS.replace("/ads/", "/federator-system/"),
        403,
    ),
    "an identifier that is none": ("GET", f"{SUBMISSIONS}/xyz", 404),
    "an identifier of another": ("GET", f"{SUBMISSIONS}/{'0' * 20}", 404),
    "a method that is not there": ("PUT", SUBMISSIONS, 405),
    "another method": ("PATCH", f"{SUBMISSIONS}/{'0' * 20}", 405),
    "TRACE": ("TRACE", SUBMISSIONS, 405),
    "a parameter that is unknown": ("GET", f"{SUBMISSIONS}?x=1", 400),
    "a parameter twice": ("GET", f"{SUBMISSIONS}?limit=1&limit=2", 400),
    "a limit of 0": ("GET", f"{SUBMISSIONS}?limit=0", 400),
    "a limit that is a text": ("GET", f"{SUBMISSIONS}?limit=ten", 400),
    "digits of another script": ("GET", f"{SUBMISSIONS}?limit=%D9%A1", 400),
    "a state that is none": ("GET", f"{SUBMISSIONS}?state=running", 400),
    "a page that is none": ("GET", f"{SUBMISSIONS}?after=../x", 400),
    "a query without a name": ("GET", f"{SUBMISSIONS}?=1", 400),
    "a query that is long": ("GET", f"{SUBMISSIONS}?user={'x' * 3000}", 400),
    "a page that is gone": ("GET", f"{SUBMISSIONS}?after={'0' * 20}", 200),
}


def test_games_with_paths_and_methods_are_refused() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept(), burst=1000)
        found = {}
        for name, (method, path, _) in PATHS.items():
            found[name] = (await door.ask(method, path, body() if method == "POST" else b"")).status
        assert found == {name: status for name, (_, _, status) in PATHS.items()}
        refused = await door.ask("PUT", SUBMISSIONS)
        assert refused.headers["Allow"] == "GET, POST"
        assert (await door.ask("GET", SUBMISSIONS, b"{}")).status == 400

    gating.play(scenario)


def test_games_with_headers_are_refused() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        as_other = await door.ask("GET", SUBMISSIONS, impersonates=True)
        assert as_other.status == 403
        for given in ("Basic eDp5", "Bearer", "Bearer  ", "bearer\tx", f"Token {door.token}"):
            answer = await door.gateway.answer(Incoming("GET", SUBMISSIONS, authorization=given))
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        plain = await door.gateway.answer(
            Incoming(
                "POST",
                SUBMISSIONS,
                authorization=f"Bearer {door.token}",
                has_body=True,
                headers={"content-type": "text/plain"},
            )
        )
        assert plain.status == 400

    gating.play(scenario)


def test_a_user_is_slowed_down_and_others_are_not() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept(), burst=3, requests_a_second=1.0)
        world.federation.host.add_token("other", Caller("other"))
        answers = [await door.ask("GET", SUBMISSIONS) for _ in range(5)]

        assert [each.status for each in answers] == [200, 200, 200, 429, 429]
        assert answers[-1].headers["Retry-After"].isdecimal()
        assert (await door.ask("GET", SUBMISSIONS, token="other")).status == 403
        await asyncio.sleep(int(answers[-1].headers["Retry-After"]))
        assert (await door.ask("GET", SUBMISSIONS)).status == 200

    gating.play(scenario)


@on_virtual_time
async def test_only_so_many_submissions_wait() -> None:
    turns = limits.Turns(GatewayOptions(submissions_at_once=1, submissions_waiting=1))
    go = asyncio.Event()

    async def one() -> str:
        try:
            async with turns.place("builder") as place, place.turn():
                await go.wait()
        except Problem as problem:
            return f"{problem.status} after {problem.retry_after_s} s"
        return "done"

    tasks = [asyncio.create_task(one()) for _ in range(4)]
    await asyncio.sleep(1)
    go.set()
    assert sorted(await asyncio.gather(*tasks)) == ["503 after 2 s"] * 2 + ["done"] * 2


@on_virtual_time
async def test_one_user_leaves_half_of_the_turns_to_others() -> None:
    turns = limits.Turns(GatewayOptions(submissions_at_once=4, submissions_waiting=4))
    go, begun = asyncio.Event(), []

    async def one(user: str) -> str:
        try:
            async with turns.place(user) as place, place.turn():
                begun.append(user)
                await go.wait()
        except Problem as problem:
            return str(problem.status)
        return "done"

    tasks = [asyncio.create_task(one(user)) for user in ("slow",) * 8 + ("quick",) * 2]
    await asyncio.sleep(1)
    assert begun == ["slow", "slow", "quick", "quick"]
    tasks[2].cancel()  # its caller went away
    await asyncio.wait([tasks[2]])
    tasks.append(asyncio.create_task(one("slow")))
    go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for each in answers[:8] if each == "503"] == ["503"] * 4
    assert answers[8:] == ["done"] * 3


def test_bodies_that_arrive_slowly_hold_no_turn() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept(), submissions_at_once=1, submissions_waiting=1)

        async def late(_: int) -> bytes:
            await asyncio.sleep(10)
            raise BodyRefused("the body did not arrive within 10 s")

        slow = Incoming(
            "POST",
            SUBMISSIONS,
            authorization=f"Bearer {door.token}",
            has_body=True,
            read_body=late,
            headers={"content-type": "application/json"},
        )
        tasks = [asyncio.create_task(door.gateway.answer(slow)) for _ in range(5)]
        await asyncio.sleep(1)
        assert (await door.submit("v1"))[0] == 201
        assert not any(task.done() for task in tasks)
        assert {answer.status for answer in await asyncio.gather(*tasks)} == {400}

    gating.play(scenario)


def test_events_follow_a_submission_to_its_end() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        _, made = await door.submit("job", RUN)
        answer = await door.ask("GET", f"{RUN}/{made['id']}/events")
        assert answer.content_type.startswith("text/event-stream")
        assert answer.stream is not None
        events = [part.decode() async for part in answer.stream if not part.startswith(b":")]

        states = [
            json.loads(event.partition("data: ")[2])["state"]
            for event in events
            if event.startswith("event: submission\n")
        ]
        assert states[-1] == "Succeeded"
        assert events[-1] == "event: end\ndata: {}\n\n"
        gone = await door.ask("GET", f"{RUN}/{'0' * 20}/events")
        assert gone.status == 404

    gating.play(scenario)


def test_requests_are_counted_by_operation_and_answer() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        metrics = Metrics()
        port = Door(world, door.versions, metrics=metrics)
        await port.ask("GET", SUBMISSIONS)
        await port.ask("GET", SUBMISSIONS, token="")
        text = metrics.render().decode()
        sample = 'federator_gateway_requests_total{code="%s",operation="%s"} 1.0'
        assert sample % (200, "list") in text
        assert sample % (401, "other") in text

    gating.play(scenario)


async def _static(gateway: Gateway, path: str) -> Outgoing:
    return await gateway.answer(Incoming("GET", path))


def test_the_document_is_that_of_the_models_and_routes() -> None:
    async def scenario(world: World) -> None:
        await gating.prepared(world)
        door = Door(world, kept())
        assert (await _static(door.gateway, "/healthz")).status == 200
        assert (await _static(door.gateway, "/readyz")).status == 503
        await door.gateway.policies.read()
        assert (await _static(door.gateway, "/readyz")).status == 200
        document = json.loads((await _static(door.gateway, "/openapi.json")).body)
        assert document == json.loads(json.dumps(openapi.document(table.PLATFORMS.described)))
        assert document["openapi"] == "3.1.0"
        asked = document["components"]["schemas"]["SubmissionRequest"]
        assert sorted(asked["properties"]) == sorted(
            field.alias or name for name, field in models.SubmissionRequest.model_fields.items()
        )
        operations = {
            operation["operationId"]
            for methods in document["paths"].values()
            for operation in methods.values()
        }
        assert operations == {route.id for route in routes.ROUTES}

    gating.play(scenario)
