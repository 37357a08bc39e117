"""`explain` and `place` by the query port: what the owner of a workload is told, what not, and at
what price.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from federator.cli import explain
from federator.hub.query import advising
from federator.hub.query.options import QueryOptions
from federator.hub.snapshot.computing import Broken
from federator.hub.snapshot.places import Full
from federator.kinds import registry
from federator.kube.threads import Overloaded
from federator.kube.tlsserver import BodyRefused, Incoming
from federator.scheduling.waiting.releases import ENOUGH
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.asking import PSVC, WEB, grant, port_of, request

PLACE = "/v1/namespaces/feed/pinterestservices/place"
WRITER = {**PSVC, "verbs": ["get", "create"]}
CANARY = "kaleidoscope"
ACCOUNT = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "20"}}}}


def manifest(name: str = "web", replicas: int = 2, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "feed"}
    body = worlds.service(replicas, project="feed", **spec)
    return {
        "apiVersion": registry.KINDS["PinterestService"].api_version,
        "kind": "PinterestService",
        "metadata": meta,
        "spec": body,
    }


def sending(path: str, body: bytes, user: str = "owner", **more: Any) -> Incoming:
    async def read(most: int) -> bytes:
        if len(body) > most:
            raise BodyRefused(f"a body of more than {most} bytes is not read")
        return body

    length = {"body_bytes": len(body)} | more
    return request(path, user=user, method="POST", has_body=True, read_body=read, **length)


async def shared(world: World) -> None:
    """An account of which another tenant holds 13 cpu, and feed's web wants more than is left."""
    await world.create("FederatedQuota", "", "shared", ACCOUNT)
    other = f"{CANARY}-ns"
    await world.namespace(other)
    spec = worlds.service(13, "1", project="feed")
    await world.create("PinterestService", other, f"{CANARY}-app", spec, labels={"team": CANARY})
    policy = {"clusters": {"names": ["a"]}, "workloads": {"matchLabels": {"team": CANARY}}}
    await world.create("PlacementPolicy", other, f"{CANARY}-rule", policy)
    await world.settle()
    await world.create("PinterestService", "feed", "web", worlds.service(9, "1", project="feed"))
    await world.settle()
    await grant(world, "owner", "feed", PSVC)
    await grant(world, "writer", "feed", WRITER)


def test_an_owner_is_told_why_and_nothing_of_others() -> None:
    async def scenario(world: World) -> None:
        await shared(world)
        answer = await port_of(world).answer(request(f"{WEB}/explain", user="owner"))
        assert answer.status == 200
        found = asking.body(answer)
        assert found["reason"] == "QuotaExceeded"
        assert found["verdict"]["placed"] == 7
        assert found["missing"] == 2
        assert [row["cluster"] for row in found["clusters"]] == ["a", "b", "c"]
        assert "cpu request of container" in str(found["remedies"])  # what he can change himself
        text = answer.body.decode()
        assert CANARY not in text
        assert (
            "kubectl patch federatedquota" not in text
        )  # of which the new limit would tell what others hold
        assert "22" not in {word.strip('".,()') for word in text.split()}

    worlds.play(scenario)


def test_a_fix_in_a_policy_of_his_own_namespace_is_told() -> None:
    async def scenario(world: World) -> None:
        await grant(world, "owner", "feed", PSVC)
        policy = {"clusters": {"names": ["a"]}, "division": {"maxPerCluster": 1}}
        await world.create("PlacementPolicy", "feed", "own", policy)
        await world.create(
            "PinterestService", "feed", "api", worlds.service(2, "10m", project="feed")
        )
        await world.settle()
        one = "/v1/namespaces/feed/pinterestservices/api"
        found = asking.body(await port_of(world).answer(request(f"{one}/explain", user="owner")))
        assert (
            found["policy"] | {"name": "own", "namespace": "feed", "origin": "match"}
            == found["policy"]
        )
        assert any(
            "kubectl patch placementpolicy own -n feed" in str(fix["commands"])
            for fix in found["remedies"]
        )

    worlds.play(scenario)


def test_the_owner_s_answer_is_the_operator_s_where_it_concerns_him() -> None:
    async def scenario(world: World) -> None:
        await shared(world)
        told = asking.body(await port_of(world).answer(request(f"{WEB}/explain", user="owner")))
        known = await explain.gathered(
            world.host, registry.KINDS["PinterestService"], "feed", "web"
        )
        same = (
            "workload",
            "verdict",
            "reason",
            "message",
            "missing",
            "policy",
            "request",
            "decision",
        )
        assert {name: told[name] for name in same} == json.loads(
            json.dumps({name: known[name] for name in same})
        )
        assert [row["verdict"] for row in told["clusters"]] == [
            row["verdict"] for row in known["clusters"]
        ]

    worlds.play(scenario)


WHO: dict[str, tuple[Callable[[], Incoming], int]] = {
    "explain without a token": (lambda: request(f"{WEB}/explain"), 401),
    "explain of another namespace": (lambda: request(f"{WEB}/explain", user="other"), 403),
    "explain with get": (lambda: request(f"{WEB}/explain", user="owner"), 200),
    "explain of what is not there": (lambda: request(f"{WEB}-x/explain", user="owner"), 404),
    "explain with a body": (lambda: sending(f"{WEB}/explain", b"{}"), 405),
    "place without create": (lambda: sending(PLACE, b"{}"), 403),
    "place by GET": (lambda: request(PLACE, user="writer"), 405),
    "place without a body": (lambda: sending(PLACE, b"", "writer"), 422),
    "place what is no JSON": (lambda: sending(PLACE, b"\x00{", "writer"), 422),
    "place in another namespace": (
        lambda: sending(PLACE.replace("feed", "ads"), b"{}", "writer"),
        403,
    ),
    "place another kind": (
        lambda: sending(PLACE, _body({"kind": "PinterestJobSet"}), "writer"),
        422,
    ),
    "place two": (lambda: sending(PLACE, _body(manifest(), manifest("api")), "writer"), 400),
    "place without a name": (
        lambda: sending(PLACE, _body({**manifest(), "metadata": {}}), "writer"),
        422,
    ),
    "place another namespace": (lambda: sending(PLACE, _body(_elsewhere()), "writer"), 400),
    "place a wrong field": (
        lambda: sending(PLACE, _body({**manifest(), "spec": {"replicas": -1}}), "writer"),
        422,
    ),
    "place too much": (lambda: sending(PLACE, b" " * (advising.BODY_MAX_BYTES + 1), "writer"), 400),
}


def _body(*objs: dict[str, Any]) -> bytes:
    return json.dumps(
        objs[0] if len(objs) == 1 else {"apiVersion": "v1", "kind": "List", "items": objs}
    ).encode()


def _elsewhere() -> dict[str, Any]:
    return {**manifest(), "metadata": {"name": "web", "namespace": "ads"}}


def test_who_may_not_and_what_cannot_be_read_gets_a_sentence() -> None:
    async def scenario(world: World) -> None:
        await shared(world)
        await grant(world, "other", "ads", WRITER)
        port, found = port_of(world), {}
        for name, (asked, _) in WHO.items():
            answer = await port.answer(asked())
            found[name] = answer.status
            assert answer.status == 200 or len(asking.body(answer)["message"]) > 10, name
            assert CANARY not in answer.body.decode()
        assert found == {name: wanted for name, (_, wanted) in WHO.items()}

    worlds.play(scenario)


def test_a_body_is_read_only_once_it_is_known_that_its_sender_may() -> None:
    async def scenario(world: World) -> None:
        await shared(world)
        read: list[int] = []

        async def reading(most: int) -> bytes:
            read.append(most)
            return b"{}"

        for user in ("", "owner"):
            asked = request(PLACE, user=user, method="POST", has_body=True, read_body=reading)
            assert (await port_of(world).answer(asked)).status in (401, 403)
        assert read == []

    worlds.play(scenario)


def test_what_is_too_much_to_compute_is_put_off() -> None:
    async def scenario(world: World) -> None:
        await shared(world)
        troubles = ((Overloaded(), 429), (Full(), 429), (TimeoutError(), 503), (Broken(), 503))
        for trouble, wanted in troubles:

            async def compute(_: object, trouble: Exception = trouble) -> Any:
                raise trouble

            answer = await port_of(world, compute=compute).answer(
                request(f"{WEB}/explain", user="owner")
            )
            assert (answer.status, "Retry-After" in answer.headers) == (wanted, True)

    worlds.play(scenario)


def test_the_limit_of_one_user_is_of_each_class() -> None:
    async def scenario(world: World) -> None:
        await shared(world)
        await grant(world, "both", "feed", {**PSVC, "verbs": ["get", "create"]}, asking.PODS)
        go, computing = asyncio.Event(), asyncio.Event()

        async def compute(work: Callable[[Callable[[], bool]], Any]) -> Any:
            computing.set()
            await go.wait()
            return await asking.at_once(work)

        port = port_of(world, compute=compute, options=QueryOptions(requests_of_one_user=1))
        first = asyncio.create_task(port.answer(request(f"{WEB}/explain", user="both")))
        await computing.wait()

        same = await port.answer(sending(PLACE, _body(manifest("api")), "both"))
        other = await port.answer(request(f"{WEB}/pods", user="both"))

        go.set()
        assert (same.status, other.status, (await first).status) == (429, 200, 200)

    worlds.play(scenario)


def test_a_manifest_is_placed_beside_what_runs_and_nothing_is_written() -> None:
    async def scenario(world: World) -> None:
        await shared(world)
        await asyncio.sleep(30)
        before = (world.count(), await world.decisions())
        answer = await port_of(world).answer(
            sending(PLACE, _body(manifest("api", 5, cpu="1")), "writer")
        )
        assert answer.status == 200
        spec = asking.body(answer)["spec"]
        assert (spec["wanted"], spec["placed"], spec["reason"]) == (5, 0, "QuotaExceeded")
        assert CANARY not in answer.body.decode()
        assert (world.count(), await world.decisions()) == before
        more = {"spec": {"tiers": {"OnDemand": {"max": {"cpu": "30"}}}}}
        await world.patch("FederatedQuota", "", "shared", more)
        await world.settle()
        free = await port_of(world).answer(
            sending(PLACE, _body(manifest("api", 5, cpu="1")), "writer")
        )
        assert asking.body(free)["spec"]["placed"] == 5

    worlds.play(scenario)


def test_an_edit_of_what_runs_is_tried_as_an_edit() -> None:
    async def scenario(world: World) -> None:
        await shared(world)
        answer = await port_of(world).answer(
            sending(PLACE, _body(manifest("web", 9, cpu="3")), "writer")
        )
        spec = asking.body(answer)["spec"]
        assert spec["reason"] == "QuotaExceeded"
        assert spec["inForce"] == {"generation": 1, "heldBack": 2}
        assert sum(share["replicas"] for share in spec["shares"]) == 7  # what runs goes on
        fewer = await port_of(world).answer(
            sending(PLACE, _body(manifest("web", 2, cpu="1")), "writer")
        )
        assert asking.body(fewer)["spec"]["placed"] == 2

    worlds.play(scenario)


def test_an_owner_is_told_when_his_job_may_start_by_how_long_those_of_others_ran() -> None:
    """No job says how long it runs: that is learned from those that have ended."""
    one = "/v1/namespaces/feed/pinterestjobsets/waits"

    async def scenario(world: World) -> None:
        await grant(world, "owner", "feed", PSVC)
        await world.namespace(CANARY)
        for number in range(ENOUGH):
            run_s = {"embedded.federator/run-seconds": str(100 + number)}
            spec = worlds.jobset(1, 1, "100m", annotations=run_s)
            await world.create("PinterestJobSet", CANARY, f"ran-{number}", spec)
        await asyncio.sleep(200.0)
        forever = {"embedded.federator/run-seconds": "9999"}
        full = worlds.jobset(12, 12, "8", annotations=forever)
        await world.create("PinterestJobSet", CANARY, "runs", full)
        await asyncio.sleep(20.0)
        spec = worlds.jobset(1, 1, "8", annotations=forever)
        await world.create("PinterestJobSet", "feed", "waits", spec)
        await asyncio.sleep(20.0)

        found = asking.body(await port_of(world).answer(request(f"{one}/explain", user="owner")))

        assert found["reason"] == "InsufficientCapacity"
        assert found["waits"]["position"] == 1
        assert found["waits"]["from"] < found["waits"]["to"]
        assert CANARY not in json.dumps(found)

    worlds.play(scenario)
