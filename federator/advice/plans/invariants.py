"""Which PlacementInvariants hold in a situation, and which of them a plan breaks. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.advice import drills
from federator.advice.drills import Each
from federator.api.placement import placementinvariant
from federator.hub.placing.offline import Situation
from federator.model.fleet import copies_of
from federator.model.rules.invariant import Invariant, MaxShare, Survives
from federator.placement.policy import holds
from federator.placement.selection import invariants
from federator.scheduling import drill

ROWS: Final = 5
"""Breaches that are named of one invariant."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that does not hold once the plan is carried out."""

    invariant: Invariant
    before: int
    """Copies beyond it now; 0 for a new one."""
    after: int
    """The same once the plan is carried out."""
    workloads: int
    """Workloads in breach then."""
    worst: tuple[Mapping[str, Any], ...]
    """The largest breaches then, as rows of `status.breaches`."""

    @property
    def worse(self) -> bool:
        """Whether the plan breaks it, or more of it."""
        return self.after > self.before

    @property
    def message(self) -> str:
        """The largest breach in words."""
        return placementinvariant.in_words(self.invariant, self.worst[0])


def broken(
    present: Situation, final: Situation, a_minute: int, *, losses: bool, each: Each = map
) -> list[Broken]:
    """The invariants that do not hold in the final situation, those that the plan breaks first.
    `losses`: whether losses are tried, which takes as long as a drill."""
    now = {invariant.name: invariant for invariant in present.snapshot.invariants}
    broken_now = []
    for invariant in final.snapshot.invariants:
        if isinstance(invariant.rule, Survives) and not losses:
            continue
        rows = breaches(final, invariant, a_minute, each)
        if not rows:
            continue
        was = now.get(invariant.name)
        before = _sum(breaches(present, was, a_minute, each)) if was is not None else 0
        workloads = len({row["workload"] for row in rows})
        broken_now.append(Broken(invariant, before, _sum(rows), workloads, tuple(rows[:ROWS])))
    return sorted(broken_now, key=lambda each: (not each.worse, each.invariant.name))


def _sum(rows: list[dict[str, Any]]) -> int:
    return sum(map(placementinvariant.beyond, rows))


def breaches(
    situation: Situation, invariant: Invariant, a_minute: int, each: Each = map
) -> list[dict[str, Any]]:
    """What breaks the invariant, as rows of `status.breaches`, the most copies first."""
    rule = invariant.rule
    if isinstance(rule, MaxShare):
        rows = _of_shares(situation, invariant, rule)
    elif isinstance(rule, Survives) and drill.possible(situation.snapshot, rule):
        rows = _of_losses(situation, invariant, rule, a_minute, each)
    else:
        rows = []
    return sorted(rows, key=placementinvariant.order)


def _of_shares(situation: Situation, invariant: Invariant, rule: MaxShare) -> list[dict[str, Any]]:
    rows = []
    for key, record in situation.records.items():
        ask = situation.ask_of(situation.workloads[key])
        if ask is None or not invariant.selects(ask) or not invariants.speaks_of(ask):
            continue
        copies = {share.cluster: copies_of(share) for share in record.shares}
        rows += [
            placementinvariant.row(str(key), breach.domain, breach.copies, breach.most)
            for breach in holds.breaches(rule, ask.at_once, copies, situation.snapshot)
        ]
    return rows


def _of_losses(
    situation: Situation, invariant: Invariant, rule: Survives, a_minute: int, each: Each
) -> list[dict[str, Any]]:
    rows = []
    outcomes = drills.of_all(situation, rule.topology_key, a_minute, each, together=rule.loss)
    for outcome in outcomes:
        for lacking in outcome.unplaced:
            ask = situation.ask_of(situation.workloads[lacking.key])
            if ask is not None and lacking.tier in rule.tiers and invariant.selects(ask):
                named = str(lacking.key), outcome.loss.name
                rows.append(placementinvariant.row(*named, lacking.copies))
    return rows
