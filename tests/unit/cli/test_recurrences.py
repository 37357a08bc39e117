"""What `federator explain` says of a cron job, from its object and its runs."""

from typing import Any

import pytest

from federator.advice import patches, recurrences
from federator.cli import recurrences as recurring
from federator.kinds import registry

PCJ = registry.KINDS["PinterestCronJob"]
NOW_S = 1_764_124_800.0  # 2025-11-26T02:40:00Z


def cron_job(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    created = "2025-11-26T00:00:00Z"
    meta = {"name": "index", "namespace": "ads", "uid": "c-1", "creationTimestamp": created}
    ready = {"type": "Ready", "status": "True", "reason": "Scheduled", "message": "Hourly."}
    return {
        "apiVersion": PCJ.api_version,
        "kind": PCJ.kind,
        "metadata": meta,
        "spec": {"schedule": "30 * * * *", "jobTemplate": {"spec": {}}, **spec},
        "status": {"conditions": [ready], **(status or {})},
    }


def run(due: str, *conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    owner = {"kind": PCJ.kind, "name": "index", "uid": "c-1", "controller": True}
    return {
        "metadata": {"name": f"index-{due}", "namespace": "ads", "ownerReferences": [owner]},
        "status": {"conditions": list(conditions), **status},
    }


DONE = {"type": "Complete", "status": "True", "lastTransitionTime": "2025-11-26T01:40:00Z"}
BROKEN = {"type": "Failed", "status": "True", "lastTransitionTime": "2025-11-26T01:40:00Z"}
WAITS = {"type": "Placed", "status": "False", "message": "No quota is left."}
SEEN = {"lastScheduleTime": "2025-11-26T02:30:00Z"}


def told(obj: dict[str, Any], *runs: dict[str, Any]) -> str:
    return recurring.text(recurrences.facts(PCJ, obj, runs, NOW_S))


def test_the_text_has_its_times_and_where_its_runs_went() -> None:
    rows = [{"cluster": "east"}, {"cluster": "west"}]
    text = told(
        cron_job(SEEN),
        run("202511260130", DONE, clusterStatuses=rows, summary="all 4 shards completed"),
        run("202511260030", BROKEN),
        run("202511260230", WAITS),
    )
    assert text.splitlines()[:4] == [
        "PinterestCronJob/index  Ready=True (Scheduled)",
        "  Hourly.",
        "  concurrencyPolicy Allow; a run is made however late",
        "  next: 2025-11-26T03:30:00Z, 2025-11-26T04:30:00Z, 2025-11-26T05:30:00Z",
    ]
    assert [line.split()[:4] for line in text.splitlines()[5:9]] == [
        ["RUN", "DUE", "STATE", "CLUSTERS"],
        ["index-202511260030", "2025-11-26T00:30:00Z", "Failed", "-"],
        ["index-202511260130", "2025-11-26T01:30:00Z", "Completed", "east,"],
        ["index-202511260230", "2025-11-26T02:30:00Z", "Active", "-"],
    ]
    assert "  index-202511260230: No quota is left." in text
    assert "    federator explain pjs/index-202511260230 -n ads" in text


@pytest.mark.parametrize(
    ("obj", "runs", "why"),
    [
        (
            cron_job({"lastScheduleTime": "2025-11-26T01:30:00Z"}, concurrencyPolicy="Forbid"),
            [run("202511260130")],
            "A run is due, and waits for the end of index-202511260130 (concurrencyPolicy Forbid).",
        ),
        (
            cron_job({"lastScheduleTime": "2025-11-26T01:30:00Z"}, concurrencyPolicy="Replace"),
            [run("202511260130")],
            "The run of 2025-11-26T02:30:00Z is due, and is being made, in place of index-202511260130.",
        ),
        (
            cron_job({"lastScheduleTime": "2025-11-26T01:30:00Z"}, startingDeadlineSeconds=60),
            [],
            "1 time has passed without a run: the deadline is over.",
        ),
        (cron_job(SEEN, suspend=True), [], "It makes no runs while spec.suspend is true"),
        (cron_job(SEEN, timeZone="Mars/Base"), [], "It makes no runs: spec.timeZone"),
        (cron_job(SEEN, schedule="0 0 31 2 *"), [], "next: none"),
        (cron_job({**SEEN, "missedRuns": 4, "lastMissedTime": "2025-11-26T01:30:00Z"}), [],
         "missed: 4, the last of 2025-11-26T01:30:00Z"),
    ],
)  # fmt: skip
def test_why_there_is_no_run_is_told(
    obj: dict[str, Any], runs: list[dict[str, Any]], why: str
) -> None:
    assert why in told(obj, *runs)


def test_runs_of_an_earlier_cron_job_of_its_name_are_not_its_own() -> None:
    other = run("202511260130")
    other["metadata"]["ownerReferences"][0]["uid"] = "c-0"
    assert told(cron_job(SEEN), other).endswith("It has no runs now.")


def test_what_its_clusters_run_by_themselves_is_told() -> None:
    owner = {"kind": PCJ.kind, "name": "index", "uid": "c-1", "controller": True}
    rows = [
        {"cluster": "east", "activeRuns": 1, "lastScheduleTime": "2025-11-26T02:30:00Z"},
        {"cluster": "west", "known": False, "suspended": True, "message": "Not heard."},
    ]
    native = {
        "kind": "PinterestNativeCronJob",
        "metadata": {"name": "index", "namespace": "ads", "uid": "n-1", "ownerReferences": [owner]},
        "spec": {"cron": {"after": "2025-11-26T01:10:00Z"}},
        "status": {"clusterStatuses": rows},
    }
    obj = cron_job(SEEN, runs="Native")
    facts = recurrences.facts(PCJ, obj, [], NOW_S, native=native)
    lines = recurring.text(facts).splitlines()
    assert lines[5] == (
        "Its clusters run what is due after 2025-11-26T01:10:00Z by themselves:"
        " federator explain pncj/index -n ads"
    )
    assert [line.split() for line in lines[6:]] == [
        ["CLUSTER", "ACTIVE", "LAST", "RUN", "LAST", "SUCCESS", "WHY"],
        ["east", "1", "2025-11-26T02:30:00Z", "-", "-"],
        ["west", "(not", "heard)", "0", "-", "-", "Not", "heard."],
    ]
    other = {**native, "metadata": {"name": "index", "uid": "n-2"}}
    assert "native" not in recurrences.facts(PCJ, obj, [], NOW_S, native=other)


def test_what_helps_its_clusters_is_changed_in_the_cron_job() -> None:
    owner = {"kind": PCJ.kind, "name": "index", "uid": "c-1", "controller": True}
    before = {
        "kind": "PinterestNativeCronJob",
        "metadata": {"name": "index", "namespace": "ads", "ownerReferences": [owner]},
        "spec": {"placement": {"clusters": {"names": ["a"]}}, "template": {"spec": {"x": [{}]}}},
    }
    path = ("spec", "placement", "clusters", "names")
    after = patches.edited(before, path, ["a", "b"])
    assert patches.between(before, after).command == (
        "kubectl patch pinterestcronjob index -n ads --type merge -p"
        """ '{"spec":{"jobTemplate":{"spec":{"placement":{"clusters":{"names":["a","b"]}}}}}}'"""
    )
    inside = patches.edited(before, ("spec", "template", "spec", "x", 0, "y"), 1)
    (step,) = patches.between(before, inside).body
    assert step["path"] == "/spec/jobTemplate/spec/template/spec/x/0/y"
