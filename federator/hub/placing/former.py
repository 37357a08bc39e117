"""What clusters had by earlier decisions, as far as the next one has to name it."""

from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.decisions import Record
from federator.model.ask import Unit
from federator.model.decision import Decision, Share
from federator.model.names import WorkloadKey
from federator.status import given as givens


def leaving(state: HubState, record: Record | None, decision: Decision) -> tuple[str, ...]:
    """Clusters without a share that may still hold something. Clusters that left the fleet
    count too: their slices must be known when they join again."""
    if record is None:
        return ()
    staying = {share.cluster for share in decision.shares}
    return tuple(
        cluster
        for cluster in sorted(record.clusters - staying)
        if (member := state.members.get(cluster)) is None
        or not (member.abandoned or member.lacks(decision.key))
    )


def given(state: HubState, record: Record | None, decision: Decision) -> tuple[Share, ...]:
    """What clusters had before this decision and have no longer, while their reports may still
    count it: shards as long as the workload exists, replicas until the slice is as small as its
    share."""
    if record is None:
        return ()
    now = {share.cluster: share.count for share in decision.shares}
    earlier = {share.cluster: share for share in record.facts.given}
    sharded = record.terms.unit is Unit.SHARDS
    gone = {
        name
        for name in {*record.clusters, *earlier}
        if (member := state.members.get(name)) is not None
        and (
            member.abandoned or (not sharded and _is_as_small(member, record.key, now.get(name, 0)))
        )
    }
    return givens.former(earlier, record.shares, decision.shares, gone, by_index=sharded)


def _is_as_small(member: Member, key: WorkloadKey, count: int) -> bool:
    seen = member.slice_of(key)
    return member.lacks(key) if seen is None else seen.observation.desired <= count
