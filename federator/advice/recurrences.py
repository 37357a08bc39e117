"""Why a recurring object makes its runs when it does, and where they went: the facts of `federator
explain` for it. Pure; times are arguments.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.kind import Kind
from federator.kinds.recurring import Handover, Plan, Recurrence, Run

NEXT_SHOWN: Final = 3
MOMENT: Final = "%Y-%m-%dT%H:%M:%SZ"


def facts(
    kind: Kind, obj: Obj, objs: Sequence[Obj], now_s: float, *, native: Obj | None = None
) -> dict[str, Any]:
    """`objs` are the workloads of its namespace that carry its label, `native` the one of its name
    by which clusters run it. ValueError for a kind that makes none.
    """
    verbs = kind.recurring
    if verbs is None:
        raise ValueError(f"{kind.kind} makes no runs")
    recurrence, uid = verbs.read(obj, now_s), raw.text(obj, "metadata", "uid")
    own = [(verbs.read_run(run), run) for run in objs]
    runs = sorted(
        ((run, made) for run, made in own if run.owner_uid == uid), key=lambda pair: pair[0].due_s
    )
    seen = verbs.read_native(native) if native is not None else None
    plan = verbs.plan(obj, [run for run, _ in runs], seen, now_s)
    ready = raw.condition(obj, "Ready")
    return {
        "workload": {
            "kind": kind.kind,
            "namespace": raw.text(obj, "metadata", "namespace"),
            "name": raw.text(obj, "metadata", "name"),
        },
        "ready": {
            "status": raw.text(ready, "status") or "Unknown",
            "reason": raw.text(ready, "reason"),
            "message": raw.text(ready, "message") or "No hub has looked at it yet.",
        },
        "concurrency": recurrence.concurrency,
        "deadlineSeconds": recurrence.deadline_s,
        "now": _now(recurrence, plan, [run for run, _ in runs]),
        "next": [_moment(time_s) for time_s in _next(recurrence, plan)],
        "missed": raw.integer(obj, "status", "missedRuns") + plan.missed,
        "lastMissed": _moment(plan.missed_s or recurrence.missed_s),
        "runKind": verbs.run_kind,
        **({"native": _native(native)} if native is not None and plan.native is not None else {}),
        "runs": [_run(run, made) for run, made in runs],
    }


def _native(obj: Obj) -> dict[str, Any]:
    """What its clusters run by themselves."""
    rows = raw.objects(obj, "status", "clusterStatuses")
    return {
        "kind": raw.text(obj, "kind"),
        "name": raw.text(obj, "metadata", "name"),
        "after": raw.text(obj, "spec", "cron", "after"),
        "clusters": [
            {
                "cluster": raw.text(row, "cluster"),
                "active": raw.figure(row, "activeRuns"),
                "lastRun": raw.text(row, "lastScheduleTime"),
                "lastSuccess": raw.text(row, "lastSuccessfulTime"),
                "suspended": raw.flag(row, "suspended"),
                "known": raw.at(row, "known") is not False,
                "why": raw.text(row, "message"),
            }
            for row in rows
        ],
    }


def _now(recurrence: Recurrence, plan: Plan, runs: Sequence[Run]) -> str:
    """What is to be done at this moment, as a sentence; "" where there is nothing but to wait."""
    active = ", ".join(run.name for run in runs if run.active)
    if recurrence.problem:
        return f"It makes no runs: {recurrence.problem}."
    if recurrence.suspended:
        return "It makes no runs while spec.suspend is true; those that are active go on."
    if plan.waits:
        until = " for as long as its deadline lets it" if recurrence.deadline_s is not None else ""
        return f"A run is due, and waits{until} for the end of {active} (concurrencyPolicy Forbid)."
    if plan.due_s is not None:
        instead = f", in place of {active}" if plan.replace else ""
        return f"The run of {_moment(plan.due_s)} is due, and is being made{instead}."
    if plan.handover is Handover.MAKE:
        return "Nothing is due before: its clusters are being given what comes next."
    if plan.missed:
        times = "1 time has" if plan.missed == 1 else f"{plan.missed} times have"
        return f"{times} passed without a run: the deadline is over."
    return ""


def _next(recurrence: Recurrence, plan: Plan) -> list[int]:
    times: list[int] = []
    time_s = plan.next_s
    while time_s is not None and len(times) < NEXT_SHOWN and recurrence.schedule is not None:
        times.append(time_s)
        time_s = recurrence.schedule.after(time_s, recurrence.zone)
    return times


def _run(run: Run, obj: Obj) -> dict[str, Any]:
    state = "Active"
    if run.finished:
        state = "Failed" if run.failed else "Completed"
    rows: list[Mapping[str, Any]] = list(raw.objects(obj, "status", "clusterStatuses"))
    placed = raw.condition(obj, "Placed")
    waits = not run.finished and placed.get("status") == "False"
    return {
        "name": run.name,
        "due": _moment(run.due_s),
        "state": "Deleting" if run.deleting else state,
        "clusters": [raw.text(row, "cluster") for row in rows],
        "summary": raw.text(obj, "status", "summary"),
        **({"waits": raw.text(placed, "message")} if waits else {}),
    }


def _moment(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime(MOMENT) if time_s > 0 else ""
