"""A member process on an embedded cluster: the ClusterCapacity it publishes."""

import asyncio
from typing import Any

from federator.api import capacityfields, clustercapacity
from federator.embedded.controllers import NodePool
from federator.kinds import registry
from federator.model.ask import PodShape
from federator.model.resources import Resources
from tests.unit.member.memberworld import MemberWorld, block, in_member, jobset, service, template

KIND = "ClusterCapacity"
ONE_CPU = PodShape(Resources({"cpu": 1000, "pods": 1}))
BIG = PodShape(Resources({"cpu": 6000, "pods": 1}))
FOUR_NODES = (NodePool(count=4, allocatable={"cpu": "8", "memory": "32Gi", "pods": "50"}),)


async def ask(world: MemberWorld, *shapes: PodShape) -> None:
    await world.until_status(KIND, "cluster", nodeCount=4)
    await world.patch(KIND, "cluster", {"spec": clustercapacity.to_spec(shapes)})


async def until_copies(world: MemberWorld, shape: PodShape, copies: int) -> dict[str, Any]:
    async def holds() -> bool:
        status = (await world.get(KIND, "cluster")).get("status") or {}
        return bool((status.get("copies") or {}).get(shape.id) == copies)

    await world.until(holds)
    found: dict[str, Any] = (await world.get(KIND, "cluster"))["status"]
    return found


def in_the_way(name: str) -> dict[str, Any]:
    """Somebody else's Deployment where a slice's would come, without pods: the slice never gets
    any.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "feed"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {**template(), "metadata": {"labels": {"app": "theirs"}}},
        },
    }


@in_member(nodes=FOUR_NODES)
async def test_free_nodes_are_published_and_shapes_answered_exactly(world: MemberWorld) -> None:
    await ask(world, ONE_CPU, BIG)
    status = await until_copies(world, ONE_CPU, 32)
    assert status["copies"][BIG.id] == 4
    assert (
        status["observedGeneration"] == (await world.get(KIND, "cluster"))["metadata"]["generation"]
    )
    assert [row["count"] for row in status["nodes"]] == [4]
    assert status["exact"] is True
    capacity = capacityfields.to_capacity(status)
    assert capacity.free["cpu"] == 32000


@in_member(nodes=FOUR_NODES)
async def test_a_slice_is_subtracted_although_its_pods_do_not_exist(world: MemberWorld) -> None:
    await ask(world, ONE_CPU)
    await until_copies(world, ONE_CPU, 32)
    await world.create(in_the_way("web"))
    await world.create(service(replicas=10, template=template("1"), slice=block(seq=77)))
    await until_copies(world, ONE_CPU, 22)
    assert await world.names("Pod") == []


@in_member(nodes=FOUR_NODES)
async def test_a_report_tells_up_to_which_version_slices_of_each_kind_are_included(
    world: MemberWorld,
) -> None:
    await ask(world, ONE_CPU)
    await until_copies(world, ONE_CPU, 32)
    made = await world.create(service(replicas=10, template=template("1"), slice=block(seq=77)))
    await until_copies(world, ONE_CPU, 22)
    status = (await world.get(KIND, "cluster"))["status"]
    assert set(status["sliceVersions"]) == set(registry.WORKLOADS)
    version = int(status["sliceVersions"]["PinterestService"])
    assert version >= int(made["metadata"]["resourceVersion"])


@in_member(nodes=FOUR_NODES)
async def test_slices_whose_copies_keep_off_their_own_kind_are_subtracted_one_by_one(
    world: MemberWorld,
) -> None:
    """Three copies each of two services take six places: on four machines they share some."""
    await ask(world, ONE_CPU)
    await until_copies(world, ONE_CPU, 32)
    for name in ("api", "web"):
        alone = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": name}},
        }
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}}
        pods = template("1", affinity=affinity)
        pods["metadata"]["labels"] = {"app": name}
        await world.create(in_the_way(name))
        await world.create(service(name, replicas=3, template=pods))
    await until_copies(world, ONE_CPU, 26)


@in_member(nodes=FOUR_NODES)
async def test_a_slice_is_subtracted_once_while_its_pods_come_up(world: MemberWorld) -> None:
    await ask(world, ONE_CPU)
    await until_copies(world, ONE_CPU, 32)
    await world.create(service(replicas=10, template=template("1"), slice=block(seq=77)))
    status = await until_copies(world, ONE_CPU, 22)
    assert status["includesSeq"] == 77
    history = set()
    for _ in range(60):
        history.add((await world.get(KIND, "cluster"))["status"]["copies"][ONE_CPU.id])
        await asyncio.sleep(0.5)
    assert history == {22}


@in_member(nodes=FOUR_NODES)
async def test_a_job_set_holds_its_slots_until_its_shards_are_done(world: MemberWorld) -> None:
    await ask(world, ONE_CPU)
    run = template("1", annotations={"embedded.federator/run-seconds": "20"})
    await world.create(jobset(ranges="0-9", parallelism=5, template=run))
    await until_copies(world, ONE_CPU, 27)
    await world.until_status("PinterestJobSet", "crunch", done=10)
    await until_copies(world, ONE_CPU, 32)


@in_member(nodes=FOUR_NODES)
async def test_recorded_shards_free_their_slots_without_any_pod_event(world: MemberWorld) -> None:
    await ask(world, ONE_CPU)
    await until_copies(world, ONE_CPU, 32)
    spec = {"template": {"spec": {**template()["spec"], "restartPolicy": "Never"}}, "suspend": True}
    metadata = {"name": "crunch-0-9", "namespace": "feed"}
    await world.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    )
    await world.create(jobset(ranges="0-9", parallelism=5, template=template("1")))
    await until_copies(world, ONE_CPU, 27)
    # A running process would put right what somebody else writes.
    await world.stop_member()
    done = {"status": {"completedIndexes": "0-9"}}
    await world.patch("PinterestJobSet", "crunch", done, subresource="status")
    world.start_member()
    await until_copies(world, ONE_CPU, 32)


@in_member(nodes=FOUR_NODES)
async def test_pods_of_others_count_bound_or_waiting(world: MemberWorld) -> None:
    await ask(world, BIG)
    await until_copies(world, BIG, 4)
    for number in range(6):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"theirs-{number}", "namespace": "feed"},
            "spec": template("5")["spec"],
        }
        await world.create(pod)
    await until_copies(world, BIG, 0)


@in_member(nodes=FOUR_NODES)
async def test_cordoned_nodes_are_out(world: MemberWorld) -> None:
    await ask(world, ONE_CPU)
    await until_copies(world, ONE_CPU, 32)
    await world.patch("Node", "node-0", {"spec": {"unschedulable": True}})
    status = await until_copies(world, ONE_CPU, 24)
    assert status["nodeCount"] == 3


@in_member(nodes=FOUR_NODES)
async def test_a_daemon_set_is_owed_its_missing_pods(world: MemberWorld) -> None:
    await ask(world, ONE_CPU)
    await until_copies(world, ONE_CPU, 32)
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "feed"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {**template("2"), "metadata": {"labels": {"app": "agent"}}},
        },
    }
    await world.create(daemon)
    await until_copies(world, ONE_CPU, 24)


@in_member(nodes=FOUR_NODES)
async def test_a_small_change_that_can_wait_does_not_delay_a_slice_that_cannot(
    world: MemberWorld,
) -> None:
    await ask(world, ONE_CPU)
    await until_copies(world, ONE_CPU, 32)
    await asyncio.sleep(10)
    metadata = {"name": "tiny", "namespace": "feed"}
    await world.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template("1m")["spec"]}
    )
    await asyncio.sleep(4)
    await world.create(service(replicas=4, template=template("1"), slice=block(seq=77)))
    await world.until_status(KIND, "cluster", includesSeq=77, within_s=4)


async def until_taints(world: MemberWorld, want: list[str]) -> None:
    async def holds() -> bool:
        rows = (await world.get(KIND, "cluster"))["status"]["nodes"]
        return [taint["key"] for row in rows for taint in row.get("taints", ())] == want

    await world.until(holds, within_s=10)


@in_member(nodes=FOUR_NODES)
async def test_taints_that_come_and_go_are_told_soon_although_no_room_changed(
    world: MemberWorld,
) -> None:
    await ask(world, ONE_CPU)
    await until_copies(world, ONE_CPU, 32)
    taint = {"key": "maintenance", "value": "soon", "effect": "NoSchedule"}
    for taints in ([taint], []):
        await asyncio.sleep(10)
        for index in range(4):
            await world.patch("Node", f"node-{index}", {"spec": {"taints": taints}})
        await until_taints(world, [one["key"] for one in taints])


@in_member(nodes=FOUR_NODES)
async def test_the_highest_seq_stays_when_its_slice_goes(world: MemberWorld) -> None:
    await world.create(service(slice=block(seq=9)))
    await world.until_status(KIND, "cluster", includesSeq=9)
    await world.delete("PinterestService", "web")
    await asyncio.sleep(60)
    assert (await world.get(KIND, "cluster"))["status"]["includesSeq"] == 9


@in_member(nodes=FOUR_NODES)
async def test_a_slice_heard_after_one_of_a_later_decision_is_told_at_once_however_small(
    world: MemberWorld,
) -> None:
    await world.create(service("later", slice=block(seq=12)))
    await world.until_status("PinterestService", "later", healthy=True)
    await asyncio.sleep(60)
    for seq in (10, 11):
        before = (await world.get(KIND, "cluster"))["status"]
        tiny = service(f"late-{seq}", replicas=1, template=template("10m"))
        await world.create({**tiny, "spec": {**tiny["spec"], "slice": block(seq=seq)}})
        await asyncio.sleep(2.5)
        after = (await world.get(KIND, "cluster"))["status"]
        assert after["includesSeq"] == before["includesSeq"] == 12
        assert after["nodes"] != before["nodes"]


@in_member(nodes=FOUR_NODES)
async def test_a_report_that_says_nothing_new_is_not_written(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", ready=3)
    await asyncio.sleep(60)
    before, surveys = len(world.log), world.process.reporter.surveys
    await world.patch("Node", "node-0", {"metadata": {"annotations": {"noise": "1"}}})
    await world.patch("Node", "node-0", {"metadata": {"labels": {"noise": "1"}}})
    await asyncio.sleep(60)
    assert world.process.reporter.surveys > surveys
    assert world.log[before:] == []


@in_member(nodes=FOUR_NODES)
async def test_bursts_of_pods_are_few_writes(world: MemberWorld) -> None:
    await asyncio.sleep(10)
    for number in range(60):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"theirs-{number}", "namespace": "feed"},
            "spec": template("100m")["spec"],
        }
        await world.create(pod)
        await asyncio.sleep(0.5)
    writes = sum(n for path, n in world.writes.items() if "clustercapacities" in path)
    assert writes <= 16


TYPED = (
    NodePool(
        count=2,
        allocatable={"cpu": "8", "memory": "32Gi", "pods": "50"},
        labels={"node.kubernetes.io/instance-type": "m6i.2xlarge"},
    ),
)


@in_member(nodes=TYPED)
async def test_a_report_names_pods_without_a_node_and_nodes_by_type(world: MemberWorld) -> None:
    await world.until_status(KIND, "cluster", nodeCount=2)
    await world.create(service(replicas=5, template=template("6"), slice=block(seq=77)))

    async def tells() -> bool:
        status = (await world.get(KIND, "cluster")).get("status") or {}
        return bool(status.get("waiting"))

    await world.until(tells)
    report = capacityfields.to_capacity((await world.get(KIND, "cluster"))["status"])
    assert report.machines == {"m6i.2xlarge": 2}
    ((shape, copies),) = report.waiting
    assert (shape.requests["cpu"], copies) == (6000, 3)
    assert report.includes_seq == 77
