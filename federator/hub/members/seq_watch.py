"""Seqs of one member: the highest that it shows, and slices with a seq that its decisions do not
have.

After a host was restored from a backup, slices may be of later decisions than it has
(`hub/cache/restored.py`). Pure: times are arguments, in seconds of the monotonic clock.
"""

from dataclasses import dataclass, field

from federator.kube.control.write_fights import WriteFightDetector
from federator.model import seq as seqs
from federator.model.names import WorkloadKey


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
