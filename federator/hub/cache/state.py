"""Everything the hub's controllers share: what was last heard of host and members, and who wants to know of a change.

One instance per hub process, written on the event loop only. Controllers subscribe with plain callbacks; a callback
takes note (adds keys to a queue) and returns.
"""

import asyncio
import dataclasses
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.api import raw
from federator.hub.cache.deletion_budget import DeletionBudget
from federator.hub.cache.pauses import Pause
from federator.hub.cache.router import ROUTES, Changed, MemberChanged, Turn
from federator.hub.cache.signals import Signals
from federator.hub.members.member import Member
from federator.hub.options import HubOptions
from federator.hub.records import decisions, packing
from federator.hub.records.decisions import Record
from federator.hub.records.seals import Seals
from federator.hub.records.slices import SliceSeen
from federator.hub.records.tombstones import Tombstones
from federator.hub.records.workloads import Served, Workload
from federator.kinds import registry
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.kube.store import version_number
from federator.model import interning
from federator.model import seq as seqs
from federator.model.ask import PodShape, Unit
from federator.model.decision import REFUSALS
from federator.model.fleet import FleetSnapshot, QuotaAccount
from federator.model.kubernetes import pod_security
from federator.model.kubernetes.pod_security import Enforced, Level
from federator.model.names import ObjectName, WorkloadKey
from federator.placement.policy import permitted
from federator.placement.policy.permitted import Refused
from federator.placement.policy.policies import Bindings, Policies, Rule
from federator.placement.room.commitments import Commitments
from federator.status.given import SEQ_NOT_ISSUED, Contradiction

log = logging.getLogger(__name__)

TERM_LEAP = 1 << 10
"""Terms by which a decision may be ahead of the Lease's count and still be believed: a hand has lowered the count."""
TERMS_WITHOUT_LEASE = 1 << 20
"""The highest term of a decision that is believed where no Lease says how many there have been."""

NUMBERS = "numbers"
"""What a contradiction is about that no workload alone shows (`hold_against`)."""


@dataclass(slots=True)
class HubState:
    """The hub's memory. Rebuilt from the host and the members at every start; nothing of it is persisted."""

    options: HubOptions
    metrics: Metrics | None = None
    commitments: Commitments = field(default_factory=Commitments)
    signals: Signals = field(default_factory=Signals)
    workloads: dict[WorkloadKey, Workload] = field(default_factory=dict)
    records: dict[ObjectName, Record] = field(default_factory=dict)
    """Every PlacementDecision by (namespace, name)."""
    refused: dict[ObjectName, Record] = field(default_factory=dict)
    """Decisions with a seq that this host never issued, as last heard: nobody obeys them (`hub/placing/foreign.py`)."""
    by_workload: dict[WorkloadKey, tuple[ObjectName, ...]] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    holders: dict[WorkloadKey, tuple[str, ...]] = field(default_factory=dict)
    """Clusters in which an object of the workload's kind and name was seen, in order."""
    served: dict[WorkloadKey, Served] = field(default_factory=dict)
    """Of workloads with an edit that is held back, as far as it is loaded (`hub.host.in_force`)."""
    former: dict[WorkloadKey, bytes] = field(default_factory=dict)
    """What `Workload.content` was before it changed last."""
    rules: Policies = field(init=False)
    """Every placement policy."""
    _namespaces: dict[str, set[WorkloadKey]] = field(default_factory=dict)
    """Workloads by namespace."""
    _bindings: Bindings | None = None
    seals: Seals = field(default_factory=Seals)
    """By what our own decisions are known."""
    quotas: dict[str, QuotaAccount] = field(default_factory=dict)
    spaces: dict[str, Enforced] = field(default_factory=dict)
    """Namespaces of the host, and which Pod Security level each asks for."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Of namespaces that ask for another level than the default; replaced, never changed."""
    profiles: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    shapes: "OrderedDict[str, PodShape]" = field(default_factory=OrderedDict)
    """Shapes that members are asked about, least recently used first."""
    deletions: DeletionBudget = field(init=False)
    """How many slices may be deleted in a minute: one budget for everybody who deletes what no person took away."""
    tombstones: Tombstones = field(default_factory=Tombstones)
    """Workloads that are proven to be deleted."""
    in_use: dict[str, asyncio.Event] = field(default_factory=dict)
    """Kinds of which the host or a member has, or had, anything: only their slices need to be watched."""
    pause: Pause | None = None
    ready: bool = False
    """The host's lists are in and every member was heard or given up: only then may anything be placed or deleted."""
    leader_gate: Callable[[], bool] = lambda: True
    """Whether this hub leads, asked anew before every write; always where nobody else can."""
    term: int = 0
    """Of the decisions this hub makes: above every term seen before it began to."""
    _counter: int = 0

    evaluated: dict[WorkloadKey, str] = field(default_factory=dict)
    """Hash of the inputs that placing last computed for the present object; absent while that is due."""

    def __post_init__(self) -> None:
        options = self.options
        self.rules = Policies(in_force_max=options.policies_per_namespace)
        self.deletions = DeletionBudget(floor=options.deletions_floor, permille=options.deletions_permille)

    def changed(self, what: Changed, key: WorkloadKey) -> None:
        """Gives the turns that are due because of a change about one workload."""
        for turn in ROUTES[what]:
            if turn is Turn.FINALIZE:
                for record in self.records_of(key):
                    self.signals.finalize(key.namespace, record.name)
            elif turn is Turn.PLACE:
                self.signals.place(key)
            elif turn is Turn.DISPATCH:
                self.signals.dispatch(key)
            else:
                self.signals.aggregate(key)

    def snapshot(self, clock: Clock) -> FleetSnapshot:
        """The fleet as of now, from what is in memory."""
        now, stale_after_s = clock.now(), self.options.capacity_stale_after_s
        views = {
            name: member.view(now, clock, stale_after_s=stale_after_s)
            for name, member in sorted(self.members.items())
            if not member.let_go
        }
        quotas = tuple(account for _, account in sorted(self.quotas.items()))
        return FleetSnapshot(as_of=now, clusters=views, quotas=quotas, levels=self.levels)

    @property
    def paused(self) -> bool:
        """Whether nothing may be placed or dispatched."""
        return self.pause is not None

    @property
    def leading(self) -> bool:
        """Whether this hub may write at this very moment."""
        return self.leader_gate()

    def begin_term(self, transitions: int) -> int:
        """This hub leads from now on, by the Lease's count `transitions`; returns the term. Decisions must be read.

        A Lease that was wiped and counts from the beginning does not take the term back below what decisions say. But
        decisions alone move it by little: one with a term that no election can have reached is nobody's of this host.
        """
        most = transitions + TERM_LEAP if transitions > 1 else TERMS_WITHOUT_LEASE
        terms = {seqs.term(record.seq) for record in self.records.values()}
        known = max((one for one in terms if one <= most), default=0)
        self.term = min(max(self.term, transitions, known + 1), seqs.TERM_MAX)
        self._counter = 0
        for name, record in list(self.records.items()):
            if record.seq > self.issued:
                self.forget_decision(*name, record.uid)
                self.refused[name] = record
        return self.term

    @property
    def issued(self) -> int:
        """The highest seq that this host has issued, as far as its leader knows."""
        return seqs.make(self.term, self._counter)

    def is_current(self, workload: Workload, record: Record) -> bool:
        """Whether the decision was made for what is asked now."""
        return self.evaluated.get(workload.key) == record.facts.inputs_hash

    def serving(self, workload: Workload, record: Record | None) -> Workload:
        """The workload as its members are to have it: as it was admitted, while an edit of it is held back."""
        served = self.served.get(workload.key)
        if record is None or not record.terms.held_back or served is None:
            return workload
        if not served.serves(workload, record.terms.revision):
            return workload
        spec = {**served.spec, "replicas": sum(share.count for share in record.shares)}
        return dataclasses.replace(
            workload,
            max_unavailable=workload.verbs.max_unavailable({"spec": spec}),
            generation=served.generation,
            content=served.content,
            profile=served.profile,
            served=served.spec,
        )

    def unjudged(self, workload: Workload, record: Record) -> bool:
        """Whether the workload asks for other than its decision charges, and placing has not judged that yet: nothing
        of it may reach a member before."""
        ask, charged = workload.ask, record.terms.charged
        if ask is None or charged is None:
            return False
        if self.is_current(workload, record) and record.terms.reason not in REFUSALS:
            return False
        more = not ask.shape.requests.within(charged.shape.requests)
        raised = charged.priority is not None and ask.priority > charged.priority
        return more or raised or (ask.project, ask.tier) != (charged.project, charged.tier)

    def observe_edit(self, key: WorkloadKey, before: bytes) -> None:
        """What a workload's members are given is another content than `before`."""
        self.former[key] = before

    def judge(self, key: WorkloadKey, inputs: str) -> None:
        """Placing has looked at what a workload asks for, and its inputs have this hash."""
        self.evaluated[key] = inputs

    def unjudge(self, key: WorkloadKey) -> None:
        """A workload asks for something that placing has not looked at."""
        self.evaluated.pop(key, None)

    def serve(self, key: WorkloadKey, served: Served | None) -> None:
        """What members are to have while an edit is held back; None when none is."""
        if served is None:
            self.served.pop(key, None)
        else:
            self.served[key] = served

    def add_member(self, member: Member) -> None:
        """A member of which nothing is known yet, in the place of any of its name."""
        self.members[member.name] = member

    def remove_member(self, name: str) -> None:
        """A cluster has left the fleet."""
        del self.members[name]

    def lead(self) -> None:
        """This hub works from now on: everybody is told of changes."""
        self.ready = self.signals.heeded = True

    def stand_by(self) -> None:
        """This hub does not lead any more."""
        self.ready = self.signals.heeded = False

    def prove_gone(self, uid: str) -> None:
        """A workload is proven to be deleted: what comes late of it may be removed."""
        self.tombstones.add(uid)

    def stand_again(self, uid: str) -> None:
        """The decision of a workload stands: nothing of it may be removed as left behind."""
        self.tombstones.discard(uid)

    def inherit(self, notes: Mapping[str, str]) -> None:
        """What the leader before us knew to be deleted."""
        self.tombstones.inherit(notes)

    def observe_kind(self, kind: str) -> None:
        """Something of this kind is, or was, there."""
        self.use_of(kind).set()

    def observe_rule(self, rule: Rule) -> list[Rule]:
        """Files a placement policy as it is now; returns what it and others in force were and are."""
        return self.rules.put(rule)

    def forget_rule(self, key: ObjectName) -> list[Rule]:
        """A placement policy is gone; returns what it and others in force were and are."""
        return self.rules.drop(key)

    def observe_quota(self, name: str, account: QuotaAccount | None) -> None:
        """Files a FederatedQuota, or forgets one that is gone."""
        if account is None:
            self.quotas.pop(name, None)
        else:
            self.quotas[name] = account
        self._bindings = None

    def observe_profile(self, name: str, profile: Mapping[str, Any] | None) -> None:
        """Files a RuntimeProfile (its object, its hash and the copy for members), or forgets one that is gone."""
        if profile is None:
            self.profiles.pop(name, None)
        else:
            self.profiles[name] = profile

    def observe_pause(self, pause: Pause | None) -> None:
        """There is a pause, or there is none."""
        self.pause = pause

    def observe_status(self, key: WorkloadKey, uid: str, obj: Mapping[str, Any]) -> None:
        """Takes the answer to our own status write, so that the next fold compares with what is there."""
        known = self.workloads.get(key)
        if (
            known is not None
            and known.uid == uid
            and version_number(known.resource_version) < version_number(obj["metadata"].get("resourceVersion", ""))
        ):
            self.observe_workload(
                dataclasses.replace(
                    known,
                    status=packing.packed(obj.get("status") or {}),
                    resource_version=obj["metadata"]["resourceVersion"],
                )
            )

    def observe_workload(self, new: Workload) -> None:
        """Files a workload as it is now. What its status records as done holds nothing from now on, whether we wrote
        that ourselves, or heard of it by a list or by the watch."""
        known = self.workloads.get(new.key)
        self.workloads[new.key] = new
        self._namespaces.setdefault(new.key.namespace, set()).add(new.key)
        if known is not None and known.uid != new.uid:
            self._forget_progress(known.uid, new.key)
        if new.verbs.unit is Unit.SHARDS and self.commitments.progressed(new.uid, new.progress().done):
            self.signals.freed()

    def forget_workload(self, key: WorkloadKey) -> None:
        """Forgets a workload that is gone from the host. Its decision may stay for a while: what it was done with
        then holds nothing still."""
        known = self.workloads.pop(key, None)
        self.evaluated.pop(key, None)
        self.former.pop(key, None)
        if known is not None:
            there = self._namespaces[key.namespace]
            there.discard(key)
            if not there:
                del self._namespaces[key.namespace]
            self._forget_progress(known.uid, key)

    def _forget_progress(self, uid: str, key: WorkloadKey) -> None:
        """Nobody needs it any more once both the workload and its decision are gone."""
        workload = self.workloads.get(key)
        gone = workload is None or workload.uid != uid
        if gone and all(record.workload_uid != uid for record in self.records_of(key)):
            self.commitments.progressed(uid, ())

    def observe_namespace(self, name: str, new: Enforced | None) -> None:
        """Files a namespace of the host, or forgets one that is gone."""
        levels = {space: level for space, level in self.levels.items() if space != name}
        if new is None:
            self.spaces.pop(name, None)
        else:
            self.spaces[name] = new
            if new.level is not pod_security.DEFAULT:
                levels[name] = new.level
        self.levels = levels

    def refusal(self, workload: Workload) -> Refused | None:
        """Why a workload may not run as it is written now; None when it may, or cannot be read."""
        if workload.ask is None:
            return None
        return permitted.refusal(workload.ask, self.levels, self.quotas.values())

    def refused_in(self, space: str) -> WorkloadKey | None:
        """A workload of a namespace that runs somewhere and may not, as it is written now; None where there is none."""
        placed = (one for key, one in self.workloads.items() if key.namespace == space and self.record_of(one))
        return next((one.key for one in placed if self.refusal(one) is not None), None)

    def workloads_in(self, namespace: str) -> list[WorkloadKey]:
        """The workloads of a namespace, in order; of all for ""."""
        return sorted(self._namespaces.get(namespace, ()) if namespace else self.workloads)

    def bindings(self) -> Bindings:
        """Which projects a namespace may speak for, by the quotas as they are."""
        if self._bindings is None:
            self._bindings = Bindings(self.quotas.values())
        return self._bindings

    def refuses_native(self, kind: str) -> bool:
        """Whether the host would run this kind itself, so that it must not be carried to members too."""
        return self.options.shared_host and registry.KINDS[kind].model is None

    def may_delete(self, slices: int, now_s: float) -> float:
        """Seconds to wait before so many slices may be deleted; 0.0 for now, and then they are counted. The one way to
        the budget: whoever deletes what no person took away asks here."""
        return self.deletions.take(slices, self._slices(), now_s)

    @property
    def deletions_a_minute(self) -> int:
        """How many slices may be deleted in a minute, as many as there are now."""
        return self.deletions.rate(self._slices())

    def _slices(self) -> int:
        return sum(member.slices_held for member in self.members.values())

    def next_seq(self) -> int:
        """The seq of the next decision: above every one that this host has issued. Raises ValueError when this term
        has none left; well before that an election is asked for."""
        found = seqs.make(self.term, self._counter + 1)
        self._counter += 1
        if seqs.COUNTER_MAX - self._counter == seqs.SPARE:
            self.signals.used_up()
        return found

    def holder(self, cluster: str) -> Member | None:
        """The member of this name, if decisions have to do with it: not one that was let go (`Member.let_go`)."""
        member = self.members.get(cluster)
        return None if member is None or member.let_go else member

    def hold_against(self, member: Member, subject: Hashable, found: Contradiction | None, now_s: float) -> None:
        """What a member said of a subject (a workload's key, or a kind) contradicts what it was given, or does not any
        more (None). Tells whoever cares when that changes the verdict on it."""
        if member.trust.note(subject, found, now_s):
            self.signals.member_changed(MemberChanged.DOUBTED, member)

    def heard_seq(self, member: Member, seq: int, now_s: float) -> None:
        """A slice or a report in a member bears this number: it moves the numbers of that member, and nobody else's."""
        if member.heard_seq(seq):
            message = (
                f"It shows numbers of decisions up to {member.highest_seq}, of {seqs.MAX} that there are: this host has"
                f" issued {self.issued}."
            )
            self.hold_against(member, NUMBERS, Contradiction(SEQ_NOT_ISSUED, message), now_s)

    def use_of(self, kind: str) -> asyncio.Event:
        """Set from the time at which the first workload, decision or slice of this kind is heard of."""
        return self.in_use.setdefault(kind, asyncio.Event())

    def record_of(self, workload: Workload) -> Record | None:
        """The decision of this very workload (not of an earlier one of the same name)."""
        for name in self.by_workload.get(workload.key, ()):  # hardly ever more than one
            record = self.records[name]
            if record.workload_uid == workload.uid:
                return record
        return None

    def records_of(self, key: WorkloadKey) -> list[Record]:
        return [self.records[name] for name in self.by_workload.get(key, ())]

    def read_record(self, obj: Mapping[str, Any]) -> Record:
        """A decision's row. Both the watch and the answer to our own write show every state that we make: what was
        read of it first is not read a second time."""
        meta = obj["metadata"]
        known = self.records.get((raw.text(meta, "namespace"), raw.text(meta, "name")))
        state = (meta.get("uid"), meta.get("resourceVersion"), raw.at(obj, "spec", "seq"))
        checked = known is not None and (known.sealed or not self.seals.known)
        if checked and known is not None and (known.uid, known.resource_version, known.seq) == state:
            return known
        return decisions.summarise(obj, self.seals)

    def observe_member(self, member: Member, answer: Mapping[str, Any]) -> None:
        """Files the answer to our own write of a MemberCluster, unless the watch told of something later while it
        was on its way: of that nobody would hear again."""
        before, after = (obj["metadata"]["resourceVersion"] for obj in (member.obj, answer))
        if version_number(after) >= version_number(before):
            member.obj = answer

    def observe_decision(self, namespace: str, new: Record) -> bool:
        """Files a record unless a newer one is there; tells whether it was news. A higher seq is newer, then the
        version."""
        name = interning.listed((namespace, new.name))  # as its store has it
        old = self.records.get(name)
        if not self._is_ours(old, new):
            self._refuse(name, old, new)
            return False
        self.refused.pop(name, None)
        if old is not None and old.uid == new.uid and _order(new) <= _order(old):
            if new.sealed and not old.sealed and _order(new) == _order(old):
                self.records[name] = new  # the same, now that the key is known
            return False
        self.records[name] = new
        self.use_of(new.key.kind).set()
        self._list(new.key, name)
        return True

    def _is_ours(self, old: Record | None, new: Record) -> bool:
        """Whether this is a decision of a hub of this fleet, as far as that can be told."""
        if self.ready and self.leading and new.seq > self.issued:
            return False  # while this hub leads, nobody else has issued any
        if not self.seals.known:
            return True
        if new.sealed:
            # Our own words of earlier are no decision of today: somebody deleted the decision and put them back.
            return old is None or old.uid == new.uid or not old.sealed or new.seq >= old.seq
        if self.seals.complete:
            return False
        # Of a release that sealed none: as it was when this hub began to lead.
        return not self.ready or (old is not None and not old.sealed and old.says(new))

    def _refuse(self, name: ObjectName, old: Record | None, new: Record) -> None:
        """Nobody obeys this decision: what stands is what the hub decided itself. What was read before the key was
        known counts for no more than this."""
        if old is not None and self.seals.complete and not (old.sealed or old.lost):
            self.forget_decision(*name, old.uid)
        known = self.refused.get(name)
        if known is None or (known.uid, known.resource_version) != (new.uid, new.resource_version):
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
        """What stands on the host under the name of this workload's decision, and is not the hub's."""
        if not self.refused:
            return None
        return self.refused.get((workload.key.namespace, decisions.name_of(workload.key, workload.uid)))

    def drop_refused(self, namespace: str, name: str, uid: str) -> None:
        """A decision that was refused is gone. What this hub had decided stands: it is to be written anew or, where its
        workload is gone, to be finalized without an object."""
        refused = self.refused.get((namespace, name))
        if refused is None or refused.uid != uid:
            return
        del self.refused[namespace, name]
        known = self.records.get((namespace, name))
        if known is not None and known.uid == uid:
            workload = self.workloads.get(known.key)
            self.records[namespace, name] = known.as_lost()
            if workload is None or workload.uid != known.workload_uid or workload.deleting:
                self.changed(Changed.ORPHANED, known.key)
        self.changed(Changed.LOST, refused.key)

    def lose_record(self, namespace: str, name: str, uid: str) -> bool:
        """The object of a decision is gone, and nobody here let go of it. What was decided stands: it is to be written
        anew or, where the workload is gone and has slices, to be finalized without an object. Tells whether
        that is so."""
        record = self.records.get((namespace, name))
        if record is None or record.uid != uid or name != decisions.name_of(record.key, record.workload_uid):
            return False
        workload = self.workloads.get(record.key)
        lives = workload is not None and workload.uid == record.workload_uid and not workload.deleting
        left = self.ready and self.leading and any(True for _ in self.slices_with_uid(record.key, record.workload_uid))
        if not (lives or left):
            return False
        self.records[namespace, name] = record.as_lost()
        if lives:
            log.warning("the decision %s/%s was deleted, and its workload lives: it is written anew", namespace, name)
            self.changed(Changed.LOST, record.key)
        else:
            self.changed(Changed.ORPHANED, record.key)
        return True

    def forget_decision(self, namespace: str, name: str, uid: str) -> Record | None:
        """Forgets a decision that is gone, if it is still the one with this uid, and what it held."""
        old = self.records.get((namespace, name))
        if old is None or old.uid != uid:
            return None
        del self.records[namespace, name]
        names = tuple(one for one in self.by_workload.get(old.key, ()) if one != (namespace, name))
        if names:
            self.by_workload[old.key] = names
        else:
            self.by_workload.pop(old.key, None)
        self.commitments.forget(old.workload_uid)
        self._forget_progress(old.workload_uid, old.key)
        return old

    def _list(self, key: WorkloadKey, name: ObjectName) -> None:
        known = self.by_workload.get(key, ())
        if name not in known:
            self.by_workload[key] = tuple(sorted((*known, name)))

    def observe_slice(self, cluster: str, key: WorkloadKey) -> None:
        """Something was heard of this object in this member."""
        self.use_of(key.kind).set()
        known = self.holders.get(key, ())
        if cluster not in known:
            self.holders[key] = interning.texts(sorted((*known, cluster)))

    def slices_of(self, key: WorkloadKey) -> dict[str, SliceSeen]:
        """The objects of this kind and name in all members, as last heard, in cluster order."""
        found: dict[str, SliceSeen] = {}
        holders = self.holders.get(key, ())
        for cluster in holders:
            member = self.members.get(cluster)
            if member is not None and (member.duplicate_of or member.let_go):
                continue
            seen = member.slice_of(key) if member is not None else None
            if seen is not None:
                found[cluster] = seen
            elif left := interning.texts(one for one in self.holders[key] if one != cluster):
                self.holders[key] = left
            else:
                del self.holders[key]
        return found

    def slices_with_uid(self, key: WorkloadKey, workload_uid: str) -> Iterator[SliceSeen]:
        """The slices of one workload, in cluster order; only those that this fleet wrote."""
        for seen in self.slices_of(key).values():
            if seen.ours(self.options.fleet) and seen.mark is not None and seen.mark.workload_uid == workload_uid:
                yield seen

    def want_shape(self, shape: PodShape) -> bool:
        """Notes that decisions need answers about this shape; tells whether that is new."""
        new = shape.id not in self.shapes
        self.shapes[shape.id] = shape
        self.shapes.move_to_end(shape.id)
        while len(self.shapes) > self.options.shapes_max:
            self.shapes.popitem(last=False)
        return new


def _order(record: Record) -> tuple[int, int]:
    version = record.facts.resource_version
    return record.seq, int(version) if version.isdigit() else 0
