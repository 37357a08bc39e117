"""Keeps new copies where PlacementInvariants with enforcement Refuse allow them. Pure.

An invariant bounds growth only. Copies that run stay where they are, in breach too. A workload
with copies that have to leave a lost or drained cluster gets as many copies elsewhere as it had:
within the invariant as far as there is capacity, and against it beyond that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from federator.model.ask import Ask, Unit
from federator.model.decision import Reason
from federator.model.fleet import Commitment, FleetSnapshot, Holding, copies_of, remaining
from federator.model.rules.invariant import Invariant, MaxShare
from federator.model.shards import Ranges
from federator.placement.policy import holds
from federator.placement.quota.domain_usage import Over
from federator.placement.quota.quota import Admission
from federator.placement.room.ledger import Ledger
from federator.placement.selection.leaving import everywhere

NO_GROWTH: Final = (
    "copies that have to leave their cluster go where an invariant does not allow them, and no"
    " further copies start meanwhile"
)


def speaks_of(ask: Ask) -> bool:
    """Whether a maximum share means anything for the workload: not for a daemon, nor for a service
    of which each cluster has all copies, because one domain's copies replace no other's."""
    return not (ask.shape.every_node or everywhere(ask))


@dataclass(frozen=True, slots=True)
class Kept:
    """The invariants that refuse, for one workload."""

    ask: Ask
    snapshot: FleetSnapshot
    rules: tuple[tuple[Invariant, MaxShare], ...]
    had: Mapping[str, int]
    """Copies that it holds, by cluster."""
    running: int
    """Copies that it is to have after the decision, unless it asks for fewer: those that may stay
    where they are, and those that must have another place now."""
    more: int = 0
    """Copies that a domain may have beyond an invariant, because they have no other place."""

    def over(self, after: Commitment) -> list[Over]:
        """The domains in which the workload would have more than before, and more than an invariant
        allows."""
        gets = {share.cluster: copies_of(share) for share in after.holdings}
        return [
            Over(
                f"{invariant.title} {domain}",
                holds.clusters_of(self.snapshot, rule.topology_key, domain),
                most,
                self._why(invariant, rule, domain),
                Reason.INVARIANT_VIOLATION,
            )
            for invariant, rule in self.rules
            for domain, most in self._exceeded(rule, gets)
        ]

    def _exceeded(self, rule: MaxShare, gets: Mapping[str, int]) -> list[tuple[str, int]]:
        had = holds.by_domain(self.snapshot, rule.topology_key, self.had)
        limit = rule.most(self.ask.at_once)
        then = holds.by_domain(self.snapshot, rule.topology_key, gets)
        exceeded = []
        for domain, copies in then.items():
            most = max(limit, had.get(domain, 0)) + self.more
            if copies > most:
                exceeded.append((domain, most))
        return exceeded

    def _why(self, invariant: Invariant, rule: MaxShare, domain: str) -> str:
        wanted = self.ask.at_once
        things = "slots" if self.ask.unit is Unit.SHARDS else "copies"
        return (
            f"{invariant.title} allows {rule.most(wanted)} of {wanted} {things} in"
            f" {rule.topology_key}={domain} (spec.rule.maxShare, {rule.percent} percent)"
        )

    def missing(self, after: Commitment) -> int:
        """Copies that the decision takes from it: those that it had, asks for, and has no place for
        within the invariants."""
        views = self.snapshot.clusters
        there = sum(
            copies_of(share)
            for share in after.holdings
            if (view := views.get(share.cluster)) is not None and not view.empties
        )
        return max(min(self.running, self.ask.at_once) - there, 0)

    def rulings(self, before: Mapping[str, Admission]) -> Mapping[str, Admission]:
        """The rulings of a cycle, by which a workload that goes beyond an invariant does not grow
        meanwhile."""
        ask, former = self.ask, before.get(self.ask.uid)
        if not self.more or self.running >= ask.at_once:
            return before
        if former is not None and former.copies <= self.running:
            return before
        refused = Admission(self.running, Reason.INVARIANT_VIOLATION, NO_GROWTH)
        return {**before, ask.uid: refused}

    def beyond(self, copies: int) -> "Kept":
        """The same where a domain may have so many copies more."""
        return replace(self, more=copies)


def of(
    ask: Ask, held: Iterable[Holding], ledger: Ledger, *, done: Ranges = (), lost: int = 0
) -> Kept | None:
    """The invariants that refuse copies of the workload; None where none does. `lost`: copies that
    have lost their cluster, or have to leave one now that is being emptied."""
    snapshot = ledger.snapshot
    rules = tuple(
        (invariant, invariant.rule)
        for invariant in snapshot.invariants
        if invariant.refuses and isinstance(invariant.rule, MaxShare) and invariant.selects(ask)
    )
    if not rules or not speaks_of(ask):
        return None
    views = snapshot.clusters
    had = {share.cluster: copies_of(remaining(share, done)) for share in held}
    stays = sum(
        copies
        for name, copies in had.items()
        if (view := views.get(name)) is None or not view.empties  # one that left the fleet is lost
    )
    return Kept(ask, snapshot, rules, had, stays + lost)
