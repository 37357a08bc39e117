"""Limits a member's report about a slice to what the member was given. Every report passes here
before decisions, rollouts and status aggregation may read it.

What a cluster was given is in the decision, whatever its slice shows: a member may show any mark.
Reads memory.
"""

from collections.abc import Mapping
from dataclasses import replace

from federator.hub.cache import restored
from federator.hub.cache.state import HubState
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Workload
from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.observation import SliceObservation
from federator.status import given as givens
from federator.status.given import Contradiction, Given


def heard(
    state: HubState, workload: Workload, record: Record | None, seen: SliceSeen
) -> tuple[SliceObservation, tuple[Contradiction, ...]]:
    """The part of a slice's report that counts, and what in it contradicts what its cluster was
    given."""
    if _fitting(workload, record, seen) is not None:
        return seen.observation, ()
    given = allowed(workload, record, seen)
    if not given.explained and restored.is_later(state, workload, seen):
        given = replace(given, explained=True)
    kept, against = givens.cut(seen.observation, given)
    return kept, tuple(
        replace(contradiction, message=f"{workload.key}: {contradiction.message}")
        for contradiction in against
    )


def counted(
    state: HubState, workload: Workload, record: Record | None, seen: SliceSeen
) -> SliceObservation:
    """The part of a slice's report that counts."""
    return heard(state, workload, record, seen)[0]


def counters(workload: Workload, record: Record | None, seen: SliceSeen) -> Mapping[str, int]:
    """The part of a carried native kind's counters that counts."""
    share, observed = _fitting(workload, record, seen), seen.observation
    count = share.count if share is not None else 0
    if share is None:
        given = allowed(workload, record, seen)
        observed, count = givens.cut(observed, given)[0], given.count
    most = {
        "replicas": observed.actual,
        "readyReplicas": observed.ready,
        "availableReplicas": observed.ready,
    }
    return {
        name: min(figure, most.get(name, max(observed.actual, count)))
        for name, figure in seen.native.items()
    }


def _fitting(workload: Workload, record: Record | None, seen: SliceSeen) -> Share | None:
    """The share of this slice's cluster if the slice neither asks for nor reports more replicas
    than it: then nothing has to be limited. That is nearly always so, and each change asks several
    times."""
    share = record.share_of(seen.cluster) if record is not None else None
    if (
        share is None
        or workload.verbs.unit is not Unit.REPLICAS
        or seen.observation.desired > share.count
    ):
        return None
    return share if givens.fits(seen.observation, share.count) else None


def allowed(workload: Workload, record: Record | None, seen: SliceSeen) -> Given:
    """What the slice's cluster was given of the workload, by the host's decisions."""
    unit = workload.verbs.unit
    if record is None:
        # its decision has not been read yet, or was lost with a backup
        return Given(unit, explained=True)
    share, had = record.share_of(seen.cluster), record.had(seen.cluster)
    unrecorded = _unrecorded(record, share, seen)
    if unit is Unit.SHARDS:
        parts = [part.ranges for part in (share, had) if part is not None]
        if unrecorded and seen.mark is not None:
            parts.append(seen.mark.ranges)
        ranges = shards.normal(piece for part in parts for piece in part)
        return Given(unit, ranges=ranges, recorded=workload.progress().done, explained=unrecorded)
    asked = seen.observation.desired
    now = share.count if share is not None else 0
    before = had.count if had is not None else min(asked, record.terms.wanted) if unrecorded else 0
    ever = max(now, before)
    return Given(unit, count=max(now, min(asked, ever)), ever=ever, explained=unrecorded)


def _unrecorded(record: Record, share: Share | None, seen: SliceSeen) -> bool:
    """Whether an earlier decision left this slice, made by a version that did not record what
    clusters were given."""
    if record.facts.records_given or seen.mark is None:
        return False
    return seen.mark.seq < share.seq if share is not None else seen.cluster in record.terms.leaving
