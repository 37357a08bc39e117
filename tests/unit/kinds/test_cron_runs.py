"""Which runs a cron job makes: tables of the cases that go wrong elsewhere, and a long drawn life
in which every scheduled time ends as one run or as one missed time, whatever is broken off.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from federator.kinds.cronjob import ask, runs, status
from federator.kinds.recurring import Plan, Run

HOUR, DAY = 3600, 86400


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def text(moment_s: int | None) -> str:
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment_s else ""


def cron(
    schedule: str,
    *,
    created: str = "2026-01-01T00:00:00",
    last: str = "",
    stated: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    found = {"lastScheduleTime": f"{last}Z"} if last else {}
    return {
        "metadata": {
            "name": "nightly",
            "namespace": "ads",
            "uid": "u-1",
            "creationTimestamp": f"{created}Z",
            "generation": 1,
        },
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": {}}}, **spec},
        "status": {**found, **(stated or {})},
    }


def run(due: str, *, ended: str = "", failed: bool = False) -> Run:
    due_s = at(due)
    name = ask.run_name("nightly", due_s)
    finished_s = at(ended) if ended else 0
    return Run(
        name, f"u-{due_s}", "u-1", due_s, finished=bool(ended), failed=failed, finished_s=finished_s
    )


def planned(obj: Mapping[str, Any], now: str, *existing: Run) -> Plan:
    return runs.of_hub(ask.recurrence(obj, at(now)), existing, at(now))


def test_a_run_is_made_when_it_is_due_and_not_before() -> None:
    obj = cron("0 3 * * *")

    assert planned(obj, "2026-01-01T02:59:59").due_s is None
    assert planned(obj, "2026-01-01T02:59:59").look_s == at("2026-01-01T03:00:00")
    assert planned(obj, "2026-01-01T03:00:00").due_s == at("2026-01-01T03:00:00")


def test_what_was_due_before_it_existed_is_not_made() -> None:
    assert not planned(cron("0 3 * * *", created="2026-01-01T03:00:01"), "2026-01-02T02:59:59").acts


@pytest.mark.parametrize(
    ("zone", "schedule", "since", "until", "expected"),
    [
        # 02:30 is skipped: no run on that day.
        (
            "America/New_York",
            "30 2 * * *",
            "2026-03-07T12:00:00",
            "2026-03-09T12:00:00",
            ["2026-03-09T06:30:00Z"],
        ),
        # 01:30 comes twice: two runs, an hour apart, with names of their own.
        (
            "America/New_York",
            "30 1 * * *",
            "2026-11-01T00:00:00",
            "2026-11-01T12:00:00",
            ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"],
        ),
        (
            "Europe/Berlin",
            "0 3 29 2 *",
            "2026-01-01T00:00:00",
            "2028-03-01T00:00:00",
            ["2028-02-29T02:00:00Z"],
        ),
    ],
    ids=["skipped", "twice", "leap day"],
)
def test_days_on_which_clocks_are_changed(
    zone: str, schedule: str, since: str, until: str, expected: list[str]
) -> None:
    obj, made = cron(schedule, created=since, timeZone=zone), []
    moment_s = at(since)
    while (due := planned(obj, text(moment_s)[:-1])).due_s is not None or due.look_s is not None:
        if due.due_s is not None:
            made.append(text(due.due_s))
            obj["status"] = {"lastScheduleTime": text(due.due_s)}
        elif (due.look_s or 0) > at(until):
            break
        else:
            moment_s = due.look_s or 0

    assert made == expected
    names = {ask.run_name("nightly", at(one[:-1])) for one in made}
    assert len(names) == len(made)


@pytest.mark.parametrize(
    "schedule",
    ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", ", * * * *", "0 , * * *", "0 0 , * *"],
)
def test_a_time_that_never_comes_is_told_and_not_waited_for(schedule: str) -> None:
    obj = cron(schedule)
    plan = planned(obj, "2026-06-01T00:00:00")

    assert (plan.acts, plan.look_s) == (False, None)
    ready, stalled = status.conditions_of(obj, plan, "")
    assert (ready.status, ready.reason, stalled.status) == ("False", "NeverRuns", "True")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedule": "5-1 * * * *"}, "InvalidSchedule"),
        ({"timeZone": "Europe/Berln"}, "UnknownTimeZone"),
    ],
)
def test_what_cannot_be_read_makes_no_runs_and_says_so(spec: dict[str, Any], reason: str) -> None:
    obj = cron("* * * * *") | {"spec": {"schedule": "* * * * *", **spec}}
    plan = planned(obj, "2026-06-01T00:00:00")

    assert not plan.acts
    assert [one.reason for one in status.conditions_of(obj, plan, "")] == [reason, reason]


def test_after_a_day_away_the_newest_run_is_made_and_the_others_are_told() -> None:
    plan = planned(cron("0 * * * *", last="2026-01-01T05:00:00"), "2026-01-02T05:30:00")

    assert (text(plan.due_s), plan.missed, plan.many) == ("2026-01-02T05:00:00Z", 23, False)
    assert text(plan.missed_s) == "2026-01-02T04:00:00Z"


def test_more_than_a_hundred_missed_times_are_not_counted() -> None:
    plan = planned(cron("* * * * *", last="2026-01-01T05:00:00"), "2026-01-02T05:30:30")

    assert (text(plan.due_s), plan.missed, plan.many) == ("2026-01-02T05:30:00Z", 101, True)


@pytest.mark.parametrize(
    ("deadline", "late_s", "made"),
    [(None, 10 * DAY, True), (60, 60, True), (60, 61, False), (0, 0, True), (0, 1, False)],
)
def test_a_run_that_is_too_late_is_missed(deadline: int | None, late_s: int, made: bool) -> None:
    obj = cron("0 0 1 1 *", startingDeadlineSeconds=deadline)
    plan = planned(
        obj | {"metadata": obj["metadata"] | {"creationTimestamp": "2025-06-01T00:00:00Z"}},
        "2026-01-01T00:00:00",
    )
    assert plan.due_s is not None
    plan = runs.of_hub(
        replace(ask.recurrence(obj, 0), created_s=at("2025-06-01T00:00:00")),
        (),
        plan.due_s + late_s + 0.5,
    )

    assert (plan.due_s is not None, plan.missed) == (made, 0 if made else 1)


def test_forbid_waits_for_the_end_of_the_active_run() -> None:
    obj = cron("*/5 * * * *", concurrencyPolicy="Forbid", last="2026-01-01T01:00:00")
    waiting = planned(obj, "2026-01-01T01:12:00", run("2026-01-01T01:00:00"))

    assert (waiting.due_s, waiting.waits, waiting.acts) == (None, True, False)
    plan = planned(
        obj, "2026-01-01T01:12:00", run("2026-01-01T01:00:00", ended="2026-01-01T01:11:59")
    )
    assert (text(plan.due_s), plan.missed) == ("2026-01-01T01:10:00Z", 1)


def test_forbid_with_a_deadline_misses_what_waited_for_too_long() -> None:
    obj = cron(
        "0 * * * *",
        concurrencyPolicy="Forbid",
        startingDeadlineSeconds=60,
        last="2026-01-01T01:00:00",
    )
    active = run("2026-01-01T01:00:00")
    waiting = planned(obj, "2026-01-01T02:00:10", active)

    assert (waiting.waits, waiting.look_s) == (True, at("2026-01-01T02:01:01"))
    assert planned(obj, "2026-01-01T02:01:01", active).missed == 1


def test_replace_takes_the_active_runs_away_first() -> None:
    obj = cron("0 * * * *", concurrencyPolicy="Replace", last="2026-01-01T01:00:00")
    active = run("2026-01-01T01:00:00")
    plan = planned(obj, "2026-01-01T02:00:00", active)

    assert (plan.replace, text(plan.due_s)) == ((active,), "2026-01-01T02:00:00Z")
    assert planned(obj, "2026-01-01T01:59:00", active).replace == ()


def test_a_suspended_one_makes_nothing_and_still_forgets() -> None:
    old = [
        run(f"2026-01-01T0{hour}:00:00", ended=f"2026-01-01T0{hour}:01:00") for hour in range(1, 6)
    ]
    obj = cron("0 * * * *", suspend=True, last="2026-01-01T05:00:00")
    plan = planned(obj, "2026-01-01T09:00:00", *old)

    assert (plan.due_s, plan.next_s, plan.prune) == (None, None, tuple(old[:2]))


def test_history_is_kept_apart_for_completed_and_failed_runs() -> None:
    ended = [
        run(f"2026-01-01T0{hour}:00:00", ended=f"2026-01-01T0{hour}:01:00", failed=hour % 2 == 0)
        for hour in range(1, 9)
    ]
    obj = cron(
        "0 * * * *",
        last="2026-01-01T08:00:00",
        successfulJobsHistoryLimit=1,
        failedJobsHistoryLimit=0,
    )
    plan = planned(obj, "2026-01-01T08:30:00", *reversed(ended))

    assert {one.due_s for one in plan.prune} == {one.due_s for one in ended} - {
        at("2026-01-01T07:00:00")
    }


def test_nothing_is_forgotten_that_no_status_records_or_that_could_still_be_asked_for() -> None:
    ended = run("2026-01-01T08:00:00", ended="2026-01-01T08:00:10")
    spec: dict[str, Any] = {"successfulJobsHistoryLimit": 0}

    assert (
        planned(
            cron("0 * * * *", last="2026-01-01T07:00:00", **spec), "2026-01-01T08:30:00", ended
        ).prune
        == ()
    )
    early = planned(
        cron("0 * * * *", last="2026-01-01T08:00:00", **spec), "2026-01-01T08:00:59", ended
    )
    assert (early.prune, early.look_s) == ((), at("2026-01-01T08:01:00"))


def test_a_status_from_a_clock_that_was_a_day_ahead_stops_nothing() -> None:
    obj = cron("0 * * * *", last="2026-01-03T05:00:00")
    plan = planned(
        obj, "2026-01-02T05:00:00", run("2026-01-02T04:00:00"), run("2026-01-03T05:00:00")
    )

    assert (text(plan.due_s), plan.missed >= 0) == ("2026-01-02T05:00:00Z", True)


def test_what_the_template_may_not_say_is_left_out_of_a_run() -> None:
    obj = cron("0 * * * *")
    obj["spec"]["jobTemplate"] = {
        "metadata": {
            "labels": {"team": "ads", "federation.pinterest.com/fleet": "x"},
            "annotations": {"federation.pinterest.com/slice": "{}", "note": "n"},
        },
        "spec": {"shards": 2, "template": {}, "slice": {"fleet": "x"}},
    }
    made = ask.render_run(obj, at("2026-01-01T08:00:00"))

    assert made["metadata"]["name"] == "nightly-202601010800"
    assert made["metadata"]["labels"] == {"team": "ads", "pinterest.com/cronjob": "nightly"}
    assert made["metadata"]["annotations"] == {
        "note": "n",
        "pinterest.com/scheduled-at": "2026-01-01T08:00:00Z",
    }
    assert made["spec"] == {"shards": 2, "template": {}}
    assert ask.read_run(made).due_s == at("2026-01-01T08:00:00")


@pytest.mark.parametrize(
    "name", ["nightly", "nightly-2026", "nightly-202613010800", "nightly-999999999999", ""]
)
def test_a_name_without_a_time_is_no_error(name: str) -> None:
    assert ask.due_of(name) == 0


class Life:
    """A cron job whose controller is broken off anywhere, with a host that keeps what was
    written.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        schedule = rng.choice(
            ("*/7 * * * *", "0 * * * *", "@every 61m", "30 1 * * *", "13 */5 * * *")
        )
        spec: dict[str, Any] = {"concurrencyPolicy": rng.choice(("Allow", "Forbid", "Replace"))}
        spec["startingDeadlineSeconds"] = rng.choice((None, None, 0, 30, 4000))
        spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"] = (
            rng.randint(0, 2),
            rng.randint(0, 1),
        )
        self.now_s = self.begin_s = at("2026-10-24T00:00:00") + rng.randrange(DAY)
        self.obj = cron(schedule, created=text(self.now_s)[:-1], timeZone="Europe/Berlin", **spec)
        self.runs: dict[str, Run] = {}
        self.made: list[int] = []
        self.many = False

    def turn(self) -> bool:
        """One turn; whether it did anything. Each of its writes may be the last one."""
        plan = runs.of_hub(
            ask.recurrence(self.obj, self.now_s), list(self.runs.values()), self.now_s
        )
        live = dict(self.obj["status"])
        self.many = self.many or plan.many
        existing = dict(self.runs)
        for one in plan.replace:
            existing.pop(one.name)
            self.runs = dict(existing)
            if self.rng.random() < 0.1:
                return True
        if plan.due_s is not None:
            name = ask.run_name("nightly", plan.due_s)
            if name not in self.runs:
                self.made.append(plan.due_s)
                self.runs[name] = run(text(plan.due_s)[:-1])
            if self.rng.random() < 0.2:
                return True
        stated = status.status(self.obj, list(self.runs.values()), plan, "")
        self.obj["status"] = stated
        if self.rng.random() < 0.2:
            return True
        for one in plan.prune:
            self.runs.pop(one.name, None)
        return plan.acts or stated != live

    def end_some(self) -> None:
        for name, one in self.runs.items():
            if not one.finished and self.rng.random() < 0.5:
                self.runs[name] = replace(
                    one, finished=True, failed=self.rng.random() < 0.3, finished_s=int(self.now_s)
                )


@pytest.mark.parametrize("seed", range(60))
def test_each_time_becomes_one_run_or_one_missed_time(seed: int) -> None:
    life = Life(random.Random(seed))
    for _ in range(80):
        life.now_s += life.rng.choice((1, 59, 60, 300, HOUR, 5 * HOUR))
        life.end_some()
        for _ in range(life.rng.randint(0, 3)):
            life.turn()
    for _ in range(10):
        life.end_some()
        life.turn()
    for _ in range(100):
        for one in list(life.runs.values()):
            life.runs[one.name] = replace(
                one, finished=True, finished_s=one.finished_s or int(life.now_s)
            )
        if not life.turn() and not life.turn():
            break

    recurrence = ask.recurrence(life.obj, life.now_s)
    assert recurrence.schedule is not None
    assert life.made == sorted(set(life.made)), "a run was made twice, or late"
    total = recurrence.schedule.count(
        int(life.begin_s), int(life.now_s), recurrence.zone, most=100_000
    )
    told = len(life.made) + life.obj["status"]["missedRuns"]
    assert told == total or (life.many and told < total)


def edited(obj: dict[str, Any], when: str, **spec: Any) -> dict[str, Any]:
    """The cron job after a person has edited these fields, before the hub has seen that."""
    obj["status"] |= {"observedTimes": ask.times(obj), "observedGeneration": 1}
    obj["spec"] |= spec
    writes = [
        {"manager": "kubectl", "time": f"{when}Z", "fieldsV1": {"f:spec": {"f:schedule": {}}}},
        {"manager": "hub", "time": "2027-01-01T00:00:00Z", "subresource": "status", "fieldsV1": {}},
    ]
    obj["metadata"] |= {"generation": 2, "managedFields": writes}
    return obj


@pytest.mark.parametrize(
    "spec",
    [
        {"schedule": "14 * * * *"},
        {"schedule": "14 17 * * *", "timeZone": "Etc/UTC"},
        {"schedule": "14 * * * *", "startingDeadlineSeconds": 7200},
    ],
)
def test_an_edit_never_starts_a_run_whose_time_had_passed(spec: dict[str, Any]) -> None:
    """kubernetes/kubernetes#63371: the native controller runs it, hundreds of times where there are
    hundreds of cron jobs."""
    obj = cron("0 3 1 1 *", last="2026-06-01T17:11:00")
    obj = edited(obj, "2026-06-01T17:15:01", **spec)
    plan = planned(obj, "2026-06-01T17:15:02")
    assert (plan.due_s, plan.missed) == (None, 0)
    written = status.status(obj, (), plan, "")
    assert written["timesSince"] == "2026-06-01T17:15:01Z"
    # Seen once, the moment stays through later edits of other fields.
    obj["status"] = {**obj["status"], **written}
    obj["metadata"]["managedFields"][0]["time"] = "2026-06-03T00:00:00Z"
    later = planned(obj, "2026-06-02T18:15:00")
    assert later.due_s == at(f"2026-06-02T{'17' if '17' in spec['schedule'] else '18'}:14:00")
    assert status.status(obj, (), later, "")["timesSince"] == "2026-06-01T17:15:01Z"


def test_a_time_between_an_edit_and_the_return_of_the_hub_has_its_run() -> None:
    obj = edited(cron("0 3 * * *"), "2026-06-01T10:00:00", schedule="30 * * * *")
    assert planned(obj, "2026-06-01T11:10:00").due_s == at("2026-06-01T10:30:00")


def test_an_edit_of_which_the_host_does_not_say_when_counts_from_now_on() -> None:
    obj = edited(cron("0 3 * * *"), "2026-06-01T10:00:00", schedule="30 * * * *")
    del obj["metadata"]["managedFields"]
    plan = planned(obj, "2026-06-01T11:10:00")
    assert (plan.due_s, plan.since_s) == (None, at("2026-06-01T11:10:00"))


def test_a_new_cron_job_and_one_of_an_earlier_version_are_not_edited() -> None:
    new = cron("30 * * * *", created="2026-06-01T10:00:00")
    assert planned(new, "2026-06-01T10:31:00").since_s == 0
    new["metadata"]["generation"] = 7
    new["status"]["observedGeneration"] = 7
    assert planned(new, "2026-06-01T10:31:00").due_s == at("2026-06-01T10:30:00")
