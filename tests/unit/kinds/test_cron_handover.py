"""Who decides the runs of a cron job: every state of the two objects, and the times on both sides
of the moment that divides them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from federator.kinds import read
from federator.kinds.cronjob import handover, runs, status
from federator.kinds.recurring import Handover, Native, Plan
from tests.unit.kinds.test_cron_runs import at, cron, run

AFTER = "2026-01-01T03:00:30"
NATIVE = Native("nightly", "n-1", "u-1", at(AFTER), source="1")
HELD = replace(NATIVE, source="1-held")


def by_clusters(**more: Any) -> dict[str, Any]:
    return cron("0 * * * *", runs="Native", concurrencyPolicy="Forbid", **more)


def by_hub(**more: Any) -> dict[str, Any]:
    return cron("0 * * * *", concurrencyPolicy="Forbid", **more)


def planned(obj: Mapping[str, Any], now: str, *existing: Any, native: Native | None = None) -> Plan:
    return runs.plan(obj, existing, native, at(now))


@pytest.mark.parametrize(
    ("obj", "native", "busy", "quiet", "expected"),
    [
        (by_hub(), None, False, True, (Handover.NOTHING, False)),
        (by_clusters(), None, False, True, (Handover.MAKE, False)),
        (by_clusters(), None, True, True, (Handover.MAKE, True)),
        (by_clusters(), None, False, False, (Handover.NOTHING, False)),
        (by_clusters(), NATIVE, False, True, (Handover.NOTHING, False)),
        (by_clusters(), NATIVE, True, True, (Handover.CHANGE, True)),
        (by_clusters(), HELD, False, True, (Handover.CHANGE, False)),
        (by_clusters(), replace(NATIVE, source="0"), False, True, (Handover.CHANGE, False)),
        (by_clusters(), replace(HELD, deleting=True), False, True, (Handover.NOTHING, False)),
        (by_hub(), NATIVE, False, True, (Handover.CHANGE, True)),
        (by_hub(), HELD, False, True, (Handover.NOTHING, True)),
        (by_hub(), replace(HELD, stopped=True, active=1), False, True, (Handover.NOTHING, True)),
        (by_hub(), replace(HELD, stopped=True), False, True, (Handover.END, True)),
        (by_hub(), replace(NATIVE, stopped=True), False, True, (Handover.CHANGE, True)),
        (by_hub(), replace(HELD, owner_uid="other"), False, True, (Handover.NOTHING, True)),
    ],
)
def test_what_is_done_in_each_state(
    obj: dict[str, Any],
    native: Native | None,
    busy: bool,
    quiet: bool,
    expected: tuple[Handover, bool],
) -> None:
    assert handover.judge(obj, native, busy=busy, quiet=quiet) == expected


def test_the_hub_makes_what_is_due_before_it_hands_over() -> None:
    due = planned(by_clusters(), "2026-01-01T03:00:30")
    assert (due.due_s, due.handover) == (at("2026-01-01T03:00:00"), Handover.NOTHING)
    after = planned(by_clusters(last="2026-01-01T03:00:00"), "2026-01-01T03:00:31")
    assert (after.due_s, after.handover, after.held) == (None, Handover.MAKE, False)


@pytest.mark.parametrize("now", ["2026-01-01T04:00:00", "2026-01-01T09:30:00"])
@pytest.mark.parametrize("obj", [by_clusters, by_hub])
def test_what_is_due_after_the_moment_is_never_the_hubs_while_the_object_is_there(
    obj: Any, now: str
) -> None:
    plan = planned(obj(last="2026-01-01T03:00:00"), now, native=NATIVE)
    assert (plan.due_s, plan.missed) == (None, 0)
    going = planned(
        obj(last="2026-01-01T03:00:00"), now, native=replace(HELD, stopped=True, deleting=True)
    )
    assert (going.due_s, going.missed, going.handover) == (None, 0, Handover.NOTHING)


def test_a_run_that_waited_at_the_moment_is_still_made_by_the_hub() -> None:
    obj = by_clusters(last="2026-01-01T02:00:00")
    waiting = planned(obj, "2026-01-01T05:00:00", run("2026-01-01T02:00:00"), native=HELD)
    assert (waiting.waits, waiting.due_s, waiting.held) == (True, None, True)
    ended = run("2026-01-01T02:00:00", ended="2026-01-01T05:10:00")
    made = planned(obj, "2026-01-01T05:10:00", ended, native=HELD)
    assert made.due_s == at("2026-01-01T03:00:00")


def test_the_hub_goes_on_from_the_last_time_that_a_cluster_ran() -> None:
    """Its status has recorded it when the object goes."""
    last = replace(HELD, stopped=True, last_s=at("2026-01-01T06:00:00"))
    obj = by_hub(last="2026-01-01T03:00:00")
    end = planned(obj, "2026-01-01T07:30:00", native=last)
    assert end.handover is Handover.END
    recorded = status.status(obj, (), end, "")
    assert recorded["lastScheduleTime"] == "2026-01-01T06:00:00Z"
    plan = planned(by_hub(stated=recorded), "2026-01-01T07:30:00")
    assert (plan.due_s, plan.missed) == (at("2026-01-01T07:00:00"), 0)


@pytest.mark.parametrize(
    ("obj", "native", "reason", "words"),
    [
        (by_clusters(), None, "HandingOver", "take over as soon as"),
        (by_clusters(), replace(NATIVE, clusters=2), "HandingOver", "not been chosen yet"),
        (
            by_clusters(),
            replace(NATIVE, clusters=1, ready=True),
            "Native",
            "Each of 1 cluster runs it by itself.",
        ),
        (
            by_clusters(),
            replace(NATIVE, clusters=1, ready=True, message="east: the run x has failed."),
            "Native",
            "by itself. east: the run x has failed.",
        ),
        (
            by_clusters(),
            replace(NATIVE, reason="NoQuota", message="No quota."),
            "ClustersNotReady",
            "In 0 clusters (NoQuota): No quota.",
        ),
        (by_hub(), replace(HELD, active=3), "HandingOver", "3 runs are active there"),
        (by_clusters(), replace(NATIVE, owner_uid="other"), "NameTaken", "somebody else"),
    ],
)
def test_its_status_says_who_decides(
    obj: dict[str, Any], native: Native | None, reason: str, words: str
) -> None:
    obj = obj | {"status": {"lastScheduleTime": "2026-01-01T03:00:00Z"}}
    plan = planned(obj, "2026-01-01T03:30:00", native=native)
    (ready,) = status.conditions_of(obj, plan, "")
    assert ready.reason == reason
    assert words in ready.message


def test_what_the_hub_makes_of_it_is_valid_and_has_the_moment() -> None:
    container = {"name": "sweep", "image": "sweep:1"}
    obj = by_clusters(
        timeZone="Europe/Berlin",
        startingDeadlineSeconds=60,
        jobTemplate={
            "metadata": {"labels": {"team": "ads", "federation.pinterest.com/fleet": "x"}},
            "spec": {
                "suspend": True,
                "shards": 3,
                "placement": {"clusters": {"names": ["a"]}},
                "template": {"spec": {"containers": [container]}},
            },
        },
    )
    made = handover.render(obj, at(AFTER), False)
    read.check(made)
    assert made["metadata"]["labels"] == {"team": "ads", "pinterest.com/cronjob": "nightly"}
    assert made["spec"]["cron"] == {
        "schedule": "0 * * * *",
        "timeZone": "Europe/Berlin",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 60,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "suspend": True,
        "after": f"{AFTER}Z",
    }
    assert "suspend" not in made["spec"]
    back = handover.read({**made, "metadata": {**made["metadata"], "uid": "n-1"}})
    assert (back.after_s, back.owner_uid, back.source) == (at(AFTER), "u-1", "1")
