"""One round of admissions to a tree of accounts: the admitted workloads, the pending ones, and the
victims of each preemptor.

Each account nominates one of its waiting workloads. All nominated are judged by what is used at the
start and then taken in order: those that borrow less far up the tree, higher priorities, the older;
under `ordering: FairShare` those of the accounts with the smallest share. What is given or
reclaimed is used up for those that come later, and no victim leaves for two preemptors. A preemptor
waits for what its victims free: it is admitted when that is seen free.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction

from federator.model.accounts import Ordering, QuotaAccount, Take
from federator.model.ask import Tier
from federator.model.resources import domain_of
from federator.placement.quota.tree import Tree
from federator.scheduling.admission import domains, fairness, reclaim
from federator.scheduling.admission.domains import Assignment, Mode, Want
from federator.scheduling.admission.holders import (
    DEFAULT_STRATEGIES,
    Holder,
    Preemptor,
    ShortClusters,
    Victim,
    scaled,
)
from federator.scheduling.admission.tree_usage import Amounts, Share, TreeUsage


class Status(StrEnum):
    """Of one workload in one round. The words are those of Kueue's scheduler where it has one."""

    ADMITTED = "Admitted"
    """It has quota; what it gets is charged to its account for the rest of the cycle."""
    PENDING = "Pending"
    """It has no quota now, and is requeued."""
    PREEMPTING = "Preempting"
    """It has none before its victims have left, and is requeued."""
    SKIPPED = "Skipped"
    """It is nominated again after workloads of other accounts to which what it borrows is
    guaranteed."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What one workload got."""

    status: Status
    assignment: Assignment
    victims: tuple[Victim, ...] = ()
    later: bool = False
    """It would fit, but for what others got or reclaim in this very round."""
    ends: bool = False
    """Some of what it has is free only when pods that are terminating have ended."""


Covered = Callable[[Want], object]
"""Whether the guarantee of its account holds anything of it now."""
Behind = Callable[[str, Covered], Sequence[Want]]
"""Leaf -> what waits behind its first, given what says whether its guarantee holds one."""


@dataclass(slots=True)
class _Nominee:
    uid: str
    want: Want
    assignment: Assignment
    victims: tuple[Victim, ...]


@dataclass(slots=True)
class Round:
    """The usage of a tree, its holders, and what the present round has done."""

    usage: TreeUsage
    held: dict[str, list[Holder]]
    leaving: dict[str, Victim] = field(default_factory=dict)
    """uid -> the victim of this round."""
    spared: dict[str, list[Holder]] = field(default_factory=dict)
    """Leaf -> what does not leave now, by disruption budgets."""
    claiming: Set[str] = frozenset()
    """uids of preemptors with victims that were decided on before: what is free is theirs first. By
    the order the victims might take it back, and be preempted again, without end."""
    grown: dict[str, Counter[str]] = field(default_factory=dict)
    """Leaf -> what it was given in this cycle, by cell. Nobody has it yet."""
    terminating: Mapping[str, Amounts] = field(default_factory=dict)
    """Leaf -> what pods use there beyond what workloads hold. Nobody need leave for that, because
    it will be free. Until then nobody is given it."""
    evicted: list[Victim] = field(default_factory=list)
    """The victims of all rounds of this cycle."""
    followers: list[Want] = field(default_factory=list)
    """The preemptors of this cycle that must begin near other workloads."""
    slowed: set[str] = field(default_factory=set)
    """Leaf accounts with preemptors that get fewer victims because of those budgets."""

    @staticmethod
    def of(tree: Tree, root: str, tier: Tier, holders: Iterable[Holder]) -> "Round":
        """With all that is held, in any order."""
        usage, held = TreeUsage(tree, root, tier), dict[str, list[Holder]]()
        spared: dict[str, list[Holder]] = {}
        for holder in sorted(holders, key=lambda entrant: (entrant.node, entrant.uid)):
            usage.add(holder.node, scaled(holder.each, holder.copies))
            if not holder.stays:
                (spared if holder.spared else held).setdefault(holder.node, []).append(holder)
        return Round(usage, held, spared=spared)

    def run(self, wants: Mapping[str, Want], behind: Behind | None = None) -> dict[str, Judged]:
        """The verdict of each, by uid; at most one of each account. `behind`: what waits behind
        these; None where nobody yields to anybody."""
        self._settle()
        self.slowed = set()
        nominees = [self._nominated(uid, wants[uid]) for uid in sorted(wants)]
        judged: dict[str, Judged] = {}
        held = list(filter(self._has_left, self.usage.account)) if behind is not None else []
        while nominees:
            nominee = self._next(nominees)
            nominees.remove(nominee)
            with self._without(nominee.want):
                if behind is not None and self._yields(nominee, nominees, behind, held):
                    judged[nominee.uid] = Judged(Status.SKIPPED, nominee.assignment)
                else:
                    judged[nominee.uid] = self._processed(nominee)
        return judged

    def covered(self, want: Want) -> Mapping[str, int]:
        """What the guarantee of its account holds of it now, by cell; nothing where that is less
        than the least that is of use."""
        if want.gives is not None:
            return {}
        copies = self._own(want)
        if copies < want.least:
            return {}
        assignment = domains.assign(want, copies, self.usage, domains.nobody)
        return (
            assignment.needs if assignment.mode is not Mode.NEVER and not assignment.height else {}
        )

    def _has_left(self, node: str) -> bool:
        """Whether it holds less than its guarantee of anything."""
        return any(self.usage.excess(node, cell) < 0 for cell in self.usage.bounds)

    def _yields(
        self,
        nominee: _Nominee,
        others: Sequence[_Nominee],
        behind: Behind,
        held: Sequence[str],
    ) -> bool:
        """Whether it borrows, or waits to borrow, what is guaranteed to workloads that are judged
        after it in this batch, of the accounts `held`. The order Priority goes before
        guarantees."""
        want, assignment = nominee.want, nominee.assignment
        _, root = self._rules(want.node)
        claims = nominee.uid in self.claiming
        if not assignment.height or claims or root.ordering is Ordering.PRIORITY:
            return False
        heads = {other.want.node: other.want for other in others}
        beyond = self._beyond(nominee)
        after = [
            other
            for node in held
            if self._branch(want.node, node) in beyond
            for other in (*filter(None, [heads.get(node)]), *behind(node, self.covered))
        ]
        if assignment.mode is not Mode.FREE and not nominee.victims:
            return any(map(self.covered, after))  # it would keep all of it for itself
        reserved: list[tuple[str, Amounts]] = []
        for other in after:
            if other.node == want.node or not self._has_left(other.node):
                continue
            if needs := self.covered(other):
                self.usage.add(other.node, needs)
                reserved.append((other.node, needs))
        fits = self._still_fits(nominee)
        for node, needs in reserved:
            self.usage.add(node, needs, -1)
        return not fits and self._still_fits(nominee)

    def _beyond(self, nominee: _Nominee) -> Set[str]:
        """Its account and those above it that would hold more than their guarantee."""
        usage, node, needs = self.usage, nominee.want.node, nominee.assignment.needs
        usage.add(node, needs)
        cells = [name for name in needs if usage.promised(name)]
        beyond = {
            name
            for name in usage.paths[node]
            if any(usage.excess(name, cell) > 0 for cell in cells)
        }
        usage.add(node, needs, -1)
        return beyond

    def _branch(self, node: str, other: str) -> str:
        """The highest account above a leaf that is not above the other, or the leaf itself: what is
        used within the guarantee of that takes nothing from the other."""
        above = frozenset(self.usage.paths[other])
        apart = [name for name in self.usage.paths[node] if name not in above]
        return apart[-1] if apart else node

    def _settle(self) -> None:
        """The victims of the round before hold nothing any more."""
        for victim in self.leaving.values():
            holder = victim.holder
            self.usage.add(holder.node, scaled(holder.each, -victim.copies))
            left = replace(holder, copies=holder.copies - victim.copies)
            there = self.spared if holder.spared else self.held
            there[holder.node] = [
                *(other for other in there[holder.node] if other.uid != holder.uid),
                *([left] if left.copies else []),
            ]
        self.leaving = {}

    def _rules(self, node: str) -> tuple[QuotaAccount, QuotaAccount]:
        accounts = self.usage.tree.accounts
        return accounts[self.usage.account[node]], accounts[self.usage.root]

    @property
    def fair(self) -> bool:
        return self.usage.tree.accounts[self.usage.root].ordering is Ordering.FAIR_SHARE

    def _victims(self, preemptor: Preemptor) -> tuple[Victim, ...] | None:
        return self._among(preemptor, self.held)

    def _among(
        self,
        preemptor: Preemptor,
        held: Mapping[str, Sequence[Holder]],
        place: Callable[[], ShortClusters] | None = None,
    ) -> tuple[Victim, ...] | None:
        account, root = self._rules(preemptor.node)
        if preemptor.spares:
            held = {
                node: [holder for holder in there if holder.workload not in preemptor.spares]
                for node, there in held.items()
            }
        if self.fair:
            strategies = root.strategies or DEFAULT_STRATEGIES
            return fairness.victims(preemptor, self.usage, held, account.preemption, strategies)
        return reclaim.victims(preemptor, self.usage, held, account.preemption, place)

    def _beyond_budgets(self, want: Want, preemptor: Preemptor) -> tuple[Victim, ...]:
        """The victims if no workload had a disruption budget. One that begins with several copies
        or not at all, as an edit does, has no use for some at first: for it they leave."""
        if not self.spared:
            return ()
        every = {
            node: [*self.held.get(node, ()), *self.spared.get(node, ())]
            for node in dict.fromkeys((*self.held, *self.spared))
        }
        chosen = self._among(preemptor, every) or ()
        if want.least > 1 or want.edit_of or not chosen:
            return chosen
        self.slowed.add(want.node)
        return ()

    @contextmanager
    def _without(self, want: Want) -> Iterator[None]:
        """While one is judged that goes to another account with what it holds."""
        if want.gives is not None:
            self.usage.add(*want.gives, -1)
        yield
        if want.gives is not None:
            self.usage.add(*want.gives)

    def _nominated(self, uid: str, want: Want) -> _Nominee:
        with self._without(want):
            return self._most(uid, want)

    def _most(self, uid: str, want: Want) -> _Nominee:
        """With as many copies as can be had; while the order is by borrowing, only with those that
        the guarantee of its account holds, if there are any."""
        # First what the guarantee holds: all of it borrows, and comes after all that does not.
        own = self._own(want)
        if want.least <= own < want.copies:
            assignment, chosen = self._tried(want, own)
            if assignment.mode is Mode.FREE or chosen:
                return _Nominee(uid, want, assignment, chosen)
        assignment, chosen = self._tried(want, want.copies)
        if assignment.mode is Mode.FREE or chosen or want.least >= want.copies:
            return _Nominee(uid, want, assignment, chosen)
        low, high, best = want.least, want.copies - 1, None
        while low <= high:  # the most copies that can be had
            middle = (low + high + 1) // 2
            fewer, leave = self._tried(want, middle)
            if fewer.mode is Mode.FREE or leave:
                best, low = (fewer, leave), middle + 1
            else:
                high = middle - 1
        assignment, chosen = best or (assignment, chosen)
        return _Nominee(uid, want, assignment, chosen)

    def is_free(self, want: Want) -> bool:
        """Whether all its copies have quota now."""
        with self._without(want):
            assigned = domains.assign(want, want.copies, self.usage, self._victims)
        return assigned.mode is Mode.FREE

    def _own(self, want: Want) -> int:
        """Of its copies, those that the guarantee of its account holds; all where that does not
        decide the order, or where domains do."""
        usage = self.usage
        _, root = self._rules(want.node)
        if (
            root.ordering is Ordering.PRIORITY
            or want.cells is not None
            or any(map(domain_of, usage.bounds))
        ):
            return want.copies
        left = (
            max(-usage.excess(want.node, name), 0) // each
            for name, each in want.each.items()
            if each and usage.promised(name)
        )
        return min(want.copies, min(left, default=want.copies))

    def _tried(self, want: Want, copies: int) -> tuple[Assignment, tuple[Victim, ...]]:
        assignment = domains.assign(want, copies, self.usage, self._victims)
        if assignment.mode in (Mode.FREE, Mode.NEVER):
            return assignment, ()
        # Those that it follows only if no others help: without them it could begin nowhere.
        for follows in (True, False) if want.follows else (False,):
            preemptor = want.preemptor(assignment.needs, assignment.short, follows=follows)
            leave = self._victims(preemptor) or self._beyond_budgets(want, preemptor)
            if not want.helped(leave, copies) and want.place is not None:
                # others than by the order
                leave = self._among(preemptor, self.held, want.place) or ()
            if leave and want.helped(leave, copies):
                return assignment, leave
        return assignment, ()

    def _next(self, nominees: Sequence[_Nominee]) -> _Nominee:
        # What is free was freed for them: any other order gives it back to the victims.
        if claiming := [
            nominee
            for nominee in nominees
            if nominee.uid in self.claiming
            and (nominee.assignment.mode is Mode.FREE or nominee.victims)
        ]:
            return min(claiming, key=self._rank)
        if not self.fair:
            return min(nominees, key=self._rank)
        shares = {nominee.uid: self._shares(nominee) for nominee in nominees}
        at = {nominee.want.node: nominee for nominee in nominees}
        chosen = self._first(self.usage.root, at, shares)
        assert chosen is not None
        return chosen

    def _rank(self, nominee: _Nominee) -> tuple[int, tuple[int, float, str]]:
        _, root = self._rules(nominee.want.node)
        first = 0 if root.ordering is Ordering.PRIORITY else nominee.assignment.height
        return first, age(nominee.want, nominee.uid)

    def _shares(self, nominee: _Nominee) -> Mapping[str, Share]:
        """Account -> the share of its child on the way to the nominee, with what that asks for."""
        node = nominee.want.node
        self.usage.add(node, nominee.assignment.needs)
        path = self.usage.paths[node]
        chosen = {above: self.usage.share(child) for child, above in itertools.pairwise(path)}
        self.usage.add(node, nominee.assignment.needs, -1)
        return chosen

    def _first(
        self, node: str, at: Mapping[str, _Nominee], shares: Mapping[str, Mapping[str, Share]]
    ) -> _Nominee | None:
        """Of the nominees below the node, the one below the child with the smallest share."""
        if node in at:
            return at[node]
        chosen = [
            entrant
            for child in self.usage.children[node]
            if (entrant := self._first(child, at, shares)) is not None
        ]
        return min(
            chosen,
            key=lambda entrant: (
                shares[entrant.uid].get(node, (0, Fraction(0))),
                age(entrant.want, entrant.uid),
            ),
            default=None,
        )

    def _processed(self, nominee: _Nominee) -> Judged:
        want, assignment, chosen = nominee.want, nominee.assignment, nominee.victims
        if assignment.mode is Mode.NEVER:
            return Judged(Status.PENDING, assignment)
        if assignment.mode is not Mode.FREE and not chosen:
            self._keep_for(nominee)
            return Judged(Status.PENDING, assignment)
        # Kueue skips overlapping preemption targets likewise: what one frees cannot be given twice.
        if any(victim.holder.uid in self.leaving for victim in chosen) or self._strands(nominee):
            return Judged(Status.PENDING, assignment, later=True)
        if not self._still_fits(nominee) or self._takes_guarantee(nominee):
            if not assignment.height:
                self._keep_for(nominee)  # or one that borrows would have it in this batch
            return Judged(Status.PENDING, assignment, later=True)
        status = Status.PREEMPTING if chosen else Status.ADMITTED
        ends = not self._fits_beside_terminating(nominee)
        if ends and not chosen:
            least = domains.assign(want, want.least, self.usage, domains.nobody)
            if not self._fits_beside_terminating(replace(nominee, assignment=least)):
                status = Status.PENDING  # and what these pods free is reserved for it
        self.leaving |= {victim.holder.uid: victim for victim in chosen}
        self.evicted += chosen
        if chosen and want.follows:
            self.followers.append(want)
        self.usage.add(want.node, assignment.needs)
        self.grown.setdefault(want.node, Counter()).update(assignment.needs)
        return Judged(status, assignment, chosen, ends=ends)

    def _strands(self, nominee: _Nominee) -> bool:
        """Whether its victims, with those of this cycle before, leave a preemptor no cluster to
        begin in: each alone spares a copy that it must begin near, and together they do not."""
        if not nominee.victims:
            return False
        followers = [*self.followers, *([nominee.want] if nominee.want.follows else ())]
        victims = (*self.evicted, *nominee.victims)
        return not all(want.helped(victims, want.least) for want in followers)

    def _fits_beside_terminating(self, nominee: _Nominee) -> bool:
        """Whether it fits next to pods that are terminating."""
        if not self.terminating:
            return True
        for node, amounts in self.terminating.items():
            self.usage.add(node, amounts)
        fits = self._still_fits(nominee)
        for node, amounts in self.terminating.items():
            self.usage.add(node, amounts, -1)
        return fits

    def _takes_guarantee(self, nominee: _Nominee) -> bool:
        """Whether another account would lose of its guarantee, because what it was given in this
        cycle makes it borrow. That may be taken back once it is there, not what runs instead."""
        taken: dict[str, Counter[str]] = {}
        for victim in nominee.victims:
            if victim.holder.node in self.grown and victim.holder.node != nominee.want.node:
                # the last copy may hold a part of both
                gone = scaled(victim.holder.each, victim.copies - 1)
                taken.setdefault(victim.holder.node, Counter()).update(gone)
        return any(
            all(
                self.usage.excess(node, cell) - self.grown[node][cell] - gone[cell] <= 0
                for cell in nominee.assignment.short
            )
            for node, gone in taken.items()
        )

    def _still_fits(self, nominee: _Nominee) -> bool:
        gone = [*self.leaving.values(), *nominee.victims]
        for victim in gone:
            self.usage.add(victim.holder.node, scaled(victim.holder.each, -victim.copies))
        fits = self.usage.fits(nominee.want.node, nominee.assignment.needs)
        for victim in gone:
            self.usage.add(victim.holder.node, scaled(victim.holder.each, victim.copies))
        return fits

    def _keep_for(self, nominee: _Nominee) -> None:
        """Nobody after it in this cycle takes what one that waits is guaranteed, or may borrow."""
        if not nominee.want.edit_of and not self._comes_back(nominee.want.node):
            self.usage.add(nominee.want.node, self._reserved(nominee))

    def _comes_back(self, node: str) -> bool:
        """Whether what others borrow meanwhile can be reclaimed in any case."""
        account, _ = self._rules(node)
        return account.preemption.reclaim is Take.ANY

    def _reserved(self, nominee: _Nominee) -> Amounts:
        """What is kept for one that waits, so that those after it do not take it: its guarantee, or
        what it may borrow."""
        usage, node = self.usage, nominee.want.node
        kept: dict[str, int] = {}
        for name, amount in nominee.assignment.needs.items():
            bounds = usage.bounds.get(name)
            if bounds is None:
                continue
            bound, used = bounds[node], usage.used(node, name)
            most = bound.most if nominee.assignment.height else bound.pool
            left = amount if most is None else min(amount, most - used)
            kept[name] = left if nominee.assignment.height else max(left, 0)
        return kept


class Queues:
    """What waits in the accounts of one tree: leaf -> its wants, each with the uid of its workload.

    One workload of each account is judged at a time. One that yields keeps its place until the
    workloads of the accounts that lend to it have been judged. Where the first workload of every
    account yields, those within their guarantee go before them.
    """

    def __init__(self, wants: Iterable[tuple[str, Want]], strict: Callable[[str], bool]) -> None:
        """`wants`: in order. `strict`: whether nothing of a leaf goes before its first."""
        self._queues: dict[str, list[tuple[str, Want]]] = {}
        for uid, want in wants:
            self._queues.setdefault(want.node, []).append((uid, want))
        self._strict = strict
        self._hurried: set[tuple[str, int]] = set()

    def heads(self) -> dict[str, Want]:
        """The first of each account, by uid; nothing when all have been judged."""
        return dict(queue[0] for queue in self._queues.values())

    def behind(self, node: str, covered: Covered) -> list[Want]:
        """Those behind the first of an account that may be judged in this batch. In a strict
        account one that its guarantee does not hold stops those behind it."""
        queue = [want for _, want in self._queues.get(node, ())]
        if not self._strict(node):
            return queue[1:]
        for at, want in enumerate(queue):
            if not covered(want):
                return queue[1:at]
        return queue[1:]

    def judged(self, node: str, rest: Want | None = None) -> None:
        """The first of an account has been judged, but for `rest` of it."""
        queue = self._queues[node]
        uid, _ = queue.pop(0)
        if rest is not None:
            queue.insert(0, (uid, rest))
        if not queue:
            del self._queues[node]

    def stop(self, node: str) -> list[tuple[str, Want]]:
        """Takes all that is left of an account."""
        return self._queues.pop(node, [])

    def hurry(self, covered: Covered) -> bool:
        """Those that the guarantee of their account holds go before its others, once. Returns
        whether any does."""
        moved = False
        for node, queue in self._queues.items():
            if self._strict(node):
                continue
            first = [
                (uid, want)
                for uid, want in queue[1:]
                if (uid, id(want)) not in self._hurried and covered(want)
            ]
            self._hurried |= {(uid, id(want)) for uid, want in first}
            queue[:] = [*first, *(pair for pair in queue if pair not in first)]
            moved = moved or bool(first)
        return moved


def age(want: Want, uid: str) -> tuple[int, float, str]:
    return -want.priority, want.created_s, uid
