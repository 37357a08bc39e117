"""The hub's view of PlacementDecisions: one record per object, filed under its workload or among
the tombstones.

A decision is written before anything is sent to a member, and outlives its workload until every
member is known to be empty. Records come from the reflector and, sooner, from the answers to our
own writes; the higher seq wins, then the newer version.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from federator.api import raw
from federator.api.placement import decisionfacts
from federator.api.placement.decisionfacts import DecisionFacts, Terms
from federator.hub.records.seals import Seals, author
from federator.kinds import registry
from federator.model import names, plaintext
from federator.model.ask import Ask, Unit
from federator.model.decision import AT_ONCE, REFUSALS, TAKES, Decision, Share
from federator.model.fleet import Commitment, Holding, charged_shape
from federator.model.names import (
    DECISION_FINALIZER,
    FORCE_FORGET_ANNOTATION,
    REBALANCE_ANNOTATION,
    ObjectName,
    WorkloadKey,
)
from federator.model.quickly import quickly
from federator.model.table import Table
from federator.scheduling.entry import Recorded

NOBODY: frozenset[str] = frozenset()
STRUCK = "0" * 16
"""The hash of the inputs of a decision that has none: it is made again as soon as it may
be."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the object of a decision stands on the host: most stand alike, and share one."""

    finalizing: bool
    """Still carries our finalizer."""
    given_up: frozenset[str] = NOBODY
    """Clusters that its deletion shall not wait for, as an operator said."""
    rebalance: str = ""
    """Time and author of the last request for a rebalance."""
    sealed: bool = False
    """Whether it bears the seal of this fleet's hubs."""
    author: str = ""
    """The last writer according to the host, if the decision has no seal and should have one."""
    owned: bool = False
    """It has an owner reference to its workload."""
    orphaned: bool = False
    """The garbage collector, or the hub in its place, has removed that reference: what members hold
    stays there."""


@dataclass(frozen=True, slots=True)
class Record:
    """One PlacementDecision as last heard."""

    facts: DecisionFacts
    standing: Standing

    @property
    def finalizing(self) -> bool:
        return self.standing.finalizing

    @property
    def given_up(self) -> frozenset[str]:
        return self.standing.given_up

    @property
    def rebalance(self) -> str:
        return self.standing.rebalance

    @property
    def sealed(self) -> bool:
        return self.standing.sealed

    @property
    def author(self) -> str:
        return self.standing.author

    @property
    def owned(self) -> bool:
        return self.standing.owned

    @property
    def orphaned(self) -> bool:
        return self.standing.orphaned

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def uid(self) -> str:
        return self.facts.uid

    @property
    def resource_version(self) -> str:
        return self.facts.resource_version

    @property
    def key(self) -> WorkloadKey:
        return self.facts.key

    @property
    def workload_uid(self) -> str:
        return self.facts.workload_uid

    @property
    def seq(self) -> int:
        return self.facts.seq

    @property
    def terms(self) -> Terms:
        return self.facts.terms

    @property
    def shares(self) -> tuple[Share, ...]:
        return self.facts.shares

    @property
    def deleting(self) -> bool:
        return self.facts.deleting

    @property
    def clusters(self) -> frozenset[str]:
        """Every cluster that may hold something of this workload."""
        given = frozenset(share.cluster for share in self.facts.portions)
        return given | frozenset(self.terms.leaving)

    @property
    def lost(self) -> bool:
        """Its object is gone from the host although it stands: it is to be written anew."""
        return not self.facts.uid

    def as_lost(self) -> "Record":
        """The same without an object that could be changed."""
        return replace(self, facts=self.facts.in_object("", ""))

    def as_orphaned(self) -> "Record":
        """The same after its reference to its workload was removed."""
        return replace(self, standing=replace(self.standing, orphaned=True))

    def share_of(self, cluster: str) -> Share | None:
        return self.facts.share_of(cluster)

    def mark(self, cluster: str) -> int:
        """How far this cluster's numbers go by it: a slice there with a higher seq is of a decision
        it knows not."""
        share = self.share_of(cluster)
        return share.seq if share is not None else max(self.seq, self.facts.marks.get(cluster, 0))

    def had(self, cluster: str) -> Share | None:
        """What a cluster was given by the decisions before this one, beyond its share."""
        return next((given for given in self.facts.given if given.cluster == cluster), None)

    @property
    def recorded(self) -> Recorded:
        """What the next decision builds on."""
        terms = self.terms
        return Recorded(
            seq=self.seq,
            inputs_hash=self.facts.inputs_hash,
            shares=self.shares,
            wanted=terms.wanted,
            charged=terms.charged,
            tolerated=terms.tolerated,
            per_cluster=terms.per_cluster,
            surplus=terms.surplus,
            to_move=terms.to_move,
            blocks=self.facts.blocks,
            rebalance=self.rebalance != terms.rebalanced,
            preempted=terms.preempted,
        )

    def says(self, other: "Record") -> bool:
        """Whether another state of the same decision says the same."""
        version, deleting = self.resource_version, self.deleting
        return other.facts.in_object(other.uid, version, deleting=deleting) == self.facts

    def commitment(self, ask: Ask | None = None) -> Commitment | None:
        """What it takes from capacity and quota; None for one that was written without a charge.
        `ask`: of its workload, where that is known."""
        terms = self.terms
        if terms.shape is None:
            return None
        facts, shares = self.facts, self.shares
        return _commitment(
            uid=facts.workload_uid,
            key=facts.key,
            project=terms.project,
            namespace=facts.key.namespace,
            tier=terms.tier,
            shape=charged_shape(terms.shape, shares),
            holdings=shares,
            priority=(terms.charged.priority or 0) if terms.charged is not None else 0,
            created_s=ask.created_s if ask is not None else 0.0,
            whole=ask.in_one if ask is not None else terms.unit is Unit.SHARDS,
            run_s=ask.run_s if ask is not None else None,
            began_s=facts.as_of,
            former=terms.charged.former if terms.charged is not None else (),
        )


_commitment, quick_holding = quickly(Commitment), quickly(Holding)


def holdings(shares: Sequence[Share], record: Record | None) -> tuple[Holding, ...]:
    """Shares as what is held, with what `record` says of the taints that they stayed with."""
    tolerated = record.terms.tolerated if record is not None else {}
    return tuple(
        quick_holding(
            share.cluster,
            share.count,
            share.slots,
            share.seq,
            share.ranges,
            tolerated=tolerated.get(share.cluster, ()),
            nodes=share.nodes,
            pods=share.pods,
        )
        for share in shares
    )


def summarise(obj: Mapping[str, Any], seals: Seals | None = None) -> Record:
    """Reads a PlacementDecision; total on whatever the host may hold. `seals`: by what the hub's
    own are known."""
    sealed = seals is not None and seals.is_ours(obj)
    finalizers = obj["metadata"].get("finalizers") or ()
    annotations = raw.text_map(obj["metadata"], "annotations")
    facts = decisionfacts.decision_facts(obj)
    owned = any(
        owner.get("uid") == facts.workload_uid
        for owner in raw.objects(obj["metadata"], "ownerReferences")
    )
    was_owned = names.OWNED_LABEL in raw.mapping(obj["metadata"], "labels")
    named = annotations.get(FORCE_FORGET_ANNOTATION, "")
    given_up = (
        frozenset(part for text in named.split(",") if (part := text.strip())) if named else NOBODY
    )
    standing = _standing(
        DECISION_FINALIZER in finalizers,
        given_up,
        annotations.get(REBALANCE_ANNOTATION, ""),
        sealed,
        "" if sealed or seals is None or not seals.usable else author(obj),
        owned,
        was_owned and not owned,
    )
    return _record(facts, standing)


def unsigned(facts: DecisionFacts, rebalance: str = "") -> Record:
    """The record of an object with nothing of a hub's but its spec. `rebalance`: the last request
    for one."""
    return _record(facts, _standing(False, NOBODY, rebalance, False, "", False, False))


_record = quickly(Record)
_standing = lru_cache(maxsize=1024)(Standing)
_CHARGED: Final = ("workload", "charge", "unit", "shares", "asOf")


def charged_part(obj: Mapping[str, Any]) -> dict[str, Any]:
    """What of a PlacementDecision its commitment depends on (`Record.commitment`), which takes half
    as long to read."""
    meta, spec = obj["metadata"], raw.mapping(obj, "spec")
    kept = {name: spec[name] for name in _CHARGED if name in spec}
    return {"metadata": {"namespace": meta.get("namespace", "")}, "spec": kept}


def name_of(key: WorkloadKey, uid: str) -> str:
    """The name of a workload's decision."""
    return names.decision_name(registry.KINDS[key.kind].short_names[0], key.name, uid)


def _then(message: str) -> str:
    """The part of a decision's message about replicas that move later: it changes with the
    policy."""
    return message.partition(" are still to move")[2]


def _takes(message: str) -> str:
    """The part of a decision's message about its victims: the time when they leave may change."""
    return message.partition(TAKES)[2]


def _charges_alike(record: Record, decision: Decision) -> bool:
    """Whether former accounts are charged as before, and the charge for what stays in force while
    an edit is held back is unchanged. The hash of the inputs does not cover a RuntimeProfile that
    only the former spec names."""
    charged, under = record.terms.charged, decision.under
    former = under.former if under is not None else ()
    if charged is not None and charged.former != former:
        return False
    if not decision.held_back or charged is None or under is None:
        return True
    return charged.shape.requests == under.shape.requests


def left(record: Record | None, decision: Decision) -> bool:
    """Whether copies leave for another workload by this very decision."""
    before = record.terms.preempted if record is not None else None
    return decision.preempted is not None and decision.preempted != before


def says(record: Record, decision: Decision) -> bool:
    """Whether the record already says what a new decision does: writing it would change nothing
    that anybody reads. Figures in its message move with the fleet's room and are not worth a write
    (`explain` computes them anew)."""
    return (
        record.facts.inputs_hash == decision.inputs_hash
        and record.shares == decision.shares
        and record.facts.blocks == decision.blocks
        and record.facts.may_run == decision.may_run
        and record.terms.shortfall == decision.shortfall
        and record.terms.held == decision.held
        and record.terms.held_back == decision.held_back
        and record.terms.held_profile == decision.held_profile
        and _charges_alike(record, decision)
        and record.terms.to_move == decision.to_move
        and _then(record.terms.message) == _then(decision.message)
        and _takes(record.terms.message) == _takes(decision.message)
        and (AT_ONCE in record.terms.message) == (AT_ONCE in decision.message)
        and record.terms.tolerated == decision.tolerated
        and record.terms.per_cluster == decision.per_cluster
        and record.terms.surplus == decision.surplus
        and record.terms.preempted == decision.preempted
        and (record.rebalance == record.terms.rebalanced or bool(decision.to_move or decision.held))
        and record.terms.reason is decision.reason
        and (
            # which ordinals hold, and why, is told nowhere else
            (decision.reason not in REFUSALS and not (decision.blocks and decision.held))
            or record.terms.message == plaintext.clipped(decision.message)
        )
    )


class HeldProfiles:
    """Which decisions keep a former version of which RuntimeProfile. `on_changed` listeners get the
    name of a profile when its count or content has changed."""

    def __init__(self) -> None:
        self.on_changed: list[Callable[[str], None]] = []
        self._of: dict[ObjectName, str] = {}
        self._counts: dict[str, int] = {}

    def note(self, decision: ObjectName, profile: str) -> None:
        """A decision holds this profile back; "" for none."""
        before = self._of.pop(decision, "")
        if profile:
            self._of[decision] = profile
        if before == profile:
            return
        for name, more in ((before, -1), (profile, 1)):
            if name:
                self._counts[name] = self._counts.get(name, 0) + more
                self.changed(name)

    def changed(self, profile: str) -> None:
        """Calls the listeners."""
        for listener in self.on_changed:
            listener(profile)

    def count(self, profile: str) -> int:
        """Decisions that keep a former version of this profile."""
        return self._counts.get(profile, 0)

    def counts(self) -> dict[str, int]:
        """Profile -> decisions that keep a former version of it."""
        return {name: count for name, count in self._counts.items() if count}

    def first(self, profile: str) -> ObjectName | None:
        """The first of these decisions by namespace and name."""
        return min((which for which, name in self._of.items() if name == profile), default=None)


class ByWorkload:
    """The names of the decisions of each workload; iterated, it gives the workloads that have any.

    Of several the second and later ones are kept apart: hardly a workload has them (those of
    earlier ones of its name), and a tuple around each single name would cost more than the name.
    """

    __slots__ = ("_first", "_others")

    def __init__(self) -> None:
        self._first: Table[WorkloadKey, ObjectName] = Table()
        self._others: dict[WorkloadKey, tuple[ObjectName, ...]] = {}

    def names(self, key: WorkloadKey) -> tuple[ObjectName, ...]:
        """Of a workload's decisions, sorted."""
        first = self._first.get(key)
        if first is None:
            return ()
        return (first, *self._others.get(key, ())) if self._others else (first,)

    def add(self, key: WorkloadKey, name: ObjectName) -> None:
        """Does nothing for a name that it has."""
        if (known := self.names(key)) and name not in known:
            self._set(key, (*known, name))
        elif not known:
            self._first[key] = name

    def remove(self, key: WorkloadKey, name: ObjectName) -> None:
        """Does nothing for a name that it does not have."""
        self._set(key, [other for other in self.names(key) if other != name])

    def _set(self, key: WorkloadKey, listed: Iterable[ObjectName]) -> None:
        self._first.pop(key, None)
        self._others.pop(key, None)
        match sorted(listed):
            case [first]:
                self._first[key] = first
            case [first, *others]:
                self._first[key], self._others[key] = first, tuple(others)

    def __iter__(self) -> Iterator[WorkloadKey]:
        return iter(self._first)

    def __contains__(self, key: object) -> bool:
        return key in self._first
