"""Which holders leave under `ordering: FairShare`: those of the accounts that have borrowed most.

From the root down the child with the largest share is followed to a leaf, and its first candidate
is weighed by two rules (Kueue's): the preemptor's share with the workload is at most what the other
has left (LessThanOrEqualToFinalShare), or less than what it has now (LessThanInitialShare), tried
when the first rule does not suffice. A preemptor that stays within its guarantee takes from any
that borrow."""

from collections.abc import Iterator, Sequence

from federator.model.accounts import Preemption, Take
from federator.scheduling.admission.holders import (
    DEFAULT_STRATEGIES,
    Holder,
    Preemptor,
    Trial,
    Victim,
    Why,
    may,
    order,
    scaled,
    uses_any,
)
from federator.scheduling.admission.reclaim import Held
from federator.scheduling.admission.tree_usage import Share, TreeUsage

FINAL, INITIAL = DEFAULT_STRATEGIES


def victims(
    preemptor: Preemptor,
    usage: TreeUsage,
    held: Held,
    rules: Preemption,
    strategies: Sequence[str] = DEFAULT_STRATEGIES,
) -> tuple[Victim, ...] | None:
    """The least that has to leave so that the preemptor fits; None when nothing that may leave
    helps. The usage is unchanged."""
    candidates = _candidates(preemptor, usage, held, rules)
    if not candidates:
        return None
    trial = Trial(usage, lambda: usage.fits(preemptor.node, preemptor.needs))
    search = _FairSearch(preemptor, trial)
    enough = search.first(candidates, strategies[0]) or (
        len(strategies) > 1 and search.second(candidates)
    )
    if enough:
        return trial.fill_back()
    trial.undo()
    return None


def _candidates(
    preemptor: Preemptor, usage: TreeUsage, held: Held, rules: Preemption
) -> list[Holder]:
    leaving: list[Holder] = []
    for leaf, holders in held.items():
        own = leaf == preemptor.node
        # An account within its guarantee has borrowed nothing that others may take back.
        take = rules.within if own else rules.reclaim
        if take is Take.NEVER or (not own and usage.within(leaf, preemptor.short)):
            continue
        leaving += [
            holder
            for holder in holders
            if uses_any(holder, preemptor.short) and may(take, preemptor, holder)
        ]
    # Other accounts first: borrowed quota is taken back before own workloads are preempted.
    return sorted(leaving, key=lambda rival: (rival.node == preemptor.node, *order(rival)))


class _FairSearch:
    def __init__(self, preemptor: Preemptor, trial: Trial) -> None:
        self.preemptor, self.trial, self.usage = preemptor, trial, trial.usage

    def first(self, candidates: Sequence[Holder], strategy: str) -> bool:
        """Takes by the first rule; again while the preemptor's own account gave something, because
        its share is less then. True when the preemptor fits."""
        own = False
        queue = _Queue(self, candidates)
        needs = self.preemptor.needs
        within = all(
            self.usage.excess(self.preemptor.node, cell, needs.get(cell, 0)) <= 0
            for cell in self.preemptor.short
        )
        for leaf in queue:
            if leaf == self.preemptor.node:
                own = True
                if self._takes(queue.pop(leaf), Why.WITHIN):
                    return True
            elif within:
                # Guaranteed quota is reclaimed from any borrower, whatever the shares are.
                if self._takes(queue.pop(leaf), Why.RECLAIM):
                    return True
            elif (holder := self._passing(queue, leaf, strategy)) is not None and self._takes(
                holder, Why.FAIR_SHARE
            ):
                return True
        left = [holder for holder in candidates if self.trial.left(holder)]
        others = [holder for holder in left if holder.node != self.preemptor.node]
        # Own work that leaves lowers the own share, so rivals that did not pass may pass now.
        return own and bool(others) and self.first(others, strategy)

    def second(self, candidates: Sequence[Holder]) -> bool:
        """Takes one of each account by the second rule."""
        queue = _Queue(self, [holder for holder in candidates if self.trial.left(holder)])
        for leaf in queue:
            ours, theirs = self._shares(leaf)
            holder = queue.pop(leaf)
            # One of each account: the rule compares with the share before anything is taken.
            queue.drop(leaf)
            if ours < theirs and self._takes(holder, Why.FAIR_SHARE):
                return True
        return False

    def _passing(self, queue: "_Queue", leaf: str, strategy: str) -> Holder | None:
        """The account's next candidate that passes the rule; the others before it are dropped."""
        ours, theirs = self._shares(leaf)
        while queue.has(leaf):
            holder = queue.pop(leaf)
            if strategy == INITIAL:
                passes = ours < theirs
            else:
                # LessThanOrEqualToFinalShare compares with what the account has without this copy.
                self.trial.move(holder, -1)
                passes = ours <= self._shares(leaf)[1]
                self.trial.move(holder, 1)
            if passes:
                return holder
            queue.skip(holder)
        return None

    def _takes(self, holder: Holder, why: Why) -> bool:
        self.trial.take(holder, 1, why)
        return self.trial.fits()

    def _shares(self, leaf: str) -> tuple[Share, Share]:
        """The shares with the preemptor's workload of the two children of the lowest account above
        both that lead to the preemptor and to the leaf."""
        mine, other = self.usage.paths[self.preemptor.node], self.usage.paths[leaf]
        common = next(name for name in mine if name in other)
        ours, theirs = mine[mine.index(common) - 1], other[other.index(common) - 1]
        self.simulate(1)
        shares = self.usage.share(ours), self.usage.share(theirs)
        self.simulate(-1)
        return shares

    def simulate(self, sign: int) -> None:
        self.usage.add(self.preemptor.node, scaled(self.preemptor.needs, sign))


class _Queue:
    """The leaves with candidates, in the order of their shares, which change while it is read. Each
    time something is popped or dropped."""

    def __init__(self, search: _FairSearch, candidates: Sequence[Holder]) -> None:
        self._search, self._usage = search, search.usage
        self._waiting: dict[str, list[Holder]] = {}
        for holder in candidates:
            self._waiting.setdefault(holder.node, []).extend([holder] * search.trial.left(holder))
        self._pruned: set[str] = set()
        self._path = self._usage.paths[search.preemptor.node]

    def __iter__(self) -> Iterator[str]:
        root = self._path[-1]
        if root == self._search.preemptor.node:
            while self.has(root):
                yield root
            return
        while root not in self._pruned:
            # Shares count as they would be with the preemptor: otherwise it would take from an
            # account that has less than it has itself afterwards.
            self._search.simulate(1)
            leaf = self._next(root)
            self._search.simulate(-1)
            if leaf is not None:
                yield leaf

    def has(self, leaf: str) -> bool:
        return bool(self._waiting.get(leaf))

    def pop(self, leaf: str) -> Holder:
        return self._waiting[leaf].pop(0)

    def skip(self, holder: Holder) -> None:
        """None of its copies."""
        left = self._waiting[holder.node]
        self._waiting[holder.node] = [other for other in left if other.uid != holder.uid]

    def drop(self, leaf: str) -> None:
        self._pruned.add(leaf)

    def _next(self, node: str) -> str | None:
        """The leaf to take from next, below this node; None when something was pruned instead."""
        usage = self._usage
        best: tuple[Share, bool, str] | None = None
        for child in usage.children[node]:
            if child in self._pruned:
                continue
            inner = bool(usage.children[child])
            # Only borrowers give; on the preemptor's own path its own workloads may leave too.
            idle = not usage.borrows(child) and child not in self._path
            if idle or (not inner and not self.has(child)):
                self._pruned.add(child)
                continue
            key = (usage.share(child), inner, child)
            if best is None or self._before(key, best):
                best = key
        if best is None:
            self._pruned.add(node)
            return None
        return self._next(best[2]) if best[1] else best[2]

    def _before(self, rival: tuple[Share, bool, str], best: tuple[Share, bool, str]) -> bool:
        if rival[:2] != best[:2]:
            return rival[:2] > best[:2]
        # Equal shares: names and candidates decide, so that the order of the input does not.
        if rival[1]:
            return rival[2] > best[2]
        mine, others = self._waiting[rival[2]][0], self._waiting[best[2]][0]
        own = self._search.preemptor.node
        return (mine.node == own, *order(mine)) < (others.node == own, *order(others))
