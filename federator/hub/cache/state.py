"""The hub's memory: what was read and what was decided; written only on the event loop."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.api import clusterstandard, raw
from federator.api.clusterstandard import ProbeRule, ProbeWish
from federator.hub.cache.hostnames import HostNames
from federator.hub.cache.notices import Notices
from federator.hub.cache.policying import ByNamespace, InForce, nearby
from federator.hub.cache.router import ROUTES, Changed, Controller, MemberChanged
from federator.hub.cache.signals import Signals
from federator.hub.members.member import Member
from federator.hub.options import HubOptions
from federator.hub.records import decisions
from federator.hub.records.decisions import ByWorkload, HeldProfiles, Record
from federator.hub.records.deletion_budget import DeletionBudget
from federator.hub.records.feed import Feed, Noted, noted
from federator.hub.records.pauses import Pause
from federator.hub.records.policy_use import PolicyUse
from federator.hub.records.seals import Seals
from federator.hub.records.slices import SliceSeen
from federator.hub.records.tombstones import Tombstones
from federator.hub.records.workloads import Served, Workload
from federator.kinds import registry
from federator.kube import store
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.kube.store import version_number
from federator.model import interning
from federator.model import seq as seqs
from federator.model.accounts import QuotaAccount
from federator.model.ask import PodShape, Unit
from federator.model.decision import REFUSALS
from federator.model.fleet import FleetSnapshot
from federator.model.kubernetes import pod_security
from federator.model.kubernetes.pod_security import Enforced, Level
from federator.model.names import ObjectName, WorkloadKey
from federator.model.neighbours import Peers
from federator.model.rules.invariant import Invariant
from federator.model.table import Hashes, Packed, Table
from federator.placement.policy import permitted
from federator.placement.policy.permitted import NotPermitted
from federator.placement.policy.policies import Bindings, Policies, Rule
from federator.status.given import SEQ_NOT_ISSUED, Contradiction

log = logging.getLogger(__name__)

TERM_LEAP = 1 << 10
"""How far the term of a decision may be ahead of the Lease's count: somebody may have lowered the
count by hand."""
TERMS_WITHOUT_LEASE = 1 << 20
"""The highest term that is accepted in a decision when no Lease tells the count."""

NUMBERS = "numbers"
"""Subject of a contradiction about seqs, which belongs to no single workload (`hold_against`)."""


@dataclass(slots=True)
class HubState:
    """The hub's memory. Rebuilt from host and members at every start; nothing of it is stored."""

    options: HubOptions
    metrics: Metrics | None = None
    feed: Feed = field(default_factory=Feed)
    commitments: Noted = field(init=False)
    signals: Signals = field(default_factory=Signals)
    workloads: Table[WorkloadKey, Workload] = field(init=False)
    records: Table[ObjectName, Record] = field(init=False)
    """Every PlacementDecision by (namespace, name)."""
    refused: dict[ObjectName, Record] = field(default_factory=dict)
    """Decisions with a seq that this host never issued, as last read (`security.foreign`)."""
    by_workload: ByWorkload = field(default_factory=ByWorkload)
    members: dict[str, Member] = field(default_factory=dict)
    holders: Table[WorkloadKey, tuple[str, ...]] = field(default_factory=Table)
    """Clusters in which an object with the workload's kind and name was seen, sorted."""
    served: dict[WorkloadKey, Served] = field(default_factory=dict)
    """Specs in force of workloads with an edit held back, once loaded (`hub.host.in_force`)."""
    former: dict[WorkloadKey, bytes] = field(default_factory=dict)
    """`Workload.content` before its last change."""
    rules: Policies = field(init=False)
    policies_in_force: InForce = field(default_factory=InForce)
    notices: Notices = field(default_factory=Notices)
    host_names: HostNames = field(default_factory=HostNames)
    _namespaces: ByNamespace = field(default_factory=ByNamespace)
    _bindings: Bindings | None = None
    seals: Seals = field(default_factory=Seals)
    """Signatures by which the hub recognises its own decisions."""
    quotas: dict[str, QuotaAccount] = field(default_factory=dict)
    invariants: dict[str, Invariant] = field(default_factory=dict)
    probe_rules: dict[str, ProbeRule] = field(default_factory=dict)
    """What ClusterStandards say of workload probes, by name."""
    spaces: dict[str, Enforced] = field(default_factory=dict)
    """Namespace of the host -> the Pod Security level that it enforces."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Namespaces that enforce another level than the default; replaced, never changed."""
    profiles: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    held_profiles: HeldProfiles = field(default_factory=HeldProfiles)
    policy_use: PolicyUse = field(default_factory=PolicyUse)
    shapes: "OrderedDict[str, PodShape]" = field(default_factory=OrderedDict)
    """Shapes that members report capacity for, least recently used first."""
    deletions: DeletionBudget = field(init=False)
    """Slices that may be deleted per minute: shared by all deletions that no person asked for."""
    tombstones: Tombstones = field(default_factory=Tombstones)
    """Workloads with a proven deletion."""
    in_use: dict[str, asyncio.Event] = field(default_factory=dict)
    """Kind -> set once host or members have an object of it; others' slices are not watched."""
    pause: Pause | None = None
    ready: bool = False
    """Host lists are in and members read or given up: only then is anything placed or deleted."""
    wall: Callable[[], float] = lambda: 0.0
    """Epoch seconds, for what ends by the calendar: pins of versions. The process gives its clock.
    """
    leader_gate: Callable[[], bool] = lambda: True
    """Whether this hub leads, evaluated before every write; always true without an election."""
    term: int = 0
    """Term of the decisions this hub makes, above every term it has read."""
    _counter: int = 0
    evaluated: Table[WorkloadKey, str] = field(default_factory=lambda: Table(Packed(Hashes())))
    """Hash of the inputs that placing last computed; absent while that is due."""

    def __post_init__(self) -> None:
        options = self.options
        self.commitments, self.workloads, self.records = noted(self.feed)
        self.rules = Policies(in_force_max=options.policies_per_namespace)
        floor, permille = options.deletions_floor, options.deletions_permille
        self.deletions = DeletionBudget(floor=floor, permille=permille)

    def changed(self, what: Changed, key: WorkloadKey) -> None:
        """Queues the turns that are due after a change of one workload."""
        if not self.signals.heeded:  # nobody takes turns yet: a new leader examines everything
            self.signals.note(what, key)
            return
        for turn in ROUTES[what]:
            if turn is Controller.FINALIZE:
                for record in self.records_of(key):
                    self.signals.finalize(key.namespace, record.name)
            elif turn is Controller.PLACE:
                self.signals.place(key)
            elif turn is Controller.DISPATCH:
                self.signals.dispatch(key)
            else:
                self.signals.aggregate(key)
        self.signals.note(what, key)

    def snapshot(self, clock: Clock) -> FleetSnapshot:
        """The fleet as it is in memory now."""
        now, stale_after_s = clock.now(), self.options.capacity_stale_after_s
        views = {
            name: member.view(now, clock, stale_after_s=stale_after_s, gated=self.gated(member))
            # Sorted: decisions and hashes of inputs must not depend on the order in which members
            # came up.
            for name, member in sorted(self.members.items())
            if not member.abandoned
        }
        quotas = tuple(account for _, account in sorted(self.quotas.items()))
        rules = tuple(rule for _, rule in sorted(self.invariants.items()))
        return FleetSnapshot(now, views, quotas, self.levels, rules, self._nearby())

    def _nearby(self) -> Peers:
        """For terms of policies about other workloads."""

        def workloads_in(namespace: str) -> Iterator[Workload]:
            return (self.workloads[key] for key in self._namespaces.keys_in(namespace))

        return nearby(self.rules, self.bindings(), workloads_in, self.policies_in_force)

    @property
    def paused(self) -> bool:
        """Whether nothing may be placed or dispatched."""
        return self.pause is not None

    @property
    def leading(self) -> bool:
        """Whether this hub may write at this moment."""
        return self.leader_gate()

    def begin_term(self, transitions: int) -> int:
        """Begins to lead at the Lease's count `transitions`; returns the term. Decisions must have
        been read.

        A Lease that was deleted and counts from zero does not lower the term below that of the
        decisions. But a decision raises it by a bounded step only: a term that no election can have
        reached was not issued by this host.
        """
        most = transitions + TERM_LEAP if transitions > 1 else TERMS_WITHOUT_LEASE
        terms = {seqs.term(record.seq) for record in self.records.values()}
        # A forged seq near the maximum would otherwise use up all terms at once.
        highest_term = max((term for term in terms if term <= most), default=0)
        self.term = min(max(self.term, transitions, highest_term + 1), seqs.TERM_MAX)
        self._counter = 0
        for name, record in list(self.records.items()):
            # No leader of this host can have issued it, so it is not obeyed and its number is not
            # reused.
            if record.seq > self.issued:
                self.forget_decision(*name, record.uid)
                self.refused[name] = record
        return self.term

    @property
    def issued(self) -> int:
        """The highest seq that this host has issued, as far as its leader knows."""
        return seqs.make(self.term, self._counter)

    def is_current(self, workload: Workload, record: Record) -> bool:
        """Whether the decision was made for the workload's present inputs."""
        return self.evaluated.get(workload.key) == record.facts.inputs_hash

    def serving(self, workload: Workload, record: Record | None) -> Workload:
        """The workload as members are to have it: as admitted, while an edit is held back."""
        served = self.served.get(workload.key)
        if record is None or not record.terms.held_back or served is None:
            return workload
        if not served.serves(workload, record.terms.revision):
            return workload
        # The count of replicas is taken at once, whatever of the edit is held back.
        spec = {**served.spec, "replicas": sum(share.count for share in record.shares)}
        return workload.serving(
            served.spec,
            generation=served.generation,
            content=served.content,
            profile=served.profile,
            max_unavailable=workload.verbs.max_unavailable({"spec": spec}),
        )

    def unjudged(self, workload: Workload, record: Record) -> bool:
        """Whether placing must judge the workload before members may get it: it asks for something
        else than its decision charges."""
        ask, charged = workload.ask, record.terms.charged
        if ask is None or charged is None:
            return False
        # Placing has seen just this and let it pass, or holds it back itself.
        if self.is_current(workload, record) and record.terms.reason not in REFUSALS:
            return False
        more = not ask.shape.requests.within(charged.shape.requests)
        raised = charged.priority is not None and ask.priority > charged.priority
        return more or raised or (ask.project, ask.tier) != (charged.project, charged.tier)

    def observe_edit(self, key: WorkloadKey, before: bytes) -> None:
        """Records the content that members had before the latest change."""
        self.former[key] = before

    def judge(self, key: WorkloadKey, inputs: str) -> None:
        """Placing has evaluated the workload; `inputs` is the hash of its inputs."""
        self.evaluated[interning.key(key)] = inputs

    def unjudge(self, key: WorkloadKey) -> None:
        """The workload has changed and placing has not evaluated it."""
        self.evaluated.pop(key, None)

    def serve(self, key: WorkloadKey, served: Served | None) -> None:
        """Sets the spec in force while an edit is held back; None when no edit is."""
        store.put(self.served, key, served)

    def add_member(self, member: Member) -> None:
        """Adds a member about which nothing is known yet; replaces one of the same name."""
        self.members[member.name] = member

    def remove_member(self, name: str) -> None:
        """Removes a cluster that has left the fleet."""
        del self.members[name]

    def lead(self) -> None:
        """This hub works from now on: changes are passed to the controllers."""
        self.ready = self.signals.heeded = True

    def stand_by(self) -> None:
        """This hub no longer leads."""
        self.ready = self.signals.heeded = False

    def prove_gone(self, uid: str) -> None:
        """A workload is proven deleted: slices of it that turn up later may be removed."""
        self.tombstones.add(uid)

    def stand_again(self, uid: str) -> None:
        """The decision of a workload is in force: its slices are not leftovers."""
        self.tombstones.discard(uid)

    def inherit(self, notes: Mapping[str, str]) -> None:
        """Takes over the tombstones of the former leader."""
        self.tombstones.inherit(notes)

    def observe_kind(self, kind: str) -> None:
        """An object of this kind exists or existed."""
        self.use_of(kind).set()

    def observe_rule(self, rule: Rule) -> list[Rule]:
        """Stores a placement policy. Returns the rules that it affects, before and after."""
        return self.rules.put(rule)

    def forget_rule(self, key: ObjectName) -> list[Rule]:
        """Removes a placement policy. Returns the rules that this affects, before and after."""
        return self.rules.drop(key)

    def observe_quota(self, name: str, account: QuotaAccount | None) -> None:
        """Stores a FederatedQuota; None removes it."""
        store.put(self.quotas, name, account)
        self._bindings = None

    def observe_invariant(self, name: str, invariant: Invariant | None) -> None:
        """Stores a PlacementInvariant; None removes it."""
        store.put(self.invariants, name, invariant)

    def observe_probe_rule(self, name: str, rule: ProbeRule | None) -> None:
        """Stores what a ClusterStandard says of workload probes; None for nothing."""
        store.put(self.probe_rules, name, rule)

    def probe_wish(self, member: Member) -> ProbeWish:
        """What the ClusterStandards say of the workload probes of a member."""
        labels = raw.text_map(member.obj, "metadata", "labels")
        return clusterstandard.probe_wish(self.probe_rules.values(), labels)

    def gated(self, member: Member) -> bool:
        """Whether a member takes work only after it has passed a probe."""
        return bool(self.probe_rules) and self.probe_wish(member).gate

    def observe_profile(self, name: str, profile: Mapping[str, Any] | None) -> None:
        """Stores a RuntimeProfile (object, hash and the copy for members); None removes it."""
        store.put(self.profiles, name, profile)

    def observe_pause(self, pause: Pause | None) -> None:
        self.pause = pause

    def observe_status(self, key: WorkloadKey, uid: str, obj: Mapping[str, Any]) -> None:
        """Stores the response to our own status write, so that the next fold compares with it."""
        cached, version = self.workloads.get(key), obj["metadata"].get("resourceVersion", "")
        if cached is None or cached.uid != uid:
            return
        if version_number(cached.resource_version) < version_number(version):
            self.observe_workload(cached.with_status(obj.get("status") or {}, version))
            self.signals.stated(key)

    def observe_workload(self, new: Workload) -> None:
        """Stores a workload. Shards that its status records as done are no longer charged."""
        old = self.workloads.get(new.key)
        self.workloads[new.key] = new
        self.host_names.observe(old, new, self.changed)
        self._namespaces.add(new.key)
        if old is not None and old.uid != new.uid:
            self._forget_progress(old.uid, new.key)
            self._touch(new.key)
        sharded = new.verbs.unit is Unit.SHARDS
        if sharded and self.commitments.progressed(new.uid, new.progress().done):
            self.signals.freed()

    def forget_workload(self, key: WorkloadKey) -> None:
        """Removes a workload that is gone. While its decision stays, finished shards stay free."""
        old = self.workloads.pop(key, None)
        self.host_names.observe(old, None, self.changed)
        self.evaluated.pop(key, None)
        self.former.pop(key, None)
        if old is not None:
            self._namespaces.remove(key)
            self._forget_progress(old.uid, key)
            self._touch(key)

    def _touch(self, key: WorkloadKey) -> None:
        """What accounted for slices of this key is gone: they may be strangers (`restored`)."""
        for cluster in self.holders.get(key, ()):
            if (member := self.members.get(cluster)) is not None:
                member.contents.touch(key)

    def _forget_progress(self, uid: str, key: WorkloadKey) -> None:
        """Drops the progress once both the workload and its decision are gone."""
        workload = self.workloads.get(key)
        gone = workload is None or workload.uid != uid
        if gone and all(record.workload_uid != uid for record in self.records_of(key)):
            self.commitments.progressed(uid, ())

    def observe_namespace(self, name: str, new: Enforced | None) -> None:
        """Stores a namespace of the host; None removes it."""
        # A new dict: snapshots of cycles under way share the old one.
        levels = {space: level for space, level in self.levels.items() if space != name}
        store.put(self.spaces, name, new)
        if new is not None and new.level is not pod_security.DEFAULT:
            levels[name] = new.level
        self.levels = levels

    def refusal(self, workload: Workload) -> NotPermitted | None:
        """Why a workload may not run as it is written; None when it may, or cannot be read."""
        asked = workload, self.workloads, self.record_of, self.barred
        return self.barred(workload) or self.host_names.refusal(*asked)

    def barred(self, workload: Workload) -> NotPermitted | None:
        """The same by its own namespace and its project's accounts alone."""
        ask, quotas = workload.ask, self.quotas.values()
        return permitted.refusal(ask, self.levels, quotas) if ask is not None else None

    def refused_in(self, space: str) -> WorkloadKey | None:
        """A workload of a namespace that has a decision but may not run as it is written."""
        present = (self.workloads[key] for key in self.workloads_in(space))
        refused = (w.key for w in present if self.record_of(w) and self.refusal(w))
        return next(refused, None)

    def workloads_in(self, namespace: str) -> list[WorkloadKey]:
        """The workloads of a namespace, sorted; of all namespaces for ""."""
        return sorted(self._namespaces.keys_in(namespace) if namespace else self.workloads)

    def bindings(self) -> Bindings:
        """Which projects a namespace may use, by the present quotas."""
        if self._bindings is None:
            self._bindings = Bindings(self.quotas.values())
        return self._bindings

    def refuses_native(self, kind: str) -> bool:
        """Whether the host itself would run this kind, so that members must not get it too."""
        return self.options.shared_host and registry.KINDS[kind].model is None

    def may_delete(self, slices: int, now_s: float) -> float:
        """Seconds to wait before that many slices may be deleted. 0.0 means now, and counts them.
        Every deletion that no person asked for goes through this budget."""
        return self.deletions.take(slices, self._slices(), now_s)

    @property
    def deletions_a_minute(self) -> int:
        """Slices that may be deleted per minute, given how many there are now."""
        return self.deletions.rate(self._slices())

    def _slices(self) -> int:
        return sum(member.contents.slices_held for member in self.members.values())

    def next_seq(self) -> int:
        """The seq of the next decision, above all that this host has issued. Raises ValueError when
        this term has none left; a new election is requested well before that."""
        seq = seqs.make(self.term, self._counter + 1)
        self._counter += 1
        # Exactly once, and early: an election takes a while, in which decisions need numbers.
        if seqs.COUNTER_MAX - self._counter == seqs.SPARE:
            self.signals.used_up()
        return seq

    def holder(self, cluster: str) -> Member | None:
        """The member of this name unless it is abandoned (`Member.abandoned`)."""
        member = self.members.get(cluster)
        return None if member is None or member.abandoned else member

    def hold_against(
        self, member: Member, subject: Hashable, contradiction: Contradiction | None, now_s: float
    ) -> None:
        """Records that a member's report on a subject (a workload's key, or a kind) contradicts
        what it was given; `found` None ends that. Signals a changed verdict on the member."""
        if member.trust.note(subject, contradiction, now_s):
            self.signals.member_changed(MemberChanged.DOUBTED, member)

    def heard_seq(self, member: Member, seq: int, now_s: float) -> None:
        """Records a seq read in a slice or report of a member."""
        if member.seqs.observe(seq):
            message = (
                f"It shows numbers of decisions up to {member.seqs.highest}, of {seqs.MAX} that"
                f" there are: this host has issued {self.issued}."
            )
            self.hold_against(member, NUMBERS, Contradiction(SEQ_NOT_ISSUED, message), now_s)

    def use_of(self, kind: str) -> asyncio.Event:
        """Set as soon as the first workload, decision or slice of this kind is seen."""
        event = self.in_use.get(kind)
        if event is None:  # an event takes longer to make than all else that is noted of a slice
            event = self.in_use[kind] = asyncio.Event()
        return event

    def record_of(self, workload: Workload) -> Record | None:
        """The decision of exactly this workload, not of an earlier one with its name."""
        uid = workload.uid
        for name in self.by_workload.names(workload.key):
            record = self.records[name]
            if record.facts.workload_uid == uid:
                return record
        return None

    def records_of(self, key: WorkloadKey) -> list[Record]:
        return [self.records[name] for name in self.by_workload.names(key)]

    def read_record(self, obj: Mapping[str, Any]) -> Record:
        """The record of a decision object. A version that is already known is not parsed again."""
        meta = obj["metadata"]
        # Lists repeat all decisions after every lost watch, and to parse 100,000 of them takes
        # seconds.
        cached = self.records.get((raw.text(meta, "namespace"), raw.text(meta, "name")))
        state = (meta.get("uid"), meta.get("resourceVersion"), raw.at(obj, "spec", "seq"))
        if cached is None or (cached.uid, cached.resource_version, cached.seq) != state:
            return decisions.summarise(obj, self.seals)
        # It was read before the key was known, so nobody has looked at its seal.
        checked = cached.sealed or not self.seals.usable
        return cached if checked else decisions.summarise(obj, self.seals)

    def observe_member(self, member: Member, answer: Mapping[str, Any]) -> None:
        """Stores the response to our own write of a MemberCluster, unless it is outdated."""
        before, after = (obj["metadata"]["resourceVersion"] for obj in (member.obj, answer))
        # A watch may have brought a later version before the answer to our write.
        if version_number(after) >= version_number(before):
            member.observe_object(answer)

    def observe_decision(self, namespace: str, new: Record) -> bool:
        """Stores a record unless a higher (seq, version) is there; returns whether it did."""
        name = interning.key((namespace, new.name))  # as its store has it
        old = self.records.get(name)
        if not self._is_ours(old, new):
            self._refuse(name, old, new)
            return False
        self.refused.pop(name, None)
        # Watches and our own answers arrive in any order: the later decision wins, not the later
        # message.
        if old is not None and old.uid == new.uid and _order(new) <= _order(old):
            if new.sealed and not old.sealed and _order(new) == _order(old):
                self.records[name] = new  # the same, now that the key is known
            return False
        self.records[name] = new
        if old is not None and old.workload_uid != new.workload_uid:
            self._touch(old.key)
        self.policy_use.note(name, old, new)
        self.held_profiles.note(name, new.terms.held_profile)
        if self.ready and self.leading and new.seq > self.issued:
            # No other hub decides while this one leads: the list it began with was an old one.
            self.term, self._counter = min(seqs.term(new.seq) + 1, seqs.TERM_MAX), 0
        if old is not None and (charged := old.terms.charged) and charged.content:
            self.former.setdefault(new.key, charged.content)  # an edit that no hub saw
        self.use_of(new.key.kind).set()
        self.by_workload.add(new.key, name)
        return True

    def _is_ours(self, old: Record | None, new: Record) -> bool:
        """Whether a hub of this federation wrote the decision, as far as can be told."""
        if self.seals.usable and new.sealed:
            # An earlier decision of ours that somebody deleted and created again is not in force.
            return old is None or old.uid == new.uid or not old.sealed or new.seq >= old.seq
        if self.ready and self.leading and new.seq > self.issued:
            return False  # while this hub leads, no other hub issues seqs
        if not self.seals.usable:
            return True
        if self.seals.complete:
            return False
        # Written by a release without seals: accepted as it was when this hub began to lead.
        return not self.ready or (old is not None and not old.sealed and old.says(new))

    def _refuse(self, name: ObjectName, old: Record | None, new: Record) -> None:
        """Stores a decision that is not obeyed; drops a record read before the key was known."""
        if old is not None and self.seals.complete and not (old.sealed or old.lost):
            self.forget_decision(*name, old.uid)
        last = self.refused.get(name)
        # Once for each version: every list brings it again, and its author could flood the log.
        if last is None or (last.uid, last.resource_version) != (new.uid, new.resource_version):
            log.warning("the decision %s/%s is not the hub's: %s", *name, self.objection(new))
            if self.metrics is not None:
                self.metrics.child("federator_decisions_refused_total").inc()
        self.refused[name] = new
        self.signals.refuse(*name)
        self.changed(Changed.REFUSED, new.key)

    def objection(self, refused: Record) -> str:
        """Why a decision is refused, as a part of a sentence."""
        if refused.seq > self.issued or not refused.author:
            return f"its seq {refused.seq} is none that this host has issued for it"
        return f"it was written by {refused.author}, and bears no seal of this fleet's hubs"

    def refused_of(self, workload: Workload) -> Record | None:
        """The object with the name of this workload's decision that the hub did not write."""
        if not self.refused:
            return None
        name = decisions.name_of(workload.key, workload.uid)
        return self.refused.get((workload.key.namespace, name))

    def drop_refused(self, namespace: str, name: str, uid: str) -> None:
        """A refused decision was deleted. The hub's own decision stays: it is written again or,
        when its workload is gone, finalized without an object."""
        refused = self.refused.get((namespace, name))
        if refused is None or refused.uid != uid:
            return
        del self.refused[namespace, name]
        record = self.records.get((namespace, name))
        if record is not None and record.uid == uid:
            workload = self.workloads.get(record.key)
            self.records[namespace, name] = record.as_lost()
            if workload is None or workload.uid != record.workload_uid or workload.deleting:
                self.changed(Changed.ORPHANED, record.key)
        self.changed(Changed.LOST, refused.key)

    def lose_record(self, namespace: str, name: str, uid: str) -> bool:
        """Somebody else deleted a decision's object. It is written again or, when its workload is
        gone and has slices, finalized without an object. Returns False when neither is needed."""
        record = self.records.get((namespace, name))
        if record is None or record.uid != uid:
            return False
        key, workload_uid = record.key, record.workload_uid
        # Under another name it was a copy, which nobody needs back.
        if name != decisions.name_of(key, workload_uid):
            return False
        workload = self.workloads.get(key)
        lives = workload is not None and workload.uid == workload_uid and not workload.deleting
        leads = self.ready and self.leading
        if not lives and not (leads and any(self.slices_with_uid(key, workload_uid))):
            return False
        self.records[namespace, name] = record.as_lost()
        if lives:
            why = "its workload exists, so it is written again"
            log.warning("the decision %s/%s was deleted: %s", namespace, name, why)
            self.changed(Changed.LOST, record.key)
        else:
            self.changed(Changed.ORPHANED, record.key)
        return True

    def forget_decision(self, namespace: str, name: str, uid: str) -> Record | None:
        """Removes a decision with this uid, and its charge. Returns it; None if not there."""
        old = self.records.get((namespace, name))
        if old is None or old.uid != uid:
            return None
        del self.records[namespace, name]
        self.policy_use.forget((namespace, name), old)
        self.held_profiles.note((namespace, name), "")
        self.by_workload.remove(old.key, (namespace, name))
        self.commitments.forget(old.workload_uid)
        self._forget_progress(old.workload_uid, old.key)
        self._touch(old.key)
        return old

    def observe_slice(self, cluster: str, key: WorkloadKey) -> None:
        """An object of this key was seen in this member."""
        self.use_of(key.kind).set()
        clusters = self.holders.get(key, ())
        if cluster not in clusters:
            self.holders[interning.key(key)] = interning.texts(sorted((*clusters, cluster)))

    def slices_of(self, key: WorkloadKey) -> dict[str, SliceSeen]:
        """The objects of this kind and name in all members, as last seen, in cluster order."""
        slices: dict[str, SliceSeen] = {}
        for cluster in self.holders.get(key, ()):
            member = self.members.get(cluster)
            # Two members that reach the same cluster would show each of its slices twice.
            if member is not None and (member.duplicate_of or member.abandoned):
                continue
            seen = member.contents.slice_of(key) if member is not None else None
            if seen is not None:
                slices[cluster] = seen
            elif left := interning.texts(name for name in self.holders[key] if name != cluster):
                self.holders[key] = left
            else:
                del self.holders[key]
        return slices

    def slices_with_uid(self, key: WorkloadKey, workload_uid: str) -> Iterator[SliceSeen]:
        """The slices of one workload that this federation wrote, in cluster order."""
        for seen in self.slices_of(key).values():
            ours = seen.ours(self.options.fleet) and seen.mark is not None
            if ours and seen.mark is not None and seen.mark.workload_uid == workload_uid:
                yield seen

    def want_shape(self, shape: PodShape) -> bool:
        """Adds a shape that members are to report capacity for; returns whether it is new."""
        new = shape.id not in self.shapes
        self.shapes[shape.id] = shape
        self.shapes.move_to_end(shape.id)
        # Members count every shape for every report. The one unused for longest goes, and is asked
        # for again if it is needed.
        while len(self.shapes) > self.options.shapes_max:
            self.shapes.popitem(last=False)
        return new


def _order(record: Record) -> tuple[int, int]:
    return record.seq, version_number(record.facts.resource_version)
