"""Jobs: counting, indexes, back-off, policies, suspension, time to live."""

import random

import pytest

from federator.embedded.controllers import NodePool
from federator.embedded.controllers.workloads.job_rules import Indexes
from tests.unit.embedded.controllers.clusters import Cluster, Obj, job, play, template

BIG = [NodePool(20, {"cpu": "64", "memory": "256Gi", "pods": "250"})]


def worker(restart: str = "Never", **annotations: str) -> Obj:
    return template(
        "work",
        annotations={name.replace("_", "-"): value for name, value in annotations.items()},
        restartPolicy=restart,
    )


def conditions(cluster: Cluster, name: str = "work") -> list[tuple[str, str]]:
    return [
        (entry["type"], entry.get("reason", ""))
        for entry in cluster.status("Job", name).get("conditions") or ()
    ]


def test_a_plain_job_completes_with_the_conditions_and_times_of_a_real_one() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Job", job(completions=3, parallelism=2))
        await cluster.pass_s(2)
        status = cluster.status("Job", "work")
        assert (status["active"], status["ready"], status["terminating"]) == (2, 2, 0)
        await cluster.pass_s(20)
        status = cluster.status("Job", "work")
        assert status["succeeded"] == 3
        assert "active" not in status
        assert status["ready"] == 0
        assert status["uncountedTerminatedPods"] == {}
        assert status["startTime"] < status["completionTime"]
        assert conditions(cluster) == [
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached"),
        ]
        assert len(cluster.pods("Succeeded")) == 3

    play(story)


def test_an_indexed_job_runs_every_index_once_and_spells_what_is_done() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Job",
            job(
                pod=worker(run_seconds="1-30"),
                completions=40,
                parallelism=7,
                completionMode="Indexed",
            ),
        )
        most = 0
        for _ in range(100):
            await cluster.pass_s(2)
            active = [
                pod for pod in cluster.pods() if pod["status"]["phase"] in ("Pending", "Running")
            ]
            most = max(most, len(active))
            done = {
                pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
                for pod in cluster.pods("Succeeded")
            }
            assert (
                set(map(str, Indexes(cluster.status("Job", "work").get("completedIndexes", ""))))
                == done
            )
        assert most == 7
        assert len(cluster.pods()) == 40
        assert cluster.status("Job", "work")["completedIndexes"] == "0-39"
        assert cluster.status("Job", "work")["succeeded"] == 40
        first = next(pod for pod in cluster.pods() if pod["metadata"]["name"].startswith("work-0-"))
        assert first["spec"]["hostname"] == "work-0"
        assert first["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "0"
        assert first["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"

    play(story)


def test_a_failing_index_is_tried_again_after_a_growing_wait_and_the_others_finish() -> None:
    async def story(cluster: Cluster) -> None:
        spec: Obj = {
            "completions": 5,
            "parallelism": 5,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 2,
            "backoffLimit": None,
        }
        cluster.create("Job", job(pod=worker(run_seconds="1", fail_indexes="1,3"), **spec))
        await cluster.pass_s(9)
        assert cluster.status("Job", "work")["failed"] == 2
        assert cluster.status("Job", "work")["failedIndexes"] == ""
        await cluster.pass_s(100)
        status = cluster.status("Job", "work")
        assert status["completedIndexes"] == "0,2,4"
        assert status["failedIndexes"] == "1,3"
        assert status["failed"] == 6
        assert status["succeeded"] == 3
        assert conditions(cluster) == [
            ("FailureTarget", "FailedIndexes"),
            ("Failed", "FailedIndexes"),
        ]
        counts = sorted(
            pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
            for pod in cluster.pods("Failed")
        )
        assert counts == ["0", "0", "1", "1", "2", "2"]

    play(story)


def test_an_index_may_fail_so_often_and_then_succeed() -> None:
    async def story(cluster: Cluster) -> None:
        spec: Obj = {
            "completions": 3,
            "parallelism": 3,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 5,
        }
        cluster.create(
            "Job", job(pod=worker(run_seconds="1", fail_indexes="2", fail_attempts="2"), **spec)
        )
        await cluster.pass_s(100)
        assert cluster.status("Job", "work")["completedIndexes"] == "0-2"
        assert cluster.status("Job", "work")["failed"] == 2
        assert conditions(cluster)[-1] == ("Complete", "CompletionsReached")

    play(story)


def test_a_shard_base_moves_the_failing_indexes() -> None:
    async def story(cluster: Cluster) -> None:
        pod = worker(run_seconds="1", fail_indexes="102", index_base_env="SHARD_BASE")
        pod["spec"]["containers"][0]["env"] = [{"name": "SHARD_BASE", "value": "100"}]
        spec: Obj = {
            "completions": 4,
            "parallelism": 4,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
        }
        cluster.create("Job", job(pod=pod, **spec))
        await cluster.pass_s(30)
        assert cluster.status("Job", "work")["failedIndexes"] == "2"

    play(story)


def test_too_many_failed_indexes_end_the_job_at_once() -> None:
    async def story(cluster: Cluster) -> None:
        spec: Obj = {
            "completions": 20,
            "parallelism": 4,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
            "maxFailedIndexes": 1,
        }
        cluster.create("Job", job(pod=worker(run_seconds="1", fail_indexes="0-3"), **spec))
        await cluster.pass_s(60)
        assert conditions(cluster)[-1] == ("Failed", "MaxFailedIndexesExceeded")
        assert len(cluster.pods()) < 10

    play(story)


def test_the_backoff_limit_fails_the_job_and_stops_its_pods() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Job", job(pod=worker(run_seconds="1", exit_code="3"), backoffLimit=2))
        await cluster.pass_s(5)
        assert cluster.status("Job", "work")["failed"] == 1
        await cluster.pass_s(200)
        status = cluster.status("Job", "work")
        assert status["failed"] == 3
        assert conditions(cluster)[-1] == ("Failed", "BackoffLimitExceeded")
        assert (
            cluster.condition("Job", "work", "Failed")["message"]
            == "Job has reached the specified backoff limit"
        )
        assert len(cluster.pods()) == 3

    play(story)


def test_restarts_in_place_count_against_the_backoff_limit() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Job", job(pod=worker("OnFailure", run_seconds="1", exit_code="1"), backoffLimit=2)
        )
        await cluster.pass_s(200)
        assert conditions(cluster)[-1] == ("Failed", "BackoffLimitExceeded")
        assert cluster.pods() == []

    play(story)


def test_a_failure_policy_can_fail_the_job_by_exit_code() -> None:
    async def story(cluster: Cluster) -> None:
        rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
        cluster.create(
            "Job",
            job(pod=worker(run_seconds="1", exit_code="42"), podFailurePolicy={"rules": [rule]}),
        )
        await cluster.pass_s(30)
        assert conditions(cluster)[-1] == ("Failed", "PodFailurePolicy")
        message = cluster.condition("Job", "work", "Failed")["message"]
        assert "failed with exit code 42 matching FailJob rule at index 0" in message

    play(story)


def test_ignored_failures_are_not_counted() -> None:
    async def story(cluster: Cluster) -> None:
        rule = {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [9]}}
        cluster.create(
            "Job",
            job(
                pod=worker(run_seconds="1", exit_code="1"),
                backoffLimit=0,
                podFailurePolicy={"rules": [rule]},
            ),
        )
        await cluster.pass_s(10)
        assert "failed" not in cluster.status("Job", "work")
        assert len(cluster.pods("Failed")) > 1

    play(story)


def test_a_success_policy_ends_the_job_early() -> None:
    async def story(cluster: Cluster) -> None:
        policy = {"rules": [{"succeededIndexes": "0-2", "succeededCount": 1}]}
        cluster.create(
            "Job",
            job(
                pod=worker(run_seconds="3"),
                completions=50,
                parallelism=5,
                completionMode="Indexed",
                successPolicy=policy,
            ),
        )
        await cluster.pass_s(20)
        assert conditions(cluster)[-1] == ("Complete", "SuccessPolicy")
        assert cluster.condition("Job", "work", "Complete")["message"] == "Matched rules at index 0"
        assert cluster.status("Job", "work")["succeeded"] == 5

    play(story)


def test_suspending_removes_pods_without_counting_failures_and_resuming_goes_on() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Job",
            job(
                pod=worker(run_seconds="20"), completions=4, parallelism=4, completionMode="Indexed"
            ),
        )
        await cluster.pass_s(5)
        cluster.edit("Job", "work", suspend=True)
        await cluster.pass_s(5)
        assert cluster.pods() == []
        status = cluster.status("Job", "work")
        assert "failed" not in status
        assert "startTime" not in status
        assert cluster.condition("Job", "work", "Suspended")["status"] == "True"
        cluster.edit("Job", "work", suspend=False)
        await cluster.pass_s(30)
        assert cluster.status("Job", "work")["completedIndexes"] == "0-3"
        assert cluster.condition("Job", "work", "Suspended")["reason"] == "JobResumed"
        assert len(cluster.pods()) == 4

    play(story)


def test_lowering_parallelism_stops_pods_that_are_started_again_later() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Job",
            job(
                pod=worker(run_seconds="10"), completions=6, parallelism=6, completionMode="Indexed"
            ),
        )
        await cluster.pass_s(3)
        cluster.edit("Job", "work", parallelism=2)
        await cluster.pass_s(3)
        assert len(cluster.pods("Running")) == 2
        await cluster.pass_s(60)
        assert cluster.status("Job", "work")["completedIndexes"] == "0-5"
        assert "failed" not in cluster.status("Job", "work")

    play(story)


def test_an_elastic_job_that_shrinks_runs_the_indexes_that_are_left_and_counts_no_others() -> None:
    def running(cluster: Cluster) -> set[str]:
        label = "batch.kubernetes.io/job-completion-index"
        return {pod["metadata"]["labels"][label] for pod in cluster.pods("Running")}

    async def story(cluster: Cluster) -> None:
        slow = worker(run_seconds="20")
        cluster.create("Job", job(pod=slow, completions=6, parallelism=3, completionMode="Indexed"))
        await cluster.pass_s(25)
        assert cluster.status("Job", "work")["completedIndexes"] == "0-2"
        assert running(cluster) == {"3", "4", "5"}
        cluster.edit("Job", "work", completions=4, parallelism=4)
        await cluster.pass_s(3)
        assert running(cluster) == {"3"}
        cluster.edit("Job", "work", completions=2, parallelism=2)
        await cluster.pass_s(3)
        assert cluster.status("Job", "work")["completedIndexes"] == "0,1"
        assert cluster.condition("Job", "work", "Complete")["status"] == "True"

    play(story)


@pytest.mark.parametrize(("policy", "expected"), [("TerminatingOrFailed", 2), ("Failed", 1)])
def test_the_replacement_policy_says_whether_a_stopping_pod_is_replaced(
    policy: str, expected: int
) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Job",
            job(pod=worker(run_seconds="300", stop_seconds="25"), podReplacementPolicy=policy),
        )
        await cluster.pass_s(3)
        cluster.delete("Pod", cluster.pods()[0]["metadata"]["name"])
        await cluster.pass_s(15)
        assert len(cluster.pods()) == expected
        await cluster.pass_s(60)
        assert cluster.status("Job", "work")["failed"] == 1
        assert cluster.status("Job", "work")["active"] == 1

    play(story)


def test_the_active_deadline_ends_the_job() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Job", job(pod=worker(run_seconds="300"), activeDeadlineSeconds=20))
        await cluster.pass_s(30)
        assert conditions(cluster)[-1] == ("Failed", "DeadlineExceeded")
        assert cluster.pods() == []

    play(story)


def test_a_finished_job_and_its_pods_go_after_their_time_to_live() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Job", job(pod=worker(run_seconds="1"), ttlSecondsAfterFinished=10))
        await cluster.pass_s(6)
        assert cluster.find("Job", "work") is not None
        await cluster.pass_s(20)
        assert cluster.find("Job", "work") is None
        assert cluster.pods() == []

    play(story)


def test_a_restarted_controller_goes_on_counting_where_the_status_stands() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Job",
            job(
                pod=worker(run_seconds="1-40", fail_indexes="5"),
                completions=30,
                parallelism=6,
                completionMode="Indexed",
                backoffLimitPerIndex=1,
            ),
        )
        for _ in range(8):
            await cluster.pass_s(15)
            await cluster.stop()
            cluster.start()
        await cluster.pass_s(200)
        status = cluster.status("Job", "work")
        assert status["completedIndexes"] == "0-4,6-29"
        assert (status["failedIndexes"], status["failed"]) == ("5", 2)
        assert len(cluster.pods("Succeeded")) == 29

    play(story)


def test_deleting_a_counted_pod_does_not_count_it_twice() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Job", job(pod=worker(run_seconds="1"), completions=5))
        await cluster.pass_s(4)
        for pod in cluster.pods("Succeeded"):
            cluster.delete("Pod", pod["metadata"]["name"])
        await cluster.pass_s(30)
        assert cluster.status("Job", "work")["succeeded"] == 5
        assert "failed" not in cluster.status("Job", "work")

    play(story)


@pytest.mark.parametrize(
    ("added", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([1, 2], "1,2"),
        ([1, 2, 3], "1-3"),
        ([5, 1, 3, 2, 0], "0-3,5"),
        ([4, 4], "4"),
    ],
)
def test_indexes_are_spelled_as_the_api_spells_them(added: list[int], text: str) -> None:
    indexes = Indexes()
    for index in added:
        indexes.add(index)
    assert str(indexes) == text
    assert list(Indexes(text)) == sorted(set(added))


def test_index_sets_agree_with_plain_sets() -> None:
    rng = random.Random(3)
    indexes, plain = Indexes(), set()
    for _ in range(500):
        index = rng.randrange(300)
        indexes.add(index)
        plain.add(index)
        assert indexes.total == len(plain)
    assert list(indexes) == sorted(plain)
    assert all((index in indexes) == (index in plain) for index in range(-1, 301))
    assert list(Indexes(str(indexes))) == sorted(plain)


def test_texts_that_are_no_indexes_are_left_out() -> None:
    assert list(Indexes("0-2,x,7-,9", limit=9)) == [0, 1, 2]
