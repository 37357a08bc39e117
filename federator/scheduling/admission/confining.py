"""Keeps what decisions give within what accounts have left in domains of clusters, and within what
invariants allow there.

A workload that asks for more gets its domain before (`stage`). What only moves (from a cluster that
is lost or is being emptied, or by a rebalance) asks for no more over all clusters, and what is in
every cluster chooses none: they are decided as if there were no domains, and again with a ceiling
in the clusters of those in which they would have too much. Copies that find no other place then
stay where they are, as those do that find no room.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federator.model import names
from federator.model.ask import Ask
from federator.model.decision import Decision, Reason, Share
from federator.model.fleet import Commitment, Holding, copies_of
from federator.model.resources import UNLIMITED
from federator.placement.quota.domain_usage import Ceiling, InDomains, Over
from federator.placement.quota.quota import Admission
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.selection import invariants, leaving
from federator.placement.selection.invariants import Kept
from federator.placement.selection.leaving import Allowance, Leave
from federator.scheduling import editing
from federator.scheduling.entry import Entry

Made = tuple[Decision, Commitment]
"""A decision, and what its workload holds after it."""
Attempt = Callable[[Entry], Made]
"""Decides, and charges the ledger."""
_ANYWHERE: Final[Mapping[str, Ceiling]] = {}


def in_domains(
    commitments: Commitments, ledger: Ledger, claimed: Iterable[tuple[Ask, Mapping[str, int]]]
) -> InDomains | None:
    """What is used in domains now; None where no account has limits there. `claimed`: what others
    have left for some, by cell."""
    tree, clusters = ledger.tree, ledger.snapshot.clusters
    if not tree.by_domain:
        return None
    used = InDomains(tree, commitments, {name: view.labels for name, view in clusters.items()})
    for ask, cells in claimed:
        used.claim(ask.uid, ask.project, ask.tier, cells)
    return used


def kept(entry: Entry, ledger: Ledger) -> Kept | None:
    """The invariants that refuse copies of the workload; None where none does."""
    held, done = entry.standing.held, entry.standing.done
    return invariants.of(entry.ask, held, ledger, done=done, lost=entry.lost(ledger.snapshot))


def decide(
    entry: Entry, used: InDomains | None, under: Kept | None, ledger: Ledger, attempt: Attempt
) -> tuple[Decision, Commitment, Mapping[str, Ceiling]]:
    """The decision that breaks no limit of a domain and no invariant, with the ceilings under which
    it was made. The ledger is charged for it alone. `used`: None where no account has limits in
    domains. `under`: None where no invariant refuses copies of it."""
    if used is not None and not used.speak_of(entry.ask.project):
        used = None
    if used is None and under is None:
        return *attempt(entry), _ANYWHERE
    mark, rulings = ledger.mark(), ledger.rulings
    search = _CeilingSearch(entry, used, under, ledger, attempt, mark)
    try:
        if under is not None:
            search = _within_invariants(search, under)
        return *search.decide(), ledger.ceilings
    finally:
        ledger.ceilings, ledger.rulings = _ANYWHERE, rulings


def _within_invariants(search: "_CeilingSearch", under: Kept) -> "_CeilingSearch":
    """The search under the invariants, as far as they cost the workload no copy that it has: those
    are worth more. Leaves the ceilings and rulings under which it is decided then."""
    ledger, rulings = search.ledger, search.ledger.rulings
    missing = under.missing(search.alone()[1])
    if not missing:
        return search
    best = under
    # First only so much beyond the invariant as is missing; all bounds fall only if that is not
    # enough.
    for more in (missing, UNLIMITED):
        wider = under.beyond(more)
        ledger.rulings = wider.rulings(rulings)
        left = wider.missing(search.again(wider).alone()[1])
        if left < missing:
            best, missing = wider, left
        if not left:
            break
    ledger.rulings = best.rulings(rulings)
    return search.again(best)


def _roomy(entry: Entry, used: InDomains) -> bool:
    """Whether any domain has quota for all of it, wherever it goes."""
    ask = entry.ask
    if ask.shape.every_node or leaving.everywhere(ask):
        return False
    held = sum(map(copies_of, entry.standing.held))
    needs = ask.shape.requests * max(held, min(ask.slots, ask.count))
    return used.roomy(ask.uid, ask.project, ask.tier, needs)


def _once(leave: Leave) -> Leave:
    allowed: list[Allowance] = []

    def again(moving: int, forced: Mapping[str, int]) -> Allowance:
        if not allowed:
            allowed.append(leave(moving, forced))
        return allowed[0]

    return again


@dataclass(slots=True)
class _CeilingSearch:
    """The ceilings under which a decision breaks no limit."""

    entry: Entry
    used: InDomains | None
    under: Kept | None
    """The invariants that refuse; None where none speaks of it."""
    ledger: Ledger
    attempt: Attempt
    mark: int
    divided: set[str] = field(default_factory=set)
    """Domains with clusters that share what is left there, each its part."""
    closed: set[str] = field(default_factory=set)
    """Domains with clusters that get nothing more: with parts it was still too much, because less
    left them."""

    def decide(self) -> Made:
        entry = self.entry
        if entry.leave is None:
            return self.run(entry)
        if self.under is not None or (self.used is not None and not _roomy(entry, self.used)):
            # The pace counts what it lets leave, so it is asked only once.
            self.alone()
        return self.run(replace(entry, leave=_once(entry.leave)))

    def again(self, under: Kept) -> "_CeilingSearch":
        """The search from its beginning, under these invariants."""
        self.ledger.ceilings = _ANYWHERE
        return _CeilingSearch(self.entry, self.used, under, self.ledger, self.attempt, self.mark)

    def alone(self) -> Made:
        """What it would get now if all that moves might move. Nothing is charged."""
        made = self.run(replace(self.entry, leave=None))
        self.ledger.rollback(self.mark)
        return made

    def run(self, entry: Entry) -> Made:
        while True:
            decision, after = self.attempt(entry)
            over = self.used.over(after) if self.used is not None else []
            over += self.under.over(after) if self.under is not None else []
            if not over or not self._tightened(over, decision, after):
                return decision, after
            self.ledger.rollback(self.mark)

    def _tightened(self, over: list[Over], decision: Decision, after: Commitment) -> bool:
        """Sets ceilings; False where nothing more can be kept from it: what nodes of its clusters
        take that a daemon has already, or what an operator's defaults add to each copy."""
        loose = [domain for domain in over if domain.domain not in self.closed]
        if loose:
            ceilings = dict(self.ledger.ceilings)
            for domain in loose:
                for name, copies in self._parts(domain, after).items():
                    before = ceilings.get(name)
                    if before is None or copies < before.copies:
                        ceilings[name] = Ceiling(copies, domain.why, domain.reason)
            self.ledger.ceilings = ceilings
            return True
        return self._held_back(over[0], decision)

    def _parts(self, over: Over, after: Commitment) -> dict[str, int]:
        """Cluster of the domain -> the most copies there."""
        has = _by_cluster(self.entry.standing.held, over)
        gets = _by_cluster(after.holdings, over)
        growth = {
            name: more for name, copies in gets.items() if (more := copies - has.get(name, 0)) > 0
        }
        leaves = sum(max(copies - gets.get(name, 0), 0) for name, copies in has.items())
        # What leaves the domain in this decision is room for what enters it.
        room = max(over.copies - sum(has.values()) + leaves, 0)
        if over.domain in self.divided:
            self.closed.add(over.domain)
            room = 0
        self.divided.add(over.domain)
        given = self._given(growth, room)
        return {name: has.get(name, 0) + given.get(name, 0) for name in over.clusters}

    def _given(self, growth: Mapping[str, int], room: int) -> dict[str, int]:
        """What is left, to the clusters that would grow: as evenly as it goes; one after the other
        where each is to have the whole count."""
        ask, given = self.entry.ask, dict[str, int]()
        in_turn = sorted(growth, key=lambda name: names.stable_order(ask.tie_break, name))
        if ask.shape.every_node or leaving.everywhere(ask):
            for name in in_turn:
                fits = min(growth[name], room)
                # A daemon is on all nodes of a cluster or on none, so a part of them is of no use.
                given[name] = fits if fits == growth[name] or not ask.shape.every_node else 0
                room -= given[name]
            return given
        # The smallest wish first: what it does not need is divided among the others.
        in_turn.sort(key=growth.__getitem__)
        for at, name in enumerate(in_turn):
            given[name] = min(growth[name], room // (len(in_turn) - at))
            room -= given[name]
        return given

    def _held_back(self, over: Over, decision: Decision) -> bool:
        """Lets the old generation stay in force where copies that stay ask for more."""
        ask, admitted = self.entry.ask, self.entry.standing.admitted
        edited = admitted is not None and editing.may_ask_for_more(
            ask, admitted, self.entry.standing.support
        )
        held = decision.held_back or decision.held_profile
        by_quota = over.reason is Reason.QUOTA_EXCEEDED
        if not edited or held or not by_quota or ask.uid in self.ledger.held_back:
            return False
        kept = Admission(0, Reason.QUOTA_EXCEEDED, over.why)
        self.ledger.held_back = {**self.ledger.held_back, ask.uid: kept}
        return True


def _by_cluster(holdings: Iterable[Holding | Share], over: Over) -> dict[str, int]:
    copies: dict[str, int] = {}
    for holding in holdings:
        if holding.cluster in over.clusters:
            copies[holding.cluster] = copies.get(holding.cluster, 0) + copies_of(holding)
    return copies
