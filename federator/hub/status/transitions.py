"""What is new in a workload's status for users, as Events on transitions only. Pure.

Replicas that are not ready while an edit is carried out are no problem; a problem of a cluster's
pods is reported once per cluster and reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.status import conditions
from federator.status.fold import Fold, Row
from federator.status.verdict import RUNTIME_PINNED

TROUBLES: Final = frozenset(
    {
        *(
            "ImagePullFailed",
            "MissingDependency",
            "ContainerConfigError",
            "ContainerStartFailed",
            "CrashLooping",
        ),
        *(
            "Unschedulable",
            "PodFailed",
            "JobFailed",
            "FailedIndexes",
            "BackoffLimitExceeded",
            "FailedCreate",
        ),
        *(
            "ProgressDeadlineExceeded",
            "Conflict",
            "CannotConverge",
            "ExpansionFailed",
            "Denied",
            "Invalid",
        ),
    }
)
"""Reasons of a cluster that need attention."""
MOVING: Final = frozenset({"Progressing", "RollingOut"})
"""Reasons of a workload that is not ready only because its replicas are starting."""


@dataclass(frozen=True, slots=True)
class Told:
    """One Event to be written."""

    reason: str
    note: str
    warning: bool = False


def of(live: Mapping[str, Any], result: Fold) -> Iterator[Told]:
    """The Events for the transition from the former to the present status."""
    yield from _readiness(live, result)
    yield from _pin(live, result)
    yield from _troubles(raw.objects(live, "clusterStatuses"), result.rows)


def _readiness(live: Mapping[str, Any], result: Fold) -> Iterator[Told]:
    was = conditions.find(live.get("conditions"), "Ready") or {}
    now = next((condition for condition in result.conditions if condition.type == "Ready"), None)
    if now is None or was.get("status") == now.status or now.status == conditions.UNKNOWN:
        return
    if now.status == conditions.TRUE:
        # That replicas which were starting have started is in the condition; nobody has to act.
        if now.reason != "Ready" or (was and was.get("reason") not in MOVING):
            yield Told(now.reason, now.message)
    elif was.get("status") == conditions.TRUE:
        edited = raw.integer(live, "observedGeneration") < result.generation
        desired = raw.integer(live, "desired", default=result.desired)
        if not (now.reason in MOVING and (edited or desired != result.desired)):
            yield Told("NotReady", now.message, warning=True)


def _pin(live: Mapping[str, Any], result: Fold) -> Iterator[Told]:
    """A pin that ends soon, has ended, or does not hold, once."""
    now = next((each for each in result.conditions if each.type == RUNTIME_PINNED), None)
    was = conditions.find(live.get("conditions"), RUNTIME_PINNED) or {}
    if now is None or now.reason in (was.get("reason"), "Pinned"):
        return
    yield Told(f"RuntimePin{now.reason}", now.message, warning=True)


def _troubles(live: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> Iterator[Told]:
    """New reasons, each with the first cluster that has it and the number of others."""
    before = {(entry.get("cluster"), entry.get("reason")) for entry in live}
    news: dict[str, list[Row]] = {}
    for row in rows:
        if row.known and row.reason in TROUBLES and (row.cluster, row.reason) not in before:
            news.setdefault(row.reason, []).append(row)
    for reason, items in sorted(news.items()):
        more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
        yield Told(reason, f"{items[0].cluster}{more}: {items[0].message}", warning=True)
