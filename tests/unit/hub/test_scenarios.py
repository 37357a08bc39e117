"""A workload's life as its owner sees it: what is asked for is followed, what is not asked for
stays as it is.
"""

import asyncio

import pytest

from federator.kube import errors
from tests.unit.hub.world import World, jobset, play, service, small_fleet

PSVC = "PinterestService"


def test_a_service_is_placed_applied_and_becomes_ready() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()

        ready = await world.condition(PSVC, "feed", "web", "Ready")
        assert ready["status"] == "True"
        assert sum((await world.shares("feed", "web")).values()) == 12
        for cluster, count in (await world.shares("feed", "web")).items():
            deployment = await world.get("Deployment", "feed", "web", at=cluster)
            assert deployment is not None
            assert deployment["status"]["readyReplicas"] == count

    play(scenario)


def test_a_placement_costs_one_decision_one_slice_per_cluster_and_one_status() -> None:
    async def scenario(world: World) -> None:
        await world.namespace("feed")
        await world.create(PSVC, "feed", "first", service(3))
        await world.settle()
        world.writes.clear()

        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()

        clusters = len(await world.shares("feed", "web"))
        statuses = world.writes["hub", "host", "PATCH", "pinterestservices/status"]
        assert world.writes["hub", "host", "POST", "placementdecisions"] == 1
        assert (
            sum(
                number
                for key, number in world.writes.items()
                if key[0] == "hub" and key[2] == "POST" and key[3] == "pinterestservices"
            )
            == clusters
        )
        # Pods take one to two seconds to start: one status a second while they do, and the settled
        # one.
        assert statuses <= 3
        assert world.writes["hub", "host", "PATCH", "placementdecisions"] == 0

    play(scenario)


def test_at_rest_nobody_writes_anything() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.create("PinterestJobSet", "feed", "index", jobset(8, 4))
        await world.settle()
        await asyncio.sleep(90)
        world.writes.clear()

        await asyncio.sleep(600)

        assert not world.writes

    play(scenario)


def test_scaling_up_moves_nobody_and_scaling_down_takes_in_reverse() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(10))
        await world.settle()
        small = await world.shares("feed", "web")
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 40}})
        await world.settle()
        large = await world.shares("feed", "web")
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 10}})
        await world.settle()

        assert sum(large.values()) == 40
        assert all(large[cluster] >= count for cluster, count in small.items())
        assert sum((await world.shares("feed", "web")).values()) == 10

    play(scenario)


def test_deleting_a_workload_empties_every_member_and_ends_its_decision() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await world.delete(PSVC, "feed", "web")
        await asyncio.sleep(20)

        assert await world.decisions() == []
        for cluster in world.federation.members:
            assert await world.get(PSVC, "feed", "web", at=cluster) is None
            assert await world.get("Deployment", "feed", "web", at=cluster) is None

    play(scenario)


def test_a_deletion_waits_for_a_member_that_is_not_heard_and_names_it() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await world.cut("b")
        await asyncio.sleep(60)
        await world.delete(PSVC, "feed", "web")
        await asyncio.sleep(60)

        (blocked,) = await world.decisions()
        assert blocked["spec"]["deletion"]["reason"] == "DeletionBlocked"
        assert blocked["spec"]["deletion"]["waitingFor"] == ["b"]
        assert await world.get(PSVC, "feed", "web", at="a") is None
        assert await world.get(PSVC, "feed", "web", at="b") is not None

        world.heal()
        await asyncio.sleep(60)
        assert await world.decisions() == []
        assert await world.get(PSVC, "feed", "web", at="b") is None

    play(scenario)


def test_a_workload_made_anew_under_the_same_name_waits_for_the_old_slices_and_then_runs() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await world.delete(PSVC, "feed", "web")
        await world.create(PSVC, "feed", "web", service(4))
        await asyncio.sleep(5)
        await world.settle()

        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["ready"] == 4
        assert len(await world.decisions()) == 1

    play(scenario)


def test_a_changed_template_is_rolled_out_cluster_by_cluster() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            PSVC, "feed", "web", service(9, placement={"rollout": {"maxClustersAtOnce": 1}})
        )
        await world.settle()
        template = service(9)["template"]
        template["spec"]["containers"][0]["image"] = "app:2"
        await world.patch(PSVC, "feed", "web", {"spec": {"template": template}})
        most = 0
        for _ in range(600):
            await asyncio.sleep(0.1)
            busy = 0
            for cluster in world.federation.members:
                found = await world.get(PSVC, "feed", "web", at=cluster)
                assert found is not None
                new = found["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"
                status = found["status"]
                done = (
                    status.get("observedGeneration") == found["metadata"]["generation"]
                    and status.get("updatedReplicas")
                    == status.get("ready")
                    == found["spec"]["replicas"]
                )
                busy += new and not done
            most = max(most, busy)
        await world.settle()

        assert most == 1
        for cluster in world.federation.members:
            found = await world.get(PSVC, "feed", "web", at=cluster)
            assert found is not None
            assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"

    play(scenario)


def test_a_job_set_runs_every_shard_once_and_completes() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestJobSet", "feed", "index", jobset(40, 10))
        await world.settle(300)
        found = await world.get("PinterestJobSet", "feed", "index")

        assert found is not None
        assert found["status"]["completedIndexes"] == "0-39"
        assert (await world.condition("PinterestJobSet", "feed", "index", "Complete"))[
            "status"
        ] == "True"

    play(scenario)


def test_a_job_set_has_settled_when_what_was_given_is_done_though_the_rest_has_no_place() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(2))
        await world.settle()
        await world.federation.kill("member b")  # it begins none of its shards
        both = {"division": {"strategy": "Spread"}}
        await world.create("PinterestJobSet", "feed", "index", {**jobset(4, 2), "placement": both})
        await asyncio.sleep(20)
        nowhere = {
            "topologyKey": "rack",
            "minDomains": 1,
            "whenUnsatisfiable": "DoNotSchedule",
        }  # no cluster has a rack
        placement = {**both, "clusters": {"exclude": ["b"]}, "spread": [nowhere]}
        await world.patch("PinterestJobSet", "feed", "index", {"spec": {"placement": placement}})
        await world.settle()
        found = await world.get("PinterestJobSet", "feed", "index")
        assert found is not None
        assert (found["status"]["done"], found["status"]["placed"]) == (2, 2)

    play(scenario, fleet=small_fleet(2))


def test_a_failing_shard_is_told_with_its_index() -> None:
    async def scenario(world: World) -> None:
        annotations = {
            "embedded.federator/fail-indexes": "7",
            "embedded.federator/index-base-env": "SHARD_BASE",
        }
        spec = jobset(12, 6, annotations=annotations) | {"backoffLimitPerShard": 1}
        await world.create("PinterestJobSet", "feed", "index", spec)
        await world.settle(600)
        found = await world.get("PinterestJobSet", "feed", "index")

        assert found is not None
        assert found["status"]["failedIndexes"] == "7"
        assert found["status"]["done"] == 11

    play(scenario)


def test_a_plain_deployment_is_carried_and_folded_in_its_native_status() -> None:
    async def scenario(world: World) -> None:
        labels = {"app": "page"}
        spec = {
            "replicas": 7,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, **service(1)["template"]},
        }
        await world.create("Deployment", "feed", "page", spec)
        await world.settle()
        found = await world.get("Deployment", "feed", "page")

        assert found is not None
        assert found["status"]["readyReplicas"] == 7
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert found["status"]["availableReplicas"] == 7
        assert "unavailableReplicas" not in found["status"]
        assert (await world.condition("Deployment", "feed", "page", "Available"))[
            "status"
        ] == "True"

    play(scenario)


def test_a_suspended_workload_stays_as_it_is_until_it_is_resumed() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        before = await world.shares("feed", "web")
        await world.patch(PSVC, "feed", "web", {"spec": {"suspend": True, "replicas": 20}})
        await asyncio.sleep(20)
        assert await world.shares("feed", "web") == before

        await world.patch(PSVC, "feed", "web", {"spec": {"suspend": False}})
        await asyncio.sleep(5)
        await world.settle()
        assert sum((await world.shares("feed", "web")).values()) == 20

    play(scenario)


def test_shards_that_finished_in_a_cluster_that_was_left_stay_finished() -> None:
    async def scenario(world: World) -> None:
        spec = jobset(6, 1) | {"placement": {"clusters": {"names": ["a"]}}}
        await world.create("PinterestJobSet", "feed", "index", spec)
        await asyncio.sleep(10)
        found = await world.get("PinterestJobSet", "feed", "index")
        assert found is not None
        assert 0 < found["status"]["done"] < 6

        await world.patch(
            "PinterestJobSet",
            "feed",
            "index",
            {"spec": {"placement": {"clusters": {"names": ["b"]}}}},
        )
        await asyncio.sleep(2)
        await world.settle(300)
        found = await world.get("PinterestJobSet", "feed", "index")
        assert found is not None
        assert (found["status"]["shards"], found["status"]["completedIndexes"]) == (6, "0-5")

    play(scenario)


def test_a_generation_that_changes_no_decision_is_observed_whenever_placing_gets_to_it() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        (key,) = world.federation.hub.state.workloads
        world.federation.hub.controllers.placing.queue._running[key] = (
            0.0  # placing is slow: something else holds its turn
        )
        await world.patch(PSVC, "feed", "web", {"spec": {"suspend": False}})
        await asyncio.sleep(5)
        waiting = await world.condition(PSVC, "feed", "web", "Reconciling")
        assert waiting["reason"] == "PendingEvaluation"

        world.federation.hub.controllers.placing.queue.done(key)
        await asyncio.sleep(5)
        assert (await world.condition(PSVC, "feed", "web", "Reconciling"))["status"] == "False"

    play(scenario)


def test_a_status_of_an_earlier_workload_never_lands_on_the_one_made_anew() -> None:
    async def scenario(world: World) -> None:
        labels = {"app": "page"}
        spec = {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, **service(1)["template"]},
        }
        await world.create("Deployment", "feed", "page", spec)
        await world.settle()
        hub = world.federation.hub
        ((key, known),) = hub.state.workloads.items()
        await world.delete("Deployment", "feed", "page")
        await world.create("Deployment", "feed", "page", spec)
        hub.state.workloads[key] = known  # the watch is late
        live = known.live_status()
        with pytest.raises(errors.Conflict):
            await hub.controllers.aggregation._write(
                known, live, {"observedGeneration": 99}, hub.controllers.aggregation.fold(known)
            )

        found = await world.get("Deployment", "feed", "page")
        assert found is not None
        assert found["status"].get("observedGeneration", 0) < 99

    play(scenario)
