"""Status of a PinterestNativeCronJob: read from a slice, written on a slice, and put together for
the host.

To the core its copies are those of one run, which are there when the cluster's CronJob is as it
should be: between runs nothing is missing. People read runs.
"""

from collections.abc import Sequence
from typing import Any

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.nativecron import ask
from federator.kinds.shared import workloads
from federator.model.observation import RepeatFigures, SliceObservation
from federator.status import conditions as condition_words
from federator.status.fold import Fold, Row


def observe(obj: Obj, cluster: str, reporting: bool) -> SliceObservation:
    status = raw.mapping(obj, "status")
    if not obj:
        return SliceObservation(**workloads.observed(obj, cluster, reporting, desired=0))
    share = ask.count(obj)
    seen = workloads.observed(obj, cluster, reporting, desired=share)
    ready = min(seen["ready"], share)
    seen["ready"] = ready
    updated = ready if workloads.counts_present_template(obj) else 0
    repeats = RepeatFigures(
        active=raw.figure(status, "activeRuns"),
        last_s=_epoch_s(status, "lastScheduleTime"),
        done_s=_epoch_s(status, "lastSuccessfulTime"),
        stopped=raw.flag(status, "suspended"),
    )
    return SliceObservation(**seen, updated=updated, actual=ready, repeats=repeats)


def slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any]:
    repeats = seen.repeats or RepeatFigures()
    return (
        workloads.base_slice_status(seen, conditions)
        | _figures(repeats)
        | {"summary": f"{repeats.active} active"}
    )


def host_status(
    obj: Obj, fold: Fold, conditions: Sequence[Obj], *, policy: str = ""
) -> dict[str, Any]:
    rows = [
        {"cluster": row.cluster, "parallelism": row.share}
        | _figures(row.repeats or RepeatFigures())
        | workloads.trouble(row)
        for row in fold.rows
    ]
    each = [row.repeats or RepeatFigures() for row in fold.rows]
    whole = RepeatFigures(
        active=sum(figures.active for figures in each),
        last_s=max((figures.last_s for figures in each), default=0),
        done_s=max((figures.done_s for figures in each), default=0),
        stopped=all(map(_stopped, fold.rows)),
    )
    status = workloads.base_host_status(fold, conditions, policy)
    status |= _figures(whole)
    status |= {"unknown": sum(not row.known for row in fold.rows), "clusterStatuses": rows}
    if condition_words.is_true(conditions, "Ready"):
        where = "1 cluster" if fold.clusters == 1 else f"{fold.clusters} clusters"
        status["summary"] = f"{whole.active} active in {where}"
    return status


def _stopped(row: Row) -> bool:
    """Whether it is certain that a cluster begins no run any more: what is not heard may."""
    if not row.exists:
        return row.known
    return row.known and row.caught_up and row.repeats is not None and row.repeats.stopped


def _figures(repeats: RepeatFigures) -> dict[str, Any]:
    return {
        "activeRuns": repeats.active,
        "suspended": repeats.stopped,
        **raw.present(
            {
                "lastScheduleTime": raw.second(repeats.last_s),
                "lastSuccessfulTime": raw.second(repeats.done_s),
            }
        ),
    }


def _epoch_s(status: Obj, field: str) -> int:
    return int(raw.epoch_s(raw.text(status, field)))
