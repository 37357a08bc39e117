"""Which runs of a PinterestCronJob to make, to replace and to forget: as the CronJob controller of
Kubernetes decides.

Of several times that have passed, only the newest gets a run; the others are missed, and counted.
Each time is recorded once, as a run or as missed, whatever is broken off in between: what the
status does not record yet is found again from the runs that exist.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.cronjob import ask, handover
from federator.kinds.recurring import Native, Plan, Recurrence, Run

MISSED_MOST: Final = 100
"""Missed times beyond these are not counted, as natively: `many` says that there are more."""
AHEAD_S: Final = 60
"""A recorded time that lies further ahead was written by a clock that was wrong, and counts for
nothing.
"""
SETTLED_S: Final = 60
"""A run is not forgotten before its time has passed by this: a request of a former leader to make
it may still be on its way, and only the run's name keeps it from being made twice.
"""


def plan(obj: Obj, runs: Sequence[Run], native: Native | None, now_s: float) -> Plan:
    """What to do now. `runs` are its own, in any order; `native` is the object by which its
    clusters run it, or somebody else's of that name.
    """
    recurrence = ask.recurrence(obj, now_s)
    if native is not None and native.owner_uid != raw.text(obj, "metadata", "uid"):
        if recurrence.native:
            return Plan(made_s=recurrence.last_s, since_s=recurrence.since_s, taken=True)
        native = None
    until_s = native.after_s if native is not None else None
    decided = of_hub(recurrence, runs, now_s, until_s=until_s)
    if recurrence.schedule is None:
        return replace(decided, native=native)
    busy = decided.waits or any(run.active for run in runs)
    quiet = not decided.acts and (decided.look_s is None or decided.look_s > now_s)
    act, held = handover.judge(obj, native, busy=busy, quiet=quiet)
    return replace(decided, native=native, handover=act, held=held)


def of_hub(
    recurrence: Recurrence, runs: Sequence[Run], now_s: float, *, until_s: int | None = None
) -> Plan:
    """What the hub does about runs of its own. Times after `until_s` are not its affair."""
    now = int(now_s)
    to_s = now if until_s is None else min(now, until_s)
    runs = sorted(runs, key=lambda run: (run.due_s, run.name))
    prune, prune_s = _excess(recurrence, runs, now)
    schedule, zone = recurrence.schedule, recurrence.zone
    last_s = _newest(now, recurrence.last_s, *(run.due_s for run in runs))
    if schedule is None or recurrence.suspended:
        return Plan(made_s=last_s, prune=prune, look_s=prune_s, since_s=recurrence.since_s)

    recorded_s = _newest(
        now, recurrence.created_s, recurrence.since_s, recurrence.last_s, recurrence.missed_s
    )
    made_s = max(recorded_s, last_s)
    next_s = schedule.after(max(now, made_s), zone)
    due_s = schedule.latest(made_s, to_s, zone) if made_s < to_s else None
    late = (
        due_s is not None
        and recurrence.deadline_s is not None
        and now - due_s > recurrence.deadline_s
    )
    active = tuple(run for run in runs if run.active)
    waits = due_s is not None and not late and recurrence.concurrency == "Forbid" and bool(active)
    # A run that gives way is recorded first: without it nothing else would tell that its time had
    # one.
    replaces = due_s is not None and not late and recurrence.concurrency == "Replace"
    first = replaces and any(run.due_s > recorded_s for run in active)
    if waits and recurrence.deadline_s is not None:
        assert due_s is not None
        prune_s = _sooner(prune_s, due_s + recurrence.deadline_s + 1)

    past_s = made_s if due_s is None or waits or first else due_s
    begins = due_s is not None and not late and not waits and not first
    with_run = sum(1 for run in runs if recorded_s < run.due_s <= past_s) + int(begins)
    count = schedule.count(recorded_s, past_s, zone, most=MISSED_MOST + 1 + with_run)
    missed = max(count - with_run, 0)
    newest_s = schedule.latest(recorded_s, past_s - int(begins), zone) if missed else None
    return Plan(
        due_s=due_s if begins else None,
        made_s=last_s,
        missed=missed,
        many=missed > MISSED_MOST,
        missed_s=newest_s or 0,
        replace=active if begins and replaces else (),
        prune=prune,
        waits=waits,
        next_s=next_s,
        look_s=now if first else _sooner(prune_s, next_s),
        since_s=recurrence.since_s,
    )


def _newest(now: int, *times_s: int) -> int:
    return max((time_s for time_s in times_s if time_s <= now + AHEAD_S), default=0)


def _sooner(time_s: int | None, other_s: int | None) -> int | None:
    return other_s if time_s is None else time_s if other_s is None else min(time_s, other_s)


def _excess(
    recurrence: Recurrence, runs: Sequence[Run], now: int
) -> tuple[tuple[Run, ...], int | None]:
    """(finished runs beyond the limits that may go now, when the first of the others may). The
    newest are kept.
    """
    excess: list[Run] = []
    later_s: int | None = None
    for failed, keep in ((False, recurrence.keep_completed), (True, recurrence.keep_failed)):
        over = [run for run in runs if run.finished and run.failed is failed and not run.deleting]
        for run in over[: max(len(over) - keep, 0)]:
            if run.due_s + SETTLED_S > now:
                later_s = _sooner(later_s, run.due_s + SETTLED_S)
            elif run.due_s <= max(recurrence.last_s, recurrence.missed_s):
                excess.append(run)
    return tuple(excess), later_s
