"""What clusters, members and hubs do to workloads that nobody changed: who is left, what stays,
what is repaired.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.model.decision import Share
from federator.model.steps import ObjectRef
from federator.scheduling.rollout import ActionKind
from tests.unit.hub.world import World, jobset, play, service

PSVC = "PinterestService"


def test_a_policy_that_excludes_a_cluster_empties_it_without_dropping_below_the_promise() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        assert "a" in await world.shares("feed", "web")

        await world.create("PlacementPolicy", "feed", "away", {"clusters": {"exclude": ["a"]}})
        lowest = 12
        for _ in range(200):
            await asyncio.sleep(0.1)
            ready = 0
            for cluster in world.federation.members:
                found = await world.get("Deployment", "feed", "web", at=cluster)
                ready += (found or {}).get("status", {}).get("readyReplicas", 0)
            lowest = min(lowest, ready)
        await world.settle()

        assert set(await world.shares("feed", "web")) == {"b", "c"}
        assert await world.get(PSVC, "feed", "web", at="a") is None
        assert lowest >= 9  # maxUnavailable is 25 % of 12

    play(scenario)


def test_a_cluster_that_no_longer_matches_the_selector_is_left() -> None:
    async def scenario(world: World) -> None:
        selector = {
            "clusters": {
                "selector": {
                    "matchExpressions": [
                        {"key": "zone", "operator": "In", "values": ["z-a", "z-b"]}
                    ]
                }
            }
        }
        await world.create(PSVC, "feed", "web", service(8, placement=selector))
        await world.settle()
        assert set(await world.shares("feed", "web")) == {"a", "b"}

        await world.patch("MemberCluster", "", "a", {"metadata": {"labels": {"zone": "elsewhere"}}})
        await asyncio.sleep(1)
        await world.settle()

        assert set(await world.shares("feed", "web")) == {"b"}
        # Only a name that goes tells an operator when the cluster may be removed.
        await asyncio.sleep(10)
        assert ["leaving" in decision["spec"] for decision in await world.decisions()] == [False]

    play(scenario)


def test_a_cordoned_cluster_keeps_what_it_has_and_gets_nothing_new() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        before = await world.shares("feed", "web")
        await world.patch("MemberCluster", "", "a", {"spec": {"cordoned": True}})
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 30}})
        await asyncio.sleep(1)
        await world.settle()
        after = await world.shares("feed", "web")

        assert after["a"] == before["a"]
        assert sum(after.values()) == 30

    play(scenario)


def test_a_member_that_falls_silent_keeps_its_copies_on_the_books_and_makes_them_unknown() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        before = await world.shares("feed", "web")
        await world.cut("b")
        await asyncio.sleep(20)
        assert (await world.condition(PSVC, "feed", "web", "Ready"))[
            "status"
        ] == "True"  # a blip flips nothing

        await asyncio.sleep(60)
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["unknownReplicas"] == before["b"]
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "Unknown"
        assert await world.shares("feed", "web") == before

        world.heal()
        await asyncio.sleep(60)
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"

    play(scenario)


def test_drift_in_a_member_is_repaired() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        share = (await world.shares("feed", "web"))["a"]
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": share + 5}}, at="a")
        await asyncio.sleep(5)
        await world.settle()
        found = await world.get(PSVC, "feed", "web", at="a")

        assert found is not None
        assert found["spec"]["replicas"] == share

    play(scenario)


def test_a_foreign_object_of_the_same_name_is_reported_and_left_alone() -> None:
    async def scenario(world: World) -> None:
        client = world.member("a")
        await client.create(
            ObjectRef("v1", "namespaces", "", "feed", "Namespace"),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}},
        )
        foreign: dict[str, Any] = {
            "apiVersion": "pinterest.com/v1beta1",
            "kind": PSVC,
            "metadata": {"name": "web", "namespace": "feed"},
            "spec": service(1),
        }
        made = await client.create(
            ObjectRef("pinterest.com/v1beta1", "pinterestservices", "feed", "web", PSVC), foreign
        )
        await world.create(PSVC, "feed", "web", service(9))
        await asyncio.sleep(20)
        found = await world.get(PSVC, "feed", "web", at="a")

        assert found is not None
        assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert (await world.condition(PSVC, "feed", "web", "Applied"))["reason"] == "Conflict"

    play(scenario)


def test_a_restarted_hub_writes_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.create("PinterestJobSet", "feed", "index", jobset(6, 3))
        await world.settle()
        await asyncio.sleep(90)
        await world.federation.kill("hub")
        world.writes.clear()

        world.federation.start_hub()
        await world.settle()
        await asyncio.sleep(30)

        assert world.count("hub") == 0

    play(scenario)


def test_a_pause_stops_writes_of_placing_and_dispatching_and_resuming_catches_up() -> None:
    async def scenario(world: World) -> None:
        ref = ObjectRef("v1", "configmaps", "federator-system", "federator", "ConfigMap")
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "federator", "namespace": "federator-system"},
            "data": {"paused": "true"},
        }
        await world.host.create(ref, body)
        await asyncio.sleep(1)
        await world.create(PSVC, "feed", "web", service(3))
        await asyncio.sleep(20)
        assert await world.decisions() == []

        await world.host.patch(ref, {"data": {"paused": "false"}})
        await asyncio.sleep(5)
        await world.settle()
        assert sum((await world.shares("feed", "web")).values()) == 3

    play(scenario)


def test_the_host_cannot_be_its_own_member() -> None:
    async def scenario(world: World) -> None:
        world.federation.members["b"] = world.federation.host
        await asyncio.sleep(90)
        found = await world.get("MemberCluster", "", "b")

        assert found is not None
        ready = next(one for one in found["status"]["conditions"] if one["type"] == "Ready")
        assert ready["status"] == "False"
        assert "the host itself" in ready["message"]

    play(scenario)


def test_a_write_whose_reply_was_lost_leaves_no_refusal_behind() -> None:
    async def scenario(world: World) -> None:
        world.lose_reply("b", "POST", "pinterestservices")
        await world.create(PSVC, "feed", "web", service(6))
        await asyncio.sleep(10)
        assert not world.orders.open
        await world.settle()

        assert (await world.condition(PSVC, "feed", "web", "Applied"))["status"] == "True"

    play(scenario)


def test_a_bug_in_the_decision_of_one_workload_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from federator.placement import engine

    sound = engine.decide

    def decide(ask: Any, *args: Any, **kwargs: Any) -> Any:
        if ask.key.name == "poison":
            raise ZeroDivisionError("planted")
        return sound(ask, *args, **kwargs)

    monkeypatch.setattr(engine, "decide", decide)

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "poison", service(3))
        await world.create(PSVC, "feed", "web", service(3))
        await asyncio.sleep(10)

        assert sum((await world.shares("feed", "web")).values()) == 3
        assert await world.shares("feed", "poison") == {}

    play(scenario)


def test_a_host_that_runs_deployments_itself_keeps_them_and_says_so() -> None:
    async def scenario(world: World) -> None:
        labels = {"app": "page"}
        spec = {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, **service(1)["template"]},
        }
        await world.create(
            "PlacementPolicy", "feed", "all", {"workloads": {"kinds": ["Deployment"]}}
        )
        await world.create("Deployment", "feed", "page", spec)
        await world.create("Deployment", "other", "page", spec)
        await world.create(PSVC, "feed", "web", service(3))
        await asyncio.sleep(20)

        (refused,) = [
            one
            for one in await world.decisions()
            if one["spec"]["workload"]["kind"] == "Deployment"
        ]
        assert refused["metadata"]["namespace"] == "feed"
        assert refused["spec"]["reason"] == "HostWouldRunIt"
        assert refused["spec"]["shares"] == []
        assert sum((await world.shares("feed", "web")).values()) == 3
        for cluster in world.federation.members:
            assert await world.get("Deployment", "feed", "page", at=cluster) is None

    play(scenario, options=HubOptions(shared_host=True))


def test_a_paused_deployment_says_so() -> None:
    """In the words of its controller, and with the field."""

    async def scenario(world: World) -> None:
        labels = {"app": "page"}
        spec = {
            "replicas": 3,
            "paused": True,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, **service(1)["template"]},
        }
        await world.create("Deployment", "feed", "page", spec)
        await asyncio.sleep(30)
        progressing = await world.condition("Deployment", "feed", "page", "Progressing")
        assert (progressing["status"], progressing["reason"], progressing["message"]) == (
            "Unknown",
            "DeploymentPaused",
            "Deployment is paused",
        )
        for kind in ("Ready", "Reconciling"):
            condition = await world.condition("Deployment", "feed", "page", kind)
            assert condition["reason"] == "DeploymentPaused"
            assert "spec.paused is true" in condition["message"]

        ref = ObjectRef("apps/v1", "deployments", "feed", "page", "Deployment")
        await world.host.patch(ref, {"spec": {"paused": False}})
        await asyncio.sleep(30)
        ready = await world.condition("Deployment", "feed", "page", "Ready")
        assert ready["status"] == "True"
        progressing = await world.condition("Deployment", "feed", "page", "Progressing")
        assert progressing["reason"] == "NewReplicaSetAvailable"

    play(scenario)


def test_a_cluster_that_was_left_is_struck_from_the_decision_whatever_seq_others_have() -> None:
    """Found by simulation seeds 56 and 65: the shares that stay bear an older seq than the one that
    was taken away.
    """

    async def scenario(world: World) -> None:
        template = service(4)
        await world.create(
            PSVC, "feed", "web", {**template, "placement": {"division": {"strategy": "Duplicate"}}}
        )
        await world.settle()
        placement = {"division": {"strategy": "Duplicate"}, "clusters": {"exclude": ["a"]}}
        await world.patch(PSVC, "feed", "web", {"spec": {"placement": placement}})
        await asyncio.sleep(5)
        await world.settle()
        await asyncio.sleep(30)
        (decision,) = await world.decisions()

        assert {share["cluster"] for share in decision["spec"]["shares"]} == {"b", "c"}
        assert "leaving" not in decision["spec"]

    play(scenario)


def test_a_turn_whose_decision_was_overtaken_plans_with_the_clusters_that_decision_names() -> None:
    """It waited for an answer meanwhile: the decision in force may have left one of them
    (simulation seed 4942).
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        hub = world.federation.processes["hub"]
        (workload,) = hub.state.workloads.values()
        record = hub.state.record_of(workload)
        assert record is not None
        shares = (*record.shares, Share("left", 1, 1, record.seq))
        earlier = replace(record.facts, portions=shares, shares_seq=0)
        actions = hub.controllers.view.plan(workload, replace(record, facts=earlier))
        assert {name: action.kind for name, action in actions.items()} == {
            **dict.fromkeys("abc", ActionKind.NOTHING),
            "left": ActionKind.HOLD,
        }

    play(scenario)
