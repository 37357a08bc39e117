"""CronJobs: which times get a Job, what concurrency does, and what is kept."""

from typing import Any

from tests.unit.embedded.controllers.clusters import Cluster, Obj, play, template

# The clusters begin at 2023-11-14T22:13:20Z: the next full minute comes after 40 s.
TO_THE_MINUTE = 41


def cron(*, run_s: int = 5, fails: bool = False, **spec: Any) -> Obj:
    notes = {"run-seconds": str(run_s)}
    if fails:
        notes["exit-code"] = "1"
    pod = template("report", annotations=notes, restartPolicy="Never")
    job = {"template": pod, "backoffLimit": 0}
    return {
        "metadata": {"name": "report"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}, **spec},
    }


def runs(cluster: Cluster) -> list[str]:
    return sorted(job["metadata"]["name"] for job in cluster.all("Job"))


def test_each_time_gets_a_job_of_its_name() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("CronJob", cron())
        await cluster.pass_s(TO_THE_MINUTE + 60)
        assert runs(cluster) == ["report-28333334", "report-28333335"]
        job = cluster.get("Job", "report-28333334")
        assert job["metadata"]["ownerReferences"][0]["name"] == "report"
        stamps = job["metadata"]["annotations"].values()
        assert list(stamps) == ["2023-11-14T22:14:00Z"]
        assert job["spec"]["selector"]["matchLabels"]
        assert cluster.condition("Job", "report-28333334", "Complete")["status"] == "True"
        status = cluster.status("CronJob", "report")
        assert status["lastScheduleTime"] == "2023-11-14T22:15:00Z"
        assert status["lastSuccessfulTime"] > "2023-11-14T22:14:00Z"
        await cluster.pass_s(8)
        assert "active" not in cluster.status("CronJob", "report")

    play(story)


def test_only_the_newest_of_the_times_missed_gets_a_job() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("CronJob", cron(suspend=True))
        await cluster.pass_s(TO_THE_MINUTE + 180)
        assert runs(cluster) == []
        cluster.edit("CronJob", "report", suspend=False)
        await cluster.pass_s(1)
        assert runs(cluster) == ["report-28333337"]

    play(story)


def test_what_the_status_records_has_had_its_run() -> None:
    """The time from which is looked is that of the status, before and after the CronJob was
    made."""

    async def story(cluster: Cluster) -> None:
        past = cluster.create("CronJob", cron(suspend=True))
        stamped = {**past, "status": {"lastScheduleTime": "2023-11-14T22:11:00Z"}}
        stamped["spec"] = {**past["spec"], "suspend": False}
        cluster.delete("CronJob", "report")
        cluster.create("CronJob", stamped)
        await cluster.pass_s(1)
        assert runs(cluster) == ["report-28333333"]  # 22:13, before it was made
        await cluster.pass_s(1)
        assert runs(cluster) == ["report-28333333"]

    play(story)


def test_a_run_later_than_its_deadline_does_not_begin() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("CronJob", cron(suspend=True, startingDeadlineSeconds=30))
        await cluster.pass_s(TO_THE_MINUTE + 40)
        cluster.edit("CronJob", "report", suspend=False)
        await cluster.pass_s(1)
        assert runs(cluster) == []
        await cluster.pass_s(20)
        assert runs(cluster) == ["report-28333335"]

    play(story)


def test_what_becomes_of_a_run_that_is_due_while_another_is_active() -> None:
    async def story(cluster: Cluster, policy: str, expected: list[str]) -> None:
        cluster.create("CronJob", cron(run_s=90, concurrencyPolicy=policy))
        await cluster.pass_s(TO_THE_MINUTE + 61)
        assert runs(cluster) == expected
        active = cluster.status("CronJob", "report")["active"]
        assert sorted(entry["name"] for entry in active) == expected

    first, second = "report-28333334", "report-28333335"
    play(lambda cluster: story(cluster, "Allow", [first, second]))
    play(lambda cluster: story(cluster, "Forbid", [first]))
    play(lambda cluster: story(cluster, "Replace", [second]))


def test_a_forbidden_run_begins_when_the_other_has_ended() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("CronJob", cron(run_s=90, concurrencyPolicy="Forbid"))
        await cluster.pass_s(TO_THE_MINUTE + 95)
        assert runs(cluster) == ["report-28333334", "report-28333335"]

    play(story)


def test_ended_runs_are_kept_up_to_the_limits() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("CronJob", cron(successfulJobsHistoryLimit=1))
        await cluster.pass_s(TO_THE_MINUTE + 190)
        assert runs(cluster) == ["report-28333337"]

    play(story)

    async def failing(cluster: Cluster) -> None:
        cluster.create("CronJob", cron(fails=True, failedJobsHistoryLimit=2))
        await cluster.pass_s(TO_THE_MINUTE + 190)
        assert runs(cluster) == ["report-28333336", "report-28333337"]
        assert cluster.condition("Job", "report-28333337", "Failed")["status"] == "True"
        assert "lastSuccessfulTime" not in cluster.status("CronJob", "report")

    play(failing)


def test_a_cron_job_that_nobody_can_read_makes_nothing() -> None:
    async def story(cluster: Cluster, **spec: Any) -> None:
        cluster.create("CronJob", cron(**spec))
        await cluster.pass_s(TO_THE_MINUTE)
        assert runs(cluster) == []
        assert len(cluster.all("Event")) == 1

    play(lambda cluster: story(cluster, timeZone="Nowhere/None"), events=10)
    play(lambda cluster: story(cluster, schedule="61 * * * *"), events=10)


def test_deleting_it_deletes_its_runs() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("CronJob", cron(run_s=600))
        await cluster.pass_s(TO_THE_MINUTE)
        assert len(cluster.pods()) == 1
        cluster.delete("CronJob", "report")
        await cluster.pass_s(40)
        assert runs(cluster) == []
        assert cluster.pods() == []

    play(story)
