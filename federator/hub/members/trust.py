"""Whether a member's reports agree with what it was given: its contradictions, how long they count
against it, and the seqs that it shows.

After a host was restored from a backup, slices may be of later decisions than it has
(`hub/cache/restored.py`): `SeqWatch` knows which of them are believed. One `Trust` per member, fed
by `status.given` and shown as the condition Untrustworthy of its MemberCluster. While that is
True, the cluster gets no new work; what runs there stays, and its reports count up to what it was
given. It ends after a while without contradictions, or when an operator says so. Pure: times are
arguments, in seconds of the monotonic clock.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import raw
from federator.api.membercluster import UNTRUSTWORTHY
from federator.kube.control.write_fights import WriteFightDetector
from federator.model import seq as seqs
from federator.model.names import WorkloadKey
from federator.status.conditions import TRUE, Condition
from federator.status.given import Contradiction

LASTING_S: Final = 60.0
"""Seconds after which a contradiction counts that a delay could explain: watches, rollouts and
scaling take less when all is well."""
LOOK_MAX_S: Final = 30.0
"""At most so many seconds between two observations count as free of contradictions."""
SUBJECTS_MAX: Final = 1000
"""Subjects with a contradiction that are remembered by name; others are seen again by the next
observation."""


@dataclass(slots=True)
class Trust:
    """The evidence against one member."""

    clears_after_s: float = 600.0
    held_against: Contradiction | None = None
    """The contradiction it is untrustworthy for; None while it is trusted."""
    _standing: dict[Hashable, tuple[Contradiction, float]] = field(default_factory=dict)
    """Present contradictions by subject, and since when."""
    _clean_s: float = 0.0
    _looked_s: float | None = None

    def recorded(self, condition: Mapping[str, Any]) -> None:
        """An earlier hub called it untrustworthy: a new hub does not end that sooner."""
        if condition.get("status") == TRUE and self.held_against is None:
            message = raw.sentence(condition, "message").partition(" It takes nothing new")[0]
            self.held_against = Contradiction(
                raw.word(condition, "reason") or UNTRUSTWORTHY, message
            )

    def note(self, subject: Hashable, contradiction: Contradiction | None, now_s: float) -> bool:
        """Takes the latest observation of one subject (a workload's key, or a kind); None for no
        contradiction. Returns whether the verdict on the member changed."""
        if contradiction is None:
            self._standing.pop(subject, None)
            return False
        standing = self._standing.get(subject)
        if standing is not None or len(self._standing) < SUBJECTS_MAX:
            self._standing[subject] = (
                contradiction,
                standing[1] if standing is not None else now_s,
            )
        return self._judge(now_s) if not contradiction.lasting or standing is not None else False

    def look(self, now_s: float) -> bool:
        """The member answered a probe. Returns whether the verdict changed."""
        passed_s = now_s - self._looked_s if self._looked_s is not None else 0.0
        self._looked_s = now_s
        self._clean_s += min(max(passed_s, 0.0), LOOK_MAX_S)
        if self._judge(now_s):
            return True
        if self.held_against is None or self._clean_s < self.clears_after_s:
            return False
        self.held_against = None
        return True

    def pardon(self) -> tuple[Hashable, ...]:
        """An operator trusts it again: forgets all contradictions, and returns their subjects,
        which must be checked again."""
        subjects = tuple(self._standing)
        self._standing.clear()
        self.held_against = None
        return subjects

    def _judge(self, now_s: float) -> bool:
        counting = [
            contradiction
            for contradiction, since_s in self._standing.values()
            if not contradiction.lasting or now_s - since_s >= LASTING_S
        ]
        if not counting:
            return False
        self._clean_s = 0.0
        before, self.held_against = self.held_against, self.held_against or counting[0]
        return before is None

    @property
    def why(self) -> str:
        """For verdicts: the reason in one word; "" while it is trusted. The evidence names
        workloads of other owners, so it is shown on the MemberCluster only."""
        return self.held_against.reason if self.held_against is not None else ""

    def condition(self) -> Condition | None:
        """Untrustworthy, while it is."""
        if self.held_against is None:
            return None
        more = f" ({len(self._standing)} such now)" if len(self._standing) > 1 else ""
        message = (
            f"{self.held_against.message[:600].rstrip('.')}{more}."
            " It takes nothing new; what it says counts as far as it was given."
            f" Ends when nothing of the kind is seen for {self.clears_after_s:.0f} s, or by"
            " federator cluster trust."
        )
        return Condition(UNTRUSTWORTHY, TRUE, self.held_against.reason, message)


@dataclass(slots=True)
class SeqWatch:
    """What one member's seqs say."""

    highest: int = 0
    """The highest seq that was read there or written to it."""
    to_number: set[WorkloadKey] = field(default_factory=set)
    """Slices with a higher seq than their share: the decision must get a higher one first."""
    later: WriteFightDetector[WorkloadKey] = field(
        default_factory=lambda: WriteFightDetector(writes=10, window_s=120.0, pause_s=300.0)
    )
    """Slices that were taken for those of decisions that the host has lost, and how often."""
    disbelieved: set[WorkloadKey] = field(default_factory=set)
    """Slices that were taken for that too often: for a while changes of their seq are ignored."""

    def observe(self, seq: int) -> bool:
        """A seq was read in a slice or report, or given to a share there. Returns whether its seqs
        have thereby run out."""
        before, self.highest = self.highest, max(self.highest, seqs.clamped(seq))
        return seqs.used_up(self.highest) and not seqs.used_up(before)

    def begin_again(self) -> None:
        """What was heard of seqs no longer counts: they are to be observed again."""
        self.highest = 0

    def observe_higher(self, key: WorkloadKey) -> None:
        """A slice has a higher seq than its share."""
        self.to_number.add(key)

    def observe_later(self, key: WorkloadKey, now_s: float) -> bool:
        """A workload is decided by the slice of a decision that the host has lost. Returns whether
        that has come too often to be believed further."""
        self.to_number.discard(key)
        self.later.written(key, "", now_s)
        if not self.later.paused_until_s(key, "", now_s):
            return False
        self.disbelieved.add(key)
        return True

    def believe(self, key: WorkloadKey) -> bool:
        """Ends the disbelief of a slice; returns whether it was disbelieved."""
        disbelieved = key in self.disbelieved
        self.disbelieved.discard(key)
        return disbelieved

    def forget(self, key: WorkloadKey) -> bool:
        """The slice is gone, and what it claimed with it; returns whether it was disbelieved."""
        self.to_number.discard(key)
        return self.believe(key)
