"""Which shards of a job set are done, for deciding which cluster runs what.

The host's status is the durable record; what it records as done frees room and quota
(`HubState.observe_workload`). A member may have reported more than the host has recorded. Those
shards are not run again elsewhere, but free nothing yet. Reads memory; called by placing.
"""

from federator.hub.cache import cutting
from federator.hub.cache.state import HubState
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model import shards
from federator.model.ask import Unit
from federator.model.shards import Ranges


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
    """Of the clusters whose ordinals a person gives up: those where nothing is left of it."""
    ordinals = workload.ask.ordinals if workload.ask is not None else None
    return frozenset(
        name
        for name in (ordinals.released if ordinals is not None else ())
        if (member := state.holder(name)) is not None and member.lacks(workload.key)
    )
