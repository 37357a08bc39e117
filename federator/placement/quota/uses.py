"""What the accounts of a tree use, what is left to one of them, and which accounts borrow and lend.

Use is a sum over what projects hold. It is kept by account while one ledger lives and moved by what
that ledger gives and takes back, so that an admission costs as much as the account's path is long.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from federator.model.accounts import Balance
from federator.model.ask import Tier
from federator.model.fleet import Commitment
from federator.model.resources import Resources
from federator.placement.quota.tree import AccountLimit, Tree

Usage = Callable[[str, Tier], Resources]
NOBODY: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class Limit:
    """One of the limits above an ask: that of its own account or of one above it."""

    account: str
    bound: AccountLimit
    left: int
    """What the asking account may still take, as far as this limit goes."""
    ever: int
    """What it could take if nobody used anything."""


@dataclass(slots=True)
class _Loans:
    """What one account borrows and lends, while that is being attributed."""

    borrowed: int = 0
    lent: int = 0
    lenders: list[tuple[str, int]] = field(default_factory=list)


class Uses:
    """Use by account, as each parent sees it (`AccountLimit`)."""

    def __init__(self, tree: Tree, usage: Usage) -> None:
        self.tree = tree
        self._usage = usage
        self._tables: dict[
            tuple[str, Tier, str], tuple[Mapping[str, AccountLimit], dict[str, int]] | None
        ] = {}
        """By root, tier and resource."""

    def moved(self, project: str, tier: Tier, amounts: Resources) -> None:
        """The use of a project is another by these amounts."""
        if not self._tables:
            return
        for name in self.tree.charged(project):
            root = self.tree.path(name)[-1]
            for resource, amount in amounts.items():
                if (table := self._tables.get((root, tier, resource))) is not None:
                    self._raise(name, amount, *table)

    def left(
        self, name: str, tier: Tier, resource: str, less: Commitment | None = None
    ) -> int | None:
        """How much more the account may use; None without a limit. `less` counts as gone."""
        bounds_and_uses = self._table(name, tier, resource)
        if bounds_and_uses is None:
            return None
        bounds, table = bounds_and_uses
        path = self.tree.path(name)
        if len(path) == 1:
            most, use = bounds[name].most, table[name]
            for project, of, amounts in less.charges if less is not None else ():
                if of is tier and name in self.tree.charged(project):
                    use -= amounts[resource]
            return None if most is None else max(most - use, 0)
        used = self._without(bounds, table, tier, resource, less)
        best, kept = None, 0
        # Upwards: what an account keeps for itself is usable whatever those above have left, so it
        # is added to each bound above.
        for account in path:
            bound = bounds[account]
            use = used[account] if account in used else table[account]
            own = max(bound.kept - use, 0)
            if bound.most is not None:
                here = kept + max(own, bound.most - use)
                best = here if best is None else min(best, here)
            kept += own
        return best

    def limits(
        self, name: str, tier: Tier, resource: str, less: Commitment | None = None
    ) -> list[Limit]:
        """All limits of the account's path, its own first."""
        bounds_and_uses = self._table(name, tier, resource)
        if bounds_and_uses is None:
            return []
        bounds, table = bounds_and_uses
        used = self._without(bounds, table, tier, resource, less)
        limits, kept, kept_ever = [], 0, 0
        for account in self.tree.path(name):
            bound, use = bounds[account], used.get(account, table[account])
            own = max(bound.kept - use, 0)
            if bound.most is not None:
                limits.append(
                    Limit(
                        account,
                        bound,
                        kept + max(own, bound.most - use),
                        kept_ever + max(bound.kept, bound.most),
                    )
                )
            kept, kept_ever = kept + own, kept_ever + bound.kept
        return limits

    def counted(self, root: str, tier: Tier, resource: str) -> dict[str, tuple[int, AccountLimit]]:
        """Account -> (its use as its parent sees it, its bound); empty where nothing limits."""
        bounds_and_uses = self._table(root, tier, resource)
        if bounds_and_uses is None:
            return {}
        bounds, uses = bounds_and_uses
        return {name: (use, bounds[name]) for name, use in uses.items()}

    def balances(self, root: str, tier: Tier) -> dict[str, dict[str, Balance]]:
        """Resource -> account -> its balance, of one tree."""
        balances: dict[str, dict[str, Balance]] = {}
        for resource in self._resources(root, tier):
            balances[resource] = self._balanced(root, tier, resource)
        return balances

    def _resources(self, root: str, tier: Tier) -> list[str]:
        names = set(self.tree.names(root, tier))
        for project in self.tree.under(root):
            names |= self._usage(project, tier).keys()
        return sorted(names)

    def _table(
        self, name: str, tier: Tier, resource: str
    ) -> tuple[Mapping[str, AccountLimit], dict[str, int]] | None:
        key = (self.tree.path(name)[-1], tier, resource)
        if key in self._tables:
            return self._tables[key]
        bounds = self.tree.bounds(name, tier, resource)
        if bounds is None:
            self._tables[key] = None
            return None
        table = dict.fromkeys(bounds, 0)
        # Only use beyond what an account keeps reaches its parent.
        for account in self.tree.family(name):  # those below come first
            for project in self.tree.own(account):
                table[account] += self._usage(project, tier)[resource]
            if (above := self.tree.path(account)[1:2]) and (
                beyond := table[account] - bounds[account].kept
            ) > 0:
                table[above[0]] += beyond
        self._tables[key] = (bounds, table)
        return bounds, table

    def _raise(
        self, name: str, amount: int, bounds: Mapping[str, AccountLimit], table: dict[str, int]
    ) -> None:
        """One account uses so much more (or less)."""
        for account in self.tree.path(name):
            before, kept = table[account], bounds[account].kept
            table[account] = before + amount
            # The change of what reaches the parent; 0 ends the way up.
            amount = max(before + amount - kept, 0) - max(before - kept, 0)
            if not amount:
                return

    def _without(
        self,
        bounds: Mapping[str, AccountLimit],
        table: dict[str, int],
        tier: Tier,
        resource: str,
        less: Commitment | None,
    ) -> Mapping[str, int]:
        """The use of those accounts for which it is another without this commitment."""
        if less is None:
            return NOBODY
        others: dict[str, int] = {}
        for project, of, amounts in less.charges:
            for name in self.tree.charged(project) if of is tier else ():
                if name not in table:
                    continue
                gone = amounts[resource]
                for account in self.tree.path(name):
                    before, kept = others.get(account, table[account]), bounds[account].kept
                    others[account] = before - gone
                    gone = max(before - kept, 0) - max(before - gone - kept, 0)
                    if not gone:
                        break
        return others

    def _balanced(self, root: str, tier: Tier, resource: str) -> dict[str, Balance]:
        family = self.tree.family(root)
        used = dict.fromkeys(family, 0)
        for name in family:
            used[name] += sum(
                self._usage(project, tier)[resource] for project in self.tree.own(name)
            )
            for above in self.tree.path(name)[1:2]:
                used[above] += used[name]
        table = self._table(root, tier, resource)
        if table is None:
            return {name: Balance(used[name]) for name in family}
        bounds, uses = table
        loans = {name: _Loans() for name in family}
        if bounds[root].most is not None:
            # A root has no account above it to borrow from.
            for name in family:
                loans[name].borrowed = max(uses[name] - bounds[name].pool, 0) if name != root else 0
            for name in reversed(family):  # those above come first
                self._lend(name, bounds, uses, loans)
        return {
            name: Balance(
                used[name],
                bounds[name].guaranteed,
                bounds[name].stated,
                loans[name].borrowed,
                loans[name].lent,
                tuple(loans[name].lenders),
            )
            for name in family
        }

    def _lend(
        self,
        name: str,
        bounds: Mapping[str, AccountLimit],
        uses: Mapping[str, int],
        loans: dict[str, _Loans],
    ) -> None:
        """Attributes what is borrowed from this account and from those right below it: first what
        it has promised to nobody, then what is idle with those below, the most idle first, then
        what it borrows itself.
        """
        children = self.tree.children(name)
        promised = sum(bounds[child].pool - bounds[child].kept for child in children)
        own = max(bounds[name].pool - promised, 0)
        used = uses[name] - sum(max(uses[child] - bounds[child].kept, 0) for child in children)
        idle = {
            child: bounds[child].pool - max(uses[child], bounds[child].kept) for child in children
        }
        # Its own idle part first: that takes nothing from other accounts.
        supply = [(name, max(own - used, 0))]
        supply += sorted(
            ((child, left) for child, left in idle.items() if left > 0),
            # The most idle first: fewer accounts lend, and those need it least.
            key=lambda offer: (-offer[1], offer[0]),
        )
        supply += loans[name].lenders
        taken = _take(supply, loans[name].lent) + _take(supply, max(used - own, 0))
        for child in children:
            loans[child].lenders = _take(supply, loans[child].borrowed)
            taken += loans[child].lenders
        for lender, amount in taken:
            if lender in idle:
                loans[lender].lent += amount


def _take(supply: list[tuple[str, int]], amount: int) -> list[tuple[str, int]]:
    """Takes so much from the first that have it; the supply shrinks."""
    taken: list[tuple[str, int]] = []
    for at, (name, has) in enumerate(supply):
        if (part := min(has, amount)) > 0:
            supply[at] = (name, has - part)
            taken.append((name, part))
            amount -= part
    return taken
