"""Who gets an answer from the query port, and what it costs: on embedded servers, virtual time."""

import asyncio
import dataclasses
import logging
import re
from collections import Counter
from typing import Any

import pytest

from federator.hub.query import questions
from federator.hub.query.options import QueryOptions
from federator.kinds import registry
from federator.kube.metrics import Metrics
from federator.kube.tlsserver import Incoming
from federator.model.steps import ObjectRef
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.asking import LOGS, PODS, PSVC, WEB, grant, port_of, request

EVERYTHING = (PSVC, PODS, LOGS)


async def web(world: World, replicas: int = 6) -> None:
    await world.create("PinterestService", "feed", "web", worlds.service(replicas))
    await world.settle()


# Who may ask


CALLERS: dict[str, tuple[Incoming, int]] = {
    "nobody": (request(f"{WEB}/pods"), 401),
    "a token that the host does not know": (request(f"{WEB}/pods", user="stranger"), 401),
    "a name and a password": (request(f"{WEB}/pods", authorization="Basic YWxpY2U6c2VjcmV0"), 401),
    "a token that is empty": (request(f"{WEB}/pods", authorization="Bearer "), 401),
    "a token of other bytes": (request(f"{WEB}/pods", authorization="Bearer \udcff"), 401),
    "a user without any right": (request(f"{WEB}/pods", user="nothing"), 403),
    "a user of another namespace": (request(f"{WEB}/pods", user="other"), 403),
    "pods without the workload": (request(f"{WEB}/pods", user="only-pods"), 403),
    "the workload without pods": (request(f"{WEB}/pods", user="only-psvc"), 403),
    "logs without pods/log": (request(f"{WEB}/logs", user="no-logs"), 403),
    "pods without pods/log": (request(f"{WEB}/pods", user="no-logs"), 200),
    "pods with all rights": (request(f"{WEB}/pods", user="owner"), 200),
    "logs with all rights": (request(f"{WEB}/logs", user="owner"), 200),
    "a client certificate": (request(f"{WEB}/pods", certificate="owner"), 200),
    "a client certificate without rights": (request(f"{WEB}/pods", certificate="nothing"), 403),
    "a token is what counts beside a certificate": (
        request(f"{WEB}/pods", user="nothing", certificate="owner"),
        403,
    ),
    "what is not there, without rights": (request(f"{WEB}-x/pods", user="nothing"), 403),
    "what is not there, with rights": (request(f"{WEB}-x/pods", user="owner"), 404),
}


def test_only_who_may_do_so_on_the_host_sees_pods_and_logs() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "nothing", "feed")
        await grant(world, "other", "ads", *EVERYTHING)
        await grant(world, "only-pods", "feed", PODS, LOGS)
        await grant(world, "only-psvc", "feed", PSVC)
        await grant(world, "no-logs", "feed", PSVC, PODS)
        await grant(world, "owner", "feed", *EVERYTHING)
        metrics = Metrics()
        port = port_of(world, metrics=metrics)
        found = {name: (await port.answer(asked)).status for name, (asked, _) in CALLERS.items()}
        assert found == {name: wanted for name, (_, wanted) in CALLERS.items()}

        # Whoever is not known has asked no question yet.
        expected = Counter(
            ("other" if code == 401 else asked.path.rpartition("/")[2], str(code))
            for asked, code in CALLERS.values()
        )
        shown = metrics.render().decode()
        counted = re.findall(
            r'^federator_query_requests_total\{code="(\d+)",question="(\w+)"\} (\S+)$', shown, re.M
        )
        assert {(asked, code): float(count) for code, asked, count in counted} == expected

    worlds.play(scenario)


def test_a_right_that_is_taken_away_counts_with_the_next_request() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", *EVERYTHING)
        port, asked = port_of(world), request(f"{WEB}/pods", user="owner")
        assert (await port.answer(asked)).status == 200
        ref = ObjectRef(asking.RBAC, "rolebindings", "feed", "owner", "RoleBinding")
        await world.host.delete(ref, uid=(await world.host.get(ref))["metadata"]["uid"])
        refused = await port.answer(asked)
        assert refused.status == 403
        assert asking.body(refused)["message"] == (
            'user "owner" cannot get pinterestservices.pinterest.com and list pods in the '
            'namespace "feed" of the host'
        )

    worlds.play(scenario)


FOR_READERS = {
    "apiGroups": ["federation.pinterest.com"],
    "resources": ["readers"],
    "verbs": ["ask"],
}


def test_a_request_to_act_as_another_user_needs_the_right_to_ask_for_readers() -> None:
    """It would be answered with the rights of the user behind it."""

    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", *EVERYTHING)
        await grant(world, "deployers", "feed")
        port = port_of(world)

        async def asked(user: str, *acts_as: str) -> Any:
            given = request(f"{WEB}/pods", user=user)
            given = dataclasses.replace(given, impersonates=True, acts_as=acts_as)
            return await port.answer(given)

        refused = await asked("owner", "owner")
        assert refused.status == 403
        message = 'user "owner" cannot ask readers.federation.pinterest.com on the host'
        assert asking.body(refused)["message"] == message
        await grant(world, "dashboard", "feed")
        await asking.grant_everywhere(world, "dashboard", FOR_READERS)
        assert (await asked("dashboard", "owner")).status == 200
        stranger = await asked("dashboard", "stranger", "deployers")
        assert asking.body(stranger)["message"].startswith('user "stranger" cannot get')
        for named in (
            ("",),
            ("system:admin",),
            ("System:admin",),
            ("owner", "system:masters"),
            ("owner", ""),
            ("own\ner",),
        ):
            answer = await asked("dashboard", *named)
            assert answer.status == 403, named
            assert "of system:" in asking.body(answer)["message"]

    worlds.play(scenario)


def test_no_token_shows_in_a_log_an_answer_or_a_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", *EVERYTHING)
        port = port_of(world)
        for asked in (
            request(f"{WEB}/pods", user="owner"),
            request(f"{WEB}/pods", user="stranger"),
        ):
            answer = await port.answer(asked)
            assert "TOKEN-OF" not in repr(asked) + answer.body.decode()
        await world.cut("host", process="query")
        down = await port.answer(request(f"{WEB}/pods", user="a-third"))
        assert down.status == 503
        assert "TOKEN-OF" not in down.body.decode()

    worlds.play(scenario)
    assert "pods of pinterestservices feed/web for owner" in caplog.text
    assert "TOKEN-OF" not in caplog.text


def test_the_host_is_not_asked_about_the_same_token_again_and_again() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "nothing", "feed")
        port = port_of(world)
        for user in ("nothing", "stranger"):
            before = world.writes["query", "host", "POST", "tokenreviews"]
            for _ in range(5):
                await port.answer(request(f"{WEB}/pods", user=user))
            assert world.writes["query", "host", "POST", "tokenreviews"] == before + 1
            await asyncio.sleep(60)
            await port.answer(request(f"{WEB}/pods", user=user))
            assert world.writes["query", "host", "POST", "tokenreviews"] == before + 2

    worlds.play(scenario)


# What is answered


def test_the_pods_of_a_workload_are_those_that_its_slices_made_and_no_others() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await world.create("PinterestService", "feed", "api", worlds.service(3))
        await world.create("PinterestService", "ads", "web", worlds.service(3))
        await world.settle()
        # Somebody in a member runs a pod of their own under the same label.
        meta = {
            "name": "web-guest",
            "namespace": "feed",
            "labels": {"pinterest.com/service": "web"},
        }
        spec = {"containers": [{"name": "app", "image": "app:1"}]}
        guest = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await world.member("a").create(ObjectRef("v1", "pods", "feed", "web-guest", "Pod"), guest)
        await grant(world, "owner", "feed", *EVERYTHING)
        found = asking.body(await port_of(world).answer(request(f"{WEB}/pods", user="owner")))
        wanted = set()
        for name in "abc":
            of_it = await world.member(name).list(
                "v1", "pods", "feed", label_selector="pinterest.com/service=web"
            )
            wanted |= {
                (name, pod["metadata"]["name"])
                for pod in of_it.items
                if pod["metadata"]["name"] != "web-guest"
            }
        assert {(row["cluster"], row["name"]) for row in found["pods"]} == wanted
        assert len(wanted) == 6
        assert {row["status"] for row in found["pods"]} == {"Running"}
        assert [row["cluster"] for row in found["clusters"]] == ["a", "b", "c"]
        only = asking.body(
            await port_of(world).answer(request(f"{WEB}/pods", user="owner", query="cluster=b"))
        )
        assert {row["cluster"] for row in only["pods"]} == {"b"}
        nowhere = await port_of(world).answer(
            request(f"{WEB}/pods", user="owner", query="cluster=z")
        )
        assert nowhere.status == 404
        assert (
            "z has no part of pinterestservice web; it is in a, b, c"
            in asking.body(nowhere)["message"]
        )

    worlds.play(scenario)


def test_shards_and_logs_of_a_job_set_are_found_by_their_number() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestJobSet", "feed", "crunch", worlds.jobset(12, 6))
        await world.settle()
        await grant(world, "owner", "feed", *EVERYTHING)
        one = "/v1/namespaces/feed/pinterestjobsets/crunch"
        found = asking.body(await port_of(world).answer(request(f"{one}/pods", user="owner")))
        assert sorted(row["shard"] for row in found["pods"]) == list(range(12))
        logs = asking.body(
            await port_of(world).answer(request(f"{one}/logs", user="owner", query="shard=7"))
        )
        assert [entry["shard"] for entry in logs["logs"]] == [7]
        assert logs["logs"][0]["text"].startswith("embedded container shard of pod crunch-")

    worlds.play(scenario)


def test_logs_are_bounded_by_lines_and_pods_and_every_cluster_has_its_turn() -> None:
    async def scenario(world: World) -> None:
        spec = worlds.service(6)
        pace = {"embedded.federator/log-every-seconds": "1"}
        spec["template"]["metadata"] = {"annotations": pace}
        await world.create("PinterestService", "feed", "web", spec)
        await world.settle()
        await asyncio.sleep(60)
        await grant(world, "owner", "feed", *EVERYTHING)
        port = port_of(world, options=QueryOptions(log_pods_max=3))
        found = asking.body(await port.answer(request(f"{WEB}/logs", user="owner", query="tail=4")))
        assert [entry["cluster"] for entry in found["logs"]] == ["a", "b", "c"]
        assert [len(entry["text"].splitlines()) for entry in found["logs"]] == [4, 4, 4]
        assert found["leftOut"] == 3
        few = port_of(world, options=QueryOptions(pods_max=3))
        rows = asking.body(await few.answer(request(f"{WEB}/pods", user="owner")))
        assert [row["cluster"] for row in rows["pods"]] == ["a", "b", "c"]
        assert [row["more"] for row in rows["clusters"]] == [True, True, True]
        small = port_of(world, options=QueryOptions(log_bytes_max=6 * 1024))
        cut = asking.body(
            await small.answer(request(f"{WEB}/logs", user="owner", query="tail=10000"))
        )
        assert all(len(entry["text"]) <= 1024 and entry["cut"] for entry in cut["logs"])
        wrong = asking.body(
            await port.answer(request(f"{WEB}/logs", user="owner", query="container=nope"))
        )
        assert {entry["reason"].partition(" for")[0] for entry in wrong["logs"]} == {
            "container nope is not valid"
        }

    worlds.play(scenario)


def test_a_member_that_is_away_is_a_row_and_the_others_are_shown() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", *EVERYTHING)
        await world.cut("b")
        port = port_of(world)
        soon = asking.body(await port.answer(request(f"{WEB}/pods", user="owner")))
        assert {row["cluster"] for row in soon["pods"]} == {"a", "c"}
        assert soon["clusters"][1] == {
            "cluster": "b",
            "answered": False,
            "reason": "cannot be reached",
        }
        await asyncio.sleep(60)
        later = asking.body(await port.answer(request(f"{WEB}/pods", user="owner")))
        assert {row["cluster"] for row in later["pods"]} == {"a", "c"}
        assert later["clusters"][1]["reason"].startswith("is Unreachable since ")

    worlds.play(scenario)


def test_a_member_that_is_slow_costs_the_others_nothing() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", *EVERYTHING)
        world.hold_up("b", "/pods", 60)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        found = asking.body(await port_of(world).answer(request(f"{WEB}/pods", user="owner")))
        assert loop.time() - begun < 9
        assert {row["cluster"] for row in found["pods"]} == {"a", "c"}
        assert found["clusters"][1]["reason"] in ("did not answer within 8 s", "cannot be reached")

    worlds.play(scenario)


def test_an_object_of_the_same_name_that_is_not_this_workload_s_is_not_looked_into() -> None:
    async def scenario(world: World) -> None:
        meta = {"apiVersion": "pinterest.com/v1beta1", "kind": "PinterestService"}
        await world.member("a").create(
            ObjectRef("v1", "namespaces", "", "feed", "Namespace"),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}},
        )
        ref = ObjectRef(
            "pinterest.com/v1beta1", "pinterestservices", "feed", "web", "PinterestService"
        )
        theirs = {
            **meta,
            "metadata": {"name": "web", "namespace": "feed"},
            "spec": worlds.service(2),
        }
        await world.member("a").create(ref, theirs)
        await world.create("PinterestService", "feed", "web", worlds.service(6))
        await asyncio.sleep(30)
        await grant(world, "owner", "feed", *EVERYTHING)
        found = asking.body(await port_of(world).answer(request(f"{WEB}/pods", user="owner")))
        assert "a" not in {row["cluster"] for row in found["pods"]}
        rows = {row["cluster"]: row for row in found["clusters"]}
        assert rows["a"]["reason"] == "holds another object of this name"

    worlds.play(scenario)


# Bounds


BAD: dict[str, tuple[Incoming, int, str]] = {
    "a write": (request(f"{WEB}/pods", user="owner", method="POST"), 405, "pods is asked by GET"),
    "a body": (request(f"{WEB}/pods", user="owner", has_body=True), 405, "GET without a body"),
    "another path": (request("/v1/secrets", user="owner"), 404, "no such question"),
    "a long path": (request("/v1/" + "a" * 2000, user="owner"), 404, "no such question"),
    "a kind that is none": (
        request("/v1/namespaces/feed/secrets/x/pods", user="owner"),
        404,
        "of this kind",
    ),
    "a name with a slash": (
        request("/v1/namespaces/feed/deployments/a%2Fb/pods", user="owner"),
        404,
        "this name",
    ),
    "an unknown parameter": (
        request(f"{WEB}/pods", user="owner", query="follow=true"),
        400,
        "no such parameter",
    ),
    "a parameter twice": (
        request(f"{WEB}/logs", user="owner", query="tail=1&tail=2"),
        400,
        "given twice",
    ),
    "too many lines": (
        request(f"{WEB}/logs", user="owner", query="tail=10001"),
        400,
        "from 0 to 10000",
    ),
    "no number": (request(f"{WEB}/logs", user="owner", query="tail=-1"), 400, "whole number"),
    "no flag": (request(f"{WEB}/logs", user="owner", query="previous=1"), 400, "true or false"),
    "a selector smuggled in": (
        request(f"{WEB}/pods", user="owner", query="pod=a%20b"),
        400,
        "must be a name",
    ),
    "a long query": (
        request(f"{WEB}/pods", user="owner", query="pod=" + "a" * 5000),
        400,
        "longer than",
    ),
}


def test_what_cannot_be_asked_is_refused_in_words() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", *EVERYTHING)
        port = port_of(world)
        for name, (asked, status, words) in BAD.items():
            answer = await port.answer(asked)
            said = asking.body(answer)
            assert (name, answer.status, said["kind"]) == (name, status, "Status")
            assert words in said["message"], name

    worlds.play(scenario)


def test_one_user_does_not_take_every_place_for_large_bodies() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        for user in ("greedy", "modest"):
            await grant(world, user, "feed", *EVERYTHING)
        port, reading, go = port_of(world), asyncio.Queue[str](), asyncio.Event()

        def large(user: str) -> Incoming:
            async def read(_: int) -> bytes:
                reading.put_nowait(user)
                await go.wait()
                return b"{}"

            given: dict[str, Any] = {"has_body": True, "body_bytes": 2, "read_body": read}
            return request("/v1/plan", user=user, method="POST", **given)

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(port.answer(large("greedy"))) for _ in range(2)]
            assert [await reading.get(), await reading.get()] == ["greedy", "greedy"]
            refused = await port.answer(large("greedy"))
            asked.append(group.create_task(port.answer(large("modest"))))
            assert await reading.get() == "modest"
            go.set()

        assert refused.status == 429
        assert 429 not in {task.result().status for task in asked}

    worlds.play(scenario)


def test_one_user_does_not_keep_the_others_out_and_all_together_are_bounded() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        for user in ("greedy", "modest"):
            await grant(world, user, "feed", *EVERYTHING)
        port = port_of(world, options=QueryOptions(requests_of_one_user=2))
        warm = [
            await port.answer(request(f"{WEB}/pods", user=user)) for user in ("greedy", "modest")
        ]
        assert [answer.status for answer in warm] == [200, 200]
        users = ("greedy", "greedy", "greedy", "greedy", "modest")
        found = await asyncio.gather(
            *(port.answer(request(f"{WEB}/pods", user=user)) for user in users)
        )
        assert sorted(answer.status for answer in found[:4]) == [200, 200, 429, 429]
        assert found[4].status == 200
        assert {answer.headers.get("Retry-After", "") for answer in found} == {"", "1"}
        small = port_of(world, options=QueryOptions(requests_at_once=1))
        two = await asyncio.gather(
            *(small.answer(request(f"{WEB}/pods", user="modest")) for _ in range(2))
        )
        assert sorted(answer.status for answer in two) == [200, 429]
        assert {asking.body(answer).get("message") for answer in two} == {
            None,
            "too many requests at once",
        }
        assert (await port.answer(request(f"{WEB}/pods", user="greedy"))).status == 200

    worlds.play(scenario)


def test_every_question_takes_rights_in_its_namespace_on_its_cluster_or_to_list_all() -> None:
    for route in questions.ROUTES:
        if route.by_object:
            continue  # the answer asks for the rights of each object (`test_planning`)
        rights = [str(right) for right in route.rights]
        assert rights, route.path
        if "{namespace}" not in route.path and "{name}" not in route.path:
            assert "list memberclusters.federation.pinterest.com" in rights
            assert {right.verb for right in route.rights} == {"list"}
        elif "{namespace}" not in route.path:
            assert rights == ["get {plural}.{group}"]
        assert {right.verb for right in route.rights} <= {"get", "list"} | (
            {"create"} if route.body_max else set()
        )
        assert route.summary.endswith(".")


# Who leads


def test_a_standby_names_the_leader_to_those_it_knows_and_to_nobody_else() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", *EVERYTHING)
        state = world.federation.hub.state
        port = port_of(world, leader="hub-1_abc")
        state.leader_gate = lambda: False
        answer = await port.answer(request(f"{WEB}/pods", user="owner"))
        assert (answer.status, asking.body(answer)["reason"]) == (503, "NotLeading")
        assert asking.body(answer)["message"] == "this hub does not lead; hub-1_abc leads"
        stranger = await port.answer(request(f"{WEB}/pods"))
        assert stranger.status == 401
        assert b"hub-1" not in stranger.body
        state.leader_gate, state.ready = (lambda: True), False
        early = await port.answer(request(f"{WEB}/pods", user="owner"))
        assert (early.status, asking.body(early)["message"]) == (
            503,
            "this hub has begun to lead and is not ready yet",
        )
        state.ready = True

    worlds.play(scenario)


def test_a_bug_of_ours_ends_one_request_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", *EVERYTHING)
        port = port_of(world)
        world.answer("host", "/web", 200, b'{"metadata": {"name": 7}, "secret": "canary"}')
        answer = await port.answer(request(f"{WEB}/pods", user="owner"))
        assert answer.status in (422, 500, 503)
        assert b"canary" not in answer.body
        world.clear()
        assert (await port.answer(request(f"{WEB}/pods", user="owner"))).status == 200

    worlds.play(scenario)


def test_a_member_that_refuses_or_talks_nonsense_is_a_row_without_its_words() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", *EVERYTHING)
        forbidden = b'{"kind":"Status","apiVersion":"v1","reason":"Forbidden","code":403,"message":"canary"}'
        world.answer("a", "/pods", 403, forbidden)
        world.answer("b", "/pods", 200, b"<html>canary</html>")
        answer = await port_of(world).answer(request(f"{WEB}/pods", user="owner"))
        rows = {row["cluster"]: row for row in asking.body(answer)["clusters"]}
        assert rows["a"]["reason"] == "does not allow it (list pods, get pods/log)"
        assert rows["b"]["reason"] == "gave no answer that can be read"
        assert b"canary" not in answer.body
        # A server that keeps to no page is not read to its end.
        world.answer(
            "b", "/pods", 200, b'{"kind": "Table", "rows": [' + b"{}," * 2_000_000 + b"{}]}"
        )
        flooded = asking.body(await port_of(world).answer(request(f"{WEB}/pods", user="owner")))
        assert flooded["clusters"][1]["reason"] == "gave no answer that can be read"
        assert {row["cluster"] for row in flooded["pods"]} == {"c"}

    worlds.play(scenario)


# What a workload became


def test_the_runtimes_of_pods_are_counted_by_cluster_for_those_who_may_list_pods() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", PSVC)
        port = port_of(world)
        refused = await port.answer(request(f"{WEB}/runtime", user="owner"))
        assert refused.status == 403
        await grant(world, "reader", "feed", PSVC, PODS)
        answered = asking.body(await port.answer(request(f"{WEB}/runtime", user="reader")))
        assert [row["cluster"] for row in answered["clusters"]] == ["a", "b", "c"]
        assert all(row["pods"] > 0 and row["registry"] == 0 for row in answered["clusters"])
        assert {row["reason"] for row in answered["pods"]} == {"no runtime of federator"}
        one = asking.body(
            await port.answer(request(f"{WEB}/runtime", user="reader", query="cluster=b"))
        )
        assert {row["cluster"] for row in one["pods"]} == {"b"}

    worlds.play(scenario)


def test_the_natives_of_a_workload_are_told_by_cluster_and_nothing_that_a_member_invents() -> None:
    async def scenario(world: World) -> None:
        await web(world)
        await grant(world, "owner", "feed", PSVC)
        port, asked = port_of(world), request(f"{WEB}/tree", user="owner")
        whole = asking.body(await port.answer(asked))
        assert {
            (row["cluster"], row["kind"], row["name"], row["health"]) for row in whole["natives"]
        } == {(cluster, "Deployment", "web", "Healthy") for cluster in "abc"}
        assert [row["cluster"] for row in whole["clusters"]] == ["a", "b", "c"]

        long, other = (
            [{"kind": f"K{n}", "name": "\x1b[31m"} for n in range(500)],
            "another workload",
        )
        ref = registry.KINDS["PinterestService"].ref("feed", "web")
        await world.federation.kill("member a")
        world.federation.members["a"].store.update(
            world.federation.members["a"].registry.get("pinterest.com", "pinterestservices"),
            {**(await world.member("a").get(ref)), "status": {"natives": long}},
        )
        lied = asking.body(
            await port.answer(request(f"{WEB}/tree", user="owner", query="cluster=a"))
        )
        assert (len(lied["natives"]), lied["clusters"][0]["more"]) == (64, True)
        assert "\x1b" not in lied["natives"][0]["name"]
        found = await world.member("b").get(ref)
        found["spec"]["slice"]["workloadUID"] = other
        world.federation.members["b"].store.update(
            world.federation.members["b"].registry.get("pinterest.com", "pinterestservices"), found
        )
        left = asking.body(await port.answer(asked))["natives"]
        assert "b" not in {row["cluster"] for row in left}

    worlds.play(scenario)
