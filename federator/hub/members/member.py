"""One member as the hub has it in memory: connection, slices and capacity report. One object per
MemberCluster.

Written by its connection and its reflectors; read by placing, dispatching and status aggregation.
It lives as long as the MemberCluster object. Closing the connection keeps the last seen slices,
because silence is not absence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.api import maintenance, membercluster, raw
from federator.api.membercluster import DrainWish, Removal
from federator.hub.members import capacity_report, claims
from federator.hub.members.contents import Contents
from federator.hub.members.link import Link
from federator.hub.members.member_conditions import Vitals
from federator.hub.members.process_watch import ProcessWatch
from federator.hub.members.reachability import Reachability
from federator.hub.members.trust import SeqWatch, Trust
from federator.hub.members.writes import Writes
from federator.hub.records import slices
from federator.hub.records.slices import SliceSeen
from federator.kinds import registry
from federator.kube.clock import Clock
from federator.kube.control.lanes import Lane
from federator.model.fleet import ClusterView, serves
from federator.model.names import ClusterName, WorkloadKey
from federator.scheduling.governor import Health
from federator.status.conditions import TRUE
from federator.status.given import BEYOND_BOUNDS, Contradiction


@dataclass(slots=True)
class Member:
    """Everything the hub knows about one member."""

    name: ClusterName
    obj: Mapping[str, Any]
    """The MemberCluster object as last read."""
    on_slice: Callable[["Member", WorkloadKey], None]
    """Called when a slice there has changed."""
    on_count: Callable[["Member"], None]
    """Called when the number of its slices changes."""
    on_capacity: Callable[["Member"], None]
    on_rewind: Callable[["Member"], None]
    """Called when its API server shows an older state than before: what was stored is of another
    history."""
    on_other: Callable[["Member"], None]
    """Called when everything stored is of a cluster that never joined; the one that answers now may
    be the right one."""
    lane: Lane
    """All writes to it go through this lane, whichever connection they use."""
    now_s: Callable[[], float]
    """Epoch seconds: maintenance windows begin and end."""
    fleet: str
    host_uid: str
    """Uid of the host that this hub works for."""
    link: Link = field(default_factory=Link)
    """Reachability, identity and the present connection."""
    process: ProcessWatch = field(default_factory=ProcessWatch)
    """Whether its member process is alive."""
    contents: Contents = field(default_factory=Contents)
    """Its slices and its capacity report."""
    writes: Writes = field(default_factory=Writes)
    """What came of our writes there."""
    seqs: SeqWatch = field(default_factory=SeqWatch)
    """The highest seq there, and slices that are numbered higher than decided."""
    vitals: Vitals = field(default_factory=Vitals)
    health: Health = Health.UNKNOWN
    """What the governor held of it at its last look (`hub/evacuation/governing.py`)."""
    trust: Trust = field(default_factory=Trust)
    """Whether its reports agree with what it was given."""
    duplicate_of: str = ""
    released: bool = False
    """Its removal has progressed so far that nothing is written there any more."""
    cleaning: str = ""
    """What is still to be removed there from before it was given up as lost; "" for nothing."""
    unlisted_since_s: float | None = None
    """Monotonic time since which it answers but its content is unknown; None otherwise."""
    reported: bool = False
    """Its status was written, or needs no write, since this process started."""

    @property
    def synced(self) -> bool:
        """Every kind that it serves has been listed since this process started. Only then does a
        missing object not exist. A kind counts for no member if its definition was removed before
        its first list (`knows`)."""
        return self.contents.synced(self.link.apis)

    @property
    def heard(self) -> bool:
        """The stores may be taken as its present state. Slices of a duplicate, or of another host,
        never are."""
        return self.is_current and self.synced and not self.duplicate_of and not self.other_host

    @property
    def is_current(self) -> bool:
        """Whether what was last seen of it may be taken as its present state."""
        return self.link.reachability.trusted and not self.link.unasked

    @property
    def answers(self) -> bool:
        """Whether its last probe was answered: no copy goes elsewhere by older figures of it."""
        return self.heard and self.link.reachability.state is Reachability.LIVE

    def follows(self, kind: str) -> bool:
        """Whether its last probe was answered, and the present connection has read its slices of
        this kind and watches them: after a silence, a probe is answered sooner than a list. False
        for a kind that discovery leaves out, because no watch of it runs."""
        return self.answers and self.link.client is not None and self.contents.watches(kind)

    def knows(self, kind: str) -> bool:
        """Whether a slice of this kind that is missing in the stores does not exist. Unknown for a
        kind that the member does not serve now (F48) or has just begun to serve, and for
        one with more objects than are kept."""
        return (
            self.heard
            and kind in self.contents.stores
            and self.contents.stores[kind].complete
            and serves(self.link.apis, kind)
        )

    def speaks_of(self, kind: str) -> bool:
        """Whether the status of a slice of this kind may be taken as its present state. The member
        process writes it; for a native kind that is carried unchanged the cluster itself does."""
        return self.heard and (self.process.speaks or registry.KINDS[kind].model is None)

    def lacks(self, key: WorkloadKey) -> bool:
        """Whether it holds no slice of this workload, by stores that its last probe confirms."""
        return (
            self.follows(key.kind) and self.knows(key.kind) and self.contents.slice_of(key) is None
        )

    @property
    def claimed(self) -> bool:
        """Whether our host's claim is there: only then is anything written or deleted."""
        return self.contents.report is not None and self.contents.report.host == self.host_uid

    @property
    def other_host(self) -> str:
        """Another host that claims it; "" when ours does, or none."""
        return (
            self.contents.report.host
            if self.contents.report is not None and self.contents.report.host != self.host_uid
            else ""
        )

    @property
    def identity(self) -> str:
        """The uid of its kube-system namespace: as recorded, or as this process first read it."""
        return membercluster.recorded_uid(self.obj) or self.link.uid

    @property
    def removal(self) -> Removal:
        """How it is being removed from the fleet, if it is."""
        return membercluster.removal(self.obj)

    @property
    def drain(self) -> DrainWish | None:
        """The wish that it be empty."""
        return membercluster.drain_wish(self.obj, self.now_s())

    @property
    def dead(self) -> bool:
        """Whether it is lost, not for want of the hub's own, and declared so of this silence."""
        lost = self.link.reachability.state is Reachability.UNREACHABLE and not self.link.unasked
        return lost and membercluster.declared_dead(self.obj)

    @property
    def unreachable(self) -> bool:
        """Whether it is silent, and tainted for that on the host: not before may anything leave."""
        lost = self.link.reachability.state is Reachability.UNREACHABLE and not self.link.unasked
        recorded = self.health is Health.UNREACHABLE and membercluster.tainted(self.obj)
        return lost and recorded and self.removal is Removal.NONE

    @property
    def gone(self) -> bool:
        """Whether what it holds counts as lost, for as long as it is silent."""
        return self.dead or self.unreachable

    @property
    def draining(self) -> bool:
        """Whether it is being emptied: that is wished, and was not refused."""
        return self._drains(self.drain)

    def _drains(self, wish: DrainWish | None) -> bool:
        if wish is None:
            return False
        if self.vitals.drain is not None and self.vitals.drain.type == membercluster.DRAINING:
            return self.vitals.drain.status == TRUE
        return raw.text(raw.condition(self.obj, membercluster.DRAINING), "status") == TRUE

    @property
    def abandoned(self) -> bool:
        """Whether decisions no longer concern it although its object still exists: it is being
        removed without being emptied, or holds nothing that belongs to this host."""
        removal = self.removal
        if removal is Removal.NONE:
            return False
        if (
            removal is Removal.ORPHAN
            or self.duplicate_of
            or (self.link.reachability.trusted and self.other_host)
        ):
            return True
        return removal is Removal.LOST and self.link.reachability.state in (
            Reachability.UNREACHABLE,
            Reachability.REFUSED,
        )

    @property
    def seniority(self) -> tuple[str, str]:
        """Sort key: members by the time at which they joined."""
        return str(self.obj["metadata"].get("creationTimestamp", "")), self.name

    def recount_seq(self) -> int:
        """Computes its highest seq again from what it shows now: a slice with a higher one may
        have been corrected. Forgets the one that was known."""
        rows = (self.contents.slice_of(key) for key in self.contents.slice_keys())
        marks = (row.mark for row in rows if row is not None and row.ours(self.fleet))
        highest = max((mark.seq for mark in marks if mark is not None), default=0)
        if self.contents.report is not None:
            highest = max(highest, self.contents.report.capacity.includes_seq)
        self.seqs.begin_again()
        return highest

    def observe_object(self, obj: Mapping[str, Any]) -> None:
        """Its MemberCluster was read, or a write of it was answered. `managedFields`, more than
        half of it, are not kept."""
        meta = obj["metadata"]
        if "managedFields" in meta:
            kept = {name: value for name, value in meta.items() if name != "managedFields"}
            obj = {**obj, "metadata": kept}
        self.obj = obj

    def observe_health(self, health: Health) -> None:
        """The governor has looked at it."""
        self.health = health

    def observe_duplicate(self, name: str) -> None:
        """It is the same cluster as another member; "" when it is not."""
        self.duplicate_of = name

    def observe_release(self) -> None:
        """From now on nothing is written there."""
        self.released = True

    def observe_cleaning(self, why: str) -> None:
        """What it held when it was given up is still to be removed; "" when nothing is."""
        self.cleaning = why

    def observe_reported(self) -> None:
        """Its status says what is known of it."""
        self.reported = True

    def observe_content(self, *, known: bool, now_s: float) -> float:
        """Whether its content, or its silence, is known. Returns the monotonic time since which it
        is not; `now_s` while it is known."""
        if known:
            self.unlisted_since_s = None
        elif self.unlisted_since_s is None:
            self.unlisted_since_s = now_s
        return now_s if self.unlisted_since_s is None else self.unlisted_since_s

    def note_bounds(self, now_s: float) -> bool:
        """Records objects beyond the bounds as a contradiction; returns whether the verdict on the
        member changed."""
        verdicts = [
            self.trust.note(("kept", kind), slices.beyond(self.name, kind, store), now_s)
            for kind, store in self.contents.stores.items()
        ]
        excess = self.contents.report.excess if self.contents.report is not None else ""
        contradiction = (
            Contradiction(BEYOND_BOUNDS, f"its ClusterCapacity says what cannot be: {excess}")
            if excess
            else None
        )
        verdicts.append(self.trust.note(("kept", "ClusterCapacity"), contradiction, now_s))
        return any(verdicts)

    def note(self, seen: SliceSeen) -> None:
        """The response to our own write of a slice."""
        if self.contents.observe_answer(seen):
            self.on_slice(self, seen.key)

    def note_capacity(self, obj: Mapping[str, Any]) -> None:
        """The response to our own write of its ClusterCapacity."""
        self.contents.observe_answered_report(capacity_report.of(obj, self.fleet))

    def identity_trouble(self, uid: str, host_uid: str) -> str:
        """Why a cluster with this uid is not the one that joined; "" when it is. A cluster that was
        neither recorded on the host nor claimed has not joined."""
        if uid and uid == host_uid:
            return "it is the host itself, which cannot be its own member"
        if self.duplicate_of:
            return f"it is the same cluster as {self.duplicate_of}"
        joined = membercluster.recorded_uid(self.obj) or (self.link.uid if self.claimed else "")
        if joined and uid != joined:
            return f"the cluster answers as {uid}, but {joined} was joined (kube-system uid)"
        return ""

    def view(
        self, now_s: float, clock: Clock, *, stale_after_s: float, gated: bool = False
    ) -> ClusterView:
        """The member as placement sees it now. `now_s` is epoch seconds, as in the snapshot.
        `gated`: it takes work only after it has passed a probe. Returns the same object as before
        while nothing about the member has changed."""
        declared = self.contents.declared(self.obj)
        wish = membercluster.drain_wish(self.obj, now_s)
        draining = self._drains(wish)
        dead, unreachable = self.dead, self.unreachable
        ready, why = (False, self.vitals.unlisted) if self.vitals.unlisted else self.readiness()
        report = self.contents.report
        age = clock.monotonic() - self.contents.report_heard_s if report is not None else 0.0
        if self.is_current and self.process.speaks:
            age = 0.0  # it would have told of a change
        elif self.link.reachability.trusted and self.process.heard_s is not None:
            age = min(age, clock.monotonic() - self.process.heard_s)
        varying = (  # as `contents.VARYING` names them
            self.contents.can_add(declared.scale_up, clock.monotonic()),
            ready,
            why,
            self.trust.why,
            self.vitals.clock.off,
            self._unproven(declared.unproven) if gated else "",
            draining,
            maintenance.closed(self.obj, now_s),
            not draining and membercluster.drain_waits(self.obj, wish),
            dead,
            dead and declared.fenced,
            unreachable,
            self.vitals.lapsed and (dead or unreachable),
            self.link.apis,
            report.capacity if report is not None else None,
            age,
            age > stale_after_s,
            self.vitals.success.shown,
            self.vitals.success.avoided,
        )
        return self.contents.viewed(declared, varying)

    def _unproven(self, recorded: str) -> str:
        """Why it takes no work although a gate may be open by its status as it is on the host: that
        it is ready again is not recorded there yet."""
        if raw.text(raw.condition(self.obj, "Ready"), "status") != TRUE:
            return "has not been probed since it became ready"
        return recorded

    def readiness(self) -> tuple[bool, str]:
        """Whether it accepts new work, and the sentence why not."""
        if self.duplicate_of:
            return False, f"it is the same cluster as {self.duplicate_of}"
        if self.link.reachability.trusted and self.other_host:
            return False, claims.sentence(self.name, self.other_host, self.host_uid)
        if self.link.unasked:
            return False, self.link.unasked
        if not self.link.reachability.trusted:
            return False, self.vitals.silence(self.link.reachability)
        if not self.synced:
            return False, "its slices have not been listed yet"
        if self.cleaning:
            return False, self.cleaning
        why = self.process.why()
        return not why, why

    @property
    def known_or_unknown(self) -> bool:
        """Whether its state is known, or known to be unknown: decisions at start-up wait for it."""
        strange = bool(self.duplicate_of or self.other_host)
        return (
            self.heard
            or bool(self.link.unasked)
            or (self.link.probes > 0 and (not self.link.reachability.trusted or strange))
        )

    @property
    def lost(self) -> bool:
        return not self.link.reachability.trusted

    @property
    def unready_reason(self) -> str:
        """The reason, in one word, why it accepts no new work; "" when it does."""
        if self.link.unasked and not self.duplicate_of:
            return membercluster.NOT_ASKED
        if self.lost:
            return self.link.reason
        if self.other_host and not self.duplicate_of:
            return claims.REASON
        return membercluster.NOT_REPORTING
