"""What is charged in each cluster beyond its last report, and what of that has changed.

The commitments' part that reads their trails. A world that has charged the earlier decisions is
brought up to date by `News`: nearly always decisions were made since, which are charged after those
before. Whatever else changes makes a cluster be charged anew.
"""

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from federator.model.ask import PodShape
from federator.model.fleet import Commitment
from federator.placement.room import trails
from federator.placement.room.trails import Departures, InFlight, Place, Places, Step, Trail

Charge = tuple[Place, int, PodShape, int]
"""(step, which of its pods, that pod, copies more)."""
Grown = dict[str, int]
"""Cluster -> copies more."""
OnRead = Callable[..., None]
"""Gets the name of a method of `Charged`, and its arguments: the same call on a copy makes the same
change."""
AT_FIRST: Place = (-1, "")
"""Before every step: the place of what is charged in sums."""
SINGLY: Final = 64
"""Charges of one cluster that are made one by one when they are all made again; of more all are
made in sums by shape, since a charge takes 40 us."""
SINGLY_MORE: Final = 4096
"""So many may be made one by one before they are made again in sums."""
SINGLY_OF: Final = 8
"""Of so many charges in sums as many more may be, or summing up would take the time it saves."""


class Held(Protocol):
    """The commitments by uid."""

    def get(self, uid: str, /) -> Commitment | None: ...


@dataclass(slots=True)
class News:
    """What may be charged otherwise than by the world that is kept."""

    heard: set[str] = field(default_factory=set)
    """Clusters of which anything was recorded."""
    anew: set[str] = field(default_factory=set)
    """Of those, the ones where earlier charges are others."""
    grown: dict[str, dict[str, int]] = field(default_factory=dict)
    """uid -> cluster -> the seq from which on its steps are not charged yet."""

    def clear(self) -> None:
        self.heard.clear()
        self.anew.clear()
        self.grown.clear()

    def copy(self) -> "News":
        grown = {uid: dict(since) for uid, since in self.grown.items()}
        return News(set(self.heard), set(self.anew), grown)


class Charged:
    """The trails of all commitments, indexed by cluster."""

    def __init__(self, held: Held) -> None:
        self._held = held
        """Only read."""
        self._trails: dict[str, dict[str, Trail]] = {}
        """cluster -> uid -> steps, but for those that are just what the commitment says: nearly all
        of a hub's. Empty where the commitment says more than there is."""
        self._recent: dict[str, Places] = {}
        self._unsorted: set[str] = set()
        """Clusters with a `_recent` that must be sorted before it is read."""
        self._leaving: dict[str, set[str]] = {}
        """cluster -> workloads that have a trail there and no share any more."""
        self._in_flight = InFlight()
        self._departures = Departures()
        self._summed: dict[str, tuple[Place, int]] = {}
        """cluster -> (the last step that is charged in sums, how many are)."""
        self.news: News | None = None
        """Since the world was kept; None while none is."""
        self.on_read: OnRead | None = None
        """Called with what a read changes; None where nobody keeps a copy."""
        self.follows = False
        """It is such a copy: what a read of it finds to tidy or to sum up it leaves to the
        original, so that both go on from the same."""

    def take_steps(self, uid: str, was: Mapping[str, Step], now: Mapping[str, Step]) -> None:
        """The commitment of a workload says `now`; before, it said `was`."""
        grown: dict[str, int] | None = None
        if self.news is not None and now:
            self.news.heard.update(now)
            grown = self.news.grown.get(uid, {})
        for cluster, step in now.items():
            if self._leaving:
                self._stays(cluster, uid)
            kept = self._trails.get(cluster)
            trail = kept.get(uid) if kept else None
            if trail is not None or cluster in was:
                trail = (was[cluster],) if trail is None else trail
                new = trails.after(trail, step)
                self._keep(cluster, uid, new, step)
                if len(new) == len(trail):
                    if new != trail:
                        self._changed(cluster)
                    continue
            if grown is not None:
                grown.setdefault(cluster, step[0])
            recent = self._recent.get(cluster)
            if recent is None:
                recent = self._recent[cluster] = Places()
            if not recent.append(step[0], uid):
                # only when decisions are read that were made before: in any order
                self._unsorted.add(cluster)
        if grown and self.news is not None:
            self.news.grown[uid] = grown

    def leave(self, cluster: str, uid: str, was: Step, *, undone: bool) -> None:
        """The commitment says nothing of this cluster any more, and before, it said `was`."""
        trail = self._trails.get(cluster, {}).get(uid, (was,))
        if undone and trail:
            self._changed(cluster)
            self._unlist(cluster, uid, trail[-1:])
            trail = trail[:-1]
        self._keep(cluster, uid, trail, None)
        if trail:  # else it is confirmed gone already
            self._leaving.setdefault(cluster, set()).add(uid)

    def forget(self, uid: str, said: Mapping[str, Step]) -> bool:
        """Nothing is charged for this workload anywhere; its commitment, which is gone, said so
        much. Returns whether there was anything."""
        clusters: Iterable[str] = said  # nothing is charged for it anywhere else
        if self._leaving:
            left = [name for name, leaving in self._leaving.items() if uid in leaving]
            clusters = dict.fromkeys((*said, *left))
        any_trail = False
        for cluster in clusters:
            trail = self._trails.get(cluster, {}).pop(uid, None)
            if trail is None:
                trail = (said[cluster],) if cluster in said else ()
            if trail:
                any_trail = True
                self._gone(cluster, uid, trail)
                self._changed(cluster)
                self._unlist(cluster, uid, trail)
        return any_trail

    def release(self, cluster: str, uid: str) -> None:
        """Nothing is charged for the workload in this cluster any more, but for what `departs` has
        kept."""
        trail = self._trail(cluster, uid)
        self._gone(cluster, uid, trail)
        self._keep(cluster, uid, (), self._step_of(cluster, uid))
        if trail:
            self._changed(cluster)
            self._unlist(cluster, uid, trail)

    def _gone(self, cluster: str, uid: str, trail: Trail) -> None:
        """Nothing of the workload is on its way into the cluster, or told to leave it."""
        self._departures.let_go(cluster, uid, trail)
        if self._leaving:
            self._stays(cluster, uid)
        self.heard_of(cluster, uid)

    def departs(self, cluster: str, uid: str, includes_seq: int) -> None:
        """As `Commitments.departs`."""
        missed = self._in_flight.missed(cluster).get(uid, includes_seq + 1)
        self._departures.depart(cluster, uid, min(includes_seq, missed - 1))

    def departed(self, cluster: str, uids: Iterable[str]) -> bool:
        """As `Commitments.departed`."""
        if not self._departures.counted(cluster, uids):
            return False
        self._changed(cluster)
        return True

    def set_out(self, uid: str, slices: Mapping[str, int]) -> bool:
        """The slices of these seqs are not in their clusters yet. Returns whether any is
        charged."""
        commitment, any_charged = self._held.get(uid), False
        holdings = () if commitment is None else commitment.holdings
        said = {held.cluster: held.seq for held in holdings}
        grown = {} if self.news is None else self.news.grown.get(uid, {})
        for cluster, seq in slices.items():
            kept = self._trails.get(cluster)
            trail = kept.get(uid) if kept else None
            last = said.get(cluster) if trail is None else trail[-1][0] if trail else None
            if last != seq:
                continue
            any_charged = True
            if self.news is not None:
                self.news.heard.add(cluster)
            # What has grown is charged from what is missed when it is charged.
            if self._in_flight.send(cluster, uid, seq) and cluster not in grown:
                self._changed(cluster)
        return any_charged

    def confirm(self, cluster: str, uid: str, seq: int) -> bool:
        return self._in_flight.confirm(cluster, uid, seq)

    def is_in_flight(self, cluster: str, uid: str, seq: int) -> bool:
        return self._in_flight.holds(cluster, uid, seq)

    def reported(self, cluster: str, includes_seq: int) -> None:
        if self._in_flight.report(cluster, includes_seq):
            self._changed(cluster)

    def heard_of(self, cluster: str, uid: str, *, above: int = -1) -> None:
        """Nothing of the workload above this seq is in flight to this cluster any more."""
        if self._in_flight and self._in_flight.drop(cluster, uid, above=above):
            self._changed(cluster)

    def beyond(self, cluster: str, includes_seq: int, *, singly: int | None = None) -> list[Charge]:
        """What a summary up to `includes_seq` does not include, in the order of the decisions. Of
        more than `singly` steps that would be charged one by one all are in sums by shape from now
        on.

        Per workload: the most it had since then, minus what the summary saw of it. Growth charges
        the difference; a shrink is credited only by a summary.

            decided 4 (seq 5), 10 (seq 7), 2 (seq 9): a summary up to 5 leaves 10 - 4 = 6 charged,
            one up to 7 leaves 0
        """
        if self._is_covered(cluster, includes_seq):
            if cluster in self._summed and not self.follows:
                self.sum_up(cluster, None)
            return []
        charges = sorted(self.each(cluster, includes_seq), key=lambda charge: charge[:2])
        return self._in_sums(cluster, charges, singly)

    def each(self, cluster: str, includes_seq: int) -> Iterator[Charge]:
        """The same workload by workload, never in sums, and without what `departs` has kept."""
        if self._is_covered(cluster, includes_seq):
            return
        self._tidy(cluster, includes_seq)
        recent, missed = self._recent_of(cluster), self._in_flight.missed(cluster)
        later = recent[recent.above(includes_seq) :]
        for uid in dict.fromkeys((*missed, *(uid for _, uid in later))):
            seen = min(includes_seq, missed.get(uid, includes_seq + 1) - 1)
            for seq, at, pod, copies in trails.rises(self._trail(cluster, uid), seen):
                yield (seq, uid), at, pod, copies

    def uids(self) -> Iterator[str]:
        """Workloads with a trail that their commitments do not say."""
        return itertools.chain.from_iterable(self._trails.values())

    def _in_sums(self, cluster: str, charges: list[Charge], singly: int | None) -> list[Charge]:
        """The same with the first ones in sums: of copies that have left, and of steps where there
        are too many to charge each."""
        last, _ = self._summed.get(cluster, (AT_FIRST, 0))
        count = bisect.bisect_right(charges, last, key=lambda charge: charge[0])
        if singly is not None and len(charges) - count > max(singly, count // SINGLY_OF):
            count = len(charges)
        if not self.follows:
            self.sum_up(cluster, (charges[count - 1][0], count) if count else None)
        sums = self._departures.copies(cluster)
        for _, _, pod, copies in charges[:count]:
            sums[pod] = sums.get(pod, 0) + copies
        return [(AT_FIRST, at, pod, sums[pod]) for at, pod in enumerate(sums)] + charges[count:]

    def sum_up(self, cluster: str, summed: tuple[Place, int] | None) -> None:
        """Charges up to this step are in sums from now on, and so many; None for none."""
        if self._summed.get(cluster) == summed:
            return
        if summed is None:
            del self._summed[cluster]
        else:
            self._summed[cluster] = summed
        if self.on_read is not None:
            self.on_read("sum_up", cluster, summed)

    def last_summed(self, cluster: str) -> Place:
        """The last step that is charged in sums."""
        return self._summed.get(cluster, (AT_FIRST, 0))[0]

    def most_singly(self, cluster: str) -> int:
        """How many charges of the cluster may be made one by one."""
        return max(SINGLY_MORE, self._summed.get(cluster, (AT_FIRST, 0))[1] // SINGLY_OF)

    def grown(self, includes: Mapping[str, int]) -> Iterator[tuple[Place, int, PodShape, Grown]]:
        """What is to be charged beside what was charged, of what has grown only: (step, which of
        its pods, that pod, cluster -> copies more). `includes`: cluster -> up to which seq its
        report includes decisions; in others nothing is charged."""
        grown = {} if self.news is None else self.news.grown
        for uid, since in grown.items():
            said = trails.steps(self._held.get(uid))
            made: dict[tuple[int, int, int], tuple[PodShape, Grown]] = {}
            for cluster, first in since.items():
                seen = includes.get(cluster)
                if seen is None:
                    continue
                missed = self._in_flight.missed(cluster).get(uid)
                if missed is not None and missed <= seen:
                    seen = missed - 1
                kept = self._trails.get(cluster)
                trail = kept.get(uid) if kept else None
                if trail is None:
                    trail = (said[cluster],) if cluster in said else ()
                for seq, at, pod, copies in trails.rises(trail, seen):
                    if seq >= first:
                        key = seq, at, id(pod)  # a shape is hashed by Python code
                        if key not in made:
                            made[key] = pod, {}
                        made[key][1][cluster] = copies
            for (seq, at, _), (pod, more) in made.items():
                yield (seq, uid), at, pod, more

    def _is_covered(self, cluster: str, includes_seq: int) -> bool:
        """Whether a summary plainly includes everything, and nothing is left to tidy."""
        if (
            self._leaving.get(cluster)
            or self._in_flight.missed(cluster)
            or self._departures.keeps(cluster)
            or cluster in self._unsorted
        ):
            return False
        recent = self._recent.get(cluster)
        return recent is None or recent.ends_by(includes_seq)

    def copy(self, held: Held) -> "Charged":
        """A copy above these commitments, which are equal."""
        made = Charged(held)
        made._trails = {cluster: dict(kept) for cluster, kept in self._trails.items()}
        made._recent = {cluster: places.copy() for cluster, places in self._recent.items()}
        made._unsorted = set(self._unsorted)
        made._leaving = {cluster: set(uids) for cluster, uids in self._leaving.items()}
        made._in_flight, made._departures = self._in_flight.copy(), self._departures.copy()
        made._summed = dict(self._summed)
        made.news = None if self.news is None else self.news.copy()
        return made

    def as_counted(self, held: Held, counted: Mapping[str, int], own: str) -> "Charged":
        """A copy above the commitment of workload `own` alone, and what the summaries up to the
        given seq (`counted`, by cluster) do not include of the others."""
        made = Charged(held)
        made.news = None if self.news is None else self.news.copy()
        made._in_flight = self._in_flight.as_counted(counted)
        made._departures, made._summed = self._departures.copy(), dict(self._summed)
        for cluster, includes_seq in counted.items():
            self._tidy(cluster, includes_seq)
            recent = self._recent_of(cluster)
            missed = self._in_flight.missed(cluster)
            places = recent[recent.above(includes_seq) :]
            made._recent[cluster] = Places(places)
            made._trails[cluster] = {
                place: self._trail(cluster, place)
                for place in (*missed, *(place for _, place in places))
            }
        for cluster in trails.steps(held.get(own)):  # summaries include the rest of what it holds
            made._trails.setdefault(cluster, {}).setdefault(own, ())
        return made

    @property
    def any_leaving(self) -> bool:
        """Whether any workload has left a cluster in which it is charged still."""
        return bool(self._leaving)

    def tidy_leaving(self, cluster: str, includes_seq: int) -> None:
        """Releases workloads that have left, of which the summary includes the last step. Until
        then what left stays charged, because its pods may still run."""
        for uid in () if self.follows else sorted(self._leaving.get(cluster, ())):
            if self._trail(cluster, uid)[-1][0] <= includes_seq:
                self.release(cluster, uid)
                if self.on_read is not None:
                    self.on_read("release", cluster, uid)

    def _tidy(self, cluster: str, includes_seq: int) -> None:
        """Drops steps that no later summary needs: those before the last included one, and all of a
        workload that has left."""
        if self.follows:
            return
        self.tidy_leaving(cluster, includes_seq)
        if self.drop_needless(cluster, includes_seq) and self.on_read is not None:
            self.on_read("drop_needless", cluster, includes_seq)

    def drop_needless(self, cluster: str, includes_seq: int) -> bool:
        """Drops the steps before the last one that the summary includes. Returns whether there were
        any."""
        recent = self._recent_of(cluster)
        if recent.ends_by(includes_seq):
            return False
        any_dropped = False
        later = recent[recent.above(includes_seq) :]
        missed = self._in_flight.missed(cluster)
        for uid in sorted({uid for _, uid in later} - missed.keys()):
            trail = self._trail(cluster, uid)
            if first := trails.needless(trail, includes_seq):
                any_dropped = True
                self._unlist(cluster, uid, trail[:first])
                self._keep(cluster, uid, trail[first:], self._step_of(cluster, uid))
        return any_dropped

    def _changed(self, cluster: str) -> None:
        """Earlier charges in the cluster may be others."""
        if self.news is not None:
            self.news.heard.add(cluster)
            self.news.anew.add(cluster)

    def _stays(self, cluster: str, uid: str) -> None:
        """The workload is not leaving the cluster, or has left."""
        leaving = self._leaving.get(cluster)
        if leaving is not None:
            leaving.discard(uid)
            if not leaving:
                del self._leaving[cluster]

    def _trail(self, cluster: str, uid: str) -> Trail:
        """The steps of a workload in a cluster; none where nothing of it is charged."""
        trail = self._trails.get(cluster, {}).get(uid)
        if trail is not None:
            return trail
        step = self._step_of(cluster, uid)
        return () if step is None else (step,)

    def _step_of(self, cluster: str, uid: str) -> Step | None:
        """The step that the commitment itself says."""
        commitment = self._held.get(uid)
        if commitment is None:
            return None
        for holding in commitment.holdings:
            if holding.cluster == cluster:
                return trails.step(commitment, holding)
        return None

    def _keep(self, cluster: str, uid: str, trail: Trail, said: Step | None) -> None:
        """Sets a trail; it is not kept where it is what the commitment says."""
        kept = self._trails.setdefault(cluster, {})
        if trail == (() if said is None else (said,)):
            kept.pop(uid, None)
        else:
            kept[uid] = trail

    def _recent_of(self, cluster: str) -> Places:
        """The steps of a cluster's workloads, rising in seq."""
        recent = self._recent.get(cluster)
        if recent is None:
            return Places()
        if cluster in self._unsorted:
            self._unsorted.discard(cluster)
            recent.sort()
        return recent

    def _unlist(self, cluster: str, uid: str, steps: Trail) -> None:
        recent = self._recent_of(cluster)
        for seq, _, _ in steps:
            recent.remove(seq, uid)
