"""Jobs and JobSets to PinterestJobSets: one test per rule."""

from typing import Any

import pytest

from federator.convert import convert
from federator.convert.drafts import BadInput
from tests.unit.kinds.conversions import (
    converted,
    job,
    jobset,
    left,
    native,
    notes,
    only,
    replicated_job,
    service,
)


def script(obj: dict[str, Any]) -> str:
    text: str = obj["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    return text


def test_a_plain_job_is_one_shard_with_its_retries() -> None:
    spec = only(converted(job()))["spec"]

    assert (spec["shards"], spec["backoffLimitPerShard"]) == (1, 6)
    assert "parallelism" not in spec


def test_completions_are_shards_and_parallelism_slots() -> None:
    spec = only(converted(job(completions=100, parallelism=3)))["spec"]

    assert (spec["shards"], spec["parallelism"]) == (100, 3)


def test_a_job_that_runs_one_after_the_other_still_does() -> None:
    assert only(converted(job(completions=5)))["spec"]["parallelism"] == 1


def test_a_halted_job_is_suspended() -> None:
    assert only(converted(job(suspend=True)))["spec"]["suspend"] is True


def test_retries_counted_over_all_pods_become_those_of_each_shard_and_that_is_told() -> None:
    done = converted(job(completions=4, parallelism=4, backoffLimit=2))

    assert only(done)["spec"]["backoffLimitPerShard"] == 2
    assert "counted failures of all 4 pods" in notes(done)


def test_retries_per_index_are_retries_per_shard() -> None:
    done = converted(
        job(completions=4, completionMode="Indexed", backoffLimitPerIndex=1, script="true")
    )

    assert only(done)["spec"]["backoffLimitPerShard"] == 1
    assert "counted failures" not in notes(done)


def test_endless_retries_are_as_many_as_may_be() -> None:
    assert only(converted(job(backoffLimit=2**31 - 1)))["spec"]["backoffLimitPerShard"] == 1000


def test_containers_are_no_longer_restarted_in_place() -> None:
    done = converted(job(pod={"restartPolicy": "OnFailure"}))

    assert only(done)["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert "restartPolicy was OnFailure" in notes(done)


def test_a_script_of_an_indexed_job_sees_its_shard_as_the_index() -> None:
    done = converted(
        job(completions=8, completionMode="Indexed", script='work "$JOB_COMPLETION_INDEX"')
    )

    assert script(only(done)).splitlines() == [
        "export JOB_COMPLETION_INDEX=$((SHARD_BASE + JOB_COMPLETION_INDEX))",
        'work "$JOB_COMPLETION_INDEX"',
    ]
    assert "makes JOB_COMPLETION_INDEX the number of the shard" in notes(done)


def test_a_script_given_in_the_arguments_is_found() -> None:
    container = {"command": ["bash", "-xec"], "args": ["run", "x"]}
    done = converted(job(completions=8, completionMode="Indexed", container=container))

    args = only(done)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[0].endswith("\nrun")
    assert args[1] == "x"


def test_interchangeable_pods_keep_their_script() -> None:
    assert script(only(converted(job(completions=8, script="echo hi")))) == "echo hi"


@pytest.mark.parametrize(
    "container",
    [
        {"command": ["work", "$(JOB_COMPLETION_INDEX)"]},
        {
            "env": [
                {
                    "name": "RANK",
                    "valueFrom": {
                        "fieldRef": {
                            "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"
                        }
                    },
                }
            ]
        },
    ],
)
def test_a_program_that_reads_the_index_past_the_shell_is_left_alone(
    container: dict[str, Any],
) -> None:
    done = converted(job(completions=8, completionMode="Indexed", container=container))

    assert "SHARD_BASE + JOB_COMPLETION_INDEX" in left(done)["Job/work"]


def test_a_program_that_may_read_the_index_is_told_about() -> None:
    done = converted(job(completions=8, completionMode="Indexed"))

    assert "must add SHARD_BASE" in notes(done)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"parallelism": 3}, "share a queue of work"),
        ({"completions": 0}, "at least one shard"),
        ({"completions": 100_001}, "more than 100000 shards"),
        ({"successPolicy": {"rules": [{"succeededCount": 1}] * 2}}, "it has 2 rules"),
        ({"managedBy": "example.com/other"}, "another controller"),
        (
            {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
            "a selector of its own",
        ),
        ({"paralelism": 3}, "it is not known here"),
        (
            {"completions": 4, "completionMode": "Indexed", "pod": {"subdomain": "peers"}},
            "find each other by name",
        ),
    ],
)
def test_a_job_that_would_lose_something_is_left_alone(spec: dict[str, Any], reason: str) -> None:
    done = converted(job(**spec))

    assert done.objects == ()
    assert reason in left(done)["Job/work"]


def test_what_servers_fill_into_a_job_is_no_reason() -> None:
    labels = {"controller-uid": "u", "batch.kubernetes.io/job-name": "work", "app": "x"}
    live = job(
        metadata={"uid": "u"},
        selector={"matchLabels": {"controller-uid": "u"}},
        manualSelector=False,
        podReplacementPolicy="TerminatingOrFailed",
        completionMode="NonIndexed",
    )
    live["spec"]["template"]["metadata"] = {"labels": labels}

    assert only(converted(live))["spec"]["template"]["metadata"]["labels"] == {"app": "x"}


def test_a_number_of_the_wrong_type_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"spec\.completions: must be an integer"):
        convert.convert([("", job(completions="4"))])


def test_a_name_that_the_server_makes_stays_so_and_its_config_map_is_left() -> None:
    made = job(pod={"volumes": [{"name": "c", "configMap": {"name": "c"}}]})
    made["metadata"] = {"generateName": "work-"}
    done = converted(made, native("ConfigMap", "c", data={"a": "1"}))

    assert only(done)["metadata"] == {"generateName": "work-"}
    assert "gets its name from the server" in left(done)["ConfigMap/c"]


def test_a_service_over_a_job_is_left() -> None:
    made = job()
    made["spec"]["template"]["metadata"] = {"labels": {"app": "web"}}

    assert "a PinterestJobSet has no Service" in left(converted(made, service()))["Service/web"]


def test_a_job_set_of_one_template_is_converted_from_its_job() -> None:
    done = converted(
        jobset(replicated_job(script="true"), ttlSecondsAfterFinished=60, suspend=True)
    )

    spec = only(done)["spec"]
    assert (spec["shards"], spec["backoffLimitPerShard"], spec["suspend"]) == (4, 0, True)
    assert script(only(done)).startswith("export JOB_COMPLETION_INDEX=")
    assert spec["ttlSecondsAfterFinished"] == 60


def test_replicas_of_single_pods_are_shards() -> None:
    spec = only(converted(jobset(replicated_job(replicas=5, completions=1, parallelism=1))))["spec"]

    assert spec["shards"] == 5


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        (jobset(failurePolicy={"maxRestarts": 3}), "spec.failurePolicy"),
        (jobset(coordinator={"replicatedJob": "workers"}), "spec.coordinator"),
        (jobset(volumeClaimPolicies=[{"templates": []}]), "spec.volumeClaimPolicies"),
        (jobset(managedBy="kueue.x-k8s.io/multikueue"), "another controller"),
        (
            jobset(
                metadata={"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "pool"}}
            ),
            "topology",
        ),
        (jobset({**replicated_job(), "dependsOn": [{"name": "x"}]}), "dependsOn"),
    ],
)
def test_a_job_set_that_needs_its_own_controller_is_left_alone(
    obj: dict[str, Any], reason: str
) -> None:
    done = converted(obj)

    assert done.objects == ()
    assert reason in left(done)["JobSet/set"]


@pytest.mark.parametrize(
    "obj",
    [
        jobset(replicated_job("a"), replicated_job("b")),
        jobset(replicated_job(replicas=2)),
        jobset(network={"enableDNSHostnames": True}),
        jobset(network={"subdomain": "peers"}),
        jobset(replicated_job(container={"args": ["--master=set-workers-0-0.set"]})),
    ],
)
def test_a_job_set_whose_pods_belong_together_is_no_set_of_shards(obj: dict[str, Any]) -> None:
    (made,) = converted(obj).objects
    assert (made["kind"], made["spec"]["framework"]) == ("PinterestTrainingJob", "Custom")


def test_switched_off_host_names_are_no_reason() -> None:
    assert (
        only(converted(jobset(network={"enableDNSHostnames": False, "subdomain": "x"})))["spec"][
            "shards"
        ]
        == 4
    )


def test_a_job_and_a_job_set_of_one_name_cannot_both_be() -> None:
    done = converted(job("same"), jobset(name="same"))

    assert left(done) == {
        "JobSet/same": "metadata.name: Job/same becomes PinterestJobSet/same already"
    }


def test_problems_of_a_template_are_told_where_they_stand_in_the_job_set() -> None:
    with pytest.raises(BadInput) as bad:
        convert.convert([("", jobset(replicated_job(container={"imagee": "x"})))])

    assert (
        bad.value.errors[0].path
        == "spec.replicatedJobs[0].template.spec.template.spec.containers[0].imagee"
    )


def test_what_ends_a_job_ends_its_job_set() -> None:
    codes = {"operator": "In", "values": [42]}
    rules = [
        {"action": "FailJob", "onExitCodes": codes},
        {"action": "FailIndex", "onExitCodes": {**codes, "values": [3]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    spec: dict[str, Any] = {
        "completions": 8,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 1,
        "maxFailedIndexes": 2,
        "activeDeadlineSeconds": 600,
        "ttlSecondsAfterFinished": 60,
        "podFailurePolicy": {"rules": rules},
        "successPolicy": {"rules": [{"succeededCount": 2, "succeededIndexes": "0-3"}]},
    }

    made = only(converted(job(**spec)))["spec"]

    assert made["failurePolicy"]["maxFailedShards"] == 2
    assert [rule["action"] for rule in made["failurePolicy"]["rules"]] == [
        "FailJobSet",
        "FailShard",
        "Ignore",
    ]
    assert made["successPolicy"] == {"succeededCount": 2, "succeededShards": "0-3"}
    assert made["completion"] == "SuccessPolicy"
    assert (made["activeDeadlineSeconds"], made["ttlSecondsAfterFinished"]) == (600, 60)


def test_a_job_that_one_pod_completes_becomes_completion_any() -> None:
    policy = {"rules": [{"succeededCount": 1}]}
    made = only(converted(job(completions=4, completionMode="Indexed", successPolicy=policy)))
    assert made["spec"]["completion"] == "Any"
    assert "successPolicy" not in made["spec"]


def test_a_job_that_kueue_holds_and_may_admit_in_part_is_placed_with_its_quota() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    annotations = {"kueue.x-k8s.io/job-min-parallelism": "2", "team": "a"}
    metadata = {"labels": labels, "annotations": annotations}
    made = converted(job(suspend=True, parallelism=5, completions=9, metadata=metadata))
    obj = only(made)
    assert "suspend" not in obj["spec"]
    assert obj["spec"]["minParallelism"] == 2
    assert obj["metadata"]["annotations"] == {"team": "a"}
    assert "until it admits them" in notes(made)


@pytest.mark.parametrize("least", ["", "0", "5", "many", "-1", "9" * 20])
def test_a_least_that_says_nothing_less_is_carried_as_it_is(least: str) -> None:
    annotations = {"kueue.x-k8s.io/job-min-parallelism": least}
    obj = only(converted(job(parallelism=5, completions=9, metadata={"annotations": annotations})))
    assert "minParallelism" not in obj["spec"]
    assert obj["metadata"]["annotations"] == annotations
