"""Claims that outlive pods, and files of shards, in a member."""

import asyncio

from tests.unit.member.memberworld import MemberWorld, in_member, jobset, template

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    "lifetime": "Shard",
}
PODS = template(annotations={"embedded.federator/run-seconds": "20"})


async def kept(world: MemberWorld) -> list[str]:
    return await world.names("PersistentVolumeClaim")


@in_member()
async def test_shards_run_with_their_data_and_files_and_a_claim_goes_with_its_job_set(
    world: MemberWorld,
) -> None:
    both = [CLAIM, {**CLAIM, "metadata": {"name": "out"}, "retention": "Retain"}]
    files = {"part.txt": "{shard} of {count}"}
    await world.create(jobset(volumeClaimTemplates=both, shardConfig=files, template=PODS))
    await asyncio.sleep(15)
    assert await kept(world) == ["crunch-data", "crunch-out"]
    data = (await world.get("ConfigMap", "crunch-0-9-shards"))["data"]
    assert (data["0.part.txt"], data["9.part.txt"], len(data)) == ("0 of 10", "9 of 10", 10)
    await world.until_status("PinterestJobSet", "crunch", done=10)
    await world.delete("PinterestJobSet", "crunch")
    await asyncio.sleep(60)
    assert await kept(world) == ["crunch-out"]
    await world.create(jobset(volumeClaimTemplates=both, template=PODS))
    await world.until_status("PinterestJobSet", "crunch", done=10)


@in_member()
async def test_files_that_are_too_large_stop_nothing_and_are_told_with_their_size(
    world: MemberWorld,
) -> None:
    files = {"part.txt": "x" * 60000}
    await world.create(jobset(shardConfig=files, template=PODS))
    await world.until_status("PinterestJobSet", "crunch", reason="ExpansionFailed")
    status = (await world.get("PinterestJobSet", "crunch"))["status"]
    assert "spec.shardConfig" in status["message"]
    assert "600100 bytes" in status["message"]
    assert await world.names("Job") == []
