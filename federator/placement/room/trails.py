"""Trails: how one workload's copies in one cluster changed, and what of that a summary does not
include.

A summary tells up to which seq it includes decisions. Slices are written side by side and may
overtake each other, so one with a lower seq may still be on its way: it stays in flight until its
member has confirmed it. And a slice may be gone again before any summary counts its pods, which end
after it: what was charged for it stays until a summary was made when its end had been seen.

Kept by `charged` for each workload and cluster.
"""

import bisect
from array import array
from collections.abc import Iterable, Mapping, MutableSequence
from typing import Final, overload

from federator.model.ask import PodShape
from federator.model.decision import Share
from federator.model.fleet import Commitment, Holding, copies_of

Step = tuple[int, PodShape, int]
"""(seq, shape, copies)."""
Trail = tuple[Step, ...]
"""Steps that rise in seq."""
Rise = tuple[int, int, PodShape, int]
"""(seq of the step, which of its pods, that pod, copies more)."""
Place = tuple[int, str]
"""(seq, uid) of a step."""
_NOTHING: Final[Mapping[str, int]] = {}


def steps(commitment: Commitment | None) -> dict[str, Step]:
    """What a commitment says of each cluster."""
    if commitment is None:
        return {}
    shape = commitment.shape
    return {
        held.cluster: (
            held.seq,
            shape,
            copies_of(held) if held.ranges or held.nodes is not None else held.count,
        )
        for held in commitment.holdings
    }


def step(commitment: Commitment, holding: Holding | Share) -> Step:
    """What it says of the cluster of this holding."""
    return holding.seq, commitment.shape, copies_of(holding)


def after(trail: Trail, step: Step) -> Trail:
    """The trail once a decision says `step`. One that is not newer corrects the last step.

    steps of seq 5 and 7, then 9 copies by seq 8: 5, 7, 8
    steps of seq 5 and 7, then 9 copies by seq 6: 5, 7 with 9 copies
    """
    if trail and trail[-1][0] >= step[0]:
        return (*trail[:-1], (trail[-1][0], *step[1:]))
    return (*trail, step)


def needless(trail: Trail, includes_seq: int) -> int:
    """How many of its first steps no summary after one up to `includes_seq` needs: those before the
    last that it includes."""
    return max(bisect.bisect_right(trail, includes_seq, key=lambda step: step[0]) - 1, 0)


def rises(trail: Trail, includes_seq: int) -> list[Rise]:
    """What a summary up to `includes_seq` does not include, step by step: what each step added to
    the most there was, and to what the summary saw.

        4 copies (seq 5), 10 (seq 7), 2 (seq 9): a summary up to 5 leaves the 6 of seq 7
    """
    if len(trail) == 1 and not trail[0][1].parts:  # nearly always
        seq, shape, copies = trail[0]
        return [(seq, 0, shape, copies)] if seq > includes_seq and copies else []
    made: list[Rise] = []
    most: dict[PodShape, int] = {}
    for seq, shape, copies in trail:
        there = pods_of(shape, copies)
        if seq <= includes_seq:
            most = there
            continue
        for at, (pod, count) in enumerate(there.items()):
            if count > (before := most.get(pod, 0)):
                most[pod] = count
                made.append((seq, at, pod, count - before))
    return made


def beyond(trail: Trail, includes_seq: int) -> dict[PodShape, int]:
    """Shape -> copies that a summary up to `includes_seq` does not include: the most there were
    since, minus what it saw."""
    copies: dict[PodShape, int] = {}
    for _, _, pod, more in rises(trail, includes_seq):
        copies[pod] = copies.get(pod, 0) + more
    return copies


def pods_of(shape: PodShape, copies: int) -> dict[PodShape, int]:
    """The pods of so many copies; those of a gang one by one."""
    if not shape.parts:
        return {shape: copies}
    pods: dict[PodShape, int] = {}
    for pod, each in shape.pods:
        pods[pod] = pods.get(pod, 0) + each * copies
    return pods


class Places:
    """A list of places that takes 16 bytes for each: a hub keeps one for each workload in each
    cluster."""

    __slots__ = ("_seqs", "_uids")

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self._seqs: MutableSequence[int] = array("q")
        self._uids: list[str] = []
        self.extend(places)

    def __len__(self) -> int:
        return len(self._uids)

    @overload
    def __getitem__(self, at: int) -> Place: ...
    @overload
    def __getitem__(self, at: slice) -> list[Place]: ...
    def __getitem__(self, at: int | slice) -> Place | list[Place]:
        if isinstance(at, slice):
            return list(zip(self._seqs[at], self._uids[at], strict=True))
        return self._seqs[at], self._uids[at]

    def ends_by(self, seq: int) -> bool:
        """Whether no place has a higher seq; the places rise."""
        return not self._uids or self._seqs[-1] <= seq

    def above(self, seq: int) -> int:
        """How many places have at most this seq; the places rise."""
        return bisect.bisect_right(self._seqs, seq)

    def remove(self, seq: int, uid: str) -> None:
        """Removes a place that is there; the places rise."""
        # One column after the other: a place as a key would be made at each step of the search.
        low = bisect.bisect_left(self._seqs, seq)
        at = bisect.bisect_left(self._uids, uid, low, bisect.bisect_right(self._seqs, seq, low))
        del self._seqs[at], self._uids[at]

    def append(self, seq: int, uid: str) -> bool:
        """Adds a place at the end. Returns whether it is not below the one before."""
        seqs, uids = self._seqs, self._uids
        rises = not uids or seqs[-1] < seq or (seqs[-1] == seq and uids[-1] <= uid)
        try:
            seqs.append(seq)
        except OverflowError:  # no hub issues a seq of more than 64 bits
            self._seqs = [*seqs, seq]
        uids.append(uid)
        return rises

    def extend(self, places: Iterable[Place]) -> None:
        """Adds places at the end."""
        for seq, uid in places:
            self.append(seq, uid)

    def sort(self) -> None:
        """Sorts by seq, then by uid."""
        in_order = Places(sorted(zip(self._seqs, self._uids, strict=True)))
        self._seqs, self._uids = in_order._seqs, in_order._uids

    def copy(self) -> "Places":
        """A list of its own with the same places."""
        made = Places()
        made._seqs, made._uids = self._seqs[:], self._uids.copy()
        return made


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

    def send(self, cluster: str, uid: str, seq: int) -> bool:
        """A slice sets out; no report so far includes it. Returns whether none of the workload was
        missed before."""
        sent = self._sent.setdefault(cluster, {})
        sent[uid] = tuple(sorted({*sent[uid], seq})) if uid in sent else (seq,)
        missed = self._missed.setdefault(cluster, {})
        if uid in missed:
            return False
        missed[uid] = seq
        return True

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


class Departures:
    """Slices that are gone from a cluster while its last report may not count their pods, by
    cluster and uid of the workload. Whether a report does, others know (`depart`, `counted`)."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: dict[str, dict[str, tuple[int, dict[PodShape, int]]]] = {}
        """cluster -> uid -> the seq up to which the last report counts the workload, and the copies
        beyond that were let go."""

    def depart(self, cluster: str, uid: str, counts_seq: int) -> None:
        """A slice is gone, and the last report counts the workload up to this seq only."""
        left = self._left.setdefault(cluster, {})
        before, copies = left.get(uid, (counts_seq, {}))
        left[uid] = min(before, counts_seq), copies

    def let_go(self, cluster: str, uid: str, trail: Trail) -> None:
        """Nothing holds what these steps say any more: what no report counts of it is kept, next to
        what was kept of an earlier slice, because its pods may still end."""
        left = self._left.get(cluster)
        if not left:
            return
        counts_seq, kept = left.get(uid, (None, {}))
        if counts_seq is not None and (more := beyond(trail, counts_seq)):
            copies = {shape: kept.get(shape, 0) + more.get(shape, 0) for shape in {**kept, **more}}
            left[uid] = counts_seq, copies

    def counted(self, cluster: str, uids: Iterable[str]) -> bool:
        """A report counts what is there still of these. Returns whether anything was kept."""
        left = self._left.get(cluster, {})
        kept = [copies for uid in uids if (copies := left.pop(uid, (0, {}))[1])]
        if not left:
            self._left.pop(cluster, None)
        return bool(kept)

    def keeps(self, cluster: str) -> bool:
        """Whether anything is noted of a cluster."""
        return cluster in self._left

    def copies(self, cluster: str) -> dict[PodShape, int]:
        """What is kept in a cluster."""
        copies: dict[PodShape, int] = {}
        for _, kept in self._left.get(cluster, {}).values():
            for shape, count in kept.items():
                copies[shape] = copies.get(shape, 0) + count
        return copies

    def copy(self) -> "Departures":
        made = Departures()
        made._left = {cluster: dict(left) for cluster, left in self._left.items()}
        return made
