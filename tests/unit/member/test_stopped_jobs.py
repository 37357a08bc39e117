"""A member process on an embedded cluster: Jobs that were stopped go soon, or run on."""

import asyncio

from tests.unit.member.memberworld import MemberWorld, in_member, jobset, template

RUN = "embedded.federator/run-seconds"


async def give(world: MemberWorld, seq: int, ranges: str) -> None:
    await world.patch(
        "PinterestJobSet", "crunch", {"spec": {"slice": {"seq": seq, "ranges": ranges}}}
    )


@in_member()
async def test_shards_that_come_back_before_their_job_is_gone_run_on(world: MemberWorld) -> None:
    await world.create(
        jobset(ranges="0-4,5-9", parallelism=10, template=template(annotations={RUN: "60"}))
    )
    await world.until_status("PinterestJobSet", "crunch", running=10)
    await world.stop_controllers()  # its pods do not go, so it cannot be deleted
    await give(world, 6, "0-4")
    await asyncio.sleep(5)
    assert (await world.get("Job", "crunch-5-9"))["spec"]["suspend"] is True
    await give(world, 7, "0-4,5-9")
    await world.start_controllers()
    await world.until_status("PinterestJobSet", "crunch", done=10, within_s=400)


@in_member()
async def test_a_job_that_somebody_suspends_is_resumed(world: MemberWorld) -> None:
    await world.create(jobset(template=template(annotations={RUN: "20"})))
    await world.until_status("PinterestJobSet", "crunch", running=4)
    await world.patch("Job", "crunch-0-9", {"spec": {"suspend": True}})
    await world.until_status("PinterestJobSet", "crunch", done=10, within_s=200)


@in_member()
async def test_a_stopped_job_goes_as_soon_as_its_last_pod_has_gone(world: MemberWorld) -> None:
    await world.create(
        jobset(ranges="0-4,5-9", parallelism=10, template=template(annotations={RUN: "600"}))
    )
    await world.until_status("PinterestJobSet", "crunch", running=10)
    await world.stop_controllers()
    await give(world, 6, "0-4")
    await asyncio.sleep(2)
    await world.start_controllers()

    async def gone() -> bool:
        return await world.find("Job", "crunch-5-9") is None

    await world.until(gone, within_s=5)


@in_member()
async def test_a_job_set_at_rest_and_a_restart_write_nothing(world: MemberWorld) -> None:
    await world.create(jobset(template=template(annotations={RUN: "5000"})))
    await world.until_status("PinterestJobSet", "crunch", running=4)
    await asyncio.sleep(30)
    before = len(world.log)
    await asyncio.sleep(120)
    await world.restart_member()
    await asyncio.sleep(120)
    assert world.log[before:] == []


@in_member()
async def test_a_slice_status_that_somebody_else_wrote_is_put_right(world: MemberWorld) -> None:
    await world.create(
        jobset(ranges="0-4,5-9", parallelism=10, template=template(annotations={RUN: "600"}))
    )
    await world.until_status("PinterestJobSet", "crunch", running=10)
    forged = {"completedIndexes": "0-7,40-59", "failedIndexes": "9", "done": 28, "failed": 1}
    await world.patch("PinterestJobSet", "crunch", {"status": forged}, subresource="status")

    status = await world.until_status("PinterestJobSet", "crunch", done=0, within_s=10)
    assert (status.get("completedIndexes"), status.get("failedIndexes")) == ("", "")
    await world.until_status("PinterestJobSet", "crunch", running=10, within_s=30)
    await world.until_status("PinterestJobSet", "crunch", done=10, within_s=1500)
