"""Charges quota accounts for pods that run or terminate beyond what decisions give.

Members report them in the statuses of slices. Between a decision that takes copies from a cluster
and the report of a slice that has as few, the report of the former slice says what runs. Nothing is
stored: a new hub derives the same charge from the same slices.

A cluster that is silent keeps the charge by its last report, because its pods may run on. A cluster
that has left the fleet, is being removed as lost, or was declared dead has none. Of a member no
more is charged than its nodes can hold.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.model.ask import Former, FormerCopies, PodShape, Unit
from federator.model.fleet import Commitment, copies_of
from federator.model.names import WorkloadKey
from federator.model.resources import ZERO, Resources


@dataclass(slots=True)
class Endings:
    """Keeps `Commitments.terminating` up to date. Reads slices; called for each that changes."""

    state: HubState
    _counted: dict[str, bool] = field(default_factory=dict)
    """Cluster -> whether pods there were charged at the last look; they are, by default."""

    def __post_init__(self) -> None:
        self.state.commitments.reported_beyond = self.beyond

    def heard(self, member: Member, key: WorkloadKey, seen: SliceSeen | None) -> None:
        """A slice has changed. Nearly always it has no pods beyond its share: that ends here."""
        if seen is None:
            self._recount(record.workload_uid for record in self.state.records_of(key))
            return
        if seen.mark is None:
            return
        commitments, uid = self.state.commitments, seen.mark.workload_uid
        if uid not in commitments.terminating:
            commitment = commitments.commitment(uid)
            if commitment is None or not _exceeds(seen, _given(commitment, member.name)):
                return
        self._recount((uid,))

    def reached(self, member: Member) -> None:
        """Whether pods of this cluster are charged may have changed."""
        counted = self._counts(member)
        # Mostly nothing has changed: then only the workloads with pods there are counted, and not
        # all with a slice there.
        if self._counted.get(member.name, True) == counted:
            self._recount(self._charged_in(member.name))
            return
        self._counted[member.name] = counted
        keys = member.contents.slice_keys()
        records = (record for key in keys for record in self.state.records_of(key))
        self._recount([*self._charged_in(member.name), *(each.workload_uid for each in records)])

    def left(self, member: Member) -> None:
        """The cluster has left the fleet."""
        self._counted.pop(member.name, None)
        self._recount(self._charged_in(member.name))

    def beyond(self, commitment: Commitment) -> tuple[Former, ...]:
        """What is charged for pods beyond a commitment: copies that run, and pods that
        terminate."""
        clusters = self._clusters(commitment)
        if not clusters:
            return ()
        running, terminating = [], []
        for cluster, seen, had in clusters:
            given = _given(commitment, cluster)
            runs, pods = (had, 0) if seen is None else _report(seen)
            # What the commitment charges already must not be charged twice.
            copies = max(runs - given, 0)
            if not (copies or pods):
                continue
            running.append(FormerCopies(cluster, self._most(cluster, copies, commitment.shape)))
            terminating.append(FormerCopies(cluster, self._most(cluster, pods, commitment.shape)))
        return _charges(commitment, running, terminating)

    def _clusters(self, commitment: Commitment) -> list[tuple[str, SliceSeen | None, int]]:
        """Clusters that may have pods of the workload: with its slice there, or without one that is
        known, how many copies it was given, if these are more than it is charged for."""
        state, clusters = self.state, list[tuple[str, SliceSeen | None, int]]()
        known = set()
        for seen in state.slices_with_uid(commitment.key, commitment.uid):
            known.add(seen.cluster)
            if self._counts(state.members[seen.cluster]):
                clusters.append((seen.cluster, seen, 0))
        for record in state.records_of(commitment.key):
            # Of shards the decision itself says which may still run where.
            if record.workload_uid == commitment.uid and record.terms.unit is not Unit.SHARDS:
                clusters += (
                    (cluster, None, copies)
                    for cluster, copies in _had(record).items()
                    if cluster not in known
                    and copies > _given(commitment, cluster)
                    and self._is_unheard(cluster)
                )
        return clusters

    def _is_unheard(self, cluster: str) -> bool:
        """Whether it may have a slice that this process has not read."""
        member = self.state.members.get(cluster)
        return member is not None and self._counts(member) and not member.heard

    def _counts(self, member: Member) -> bool:
        """Whether pods there are charged."""
        return not (member.abandoned or member.duplicate_of or member.dead)

    def _most(self, cluster: str, copies: int, shape: PodShape) -> int:
        """At most as many as the nodes of the cluster can hold, whatever it reports."""
        report = self.state.members[cluster].contents.report
        if not copies or report is None:
            return copies
        # A compromised member must not use up an account of the fleet with copies that it cannot
        # hold.
        offered, each = report.capacity.allocatable, _of_one_pod(shape)
        return min([copies, *(offered[name] // each[name] for name in each if each[name] > 0)])

    def _charged_in(self, cluster: str) -> list[str]:
        """uids of workloads that are charged for pods in a cluster."""
        return [
            uid
            for uid, charged in self.state.commitments.terminating.items()
            if any(held.cluster == cluster for part in charged for held in part.held)
        ]

    def _recount(self, uids: Iterable[str]) -> None:
        commitments, less, more = self.state.commitments, False, False
        for uid in uids:
            before = commitments.terminating.get(uid, ())
            if commitments.recount(uid):
                now = commitments.terminating.get(uid, ())
                grown = not _amounts(now).within(_amounts(before))
                less, more = less or not grown, more or grown
        if less:
            self.state.signals.freed()
        # Nobody can be helped by less room, but figures of accounts have changed.
        elif more:
            self.state.signals.booked()


def _exceeds(seen: SliceSeen, given: int) -> bool:
    return seen.observation.terminating > 0 or _runs(seen) > given


def _report(seen: SliceSeen) -> tuple[int, int]:
    """Copies that may run there, and terminating pods in addition. Of a slice that is being deleted
    its pods terminate, whether its status still follows them or not."""
    runs, pods = _runs(seen), seen.observation.terminating
    if not seen.deleting:
        return runs, pods
    return runs, max(pods - max(runs - _counted(seen), 0), 0)


def _given(commitment: Commitment, cluster: str) -> int:
    """Copies that the commitment charges in a cluster."""
    for holding in commitment.holdings:
        if holding.cluster == cluster:
            return copies_of(holding)
    return 0


def _had(record: Record) -> dict[str, int]:
    """Cluster -> copies that it was given by the decision in force, or by those before it."""
    had = {share.cluster: copies_of(share) for share in record.facts.portions}
    for given in record.facts.given:
        # The larger: it is not known which of the decisions arrived there.
        had[given.cluster] = max(had.get(given.cluster, 0), given.count)
    return had


def _runs(seen: SliceSeen) -> int:
    """Copies that may run there by the last report, without the surge of a rollout and without
    terminating pods: all that the slice asks for, and those that it does not ask for any more."""
    observed = seen.observation
    if observed.nodes is not None:
        return observed.nodes.current
    running = _counted(seen)
    # During a rollout surge copies come and go: to charge them would refuse others for a moment's
    # sake.
    if observed.updated < observed.actual:
        running = max(running - observed.surge, 0)
    # Copies that the slice asks for will run, whether the controller there has made them or not.
    return max(running, seen.due)


def _counted(seen: SliceSeen) -> int:
    """Copies that its status counts. Those that an autoscaler asks for above what the service is
    charged for, as its `chargePercent` allows, count for nothing."""
    return max(seen.observation.actual - max(seen.observation.idle, 0), 0)


def _charges(
    commitment: Commitment, running: list[FormerCopies], terminating: list[FormerCopies]
) -> tuple[Former, ...]:
    """The same for its account. Pods of a gang terminate one by one."""
    shape, parts = commitment.shape, []
    if shape.parts:
        parts = [(shape.requests, running), (_of_one_pod(shape), terminating)]
    else:
        both = [
            FormerCopies(runs.cluster, runs.copies + ends.copies)
            for runs, ends in zip(running, terminating, strict=True)
        ]
        parts = [(shape.requests, both)]
    made = (
        Former(commitment.project, commitment.tier, requests, held)
        for requests, there in parts
        if (held := tuple(each for each in there if each.copies))
    )
    return tuple(made)


def _of_one_pod(shape: PodShape) -> Resources:
    """The requests of one pod; of a gang the largest of all components."""
    most = ZERO
    for pod, _ in shape.pods:
        most = most.upper(pod.requests)
    return most


def _amounts(charged: tuple[Former, ...]) -> Resources:
    total = ZERO
    for part in charged:
        total = total + part.usage
    return total
