"""Stores what is read from members, and queues the turns that the router's table gives for it.

Members and their connections call this; it never waits. A change becomes a member's name or a
workload's key. The event itself is dropped: each turn reads memory as it is then.
"""

from collections.abc import Iterable

from federator.hub.cache import restored
from federator.hub.cache.arriving import Arriving
from federator.hub.cache.endings import Endings
from federator.hub.cache.rollout_view import RolloutView
from federator.hub.cache.router import Changed, MemberChanged, MemberTurn, SliceChanged
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Workload
from federator.kube.clock import Clock
from federator.model.names import ClusterName, WorkloadKey
from federator.model.observation import MISSING


class MemberNews:
    """Stores what is read from members. Remembers what it signalled last, to signal only
    changes."""

    def __init__(self, state: HubState, view: RolloutView, *, clock: Clock) -> None:
        self.state = state
        self.view = view
        self.clock = clock
        self._identities: dict[ClusterName, tuple[str, tuple[str, str]]] = {}
        """Identity and seniority by which duplicates were last judged."""
        self._hosts: dict[ClusterName, str] = {}
        """The host that each member belongs to by its claim."""
        self._reports: dict[ClusterName, bytes] = {}
        """Member -> digest of its last capacity report."""
        self._arriving = Arriving(state.commitments)
        self._endings = Endings(state)
        state.signals.on_member(MemberTurn.DUPLICATES, self._judge_identity)

    def reached(self, member: Member) -> None:
        """Its reachability, its identity or the kinds it serves may have changed."""
        self._endings.reached(member)
        self.state.signals.member_changed(MemberChanged.REACHED, member)

    def answered(self, member: Member) -> None:
        """A probe of it was answered."""
        if self._arriving.heard(member, self.clock.monotonic()):
            self.state.signals.member_changed(MemberChanged.ROOM, member)

    def followed(self, member: Member) -> None:
        """One of its watches has recovered: what it reports counts again."""
        if self._is_current(member):
            self.state.signals.member_changed(MemberChanged.FOLLOWED, member)

    def counted(self, member: Member) -> None:
        """Its number of slices changed."""
        if self._is_current(member):
            self.state.signals.member_changed(MemberChanged.COUNTED, member)

    def capacity_changed(self, member: Member) -> None:
        """Its ClusterCapacity changed: claim, seqs or capacity."""
        host, now_s = (
            member.contents.report.host if member.contents.report is not None else "",
            self.clock.monotonic(),
        )
        name, signals = member.name, self.state.signals
        if self._hosts.get(name, "") != host:
            self._hosts[name] = host
            signals.member_changed(MemberChanged.OTHER_HOST, member)
        if member.contents.report is not None:
            self.state.heard_seq(member, member.contents.report.capacity.includes_seq, now_s)
            if member.note_bounds(now_s):
                signals.member_changed(MemberChanged.DOUBTED, member)
            # otherwise only its spec has changed
            if self._reports.get(name) != member.contents.report.status_digest:
                self._reports[name] = member.contents.report.status_digest
                self._arriving.reported(member)
        signals.member_changed(MemberChanged.ROOM, member)

    def slice_changed(self, member: Member, key: WorkloadKey) -> None:
        """A slice changed: status, drift, or what its scheduler could bind."""
        if not self._is_current(member):
            return  # the last reports of a closed connection
        state, seen, workload = (
            self.state,
            member.contents.slice_of(key),
            self.state.workloads.get(key),
        )
        state.observe_slice(member.name, key)
        if seen is not None and seen.mark is not None and seen.mark.fleet == state.options.fleet:
            state.heard_seq(member, seen.mark.seq, self.clock.monotonic())
            self._arriving.seen(member, seen)
        self._endings.heard(member, key, seen)
        if seen is None:
            restored.forget(state, member, key, self.clock.monotonic())
        if workload is None:
            member.writes.forget_in_place(key)
        state.signals.slice_changed(SliceChanged.HEARD, member, key)
        if not state.signals.heeded and seen is not None:
            return  # not leading yet: a new leader examines everything
        if workload is not None and seen is not None and restored.is_later(state, workload, seen):
            state.changed(Changed.LATER, key)
        if not self.view.is_as_decided(member, workload, seen):
            state.changed(Changed.UNLIKE, key)
        elif seen is not None and seen.observation.reason == MISSING:
            # it may miss something that the hub has to write
            state.signals.slice_changed(SliceChanged.LACKING, member, key)
        self._compare_decisions(member, key, seen, workload)
        state.changed(Changed.SLICE, key)

    def _compare_decisions(
        self, member: Member, key: WorkloadKey, seen: SliceSeen | None, workload: Workload | None
    ) -> None:
        """What the slice, or its absence, means for its decisions."""
        state = self.state
        for record in state.records_of(key):
            if seen is None:
                now_s = self.clock.monotonic()
                self._arriving.gone(member, key.kind, record.workload_uid, now_s)
            if seen is None and record.share_of(member.name) is None:
                state.commitments.release(member.name, record.workload_uid)
                if member.name in record.terms.leaving:
                    state.changed(Changed.EMPTIED, key)
            if record.deleting or workload is None or record.workload_uid != workload.uid:
                state.changed(Changed.LEFT_BEHIND, key)

    def appeared(self, member: Member) -> None:
        """Nothing is known of it yet, or everything known is of another history."""
        self._identities.pop(member.name, None)
        self._arriving.forget(member)
        self.state.add_member(member)
        self.state.signals.member_changed(MemberChanged.APPEARED, member)

    def edited(self, member: Member) -> None:
        """Its MemberCluster changed."""
        self._endings.reached(member)
        self.state.signals.member_changed(MemberChanged.EDITED, member)
        if member.other_host:
            self.state.signals.member_changed(MemberChanged.DISPUTED, member)

    def left(self, member: Member) -> None:
        """It has left the fleet; its connection is closed."""
        self._arriving.forget(member)
        self.state.remove_member(member.name)
        self._endings.left(member)
        self.state.signals.member_changed(MemberChanged.LEFT, member)
        for key in sorted(self.state.by_workload):
            self.state.changed(Changed.LEFT, key)

    def _is_current(self, member: Member) -> bool:
        return self.state.members.get(member.name) is member

    def _judge_identity(self, member: Member) -> None:
        """Two MemberClusters of one real cluster: the one that joined first keeps it, the others
        get nothing (F36)."""
        members = self.state.members
        cached = self._identities.get(member.name)
        if cached == (member.identity, member.seniority) and len(self._identities) == len(members):
            return
        self._identities = {
            other.name: (other.identity, other.seniority) for other in members.values()
        }
        for freed in _mark_duplicates(members.values()):
            for key in freed.contents.slice_keys():
                self.state.observe_slice(freed.name, key)


def _mark_duplicates(members: Iterable[Member]) -> list[Member]:
    """Finds which members duplicate others. Returns members that stopped being duplicates: their
    slices are their own from now on."""
    first: dict[str, str] = {}
    freed = []
    for member in sorted(members, key=lambda member: member.seniority):
        before = member.duplicate_of
        identity = member.identity
        member.observe_duplicate(first.get(identity, "") if identity else "")
        if identity:
            first.setdefault(identity, member.name)
        if before and not member.duplicate_of:
            freed.append(member)
    return freed
