"""`POST /v1/namespaces/NS/verdict`: who may ask, what it names of others, and that the hub then
decides the same.
"""

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest

from federator.advice.plans import verdicts as judging
from federator.advice.trials import never
from federator.hub.placing.offline import Situation
from federator.hub.query import advising, verdicts
from federator.hub.query.advising import Subject
from federator.hub.query.verdicts import VerdictMakers
from federator.hub.records import workloads
from federator.hub.snapshot.world import StateCopy as Memory
from federator.kinds import registry
from federator.kube.tlsserver import Outgoing
from federator.model.fleet import copies_of
from federator.model.names import WorkloadKey
from federator.scheduling.entry import Standing
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.asking import grant, port_of
from tests.unit.query.test_advising import CANARY, sending, shared

PATH = "/v1/namespaces/feed/verdict"
ASKS = {
    "apiGroups": ["federation.pinterest.com"],
    "resources": [verdicts.RESOURCE],
    "verbs": ["create"],
}
ALIKE_OF_100 = 99


def workload(name: str, replicas: int, cpu: str = "500m", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": registry.KINDS["PinterestService"].api_version,
        "kind": "PinterestService",
        "metadata": {"name": name, "namespace": "feed"},
        "spec": worlds.service(replicas, cpu, **spec),
    }


async def ask(world: World, *objects: Any, user: str = "gateway") -> Outgoing:
    body = json.dumps({"objects": objects}).encode()
    return await port_of(world).answer(sending(PATH, body, user))


async def asked_by_gateway(world: World) -> None:
    """The gateway has its right, and the hub knows its members."""
    await grant(world, "gateway", "feed", ASKS)
    await asyncio.sleep(30)


def test_the_right_of_the_gateway_is_one_of_its_own() -> None:
    async def scenario(world: World) -> None:
        await asked_by_gateway(world)
        await grant(world, "owner", "feed", {**asking.PSVC, "verbs": ["get", "create"]})
        assert (await ask(world, workload("web", 3))).status == 200
        assert (await ask(world, workload("web", 3), user="owner")).status == 403
        assert (await ask(world, workload("web", 3), user="stranger")).status == 401
        elsewhere = {**workload("web", 3), "metadata": {"name": "web", "namespace": "ads"}}
        wrong: dict[str, tuple[Any, ...]] = {
            "of another namespace": (elsewhere,),
            "no workload": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},),
            "a field that is wrong": (workload("web", -1),),
            "nothing": (),
            "too many": tuple(workload(f"w{at}", 1) for at in range(33)),
        }
        for name, objects in wrong.items():
            assert (await ask(world, *objects)).status in (400, 422), name
        assert (await port_of(world).answer(sending(PATH, b"{", "gateway"))).status == 400
        nowhere = PATH.replace("feed", "nowhere")
        await asking.grant_everywhere(world, "gateway", ASKS)
        body = json.dumps({"objects": [elsewhere]}).encode()
        assert (await port_of(world).answer(sending(nowhere, body, "gateway"))).status == 404

    worlds.play(scenario)


def test_an_answer_names_no_workload_of_others() -> None:
    async def scenario(world: World) -> None:
        await shared(world)
        await asked_by_gateway(world)
        found = [
            await ask(world, workload("small", 1)),
            await ask(world, workload("large", 90, cpu="4")),
            await ask(world, workload("never", 1, cpu="900")),
            await ask(world, workload("one", 2), workload("two", 2, cpu="900")),
        ]
        answers = [asking.body(each) for each in found]
        assert answers[0]["workloads"][0]["queue"]["position"] > 0
        assert [each["verdict"] for each in answers][2:] == ["refused", "refused"]
        assert [row["verdict"] for row in answers[3]["workloads"]] == ["queued", "refused"]
        assert not [each for each in found if CANARY.encode() in each.body]

    worlds.play(scenario)


def test_a_submission_that_waits_for_quota_gets_no_expected_start() -> None:
    """Room for it is free now, which says nothing of when its account has quota again."""

    async def scenario(world: World) -> None:
        await asked_by_gateway(world)
        quota = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "18"}}}}
        await world.create("FederatedQuota", "", "feed", quota)
        await world.create("PinterestService", "feed", "other", worlds.service(9, "2"))
        await world.settle()
        answer = asking.body(await ask(world, workload("web", 2)))
        (row,) = answer["workloads"]
        assert row["verdict"] == "queued", row
        assert "FederatedQuota feed allows 18 cpu" in row["message"], row
        assert row["queue"] == {"position": 1, "ahead": 0}

    worlds.play(scenario)


def test_workloads_of_one_submission_are_judged_together() -> None:
    async def scenario(world: World) -> None:
        await asked_by_gateway(world)
        both = workload("one", 12, cpu="7"), workload("two", 12, cpu="7")
        answer = asking.body(await ask(world, *both))
        rows = {row["name"]: row["placed"] for row in answer["workloads"]}
        assert sum(rows.values()) == 12  # one on each node

    worlds.play(scenario)


def test_what_one_decision_answers_is_what_the_whole_answers() -> None:
    """The worker answers with the first part alone where it can."""

    async def scenario(world: World) -> None:
        await asked_by_gateway(world)
        quota = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "30"}}}}
        await world.create("FederatedQuota", "", "feed", quota)
        await world.create("PinterestService", "feed", "other", worlds.service(9, "2"))
        await world.settle()
        processes = world.federation.processes["hub"]
        memory = Memory.of(processes.state, world.federation.clock)
        rng, first, refused = random.Random(3), 0, 0
        for at in range(60):
            spec = {"project": rng.choice(["feed", "free"])}
            count, cpu = rng.randint(1, 30), rng.choice(["100m", "1", "6", "90"])
            obj = workload(f"w{at}", count, cpu, **spec)
            obj["metadata"] |= {"uid": f"u{at}", "generation": 1}
            summary = workloads.summarise("PinterestService", obj, None)
            asked = (Subject(summary, Standing(), (obj,), (), {}),)
            whole = verdicts.WORK.rest(memory, asked, judging.VERDICT, never)
            short = verdicts.WORK.first(memory, asked, judging.VERDICT, never)
            if short is not None:
                first += 1
                assert short == whole
                refused += json.loads(short)["verdict"] == "refused"
            else:
                (row,) = json.loads(whole)["workloads"]
                assert row["verdict"] != "placed" or row["missing"]
        assert 10 < first < 50
        assert 2 < refused < first

    worlds.play(scenario)


def test_only_a_few_workloads_are_decided_by_the_worker_itself() -> None:
    async def scenario(world: World) -> None:
        await asked_by_gateway(world)
        processes = world.federation.processes["hub"]
        memory = Memory.of(processes.state, world.federation.clock)
        asked = []
        for at in range(verdicts.QUICK_MAX + 1):
            obj = workload(f"w{at}", 1, "100m")
            obj["metadata"] |= {"uid": f"u{at}", "generation": 1}
            summary = workloads.summarise("PinterestService", obj, None)
            asked.append(Subject(summary, Standing(), (obj,), (), {}))
        few, many = tuple(asked[:-1]), tuple(asked)
        assert verdicts.WORK.first(memory, few, judging.VERDICT, never) is not None
        assert verdicts.WORK.first(memory, many, judging.VERDICT, never) is None
        whole = json.loads(verdicts.WORK.rest(memory, many, judging.VERDICT, never))
        assert [row["verdict"] for row in whole["workloads"]] == ["placed"] * len(many)

    worlds.play(scenario)


def test_a_refusal_that_the_worker_answers_itself_looks_at_no_job_and_no_queue() -> None:
    """Their number has no bound, and the worker does nothing else meanwhile."""

    async def scenario(world: World) -> None:
        await asked_by_gateway(world)
        await world.namespace("ads")
        for at in range(3):
            await world.create("PinterestJobSet", "ads", f"job{at}", worlds.jobset(1, 1, "1"))
        await world.create("PinterestService", "ads", "waits", worlds.service(99, "7"))
        await world.settle()
        memory = Memory.of(world.federation.processes["hub"].state, world.federation.clock)
        obj = workload("never", 1, cpu="900")
        obj["metadata"] |= {"uid": "u", "generation": 1}
        summary = workloads.summarise("PinterestService", obj, None)
        waiting = (WorkloadKey("PinterestService", "ads", "waits"),)
        subject = Subject(summary, Standing(), (obj,), waiting, {})
        seen: list[Situation] = []

        def quick(*given: Any) -> dict[str, Any] | None:
            _, keys, narrow, _, _ = given
            seen.append(narrow(keys[0]))
            return judging.quick(*given)

        makers = VerdictMakers(judging.verdict, quick)
        short = verdicts.WORK.first(memory, (subject,), makers, never)
        assert [(each.jobs, each.for_room) for each in seen] == [((), ())]
        assert short == verdicts.WORK.rest(memory, (subject,), judging.VERDICT, never)
        assert json.loads(short)["verdict"] == "refused"
        whole = advising.situation_of(memory, subject)
        assert (len(whole.jobs or ()), len(whole.for_room or ())) == (3, 1)

    worlds.play(scenario)


def drawn(rng: random.Random, name: str) -> dict[str, Any]:
    """A submission of a service or job set."""
    if rng.random() < 0.25:
        shards = rng.randint(1, 12)
        requests = {"cpu": rng.choice(["250m", "1"])}
        container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
        spec = {"shards": shards, "parallelism": rng.randint(1, shards), "project": "jobs"}
        return {
            "apiVersion": registry.KINDS["PinterestJobSet"].api_version,
            "kind": "PinterestJobSet",
            "metadata": {"name": name, "namespace": "feed"},
            "spec": {**spec, "template": {"spec": {"containers": [container]}}},
        }
    placement = rng.choice(
        [
            {},
            {"spread": [{"topologyKey": "zone", "minDomains": 2}]},
            {"division": {"strategy": "Duplicate"}},
            {"division": {"maxClusters": 1}},
        ]
    )
    return workload(
        name,
        rng.randint(1, 9),
        rng.choice(["100m", "500m", "2", "7"]),
        tier=rng.choice(["OnDemand", "Preemptible", "Reserved"]),
        project=rng.choice(["feed", "other"]),
        **({"placement": placement} if placement else {}),
    )


async def decided(world: World, obj: dict[str, Any], since_s: float) -> tuple[dict[str, int], str]:
    """Copies by cluster of the first decision since then, and its reason."""
    state, key = world.federation.processes["hub"].state, (obj["kind"], obj["metadata"]["name"])
    async with asyncio.timeout(60):
        while True:
            found = state.workloads.get(WorkloadKey(key[0], "feed", key[1]))
            if found is not None:
                record = state.record_of(found)
                if record is not None and record.facts.as_of >= since_s:
                    given = {share.cluster: copies_of(share) for share in record.shares}
                    return given, str(record.terms.reason)
            await asyncio.sleep(0.01)


async def alike_of(world: World, count: int, seed: int) -> tuple[int, int, Counter[str]]:
    """(verdicts that the first decision matches in its reason and cluster by cluster, all verdicts,
    by verdict) of random submissions, a third of them edits, to a fleet that is filled and
    emptied."""
    await asked_by_gateway(world)
    quota = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "60"}}}}
    await world.create("FederatedQuota", "", "feed", quota)
    await world.settle()
    rng, alike, verdicts_given = random.Random(seed), 0, Counter[str]()
    there: dict[str, dict[str, Any]] = {}
    for at in range(count):
        while len(there) > rng.randint(4, 12):
            gone = there.pop(rng.choice(sorted(there)))
            await world.delete(gone["kind"], "feed", gone["metadata"]["name"])
            await world.settle()
        services = [name for name, obj in there.items() if obj["kind"] == "PinterestService"]
        if services and rng.random() < 0.3:
            before = there[rng.choice(sorted(services))]
            obj = {
                **before,
                "spec": {**before["spec"], "replicas": before["spec"]["replicas"] % 12 + 1},
            }
        else:
            obj = drawn(rng, f"w{at}")
        kind, name = obj["kind"], obj["metadata"]["name"]
        said = asking.body(await ask(world, obj))["workloads"][0]
        verdicts_given[said["verdict"]] += 1
        asked_s = world.federation.clock.now()
        if name in there:
            await world.patch(kind, "feed", name, {"spec": obj["spec"]})
        else:
            await world.create(kind, "feed", name, obj["spec"])
        there[name] = obj
        given = await decided(world, obj, asked_s)
        expected = {each["name"]: each["copies"] for each in said["clusters"]}
        alike += given == (expected, said["reason"])
    return alike, count, verdicts_given


def test_the_hub_decides_what_the_verdict_said() -> None:
    async def scenario(world: World) -> None:
        alike, every, _ = await alike_of(world, 12, seed=7)
        assert alike == every

    worlds.play(scenario)


@pytest.mark.long
def test_of_several_hundred_verdicts_99_of_100_are_decided_cluster_by_cluster() -> None:
    async def scenario(world: World) -> None:
        alike, every, given = await alike_of(world, 250, seed=8)
        assert alike * 100 >= every * ALIKE_OF_100, f"{alike} of {every}"
        assert min(given["placed"], given["queued"], given["refused"]) > 12

    worlds.play(scenario)
