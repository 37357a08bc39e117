"""Accounts that an edit of tier or project leaves: they are charged for the running copies until
members report that none runs as it was before. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from federator.model import shards
from federator.model.ask import MAX_FORMER, Admitted, Ask, Former, FormerCopies, Tier, Unit
from federator.model.fleet import Holding, copies_of, remaining
from federator.model.shards import Ranges
from federator.placement.quota import quota
from federator.placement.quota.tree import Tree


def besides(
    admitted: Admitted,
    held: Sequence[Holding],
    tree: Tree,
    ask: Ask,
    *,
    finished: Ranges = (),
    replaced: bool = True,
    terminating: Sequence[Former] = (),
) -> Ask:
    """The ask with the former accounts that are charged in addition to its own. An account that
    covers both projects is charged once, and a project without an account not at all.

    `admitted`: what the decision in force charges; `held`: the copies that run by it. `replaced`:
    members report that no copy is left of what was in force before that decision. `terminating`:
    what is charged for pods beyond it.
    """
    former = () if replaced else tuple(left.without(finished) for left in admitted.former)
    if (ask.project, ask.tier) != (admitted.project, admitted.tier):
        left = _left(admitted, held, tree, finished, ask.unit)
        former = (*former, _with_terminating(left, terminating))
    if not former and not ask.former:
        return ask
    own, kept = _account(tree, ask.project, ask.tier), dict[object, Former]()
    for left in former:
        account = _account(tree, left.project, left.tier)
        if left.copies and account != own and account[0]:
            kept[account] = _most(kept[account], left) if account in kept else left
    return replace(ask, former=tuple(kept.values()))


def too_many(ask: Ask) -> str:
    """Why no further account may be left now, as the end of a sentence; "" when it may."""
    if len(ask.former) <= MAX_FORMER:
        return ""
    return (
        f"project {ask.project} in tier {ask.tier} while its copies may still run in"
        f" {MAX_FORMER} former projects and tiers (spec.charge.former of its PlacementDecision);"
        " wait until one of its edits is rolled out"
    )


def _left(
    admitted: Admitted, held: Sequence[Holding], tree: Tree, finished: Ranges, unit: Unit
) -> Former:
    """What the account that is charged by the decision in force is charged after the edit."""
    speaking = quota.accounts_of(admitted.project, tree.accounts.values())
    left = (remaining(holding, finished) for holding in held)
    copies = (
        FormerCopies(
            holding.cluster, copies_of(holding), holding.ranges if unit is Unit.SHARDS else ()
        )
        for holding in left
    )
    return Former(
        admitted.project,
        admitted.tier,
        quota.with_defaults(admitted.shape.requests, speaking),
        tuple(there for there in copies if there.copies),
    )


def _with_terminating(left: Former, terminating: Sequence[Former]) -> Former:
    """With the pods that were charged to the same account beyond what its decision gave."""
    copies = {there.cluster: there for there in left.held}
    for part in terminating:
        if (part.project, part.tier, part.requests) != (left.project, left.tier, left.requests):
            continue
        for there in part.held:
            before = copies.get(there.cluster, replace(there, copies=0))
            copies[there.cluster] = replace(before, copies=before.copies + there.copies)
    return replace(left, held=tuple(copies[name] for name in sorted(copies)))


def _account(tree: Tree, project: str, tier: Tier) -> tuple[tuple[str, ...], Tier]:
    """The accounts that a project is charged to in a tier."""
    return tuple(tree.charged(project)), tier


def _most(before: Former, other: Former) -> Former:
    """What one account is charged for copies that ran in it at two times."""
    held = {there.cluster: there for there in before.held}
    for there in other.held:
        held[there.cluster] = _larger(held.get(there.cluster, there), there)
    requests = before.requests.upper(other.requests)
    return replace(other, requests=requests, held=tuple(held[name] for name in sorted(held)))


def _larger(before: FormerCopies, other: FormerCopies) -> FormerCopies:
    return replace(
        other,
        copies=max(before.copies, other.copies),
        ranges=shards.union(before.ranges, other.ranges),
    )
