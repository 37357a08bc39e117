"""CronJobs to PinterestCronJobs: one test per rule."""

from typing import Any

import pytest

from federator.convert.drafts import BadInput
from tests.unit.kinds.conversions import converted, job, left, native, notes, only


def cron(name: str = "nightly", run: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"team": "ads"}}, "spec": (run or job())["spec"]}
    spec = {"schedule": "0 3 * * *", "jobTemplate": template, **fields}
    return {**native("CronJob", name), "apiVersion": "batch/v1", "spec": spec}


def test_each_run_is_the_job_set_of_its_job_template() -> None:
    fields: dict[str, Any] = {
        "timeZone": "Europe/Berlin",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 300,
        "suspend": True,
        "successfulJobsHistoryLimit": 2,
        "failedJobsHistoryLimit": 4,
    }
    obj = only(converted(cron(run=job(completions=4, parallelism=2), **fields)))

    assert (obj["kind"], obj["metadata"]["name"]) == ("PinterestCronJob", "nightly")
    assert {name: obj["spec"][name] for name in fields} == fields
    run = obj["spec"]["jobTemplate"]
    assert run["metadata"] == {"labels": {"team": "ads"}}
    assert (run["spec"]["shards"], run["spec"]["parallelism"]) == (4, 2)
    assert "suspend" not in run["spec"]


def test_a_config_map_and_an_account_of_its_runs_stay_in_the_members() -> None:
    run = job()
    pod = run["spec"]["template"]["spec"]
    pod["serviceAccountName"] = "reader"
    pod["containers"][0]["envFrom"] = [{"configMapRef": {"name": "c"}}]
    done = converted(
        cron(run=run),
        {**native("ConfigMap", "c"), "data": {"a": "b"}},
        native("ServiceAccount", "reader"),
    )

    assert "each run of CronJob/nightly" in left(done)["ConfigMap/c"].replace("Pinterest", "")
    assert "runs of" in left(done)["ServiceAccount/reader"]
    assert "its pods need ConfigMap/c in every member" in notes(done)


def test_a_job_template_that_cannot_be_said_leaves_it_with_the_reason() -> None:
    done = converted(cron(run=job(parallelism=3)))

    assert "spec.jobTemplate.spec.completions" in left(done)["CronJob/nightly"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"schedule": "0 3 * *"}, "spec.schedule"),
        ({"timeZone": "Europe/Berlim"}, "spec.timeZone"),
    ],
)
def test_bad_input_is_told_with_its_field(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(BadInput) as caught:
        converted(cron(**fields))

    assert [error.path for error in caught.value.errors] == [path]
