"""Cron jobs that their clusters run by themselves: who decides which time, and that no time is lost
or run twice when that changes, whatever becomes of the hub meanwhile.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from federator.kinds import registry
from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.unit.hub.test_recurring import CRON, events, runs, spec, status, until
from tests.unit.hub.world import World, play

NATIVE = "PinterestNativeCronJob"
IN_AB = {"clusters": {"names": ["a", "b"]}}


def native(schedule: str = "* * * * *", *, run_s: int = 5, **more: Any) -> dict[str, Any]:
    made = spec(schedule, run_s=run_s, runs="Native", concurrencyPolicy="Forbid", **more)
    made |= {"successfulJobsHistoryLimit": 100}
    made["jobTemplate"]["spec"]["placement"] = IN_AB
    return made


def minutes(*seconds: int) -> list[str]:
    return [datetime.fromtimestamp(each, UTC).strftime("%H:%M") for each in sorted(seconds)]


async def by_hub(world: World) -> list[str]:
    """Times of the hub's runs, hours and minutes."""
    return sorted(f"{name[-4:-2]}:{name[-2:]}" for name in await runs(world))


async def jobs(world: World, member: str) -> list[dict[str, Any]]:
    return list((await world.member(member).list("batch/v1", "jobs", "ads")).items)


async def by_cluster(world: World, member: str) -> list[str]:
    """Times of the runs that a member's own controller made."""
    names = [job["metadata"]["name"] for job in await jobs(world, member)]
    own = [int(name.rpartition("-")[2]) * 60 for name in names if name.count("-") == 1]
    return minutes(*own)


async def cron_job(world: World, member: str) -> dict[str, Any] | None:
    ref = ObjectRef("batch/v1", "cronjobs", "ads", "nightly", "CronJob")
    try:
        return await world.member(member).get(ref)
    except errors.NotFound:
        return None


async def change(world: World, **fields: Any) -> None:
    ref = registry.KINDS[CRON].ref("ads", "nightly")
    await world.host.patch(ref, {"spec": fields})


def test_each_cluster_that_the_policy_names_runs_each_time_once() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", native())
        await until(world, 0, 50)
        begun = await world.get(NATIVE, "ads", "nightly")
        assert begun is not None
        assert begun["status"]["clusters"] == 2
        assert "lastScheduleTime" not in begun["status"]  # nothing has run yet
        await until(world, 3, 20)
        for member in "ab":
            live = await cron_job(world, member)
            assert live is not None
            assert live["spec"]["schedule"] == "* * * * *"
            assert live["spec"]["suspend"] is False
            assert await by_cluster(world, member) == ["14:14", "14:15", "14:16"]
        assert await cron_job(world, "c") is None
        assert await runs(world) == {}
        whole = await status(world)
        assert (whole["activeRuns"], whole["lastScheduleTime"]) == (0, "2026-09-21T14:16:00Z")
        assert whole["nextScheduleTime"] == "2026-09-21T14:17:00Z"
        ready = await world.condition(CRON, "ads", "nightly", "Ready")
        assert (ready["status"], ready["reason"]) == ("True", "Native")
        assert ready["message"] == "Each of 2 clusters runs it by itself."
        own = await world.get(NATIVE, "ads", "nightly")
        assert own is not None
        rows = own["status"]["clusterStatuses"]
        assert [(row["cluster"], row["parallelism"], row["activeRuns"]) for row in rows] == [
            ("a", 2, 0),
            ("b", 2, 0),
        ]
        assert own["status"]["summary"] == "0 active in 2 clusters"
        assert {row["lastScheduleTime"] for row in rows} == {"2026-09-21T14:16:00Z"}

    play(scenario)


def test_a_cluster_that_joins_the_others_runs_nothing_that_was_due_before() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", native())
        await until(world, 3, 20)
        run = native()["jobTemplate"]
        run["spec"]["placement"] = {"clusters": {"names": ["a", "c"]}}
        await change(world, jobTemplate=run)
        await until(world, 3, 50)
        joined = await cron_job(world, "c")
        assert joined is not None
        assert joined["spec"]["suspend"] is False
        assert await cron_job(world, "b") is None
        assert await by_cluster(world, "c") == []
        await until(world, 5, 20)
        assert await by_cluster(world, "c") == ["14:17", "14:18"]
        run["spec"]["placement"] = IN_AB
        await change(world, jobTemplate=run)
        await until(world, 6, 20)
        # b had it before, and the slice that it has now is another
        assert await by_cluster(world, "b") == ["14:19"]

    play(scenario)


def test_clusters_go_on_without_a_hub() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", native())
        await until(world, 1, 30)
        await world.federation.kill("hub")
        await until(world, 6, 20)
        expected = [f"14:{minute}" for minute in range(14, 20)]
        assert [await by_cluster(world, member) for member in "ab"] == [expected, expected]
        world.federation.start_hub()
        await until(world, 8, 20)
        assert await runs(world) == {}
        assert await by_cluster(world, "a") == [*expected, "14:20", "14:21"]

    play(scenario)


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True], ids=["hub stays", "hub crashes"])
def test_from_the_hub_to_the_clusters_and_back_each_time_has_one_decider(killed: bool) -> None:
    """Each minute has a run of the hub, or one in each cluster; none has both, and none neither but
    those that passed while one side waited for the other, of which the newest has one."""

    async def scenario(world: World) -> None:
        made = native()
        await world.create(CRON, "ads", "nightly", {**made, "runs": "Hub"})
        await until(world, 2, 10)
        await change(world, runs="Native")
        if killed:
            await asyncio.sleep(0.2)
            await world.federation.kill("hub")
            await until(world, 4, 30)
            world.federation.start_hub()
        await until(world, 8, 30)
        ours, theirs = await by_hub(world), await by_cluster(world, "a")
        assert theirs == await by_cluster(world, "b")
        assert not set(ours) & set(theirs)
        assert ours == ["14:14", "14:15"] or killed
        if not killed:
            assert [*ours, *theirs] == [f"14:{minute}" for minute in range(14, 22)]
        assert theirs[-1] == "14:21"

        await change(world, runs="Hub")
        await until(world, 12, 30)
        after = await by_hub(world)
        final = {member: await by_cluster(world, member) for member in "ab"}
        assert final == {"a": [], "b": []}  # they go with their CronJobs
        assert await world.get(NATIVE, "ads", "nightly") is None
        assert not set(after) & set(theirs)
        assert after[-4:] == ["14:22", "14:23", "14:24", "14:25"]
        ready = await world.condition(CRON, "ads", "nightly", "Ready")
        assert (ready["status"], ready["reason"]) == ("True", "Scheduled")
        if not killed:
            (handed,) = await events(world, "HandedOver")
            assert handed.startswith("Its clusters run what is due after 2026-09-21T14:15:")
            (back,) = await events(world, "TakenBack")
            assert "the last run of its clusters: 2026-09-21T14:21:00Z" in back

    play(scenario)


def test_a_run_of_the_hub_that_is_going_ends_before_clusters_begin() -> None:
    async def scenario(world: World) -> None:
        made = native(run_s=130)
        await world.create(CRON, "ads", "nightly", {**made, "runs": "Hub"})
        await until(world, 1, 20)
        await change(world, runs="Native")
        await until(world, 2, 50)
        assert await by_hub(world) == ["14:14"]
        assert await by_cluster(world, "a") == []
        live = await cron_job(world, "a")
        assert live is not None
        assert live["spec"]["suspend"] is True
        ready = await world.condition(CRON, "ads", "nightly", "Ready")
        assert (ready["reason"], ready["message"]) == (
            "HandingOver",
            "Its clusters take over when the runs of the hub have ended.",
        )
        await until(world, 3, 50)
        # The newest of the times that passed meanwhile: 14:16, as it was 14:16:1x by then.
        assert await by_hub(world) == ["14:14"]
        assert await by_cluster(world, "a") == ["14:16"]

    play(scenario)


def test_a_run_of_a_cluster_that_is_going_ends_before_the_hub_begins() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", native(run_s=130))
        await until(world, 1, 20)
        await change(world, runs="Hub")
        await until(world, 2, 50)
        assert await runs(world) == {}
        assert await by_cluster(world, "a") == ["14:14"]
        ready = await world.condition(CRON, "ads", "nightly", "Ready")
        assert ready["reason"] == "HandingOver"
        assert "2 runs are active there" in ready["message"]
        await until(world, 3, 50)
        assert await by_hub(world) == ["14:16"]
        assert await cron_job(world, "a") is None

    play(scenario)


@pytest.mark.long
def test_a_cluster_that_is_not_heard_keeps_the_hub_from_taking_over() -> None:
    """It may be running what the hub would run again."""

    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", native())
        await until(world, 1, 30)
        await world.cut("b")
        await until(world, 4, 0)
        await change(world, runs="Hub")
        await until(world, 8, 30)
        assert await runs(world) == {}
        assert (await by_cluster(world, "b"))[-1] == "14:21"
        world.heal("b")
        await until(world, 14, 30)
        ours = await by_hub(world)
        assert ours
        assert min(ours) > "14:21"

    play(scenario)


def test_what_others_do_to_the_cron_job_is_put_back_and_no_time_is_run_twice() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", native())
        await until(world, 2, 20)
        ref = ObjectRef("batch/v1", "cronjobs", "ads", "nightly", "CronJob")
        await world.member("a").patch(ref, {"spec": {"schedule": "0 0 1 1 *", "suspend": True}})
        await asyncio.sleep(5)
        live = await cron_job(world, "a")
        assert live is not None
        assert (live["spec"]["schedule"], live["spec"]["suspend"]) == ("* * * * *", False)
        await world.member("a").delete(ref, uid=live["metadata"]["uid"])
        await asyncio.sleep(10)
        again = await cron_job(world, "a")
        assert again is not None
        assert again["metadata"]["uid"] != live["metadata"]["uid"]
        assert again["status"]["lastScheduleTime"] == "2026-09-21T14:15:00Z"
        assert await by_cluster(world, "a") == []  # the runs went with the one that was deleted
        await until(world, 4, 20)
        assert await by_cluster(world, "a") == ["14:16", "14:17"]

    play(scenario)


def test_a_failed_run_is_told_with_its_reason() -> None:
    async def scenario(world: World) -> None:
        made = native("14 14 * * *")
        work = made["jobTemplate"]["spec"]
        work["backoffLimitPerShard"] = 0
        work["template"]["metadata"]["annotations"]["embedded.federator/exit-code"] = "3"
        await world.create(CRON, "ads", "nightly", made)
        await until(world, 2, 0)
        own = await world.get(NATIVE, "ads", "nightly")
        assert own is not None
        rows = own["status"]["clusterStatuses"]
        assert {row["reason"] for row in rows} == {"RunFailed"}
        assert "has failed (FailedIndexes)" in rows[0]["message"]
        ready = await world.condition(CRON, "ads", "nightly", "Ready")
        assert ready["status"] == "True"
        assert "has failed (FailedIndexes)" in ready["message"]

    play(scenario)


def test_a_policy_that_chooses_no_clusters_is_refused_in_words() -> None:
    async def scenario(world: World) -> None:
        made = native()
        del made["jobTemplate"]["spec"]["placement"]
        await world.create(CRON, "ads", "nightly", made)
        await until(world, 2, 0)
        assert [await cron_job(world, member) for member in "abc"] == [None] * 3
        ready = await world.condition(CRON, "ads", "nightly", "Ready")
        assert ready["status"] == "False"
        assert "names and selects no clusters" in ready["message"]

    play(scenario)


def test_a_name_that_somebody_else_has_is_told() -> None:
    async def scenario(world: World) -> None:
        made = native()
        theirs = {**made["jobTemplate"]["spec"], "cron": {"schedule": "0 0 1 1 *"}}
        await world.create(NATIVE, "ads", "nightly", theirs)
        await world.create(CRON, "ads", "nightly", made)
        await until(world, 2, 0)
        ready = await world.condition(CRON, "ads", "nightly", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "NameTaken")
        assert await runs(world) == {}
        kept = await world.get(NATIVE, "ads", "nightly")
        assert kept is not None
        assert kept["spec"]["cron"]["schedule"] == "0 0 1 1 *"

    play(scenario)


def test_everything_goes_with_the_cron_job() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", native(run_s=600))
        await until(world, 1, 30)
        assert await by_cluster(world, "a") == ["14:14"]
        found = await world.get(CRON, "ads", "nightly")
        assert found is not None
        ref = registry.KINDS[CRON].ref("ads", "nightly")
        await world.host.delete(ref, uid=found["metadata"]["uid"])
        await until(world, 3, 0)
        assert await world.get(NATIVE, "ads", "nightly") is None
        assert [await cron_job(world, member) for member in "ab"] == [None, None]
        assert [await jobs(world, member) for member in "ab"] == [[], []]

    play(scenario)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"concurrencyPolicy": "Allow"}, "one run at a time"),
        ({"startingDeadlineSeconds": 0}, "at least 10"),
    ],
)
def test_what_a_native_controller_cannot_keep_is_refused(wrong: Any, words: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(errors.Invalid, match=words):
            await world.create(CRON, "ads", "nightly", native() | wrong)
        made = native()
        made["jobTemplate"]["spec"]["execution"] = "Exclusive"
        with pytest.raises(errors.Invalid, match="runs of its own"):
            await world.create(CRON, "ads", "nightly", made)

    play(scenario)


def test_an_edit_of_the_schedule_starts_nothing_that_was_due_before_it() -> None:
    """Clusters and hub alike: both run what is due after the edit."""

    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", native("0 3 1 1 *"))
        await until(world, 2, 30)
        await change(world, schedule="14 * * * *")  # it was due 90 seconds ago
        await until(world, 5)
        for member in "ab":
            live = await cron_job(world, member)
            assert live is not None
            assert (live["spec"]["schedule"], live["spec"]["suspend"]) == ("14 * * * *", False)
            assert live["status"]["lastScheduleTime"] == "2026-09-21T14:15:30Z"
            assert await by_cluster(world, member) == []
        await change(world, schedule="20 * * * *")
        await until(world, 7, 30)
        assert await by_cluster(world, "a") == ["14:20"]
        await change(world, runs="Hub", schedule="18 * * * *")
        await until(world, 10)
        assert await runs(world) == {}
        assert (await status(world))["nextScheduleTime"] == "2026-09-21T15:18:00Z"

    play(scenario)
