"""The member process on a real API server with its own controllers and scheduler: the same promises
as on the embedded one.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from federator.api import capacityfields, raw
from federator.kinds import registry
from federator.kube import clock as clocks
from federator.kube import errors
from federator.model import names
from federator.model.steps import ObjectRef
from tests.controlplane.plane import ControlPlane
from tests.e2e import realworld
from tests.e2e.realworld import RealWorld
from tests.unit.member.memberworld import (
    MemberWorld,
    block,
    jobset,
    labels,
    service,
    template,
)
from tests.unit.member.test_startup_taints import TAINT, daemon

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("real servers with nodes"),
]

CONTROLLER_LOOKS_S = 10
"""How late the CronJob controller may look at a new CronJob."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(control_plane: ControlPlane) -> AsyncIterator[RealWorld]:
    """One cluster with three nodes for all tests."""
    opened = realworld.opened(control_plane, "member")
    async with opened as found, realworld.with_nodes(found):
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def world(servers: RealWorld) -> AsyncIterator[RealWorld]:
    """With a member process; each test finds it without slices."""
    async with realworld.running(servers):
        yield servers


async def test_slices_are_expanded_rolled_up_and_then_left_alone(world: RealWorld) -> None:
    pods = template("0.25")
    pods["spec"]["containers"][0]["livenessProbe"] = {"httpGet": {"path": "/", "port": 8080}}
    pods["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    web = service(replicas=4, template=pods, config={"a.properties": "1"}, iamRole="role-web")
    # Its seq will rise: a member process refuses older ones of the same workload.
    web["metadata"]["labels"][names.WORKLOAD_UID_LABEL] = web["spec"]["slice"]["workloadUID"] = "w"
    await world.client.create(MemberWorld.ref("PinterestService", "web"), web)
    crunch = jobset(ranges="0-4,10-14", shards=20, parallelism=4)
    await world.client.create(MemberWorld.ref("PinterestJobSet", "crunch"), crunch)
    await world.until_status("PinterestService", "web", ready=4, healthy=True, observedGeneration=1)
    await world.until_status(
        "PinterestJobSet", "crunch", completedIndexes="0-4,10-14", healthy=True
    )

    await asyncio.sleep(4)
    assert await world.quiet(6) == []
    await world.start()
    assert await world.quiet(8) == [], "a new life of the member process found something to write"

    await world.client.patch(
        MemberWorld.ref("PinterestService", "web"), {"spec": {"replicas": 6, "slice": {"seq": 9}}}
    )
    await world.until_status("PinterestService", "web", ready=6, healthy=True, observedGeneration=2)
    await world.client.patch(
        MemberWorld.ref("Deployment", "web"), {"spec": {"replicas": 1}}, kind="strategic"
    )

    async def repaired() -> bool:
        return bool((await world.get("Deployment", "web"))["spec"]["replicas"] == 6)

    await world.until(repaired)
    managers = json.dumps((await world.get("Deployment", "web"))["metadata"]["managedFields"])
    assert '"manager": "federator-member", "operation": "Apply"' in managers


async def test_a_gang_whose_pods_find_no_nodes_together_is_rolled_back(world: RealWorld) -> None:
    """Three of its four pods are bound to the three nodes, the fourth finds none: after the
    time-out none of them holds a node any more."""
    pods = template("0.25", {"embedded.federator/run-seconds": "600"})
    pods["metadata"]["labels"] = {"apart": "yes"}
    rule = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"apart": "yes"}},
    }
    pods["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    }
    gang = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestTrainingJob",
        "metadata": {"name": "ranker", "namespace": "feed", "labels": labels()},
        "spec": {
            "components": [{"name": "master"}, {"name": "worker", "replicas": 3}],
            "template": pods,
            "gangTimeoutSeconds": 10,
            "slice": block(ranges="0-0"),
        },
    }
    await world.client.create(MemberWorld.ref("PinterestTrainingJob", "ranker"), gang)

    async def bound() -> int:
        found = await world.client.list("v1", "pods", namespace="feed")
        return sum(bool(pod["spec"].get("nodeName")) for pod in found.items)

    async def half_there() -> bool:
        return await bound() == 3

    async def given_back() -> bool:
        jobs = (await world.client.list("batch/v1", "jobs", namespace="feed")).items
        return await bound() == 0 and all(job["spec"]["suspend"] for job in jobs)

    await world.until(half_there)
    await world.until(given_back)
    status = (await world.get("PinterestTrainingJob", "ranker"))["status"]
    assert (status["gang"]["phase"], status["gang"]["attempts"]) == ("RolledBack", 1)
    assert "GangTimedOut" in json.dumps(status)


async def test_a_daemon_that_is_ready_takes_its_startup_taint_from_a_node(
    world: RealWorld,
) -> None:
    await world.client.create(MemberWorld.ref("PinterestDaemon", "agent"), daemon())
    await world.until_status("PinterestDaemon", "agent", ready=3)
    node = MemberWorld.ref("Node", "n-0")
    await world.client.patch(node, {"spec": {"taints": [TAINT]}})

    async def untainted() -> bool:
        return not (await world.client.get(node))["spec"].get("taints")

    await world.until(untainted)


async def test_a_cron_job_runs_from_the_moment_that_it_is_told(world: RealWorld) -> None:
    """The controller of Kubernetes itself takes over where another has ended, and where a CronJob
    that somebody deleted had come to."""
    before_s = int(time.time()) - 150
    cron = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestNativeCronJob",
        "metadata": {"name": "sweep", "namespace": "feed", "labels": labels()},
        "spec": {
            "cron": {"schedule": "* * * * *", "timeZone": "Etc/UTC", "after": raw.second(before_s)},
            "parallelism": 1,
            "template": template("0.1", {"embedded.federator/run-seconds": "1"}),
            "slice": block(),
        },
    }
    await world.client.create(MemberWorld.ref("PinterestNativeCronJob", "sweep"), cron)

    async def runs() -> dict[int, str]:
        """Minute -> uid of the CronJob that made the run."""
        found = await world.client.list("batch/v1", "jobs", namespace="feed")
        return {
            int(job["metadata"]["name"].rpartition("-")[2]): job["metadata"]["ownerReferences"][0][
                "uid"
            ]
            for job in found.items
        }

    async def begun() -> bool:
        return bool(await runs())

    await world.until(begun)
    live = await world.get("CronJob", "sweep")
    made_s = clocks.parse(live["metadata"]["creationTimestamp"])
    first = min(await runs())
    # Due before the CronJob was made, by itself it would not have been looked for. The controller
    # looks up to ten seconds later, and only for the newest run.
    assert before_s < first * 60 <= made_s + CONTROLLER_LOOKS_S
    await world.until_status("PinterestNativeCronJob", "sweep", healthy=True, suspended=False)

    async def reported() -> bool:
        status = (await world.get("PinterestNativeCronJob", "sweep"))["status"]
        return bool(status.get("lastScheduleTime", "") >= raw.second(first * 60))

    await world.until(reported)
    await world.client.delete(MemberWorld.ref("CronJob", "sweep"), uid=live["metadata"]["uid"])

    async def remade() -> bool:
        try:
            again = await world.get("CronJob", "sweep")
        except errors.NotFound:
            return False
        other = again["metadata"]["uid"] != live["metadata"]["uid"]
        return other and not again["spec"]["suspend"]

    await world.until(remade)
    again = await world.get("CronJob", "sweep")
    assert again["status"]["lastScheduleTime"] >= raw.second(first * 60)
    await asyncio.sleep(2)
    assert again["metadata"]["uid"] not in {
        uid for minute, uid in (await runs()).items() if minute <= first
    }


async def test_what_a_real_quota_leaves_is_reported_and_each_pod_counts_once(
    world: RealWorld,
) -> None:
    """Its controller and admission count pods; the member process counts those that are missing."""
    quota = ObjectRef("v1", "resourcequotas", "feed", "compute", "ResourceQuota")
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "compute", "namespace": "feed"},
        "spec": {"hard": {"pods": "9", "requests.cpu": "2"}},
    }
    made = await world.client.create(quota, body)
    kind, left = registry.KINDS["ClusterCapacity"], list[tuple[int, int]]()

    async def leaves(cpu_milli: int, pods: int) -> bool:
        reports = await world.client.list(kind.api_version, kind.plural)
        for report in reports.items:
            quotas = capacityfields.to_capacity(report.get("status") or {}).quotas
            for each in quotas.get("feed", ()):
                amounts = dict(each.requests)
                left.append((amounts["cpu"], amounts["pods"]))
        return (cpu_milli, pods) in left[-1:]

    try:
        await world.until(lambda: leaves(2000, 9))
        web = service(replicas=4, template=template("0.25"))
        await world.client.create(MemberWorld.ref("PinterestService", "web"), web)
        await world.until_status("PinterestService", "web", ready=4)
        await world.until(lambda: leaves(1000, 5))
        # Nothing was subtracted twice while pods came up.
        assert min(left) == (1000, 5)
    finally:
        await world.client.delete(quota, uid=made["metadata"]["uid"])
