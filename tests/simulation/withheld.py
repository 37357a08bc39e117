"""6: no workload is told that a quota is full while it could have one copy more within it."""

from collections.abc import Callable, Iterator, Sequence

from federator.api.placement.decisionfacts import DecisionFacts
from federator.model.ask import Tier, Unit
from federator.model.decision import Reason
from tests.simulation import promises

FULL = frozenset({Reason.QUOTA_EXCEEDED, Reason.EXCEEDS_MAX_QUOTA})


def withheld(
    accounts: promises.Accounts,
    found: Sequence[DecisionFacts],
    whole: Callable[[DecisionFacts], bool],
) -> Iterator[str]:
    """Decisions that lack copies although the quota has room: for one copy, or for all where the
    policy wants all or none (`whole`). What another account waits for within its guarantee is not
    free for one that borrows."""
    for facts in found:
        if (
            facts.terms.reason not in FULL
            or "workloads at a time" in facts.terms.message
            or facts.terms.shape is None
            or facts.terms.unit is not Unit.REPLICAS
            or promises.lacks_only_an_edit(facts)
        ):
            continue
        copies = facts.terms.shortfall if whole(facts) else 1
        if (
            accounts.of(facts.terms.project)
            and _has_room(accounts, facts, found, copies)
            and not _gives_way(accounts, facts, found, copies)
        ):
            yield (
                f"decision {facts.name}: {facts.terms.shortfall} are missing for a quota that is "
                "not full"
            )


def _has_room(
    accounts: promises.Accounts,
    facts: DecisionFacts,
    found: Sequence[DecisionFacts],
    copies: int,
) -> bool:
    """Whether so many copies more fit into the account and all above it, by what all decisions
    give."""
    shape, project, tier = facts.terms.shape, facts.terms.project, facts.terms.tier
    assert shape is not None

    def used(resource: str, one: str) -> int:
        return _used(found, tier, resource, one)

    def more(resource: str, one: str) -> int:
        return used(resource, one) + (copies * shape.requests[resource] if one == project else 0)

    return not any(accounts.breaches(project, str(tier), more, used))


def _used(found: Sequence[DecisionFacts], tier: Tier, resource: str, project: str) -> int:
    """What a project uses in a tier, by all decisions."""
    return sum(
        facts.terms.shape.requests[resource] * sum(share.slots for share in facts.shares)
        for facts in found
        if facts.terms.shape is not None
        and facts.terms.project == project
        and facts.terms.tier == tier
    )


def _gives_way(
    accounts: promises.Accounts,
    facts: DecisionFacts,
    found: Sequence[DecisionFacts],
    copies: int,
) -> bool:
    """Whether so many copies more would be borrowed while a workload of another account of the tree
    waits within its guarantee."""
    if _within(accounts, facts, found, copies):
        return False
    tree = accounts.tree(accounts.of(facts.terms.project)[0])
    return any(
        other.terms.reason in FULL
        and other.terms.tier == facts.terms.tier
        and other.terms.project != facts.terms.project
        and set(accounts.of(other.terms.project)) & set(tree)
        and _within(accounts, other, found, 1)
        for other in found
    )


def _within(
    accounts: promises.Accounts,
    facts: DecisionFacts,
    found: Sequence[DecisionFacts],
    copies: int,
) -> bool:
    """Whether so many copies more are within what the workload's account is guaranteed, of all
    resources of which it is guaranteed some."""
    terms = facts.terms
    if terms.shape is None:
        return False
    account, tier = accounts.of(terms.project)[0], str(terms.tier)
    asked = [
        resource
        for resource in accounts.resources(account, tier)
        if terms.shape.requests[resource] and accounts.guaranteed(account, tier, resource)
    ]
    return bool(asked) and all(
        sum(_used(found, terms.tier, resource, project) for project in accounts.projects(account))
        + copies * terms.shape.requests[resource]
        <= accounts.guaranteed(account, tier, resource)
        for resource in asked
    )
