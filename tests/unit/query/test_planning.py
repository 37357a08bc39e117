"""`POST /v1/plan`: who may ask what edits come to, what they are shown, and that nothing is
written.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from federator.hub.query import planning, router
from federator.kinds import registry
from federator.kube.tlsserver import Outgoing
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.asking import grant, grant_everywhere, port_of
from tests.unit.query.test_advising import CANARY, manifest, sending, shared

ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
WORKLOADS = {
    "apiGroups": ["pinterest.com"],
    "resources": ["*"],
    "verbs": ["get", "list", "create", "update", "delete"],
}
SCALED = {"kind": "PinterestService", "namespace": "feed", "name": "web", "count": 4}


async def ask(world: World, user: str, asked: Mapping[str, Any]) -> Outgoing:
    return await port_of(world).answer(sending("/v1/plan", json.dumps(asked).encode(), user))


async def granted(world: World) -> None:
    await shared(world)
    await grant(world, "operator", "feed", WORKLOADS)
    await grant_everywhere(world, "operator", ALL)
    await grant(world, "team", "feed", WORKLOADS)


def quota(cpu: str) -> dict[str, Any]:
    tiers = {"OnDemand": {"max": {"cpu": cpu}}}
    return {
        "apiVersion": registry.KINDS["FederatedQuota"].api_version,
        "kind": "FederatedQuota",
        "metadata": {"name": "shared"},
        "spec": {"projects": ["feed"], "tiers": tiers},
    }


def mirror() -> dict[str, Any]:
    overrides = [{"clusters": {"names": ["a"]}, "image": {"registry": "mirror.example"}}]
    return {
        "apiVersion": registry.KINDS["PlacementPolicy"].api_version,
        "kind": "PlacementPolicy",
        "metadata": {"name": "mirror", "namespace": "feed"},
        "spec": {"overrides": overrides},
    }


def test_an_operator_sees_every_workload_and_nothing_is_written() -> None:
    async def scenario(world: World) -> None:
        await granted(world)
        await asyncio.sleep(30)
        before = (world.count(), await world.decisions())

        answer = await ask(world, "operator", {"applied": [quota("30")], "lost": ["a"]})

        document = asking.body(answer)
        assert answer.status == 200, document
        rows = {row["workload"]: row for row in document["workloads"]}
        assert rows["PinterestService/feed/web"]["short"] == 0
        assert rows["PinterestService/feed/web"]["shortBefore"] == 2
        assert rows[f"PinterestService/{CANARY}-ns/{CANARY}-app"]["leaves"] == {"a": 13}
        assert document["accounts"]
        assert document["verdict"] == 11
        assert (world.count(), await world.decisions()) == before

    worlds.play(scenario)


def test_a_team_sees_its_own_workloads_and_sums_of_the_others() -> None:
    async def scenario(world: World) -> None:
        await granted(world)
        scaled = {**SCALED, "count": 1}

        answer = await ask(world, "team", {"scaled": [scaled]})

        document = asking.body(answer)
        assert answer.status == 200, document
        (row,) = document["workloads"]
        assert (row["workload"], sum(row["after"].values())) == ("PinterestService/feed/web", 1)
        assert "accounts" not in document
        assert CANARY not in answer.body.decode()

    worlds.play(scenario)


def test_workloads_of_others_are_counted_and_not_named() -> None:
    async def scenario(world: World) -> None:
        await granted(world)
        rights = {**ALL, "apiGroups": ["federation.pinterest.com"], "verbs": ["update"]}
        await grant_everywhere(world, "team", rights)
        scaled = {**SCALED, "count": 1}

        answer = await ask(world, "team", {"scaled": [scaled], "lost": ["a"]})

        document = asking.body(answer)
        assert answer.status == 200, document
        assert document["others"]["workloads"] == 1
        assert document["others"]["short"] == 13
        assert CANARY not in answer.body.decode()

    worlds.play(scenario)


def test_each_edit_needs_the_right_to_make_it() -> None:
    async def scenario(world: World) -> None:
        await granted(world)
        other = {"kind": "PinterestService", "namespace": f"{CANARY}-ns", "name": f"{CANARY}-app"}
        refused: dict[str, dict[str, Any]] = {
            "a quota": {"applied": [quota("30")]},
            "a cluster": {"lost": ["a"]},
            "clusters by label": {"lost": ["zone=a"]},
            "a workload of others": {"scaled": [{**other, "count": 1}]},
            "its deletion": {"deleted": [other]},
        }

        for name, asked in refused.items():
            answer = await ask(
                world, "team", {**asked, "scaled": [SCALED, *asked.get("scaled", ())]}
            )
            assert answer.status == 403, name
            assert "you cannot" in asking.body(answer)["message"]

    worlds.play(scenario)


def test_bad_bodies_are_refused_in_words() -> None:
    wrong: dict[str, tuple[Any, int, str]] = {
        "a list": ([], 400, "must be an object with applied"),
        "an unknown field": ({"apply": []}, 400, "there is no apply"),
        "nothing": ({}, 422, "has no edit"),
        "no list": ({"lost": "a"}, 400, "lost: must be a list"),
        "a kind that is none": (
            {"deleted": [{"kind": "Pod", "name": "x", "namespace": "feed"}]},
            422,
            "there is no kind Pod",
        ),
        "no namespace": (
            {"deleted": [{"kind": "PinterestService", "name": "x"}]},
            422,
            "deleted[0].namespace: is required",
        ),
        "a wrong field": (
            {"applied": [{**manifest(), "spec": {"replicas": -1}}]},
            422,
            "applied[0].spec",
        ),
        "a namespace that is none": (
            {"scaled": [{**SCALED, "namespace": "nowhere"}]},
            404,
            'namespace "nowhere" not found',
        ),
        "what is not there": (
            {"deleted": [{**SCALED, "name": "none"}]},
            422,
            "there is none in namespace feed to delete",
        ),
        "a cluster that is none": ({"lost": ["none"]}, 422, "there is no cluster none to lose"),
        "a count that is none": (
            {"scaled": [{**SCALED, "count": "many"}]},
            422,
            "scaled[0].count: must be a whole number",
        ),
        "too many": ({"lost": ["a"] * (planning.OBJECTS_MAX + 1)}, 400, "edits at most"),
    }

    async def scenario(world: World) -> None:
        await granted(world)
        for name, (body, status, message) in wrong.items():
            answer = await ask(world, "operator", body)
            assert (name, answer.status) == (name, status), answer.body
            assert message in asking.body(answer)["message"], name
        answer = await port_of(world).answer(sending("/v1/plan", b"\x00{", "operator"))
        assert answer.status == 400

    worlds.play(scenario)


def test_a_large_body_is_read_only_if_the_caller_may_list_workloads() -> None:
    async def scenario(world: World) -> None:
        await granted(world)
        await grant(world, "anybody", "feed", {**WORKLOADS, "verbs": ["get"]})
        port, read = port_of(world), list[str]()
        asked = json.dumps({"scaled": [SCALED]}).encode()

        async def status(user: str, *, length: int | None, namespace: str = "") -> int:
            async def body(_: int) -> bytes:
                read.append(user)
                return asked

            query = f"namespace={namespace}" if namespace else ""
            more: dict[str, Any] = {"body_bytes": length, "read_body": body, "query": query}
            asked_by = asking.request("/v1/plan", user=user, method="POST", has_body=True, **more)
            answer = await port.answer(asked_by)
            return answer.status

        large = router.LARGE_BYTES + 1
        assert [
            await status("anybody", length=large),
            await status("anybody", length=None),
            await status("team", length=large, namespace=f"{CANARY}-ns"),
            await status("team", length=large),
        ] == [403] * 4
        assert read == []
        assert [
            await status("team", length=large, namespace="feed"),
            await status("operator", length=None),
        ] == [200, 200]
        assert await status("anybody", length=router.LARGE_BYTES) == 403  # after the body was read
        assert read == ["team", "operator", "anybody"]

    worlds.play(scenario)


def test_the_leader_and_a_dump_come_to_the_same() -> None:
    """The hub's memory and the host's objects are two ways to the same plan."""
    from federator.advice.plans import asked as asked_of
    from federator.hub.placing import offline

    async def scenario(world: World) -> None:
        await granted(world)
        await asyncio.sleep(90)  # the copies of the reports on the host are as new as the reports
        objs: list[Any] = []
        for kind in registry.KINDS.values():
            if kind.model is not None or kind.verbs is not None:
                objs += (await world.host.list(kind.api_version, kind.plural)).items
        dump = offline.read(objs, as_of=world.federation.clock.now())
        asked = {
            "applied": [quota("30"), mirror()],
            "deleted": [],
            "lost": ["b"],
            "scaled": [],
            "losses": False,
        }

        live = asking.body(await ask(world, "operator", asked))
        on_dump = json.loads(json.dumps(asked_of.document_of(dump, asked, map)))

        rows = {row["workload"]: row for row in live["workloads"]}
        assert rows["PinterestService/feed/web"]["restarted"], "other images in cluster a"
        assert live == on_dump

    worlds.play(scenario)
