"""Status of a PinterestCronJob: its runs, its times, and whether it makes any."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.cronjob import ask
from federator.kinds.cronjob.schema import ACTIVE_MAX
from federator.kinds.recurring import Plan, Run
from federator.status import conditions
from federator.status.conditions import Condition

SCHEDULED: Final = "Scheduled"
SUSPENDED: Final = "Suspended"
NEVER: Final = "NeverRuns"
REFUSED: Final = "RunRefused"
STALLING: Final = frozenset({ask.INVALID, ask.UNKNOWN_ZONE, NEVER})
"""Only a person can resolve these."""


def status(obj: Obj, runs: Sequence[Run], plan: Plan, refused: str) -> dict[str, Any]:
    """All but the conditions. `runs` are those that there are once the plan was carried out."""
    live, recurrence = raw.mapping(obj, "status"), ask.recurrence(obj)
    last_s = (
        plan.due_s if plan.due_s is not None and not refused else plan.made_s or recurrence.last_s
    )
    done_s = max((run.finished_s for run in runs if run.finished and not run.failed), default=0)
    done_s = max(done_s, int(raw.epoch_s(raw.text(live, "lastSuccessfulTime"))))
    active = sorted(run.name for run in runs if run.active)
    ready = _ready(obj, plan, refused)
    well = ready.status == conditions.TRUE
    return {
        "observedGeneration": raw.integer(obj, "metadata", "generation"),
        "activeRuns": len(active),
        "missedRuns": raw.integer(live, "missedRuns") + plan.missed,
        "summary": _summary(ready, len(active), plan),
        **raw.present(
            {
                "active": active[:ACTIVE_MAX],
                "lastScheduleTime": _moment(last_s),
                "lastSuccessfulTime": _moment(done_s),
                "lastMissedTime": _moment(plan.missed_s or recurrence.missed_s),
                "nextScheduleTime": _moment(plan.next_s or 0),
                "message": "" if well else ready.message,
            }
        ),
    }


def conditions_of(obj: Obj, plan: Plan, refused: str) -> tuple[Condition, ...]:
    ready = _ready(obj, plan, refused)
    if ready.reason not in STALLING:
        return (ready,)
    stalled = Condition(
        "Stalled", conditions.TRUE, ready.reason, ready.message, ready.observed_generation
    )
    return ready, stalled


def _ready(obj: Obj, plan: Plan, refused: str) -> Condition:
    recurrence = ask.recurrence(obj)
    generation = raw.integer(obj, "metadata", "generation")

    def not_ready(reason: str, message: str) -> Condition:
        return Condition("Ready", conditions.FALSE, reason, message, generation)

    if recurrence.problem:
        return not_ready(recurrence.reason, f"It makes no runs: {recurrence.problem}.")
    if recurrence.suspended:
        return not_ready(SUSPENDED, "It makes no runs while spec.suspend is true.")
    if refused:
        return not_ready(REFUSED, f"The host refused the run that is due: {refused}")
    text = raw.text(obj, "spec", "schedule")
    if plan.next_s is None and plan.due_s is None and not plan.waits:
        return not_ready(NEVER, f"The schedule {text!r} names no time within the next five years.")
    zone = raw.text(obj, "spec", "timeZone") or "UTC"
    return Condition(
        "Ready",
        conditions.TRUE,
        SCHEDULED,
        f"Runs are made when {text!r} is due, in {zone}.",
        generation,
    )


def _summary(ready: Condition, active: int, plan: Plan) -> str:
    if ready.status != conditions.TRUE:
        return f"{ready.reason}, {active} active" if active else ready.reason
    waiting = ", one waits" if plan.waits else ""
    return f"{active} active{waiting}" if active else "waiting for its time"


def _moment(epoch_s: int) -> str:
    return (
        datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if epoch_s > 0 else ""
    )
