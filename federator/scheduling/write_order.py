"""The order in which the decisions of one cycle are written to the host, so that no account is ever
above its limit there.

A cycle may give one workload what another gives up in the same batch. Decisions that give up are
therefore written first, and those that take only after all of these were accepted by the host.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from federator.model.ask import Tier
from federator.model.decision import Decision
from federator.model.fleet import Commitment, copies_of
from federator.model.names import WorkloadKey
from federator.model.resources import ZERO, Resources
from federator.placement.quota.domain_usage import Ceiling
from federator.scheduling.entry import Entry


class Effect(IntEnum):
    """Effect of a decision on the accounts, in write order."""

    FREES = 0
    """Gives up, takes nothing; or changes nothing."""
    BOTH = 1
    """Gives up some resource or account and takes another."""
    TAKES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One decision of a cycle to be written, with what its workload held before and holds after
    it."""

    entry: Entry
    """Of the workload that is decided on."""
    decision: Decision
    before: Commitment | None
    after: Commitment
    beneficiary: WorkloadKey
    """The workload for which it was made: a cycle may decide on others so that one gets what it
    asks for."""
    ceilings: Mapping[str, Ceiling] = field(default_factory=dict)
    """By cluster: what limits of domains leave it there; for a decision that they bound."""

    @property
    def key(self) -> WorkloadKey:
        return self.entry.key


def effect(before: Commitment | None, after: Commitment) -> Effect:
    """The effect of the change on the accounts that both commitments are charged to."""
    if before is None:
        return Effect.TAKES
    had, has = _charges(before), _charges(after)
    takes, gives = _exceeds(has, had), _exceeds(had, has)
    if not takes:
        return Effect.FREES
    return Effect.BOTH if gives else Effect.TAKES


def gives_up(decided: Decided) -> bool:
    """Whether the decision frees something that another workload may wait for."""
    before = decided.before
    if before is None:
        return False
    after = decided.after
    return effect(before, after) is not Effect.TAKES and _charges(before) != _charges(after)


def relocated(written: Iterable[Decided]) -> frozenset[str]:
    """The namespaces of workloads that have copies in other clusters than before: terms about other
    workloads may now say something else there."""
    return frozenset(
        decided.key.namespace
        for decided in written
        if _inhabited(decided.before) != _inhabited(decided.after)
    )


def _inhabited(held: Commitment | None) -> frozenset[str]:
    if held is None:
        return frozenset()
    return frozenset(holding.cluster for holding in held.holdings if copies_of(holding) > 0)


_Account = tuple[str, str, Tier]
"""Project, namespace and tier."""


def _charges(commitment: Commitment) -> Mapping[_Account, Resources]:
    """What each account is charged for it."""
    charges: dict[_Account, Resources] = {}
    for project, tier, amounts in commitment.charges:
        key = (project, commitment.namespace, tier)
        charges[key] = charges.get(key, ZERO) + amounts
    return charges


def _exceeds(more: Mapping[_Account, Resources], less: Mapping[_Account, Resources]) -> bool:
    """Whether an account is charged more of anything by the first."""
    return any(not amounts.within(less.get(key, ZERO)) for key, amounts in more.items())


def by_effect(decided: Iterable[Decided]) -> Sequence[tuple[Effect, Sequence[Decided]]]:
    """The decisions grouped by effect, in write order: a group is written after the one before has
    been written completely."""
    groups: dict[Effect, list[Decided]] = {}
    for entry in decided:
        groups.setdefault(effect(entry.before, entry.after), []).append(entry)
    # If the hub stops in between, what the host has is within quota: a taker that is written before
    # its giver would be beyond.
    return [(which, groups[which]) for which in sorted(groups)]
