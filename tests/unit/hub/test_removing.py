"""A cluster that is removed is emptied first, or let go as its operator said; nothing of ours stays
behind unsaid.
"""

import asyncio
from collections import Counter
from typing import Any

import pytest

from federator.hub.host import decision_writer
from federator.hub.members import claims
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube import errors
from federator.model.names import CLUSTER_FINALIZER, REMOVAL_ANNOTATION
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, jobset, play, service

PSVC = "PinterestService"
CLUSTER = "MemberCluster"


async def removal(world: World, name: str) -> dict[str, Any]:
    return await world.condition(CLUSTER, "", name, "Removing")


async def ask(world: World, name: str, how: str) -> None:
    """Deletes a MemberCluster; `how` is the annotation, "" for none."""
    if how:
        await world.patch(
            CLUSTER, "", name, {"metadata": {"annotations": {REMOVAL_ANNOTATION: how}}}
        )
    await world.delete(CLUSTER, "", name)


async def events(world: World, name: str) -> list[str]:
    found = (await world.host.list("events.k8s.io/v1", "events")).items
    return sorted(
        one["reason"]
        for one in found
        if one["regarding"]["kind"] == CLUSTER and one["regarding"]["name"] == name
    )


async def host_mark(world: World, name: str) -> str:
    found = await world.get("ClusterCapacity", "", "cluster", at=name)
    return str(
        (found or {})["metadata"].get("annotations", {}).get(claims.annotation("federator"), "")
    )


async def ready_everywhere(world: World, name: str) -> int:
    total = 0
    for cluster in world.federation.members:
        found = await world.get("Deployment", "feed", name, at=cluster)
        total += (found or {}).get("status", {}).get("readyReplicas", 0)
    return total


def test_a_member_gets_the_finalizer_and_nothing_is_written_once_it_has_it() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.patch(CLUSTER, "", "a", {"metadata": {"finalizers": ["example.com/mine"]}})
        await asyncio.sleep(5)
        found = await world.get(CLUSTER, "", "a")
        assert found is not None
        assert found["metadata"]["finalizers"] == ["example.com/mine", CLUSTER_FINALIZER]
        await asyncio.sleep(60)
        written = world.count()
        await asyncio.sleep(120)
        assert world.count() == written

    play(scenario)


def test_a_deleted_cluster_is_emptied_without_dropping_below_the_promise_and_then_goes() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        held = (await world.shares("feed", "web"))["a"]
        assert held > 0
        await world.delete(CLUSTER, "", "a")
        await asyncio.sleep(0.5)
        told, lowest = await removal(world, "a"), 12
        assert told["reason"] == "Emptying"
        assert "of 1 workload (PinterestService/feed/web" in told["message"]
        for _ in range(600):
            await asyncio.sleep(0.1)
            lowest = min(lowest, await ready_everywhere(world, "web"))
            if await world.get(CLUSTER, "", "a") is None:
                break
        assert await world.get(CLUSTER, "", "a") is None
        assert lowest == 12
        assert await world.get(PSVC, "feed", "web", at="a") is None
        assert await world.get("Deployment", "feed", "web", at="a") is None
        await world.settle()
        assert sum((await world.shares("feed", "web")).values()) == 12
        assert [("leaving" in one["spec"]) for one in await world.decisions()] == [False]
        assert await host_mark(world, "a") == ""
        await asyncio.sleep(5)
        assert await events(world, "a") == ["Removed", "Removing"]

    play(scenario)


def test_what_we_made_there_goes_with_the_cluster_and_what_others_made_stays() -> None:
    async def scenario(world: World) -> None:
        await world.create("RuntimeProfile", "", "default", {"env": [{"name": "A", "value": "1"}]})
        await world.create(PSVC, "feed", "web", service(6))
        await world.create(PSVC, "ads", "web", service(6))
        await world.settle()
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "notes", "namespace": "ads"},
        }
        await world.member("a").create(
            ObjectRef("v1", "configmaps", "ads", "notes", "ConfigMap"), config
        )
        await world.delete(CLUSTER, "", "a")
        await asyncio.sleep(60)
        assert await world.get(CLUSTER, "", "a") is None
        spaces = {
            one["metadata"]["name"]
            for one in (await world.member("a").list("v1", "namespaces")).items
        }
        assert "feed" not in spaces
        assert "ads" in spaces
        assert (
            await world.member("a").list("pinterest.com/v1beta1", "runtimeprofiles")
        ).items == ()
        found = (await world.host.list("events.k8s.io/v1", "events")).items
        (last,) = [one["note"] for one in found if one["reason"] == "Removed"]
        assert "The namespace ads stays: configmaps notes is not ours." in last

    play(scenario)


def test_a_claim_that_a_job_set_retains_stays_with_its_namespace() -> None:
    async def scenario(world: World) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "lifetime": "Shard",
            "retention": "Retain",
        }
        asked = jobset(6, 6) | {"volumeClaimTemplates": [claim]}
        await world.create("PinterestJobSet", "feed", "keeps", asked)
        await world.settle()
        ref = ObjectRef(
            "v1", "persistentvolumeclaims", "feed", "keeps-data", "PersistentVolumeClaim"
        )
        kept = await world.member("a").get(ref)
        await world.delete("PinterestJobSet", "feed", "keeps")
        await world.settle()
        await world.delete(CLUSTER, "", "a")
        await asyncio.sleep(60)
        assert await world.get(CLUSTER, "", "a") is None

        there = await world.member("a").get(ref)
        assert there["metadata"]["uid"] == kept["metadata"]["uid"]
        assert "deletionTimestamp" not in there["metadata"]
        found = (await world.host.list("events.k8s.io/v1", "events")).items
        (last,) = [one["note"] for one in found if one["reason"] == "Removed"]
        assert "feed stays: persistentvolumeclaims keeps-data is retained." in last

    play(scenario)


def test_a_removal_waits_for_a_silent_cluster_and_names_it_until_it_is_heard_again() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await world.cut("b")
        await asyncio.sleep(90)
        await world.delete(CLUSTER, "", "b")
        await asyncio.sleep(60)
        told = await removal(world, "b")
        assert told["reason"] == "NotHeard"
        assert "cluster remove b --lost" in told["message"]
        assert await world.get(PSVC, "feed", "web", at="b") is not None
        summary = ((await world.get(CLUSTER, "", "b")) or {})["status"]["summary"]
        assert summary.startswith("It cannot be emptied")

        world.heal()
        world.writes.clear()
        await asyncio.sleep(90)
        written = world.writes["hub", "host", "PATCH", "memberclusters/status"]
        assert written < 20, "what a lost cluster was called is taken back once"
        assert await world.get(CLUSTER, "", "b") is None
        assert await world.get(PSVC, "feed", "web", at="b") is None
        await world.settle()

    play(scenario)


def test_a_lost_cluster_is_forgotten_by_decisions_and_statuses() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.create(PSVC, "feed", "still", service(6))
        await world.create(PSVC, "feed", "gone", service(6))
        await world.settle()
        await world.patch(PSVC, "feed", "still", {"spec": {"suspend": True}})
        await world.cut("b")
        await asyncio.sleep(90)
        await world.delete(PSVC, "feed", "gone")
        await asyncio.sleep(30)
        assert len(await world.decisions()) == 3
        await ask(world, "b", "Lost")
        await asyncio.sleep(30)
        assert await world.get(CLUSTER, "", "b") is None
        for decision in await world.decisions():
            assert "b" not in str(decision["spec"]["shares"]) + str(decision["spec"].get("leaving"))
        assert {one["spec"]["workload"]["name"] for one in await world.decisions()} == {
            "web",
            "still",
        }
        await world.settle()
        for name in ("web", "still"):
            found = await world.get(PSVC, "feed", name)
            assert found is not None
            assert not found["status"].get("unknownReplicas")
        assert sum((await world.shares("feed", "web")).values()) == 12

    play(scenario)


def test_a_lost_cluster_that_joins_again_is_freed_of_old_slices_before_it_takes_new_work() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.create(PSVC, "feed", "gone", service(6))
        await world.settle()
        old = {
            name: ((await world.get(PSVC, "feed", name, at="b")) or {})["metadata"]["uid"]
            for name in ("web", "gone")
        }
        found = await world.get(CLUSTER, "", "b")
        assert found is not None
        await world.cut("b")
        await asyncio.sleep(90)
        await ask(world, "b", "Lost")
        await asyncio.sleep(30)
        await world.delete(PSVC, "feed", "gone")
        await asyncio.sleep(30)
        assert len(await world.decisions()) == 1
        await world.federation.kill("hub")  # what is remembered outlives the process
        world.federation.start_hub()
        await asyncio.sleep(10)

        world.heal()
        world.federation.aliases["b2"] = "b"  # it has another name now
        spec = {"credentials": found["spec"]["credentials"]}
        await world.create(CLUSTER, "", "b2", spec, labels=found["metadata"]["labels"])
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 40}})
        for _ in range(600):
            await asyncio.sleep(0.1)
            seen = await world.get(PSVC, "feed", "web", at="b")
            if seen is None or seen["metadata"]["uid"] != old["web"]:
                break
            assert "b2" not in await world.shares("feed", "web")
        await asyncio.sleep(30)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 100}})
        await asyncio.sleep(60)
        assert await world.get(PSVC, "feed", "gone", at="b") is None
        seen = await world.get(PSVC, "feed", "web", at="b")
        assert seen is not None
        assert seen["metadata"]["uid"] != old["web"]
        assert (await world.shares("feed", "web"))["b2"] == seen["spec"]["replicas"]
        assert world.federation.hub.controllers.departed.entries == {}

    play(scenario)


def test_a_cluster_that_is_heard_is_not_given_up_but_emptied() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await ask(world, "a", "Lost")
        await asyncio.sleep(60)
        assert await world.get(CLUSTER, "", "a") is None
        assert await world.get(PSVC, "feed", "web", at="a") is None
        assert world.federation.hub.controllers.departed.entries == {}

    play(scenario)


def test_an_orphaned_cluster_runs_on_and_another_host_may_have_it() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        before = await world.get(PSVC, "feed", "web", at="a")
        assert before is not None
        await ask(world, "a", "Orphan")
        await asyncio.sleep(60)
        assert await world.get(CLUSTER, "", "a") is None
        after = await world.get(PSVC, "feed", "web", at="a")
        assert after is not None
        assert after["spec"] == before["spec"]
        assert await world.get("Deployment", "feed", "web", at="a") is not None
        assert await host_mark(world, "a") == ""
        assert set(await world.shares("feed", "web")) == {"b", "c"}
        await world.settle()
        found = (await world.host.list("events.k8s.io/v1", "events")).items
        (last,) = [one for one in found if one["reason"] == "Orphaned"]
        assert last["type"] == "Warning"
        assert (
            "1 slices run on there beside what replaces them: PinterestService/feed/web"
            in last["note"]
        )

    play(scenario)


def test_copies_of_an_orphaned_cluster_that_joins_again_stay_until_others_are_ready() -> None:
    """The decision in force gave it nothing. What runs there is still what a deletion would take
    away.
    """

    async def scenario(world: World) -> None:
        await world.create(
            PSVC, "feed", "web", service(4, placement={"clusters": {"names": ["a"]}})
        )
        await world.settle()
        found = await world.get(CLUSTER, "", "a")
        assert found is not None
        await ask(world, "a", "Orphan")
        await asyncio.sleep(60)
        assert await world.get(CLUSTER, "", "a") is None
        slow = service(4)["template"] | {
            "metadata": {"annotations": {"embedded.federator/ready-delay-seconds": "60"}}
        }
        await world.patch(
            PSVC,
            "feed",
            "web",
            {"spec": {"placement": {"clusters": {"names": ["b"]}}, "template": slow}},
        )
        await asyncio.sleep(5)
        assert await world.shares("feed", "web") == {"b": 4}
        await world.create(CLUSTER, "", "a", found["spec"], labels=found["metadata"]["labels"])
        least = 4
        for _ in range(300):
            await asyncio.sleep(0.5)
            least = min(least, await ready_everywhere(world, "web"))
        assert await world.get(PSVC, "feed", "web", at="a") is None
        assert least >= 3, "one of four may be missing"

    play(scenario)


def test_the_removal_of_a_double_leaves_the_real_one_as_it_is() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        world.federation.aliases["z"] = "a"
        spec = {"credentials": {"secretRef": {"name": "a"}}}
        await world.create(CLUSTER, "", "z", spec)
        await asyncio.sleep(30)
        before = Counter(world.writes)
        shares = await world.shares("feed", "web")
        await world.delete(CLUSTER, "", "z")
        await asyncio.sleep(10)
        assert await world.get(CLUSTER, "", "z") is None
        assert await world.shares("feed", "web") == shares
        assert await host_mark(world, "a") != ""
        written = world.writes - before
        assert not [key for key in written if key[:2] == ("hub", "a")]
        await world.settle()

    play(scenario)


def test_job_sets_leave_a_removed_cluster_without_running_a_shard_twice() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestJobSet", "ads", "train", jobset(30, 6))
        await asyncio.sleep(6)
        await world.delete(CLUSTER, "", "a")
        await world.settle(240)
        await asyncio.sleep(30)
        assert await world.get(CLUSTER, "", "a") is None
        found = await world.get("PinterestJobSet", "ads", "train")
        assert found is not None
        assert found["status"]["completedIndexes"] == "0-29"

    play(scenario)


def test_a_cluster_leaves_although_a_job_set_goes_on_whose_shards_there_are_done() -> None:
    async def scenario(world: World) -> None:
        spec = jobset(3, 3, annotations={"embedded.federator/run-seconds": "10-900"})
        spec["placement"] = {"division": {"strategy": "Spread"}}
        await world.create("PinterestJobSet", "ads", "train", spec)
        done = ""
        while not done:
            await asyncio.sleep(5)
            for name in world.federation.members:
                slice_ = await world.get("PinterestJobSet", "ads", "train", at=name) or {}
                done = name if (slice_.get("status") or {}).get("completedIndexes") else done
        assert len(await world.slots("ads", "train")) == 3
        await world.delete(CLUSTER, "", done)
        await asyncio.sleep(60)
        assert await world.get(CLUSTER, "", done) is None
        assert len(await world.slots("ads", "train")) == 2

    play(scenario)


def test_a_removal_goes_on_in_the_next_life_of_the_hub_and_waits_while_it_is_paused() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        pause = ObjectRef("v1", "configmaps", "federator-system", "federator", "ConfigMap")
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "federator"},
            "data": {"paused": "true"},
        }
        await world.host.create(pause, body)
        await asyncio.sleep(1)
        await world.delete(CLUSTER, "", "a")
        await asyncio.sleep(30)
        assert (await removal(world, "a"))["reason"] == "Paused"
        assert await world.get(PSVC, "feed", "web", at="a") is not None
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(20)
        assert (await removal(world, "a"))["reason"] == "Paused"
        await world.host.patch(pause, {"data": {"paused": "false"}})
        await asyncio.sleep(60)
        assert await world.get(CLUSTER, "", "a") is None
        assert await world.get(PSVC, "feed", "web", at="a") is None

    play(scenario)


@pytest.mark.long
def test_a_namespace_that_we_made_goes_with_the_hosts_and_one_of_others_never() -> None:
    async def scenario(world: World) -> None:
        foreign = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}}
        await world.member("c").create(
            ObjectRef("v1", "namespaces", "", "feed", "Namespace"), foreign
        )
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "mine", "namespace": "feed"},
        }
        await world.member("b").create(ObjectRef("v1", "secrets", "feed", "mine", "Secret"), secret)
        await world.cut("a")
        await asyncio.sleep(60)
        await world.host.delete(
            ObjectRef("v1", "namespaces", "", "feed", "Namespace"),
            uid=(await world.host.get(ObjectRef("v1", "namespaces", "", "feed", "Namespace")))[
                "metadata"
            ]["uid"],
        )
        await asyncio.sleep(60)
        assert await space_in(world, "a") is not None
        world.heal()
        await asyncio.sleep(120)
        assert await space_in(world, "a") is None
        assert await space_in(world, "b") is not None  # somebody's Secret is in it
        assert await space_in(world, "c") is not None  # it was there before us
        await world.member("b").delete(
            ObjectRef("v1", "secrets", "feed", "mine", "Secret"),
            uid=(await world.member("b").get(ObjectRef("v1", "secrets", "feed", "mine", "Secret")))[
                "metadata"
            ]["uid"],
        )
        await asyncio.sleep(320)
        assert await space_in(world, "b") is None

    play(scenario)


async def space_in(world: World, cluster: str) -> dict[str, Any] | None:
    try:
        return await world.member(cluster).get(
            ObjectRef("v1", "namespaces", "", "feed", "Namespace")
        )
    except errors.NotFound:
        return None


def test_no_namespace_goes_while_the_host_is_another_one() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        world.answer(
            "host",
            "/namespaces/kube-system",
            200,
            b'{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"somebody-else"}}',
        )
        ref = ObjectRef("v1", "namespaces", "", "feed", "Namespace")
        await world.host.delete(ref, uid=(await world.host.get(ref))["metadata"]["uid"])
        await asyncio.sleep(90)
        assert await space_in(world, "a") is not None
        world.clear()
        await asyncio.sleep(90)
        assert await space_in(world, "a") is None

    play(scenario)


def test_a_strange_slice_keeps_a_cluster_from_leaving_and_is_named() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        found = await world.get(PSVC, "feed", "web", at="a")
        assert found is not None
        mark = {**found["spec"]["slice"], "workloadUID": "nobody"}
        body = {
            **found,
            "metadata": {"name": "odd", "namespace": "feed", "labels": found["metadata"]["labels"]},
        }
        body["spec"] = {**found["spec"], "slice": mark}
        body.pop("status", None)
        await world.member("a").create(registry.KINDS[PSVC].ref("feed", "odd"), body)
        await asyncio.sleep(1)
        await world.delete(CLUSTER, "", "a")
        await asyncio.sleep(60)
        told = await removal(world, "a")
        assert told["reason"] == "UnknownSlices"
        assert "PinterestService/feed/odd" in told["message"]
        await world.patch(
            CLUSTER, "", "a", {"metadata": {"annotations": {REMOVAL_ANNOTATION: "Orphan"}}}
        )
        await asyncio.sleep(30)
        assert await world.get(CLUSTER, "", "a") is None
        assert await world.get(PSVC, "feed", "odd", at="a") is not None

    play(scenario, options=HubOptions())


def test_a_cluster_is_struck_once_also_when_the_answer_of_the_first_write_was_lost() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "still", service(6))
        await world.settle()
        held = (await world.shares("feed", "still"))["b"]
        await world.patch(PSVC, "feed", "still", {"spec": {"suspend": True}})
        await world.settle()
        state = world.federation.hub.state
        (record,) = state.records.values()
        for _ in range(2):  # the second time the hub knows nothing of the first
            await decision_writer.strike(world.host, record, "b", state.next_seq(), state.seals)
        (decision,) = await world.decisions()
        spec = decision["spec"]
        assert (spec["placed"], spec["shortfall"]) == (6 - held, held)
        assert spec["causes"].count("b left the fleet") == 1

    play(scenario)
