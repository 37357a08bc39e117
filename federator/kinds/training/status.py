"""Status of a PinterestTrainingJob: read from a slice, written on a slice, and put together for the
host.

To the core it is one shard, which runs when all its pods do; people read pods by component.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.common import SHORT_MAX
from federator.api.raw import Obj
from federator.kinds.shared import workloads
from federator.model import shards
from federator.model.observation import Gang, Phase, RoleFigures, SliceObservation
from federator.model.shards import Ranges
from federator.status.fold import Fold

_INDEXES: Final = ("completedIndexes", "failedIndexes")
_FIGURES: Final = ("wanted", "active", "ready", "succeeded", "failed")
_PHASES: Final = {str(phase): phase for phase in Phase}


def observe(obj: Obj, cluster: str, reporting: bool) -> SliceObservation:
    status, mark = raw.mapping(obj, "status"), workloads.read_mark(obj)
    desired = shards.size(mark.ranges) if mark else 0
    completed = workloads.indexes(status, "completedIndexes")
    failed = workloads.indexes(status, "failedIndexes")
    gang = _gang(status)
    active = int(bool(gang.roles) and all(_runs(role) for role in gang.roles))
    done = shards.union(completed, failed)
    seen = workloads.observed(obj, cluster, reporting, desired=desired)
    active = 0 if done else active
    return SliceObservation(
        **seen | {"ready": min(seen["ready"], active)},
        actual=int(any(role.active for role in gang.roles)),
        active=active,
        completed=completed,
        failed=failed,
        finished=desired > 0 and shards.size(done) >= desired,
        unreadable=next((name for name in _INDEXES if workloads.is_no_set(status, name)), ""),
        gang=gang if gang != Gang() else None,
    )


def _runs(role: RoleFigures) -> bool:
    """Whether all pods of a component run, or have completed."""
    return role.active + role.succeeded >= role.wanted


def _gang(status: Obj) -> Gang:
    gang = raw.mapping(status, "gang")
    return Gang(
        phase=_PHASES.get(raw.text(gang, "phase"), Phase.ADMITTING),
        since_s=raw.epoch_s(raw.text(gang, "since")),
        attempts=raw.figure(gang, "attempts"),
        roles=tuple(_role(entry) for entry in raw.objects(status, "components")),
        group=raw.text(gang, "podGroup")[:SHORT_MAX],
    )


def _role(entry: Obj) -> RoleFigures:
    figures = [raw.figure(entry, name) for name in _FIGURES]
    return RoleFigures(raw.text(entry, "name"), *figures)


def slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any]:
    status = workloads.base_slice_status(seen, conditions)
    gang = seen.gang or Gang()
    status |= _pods(gang.roles)
    if gang.since_s:
        status["gang"] = {
            "phase": str(gang.phase),
            "since": raw.rfc3339(gang.since_s),
            "attempts": gang.attempts,
            **raw.present({"podGroup": gang.group}),
        }
    running, wanted = status["running"], status["wanted"]
    status["summary"] = _ended(seen.completed, seen.failed) or f"{running}/{wanted} pods running"
    return status | workloads.index_fields(seen.completed, seen.failed)


def host_status(
    obj: Obj, fold: Fold, conditions: Sequence[Obj], *, policy: str = ""
) -> dict[str, Any]:
    rows = [
        {"cluster": row.cluster, "phase": str(row.gang.phase) if row.gang else ""}
        | {"components": [_role_fields(role) for role in (row.gang.roles if row.gang else ())]}
        | raw.present({"podGroup": row.gang.group if row.gang else ""})
        | workloads.trouble(row)
        for row in fold.rows
    ]
    status = workloads.base_host_status(fold, conditions, policy)
    shared = [row for row in fold.rows if row.share and row.gang is not None]
    status |= _pods(shared[0].gang.roles if shared and shared[0].gang else ())
    if shared and not (fold.unknown or fold.completed or fold.failed):
        where = shared[0].cluster
        status["summary"] = f"{status['running']}/{status['wanted']} pods running in {where}"
    status |= {"unknown": fold.unknown, "clusterStatuses": rows}
    return status | workloads.index_fields(fold.completed, fold.failed)


def _pods(roles: Iterable[RoleFigures]) -> dict[str, Any]:
    every = list(roles)
    return {
        "wanted": sum(role.wanted for role in every),
        "running": sum(role.active for role in every),
        "components": [_role_fields(role) for role in every],
    }


def _role_fields(role: RoleFigures) -> dict[str, Any]:
    return {"name": role.name} | {name: getattr(role, name) for name in _FIGURES}


def _ended(completed: Ranges, failed: Ranges) -> str:
    return "completed" if completed else "failed" if failed else ""
