"""Gangs in a member whose servers have PodGroups, and a scheduler that heeds them."""

import asyncio
from typing import Any

from federator.embedded.controllers import NodePool
from federator.kinds.natives import NATIVES, POD_GROUP
from federator.kube import errors
from federator.model.steps import ObjectRef
from federator.sandbox import operators
from tests.unit.member.memberworld import MemberWorld, condition_of, in_member, template, training

KIND = "PinterestTrainingJob"
RUN = "embedded.federator/run-seconds"
SMALL = (NodePool(count=1, allocatable={"cpu": "1", "memory": "4Gi", "pods": "9"}),)


def group_ref(name: str = "ranker") -> ObjectRef:
    row = NATIVES[POD_GROUP]
    return ObjectRef(row.api_version, row.plural, "feed", name, POD_GROUP)


async def serve(world: MemberWorld) -> None:
    """The cluster serves PodGroups, and its member process has seen that it does."""
    await operators.define(world.client, [operators.definition(POD_GROUP)])

    async def offered() -> bool:
        return world.process.caches.offers(POD_GROUP)

    await world.until(offered)


def job(run_s: int = 600, **spec: Any) -> dict[str, Any]:
    return training("ranker", template=template(annotations={RUN: str(run_s)}), **spec)


async def bound(world: MemberWorld) -> list[str]:
    pods = await world.client.list("v1", "pods", namespace="feed")
    return sorted(pod["metadata"]["name"] for pod in pods.items if pod["spec"].get("nodeName"))


async def least(world: MemberWorld) -> int:
    group = await world.client.get(group_ref())
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


async def jobs(world: MemberWorld) -> list[dict[str, Any]]:
    return [*(await world.client.list("batch/v1", "jobs", namespace="feed")).items]


def named(obj: dict[str, Any]) -> str | None:
    group = obj["spec"]["template"]["spec"].get("schedulingGroup") or {}
    return group.get("podGroupName")


@in_member()
async def test_all_its_pods_belong_to_one_group_which_goes_with_it(world: MemberWorld) -> None:
    await serve(world)
    await world.create(job())
    status = await world.until_status(KIND, "ranker", running=3)

    group = await world.client.get(group_ref())
    assert group["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "disruptionMode": {"all": {}},
        "priorityClassName": "federator-ondemand",
    }
    assert {named(obj) for obj in await jobs(world)} == {"ranker"}
    assert status["gang"]["podGroup"] == "ranker"
    assert {"kind": POD_GROUP, "name": "ranker", "health": "Healthy"} in status["natives"]
    await asyncio.sleep(10)
    world.log.clear()
    await asyncio.sleep(60)
    assert not [line for line in world.log if "clustercapacities" not in line]

    await world.delete(KIND, "ranker")

    async def gone() -> bool:
        try:
            await world.client.get(group_ref())
        except errors.NotFound:
            return not await world.names("Job")
        return False

    await world.until(gone)


@in_member(nodes=SMALL)
async def test_where_not_all_find_nodes_none_is_bound(world: MemberWorld) -> None:
    """Two of three would fit. It is rolled back all the same, so that it can go elsewhere."""
    await serve(world)
    await world.create(job(gangTimeoutSeconds=10))
    most = 0

    async def rolled_back() -> bool:
        nonlocal most
        most = max(most, len(await bound(world)))
        status = (await world.get(KIND, "ranker")).get("status") or {}
        return bool((status.get("gang") or {}).get("phase") == "RolledBack")

    await world.until(rolled_back, within_s=300)
    assert most == 0


@in_member(nodes=SMALL)
async def test_without_groups_some_are_bound_alone(world: MemberWorld) -> None:
    """What the test above would see if the scheduler did not heed the group."""
    await world.create(job(gangTimeoutSeconds=10))

    async def two_of_three() -> bool:
        return len(await bound(world)) == 2

    await world.until(two_of_three)
    assert {named(obj) for obj in await jobs(world)} == {None}
    assert "podGroup" not in (await world.get(KIND, "ranker"))["status"]["gang"]


@in_member()
async def test_pods_that_have_completed_are_not_waited_for(world: MemberWorld) -> None:
    """The scheduler knows nothing of them any more: with all three the master, tried again, would
    wait for ever."""
    await serve(world)
    brief = template(annotations={RUN: "5"})
    components = [{"name": "master"}, {"name": "worker", "replicas": 2, "template": brief}]
    await world.create(job(components=components))
    await world.until_status(KIND, "ranker", running=3)

    async def shrunk() -> bool:
        return await least(world) == 1

    await world.until(shrunk)
    (master,) = [name for name in await bound(world) if "master" in name]
    await world.delete("Pod", master)

    async def again() -> bool:
        masters = [name for name in await bound(world) if "master" in name]
        return bool(masters) and master not in masters

    await world.until(again)


@in_member()
async def test_jobs_that_were_made_without_a_group_stay_without(world: MemberWorld) -> None:
    await world.create(job())
    await world.until_status(KIND, "ranker", running=3)
    await serve(world)
    await world.patch(KIND, "ranker", {"spec": {"gangTimeoutSeconds": 900}})
    await asyncio.sleep(60)

    listed = await world.client.list(group_ref().api_version, group_ref().plural, namespace="feed")
    assert not listed.items
    assert {named(obj) for obj in await jobs(world)} == {None}
    assert "podGroup" not in (await world.get(KIND, "ranker"))["status"]["gang"]


@in_member()
async def test_a_group_is_made_when_its_priority_class_is_there(world: MemberWorld) -> None:
    """Real API servers refuse it before. Its Jobs are there, and wait."""
    await serve(world)
    pods = template(annotations={RUN: "600"}, priorityClassName="high")
    await world.create(training("ranker", template=pods))

    async def told() -> bool:
        ready = condition_of(await world.get(KIND, "ranker"), "Ready")
        return "Not found: PriorityClass high" in ready.get("message", "")

    await world.until(told)
    rows = group_ref()
    assert not (await world.client.list(rows.api_version, rows.plural, namespace="feed")).items
    assert all(obj["spec"]["suspend"] for obj in await jobs(world))

    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    await world.create({**high, "metadata": {"name": "high"}})
    await world.until_status(KIND, "ranker", running=3)
    group = await world.client.get(group_ref())
    assert group["spec"]["priorityClassName"] == "high"


@in_member()
async def test_a_group_that_somebody_deletes_is_made_again(world: MemberWorld) -> None:
    await serve(world)
    await world.create(job())
    await world.until_status(KIND, "ranker", running=3)
    uid = (await world.client.get(group_ref()))["metadata"]["uid"]
    await world.client.delete(group_ref(), uid=uid)

    async def back() -> bool:
        try:
            return bool((await world.client.get(group_ref()))["metadata"]["uid"] != uid)
        except errors.NotFound:
            return False

    await world.until(back)


@in_member()
async def test_a_job_that_becomes_a_job_set_has_no_group_of_ours(world: MemberWorld) -> None:
    await serve(world)
    await operators.define(world.client, operators.definitions("JobSet"))

    async def offered() -> bool:
        return world.process.caches.offers("JobSet")

    await world.until(offered)
    await world.create(job(target="JobSet"))
    await asyncio.sleep(30)

    listed = await world.client.list(group_ref().api_version, group_ref().plural, namespace="feed")
    assert not listed.items
