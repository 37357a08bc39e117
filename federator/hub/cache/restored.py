"""What members know better than the host: slices with a seq above the host's decisions, and unknown
slices.

Both appear after a host was restored from an older backup (F51). The first are taken as
what the lost decisions said, so that nothing moves without need. The second are only reported,
unless `orphans` has proof that they were deleted. A seq read in a member raises that member's seqs
only (`mark`), never the host's. Reads memory; called by placing and reporting.
"""

from collections.abc import Iterator

from msgspec import structs

from federator.hub.cache.state import NUMBERS, HubState
from federator.hub.members.member import Member
from federator.hub.records import slices
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Decision, Share
from federator.model.names import WorkloadKey
from federator.status.given import SEQ_NOT_ISSUED, Contradiction

STALE = "StaleSlice"
"""Reason of a member process for refusing a slice with a lower seq than one it has obeyed."""


def overtaken(record: Record | None, seen: SliceSeen) -> bool:
    """Whether this slice was written for a later decision than the host has. A decision is always
    written before its slices, so the host has lost some. A slice that says the same as its share
    tells nothing about lost decisions."""
    if seen.mark is None:
        return False
    if record is None:
        return True
    share, decided_seq = record.share_of(seen.cluster), record.mark(seen.cluster)
    if is_stale(seen) and seen.mark.seq >= decided_seq:
        return True
    return seen.mark.seq > decided_seq and not (share is not None and slices.gives(seen, share))


def _believed(state: HubState, record: Record | None, seen: SliceSeen) -> bool:
    """Whether the slice may count as one of a later decision: not if its member has shown too many
    lately."""
    member = state.members.get(seen.cluster)
    if member is None or seen.key in member.seqs.disbelieved:
        return False
    return seen.key in member.seqs.to_number or overtaken(record, seen)


def is_stale(seen: SliceSeen) -> bool:
    """Whether the member process refuses this slice because it has seen a later one of the same
    workload, which is gone: only a new seq helps. Its report must be about the present slice."""
    observed = seen.observation
    return observed.reason == STALE and observed.observed_generation >= observed.generation


def mark(state: HubState, record: Record | None, cluster: str) -> int:
    """The highest seq in a cluster: a changed share there gets a higher one."""
    member = state.members.get(cluster)
    decided_seq = record.mark(cluster) if record is not None else 0
    return max(decided_seq, member.seqs.highest if member is not None else 0)


def refusing(state: HubState, workload: Workload) -> frozenset[str]:
    """Clusters that refuse their present slice of the workload (`is_stale`)."""
    return frozenset(
        seen.cluster for seen in state.slices_with_uid(workload.key, workload.uid) if is_stale(seen)
    )


def marks(state: HubState, workload: Workload, record: Record | None) -> dict[str, int]:
    """Member -> the highest seq of the workload's slices that are or were there."""
    marks: dict[str, int] = {}
    if record is not None:
        marks = {**record.facts.marks, **{share.cluster: share.seq for share in record.shares}}
    for seen in state.slices_with_uid(workload.key, workload.uid):
        marks[seen.cluster] = max(marks.get(seen.cluster, 0), _seq(seen))
    return {cluster: number for cluster, number in marks.items() if cluster in state.members}


def numbered(state: HubState, decision: Decision) -> None:
    """Raises the known highest seq of each member to what a decision gives it."""
    for share in decision.shares:
        if share.cluster in state.members:
            state.members[share.cluster].seqs.observe(share.seq)


def count_overtaken(state: HubState, workload: Workload, now_s: float) -> None:
    """The workload is decided by its members' slices of later decisions. Counts that: a host is
    restored once, so a member with something new each time is not believed for a while."""
    for seen in state.slices_of(workload.key).values():
        if is_later(state, workload, seen):
            member = state.members[seen.cluster]
            if member.seqs.observe_later(seen.key, now_s):
                message = (
                    f"It shows another decision on {seen.key} each time it is answered, up to seq"
                    f" {_seq(seen)}."
                )
                contradiction = Contradiction(SEQ_NOT_ISSUED, message)
                state.hold_against(member, (NUMBERS, seen.key), contradiction, now_s)


def forget(state: HubState, member: Member, key: WorkloadKey, now_s: float) -> None:
    """The slice is gone from that member, and what it claimed with it."""
    if member.seqs.forget(key):
        state.hold_against(member, (NUMBERS, key), None, now_s)


def believe_again(state: HubState, key: WorkloadKey, now_s: float) -> float:
    """Ends the disbelief that is over. Returns seconds until the next one ends, 0.0 for none."""
    waits = 0.0
    for cluster in state.holders.get(key, ()):
        member = state.members.get(cluster)
        if member is None or key not in member.seqs.disbelieved:
            continue
        if until_s := member.seqs.later.paused_until_s(key, "", now_s):
            waits = min(waits or until_s - now_s, until_s - now_s)
        else:
            member.seqs.believe(key)
            state.hold_against(member, (NUMBERS, key), None, now_s)
    return waits


def is_later(state: HubState, workload: Workload, seen: SliceSeen) -> bool:
    """Whether this slice is of a decision on this workload that the host does not have."""
    ours = (
        seen.ours(state.options.fleet)
        and seen.mark is not None
        and seen.mark.workload_uid == workload.uid
    )
    return ours and _believed(state, state.record_of(workload), seen)


def behind(state: HubState, workload: Workload) -> bool:
    """Whether any member holds a slice of a later decision on this workload than the host has."""
    return any(is_later(state, workload, seen) for seen in state.slices_of(workload.key).values())


def shares(state: HubState, workload: Workload, record: Record | None) -> tuple[Share, ...]:
    """What the workload has: by its decision, and by the slices where members hold later ones.

    A member is untrusted: its claim never takes anything from others, because their decided shares
    count first.
    """
    decided = {share.cluster: share for share in record.shares} if record is not None else {}
    seen = {
        slice_seen.cluster: slice_seen
        for slice_seen in state.slices_with_uid(workload.key, workload.uid)
        if not slice_seen.deleting
    }
    later = {
        cluster for cluster, slice_seen in seen.items() if _believed(state, record, slice_seen)
    }
    if not later:
        return tuple(decided.values())
    lost = any(_is_lost(record, seen[cluster]) for cluster in later)
    have: list[Share] = []
    for cluster, share in sorted(decided.items()):
        # What is heard to be gone was moved by a decision that the host has lost. Where a foreign
        # object of that name stands it was never there.
        gone = lost and cluster not in seen and _heard_empty(state, workload.key, cluster)
        if cluster not in later and not gone:
            have.append(share)
    wanted = max(
        record.terms.wanted if record is not None else 0, workload.ask.count if workload.ask else 0
    )
    claims = {cluster: _share_of(seen[cluster], decided.get(cluster)) for cluster in sorted(later)}
    # What the host has decided, too, is theirs before any of them is given more.
    due = {
        cluster: min(claims[cluster].count, decided[cluster].count)
        for cluster in later & decided.keys()
    }
    for cluster, claim in claims.items():
        due.pop(cluster, None)
        claimed = _within(claim, have, wanted, sum(due.values()))
        if claimed.count > 0:
            have.append(claimed)
    return tuple(sorted(have, key=lambda share: share.cluster))


def _is_lost(record: Record | None, seen: SliceSeen) -> bool:
    """Whether this slice was written for a decision that the host has lost. A seq that the record
    has for its cluster was answered by that decision: nothing is lost, whichever hub raised it."""
    return record is None or _seq(seen) > max(record.seq, record.mark(seen.cluster))


def _within(claimed: Share, have: list[Share], wanted: int, due: int) -> Share:
    """The part of a claim that is free. `due`: replicas that belong to others before the claim;
    shards have numbers, and another's cannot be claimed.

    Of 10 replicas with 7 due to others, a claim of 5 counts as 3.
    """
    if claimed.ranges:
        taken = shards.normal([share_range for share in have for share_range in share.ranges])
        universe = ((0, wanted - 1),) if wanted > 0 else ()
        mine = shards.minus(shards.intersect(shards.normal(claimed.ranges), universe), taken)
        kept = claimed.ranges if shards.normal(claimed.ranges) == mine else mine
        count = shards.size(kept)
        # Ordinals all run at once, and shards as many as there are slots.
        slots = count if claimed.slots == claimed.count else claimed.slots
        return structs.replace(claimed, ranges=kept, count=count, slots=slots)
    left = max(wanted - due - sum(share.count for share in have), 0)
    return structs.replace(claimed, count=min(claimed.count, left), slots=min(claimed.slots, left))


def strangers(state: HubState, member: Member) -> Iterator[WorkloadKey]:
    """Slices of this federation in one member that no workload and no decision of the host accounts
    for."""
    return (key for key in member.contents.slice_keys() if is_stranger(state, member, key))


def is_stranger(state: HubState, member: Member, key: WorkloadKey) -> bool:
    """Whether this slice is one of them."""
    seen = member.contents.slice_of(key)
    if seen is None or seen.mark is None or seen.deleting or not seen.ours(member.fleet):
        return False
    uid = seen.mark.workload_uid
    workload = state.workloads.get(key)
    if workload is not None and workload.uid == uid:
        return False
    return not any(record.workload_uid == uid for record in state.records_of(key))


def _seq(seen: SliceSeen) -> int:
    return seen.mark.seq if seen.mark is not None else 0


def _heard_empty(state: HubState, key: WorkloadKey, cluster: str) -> bool:
    member = state.members.get(cluster)
    return member is not None and member.knows(key.kind) and member.contents.slice_of(key) is None


def _share_of(seen: SliceSeen, decided: Share | None) -> Share:
    ranges = seen.mark.ranges if seen.mark is not None else ()
    if registry.verbs_of(seen.key.kind).unit is Unit.REPLICAS:
        count = shards.size(ranges) if ranges else seen.observation.desired
        return Share(seen.cluster, count, count, _seq(seen), ranges)
    slots = decided.slots if decided is not None else max(seen.observation.active, 1)
    pods = seen.mark.pods if seen.mark is not None else ()
    return Share(seen.cluster, shards.size(ranges), slots, _seq(seen), ranges, pods=pods)
