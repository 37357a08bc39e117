"""Candidates for preemption: holders of quota, the rules of an account, and the victims of one
preemptor."""

import bisect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from federator.model import decision
from federator.model.accounts import Take
from federator.model.ask import Former
from federator.model.fleet import Commitment
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.scheduling.admission.tree_usage import Amounts, TreeUsage


class Why(StrEnum):
    """The right by which a victim leaves; Kueue's words, which its users know."""

    WITHIN = "InClusterQueue"
    """Of the same account: its rule `withinProject`."""
    RECLAIM = "InCohortReclamation"
    """It holds what is guaranteed to the account of the preemptor: `reclaim`."""
    FAIR_SHARE = "InCohortFairSharing"
    """Its account has borrowed more, by its weight, than that of the preemptor: `ordering:
    FairShare`."""
    ROOM = decision.ROOM
    """The preemptor has quota and no room, and it is of tier Preemptible: `room`."""
    BORROWED_ROOM = decision.BORROWED_ROOM
    """What is guaranteed to the preemptor finds no room, and it is of tier OnDemand and beyond its
    own guarantee: `room`."""
    LENT = decision.LENT
    """The preemptor loses its cluster, and it is of tier Preemptible where room is kept for such:
    `failoverBuffer` of the cluster."""
    WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    """Both borrow, and its priority is lower: `whileBorrowing`."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that holds quota: `copies` that may leave one by one, or 1 for all of it."""

    uid: str
    key: WorkloadKey
    node: str
    """The leaf of its account (`TreeUsage.leaf`)."""
    priority: int
    created_s: float
    seq: int
    """Of the decision that last gave it something: the higher, the newer."""
    each: Amounts
    """What one of them uses."""
    copies: int = 1
    stays: bool = False
    """It counts as holding, and is never a victim: a daemon, because all others depend on it on
    their nodes."""
    clusters: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Cluster -> so many of its copies are there; only of one with a disruption budget, which says
    where how many leave, and of a part of one in several domains."""
    spared: bool = False
    """By that budget they do not leave now: only for a preemptor for which nothing less is
    enough."""

    @property
    def workload(self) -> str:
        """The uid of its workload: parts of one that leave apart are holders of their own."""
        return self.uid.partition(" ")[0]


def of_former(
    commitment: Commitment,
    node_of: Callable[[Former], str | None],
    cells: Callable[[Resources, str], Amounts],
) -> Iterator[Holder]:
    """What accounts are charged for copies of a workload that has left them. They stay: for such an
    account the workload would leave its present one.

    `node_of`: the leaf of the account, None where another tree or tier is charged. `cells`: what
    amounts in a cluster come to."""
    for left in commitment.former:
        if (node := node_of(left)) is None:
            continue
        yield Holder(
            f"{commitment.uid} former {left.project}",
            commitment.key,
            node,
            commitment.priority,
            commitment.created_s,
            max((holding.seq for holding in commitment.holdings), default=0),
            _charged(left, cells),
            stays=True,
        )


def of_terminating(
    every: Iterable[tuple[Former, ...]],
    node_of: Callable[[Former], str | None],
    cells: Callable[[Resources, str], Amounts],
) -> dict[str, Amounts]:
    """Leaf -> what is charged for pods beyond commitments. Arguments as in `of_former`."""
    totals: dict[str, Counter[str]] = {}
    for left in itertools.chain.from_iterable(every):
        if (node := node_of(left)) is not None:
            totals.setdefault(node, Counter()).update(_charged(left, cells))
    return dict(totals)


def _charged(left: Former, cells: Callable[[Resources, str], Amounts]) -> Counter[str]:
    total: Counter[str] = Counter()
    for held in left.held:
        total.update(cells(left.requests * held.copies, held.cluster))
    return total


@dataclass(frozen=True, slots=True)
class Victim:
    """So many of the holder's copies leave."""

    holder: Holder
    copies: int
    why: Why


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The workload for which others may leave."""

    node: str
    priority: int
    created_s: float
    needs: Amounts
    """All that it still lacks."""
    short: frozenset[str]
    """The cells of which too little is free."""
    spares: frozenset[str] = frozenset()
    """The uids of workloads of which nothing leaves for it."""


class ShortClusters(Protocol):
    """Clusters without enough free capacity for the preemptor, while victims are selected."""

    def useful(self, holder: Holder) -> int:
        """So many of its copies would leave where room is lacking still."""

    def leave(self, holder: Holder, copies: int) -> object:
        """So many of these leave."""


DEFAULT_STRATEGIES: Final = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


def may(take: Take, preemptor: Preemptor, holder: Holder) -> bool:
    """Whether this rule lets the preemptor take from the holder, by priority and age."""
    match take:
        case Take.ANY:
            return True
        case Take.LOWER_PRIORITY:
            return preemptor.priority > holder.priority
        case Take.LOWER_OR_NEWER_EQUAL:
            newer = preemptor.priority == holder.priority and preemptor.created_s < holder.created_s
            return preemptor.priority > holder.priority or newer
        case _:
            return False


def uses_any(holder: Holder, cells: Iterable[str]) -> bool:
    return any(holder.each.get(cell, 0) > 0 for cell in cells)


def order(holder: Holder) -> tuple[int, int, str]:
    """The first leaves first: the lowest priority, what was admitted last, the name."""
    # The newest has done the least work, and least is lost with it.
    return holder.priority, -holder.seq, holder.uid


def least(low: int, high: int, enough: Callable[[int], bool]) -> int | None:
    """The least number from low to high that is enough, where more is never less enough."""
    # The largest first: if that is not enough, the search below it is wasted.
    if low > high or not enough(high):
        return None
    # By halves: each question counts the usage of a whole tree.
    return low + bisect.bisect_left(range(low, high), True, key=enough)


class Trial:
    """Victims taken from the usage on trial; `undo` puts all back."""

    def __init__(self, usage: TreeUsage, fits: Callable[[], bool]) -> None:
        self.usage, self.fits = usage, fits
        self.taken: dict[str, Victim] = {}
        """uid -> victim, in the order in which they were taken."""

    def take(self, holder: Holder, copies: int, why: Why) -> None:
        self.move(holder, -copies)
        before = self.taken.get(holder.uid)
        count = copies if before is None else before.copies + copies
        self.taken[holder.uid] = Victim(holder, count, why)

    def left(self, holder: Holder) -> int:
        """Its copies that are not taken."""
        taken = self.taken.get(holder.uid)
        return holder.copies - (taken.copies if taken else 0)

    def move(self, holder: Holder, copies: int) -> None:
        self.usage.add(holder.node, scaled(holder.each, copies))

    def tried(self, holder: Holder, copies: int, test: Callable[[], bool]) -> bool:
        """The test's answer with so many copies more (or, negative, fewer) in the usage."""
        self.move(holder, copies)
        try:
            return test()
        finally:
            self.move(holder, -copies)

    def fill_back(self) -> tuple[Victim, ...]:
        """Gives back what was not needed in the end, the last taken first, so that nothing can be
        left out of what remains. The usage is as before the trial afterwards."""
        # Reversed: the first taken are the first that shall leave, so they are given back last.
        for victim in reversed(list(self.taken.values())):
            keeps = least(
                0,
                victim.copies,
                lambda kept, of=victim: self.tried(of.holder, of.copies - kept, self.fits),  # type: ignore[misc]
            )
            kept = victim.copies if keeps is None else keeps
            self.move(victim.holder, victim.copies - kept)
            self.taken[victim.holder.uid] = Victim(victim.holder, kept, victim.why)
        leaving = tuple(victim for victim in self.taken.values() if victim.copies)
        self.undo()
        return leaving

    def undo(self) -> None:
        for victim in self.taken.values():
            self.move(victim.holder, victim.copies)
        self.taken = {}


def scaled(each: Amounts, copies: int) -> Mapping[str, int]:
    return {cell: amount * copies for cell, amount in each.items()}
