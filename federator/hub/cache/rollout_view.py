"""Compares what exists with what was decided: how far each cluster has its share, and what is next
there. From memory only. Read by dispatching, which does it, and by status aggregation, which
reports it."""

from collections.abc import Mapping

from federator.hub.cache import cutting
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records import slices
from federator.hub.records.decisions import Record
from federator.hub.records.slices import Comparison, SliceSeen
from federator.hub.records.workloads import Workload
from federator.kinds.verbs import Profile
from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Decision, Share
from federator.model.names import WorkloadKey
from federator.model.observation import SliceObservation
from federator.scheduling import rollout
from federator.scheduling.rollout import Action, Observed
from federator.status import given as givens


class RolloutView:
    """A view of the hub's memory; it stores nothing."""

    def __init__(self, state: HubState) -> None:
        self.state = state

    def clusters(self, key: WorkloadKey) -> list[str]:
        """Every cluster that has, or should have, a part of the workload."""
        workload = self.state.workloads.get(key)
        clusters = set(self.state.slices_of(key))
        if workload is not None and (record := self.state.record_of(workload)) is not None:
            clusters |= record.clusters
        return sorted(clusters)

    def plan(self, workload: Workload, record: Record) -> Mapping[str, Action]:
        """The next action in every cluster of this workload, from memory only. `record` may have
        been replaced while its turn waited for a response: its clusters count beside those of the
        decision in force."""
        workload = self.state.serving(workload, record)
        clusters = {*self.clusters(workload.key), *record.clusters}
        observed = {
            cluster: self._observed(cluster, workload, record) for cluster in sorted(clusters)
        }
        actions = rollout.plan(
            workload.ask.unit if workload.ask is not None else Unit.REPLICAS,
            record.shares,
            observed,
            # What is asked for now has not been decided: a part of a larger count may be all that
            # there is.
            max_unavailable=workload.max_unavailable
            if self.state.is_current(workload, record)
            else 0,
            max_clusters_at_once=record.terms.max_clusters_at_once,
        )
        return {action.cluster: action for action in actions}

    def _observed(self, cluster: str, workload: Workload, record: Record) -> Observed:
        member = self.state.holder(cluster)
        if member is None or not member.heard:
            return Observed(
                cluster, readable=False, exists=cluster in self.state.slices_of(workload.key)
            )
        seen = member.slice_of(workload.key)
        if seen is None:
            return Observed(cluster, readable=member.knows(workload.key.kind))
        observed, share = seen.observation, record.share_of(cluster)
        given = cutting.allowed(workload, record, seen)
        counted = givens.cut(observed, given)[0]
        comparison = self.compared(member, workload, share, seen)
        follows = member.follows(workload.key.kind)
        speaks = follows and member.speaks_of(workload.key.kind)
        # What was ready before a silence may be more by now: all that the slice asks for.
        ready = observed.ready if follows else observed.desired
        return Observed(
            cluster,
            readable=True,
            reported=speaks,
            exists=True,
            ours=seen.ours(self.state.options.fleet),
            same_workload=self.is_this(seen, workload),
            going=seen.deleting,
            current=comparison.current,
            template_current=comparison.content or not comparison.compared,
            count=observed.desired,
            # A cluster that left and joined again was given nothing by this decision, and still
            # runs copies that a deletion would lose.
            ready=min(ready, observed.desired, given.ever or record.terms.wanted),
            counts=_counts(observed, min(counted.ready, observed.desired), share),
            healthy=speaks and comparison.content and seen.rolled_out,
            safe=self._safe(workload, counted),
        )

    def _safe(self, workload: Workload, observed: SliceObservation) -> bool:
        """Whether the host's status records everything that a cluster completed; the host's copy is
        the durable record."""
        recorded = workload.progress()
        return not shards.minus(observed.completed, recorded.completed) and not shards.minus(
            observed.failed, shards.union(recorded.failed, recorded.completed)
        )

    def carries(self, member: Member, workload: Workload, share: Share, seen: SliceSeen) -> bool:
        """Whether this slice is the workload's and exactly what the share says, by the member's
        present state."""
        heard = member.heard and not seen.deleting and self.is_this(seen, workload)
        return heard and self.compared(member, workload, share, seen).current

    def compared_now(self, member: Member, workload: Workload, seen: SliceSeen) -> Comparison:
        """A slice compared with what the decision in force gives its cluster."""
        record = self.state.record_of(workload)
        share = record.share_of(member.name) if record is not None else None
        return self.compared(member, self.state.serving(workload, record), share, seen)

    def is_as_decided(
        self, member: Member, workload: Workload | None, seen: SliceSeen | None
    ) -> bool:
        """Whether nothing has to be done about a slice: it exists, stays, and is as it should
        be."""
        if workload is None or seen is None or seen.deleting:
            return False
        return self.compared_now(member, workload, seen).current

    def compared(
        self, member: Member, workload: Workload, share: Share | None, seen: SliceSeen
    ) -> Comparison:
        """A slice of this workload compared with what it should be, from memory only."""
        profile = self.profile_of(workload)
        verified = member.verified.of(seen)
        if verified is not None:
            content = bool(verified.content) and (verified.content, verified.profile) == (
                workload.content,
                profile,
            )
            return Comparison(
                True, content, content and share is not None and verified.share == share
            )
        if slices.proves_itself(seen, workload):
            mark = seen.mark
            content = mark is not None and mark.rules.profile == profile
            fleet = self.state.options.fleet
            current = (
                content
                and share is not None
                and slices.carries(seen, workload, share, fleet, profile)
            )
            return Comparison(True, content, current)
        # It was rendered from the former content: it need not be read to know that.
        return Comparison(compared=seen.plain and seen.live == self.state.former.get(workload.key))

    def was_given(self, workload: Workload, seen: SliceSeen) -> bool:
        """Whether a slice has what its workload says, or said before its last edit: by what this
        hub saw, or by what a sealed decision charged."""
        record = self.state.record_of(workload)
        charged = record.terms.charged if record is not None else None
        contents = (
            workload.content,
            self.state.former.get(workload.key),
            charged.content if charged is not None else b"",
        )
        return seen.plain and seen.live in filter(None, contents)

    def profile_of(self, workload: Workload) -> Profile:
        """Name and hash of the RuntimeProfile of this workload's pods; empty for none."""
        profile = self.state.profiles.get(workload.profile) if workload.profile else None
        return (workload.profile, profile["hash"]) if profile is not None else ("", "")

    def is_this(self, seen: SliceSeen, workload: Workload) -> bool:
        """Whether it is a slice of exactly this workload, written by this federation."""
        return seen.serves(self.state.options.fleet, workload.uid)


def _counts(observed: SliceObservation, ready: int, share: Share | None) -> int:
    """Of the ready copies of a slice, those that may justify a shrink elsewhere. Copies that no
    autoscaler asks for serve nobody: beyond the share they do not count.

        slice of 60 of which 6 are asked for and ready; share 40 -> 40; no share -> 6
    """
    if observed.idle <= 0:
        return ready
    missing = max(observed.desired - observed.ready, 0)
    return min(ready, max(ready - observed.idle, (share.count if share else 0) - missing))


def still_leaving(state: HubState, record: Record | None, decision: Decision) -> tuple[str, ...]:
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


def still_given(state: HubState, record: Record | None, decision: Decision) -> tuple[Share, ...]:
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
