"""Which shards of a job set are done, as far as that matters to who runs what.

The host's status is the durable truth, and what is recorded there frees room and quota
(`HubState.observe_workload`). A member may have told more than the host could be given so far: that
is not done again elsewhere, but it frees nothing before it is recorded. Reads memory; called by
placing.
"""

from federator.hub.cache import cutting
from federator.hub.cache.state import HubState
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model import shards
from federator.model.ask import Unit
from federator.model.shards import Ranges


def done(state: HubState, workload: Workload, record: Record | None) -> Ranges:
    """Shards that nobody has to run any more: recorded on the host, or told by a member that was
    given them."""
    found = workload.progress().done
    if workload.verbs.unit is not Unit.SHARDS:
        return found
    for seen in state.slices_with_uid(workload.key, workload.uid):
        told = cutting.counted(state, workload, record, seen)
        found = shards.union(found, shards.union(told.completed, told.failed))
    return found


def open_shards(state: HubState, workload: Workload) -> Ranges:
    """Shards that no share of the decision in force names, and that nobody has done: what a member
    had told of them was lost with it before it could be recorded."""
    record = state.record_of(workload)
    if record is None or workload.ask is None or workload.verbs.unit is not Unit.SHARDS:
        return ()
    count = workload.ask.count
    assigned = shards.normal(one for share in record.shares for one in share.ranges)
    if shards.size(assigned) >= count:
        return ()
    left = shards.minus(((0, count - 1),), assigned)
    return shards.minus(left, done(state, workload, record))
