"""Slices in flight: decided, and not included in a capacity report for certain.

A report tells up to which seq it includes decisions. Slices are written side by side and may
overtake each other, so one with a lower seq may still be on its way: it stays in flight until its
member has confirmed it.
"""

from collections.abc import Mapping
from typing import Final

_NOTHING: Final[Mapping[str, int]] = {}


class InFlight:
    """What is on its way, by cluster and uid of the workload."""

    __slots__ = ("_missed", "_sent")

    def __init__(self) -> None:
        self._sent: dict[str, dict[str, tuple[int, ...]]] = {}
        """cluster -> uid -> rising seqs of slices that are not confirmed there."""
        self._missed: dict[str, dict[str, int]] = {}
        """cluster -> uid -> the first seq that the last report cannot include, although it may say
        a higher one."""

    def __bool__(self) -> bool:
        return bool(self._sent or self._missed)

    def missed(self, cluster: str) -> Mapping[str, int]:
        """uid -> the first seq of the workload that the cluster's last report does not include."""
        return self._missed.get(cluster, _NOTHING)

    def holds(self, cluster: str, uid: str, seq: int) -> bool:
        """Whether a slice of the workload up to this seq is on its way there."""
        sent = self._sent.get(cluster, {}).get(uid, ())
        return bool(sent) and sent[0] <= seq

    def send(self, cluster: str, uid: str, seq: int) -> None:
        """A slice sets out; no report so far includes it."""
        sent = self._sent.setdefault(cluster, {})
        sent[uid] = tuple(sorted({*sent.get(uid, ()), seq}))
        self._missed.setdefault(cluster, {}).setdefault(uid, seq)

    def confirm(self, cluster: str, uid: str, seq: int) -> bool:
        """The member has this slice, or a later one: the next report includes it. Returns whether
        anything was on its way."""
        if not self.holds(cluster, uid, seq):
            return False
        sent = self._sent[cluster]
        if left := tuple(each for each in sent[uid] if each > seq):
            sent[uid] = left
        else:
            del sent[uid]
        return True

    def report(self, cluster: str, includes_seq: int) -> bool:
        """A new report includes everything up to this seq but what is on its way. Returns whether
        other slices are missed than before."""
        missed = {
            uid: seqs[0]
            for uid, seqs in self._sent.get(cluster, {}).items()
            if seqs[0] <= includes_seq
        }
        if missed == self.missed(cluster):
            return False
        self._missed[cluster] = missed
        return True

    def drop(self, cluster: str, uid: str, *, above: int = -1) -> bool:
        """Nothing of the workload with a seq above this one is on its way: by default, nothing at
        all. Returns whether the last report misses less than before."""
        sent = self._sent.get(cluster, {})
        seqs = sent.get(uid, ())
        if above >= 0 and (not seqs or seqs[-1] <= above):
            return False
        if kept := tuple(seq for seq in seqs if seq <= above):
            sent[uid] = kept
            return False
        sent.pop(uid, None)
        return self._missed.get(cluster, {}).pop(uid, None) is not None

    def copy(self) -> "InFlight":
        made = InFlight()
        made._sent = {cluster: dict(seqs) for cluster, seqs in self._sent.items()}
        made._missed = {cluster: dict(seqs) for cluster, seqs in self._missed.items()}
        return made

    def as_counted(self, clusters: Mapping[str, int]) -> "InFlight":
        """A copy of what the last reports of these clusters miss."""
        made = InFlight()
        made._missed = {cluster: dict(self.missed(cluster)) for cluster in clusters}
        return made
