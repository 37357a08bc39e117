"""The tree of accounts: the parent of each, and how much each may use by what is written.

Each tier and resource is reckoned by itself. An account keeps of its guarantee what it does not
lend; the rest joins the pool of its parent, from which every account below it may borrow:

    company      guaranteed 100                  pool 100 - 6 = 94: its own 60, lent 10 and 24
      ads        guaranteed 10                   may use 10 of its own, and of what others leave
      feed       guaranteed 30, lendingLimit 24  keeps 6 that nobody else ever gets

A parent's guarantee includes those of the accounts below it. Where it says nothing, it has what
they have together. What others use of a lent guarantee comes back only when they leave.

Pure functions of what is written; `uses` adds what is used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Tier
from federator.model.resources import Resources

KEEPS: Final = frozenset({Tier.RESERVED})
"""Tiers with guarantees that are neither lent nor exceeded unless the account says so."""
_NOTHING: Final = TierQuota()


@dataclass(frozen=True, slots=True)
class AccountLimit:
    """What one account may use of one resource in one tier. Use is counted as its parent sees it:
    of the accounts below, only what they use beyond what they keep."""

    kept: int
    """Of its guarantee, what it does not lend."""
    pool: int
    """What it and those below it have before they borrow, without what those below keep."""
    most: int | None
    """The most of such use; None where nothing limits it."""
    below: int
    """What the accounts below it keep."""
    stated: int | None
    """`most` as it is written, with what those below keep."""
    field: str
    """Where it is written, such as `max.cpu`; "" where it is the sum of the guarantees below."""
    guaranteed: int | None
    """Its guarantee, or the sum of those below it; None when neither is written."""


class Tree:
    """All accounts, with their paths up to the account without a parent. A parent that does not
    exist and a circle of parents do not count: such an account has none."""

    def __init__(self, accounts: Iterable[QuotaAccount] = ()) -> None:
        self.accounts: dict[str, QuotaAccount] = {
            account.name: account for account in sorted(accounts, key=lambda account: account.name)
        }
        self.by_domain = any(account.domains for account in self.accounts.values())
        """Whether any of them has limits in domains of clusters."""
        self._paths: dict[str, tuple[str, ...]] = {name: self._path(name) for name in self.accounts}
        self._families: dict[str, list[str]] = {}
        """Root -> all accounts of its tree, those below before those above."""
        # The deepest first: sums of an account are complete when all below it have been counted.
        for name in sorted(self.accounts, key=lambda name: (-len(self._paths[name]), name)):
            self._families.setdefault(self._paths[name][-1], []).append(name)
        self._children: dict[str, list[str]] = {}
        for name, path in self._paths.items():
            for above in path[1:2]:
                self._children.setdefault(above, []).append(name)
        self._speaking: dict[str, tuple[str, ...]] = {}
        for name, account in self.accounts.items():
            for project in account.projects:
                self._speaking[project] = (*self._speaking.get(project, ()), name)
        self._charged: dict[str, tuple[str, ...]] = {}
        self._own: dict[str, list[str]] = {}
        for project in sorted(self._speaking):
            self._charged[project] = self._lowest(self._speaking[project])
            for name in self._charged[project]:
                self._own.setdefault(name, []).append(project)
        self._bounds: dict[tuple[str, Tier, str], Mapping[str, AccountLimit] | None] = {}
        self._names: dict[tuple[str, Tier], tuple[str, ...]] = {}
        self._promised: Resources | None = None
        self._under: dict[str, tuple[str, ...]] = {}
        self._above = {
            project: self._with_those_above(names) for project, names in self._speaking.items()
        }
        self._binding: dict[str, tuple[str, ...]] = {}
        for name, account in self.accounts.items():
            for namespace in account.namespaces:
                self._binding[namespace] = (*self._binding.get(namespace, ()), name)

    def speaking(self, project: str) -> tuple[str, ...]:
        """The accounts that name a project; each of them limits it."""
        return self._speaking.get(project, ())

    def charged(self, project: str) -> tuple[str, ...]:
        """The accounts that a project is charged to, and through them those above. Of accounts that
        name it and are above each other the lowest."""
        return self._charged.get(project, ())

    def above(self, project: str) -> tuple[str, ...]:
        """The accounts that name a project, each with all above it."""
        return self._above.get(project, ())

    def free(self, project: str, namespace: str) -> bool:
        """Whether no account restricts the namespaces that may name the project."""
        if namespace in self._binding or project not in self._speaking:
            return False
        return not any(self.accounts[name].namespaces for name in self._speaking[project])

    def own(self, name: str) -> Iterable[str]:
        """The projects that are charged to this very account, by name."""
        return self._own.get(name, ())

    def under(self, name: str) -> tuple[str, ...]:
        """The projects of an account and of all below it, by name."""
        if name not in self._under:
            family = (other for other in self.family(name) if name in self._paths[other])
            self._under[name] = tuple(
                sorted({project for other in family for project in self.own(other)})
            )
        return self._under[name]

    def path(self, name: str) -> tuple[str, ...]:
        """The account, its parent, and so on up to the one without."""
        return self._paths[name]

    def alone(self, name: str) -> bool:
        """Whether it has neither a parent nor accounts below it."""
        return len(self._families.get(name, ())) == 1

    def family(self, name: str) -> list[str]:
        """All accounts of the same tree, those below before those above."""
        return self._families[self._paths[name][-1]]

    @property
    def roots(self) -> list[str]:
        """The accounts without a parent, by name."""
        return sorted(self._families)

    @property
    def promised(self) -> Resources:
        """What is guaranteed to all accounts together, over all tiers."""
        if self._promised is None:
            total: dict[str, int] = {}
            for root in self.roots:
                for tier in Tier:
                    for name in self.names(root, tier):
                        bounds = self.bounds(root, tier, name) or {}
                        total[name] = total.get(name, 0) + (bounds[root].guaranteed or 0)
            self._promised = Resources(total)
        return self._promised

    def children(self, name: str) -> list[str]:
        """The accounts right below, by name."""
        return self._children.get(name, [])

    def names(self, name: str, tier: Tier) -> tuple[str, ...]:
        """The resources that any account of the same tree limits in a tier, by name."""
        key = (self._paths[name][-1], tier)
        if key not in self._names:
            resources: set[str] = set()
            for other in self.family(name):
                if (said := self.accounts[other].tiers.get(tier)) is not None:
                    resources |= {
                        *said.guaranteed,
                        *said.withheld,
                        *(said.maximum or ()),
                        *said.barred,
                        *said.borrowing,
                    }
            self._names[key] = tuple(sorted(resources))
        return self._names[key]

    def bounds(self, name: str, tier: Tier, resource: str) -> Mapping[str, AccountLimit] | None:
        """Of all accounts of the same tree; None where it says nothing of the resource."""
        key = (self._paths[name][-1], tier, resource)
        if key not in self._bounds:
            self._bounds[key] = self._reckoned(*key) if resource in self.names(name, tier) else None
        return self._bounds[key]

    def _path(self, name: str) -> tuple[str, ...]:
        path, seen = [name], {name}
        while (above := self.accounts[path[-1]].parent) in self.accounts:
            # A circle has no root: each account in it stands alone, so that a slip stops no other
            # one.
            if above in seen:
                return (name,)
            path.append(above)
            seen.add(above)
        return tuple(path)

    def _with_those_above(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(other for name in names for other in self._paths[name]))

    def _lowest(self, names: tuple[str, ...]) -> tuple[str, ...]:
        above = {other for name in names for other in self._paths[name][1:]}
        return tuple(name for name in names if name not in above)

    def _reckoned(self, root: str, tier: Tier, resource: str) -> Mapping[str, AccountLimit]:
        bounds: dict[str, AccountLimit] = {}
        below: dict[str, int] = {}
        """What the accounts below each keep."""
        sums: dict[str, int] = {}
        """The guarantees of the accounts below each."""
        for name in self._families[root]:
            said = self.accounts[name].tiers.get(tier, _NOTHING)
            bound = _bound(
                said, tier, resource, below.get(name, 0), sums.get(name), root=name == root
            )
            bounds[name] = bound
            if name != root:
                above = self._paths[name][1]
                below[above] = below.get(above, 0) + bound.kept + bound.below
                if bound.guaranteed is not None:
                    sums[above] = sums.get(above, 0) + bound.guaranteed
        return bounds


def guaranteed(said: TierQuota, resource: str) -> int | None:
    """The guarantee that is written, but never above the maximum that is."""
    if resource not in said.guaranteed and resource not in said.withheld:
        return None
    most = maximum(said, resource)
    # A guarantee above the maximum could never be used, and would be kept from all others.
    return said.guaranteed[resource] if most is None else min(said.guaranteed[resource], most)


def maximum(said: TierQuota, resource: str) -> int | None:
    """`max` where it is written."""
    most = said.maximum or Resources()
    return most[resource] if resource in most or resource in said.barred else None


def _bound(
    said: TierQuota, tier: Tier, resource: str, below: int, beneath: int | None, *, root: bool
) -> AccountLimit:
    """`below`: what the accounts below it keep; `beneath`: the sum of their guarantees, None when
    they have none."""
    own, most = guaranteed(said, resource), maximum(said, resource)
    # An account that states nothing guarantees what those below it were promised.
    promised = own if own is not None else beneath
    field = f"max.{resource}"
    if root:
        if most is None:
            most, field = promised, f"guaranteed.{resource}" if own is not None else ""
        # No account is above a root: what it may have at most is the pool of its tree.
        pool = max((most or 0) - below, 0)
        return AccountLimit(0, pool, None if most is None else pool, below, most, field, promised)
    borrows = said.borrowing.get(resource)
    # Tiers that keep their guarantee to themselves do not borrow unless it is written.
    if borrows is None and most is None and tier in KEEPS and own is not None:
        most, field = own, f"guaranteed.{resource}"
    elif borrows is not None and (most is None or (promised or 0) + borrows < most):
        most, field = (promised or 0) + borrows, f"borrowingLimit.{resource}"
    # A maximum on the way limits what can be promised through it.
    if most is not None and promised is not None:
        promised = min(promised, most)
    pool = max((promised or 0) - below, 0)
    # Idle guarantees are lent by default, except in tiers in which work must begin at any moment.
    lent = said.lending.get(resource, 0 if tier in KEEPS else pool)
    return AccountLimit(
        kept=max(pool - lent, 0),
        pool=pool,
        most=None if most is None else max(most - below, 0),
        below=below,
        stated=most,
        field=field,
        guaranteed=promised,
    )
