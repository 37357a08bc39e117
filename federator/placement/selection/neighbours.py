"""Affinity and anti-affinity between workloads of a namespace, for one decision.

Where a workload is follows from its last decision: of this cycle where it has been decided on, else
from the commitments. A workload never counts for its own terms. Required terms keep new copies
away; copies that run stay, as in Kubernetes (IgnoredDuringExecution). The required anti-affinity of
another workload holds for this one too, whatever its own policy says.

A preemptor that is nominated to clusters (`Ledger.nominate`) keeps others of its tier and of lower
ones away from there as if it had copies, but draws none. The scheduler of Kubernetes counts the
pods that it has nominated to a node in the same way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from federator.model.ask import Ask, Tier
from federator.model.fleet import ClusterView, copies_of
from federator.model.neighbours import NOBODY, Around, Peer, WorkloadTerm
from federator.placement.room.ledger import Ledger
from federator.placement.selection import filters

Gone: TypeAlias = Mapping[str, Mapping[str, int]]
"""uid -> cluster -> copies that leave there."""
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
_RANK: Final = {tier: rank for rank, tier in enumerate(Tier)}
_KEPT: Final = 64
"""So many asks of one ledger are remembered with what terms say: a decision asks several times."""


def resolved(ask: Ask, ledger: Ledger) -> Ask:
    """The ask with what terms say of the clusters in its policy (`Policy.around`)."""
    snapshot = ledger.snapshot
    if snapshot.peers is NOBODY and not ask.policy.workloads:
        return ask
    kept = ledger.resolved
    before = kept.get(ask.uid)
    if before is not None and before[1] == ledger.holdings_version and before[0] is ask:
        return before[2]
    around = _Judge(ask, ledger, snapshot.peers(ask.key.namespace)).around()
    made = ask if around is None else replace(ask, policy=replace(ask.policy, around=around))
    if len(kept) >= _KEPT:
        kept.clear()
    kept[ask.uid] = ask, ledger.holdings_version, made
    return made


def followed(ask: Ask, ledger: Ledger) -> frozenset[str]:
    """The uids of the workloads with copies that its required affinity selects."""
    if not ask.policy.workloads:
        return frozenset()
    judge = _Judge(ask, ledger, ledger.snapshot.peers(ask.key.namespace))
    return frozenset(
        peer.uid
        for term in judge.near_terms()
        for peer in judge.selected(term)
        if ledger.neighbour(peer.uid) is not None
    )


def refused_without(ask: Ask, ledger: Ledger, gone: Gone) -> Mapping[str, str]:
    """Cluster -> why its required affinity refuses it when these copies have left."""
    judge = _Judge(ask, ledger, ledger.snapshot.peers(ask.key.namespace), gone)
    refused: dict[str, str] = {}
    for term in judge.near_terms():
        judge.keep_near(term, refused)
    return refused


@dataclass(frozen=True, slots=True)
class _Judge:
    """Judges all clusters for one workload."""

    ask: Ask
    ledger: Ledger
    peers: Sequence[Peer]
    gone: Gone = field(default_factory=dict)
    """Counts as gone."""

    def around(self) -> Around | None:
        """None where no term says anything of any cluster."""
        ask, terms = self.ask, self.ask.policy.workloads
        refused: dict[str, str] = {}
        met: set[tuple[str, str]] = set()
        for term in terms:
            if term.weight:
                met |= {(term.path, name) for name in self._preferred(term)}
            elif not all(key in ask.labels for key in term.same):
                continue
            elif term.away:
                path = filters.field_of(ask.policy, term.path)
                self._keep_away(term, self.selected(term), path, refused)
            else:
                self.keep_near(term, refused)
        for peer in self.peers:
            for term in peer.repels if peer.uid != ask.uid else ():
                if term.matches(peer.labels, ask.labels):
                    path = f"spec.{term.path} of policy {peer.policy}, which holds for it"
                    self._keep_away(term, (peer,), path, refused)
        if self.ledger.nominated:
            self._keep_together(refused)
        if not refused and not met:
            return None
        return Around(tuple(sorted(refused.items())), frozenset(met))

    def near_terms(self) -> Iterator[WorkloadTerm]:
        """Its required affinity, as far as it has the labels for it."""
        ask = self.ask
        for term in ask.policy.workloads:
            if not (term.weight or term.away) and all(key in ask.labels for key in term.same):
                yield term

    def selected(self, term: WorkloadTerm) -> list[Peer]:
        mine = self.ask
        return [
            peer
            for peer in self.peers
            if peer.uid != mine.uid and term.matches(mine.labels, peer.labels)
        ]

    def _keep_away(
        self, term: WorkloadTerm, others: Iterable[Peer], path: str, refused: dict[str, str]
    ) -> None:
        """Refuses the domains in which one of the others has copies."""
        others = [*others]
        self._refuse(term, self._domains(term, others, leaving=True), "has copies", path, refused)
        if self.ledger.nominated:
            taken = self._nominated(term, others)
            self._refuse(term, taken, "is to begin", path, refused)

    def _refuse(
        self,
        term: WorkloadTerm,
        taken: Mapping[str, Peer],
        there_it: str,
        path: str,
        refused: dict[str, str],
    ) -> None:
        if not taken:
            return
        for where, names in self._lying(term).items():
            domain = next((domain for domain in where if domain in taken), None)
            if domain is None:
                continue
            other = taken[domain].key
            there = f" in {term.domain} {domain}" if term.topology_key else " there"
            why = f"is kept apart from {other.kind} {other.name}, which {there_it}{there} ({path})"
            for name in names:
                refused.setdefault(name, why)

    def _keep_together(self, refused: dict[str, str]) -> None:
        """While a preemptor is to be the first of a group that its own affinity selects, others of
        the group begin near it or not yet. Else it would have to follow them, where it may find
        no room, and its victims would have left in vain."""
        ask, views = self.ask, self.ledger.snapshot.clusters
        for by, clusters in self._nominees():
            other = _Judge(by, self.ledger, self.peers)
            for term in other.near_terms():
                if not term.matches(by.labels, ask.labels):
                    continue
                if other._domains(term, other.selected(term), leaving=False):
                    continue  # it is not the first
                there = {
                    domain
                    for name in clusters
                    if name in views
                    for domain in _domains_of(views[name], term)
                }
                why = f"waits for {by.key.kind} {by.key.name}, which is to begin elsewhere"
                for where, names in self._lying(term).items():
                    if there.isdisjoint(where):
                        for name in names:
                            refused.setdefault(name, why)

    def _nominated(self, term: WorkloadTerm, others: Iterable[Peer]) -> Mapping[str, Peer]:
        """The domains in which these workloads are to begin."""
        there: dict[str, Peer] = {}
        nominees = {by.uid: clusters for by, clusters in self._nominees()}
        for other in others:
            for name in sorted(nominees.get(other.uid, ())):
                if (view := self.ledger.snapshot.clusters.get(name)) is not None:
                    for domain in _domains_of(view, term):
                        there.setdefault(domain, other)
        return there

    def _nominees(self) -> Iterator[tuple[Ask, frozenset[str]]]:
        """The nominated workloads of its namespace that it may not keep from beginning."""
        mine = self.ask
        for by, clusters in self.ledger.nominated.values():
            if by.uid == mine.uid or by.key.namespace != mine.key.namespace:
                continue
            if _RANK[mine.tier] < _RANK[by.tier]:
                continue  # as with the room of a claim: work of a higher tier goes first
            held = self.ledger.neighbour(by.uid)
            if held is None or not held.copies:  # else what it holds says where it is
                yield by, clusters

    def keep_near(self, term: WorkloadTerm, refused: dict[str, str]) -> None:
        """Refuses all but the domains in which a workload that it selects has copies. The first of
        a group that selects itself may go anywhere."""
        ask, key = self.ask, term.topology_key
        path = filters.field_of(ask.policy, term.path)
        near = self._domains(term, self.selected(term), leaving=False)
        first = not near and term.matches(ask.labels, ask.labels)
        wants = f"has no workload of the namespace that matches {term.selects(ask.labels)}"
        for where, names in self._lying(term).items():
            if where and (first or not near.keys().isdisjoint(where)):
                continue
            there = f"in {term.domain} {' or '.join(where)}" if key else "there"
            why = f"{wants} with copies {there} ({path})"
            if not where:
                why = f"its labels and spec.topology have no {key} ({path})"
            for name in names:
                refused.setdefault(name, why)

    def _preferred(self, term: WorkloadTerm) -> Iterator[str]:
        """The clusters that a preferred term prefers."""
        if not all(key in self.ask.labels for key in term.same):
            return
        there = self._domains(term, self.selected(term), leaving=term.away)
        for where, names in self._lying(term).items():
            lies_near = not there.keys().isdisjoint(where)
            if lies_near is not term.away:
                yield from names

    def _domains(
        self, term: WorkloadTerm, others: Iterable[Peer], *, leaving: bool
    ) -> Mapping[str, Peer]:
        """The domains in which these workloads have copies, each with the first that does.
        `leaving`: copies in clusters that are being emptied or are lost count too. They keep others
        away while they may run, but draw none after them."""
        there: dict[str, Peer] = {}
        clusters = self.ledger.snapshot.clusters
        for other in others:
            held, gone = self.ledger.neighbour(other.uid), self.gone.get(other.uid, NOTHING)
            for holding in held.holdings if held is not None else ():
                view = clusters.get(holding.cluster)
                copies = copies_of(holding) - gone.get(holding.cluster, 0)
                if view is not None and copies > 0 and (leaving or not view.empties):
                    for domain in _domains_of(view, term):
                        there.setdefault(domain, other)
        return there

    def _lying(self, term: WorkloadTerm) -> Mapping[tuple[str, ...], Sequence[str]]:
        """The clusters by name, by the domains in which they lie."""
        key, memo = ("domains", term.topology_key), self.ledger.memo
        lying: dict[tuple[str, ...], list[str]] | None = memo.get(key)
        if lying is None:
            lying = memo[key] = {}
            clusters = self.ledger.snapshot.clusters
            for name in sorted(clusters):
                lying.setdefault(_domains_of(clusters[name], term), []).append(name)
        return lying


def _domains_of(view: ClusterView, term: WorkloadTerm) -> tuple[str, ...]:
    return view.domains(term.topology_key) if term.topology_key else (view.name,)
