"""The highest seq of every workload that had a slice here, beyond the slice's life and that of this
process.

A write that was on its way for long may make a slice anew that was removed since (F30): obeyed, it
would run what runs elsewhere by now. What is known is part of the ClusterCapacity's status, written
with the report that each new seq brings anyway, and read before anything is obeyed.

Bounded, and nothing is forgotten for nothing: what is left out lies at or below `forgotten`, and a
slice of an unknown workload up to there is refused, unless this very object was obeyed before. A
hub gives a slice that is refused a new number. Pure.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from federator.api import clustercapacity
from federator.model import seq as seqs

REMEMBERED = 10_000
"""Workloads that are remembered in memory; of these the status holds as many as its schema
allows."""


class Highest:
    """Not to be asked before `load`."""

    def __init__(self) -> None:
        self.loaded = False
        self.version = 0
        """Rises with everything that the status does not say yet."""
        self._seqs: OrderedDict[str, int] = OrderedDict()
        """By uid of the workload; the last that changed stands last."""
        self._forgotten = 0
        self._early: list[tuple[str, int, bool]] = []
        """What was heard before `load`."""
        self._shown: tuple[int, dict[str, Any]] = (0, {})

    def load(self, status: Mapping[str, Any]) -> None:
        """Takes what an earlier life has written; once."""
        if self.loaded:
            return
        self.loaded = True
        recorded, self._forgotten = clustercapacity.highest(status)
        self._seqs = OrderedDict(sorted(recorded.items(), key=lambda entry: (entry[1], entry[0])))
        self._shown = (0, clustercapacity.from_highest(recorded, self._forgotten))
        early, self._early = self._early, []
        for uid, seq, obeyed in early:
            self.hear(uid, seq, obeyed=obeyed)

    @property
    def top(self) -> int:
        """The highest seq of all."""
        return max(self._forgotten, max(self._seqs.values(), default=0))

    def hear(self, uid: str, seq: int, *, obeyed: bool) -> None:
        """A slice of this workload was seen. `obeyed`: this very object was, before: its status
        says so."""
        if not self.loaded:
            self._early.append((uid, seq, obeyed))
        elif not self.newer(uid, seq, obeyed=obeyed):
            self._note(uid, seq, news=not obeyed)

    def newer(self, uid: str, seq: int, *, obeyed: bool) -> int:
        """The seq for which a slice with this one must be taken for a stale one; 0 for one to be
        obeyed."""
        highest_seq = self._seqs.get(uid)
        if highest_seq is not None:
            return highest_seq if seq < highest_seq else 0
        return 0 if obeyed or seq > self._forgotten or seq >= seqs.MAX else self._forgotten

    def fields(self) -> dict[str, Any]:
        """The fields of the status that keep it."""
        if self._shown[0] != self.version:
            entries = list(self._seqs.items())
            left_out, kept = (
                entries[: -clustercapacity.MAX_HIGHEST],
                entries[-clustercapacity.MAX_HIGHEST :],
            )
            forgotten = max(self._forgotten, max((seq for _, seq in left_out), default=0))
            self._shown = (self.version, clustercapacity.from_highest(dict(kept), forgotten))
        return self._shown[1]

    def _note(self, uid: str, seq: int, *, news: bool) -> None:
        if self._seqs.get(uid) == seq:
            return
        news = news or uid in self._seqs
        self._seqs[uid] = seq
        self._seqs.move_to_end(uid, last=news)
        self.version += news
        if len(self._seqs) > REMEMBERED:
            _, seq = self._seqs.popitem(last=False)
            self._forgotten = max(self._forgotten, seq)
