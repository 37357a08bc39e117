"""When victims leave: after the notice of the account that reclaims, and no more copies in a minute
than the pace of the hub allows. Work of tier Preemptible leaves immediately.

Times are epoch seconds.
"""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federator.model import plaintext
from federator.model.ask import Ask, Tier
from federator.model.names import WorkloadKey
from federator.placement.quota.tree import Tree
from federator.scheduling.admission.budgets import NO_BUDGETS, Budgets
from federator.scheduling.admission.holders import Why
from federator.scheduling.admission.stage import Eviction
from federator.scheduling.entry import Entry, Noticed

PACED: Final = "as the pace of preemption allows (hub.preempted_copies_a_minute)"
"""When the victims of a preemptor that waits for the pace leave, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many copies may be evicted now."""

    copies: int
    full: bool = False
    """No copy has left for a while: then any number may. A preemptor that needs more victims than
    the pace allows in a minute would wait without end otherwise."""
    next_s: float = 0.0
    """Seconds until more may."""
    budgets: Budgets = NO_BUDGETS
    """Of those that leave."""

    def less(self, copies: int) -> "Pace":
        # only the first preemptor may exceed the count: the next one waits for the pace again
        return replace(self, copies=self.copies - copies, full=self.full and not copies)

    def allows(self, copies: int) -> bool:
        return not copies or self.full or copies <= self.copies


AT_ONCE: Final = Pace(1 << 62, full=True)


@dataclass(frozen=True, slots=True)
class Notice:
    """Copies of a workload that will leave for another."""

    key: WorkloadKey
    uid: str
    noticed: Noticed

    @property
    def by(self) -> WorkloadKey:
        return self.noticed.by


@dataclass(slots=True)
class NoticesGiven:
    """The victims with a notice that copies of them will leave, and their preemptors, until they
    leave. Mutable."""

    _noticed: dict[WorkloadKey, tuple[str, Noticed]] = field(default_factory=dict)
    """Victim -> its uid, and its notice."""

    def __len__(self) -> int:
        return len(self._noticed)

    def of(self, key: WorkloadKey, uid: str) -> Noticed | None:
        """Its notice, if it still stands."""
        if not self._noticed:
            return None
        of_uid, noticed = self._noticed.get(key, ("", None))
        return noticed if of_uid == uid else None

    def settle(
        self, decided: Container[WorkloadKey], notices: Iterable[Notice]
    ) -> list[WorkloadKey]:
        """Takes over what a cycle says. `decided`: preemptors for which earlier notices are void.
        Returns the victims with a new, another or no notice."""
        news = {entry.key: (entry.uid, entry.noticed) for entry in notices}
        # A cycle gives all notices of the preemptors that it decided: it selects victims again each
        # time, and a former victim must not leave by an old notice.
        void = [key for key, (_, entry) in self._noticed.items() if entry.by in decided]
        changed = []
        for key in dict.fromkeys((*void, *news)):
            before = self._noticed.pop(key, None)
            if key in news:
                self._noticed[key] = news[key]
            if before != news.get(key):
                changed.append(key)
        return changed

    def forget(self, key: WorkloadKey) -> list[WorkloadKey]:
        """A workload is gone: it is neither a victim nor a preemptor any more. Returns the victims
        that lose their notice."""
        if not self._noticed:
            return []
        self._noticed.pop(key, None)
        void = [other for other, (_, entry) in self._noticed.items() if entry.by == key]
        for other in void:
            del self._noticed[other]
        return void


def needed(leaves: Eviction) -> bool:
    """Whether the victim gets notice, and its copies count for the pace."""
    return has_pace(leaves.by.tier, leaves.why)


def has_pace(tier: Tier, why: str) -> bool:
    """The same by tier and the right (`Why`) by which copies leave: for their own tier, or for
    another that is not Preemptible."""
    return tier is not Tier.PREEMPTIBLE and why not in (Why.WITHIN, Why.ROOM, Why.LENT)


def pending(
    victims: Mapping[str, Eviction], entries: Mapping[str, Entry], tree: Tree, now_s: float
) -> list[Notice]:
    """The notices to the victims of one preemptor; none when all have had theirs. A victim that is
    to lose more copies than its notice says gets a new one."""
    by = next(iter(victims.values())).by
    notice_s = max((tree.accounts[name].notice_s for name in tree.charged(by.project)), default=0)
    if not notice_s:
        return []
    notices = [
        Notice(
            entries[leaves.uid].key,
            leaves.uid,
            _noticed(leaves, entries[leaves.uid], by, notice_s, now_s),
        )
        for leaves in victims.values()
        if needed(leaves)
    ]
    # All or none: the victims of a preemptor leave in one cycle, so the latest notice decides.
    return notices if any(notice.noticed.due_s > now_s for notice in notices) else []


def _noticed(leaves: Eviction, entry: Entry, by: Ask, notice_s: int, now_s: float) -> Noticed:
    copies, before = leaves.copies, entry.noticed
    if before is not None and before.project == by.project and copies <= before.copies:
        # The time goes on when another workload of the account becomes the preemptor: otherwise
        # each change at the head of its queue would start the notice again.
        return replace(before, by=by.key, copies=copies)
    # Up to a whole second: messages show no fractions, and no copy leaves before the time shown.
    return Noticed(by.key, by.project, leaves.why, copies, float(math.ceil(now_s + notice_s)))


def counted(victims: Iterable[Eviction]) -> int:
    """Copies that count for the pace."""
    return sum(leaves.copies for leaves in victims if needed(leaves))


def until(notices: Iterable[Notice]) -> float:
    """When all of them have had their notice."""
    return max((notice.noticed.due_s for notice in notices), default=-math.inf)


def sentence(noticed: Noticed) -> str:
    """The message of a victim's notice."""
    leave = "1 copy leaves" if noticed.copies == 1 else f"{noticed.copies} copies leave"
    return (
        f"{leave} for {noticed.by} of project {noticed.project} ({noticed.why})"
        f" at {plaintext.moment(noticed.due_s)}"
    )
