"""Status of a PinterestCronJob: its runs, its times, and whether it makes any."""

from collections.abc import Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.cronjob import ask
from federator.kinds.cronjob.schema import ACTIVE_MAX
from federator.kinds.recurring import Native, Plan, Recurrence, Run
from federator.status import conditions
from federator.status.conditions import Condition

SCHEDULED: Final = "Scheduled"
SUSPENDED: Final = "Suspended"
NEVER: Final = "NeverRuns"
TOO_MANY: Final = "TooManyCronJobs"
REFUSED: Final = "RunRefused"
NATIVE: Final = "Native"
HANDING_OVER: Final = "HandingOver"
NAME_TAKEN: Final = "NameTaken"
NOT_READY: Final = "ClustersNotReady"
STALLING: Final = frozenset({ask.INVALID, ask.UNKNOWN_ZONE, NEVER, TOO_MANY})
"""Only a person can resolve these."""


_NONE: Final = Native("", "", "", 0)


def status(obj: Obj, runs: Sequence[Run], plan: Plan, refused: str) -> dict[str, Any]:
    """All but the conditions. `runs` are those that there are once the plan was carried out."""
    live, recurrence = raw.mapping(obj, "status"), ask.recurrence(obj, plan.since_s)
    last_s = (
        plan.due_s if plan.due_s is not None and not refused else plan.made_s or recurrence.last_s
    )
    native = plan.native or _NONE
    last_s = max(last_s, native.last_s)
    done_s = max((run.finished_s for run in runs if run.finished and not run.failed), default=0)
    done_s = max(done_s, native.done_s)
    done_s = max(done_s, int(raw.epoch_s(raw.text(live, "lastSuccessfulTime"))))
    active = sorted(run.name for run in runs if run.active)
    ready = _ready(obj, plan, refused)
    well = ready.status == conditions.TRUE
    return {
        "observedGeneration": raw.integer(obj, "metadata", "generation"),
        "activeRuns": len(active) + native.active,
        "missedRuns": raw.integer(live, "missedRuns") + plan.missed,
        "summary": _summary(ready, len(active) + native.active, plan),
        **raw.present(
            {
                "active": active[:ACTIVE_MAX],
                "lastScheduleTime": raw.second(last_s),
                "lastSuccessfulTime": raw.second(done_s),
                "lastMissedTime": raw.second(plan.missed_s or recurrence.missed_s),
                "nextScheduleTime": raw.second(plan.next_s or 0),
                "observedTimes": ask.times(obj),
                "timesSince": raw.second(plan.since_s),
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
    recurrence = ask.recurrence(obj, plan.since_s)
    generation = raw.integer(obj, "metadata", "generation")

    def not_ready(reason: str, message: str) -> Condition:
        return Condition("Ready", conditions.FALSE, reason, message, generation)

    if recurrence.problem:
        return not_ready(recurrence.reason, f"It makes no runs: {recurrence.problem}.")
    if plan.beyond:
        return not_ready(
            TOO_MANY,
            f"It makes no runs: {plan.beyond} older cron jobs of this namespace do, and no more may"
            " (hub.cron_jobs_per_namespace). Delete cron jobs of the namespace, or ask an operator"
            " for a higher limit.",
        )
    if recurrence.suspended:
        return not_ready(SUSPENDED, "It makes no runs while spec.suspend is true.")
    if refused:
        return not_ready(REFUSED, f"The host refused the run that is due: {refused}")
    text = raw.text(obj, "spec", "schedule")
    if plan.taken:
        taken = "A PinterestNativeCronJob of this name belongs to somebody else"
        return not_ready(NAME_TAKEN, f"{taken}: delete it, or give the cron job another name.")
    if plan.next_s is None and plan.due_s is None and not plan.waits:
        return not_ready(NEVER, f"The schedule {text!r} names no time within the next five years.")
    if plan.native is not None or recurrence.native:
        reason, message = _native(recurrence, plan)
        if reason != NATIVE:
            return not_ready(reason, message)
        return Condition("Ready", conditions.TRUE, NATIVE, message, generation)
    zone = raw.text(obj, "spec", "timeZone") or "UTC"
    return Condition(
        "Ready",
        conditions.TRUE,
        SCHEDULED,
        f"Runs are made when {text!r} is due, in {zone}.",
        generation,
    )


def _native(recurrence: Recurrence, plan: Plan) -> tuple[str, str]:
    """(reason, sentence) of one that its clusters run, are to run, or have run until now."""
    native = plan.native
    if native is None:
        return HANDING_OVER, "Its clusters take over as soon as the hub has made what is due."
    if not recurrence.native or native.deleting:
        going = f"; {native.active} runs are active there" if native.active else ""
        return HANDING_OVER, f"The hub takes over when its clusters have stopped{going}."
    if plan.held:
        return HANDING_OVER, "Its clusters take over when the runs of the hub have ended."
    where = "1 cluster" if native.clusters == 1 else f"{native.clusters} clusters"
    if native.ready:
        trouble = f" {native.message}" if native.message else ""
        return NATIVE, f"Each of {where} runs it by itself.{trouble}"
    if not native.message:
        return HANDING_OVER, "Its clusters take over: they have not been chosen yet."
    return NOT_READY, f"In {where} ({native.reason}): {native.message}"


def _summary(ready: Condition, active: int, plan: Plan) -> str:
    if ready.status != conditions.TRUE:
        return f"{ready.reason}, {active} active" if active else ready.reason
    waiting = ", one waits" if plan.waits else ""
    return f"{active} active{waiting}" if active else "waiting for its time"
