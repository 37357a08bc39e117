"""Finds faults of a FederatedQuota beside all others; the hub reports them in its `Valid` condition
and changes nothing.

An account with faults still limits, by the fields that can be understood. Pure.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Tier
from federator.model.kubernetes import quantity
from federator.model.resources import Resources
from federator.placement.quota.tree import Tree, guaranteed, maximum

NATIVE: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
"""Resources without a domain that pods can request; those with a domain (nvidia.com/gpu) are what
nodes report."""
PAGES: Final = "hugepages-"
UNKNOWN_RESOURCE: Final = "UnknownResource"
UNKNOWN_PARENT: Final = "UnknownParent"
PARENT_CYCLE: Final = "ParentCycle"
PROJECT_BOUND_TWICE: Final = "ProjectBoundTwice"
GUARANTEED_ABOVE_MAX: Final = "GuaranteedAboveMax"
UNREADABLE_AMOUNT: Final = "UnreadableAmount"
GUARANTEES_ABOVE_PARENT: Final = "GuaranteesAboveParent"
GUARANTEED_ABOVE_CAPACITY: Final = "GuaranteedAboveCapacity"
NAMED_MOST: Final = 5
ALIKE: Final = 0.75
"""Minimum similarity (difflib ratio) of a name that is suggested: gpu is not cpu."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault: its reason in CamelCase, and a sentence that begins with the field."""

    reason: str
    message: str


def troubles(account: QuotaAccount, tree: Tree, capacity: Resources) -> tuple[Trouble, ...]:
    """All faults of an account, the most serious first. `capacity`: what the nodes of the fleet
    have for the federation, empty while there is no report.
    """
    return (
        *_parents(account, tree.accounts),
        *_projects(account, tree),
        *(Trouble(UNREADABLE_AMOUNT, message) for message in account.unread),
        *_limits(account),
        *_below(account, tree),
        *_promises(account, tree, capacity),
        *_resources(account, capacity),
    )


def unknown_parents(accounts: Iterable[QuotaAccount]) -> Iterator[tuple[str, str]]:
    """(account, sentence) of those with a parent that is none of these accounts, by name."""
    every = {account.name: account for account in accounts}
    for name in sorted(every):
        for trouble in _parents(every[name], every):
            if trouble.reason == UNKNOWN_PARENT:
                yield name, trouble.message


def _parents(account: QuotaAccount, accounts: Mapping[str, QuotaAccount]) -> Iterator[Trouble]:
    if not account.parent:
        return
    if account.parent == account.name:
        yield Trouble(
            PARENT_CYCLE, f"spec.parent is {account.name}, the account itself; it stands alone"
        )
        return
    if account.parent not in accounts:
        close = _close(account.parent, accounts.keys() - {account.name})
        yield Trouble(
            UNKNOWN_PARENT,
            f"spec.parent is {account.parent}, and there is no such FederatedQuota{close}",
        )
        return
    path = [account.name]
    while (above := accounts.get(path[-1])) is not None and above.parent:
        path.append(above.parent)
        if above.parent in path[:-1]:
            yield Trouble(
                PARENT_CYCLE, f"spec.parent leads in a circle: {' -> '.join(path)}; it stands alone"
            )
            return


def _projects(account: QuotaAccount, tree: Tree) -> Iterator[Trouble]:
    """A project should have one account. With several, each counts all its use and each
    limits it.
    """
    for project in sorted(account.projects):
        others = [name for name in tree.speaking(project) if name != account.name]
        if others:
            lowest = tree.charged(project)
            then = (
                "each of them limits it"
                if len(lowest) > 1
                else f"it is charged to {lowest[0]}, the lowest of them"
            )
            yield Trouble(
                PROJECT_BOUND_TWICE,
                f"spec.projects names {project}, as FederatedQuota {_few(others)} does: {then}",
            )


def _limits(account: QuotaAccount) -> Iterator[Trouble]:
    for tier, limits in _tiers(account):
        most = limits.maximum or Resources()
        for name in sorted(limits.guaranteed):
            if (name in most or name in limits.barred) and limits.guaranteed[name] > most[name]:
                field = f"spec.tiers.{tier}.guaranteed.{name}"
                yield Trouble(
                    GUARANTEED_ABOVE_MAX,
                    f"{field} is above spec.tiers.{tier}.max.{name}, which limits",
                )


def _below(account: QuotaAccount, tree: Tree) -> Iterator[Trouble]:
    """What is guaranteed to accounts below must be in what this one has."""
    children = tree.children(account.name)
    if not children:
        return
    for tier, limits in _tiers(account):
        for name in tree.names(account.name, tier):
            bounds = tree.bounds(account.name, tier, name) or {}
            beneath = sum(bounds[child].guaranteed or 0 for child in children)
            own, most = guaranteed(limits, name), maximum(limits, name)
            has, field = (own, "guaranteed") if own is not None else (most, "max")
            if has is not None and beneath > has:
                parts = ", ".join(
                    f"{child} {quantity.render_amount(name, bounds[child].guaranteed or 0)}"
                    for child in children[:NAMED_MOST]
                    if bounds[child].guaranteed
                )
                sums = [quantity.render_amount(name, amount) for amount in (has, beneath)]
                yield Trouble(
                    GUARANTEES_ABOVE_PARENT,
                    (
                        f"spec.tiers.{tier}.{field}.{name} is {sums[0]}, and {sums[1]} is "
                        f"guaranteed below it ({parts})"
                    ),
                )


def _promises(account: QuotaAccount, tree: Tree, capacity: Resources) -> Iterator[Trouble]:
    """What is guaranteed to all accounts together must be in the fleet. Told of each account
    without a parent that guarantees anything of it.
    """
    if account.name not in tree.roots:
        return
    for name, promised in tree.promised.items():
        if name not in capacity or promised <= capacity[name]:
            continue
        for tier in Tier:
            bounds = tree.bounds(account.name, tier, name) or {}
            if own := bounds[account.name].guaranteed if bounds else None:
                sums = [
                    quantity.render_amount(name, amount)
                    for amount in (own, promised, capacity[name])
                ]
                yield Trouble(
                    GUARANTEED_ABOVE_CAPACITY,
                    f"spec.tiers.{tier}.guaranteed.{name}: with {sums[0]} here, {sums[1]} is "
                    "guaranteed to all"
                    f" accounts, and the clusters have {sums[2]} for the federation",
                )


def _resources(account: QuotaAccount, offered: Collection[str]) -> Iterator[Trouble]:
    for tier, limits in _tiers(account):
        for field, names in (
            ("guaranteed", {*limits.guaranteed, *limits.withheld}),
            ("max", {*(limits.maximum or ()), *limits.barred}),
            ("borrowingLimit", set(limits.borrowing)),
            ("lendingLimit", set(limits.lending)),
        ):
            for name in sorted(names):
                where = f"spec.tiers.{tier}.{field}.{name}"
                resources = {*NATIVE, *offered}
                if name in resources or name.startswith(PAGES):
                    continue
                if "/" not in name:
                    yield Trouble(
                        UNKNOWN_RESOURCE,
                        (
                            f"{where}: no pod can ask for {name}: it has no "
                            f"domain{_close(name, resources)}"
                        ),
                    )
                elif offered:
                    yield Trouble(
                        UNKNOWN_RESOURCE, f"{where}: no cluster has {name}{_close(name, resources)}"
                    )


def _tiers(account: QuotaAccount) -> Iterator[tuple[Tier, TierQuota]]:
    return ((tier, account.tiers[tier]) for tier in Tier if tier in account.tiers)


def _few(names: list[str]) -> str:
    more = len(names) - NAMED_MOST
    return ", ".join(names[:NAMED_MOST]) + (f" and {more} more" if more > 0 else "")


def _close(name: str, resources: Collection[str]) -> str:
    whole = [
        resource for resource in sorted(resources) if resource.endswith(f"/{name}")
    ]  # its domain was left out
    similar = whole or difflib.get_close_matches(name, sorted(resources), n=1, cutoff=ALIKE)
    return f"; did you mean {similar[0]}?" if similar else ""
