"""PinterestTrainingJob: all pods of a gang in one cluster or none, released together, rolled back
together, complete or failed together.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.unit.hub.world import World, play, service

KIND = "PinterestTrainingJob"
RUN_SECONDS = "embedded.federator/run-seconds"
FAILING = "embedded.federator/exit-code"


def template(cpu: str, run_s: int = 30, **annotations: str) -> dict[str, Any]:
    container = {"name": "main", "image": "t:1", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"annotations": {RUN_SECONDS: str(run_s), **annotations}}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def training(workers: int = 3, cpu: str = "2", run_s: int = 30, **more: Any) -> dict[str, Any]:
    """The spec of a PyTorch job with one master."""
    components = [{"name": "master"}, {"name": "worker", "replicas": workers}]
    return {"components": components, "template": template(cpu, run_s), **more}


async def status(world: World, name: str = "ranker") -> dict[str, Any]:
    found = await world.get(KIND, "ml", name)
    assert found is not None
    return dict(found.get("status") or {})


async def until(
    world: World, holds: Callable[[dict[str, Any]], bool], name: str = "ranker", within_s: int = 120
) -> dict[str, Any]:
    for _ in range(within_s):
        told = await status(world, name)
        if holds(told):
            return told
        await asyncio.sleep(1)
    raise AssertionError(f"not within {within_s} s: {told}")


async def jobs(world: World, member: str) -> dict[str, dict[str, Any]]:
    found = await world.member(member).list("batch/v1", "jobs")
    return {obj["metadata"]["name"]: obj for obj in found.items}


async def pods(world: World, member: str) -> list[dict[str, Any]]:
    return list((await world.member(member).list("v1", "pods", namespace="ml")).items)


def rows(told: dict[str, Any]) -> list[str]:
    return [row["cluster"] for row in told.get("clusterStatuses", [])]


def running(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda told: told.get("running") == count


def completed(told: dict[str, Any]) -> bool:
    return told.get("completedIndexes") == "0"


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}


def test_it_runs_in_one_cluster_with_ranks_and_completes() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "ml", "ranker", training())
        (cluster,) = rows(await until(world, running(4)))
        env = {pod["spec"]["hostname"]: variables(pod) for pod in await pods(world, cluster)}
        assert {host: one["RANK"] for host, one in env.items()} == {
            "ranker-master-0-0": "0",
            "ranker-worker-0-0": "1",
            "ranker-worker-1-0": "2",
            "ranker-worker-2-0": "3",
        }
        assert {one["WORLD_SIZE"] for one in env.values()} == {"4"}
        told = await until(world, lambda told: told["clusterStatuses"][0]["phase"] == "Running")
        assert [one["ready"] for one in told["components"]] == [1, 3]
        told = await until(world, completed)
        assert [one["succeeded"] for one in told["components"]] == [1, 3]
        await world.settle()
        complete = await world.condition(KIND, "ml", "ranker", "Complete")
        assert complete["status"] == "True"
        before = world.count()
        await world.settle()
        assert world.count() == before
        await world.delete(KIND, "ml", "ranker")
        await world.settle()
        assert await jobs(world, cluster) == {}

    play(scenario)


def test_what_no_cluster_can_hold_as_a_whole_waits_and_says_which_component_lacks_what() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        # A cluster has four nodes of 8 cpus: each holds one pod of 5, three clusters twelve of them.
        await world.create(KIND, "ml", "ranker", training(workers=6, cpu="5"))
        await world.settle()
        told = await status(world)
        assert (told["placed"], told["running"]) == (0, 0)
        placed = await world.condition(KIND, "ml", "ranker", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "InsufficientCapacity")
        assert "no cluster has room for all 7 pods at once" in placed["message"]
        assert "has room for 3 of 6 pods of worker (cpu 5" in placed["message"]
        for member in "abc":
            assert await jobs(world, member) == {}

    play(scenario)


def test_an_elastic_job_begins_with_as_many_workers_as_have_room() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        spec = training(cpu="5")
        spec["components"][1] |= {"replicas": 6, "minReplicas": 2}
        await world.create(KIND, "ml", "ranker", spec)
        (cluster,) = rows(await until(world, running(4)))
        found = await pods(world, cluster)
        assert {variables(pod)["PET_NNODES"] for pod in found} == {"3:4"}
        assert {variables(pod)["WORLD_SIZE"] for pod in found} == {"4"}
        (decision,) = await world.decisions()
        assert [share["pods"] for share in decision["spec"]["shares"]] == [[1, 3]]
        await until(world, completed)

    play(scenario)


def test_the_failure_of_one_component_ends_the_job_and_stops_the_others() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        spec = training(run_s=600)
        failing = {FAILING: "1"}
        spec["components"][0] |= {"backoffLimit": 0, "template": template("1", 3, **failing)}
        await world.create(KIND, "ml", "ranker", spec)
        told = await until(world, lambda told: told.get("failedIndexes") == "0")
        assert [one["failed"] for one in told["components"]] == [1, 0]
        await world.settle()
        (cluster,) = rows(await status(world))
        assert all(job["spec"]["suspend"] for job in (await jobs(world, cluster)).values())
        await until(world, running(0))
        failed = await world.condition(KIND, "ml", "ranker", "Failed")
        assert failed["status"] == "True"

    play(scenario)


def test_pods_that_never_end_are_stopped_when_the_others_have_completed() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        spec = {
            "framework": "TensorFlow",
            "components": [
                {"name": "worker", "replicas": 2},
                {"name": "ps", "replicas": 1, "template": template("1", 100_000)},
            ],
            "template": template("1", 5),
        }
        await world.create(KIND, "ml", "ranker", spec)
        told = await until(world, completed)
        (cluster,) = rows(told)
        told = await until(world, running(0))
        assert told["completedIndexes"] == "0"
        assert (await jobs(world, cluster))["ranker-ps-0"]["spec"]["suspend"]

    play(scenario)


def half(**more: Any) -> dict[str, Any]:
    """The spec of a gang of which a scheduler binds one pod: no two of them on machines of one
    system. Only the scheduler knows of this rule."""
    spec = training(**more)
    spec["template"]["metadata"]["labels"] = {"apart": "yes"}
    rule = {
        "topologyKey": "kubernetes.io/os",
        "labelSelector": {"matchLabels": {"apart": "yes"}},
    }
    spec["template"]["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    }
    return spec


def test_a_gang_whose_pods_find_no_nodes_together_gives_all_back_until_it_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "ml", "ranker", half(gangTimeoutSeconds=30))
        told = await until(world, running(4))
        assert phase(told) == "Released"
        told = await until(world, lambda told: phase(told) == "RolledBack")
        row = told["clusterStatuses"][0]
        assert row["reason"] == "GangTimedOut"
        assert "all gave theirs back" in row["message"]
        await until(world, running(0))
        ready = await world.condition(KIND, "ml", "ranker", "Ready")
        assert ready["status"] == "False"
        # The hub has moved it on, or it was tried again here: pods exist once more.
        await until(world, running(4), within_s=400)

    play(scenario)


def test_a_gang_half_released_leaves_as_a_whole_when_others_need_its_quota() -> None:
    """Its bound pod goes with those that wait for a node, and nothing is released again: it holds
    nothing while it waits for quota, and the other has what was guaranteed."""

    async def scenario(world: World) -> None:
        for name, spec in ACCOUNTS.items():
            await world.create("FederatedQuota", "", name, spec)
        await world.settle()
        await world.create(KIND, "ml", "ranker", half(project="ads", gangTimeoutSeconds=3600))
        (cluster,) = rows(await until(world, running(4)))
        assert phase(await status(world)) == "Released"
        bound = [pod for pod in await pods(world, cluster) if pod["spec"].get("nodeName")]
        assert len(bound) == 1, "half of it is there"

        await world.create("PinterestService", "feed", "api", service(4, "2", project="feed"))
        await until(world, running(0))
        await world.settle()

        assert await jobs(world, cluster) == {}
        assert await pods(world, cluster) == []
        placed = await world.condition(KIND, "ml", "ranker", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "Preempted")
        assert "left for PinterestService/feed/api" in placed["message"]
        assert sum((await world.shares("feed", "api")).values()) == 4
        await asyncio.sleep(600)
        assert await pods(world, cluster) == [], "nobody tries it again before it has quota"

    play(scenario)


ACCOUNTS: dict[str, dict[str, Any]] = {
    "company": {"tiers": {"OnDemand": {"guaranteed": {"cpu": "8"}}}},
    "ads": {"parent": "company", "projects": ["ads"]},
    "feed": {
        "parent": "company",
        "projects": ["feed"],
        "tiers": {"OnDemand": {"guaranteed": {"cpu": "8"}}},
        "preemption": {"reclaim": "Any"},
    },
}
"""What ads uses is lent to it by feed."""


def phase(told: dict[str, Any]) -> str:
    return next((str(row.get("phase")) for row in told.get("clusterStatuses", [])), "")
