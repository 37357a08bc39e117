"""A member process on an embedded cluster: statuses roll up with a reason, shards are never
lost.
"""

import asyncio

from federator.embedded.controllers import NodePool
from federator.kinds import registry
from federator.member.options import MemberOptions
from federator.member.rolling import PATIENCE_S
from federator.model.names import WorkloadKey
from tests.unit.member.memberworld import (
    MemberWorld,
    block,
    condition_of,
    in_member,
    jobset,
    service,
    template,
)

POD = "embedded.federator/"


@in_member()
async def test_an_image_that_cannot_be_pulled_is_the_reason(world: MemberWorld) -> None:
    await world.create(service(template=template(annotations={POD + "image-pull-error": "true"})))
    status = await world.until_status("PinterestService", "web", reason="ImagePullFailed")
    assert "registry/app:1" in status["message"]
    assert "3 pods" in status["message"]
    assert status["healthy"] is False
    assert (
        condition_of(await world.get("PinterestService", "web"), "Ready")["reason"]
        == "ImagePullFailed"
    )


@in_member()
async def test_a_crash_loop_is_the_reason(world: MemberWorld) -> None:
    await world.create(
        service(template=template(annotations={POD + "run-seconds": "1", POD + "exit-code": "3"}))
    )
    status = await world.until_status("PinterestService", "web", reason="CrashLooping")
    assert "exit code 3" in status["message"]


@in_member(nodes=(NodePool(count=1, allocatable={"cpu": "2", "memory": "8Gi", "pods": "50"}),))
async def test_copies_without_a_node_are_counted_with_the_time_since_when(
    world: MemberWorld,
) -> None:
    await world.create(service(replicas=6))
    status = await world.until_status("PinterestService", "web", reason="Unschedulable", ready=4)
    assert status["unschedulable"]["count"] == 2
    assert status["unschedulable"]["since"].startswith("2023-11-14T22:")
    await world.patch("PinterestService", "web", {"spec": {"replicas": 4, "slice": {"seq": 6}}})
    status = await world.until_status("PinterestService", "web", healthy=True, ready=4)
    assert "unschedulable" not in status
    assert "reason" not in status


@in_member()
async def test_while_many_pods_start_the_status_is_written_at_most_once_a_second(
    world: MemberWorld,
) -> None:
    pods = template("10m", annotations={POD + "start-delay-seconds": "0.1-20"})
    await world.create(service(replicas=100, template=pods))
    begun = world.clock.monotonic()
    await world.until_status("PinterestService", "web", ready=100)
    took = world.clock.monotonic() - begun
    writes = world.writes[
        "PATCH /apis/pinterest.com/v1beta1/namespaces/feed/pinterestservices/web/status"
    ]
    assert 3 <= writes <= took + 2


@in_member()
async def test_a_job_set_runs_its_shards_and_completes(world: MemberWorld) -> None:
    pods = template(annotations={POD + "run-seconds": "3"})
    await world.create(jobset(ranges="0-4,10-14", shards=20, template=pods))
    status = await world.until_status("PinterestJobSet", "crunch", completedIndexes="0-4,10-14")
    assert (status["done"], status["running"], status["failed"]) == (10, 0, 0)
    status = await world.until_status("PinterestJobSet", "crunch", healthy=True)
    assert (
        condition_of(await world.get("PinterestJobSet", "crunch"), "Ready")["reason"] == "Completed"
    )
    jobs = {
        (await world.get("Job", name))["spec"]["completions"] for name in await world.names("Job")
    }
    assert jobs == {5}


@in_member()
async def test_shards_that_fail_for_good_are_named(world: MemberWorld) -> None:
    pods = template(
        annotations={
            POD + "run-seconds": "1",
            POD + "fail-indexes": "12",
            POD + "index-base-env": "SHARD_BASE",
        }
    )
    await world.create(jobset(ranges="10-14", shards=20, template=pods, backoffLimitPerShard=1))
    status = await world.until_status(
        "PinterestJobSet", "crunch", failedIndexes="12", done=4, within_s=400
    )
    assert status["completedIndexes"] == "10-11,13-14"


@in_member(options=MemberOptions(roll_up_interval_s=40.0))
async def test_a_job_goes_only_after_its_shards_are_recorded_and_none_runs_twice(
    world: MemberWorld,
) -> None:
    pods = template(annotations={POD + "run-seconds": "4"})
    await world.create(jobset(ranges="0-9", parallelism=2, template=pods))
    await world.until_status("Job", "crunch-0-9", completedIndexes="0-3")
    await world.patch("PinterestJobSet", "crunch", {"spec": {"slice": {"seq": 6, "ranges": "0-5"}}})
    jobs: set[str] = set()

    async def done() -> bool:
        jobs.update(await world.names("Job"))
        status = (await world.get("PinterestJobSet", "crunch")).get("status") or {}
        return bool(status.get("running") == 0 and status.get("done", 0) >= 6)

    await world.until(done, within_s=400)
    assert "crunch-0-9" in jobs
    assert "crunch-0-5" not in jobs, "what the first Job had completed was run again"
    assert len([line for line in world.log if line.startswith("DELETE")]) == 1


@in_member()
async def test_a_finished_job_that_somebody_removes_is_not_run_again(world: MemberWorld) -> None:
    pods = template(annotations={POD + "run-seconds": "1"})
    await world.create(jobset(ranges="0-3", shards=4, template=pods))
    await world.until_status("PinterestJobSet", "crunch", done=4)
    await world.delete("Job", (await world.names("Job"))[0])
    await asyncio.sleep(60)
    assert await world.names("Job") == []
    assert (await world.get("PinterestJobSet", "crunch"))["status"]["completedIndexes"] == "0-3"


@in_member(options=MemberOptions(roll_up_interval_s=1.0))
async def test_a_status_edited_by_hand_is_put_right(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await world.patch("PinterestService", "web", {"status": {"ready": 99}}, subresource="status")
    await world.until_status("PinterestService", "web", ready=3)


@in_member()
async def test_parallelism_follows_the_slots_without_a_new_job(world: MemberWorld) -> None:
    pods = template(annotations={POD + "run-seconds": "500"})
    await world.create(jobset(parallelism=2, template=pods))
    await world.until_status("PinterestJobSet", "crunch", running=2)
    uid = (await world.get("Job", "crunch-0-9"))["metadata"]["uid"]
    body = {"spec": {"parallelism": 5, "slice": {**block(6), "ranges": "0-9"}}}
    await world.patch("PinterestJobSet", "crunch", body)
    await world.until_status("PinterestJobSet", "crunch", running=5)
    assert (await world.get("Job", "crunch-0-9"))["metadata"]["uid"] == uid


@in_member()
async def test_while_slices_are_being_expanded_a_status_waits_until_it_tells_of_something(
    world: MemberWorld,
) -> None:
    other = WorkloadKey("PinterestService", "feed", "other")
    world.process.to_expand._running[other] = 0.0  # its natives take for ever to be written

    def written(name: str) -> int:
        path = f"/apis/pinterest.com/v1beta1/namespaces/feed/pinterestservices/{name}/status"
        return world.writes[f"PATCH {path}"]

    await asyncio.sleep(5)  # priority classes are there
    await world.create(
        service("quick", template=template(annotations={POD + "start-delay-seconds": "4"}))
    )
    await world.until_status("PinterestService", "quick", ready=3, healthy=True, within_s=8)
    assert written("quick") == 1
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}
    await world.create(service("ill", template=template(volumes=[volume])))
    await world.until_status("PinterestService", "ill", reason="MissingDependency", within_s=3)
    await world.create(
        service("slow", template=template(annotations={POD + "start-delay-seconds": "90"}))
    )
    await asyncio.sleep(PATIENCE_S - 2)
    assert written("slow") == 0
    await asyncio.sleep(4)
    assert written("slow") == 1
    world.process.to_expand.done(other)
    await world.patch("PinterestService", "quick", {"spec": {"replicas": 4, "slice": {"seq": 6}}})
    await asyncio.sleep(2)
    assert written("quick") == 2  # nobody is in its way: told after a second, as ever


@in_member()
async def test_copies_of_the_template_before_are_never_called_updated(world: MemberWorld) -> None:
    await world.create(service(replicas=4))
    before = await world.until_status("PinterestService", "web", ready=4, updatedReplicas=4)
    slow = template(annotations={POD + "ready-delay-seconds": "5"})
    await world.patch("PinterestService", "web", {"spec": {"template": slow}})
    counts = set()
    for _ in range(400):
        await asyncio.sleep(0.05)
        found, native = (
            await world.get("PinterestService", "web"),
            await world.get("Deployment", "web"),
        )
        counted = registry.verbs_of("PinterestService").observe(found, "m1", True).updated
        counts.add(counted)
        rolled = native["metadata"]["generation"] > 1 and native["status"]["observedGeneration"] > 1
        assert counted <= (native["status"].get("updatedReplicas", 0) if rolled else 0)
    assert counts >= {0, 4}
    assert found["status"]["template"] != before["template"]


@in_member()
async def test_a_new_share_says_nothing_of_the_template(world: MemberWorld) -> None:
    await world.create(service(replicas=4))
    await world.until_status("PinterestService", "web", ready=4, updatedReplicas=4)
    await world.patch("PinterestService", "web", {"spec": {"replicas": 3, "slice": {"seq": 6}}})
    for _ in range(100):
        found = await world.get("PinterestService", "web")
        assert registry.verbs_of("PinterestService").observe(found, "m1", True).updated >= 3
        await asyncio.sleep(0.05)


@in_member()
async def test_a_roll_out_without_progress_stalls_its_slice_until_it_is_taken_back(
    world: MemberWorld,
) -> None:
    await world.create(service(replicas=4, updateStrategy={"progressDeadlineSeconds": 30}))
    await world.until_status("PinterestService", "web", ready=4)
    bad = template(annotations={POD + "image-pull-error": "true"})
    cured = {**bad, "metadata": {"annotations": {POD + "image-pull-error": None}}}
    await world.patch("PinterestService", "web", {"spec": {"template": bad}})
    await asyncio.sleep(20)
    assert condition_of(await world.get("PinterestService", "web"), "Stalled") == {}
    await asyncio.sleep(30)
    stalled = condition_of(await world.get("PinterestService", "web"), "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "ProgressDeadlineExceeded")
    assert "registry/app:1" in stalled["message"]
    await world.patch("PinterestService", "web", {"spec": {"template": cured}})
    await world.until_status("PinterestService", "web", healthy=True)
    assert condition_of(await world.get("PinterestService", "web"), "Stalled") == {}


@in_member()
async def test_a_status_that_an_earlier_version_wrote_is_left_until_it_has_something_to_tell(
    world: MemberWorld,
) -> None:
    await world.create(service(replicas=4))
    await world.until_status("PinterestService", "web", ready=4, healthy=True)
    await world.patch(
        "PinterestService", "web", {"status": {"template": None}}, subresource="status"
    )
    await asyncio.sleep(60)
    assert "template" not in (await world.get("PinterestService", "web"))["status"]
    await world.patch("PinterestService", "web", {"spec": {"replicas": 5, "slice": {"seq": 6}}})
    assert "template" in await world.until_status(
        "PinterestService", "web", ready=5, updatedReplicas=5
    )


@in_member(options=MemberOptions(roll_up_interval_s=1.0))
async def test_a_slice_lists_what_it_became_and_what_is_not_well_first(world: MemberWorld) -> None:
    await world.create(service(replicas=2, service={"ports": [{"name": "http", "port": 80}]}))
    await world.until_status("PinterestService", "web", ready=2, healthy=True)
    listed = (await world.get("PinterestService", "web"))["status"]["natives"]
    assert [(row["kind"], row["health"]) for row in listed] == [
        ("Deployment", "Healthy"),
        ("Service", "Healthy"),
    ]
    assert {row["name"] for row in listed} == {"web"}

    image = {"template": template(annotations={POD + "image-pull-fails": "true"})}
    await world.patch("PinterestService", "web", {"spec": image})

    async def moving() -> bool:
        first = (await world.get("PinterestService", "web"))["status"]["natives"][0]
        return bool(
            first
            == {
                "kind": "Deployment",
                "name": "web",
                "health": "Progressing",
                "reason": "RollingOut",
            }
        )

    await world.until(moving, within_s=120)
