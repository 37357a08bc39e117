"""How job sets end before all their shards are done: the hub decides over all clusters, what still
runs is stopped and told as such, and it stays so.
"""

import asyncio
from typing import Any

import pytest

from tests.unit.hub.world import World, jobset, play

PJS = "PinterestJobSet"
STEP_S = 5


def behaves(shards: int, slots: int, *, run_s: str = "10", **more: Any) -> dict[str, Any]:
    """A job set of small shards; `more` are fields of its spec, `fails` the indexes that fail."""
    annotations = {"embedded.federator/run-seconds": run_s}
    annotations |= {f"embedded.federator/{key}": text for key, text in more.pop("pod", {}).items()}
    return jobset(shards, slots, "100m", annotations) | more


async def ended(world: World, name: str = "work") -> dict[str, Any]:
    found = await world.get(PJS, "feed", name)
    assert found is not None
    status = found.get("status") or {}
    (condition,) = (c for c in status["conditions"] if c["type"] in ("Complete", "Failed"))
    return {
        "as": condition["type"],
        "reason": condition["reason"],
        "message": condition["message"],
        **{field: status.get(field, 0) for field in ("done", "failed", "stopped", "running")},
    }


async def pods(world: World) -> int:
    """Pods of shards that have not ended, in all members."""
    counted = 0
    for cluster in world.federation.members:
        found = await world.member(cluster).list("v1", "pods", "feed")
        counted += sum(
            pod["status"].get("phase") in ("Pending", "Running")
            and "deletionTimestamp" not in pod["metadata"]
            for pod in found.items
        )
    return counted


async def settled(world: World) -> None:
    await world.settle(600)
    await asyncio.sleep(60)
    assert await pods(world) == 0
    if (await ended(world))["stopped"]:
        assert set((await world.slots("feed", "work")).values()) <= {0}


@pytest.mark.long
@pytest.mark.parametrize("restarted", [False, True])
def test_any_completed_shard_ends_it_and_the_rest_is_stopped(restarted: bool) -> None:
    async def scenario(world: World) -> None:
        await world.create(PJS, "feed", "work", behaves(20, 12, run_s="30-3000", completion="Any"))
        await world.settle()
        if restarted:
            await world.federation.kill("hub")
            world.federation.start_hub()
        await settled(world)

        found = await ended(world)
        assert (found["as"], found["reason"]) == ("Complete", "AnyShardCompleted")
        assert found["done"] >= 1
        assert found["stopped"] == 20 - found["done"]
        assert found["running"] == 0
        assert "stopped: that is enough" in found["message"]

        before = world.count()
        await asyncio.sleep(300)
        assert world.count() == before

    play(scenario)


def test_a_success_policy_counts_the_shards_of_all_clusters_together() -> None:
    async def scenario(world: World) -> None:
        policy = {"succeededCount": 3, "succeededShards": "0,5,10,15,19"}
        spec = behaves(
            20,
            20,
            run_s="20",
            pod={"fail-indexes": "0"},
            completion="SuccessPolicy",
            successPolicy=policy,
            backoffLimitPerShard=0,
        )
        await world.create(PJS, "feed", "work", spec)
        await settled(world)

        found = await ended(world)
        assert (found["as"], found["reason"]) == ("Complete", "SuccessPolicyMet")

    play(scenario)


def test_a_success_policy_that_cannot_be_met_any_more_fails() -> None:
    async def scenario(world: World) -> None:
        spec = behaves(
            9,
            9,
            run_s="20",
            pod={"exit-code": "7"},
            completion="SuccessPolicy",
            successPolicy={"succeededShards": "0-1"},
            backoffLimitPerShard=0,
        )
        await world.create(PJS, "feed", "work", spec)
        await settled(world)
        found = await ended(world)
        assert (found["as"], found["reason"]) == ("Failed", "SuccessPolicyUnreachable")

    play(scenario)


def test_an_exit_code_of_the_failure_policy_ends_it_in_all_clusters() -> None:
    async def scenario(world: World) -> None:
        rule = {"action": "FailJobSet", "onExitCodes": {"operator": "In", "values": [42]}}
        spec = behaves(
            12,
            12,
            run_s="900",
            pod={"exit-code": "42", "run-seconds": "900"},
            failurePolicy={"rules": [rule]},
        )
        spec["template"]["metadata"]["annotations"]["embedded.federator/run-seconds"] = "20-900"
        await world.create(PJS, "feed", "work", spec)
        await settled(world)

        found = await ended(world)
        assert (found["as"], found["reason"]) == ("Failed", "PodFailurePolicy")
        assert "exit code 42" in found["message"]
        assert found["stopped"] > 0

    play(scenario)


def test_a_shard_fails_at_once_by_its_exit_code_and_the_others_go_on() -> None:
    async def scenario(world: World) -> None:
        rule = {"action": "FailShard", "onExitCodes": {"operator": "In", "values": [42]}}
        spec = behaves(
            6,
            6,
            pod={"exit-code": "42", "fail-indexes": "0"},
            failurePolicy={"rules": [rule]},
            backoffLimitPerShard=1000,
        )
        await world.create(PJS, "feed", "work", spec)
        await world.settle(600)
        found = await ended(world)
        assert (found["as"], found["reason"]) == ("Failed", "ShardsFailed")
        assert found["done"] + found["failed"] == 6
        assert found["done"] > 0

    play(scenario)


def test_too_many_failed_shards_end_it() -> None:
    async def scenario(world: World) -> None:
        spec = behaves(
            12,
            12,
            run_s="20-900",
            pod={"exit-code": "1"},
            failurePolicy={"maxFailedShards": 1},
            backoffLimitPerShard=0,
        )
        await world.create(PJS, "feed", "work", spec)
        await settled(world)
        found = await ended(world)
        assert (found["as"], found["reason"]) == ("Failed", "MaxFailedShardsExceeded")
        assert found["failed"] >= 2

    play(scenario)


def test_its_deadline_ends_it() -> None:
    async def scenario(world: World) -> None:
        spec = behaves(12, 6, run_s="3600", activeDeadlineSeconds=120)
        await world.create(PJS, "feed", "work", spec)
        await asyncio.sleep(90)
        found = await world.get(PJS, "feed", "work")
        assert found is not None
        assert found["status"]["startTime"]
        assert not [c for c in found["status"]["conditions"] if c["type"] == "Failed"]

        await asyncio.sleep(60)
        await settled(world)
        told = await ended(world)
        assert (told["as"], told["reason"]) == ("Failed", "DeadlineExceeded")
        assert "more than 120 seconds" in told["message"]

    play(scenario)


def test_it_goes_when_its_time_to_live_is_over_and_not_before() -> None:
    async def scenario(world: World) -> None:
        spec = behaves(4, 4, run_s="10", ttlSecondsAfterFinished=300)
        await world.create(PJS, "feed", "work", spec)
        await world.create(PJS, "feed", "kept", behaves(4, 4, run_s="10"))
        await world.settle()
        await asyncio.sleep(200)
        assert await world.get(PJS, "feed", "work") is not None

        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(200)
        assert await world.get(PJS, "feed", "work") is None
        assert await world.get(PJS, "feed", "kept") is not None
        for cluster in world.federation.members:
            assert await world.get(PJS, "feed", "work", at=cluster) is None

    play(scenario)


@pytest.mark.parametrize("failing", [{}, {"fail-indexes": "1"}])
def test_it_goes_also_when_its_end_is_the_last_news_of_it(failing: dict[str, str]) -> None:
    """Nothing happens to it between its end and the end of its time to live."""

    async def scenario(world: World) -> None:
        limits: dict[str, Any] = {"ttlSecondsAfterFinished": 30, "backoffLimitPerShard": 0}
        spec = behaves(4, 4, pod={"index-base-env": "SHARD_BASE", **failing}, **limits)
        await world.create(PJS, "feed", "work", spec)
        await world.settle()
        await asyncio.sleep(25)
        assert await world.get(PJS, "feed", "work") is not None
        await asyncio.sleep(15)
        assert await world.get(PJS, "feed", "work") is None

    play(scenario)


def test_a_time_to_live_that_is_made_longer_is_obeyed() -> None:
    async def scenario(world: World) -> None:
        spec = behaves(4, 4, run_s="10", ttlSecondsAfterFinished=100)
        await world.create(PJS, "feed", "work", spec)
        await world.settle()
        await world.patch(PJS, "feed", "work", {"spec": {"ttlSecondsAfterFinished": 3600}})
        await asyncio.sleep(600)
        assert await world.get(PJS, "feed", "work") is not None

    play(scenario)
