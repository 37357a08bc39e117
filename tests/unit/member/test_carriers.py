"""Training jobs that become a JobSet or a TrainJob, in a member whose operators are stand-ins."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from federator.embedded.controllers import NodePool
from federator.kinds.natives import NATIVES
from federator.kube.client import Client
from federator.model.steps import ObjectRef
from federator.sandbox.operators import Operators
from tests.unit.member.memberworld import (
    MemberWorld,
    condition_of,
    in_member,
    template,
    training,
)

KIND = "PinterestTrainingJob"
RUN = "embedded.federator/run-seconds"


@contextlib.asynccontextmanager
async def operators(world: MemberWorld, operator: str) -> AsyncIterator[None]:
    """They run while the context does."""
    client = Client(world.cluster.transport(), "m1")
    own = Operators(client, clock=world.clock, rng=random.Random(7), operator=operator)
    task = asyncio.get_running_loop().create_task(own.run())
    yield
    task.cancel()
    await asyncio.wait([task])


def ref(kind: str, name: str) -> ObjectRef:
    return ObjectRef(NATIVES[kind].api_version, NATIVES[kind].plural, "feed", name, kind)


def job(target: str, run_s: int = 60, **spec: Any) -> dict[str, Any]:
    return training(
        "ranker", target=target, template=template(annotations={RUN: str(run_s)}), **spec
    )


def life(target: str) -> Any:
    @in_member()
    async def scenario(world: MemberWorld) -> None:
        async with operators(world, target):
            await world.create(job(target))
            await world.until_status(KIND, "ranker", running=3)
            owned = await world.get("Job", "ranker-worker-1")
            assert owned["metadata"]["ownerReferences"][0]["kind"] == "JobSet"
            pods = await world.client.list("v1", "pods", namespace="feed")
            assert sorted(pod["spec"]["hostname"] for pod in pods.items) == [
                "ranker-master-0-0",
                "ranker-worker-0-0",
                "ranker-worker-1-0",
            ]
            status = await world.until_status(KIND, "ranker", completedIndexes="0", within_s=200)
            assert status["summary"] == "completed"
            assert {"kind": target, "name": "ranker", "health": "Healthy"} in status["natives"]
            made = {(one["kind"], one["name"]): one.get("owner") for one in status["natives"]}
            assert made[target, "ranker"] is None
            assert made["Job", "ranker-worker-1"] == "JobSet/ranker"
            assert made["JobSet", "ranker"] == (None if target == "JobSet" else "TrainJob/ranker")
            live = await world.client.get(ref(target, "ranker"))
            assert live["spec"]["suspend"] is False  # it is left as its controller ended it
            world.log.clear()
            await asyncio.sleep(60)
            assert not [line for line in world.log if "clustercapacities" not in line]
            uid = (await world.get(KIND, "ranker"))["metadata"]["uid"]
            await world.client.delete(world.ref(KIND, "ranker"), uid=uid, propagation="Foreground")

            async def gone() -> bool:
                left = [*await world.names("Job"), *await world.names("Pod")]
                for kind in (target, *(("TrainingRuntime",) if target == "TrainJob" else ())):
                    row = NATIVES[kind]
                    listed = (await world.client.list(row.api_version, row.plural)).items
                    left += [obj["metadata"]["name"] for obj in listed]
                return not left

            await world.until(gone)

    return scenario


@pytest.mark.parametrize("target", ["JobSet", "TrainJob"])
def test_it_runs_completes_and_goes_with_its_slice(target: str) -> None:
    life(target)()


@in_member()
async def test_a_cluster_that_does_not_serve_the_kind_is_named_and_asked_again(
    world: MemberWorld,
) -> None:
    await world.create(job("JobSet"))
    await world.until_condition(KIND, "ranker", "Expanded", "False")

    ready = condition_of(await world.get(KIND, "ranker"), "Ready")
    assert ready["reason"] == "ExpansionFailed"
    assert ready["message"] == (
        "Cluster m1 does not serve JobSet (jobset.x-k8s.io/v1alpha2), which the workload is to"
        " become."
    )
    assert await world.names("Job") == []
    async with operators(world, "JobSet"):
        await world.until_status(KIND, "ranker", running=3)


@in_member()
async def test_while_nobody_makes_its_jobs_that_is_said(world: MemberWorld) -> None:
    async with operators(world, "JobSet"):
        await asyncio.sleep(1)
    await world.create(job("JobSet"))
    await asyncio.sleep(60)

    ready = condition_of(await world.get(KIND, "ranker"), "Ready")
    assert ready["message"] == "The JobSet controller has not made all Jobs yet."


@in_member()
async def test_what_failed_for_good_is_told_in_the_words_of_its_controller(
    world: MemberWorld,
) -> None:
    async with operators(world, "JobSet"):
        obj = job("JobSet", run_s=5)
        obj["spec"]["components"] = [{"name": "worker", "replicas": 2, "backoffLimit": 0}]
        annotations = obj["spec"]["template"]["metadata"]["annotations"]
        annotations["embedded.federator/exit-code"] = "3"
        await world.create(obj)
        status = await world.until_status(KIND, "ranker", failedIndexes="0")

    (ready,) = (one for one in status["conditions"] if one["type"] == "Ready")
    assert ready["reason"] == "FailedJobs"
    assert ready["message"] == "jobset failed due to one or more job failures"


@in_member(nodes=(NodePool(count=1, allocatable={"cpu": "1", "memory": "4Gi", "pods": "9"}),))
async def test_one_that_finds_no_room_together_is_rolled_back(world: MemberWorld) -> None:
    async with operators(world, "JobSet"):
        await world.create(job("JobSet", gangTimeoutSeconds=10))

        async def rolled_back() -> bool:
            status = (await world.get(KIND, "ranker")).get("status") or {}
            return bool((status.get("gang") or {}).get("phase") == "RolledBack")

        await world.until(rolled_back, within_s=300)
        live = await world.client.get(ref("JobSet", "ranker"))
        assert live["spec"]["suspend"] is True


@in_member()
async def test_its_jobs_are_not_written_by_the_member_process(world: MemberWorld) -> None:
    async with operators(world, "JobSet"):
        await world.create(job("JobSet"))
        await world.until_status(KIND, "ranker", running=3)
        await world.patch("Job", "ranker-worker-0", {"metadata": {"labels": {"app": "theirs"}}})
        await asyncio.sleep(5)
        assert not [line for line in world.log if "/jobs/" in line]
