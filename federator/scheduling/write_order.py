"""The order in which the decisions of one cycle are written to the host, so that no account is ever
above its limit there.

A cycle may give one workload what another gives up in the same batch. Decisions that give up are
therefore written first, and those that take only after all of these were accepted by the host.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from federator.model.decision import Decision
from federator.model.fleet import Commitment
from federator.model.names import WorkloadKey
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
    sake: WorkloadKey
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
    had, has = before.usage, after.usage
    moved = (before.project, before.namespace, before.tier) != (
        after.project,
        after.namespace,
        after.tier,
    )
    takes = (moved and bool(has)) or any(has[name] > had[name] for name in has)
    gives = (moved and bool(had)) or any(had[name] > has[name] for name in had)
    if not takes:
        return Effect.FREES
    return Effect.BOTH if gives else Effect.TAKES


def gives_up(decided: Decided) -> bool:
    """Whether the decision frees something that another workload may wait for."""
    before = decided.before
    if before is None:
        return False
    return effect(before, decided.after) is not Effect.TAKES and before.usage != decided.after.usage


def by_effect(decided: Iterable[Decided]) -> Sequence[tuple[Effect, Sequence[Decided]]]:
    """The decisions grouped by effect, in write order: a group is written after the one before has
    been written completely."""
    groups: dict[Effect, list[Decided]] = {}
    for entry in decided:
        groups.setdefault(effect(entry.before, entry.after), []).append(entry)
    return [(which, groups[which]) for which in sorted(groups)]
