"""Compares what exists with what was decided: how far each cluster has its share, and what is next
there. From memory only. Read by dispatching, which does it, and by status aggregation, which
reports it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, TypedDict

from federator.api import membercluster
from federator.hub.cache import cutting, profile_versions
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records import slices
from federator.hub.records.decisions import Record
from federator.hub.records.slices import Comparison, SliceSeen
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kinds.verbs import NO_PROFILE, Profile
from federator.model import shards
from federator.model.ask import Ask, Former, FormerCopies, Unit
from federator.model.decision import Decision, Share
from federator.model.fleet import serves
from federator.model.names import WorkloadKey
from federator.model.observation import SliceObservation
from federator.model.overrides import NOTHING, InCluster, for_cluster
from federator.model.resources import Resources
from federator.scheduling import rollout
from federator.scheduling.rollout import Action, Observed
from federator.status import given as givens

STARTS_S: Final = 600.0
"""Copies of a share that a decision has changed may take so long to start."""


class RolloutView:
    """A view of the hub's memory; it stores nothing."""

    def __init__(
        self,
        state: HubState,
        unbound: Callable[[WorkloadKey], Collection[str]] = lambda _: (),
    ) -> None:
        self.state = state
        self._unbound = unbound
        """Clusters that could not bind copies of a workload, which no other cluster could take."""

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
            self._with_moves(observed, workload, record),
            # What is asked for now has not been decided: a part of a larger count may be all that
            # there is.
            max_unavailable=workload.max_unavailable
            if self.state.is_current(workload, record)
            else 0,
            max_clusters_at_once=record.terms.max_clusters_at_once,
            missing=record.facts.missing,
            by_number=workload.by_number,
        )
        return {action.cluster: action for action in actions}

    def _with_moves(
        self, observed: Mapping[str, Observed], workload: Workload, record: Record
    ) -> Mapping[str, Observed]:
        """The same with what takes part in the moves that are under way."""
        if workload.verbs.unit is not Unit.REPLICAS:
            return observed
        counts = {share.cluster: share.count for share in record.shares}
        leaving = {
            had.cluster: had.seq
            for had in record.facts.given
            if (now := observed.get(had.cluster)) is not None
            and (not now.readable or now.count > counts.get(had.cluster, 0))
        }
        since, unbound = min(leaving.values(), default=record.seq), self._unbound(workload.key)
        grown = {
            share.cluster
            for share in record.shares
            if share.seq > since and share.cluster not in leaving
        }
        return {
            name: replace(
                now,
                receives=name in grown or now.count < counts.get(name, 0),
                unbound=name in unbound and self._waits_for_nodes(name, workload.key, now),
            )
            for name, now in observed.items()
        }

    def _waits_for_nodes(self, cluster: str, key: WorkloadKey, now: Observed) -> bool:
        """Whether all copies that are not ready there wait for a node."""
        seen = self.state.slices_of(key).get(cluster)
        waiting = seen.observation.unschedulable if seen is not None else 0
        return now.reported and waiting >= now.count - now.ready

    def _observed(self, cluster: str, workload: Workload, record: Record) -> Observed:
        member = self.state.holder(cluster)
        if member is None or not member.heard:
            return Observed(
                cluster, readable=False, exists=cluster in self.state.slices_of(workload.key)
            )
        seen = member.contents.slice_of(workload.key)
        if seen is None:
            return Observed(cluster, readable=member.knows(workload.key.kind))
        observed, share = seen.observation, record.share_of(cluster)
        given = cutting.allowed(workload, record, seen)
        counted = givens.cut(observed, given)[0]
        comparison = self.compared(member, workload, share, seen)
        kind = workload.key.kind
        speaks = member.follows(kind) and member.speaks_of(kind)
        # A figure from before a silence, or of an earlier generation of a slice that leaves, may be
        # too low by now: all that the slice asks for may be ready.
        stays = share is not None and share.count > 0
        recent = speaks and (stays or observed.observed_generation >= observed.generation)
        ready = observed.ready if recent else observed.desired
        return Observed(
            cluster,
            readable=True,
            reported=speaks,
            silence=_silence(member, kind) if not speaks else "",
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
        overrides = self.overrides(member, workload, seen).digest
        verified = member.writes.verified.of(seen)
        if verified is not None:
            wanted = (workload.content, profile, overrides)
            compared = (verified.content, verified.profile, verified.overrides)
            content = bool(verified.content) and compared == wanted
            return Comparison(
                True, content, content and share is not None and verified.share == share
            )
        if not overrides and slices.proves_itself(seen, workload):
            mark = seen.mark
            content = mark is not None and (mark.rules.profile, mark.rules.overrides) == (
                profile,
                overrides,
            )
            fleet = self.state.options.fleet
            current = (
                content
                and share is not None
                and slices.carries(seen, workload, share, fleet, profile)
            )
            return Comparison(True, content, current)
        if seen.mark is not None and seen.mark.rules.overrides != overrides:
            return Comparison(compared=True)  # it was made with others
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

    def overrides(
        self, member: Member, workload: Workload, seen: SliceSeen | None = None
    ) -> InCluster:
        """What policies change of the workload in this cluster. While its policy cannot be read,
        its slice keeps the overrides that it has. `seen`: that slice, where the caller has it."""
        state = self.state
        seen = seen if seen is not None else member.contents.slice_of(workload.key)
        mark = seen.mark if seen is not None and self.is_this(seen, workload) else None
        present = mark.rules.overrides if mark is not None else ""
        if not (present or state.rules.overriding):
            return NOTHING
        policy = state.policies_in_force.of(workload, state.rules, state.bindings())
        if policy.problem and present:
            return InCluster(problem=f"{policy.problem}; the slice stays as it is", digest=present)
        labels = membercluster.labels(member.obj)
        return for_cluster(policy.all_overrides, member.name, labels)

    def pins(self, member: Member, workload: Workload) -> tuple[str, ...]:
        """What a slice in this cluster pins: its RuntimeProfile, and the overrides."""
        return (*self.profile_of(workload), self.overrides(member, workload).digest)

    def profile_of(self, workload: Workload) -> Profile:
        """Name and hash of the RuntimeProfile of this workload's pods; empty for none."""
        return profile_versions.in_force(self.state, workload) or NO_PROFILE

    def is_this(self, seen: SliceSeen, workload: Workload) -> bool:
        """Whether it is a slice of exactly this workload, written by this federation."""
        return seen.serves(self.state.options.fleet, workload.uid)


def _silence(member: Member, kind: str) -> str:
    """Why what it reports of slices of this kind may be out of date, as a clause."""
    if not member.answers:
        return "its API server does not answer"
    if not serves(member.link.apis, kind):
        return f"its discovery does not list {registry.KINDS[kind].plural}"
    if not member.follows(kind):
        return f"its watch of {registry.KINDS[kind].plural} has not recovered yet"
    return member.process.why()


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


class StillGiven(TypedDict):
    """What clusters had before a decision and have no longer, while their reports may still count
    it, and how many copies were not ready when they lost it."""

    given: tuple[Share, ...]
    missing: int


def still_given(state: HubState, record: Record | None, decision: Decision) -> StillGiven:
    """What a decision records of those before: of shards as long as the workload exists, of
    replicas until the slice is as small as its share."""
    if record is None:
        return StillGiven(given=(), missing=0)
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
    given = givens.former(
        earlier, record.shares, decision.shares, gone, by_index=sharded, seq=record.seq
    )
    if not given or sharded:
        return StillGiven(given=given, missing=0)
    under_way = any(had.cluster in earlier for had in given)
    if under_way or record.facts.as_of > decision.as_of - STARTS_S:
        # what is not ready may be about to be
        return StillGiven(given=given, missing=record.facts.missing)
    lacking = sum(_lacking(state, record, share) for share in record.shares)
    return StillGiven(given=given, missing=lacking)


def _lacking(state: HubState, record: Record, share: Share) -> int:
    """Copies of a share that are not ready; 0 where nobody knows."""
    member, workload = state.holder(share.cluster), state.workloads.get(record.key)
    seen = member.contents.slice_of(record.key) if member is not None else None
    if member is None or workload is None or seen is None:
        return 0
    ready = cutting.counted(state, workload, record, seen).ready
    return max(share.count - ready, 0) if member.speaks_of(record.key.kind) else 0


def _is_as_small(member: Member, key: WorkloadKey, count: int) -> bool:
    seen = member.contents.slice_of(key)
    return member.lacks(key) if seen is None else seen.observation.desired <= count


def vacated(state: HubState, record: Record) -> tuple[str, ...]:
    """Clusters that the decision still lists as leaving although they are empty or were released.
    They stay in the fleet until no decision names them."""
    empty = tuple(
        cluster
        for cluster in sorted(record.terms.leaving)
        if (member := state.holder(cluster)) is not None and member.lacks(record.key)
    )
    return (*empty, *abandoned(state, record))


def abandoned(state: HubState, record: Record) -> tuple[str, ...]:
    """Clusters that the decision names but that were abandoned."""
    members = state.members
    return tuple(
        name for name in sorted(record.clusters) if name in members and members[name].abandoned
    )


def wholly_replaced(
    state: HubState, ask: Ask | None, workload: Workload, record: Record | None
) -> bool:
    """Whether no copy may run that requests more than is asked for now: the decision charges no
    more, or each cluster that has, or should have, a part of the workload reports that all copies
    there are of its present generation. A cluster that is not heard does not. Shards keep the
    account in which they began: for them, whether those of former accounts have ended."""
    if record is None or ask is None or not charges_more(ask, record):
        return True
    if ask.unit is Unit.SHARDS:
        return all(
            _ended_in(state, workload, record, held)
            for former in _former(record)
            for held in former.held
        )
    view = RolloutView(state)
    return all(
        _replaced_in(state, view, workload, record, cluster)
        for cluster in view.clusters(workload.key)
    )


def frees(state: HubState, ask: Ask | None, workload: Workload, record: Record | None) -> bool:
    """Whether the decision in force charges more than is in force, or another account, although
    nothing runs any more as it was before. Shards that have begun keep their template: what each
    requests has a rule of its own."""
    if record is None or ask is None:
        return False
    if record.terms.held_back:
        return served_requests(state, workload, record) is not None
    if not charges_more(ask, record):
        return False
    if not _former(record) and (ask.unit is Unit.SHARDS or not record.shares):
        return False
    return wholly_replaced(state, ask, workload, record)


def may_free(ask: Ask | None, record: Record | None) -> bool:
    """Whether `frees` has to be asked: it looks at every slice."""
    return charges_more(ask, record) or (record is not None and record.terms.held_back > 0)


def served_requests(state: HubState, workload: Workload, record: Record | None) -> Resources | None:
    """What each copy requests as it was admitted, while a later edit is held back: if the decision
    charges more, and no copy may run any more that requests as much. None otherwise."""
    charged = record.terms.charged if record is not None else None
    if record is None or charged is None or not record.terms.held_back:
        return None
    serving = state.serving(workload, record)
    requests = profile_versions.requests_served(state, serving)
    if requests is None or charged.shape.requests.within(requests):
        return None
    if workload.ask is None or workload.ask.unit is Unit.SHARDS:
        return None  # shards that have begun keep their template
    view = RolloutView(state)
    clusters = view.clusters(workload.key)
    replaced = all(_replaced_in(state, view, serving, record, cluster) for cluster in clusters)
    return requests if replaced else None


def charges_more(ask: Ask | None, record: Record | None) -> bool:
    """Whether the decision charges each copy more than is asked for, or a former account."""
    charged = record.terms.charged if record is not None else None
    if ask is None or charged is None:
        return False
    return bool(charged.former) or not charged.shape.requests.within(ask.shape.requests)


def _former(record: Record) -> tuple[Former, ...]:
    return record.terms.charged.former if record.terms.charged is not None else ()


def _ended_in(state: HubState, workload: Workload, record: Record, held: FormerCopies) -> bool:
    """Whether no shard runs in the cluster any more of those that began in a former account."""
    left = shards.minus(shards.normal(held.ranges), workload.progress().done)
    member = state.members.get(held.cluster)
    if not left or (member is not None and member.lacks(workload.key)):
        return True
    share, had = record.share_of(held.cluster), record.had(held.cluster)
    if member is None:
        return share is None
    there = [record.facts.may_run.get(held.cluster, ())]
    there += [part.ranges for part in (share, had) if part is not None]
    return not any(shards.intersect(left, shards.normal(ranges)) for ranges in there)


def _replaced_in(
    state: HubState, view: RolloutView, workload: Workload, record: Record, cluster: str
) -> bool:
    member = state.members.get(cluster)
    if member is None:
        return record.share_of(cluster) is None
    seen = member.contents.slice_of(workload.key)
    if seen is None:
        return member.lacks(workload.key)
    if not view.is_this(seen, workload):
        return True
    observed = cutting.counted(state, workload, record, seen)
    return (
        member.speaks_of(workload.key.kind)
        and observed.observed_generation >= observed.generation
        and observed.updated >= observed.actual
        and not observed.terminating
        and view.compared(member, workload, None, seen).content
    )
