"""Which shards of a job set are done, for deciding which cluster runs what.

The host's status is the durable record; what it records as done frees room and quota
(`HubState.observe_workload`). A member may have reported more than the host has recorded. Those
shards are not run again elsewhere, but free nothing yet. Reads memory; called by placing.
"""

from typing import Final

from federator.hub.cache import cutting
from federator.hub.cache.state import HubState
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model import shards
from federator.model.ask import Unit
from federator.model.shards import Ranges

LATE_WRITE_S: Final = 60.0
"""An API server serves no request for longer (kube-apiserver: --request-timeout), and ours are
given up sooner."""


def done(state: HubState, workload: Workload, record: Record | None) -> Ranges:
    """Shards that need no run: recorded on the host, or reported by a member that was given
    them."""
    done = workload.progress().done
    if workload.verbs.unit is not Unit.SHARDS:
        return done
    for seen in state.slices_with_uid(workload.key, workload.uid):
        reported = cutting.counted(state, workload, record, seen)
        done = shards.union(done, shards.union(reported.completed, reported.failed))
    return done


def unstopped(workload: Workload, record: Record) -> bool:
    """Whether the host records that it has ended early, and the decision in force still lets
    clusters run shards of it."""
    if not any(share.slots for share in record.shares):
        return False
    recorded = workload.progress()
    return recorded.ending is not None and not recorded.all_done


def open_shards(state: HubState, workload: Workload) -> Ranges:
    """Shards that no share of the decision in force covers and that are not done: a member's report
    about them was lost with it before it was recorded."""
    record = state.record_of(workload)
    if record is None or workload.ask is None or workload.verbs.unit is not Unit.SHARDS:
        return ()
    count = workload.ask.count
    assigned = shards.normal(
        assigned_range for share in record.shares for assigned_range in share.ranges
    )
    if shards.size(assigned) >= count:
        return ()
    left = shards.minus(((0, count - 1),), assigned)
    return shards.minus(left, done(state, workload, record))


def emptied(state: HubState, workload: Workload) -> frozenset[str]:
    """Of the clusters where a person gives up the ordinals: those where nothing is left of it."""
    ordinals = workload.ask.ordinals if workload.ask is not None else None
    return frozenset(
        name
        for name in (ordinals.released if ordinals is not None else ())
        if (member := state.holder(name)) is not None and member.lacks(workload.key)
    )


def may_run(
    state: HubState, workload: Workload, record: Record | None, now_s: float
) -> dict[str, Ranges]:
    """Cluster -> shards of an exclusive workload that may run there beside those of its share: what
    the decision in force says of that, without clusters in which nothing is left, and what slices
    there still name. `now_s` is epoch seconds.

    A cluster without a slice may still get one, by a write from before the decision that had no
    answer. So its absence counts only after `LATE_WRITE_S`."""
    if workload.ask is None or not workload.ask.exclusive:
        return {}
    there: dict[str, Ranges] = {}
    if record is not None:
        late = now_s < record.facts.as_of + LATE_WRITE_S
        for name, ranges in record.facts.may_run.items():
            member = state.holder(name)
            if late or member is None or not member.lacks(workload.key):
                there[name] = ranges
    for seen in state.slices_with_uid(workload.key, workload.uid):
        if seen.mark is not None and seen.mark.ranges:
            there[seen.cluster] = shards.union(
                there.get(seen.cluster, ()), shards.normal(seen.mark.ranges)
            )
    return there
