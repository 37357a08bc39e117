"""The use of one tree of accounts in one tier while an admission tries what could change.

A *cell* is what a limit is about: a resource, or a resource in a domain of clusters
(`placement.quota.tree`). Accounts that hold anything themselves are leaves; one that has accounts
below it too gets a leaf of its own, which is guaranteed nothing and borrows from it.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from federator.model.ask import Tier
from federator.model.resources import UNLIMITED, resource_of
from federator.placement.quota.tree import AccountLimit, Tree

Amounts = Mapping[str, int]
"""Cell -> amount."""
Share = tuple[int, Fraction]
"""Weighted dominant share, comparable. 1 first for an account of weight 0 that borrows: it counts
as having more than any other."""
NO_SHARE: Final[Share] = (0, Fraction(0))
_OWN: Final = AccountLimit(
    kept=0, pool=0, most=None, below=0, stated=None, field="", guaranteed=None
)


class TreeUsage:
    """Nobody uses anything at first (`add`)."""

    def __init__(self, tree: Tree, root: str, tier: Tier) -> None:
        self.tree, self.root, self.tier = tree, root, tier
        self.paths: dict[str, tuple[str, ...]] = {}
        """Node -> itself and those above it."""
        self.children: dict[str, tuple[str, ...]] = {}
        self.account: dict[str, str] = {}
        """Node -> the account that it stands for."""
        for name in tree.family(root):
            self.paths[name], self.account[name] = tree.path(name), name
            below = tuple(tree.children(name))
            if below and list(tree.own(name)):
                own = own_leaf(name)
                self.paths[own], self.account[own] = (own, *tree.path(name)), name
                self.children[own] = ()
                below = (*below, own)
            self.children[name] = below
        self.bounds: dict[str, Mapping[str, AccountLimit]] = {}
        self._use: dict[str, dict[str, int]] = {}
        for cell in tree.names(root, tier):
            if (bounds := tree.bounds(root, tier, cell)) is not None:
                self.bounds[cell] = {
                    node: bounds[node] if node == account else _OWN
                    for node, account in self.account.items()
                }
                self._use[cell] = dict.fromkeys(self.account, 0)
        self._lendable: dict[str, dict[str, int]] = {}

    def leaf(self, project: str) -> str | None:
        """The node that a project is charged to; None when it is charged to several accounts or to
        none of this tree."""
        node = leaf(self.tree, project)
        return node if node in self.account else None

    def add(self, node: str, amounts: Amounts, sign: int = 1) -> None:
        """The node uses so much more; with sign -1 so much less."""
        for cell, amount in amounts.items():
            if (bounds := self.bounds.get(cell)) is None:
                continue
            use, more = self._use[cell], sign * amount
            for name in self.paths[node]:
                before, kept = use[name], bounds[name].kept
                use[name] = before + more
                # What an account keeps for itself (lendingLimit) is no use of its parent: only what
                # is beyond it is passed on, as in Kueue's resource nodes.
                more = max(before + more - kept, 0) - max(before - kept, 0)
                if not more:
                    break

    def available(self, node: str, cell: str) -> int:
        """How much more the node may use now, as `Uses.left` reckons it."""
        bounds = self.bounds.get(cell)
        if bounds is None:
            return UNLIMITED
        use, best, kept = self._use[cell], UNLIMITED, 0
        for name in self.paths[node]:
            bound = bounds[name]
            # What it keeps and does not use is had without a question to the accounts above.
            own = max(bound.kept - use[name], 0)
            if bound.most is not None:
                best = min(best, kept + max(own, bound.most - use[name]))
            kept += own
        return best

    def ever(self, node: str, cell: str) -> int:
        """How much it may use while nobody uses anything."""
        bounds = self.bounds.get(cell)
        if bounds is None:
            return UNLIMITED
        best, kept = UNLIMITED, 0
        for name in self.paths[node]:
            bound = bounds[name]
            if bound.most is not None:
                best = min(best, kept + max(bound.kept, bound.most))
            kept += bound.kept
        return best

    def fits(self, node: str, amounts: Amounts) -> bool:
        return all(amount <= self.available(node, cell) for cell, amount in amounts.items())

    def excess(self, node: str, cell: str, more: int = 0) -> int:
        """What it uses beyond its guarantee with so much more; negative while it does not."""
        if cell not in self.bounds:
            return -UNLIMITED
        return self._use[cell][node] + more - self.bounds[cell][node].pool

    def promised(self, cell: str) -> bool:
        """Whether any account of the tree is guaranteed anything of it. Else it is only limited
        there: what is used below such a limit is nobody's, and not borrowed."""
        return cell in self.bounds and self.bounds[cell][self.root].guaranteed is not None

    def within(self, node: str, cells: Iterable[str]) -> bool:
        """Whether it holds no more than its guarantee of any of these cells."""
        return all(self.excess(node, cell) <= 0 for cell in cells)

    def kept_free(self, node: str, cell: str) -> int:
        """Of what it does not lend, what is idle."""
        if cell not in self.bounds:
            return UNLIMITED
        return max(self.bounds[cell][node].kept - self._use[cell][node], 0)

    def used(self, node: str, cell: str) -> int:
        return self._use[cell][node] if cell in self._use else 0

    def height(self, node: str) -> int:
        """Accounts below it, one below the other."""
        return max((1 + self.height(child) for child in self.children[node]), default=0)

    def lowest(self, node: str, cell: str, amount: int) -> tuple[int, bool]:
        """The height of the lowest account on the way up with a guarantee that holds so much more,
        0 for the node itself, and whether that is less than the whole tree. When none holds it: the
        whole tree."""
        path = self.paths[node]
        if self.excess(node, cell, amount) <= 0 or len(path) == 1:
            return 0, len(path) > 1
        # On the way up each account asks its parent only for what it does not keep itself.
        left = amount - self.kept_free(node, cell)
        for name in path[1:]:
            if self.excess(name, cell, left) <= 0:
                return self.height(name), name != path[-1]
            left -= self.kept_free(name, cell)
        return self.height(path[-1]), False

    def share(self, node: str) -> Share:
        """What it has borrowed of the resource of which it has borrowed most, as a part of what its
        parent may use, by its weight."""
        path = self.paths[node]
        if len(path) == 1:
            return NO_SHARE
        borrowed: dict[str, int] = {}
        for cell in self.bounds:
            # All domains of a resource add up: an account must not look poor because it borrows in
            # many.
            if (over := self.excess(node, cell)) > 0:
                resource = resource_of(cell)
                borrowed[resource] = borrowed.get(resource, 0) + over
        if not borrowed:
            return NO_SHARE
        lendable = self._lendable_to(path[1])
        part = max(
            (
                Fraction(amount, lendable[resource])
                for resource, amount in borrowed.items()
                if lendable[resource] > 0
            ),
            default=Fraction(0),
        )
        weight = self.tree.accounts[self.account[node]].weight if node in self.tree.accounts else 1
        # Kueue: weight 0 means infinite share. The first element says so without a division.
        return (1, part) if weight == 0 else (0, part / weight)

    def borrows(self, node: str) -> bool:
        """Whether it holds more than its guarantee of anything."""
        return any(self.excess(node, cell) > 0 for cell in self.bounds)

    def _lendable_to(self, node: str) -> Mapping[str, int]:
        if node not in self._lendable:
            total: dict[str, int] = {}
            for cell in self.bounds:
                resource = resource_of(cell)
                total[resource] = total.get(resource, 0) + self.ever(node, cell)
            self._lendable[node] = total
        return self._lendable[node]


def leaf(tree: Tree, project: str) -> str | None:
    """The leaf that a project is charged to; None when that is not one account."""
    charged = tree.charged(project)
    if len(charged) != 1:
        return None
    return own_leaf(charged[0]) if tree.children(charged[0]) else charged[0]


def own_leaf(name: str) -> str:
    """The leaf of an account that has accounts below it and holds something itself."""
    return f"{name} itself"
