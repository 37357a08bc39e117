"""Recurring objects on the host: their runs are made on time, once, placed like any other work, and
forgotten; whatever becomes of the hub meanwhile.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, jobset, play
from tests.worlds import EPOCH_S

CRON, RUN = "PinterestCronJob", "PinterestJobSet"
BEGIN = datetime.fromtimestamp(EPOCH_S, UTC)
"""14:13:20 on a Monday."""


def spec(schedule: str, *, run_s: int = 2, **more: Any) -> dict[str, Any]:
    work = jobset(2, 2, annotations={"embedded.federator/run-seconds": str(run_s)})
    return {
        "schedule": schedule,
        "jobTemplate": {"metadata": {"labels": {"team": "ads"}}, "spec": work},
        **more,
    }


def named(*minutes: int) -> list[str]:
    """Runs that are due so many minutes after 14:13."""
    begin = BEGIN.replace(second=0)
    return [
        f"nightly-{(begin + timedelta(minutes=each)).strftime('%Y%m%d%H%M')}" for each in minutes
    ]


async def runs(world: World) -> dict[str, dict[str, Any]]:
    kind = registry.KINDS[RUN]
    listing = await world.host.list(kind.api_version, kind.plural, "ads")
    return {obj["metadata"]["name"]: obj for obj in listing.items}


async def status(world: World) -> dict[str, Any]:
    found = await world.get(CRON, "ads", "nightly")
    assert found is not None
    return dict(found.get("status") or {})


async def until(world: World, minutes: int, seconds: int = 0) -> None:
    """Until so long after 14:13:00."""
    then = BEGIN.replace(second=0) + timedelta(minutes=minutes, seconds=seconds)
    await asyncio.sleep(then.timestamp() - world.federation.clock.now())


async def events(world: World, reason: str) -> list[str]:
    listing = await world.host.list("events.k8s.io/v1", "events", "ads")
    return [one["note"] for one in listing.items if one["reason"] == reason]


@pytest.mark.long
def test_runs_are_made_on_time_placed_and_forgotten() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            CRON, "ads", "nightly", spec("*/5 * * * *", successfulJobsHistoryLimit=2)
        )
        await until(world, 1, 59)
        assert await runs(world) == {}
        assert (await status(world))["nextScheduleTime"] == "2026-09-21T14:15:00Z"

        await until(world, 2, 1)
        (made,) = (await runs(world)).values()
        assert made["metadata"]["name"] == named(2)[0]
        assert made["metadata"]["labels"] == {"team": "ads", "pinterest.com/cronjob": "nightly"}
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == (CRON, "nightly", True)
        assert (await status(world))["active"] == named(2)
        assert sum((await world.shares("ads", named(2)[0])).values()) == 0  # shards, not replicas
        assert sum((await world.slots("ads", named(2)[0])).values()) == 2

        await until(world, 3)
        stated = await status(world)
        assert (stated["lastScheduleTime"], stated["activeRuns"]) == ("2026-09-21T14:15:00Z", 0)
        assert stated["lastSuccessfulTime"].startswith("2026-09-21T14:15:")
        assert [one["reason"] for one in stated["conditions"]] == ["Scheduled"]

        await until(world, 24)
        assert sorted(await runs(world)) == named(17, 22)
        assert (await status(world))["missedRuns"] == 0
        assert len(await events(world, "RunMade")) == 5

    play(scenario)


@pytest.mark.long
def test_between_runs_nothing_is_written() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", spec("0 * * * *"))
        await asyncio.sleep(60)
        before = world.count()
        await asyncio.sleep(1800)

        assert world.count() == before
        written = {key: number for key, number in world.writes.items() if "cronjob" in key[3]}
        assert written == {("hub", "host", "PATCH", "pinterestcronjobs/status"): 1}

    play(scenario)


@pytest.mark.long
def test_a_run_costs_one_object_and_two_statuses() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", spec("0 * * * *"))
        await asyncio.sleep(60)
        before = world.writes["hub", "host", "PATCH", "pinterestcronjobs/status"]
        await until(world, 47 + 10)

        assert world.writes["hub", "host", "POST", "pinterestjobsets"] == 1
        assert world.writes["hub", "host", "PATCH", "pinterestcronjobs/status"] - before == 2

    play(scenario)


@pytest.mark.parametrize(
    ("policy", "existing"),
    [("Allow", named(2, 7, 12)), ("Forbid", named(2, 7)), ("Replace", named(12))],
)
def test_a_run_that_is_due_while_another_is_active(policy: str, existing: list[str]) -> None:
    async def scenario(world: World) -> None:
        body = spec(
            "*/5 * * * *", run_s=420, concurrencyPolicy=policy, successfulJobsHistoryLimit=9
        )
        await world.create(CRON, "ads", "nightly", body)
        await until(world, 12, 30)

        assert sorted(await runs(world)) == existing

    play(scenario)


@pytest.mark.long
def test_a_hub_that_was_away_makes_the_newest_run_and_tells_of_the_others() -> None:
    away_s = 4 * 3600

    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", spec("30 * * * *"))
        await until(world, 20)
        await world.federation.kill("hub")
        await asyncio.sleep(away_s)
        world.federation.start_hub()
        await asyncio.sleep(60)

        newest = (BEGIN.replace(minute=30, second=0) + timedelta(seconds=away_s)).strftime(
            "%Y%m%d%H%M"
        )
        assert sorted(await runs(world)) == [*named(17), f"nightly-{newest}"]
        assert (await status(world))["missedRuns"] == away_s // 3600 - 1
        assert await events(world, "RunsMissed") == [
            f"{away_s // 3600 - 1} times have passed without a run."
        ]

    play(scenario)


@pytest.mark.long
@pytest.mark.parametrize(
    "resource",
    ["POST pinterestjobsets", "PATCH pinterestcronjobs/status", "DELETE pinterestjobsets"],
)
@pytest.mark.parametrize("killed", [False, True], ids=["lost reply", "and a crash"])
def test_a_write_whose_answer_is_lost_makes_no_second_run(resource: str, killed: bool) -> None:
    async def scenario(world: World) -> None:
        method, plural = resource.split()
        await world.create(
            CRON, "ads", "nightly", spec("*/5 * * * *", successfulJobsHistoryLimit=0)
        )
        created: list[str] = []
        for minute in (2, 7, 12, 17):
            await until(world, minute, -1)
            world.lose_reply("host", method, plural)
            for _ in range(40):
                await asyncio.sleep(0.5)
                if killed and not world.orders.open:
                    await world.federation.kill("hub")
                    world.federation.start_hub()
                    break
            world.orders.cancel()
            await asyncio.sleep(20)
        created = await events(world, "RunMade")
        stated = await status(world)

        assert stated["missedRuns"] == 0
        assert stated["lastScheduleTime"] == "2026-09-21T14:30:00Z"
        assert len(created) == len(set(created))
        done = world.writes["hub", "host", "POST", "pinterestjobsets"]
        assert done >= 4

    play(scenario)


def test_a_name_that_somebody_else_has_is_passed_over() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            RUN, "ads", named(2)[0], jobset(1, 1), labels={"pinterest.com/cronjob": "nightly"}
        )
        await world.create(CRON, "ads", "nightly", spec("*/5 * * * *"))
        await until(world, 8)

        stated = await status(world)
        assert (stated["missedRuns"], stated["lastScheduleTime"]) == (1, "2026-09-21T14:20:00Z")
        assert len(await events(world, "RunNameTaken")) == 1
        assert set(await runs(world)) == set(named(2, 7))

    play(scenario)


def test_a_paused_federation_makes_no_runs_and_makes_them_afterwards() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", spec("*/5 * * * *"))
        pause = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "federator", "namespace": "federator-system"},
        }

        ref = ObjectRef("v1", "configmaps", "federator-system", "federator", "ConfigMap")
        await world.host.create(ref, {**pause, "data": {"paused": "true"}})
        await until(world, 8)
        assert await runs(world) == {}
        found = await world.host.get(ref)
        await world.host.delete(ref, uid=found["metadata"]["uid"])
        await until(world, 9)

        assert sorted(await runs(world)) == named(7)

    play(scenario)


def test_a_run_that_the_host_refuses_is_told_and_tried_again() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", spec("*/5 * * * *"))
        await until(world, 1)
        world.refuse_writes("host", "/pinterestjobsets")
        await until(world, 3)
        ready = await world.condition(CRON, "ads", "nightly", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "RunRefused")
        assert len(await events(world, "RunRefused")) == 1

        world.clear()
        await until(world, 5)
        assert sorted(await runs(world)) == named(2)
        assert (await world.condition(CRON, "ads", "nightly", "Ready"))["status"] == "True"

    play(scenario)


def test_an_unreadable_schedule_and_one_that_never_comes_are_told() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "never", spec("0 0 31 2 *"))
        await world.create(CRON, "ads", "reversed", spec("5-1 * * * *"))
        await asyncio.sleep(10)

        assert (await world.condition(CRON, "ads", "never", "Stalled"))["reason"] == "NeverRuns"
        assert (await world.condition(CRON, "ads", "reversed", "Stalled"))[
            "reason"
        ] == "InvalidSchedule"

    play(scenario)


@pytest.mark.long
def test_only_the_oldest_cron_jobs_of_a_namespace_make_runs() -> None:
    async def scenario(world: World) -> None:
        for name in ("nightly", "second", "third", "fourth"):
            await world.create(CRON, "ads", name, spec("* * * * *"))
            await asyncio.sleep(1)
        await world.create(CRON, "feed", "other", spec("* * * * *"))
        await until(world, 2, 30)

        async def made() -> set[str]:
            return {name.rpartition("-")[0] for name in await runs(world)}

        assert await made() == {"nightly", "second"}
        for name in ("third", "fourth"):
            ready = await world.condition(CRON, "ads", name, "Ready")
            assert (ready["status"], ready["reason"]) == ("False", "TooManyCronJobs")
            assert "2 older cron jobs of this namespace" in ready["message"]
        assert (await world.condition(CRON, "feed", "other", "Ready"))["status"] == "True"

        await world.delete(CRON, "ads", "second")
        await until(world, 5, 30)
        assert {"third"} <= await made() <= {"nightly", "second", "third"}
        assert (await world.condition(CRON, "ads", "third", "Ready"))["status"] == "True"
        ready = await world.condition(CRON, "ads", "fourth", "Ready")
        assert ready["reason"] == "TooManyCronJobs"

    play(scenario, options=HubOptions(cron_jobs_per_namespace=2))


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": "61 * * * *"},
        {"schedule": "TZ=UTC 5 * * * *"},
        {"timeZone": "Europe/Berln"},
        {"timeZone": "Local"},
        {"startingDeadlineSeconds": -1},
        {"concurrencyPolicy": "Sometimes"},
    ],
)
def test_what_can_never_work_is_refused_by_the_host(wrong: Mapping[str, Any]) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(errors.Invalid, match=next(iter(wrong))):
            await world.create(CRON, "ads", "nightly", {**spec("5 * * * *"), **wrong})

    play(scenario)


def test_runs_go_with_their_cron_job() -> None:
    async def scenario(world: World) -> None:
        await world.create(CRON, "ads", "nightly", spec("*/5 * * * *", run_s=600))
        await until(world, 3)
        assert sorted(await runs(world)) == named(2)
        await world.delete(CRON, "ads", "nightly")
        await until(world, 4)

        assert await runs(world) == {}
        assert await world.decisions() == []

    play(scenario)
