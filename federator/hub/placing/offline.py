"""The scheduling cycle on objects instead of a live fleet: for `place` and `explain`, and for the
hub's answers to them.

Reads plain objects from an API server or a file; PlacementDecisions are the present state.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from federator.api import federatedquota, membercluster, raw, runtimeprofile
from federator.api.placement import placementdecision, placementinvariant
from federator.hub.cache import hostnames, policying
from federator.hub.options import HubOptions
from federator.hub.records import decisions as records
from federator.hub.records import workloads
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.model import names
from federator.model.accounts import QuotaAccount
from federator.model.ask import Admitted, Ask, Former, FormerCopies, Support
from federator.model.decision import Decision, Reason
from federator.model.fleet import Commitment, FleetSnapshot
from federator.model.kubernetes import pod_security, quantity
from federator.model.kubernetes.pod_security import Level
from federator.model.names import WorkloadKey
from federator.model.neighbours import Peers
from federator.model.rules.invariant import Invariant
from federator.placement.policy import hostclaims, permitted, policies
from federator.placement.policy.hostclaims import HostClaims
from federator.placement.policy.policies import Policies
from federator.placement.room.commitments import Commitments
from federator.placement.room.emptied import EmptyFleet
from federator.placement.selection import candidates
from federator.scheduling import cycle, optimality
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.optimality import Gap
from federator.scheduling.queue import Queue
from federator.scheduling.queueing_hints import FOR_ROOM, Waiting
from federator.status import reasons

NAMESPACE = ("v1", "Namespace")
"""Of its objects the Pod Security level counts."""
Id = tuple[str, str, str]
"""Kind, namespace and name of an object."""

ASKS_MAX: Final = 1 << 17
"""Asks that a situation remembers."""
_CAPS: Final[Mapping[str, int]] = {Reason.UNSCHEDULABLE: 0, Reason.CONFLICT: -1}
"""Verdicts of clusters that take no copy, and the caps that they come from."""


def id_of(obj: Mapping[str, Any]) -> Id:
    meta = obj["metadata"]
    return (str(obj["kind"]), str(meta.get("namespace") or ""), str(meta["name"]))


@dataclass(slots=True)
class Situation:
    """Everything that decisions depend on, from objects."""

    snapshot: FleetSnapshot
    rules: Policies
    workloads: MutableMapping[WorkloadKey, Workload]
    records: MutableMapping[WorkloadKey, Record]
    commitments: Commitments = field(default_factory=Commitments)
    objects: dict[Id, Mapping[str, Any]] = field(default_factory=dict)
    """The objects it was made from."""
    standings: dict[WorkloadKey, Standing] = field(default_factory=dict)
    """From the leading hub's memory; all others come from the objects."""
    for_room: tuple[Ask, ...] | None = None
    """Those that hold nothing and wait for room, from its memory; None: by the objects."""
    jobs: tuple[tuple[Workload, Record], ...] | None = None
    """All jobs of the host with their decisions, from its memory; None: by the objects."""
    peers: Peers | None = None
    """Workloads for terms about other workloads, from its memory; None: by the objects."""
    rivals: Mapping[str, str] | None = None
    """Host names of the one workload that other namespaces have, from its memory (`HostNames`);
    None: by the objects."""

    stands: frozenset[WorkloadKey] = frozenset()
    """Workloads with decisions that are known to stand (`hub.snapshot.prepared`)."""

    last_seq: int | None = None
    """The highest number of a decision; None: by the records."""
    empty: EmptyFleet = field(default_factory=EmptyFleet)
    """The same clusters, empty."""
    _claims: HostClaims | None = None
    """Of host names, by the objects."""
    _bindings: tuple[object, policies.Bindings] | None = None
    """Of these quotas of the snapshot."""
    _asks: policying.Asks = field(default_factory=lambda: policying.Asks(most=ASKS_MAX))

    def ask_of(self, workload: Workload) -> Ask | None:
        """The workload's ask under the policies in force; None when it cannot be read."""
        return self._asks.of(workload, self.rules, self.bindings())

    def bindings(self) -> policies.Bindings:
        """Which projects a namespace may use, by the present quotas."""
        if self._bindings is None or self._bindings[0] is not self.snapshot.quotas:
            self._bindings = self.snapshot.quotas, policies.Bindings(self.snapshot.quotas)
        return self._bindings[1]

    def change_quotas(self, quotas: Iterable[QuotaAccount]) -> None:
        """Puts quotas in force, of which nothing that asks read differs from the present ones."""
        bindings = self.bindings()
        self.snapshot = replace(self.snapshot, quotas=tuple(quotas))
        self._bindings = self.snapshot.quotas, bindings

    def with_peers(self, snapshot: FleetSnapshot) -> FleetSnapshot:
        """The snapshot with the workloads for terms about other workloads."""
        peers = self.peers
        if peers is None:
            workloads_in = policying.by_namespace(self.workloads.values())
            peers = policying.nearby(self.rules, self.bindings(), workloads_in)
        return replace(snapshot, peers=peers) if peers is not snapshot.peers else snapshot

    def share_asks(self, of: "Situation") -> None:
        """Takes over the policies and all asks of a situation with the same quotas. What asks for
        something else is another workload."""
        self.rules, self._bindings, self._asks = of.rules, of._bindings, of._asks.copy()

    def keep_asks(self, of: "Situation", unless: Callable[[Workload], bool]) -> None:
        """Takes over the asks that `of` has computed, of the workloads that are the same here and
        for which the policies that differ say nothing (`unless`)."""
        before = of.bindings()
        if self.snapshot.quotas is of.snapshot.quotas:
            self._bindings = of._bindings
        now = self.bindings()
        for key, workload in self.workloads.items():
            if workload is of.workloads.get(key) and not unless(workload):
                ask = policying.rebound(workload, of.ask_of(workload), self.rules, before, now)
                self._asks.keep(workload, self.rules, now, ask)

    def profile_of(self, name: str) -> Mapping[str, Any] | None:
        return self.objects.get(("RuntimeProfile", "", name))

    def standing(self, workload: Workload) -> Standing:
        """What a workload, or an edit of it, has. An edit is judged as after its roll-out: caps are
        about the present pods, and the quota is charged for these until they are replaced."""
        standing = self.standings.get(workload.key)
        if standing is None:
            standing = self._recorded(workload)
        present = self.workloads.get(workload.key)
        if present is not None and present.content != workload.content:
            return replace(standing, capped={}, replaced=True)
        return standing

    def _recorded(self, workload: Workload) -> Standing:
        """The standing according to the host's objects."""
        record = self.records.get(workload.key)
        admitted = record.terms.charged if record is not None else None
        return Standing(
            held=records.holdings(record.shares, record) if record is not None else (),
            recorded=record.recorded if record is not None else None,
            admitted=admitted,
            support=self._support(workload, admitted),
            replaced=False,  # only the hub hears of that, and charges less then
            capped=self._capped(workload),
            done=workload.progress().done,
            ended=workload.progress().ending is not None,
            may_run=record.facts.may_run if record is not None else {},
        )

    def _support(self, workload: Workload, admitted: Admitted | None) -> Support | None:
        """Its RuntimeProfile, if that is held back. Which version pods have, only the hub hears."""
        record, ask = self.records.get(workload.key), self.ask_of(workload)
        if record is None or admitted is None or self._bindings is None:
            return None
        same = admitted.generation == workload.generation and workload.profile
        if not same and record.terms.held_profile != workload.profile:
            return None
        if self.profile_of(workload.profile) is None:
            return None
        return policying.support(workload, ask, admitted, self._bindings[1])

    def entry(self, workload: Workload, ask: Ask, snapshot: FleetSnapshot) -> Entry:
        """The cycle's input for a workload. An edit may move any number of replicas at once
        here."""
        refused = self.refusal(ask, snapshot)
        return Entry(ask=ask, standing=self.standing(workload), refused=refused)

    def refusal(self, ask: Ask, snapshot: FleetSnapshot) -> permitted.NotPermitted | None:
        """Why a workload may not run as it is written; None when it may."""
        refused = permitted.refusal(ask, snapshot.levels, snapshot.quotas)
        return refused or self._taken(ask, snapshot)

    def _taken(self, ask: Ask, snapshot: FleetSnapshot) -> permitted.NotPermitted | None:
        """Why it may not run, if a workload of another namespace has one of its host names. A name
        that it does not have yet is claimed last."""
        hosts = ask.privileges.hosts
        if not hosts:
            return None
        if self.rivals is not None:
            taken = hostclaims.taken_by(hosts, lambda host: (self.rivals or {}).get(host, ""))
        else:
            taken = self._taken_by_objects(ask, snapshot)
        return permitted.taken(*taken) if taken is not None else None

    def _taken_by_objects(self, ask: Ask, snapshot: FleetSnapshot) -> tuple[str, str, str] | None:
        if self._claims is None:
            self._claims = HostClaims()
            for number, workload in enumerate(self.workloads.values()):
                self._claim(workload.ask, number)
        claims = self._claims

        def rank(key: WorkloadKey) -> int | None:
            other = self.workloads.get(key)
            if other is None or other.ask is None:
                return None
            if key != ask.key and permitted.refusal(other.ask, snapshot.levels, snapshot.quotas):
                return None
            return hostnames.rank(other, self.records.get(key))

        new = [host for _, host in ask.privileges.hosts if claims.age(host, ask.key) is None]
        for host in new:
            claims.put(host, ask.key, (math.inf, 0))
        taken = hostclaims.taken_by(
            ask.privileges.hosts, lambda host: claims.rival(host, ask.key, rank)
        )
        for host in new:
            claims.drop(host, ask.key)
        return taken

    def _claim(self, ask: Ask | None, number: int) -> None:
        """Objects of files without a time of creation are created after all others."""
        if ask is not None and self._claims is not None:
            for _, host in ask.privileges.hosts:
                self._claims.put(host, ask.key, (ask.created_s or math.inf, number))

    def decide(self, entries: Sequence[Entry], snapshot: FleetSnapshot) -> Cycle:
        """What the hub would decide now. Nothing is charged."""
        last = self.last_seq
        if last is None:
            last = max((record.seq for record in self.records.values()), default=0)
        numbers = itertools.count(last + 1)
        made = cycle.run(
            entries,
            self._queue(),
            self.with_peers(snapshot),
            self.commitments,
            seq=numbers.__next__,
            find=self._other,
        )
        for bug in made.failed.values():
            raise bug
        return made

    def _queue(self) -> Queue:
        """The queue with the workloads that may get reserved room."""
        queue = Queue()
        if not any(account.backfills for account in self.snapshot.quotas):
            return queue
        if self.for_room is None:
            asks = (
                self.ask_of(self.workloads[key])
                for key, record in self.records.items()
                if record.terms.reason in FOR_ROOM and not record.shares
            )
            self.for_room = tuple(ask for ask in asks if ask is not None)
        waiting = {
            ask.key: Waiting(ask.key, ask.project, Reason.INSUFFICIENT_CAPACITY, ask=ask)
            for ask in self.for_room
        }
        queue.settle(waiting, waiting)
        return queue

    def _other(self, key: WorkloadKey) -> Entry | None:
        """The entry of a workload that may have to leave for another."""
        workload = self.workloads.get(key)
        ask = self.ask_of(workload) if workload is not None else None
        return None if workload is None or ask is None else self.entry(workload, ask, self.snapshot)

    def name_of(self, key: WorkloadKey) -> str:
        """Namespace and name, by which its owner knows it: of what was converted, those before."""
        obj = self.objects.get((key.kind, key.namespace, key.name), {})
        before = raw.text(obj, "metadata", "annotations", names.CONVERTED_FROM)
        return f"{key.namespace}/{before or key.name}"

    def flavor(self, ask: Ask, clusters: Sequence[str]) -> str:
        """The domains of its account in which all these clusters are, for what it requests; ""
        where the account has none."""
        tree = self.commitments.tree(self.snapshot.quotas)
        charged = tree.charged(ask.project)
        if len(charged) != 1 or not clusters:
            return ""
        views = [
            self.snapshot.clusters[name] for name in clusters if name in self.snapshot.clusters
        ]
        domains = [
            domain.name
            for domain in tree.accounts[charged[0]].domains
            if any(ask.shape.requests[name] for name in domain.limited.get(ask.tier, ()))
            and all(domain.selector.matches(view.labels) for view in views)
        ]
        return ",".join(domains)

    def decide_all(self) -> list[tuple[Ask, Decision]]:
        """Places every workload in one cycle, and charges the result."""
        return self._charged(self._decide_all())

    def decide_batch(self) -> tuple[list[tuple[Ask, Decision]], Gap]:
        """As `decide_all`, with how far the batch is from the best placement."""
        made = self._decide_all()
        gap = optimality.of_cycle(made.decided, self.commitments.open(self.snapshot)).gap()
        return self._charged(made), gap

    def _decide_all(self) -> Cycle:
        asked = [
            (workload, ask)
            for workload in self.workloads.values()
            if (ask := self.ask_of(workload)) is not None
        ]
        return self.decide(
            [self.entry(workload, ask, self.snapshot) for workload, ask in asked], self.snapshot
        )

    def _charged(self, made: Cycle) -> list[tuple[Ask, Decision]]:
        """The decisions by key, once they are charged."""
        for decided in made.decided:
            self.commitments.record(decided.after)
        return sorted(
            ((decided.entry.charged, decided.decision) for decided in made.decided),
            key=lambda pair: pair[0].key,
        )

    def _capped(self, workload: Workload) -> Mapping[str, int]:
        """How many replicas some clusters' schedulers could bind lately, from the verdicts of the
        decision in force: while it is younger than a cap lasts, or the cluster still reports it."""
        record = self.records.get(workload.key)
        decision = (
            self.objects.get(("PlacementDecision", workload.key.namespace, record.name))
            if record
            else None
        )
        if record is None or decision is None:
            return {}
        caps = {
            raw.text(row, "cluster"): raw.integer(row, "fit")
            for row in raw.objects(decision, "spec", "verdicts", "chosen")
            if candidates.CAPPED in raw.text(row, "message")
        }
        for group in raw.objects(decision, "spec", "verdicts", "rejected"):
            if (most := _CAPS.get(raw.text(group, "reason"))) is not None:
                caps |= dict.fromkeys(raw.texts(group, "clusters"), most)
        if not caps:
            return caps
        recent = self.snapshot.as_of - record.facts.as_of < HubOptions().unschedulable_decay_s
        waiting = {
            raw.text(row, "cluster")
            for row in raw.objects(workload.live_status(), "clusterStatuses")
            if raw.text(row, "reason") == reasons.UNSCHEDULABLE
        }
        return {name: most for name, most in caps.items() if recent or name in waiting or most < 0}


def as_object(ask: Ask, decision: Decision, cause: str, *, content: bytes = b"") -> dict[str, Any]:
    """A decision as the hub would write it. `cause`: what led to it, in a few words. `content`: the
    digest of what is charged."""
    kind, short = registry.KINDS["PlacementDecision"], registry.KINDS[ask.key.kind].short_names[0]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": names.decision_name(short, ask.key.name, ask.uid),
            "namespace": ask.key.namespace,
        },
        "spec": placementdecision.to_spec(decision, (cause,), ask, content=content),
    }


def read(
    objs: Iterable[Mapping[str, Any]], as_of: float, *, others: Iterable[Record] = ()
) -> Situation:
    """Sorts objects into a situation; kinds that placing does not read are left out. `others`:
    decisions of which the objects are not kept."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    levels: dict[str, Level] = {}
    for obj in objs:
        row = registry.kind_of(obj)
        if (obj.get("apiVersion"), obj.get("kind")) == NAMESPACE:
            level = pod_security.enforced(raw.mapping(obj, "metadata", "labels")).level
            levels[raw.text(obj, "metadata", "name")] = level
        elif row is not None:
            by_kind.setdefault(row.kind, []).append(_with_uid(obj))
    profiles = {obj["metadata"]["name"]: obj for obj in by_kind.get("RuntimeProfile", ())}
    clusters = {
        view.name: view
        for obj in by_kind.get("MemberCluster", ())
        if (view := membercluster.to_view(obj, as_of))
    }
    rules = Policies(
        policying.rule_of(kind, obj)
        for kind in ("ClusterPlacementPolicy", "PlacementPolicy")
        for obj in by_kind.get(kind, ())
    )
    found_workloads: dict[WorkloadKey, Workload] = {}
    for kind in registry.WORKLOADS.values():
        for obj in by_kind.get(kind.kind, ()):
            assert kind.verbs is not None
            profile = profiles.get(kind.verbs.profile(obj))
            former = tuple(runtimeprofile.versions(profile).items()) if profile is not None else ()
            summary = workloads.summarise(kind.kind, obj, profile, former)
            found_workloads[summary.key] = summary
    situation = Situation(
        snapshot=FleetSnapshot(
            as_of=as_of,
            clusters=dict(sorted(clusters.items())),
            quotas=tuple(
                federatedquota.to_account(obj) for obj in by_kind.get("FederatedQuota", ())
            ),
            levels=levels,
            invariants=invariants_of(by_kind.get(placementinvariant.KIND, ())),
        ),
        rules=rules,
        workloads=found_workloads,
        records={},
        objects={id_of(obj): obj for group in by_kind.values() for obj in group},
    )
    decided = map(records.summarise, by_kind.get("PlacementDecision", ()))
    _book(situation, (*decided, *others))
    for obj in by_kind.get("FederatedQuota", ()):
        _book_terminating(situation, obj)
    return situation


def invariants_of(objs: Iterable[Mapping[str, Any]]) -> tuple[Invariant, ...]:
    """The PlacementInvariants among the objects, by name."""
    return tuple(sorted(map(placementinvariant.to_invariant, objs), key=lambda each: each.name))


def _book_terminating(situation: Situation, account: Mapping[str, Any]) -> None:
    """Charges an account for pods beyond decisions, as its status says: only the hub reads what
    members report."""
    projects = raw.texts(raw.mapping(account, "spec"), "projects")
    amounts = {
        raw.tier(row, "tier"): quantity.vector(used)
        for row in raw.objects(account, "status", "usage")
        if (used := raw.mapping(row, "terminating"))
    }
    held = (FormerCopies("", 1),)
    charged = tuple(Former(projects[0], tier, used, held) for tier, used in amounts.items())
    if projects and charged:
        uid = f"FederatedQuota {raw.text(account, 'metadata', 'name')}"
        situation.commitments.charge_beyond(uid, charged)


def _book(situation: Situation, decisions: Iterable[Record]) -> None:
    """Assigns the decisions to their workloads and charges them, also those of workloads that are
    missing."""
    for subject in situation.workloads.values():
        situation.commitments.progressed(subject.uid, subject.progress().done)
    for record in decisions:
        workload = situation.workloads.get(record.key)
        ours = workload is not None and (
            not record.workload_uid or record.workload_uid == workload.uid
        )
        if workload is not None and ours:
            situation.records[record.key] = record
        of = workload.ask if workload is not None and ours else None
        if (charged := record.commitment(of)) is not None:
            situation.commitments.record(charged)
        elif workload is not None and ours and workload.ask is not None:
            began_s = record.facts.as_of
            situation.commitments.record(
                Commitment.of(workload.ask, record.shares, began_s=began_s)
            )


def _with_uid(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Objects from files have no uid: their name is used, so that ties break the same way in every
    run."""
    meta = obj["metadata"]
    if meta.get("uid"):
        return obj
    return {
        **obj,
        "metadata": {**meta, "uid": f"{obj['kind']}/{meta.get('namespace', '')}/{meta['name']}"},
    }
