"""In which order the decisions of one batch go to the host, so that no account is ever beyond its limit there.

A batch may give one workload what another gives up in the same moment. What gives up is therefore written first, and
what takes only when all of that has been taken by the host. Pure; used by placing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kube import errors
from federator.model.ask import Ask
from federator.model.decision import Decision
from federator.model.fleet import Commitment
from federator.placement.permitted import Refused


class Effect(IntEnum):
    """What a decision does to the accounts, in the order in which decisions are written."""

    FREES = 0
    """Gives up something, takes nothing; or changes nothing."""
    BOTH = 1
    """Gives up of one resource or account and takes of another."""
    TAKES = 2


@dataclass(frozen=True, slots=True)
class Due:
    """One key of a batch that has something to decide."""

    workload: Workload
    ask: Ask
    record: Record | None
    inputs: str
    refused: Refused | None = None
    """Why it may not run as it is written; `ask` is then what is charged for what runs."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision of a batch, to be written; and what its workload held before, and holds after it."""

    item: Due
    decision: Decision
    before: Commitment | None
    after: Commitment


def effect(before: Commitment | None, after: Commitment) -> Effect:
    """What the step from one commitment to the next does to the accounts that both are charged to."""
    if before is None:
        return Effect.TAKES
    had, has = before.usage, after.usage
    moved = (before.project, before.namespace, before.tier) != (after.project, after.namespace, after.tier)
    takes = (moved and bool(has)) or any(has[name] > had[name] for name in has)
    gives = (moved and bool(had)) or any(had[name] > has[name] for name in had)
    if not takes:
        return Effect.FREES
    return Effect.BOTH if gives else Effect.TAKES


def frees(one: Decided) -> bool:
    """Whether something is given up that another may wait for."""
    before = one.before
    if before is None:
        return False
    return effect(before, one.after) is not Effect.TAKES and before.usage != one.after.usage


def of(batch: Iterable[Decided]) -> Sequence[tuple[Effect, Sequence[Decided]]]:
    """The batch in waves: each is written after all of the one before has been taken."""
    found: dict[Effect, list[Decided]] = {}
    for one in batch:
        found.setdefault(effect(one.before, one.after), []).append(one)
    return [(which, found[which]) for which in sorted(found)]


def charge_kept(one: Decided, trouble: errors.ApiError) -> bool:
    """Whether a decision that could not be written stays charged: nobody knows that it was not taken, or that it will
    not be once it arrives, and it takes more than the one before it.
    """
    unknown = isinstance(trouble, errors.Unreachable | errors.ServerTrouble | errors.Malformed)
    return unknown and effect(one.before, one.after) is not Effect.FREES
