"""The changes of the hub's memory in the order in which they are made, for one follower: the
snapshot worker (`hub/snapshot`), which keeps a copy of what decisions depend on.

Workloads, decisions and commitments are values that are replaced and never changed, so a change is
a reference to the new value. Without a follower nothing is kept.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, TypeVar

from federator.hub.records.commitment_rows import commitment_table
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model.ask import Ask, Former
from federator.model.fleet import Commitment
from federator.model.names import ObjectName, WorkloadKey
from federator.model.shards import Ranges
from federator.model.table import Table
from federator.placement.room.commitments import Commitments, said
from federator.placement.room.trails import Places

Key = TypeVar("Key")
Value = TypeVar("Value")


class Op(IntEnum):
    """What a change is about."""

    WORKLOAD = 0
    """(key, workload, or None for one that is gone)."""
    RECORD = 1
    """(name, record, or None for one that is gone)."""
    COMMITMENTS = 2
    """(method of `Commitments`, its arguments)."""
    COMMITMENT = 3
    """(commitment): one of those that are present when a follower starts."""
    RECENT = 4
    """(cluster, some of its steps in `Charged`), after all commitments."""
    BOOKS = 5
    """(other fields of `Charged`, those of `Commitments`), at the end."""
    READ = 6
    """(method of `Charged`, its arguments): what a read of the commitments changes in them."""


Change = tuple[Op, Any, Any]
BOOKS: Final = ("_in_flight", "_departures", "_trails", "_unsorted", "_leaving", "_summed")
"""Fields of `Charged` that are passed on at once."""
STEPS: Final = 256
"""Steps that are sent as one change."""


class Feed:
    """What changes, from the moment on when somebody follows."""

    __slots__ = ("_changes", "_wake")

    def __init__(self) -> None:
        self._changes: deque[Change] | None = None
        self._wake: Callable[[], None] | None = None
        """Called once, at the next change."""

    def follow(self) -> deque[Change]:
        """From now on changes are appended to this."""
        self._changes = deque()
        return self._changes

    def is_followed_by(self, changes: deque[Change]) -> bool:
        """Whether changes are appended to this."""
        return self._changes is changes

    def end(self) -> None:
        """Nobody follows any more."""
        self._changes = self._wake = None

    def when_next(self, wake: Callable[[], None]) -> None:
        """Calls `wake` at the next change."""
        self._wake = wake

    def note(self, change: Change) -> None:
        """Appends a change, if anybody follows."""
        if self._changes is None:
            return
        self._changes.append(change)
        if self._wake is not None:
            wake, self._wake = self._wake, None
            wake()


class Watched(Table[Key, Value]):
    """A table of which a feed hears what is put and removed."""

    __slots__ = ("_feed", "_op")

    def __init__(self, feed: Feed, op: Op) -> None:
        super().__init__()
        self._feed = feed
        self._op = op

    def __setitem__(self, key: Key, value: Value) -> None:
        Table.__setitem__(self, key, value)
        self._feed.note((self._op, key, value))

    def __delitem__(self, key: Key) -> None:
        super().__delitem__(key)
        self._feed.note((self._op, key, None))

    def clear(self) -> None:
        gone = list(self)
        super().clear()
        for key in gone:
            self._feed.note((self._op, key, None))


class Noted(Commitments):
    """Commitments of which a feed hears each call that changes them.

    A call inside another is noted after it, and changes nothing when it is made again: each says
    what there is from then on, not what is added.
    """

    def __init__(self, feed: Feed | None = None) -> None:
        super().__init__(commitment_table())
        self._feed = feed or Feed()
        self._charged.on_read = self._note_read

    def _note_read(self, method: str, *arguments: Any) -> None:
        self._feed.note((Op.READ, method, arguments))

    def _note(self, method: str, *arguments: Any) -> None:
        self._feed.note((Op.COMMITMENTS, method, arguments))

    def record(self, commitment: Commitment, *, undone: bool = False) -> None:
        self._note("record", commitment, undone)
        super().record(commitment, undone=undone)

    def charge_beyond(self, uid: str, now: tuple[Former, ...]) -> None:
        self._note("charge_beyond", uid, now)
        super().charge_beyond(uid, now)

    def describe(self, ask: Ask) -> None:
        before = self.commitment(ask.uid)
        super().describe(ask)
        now = self.commitment(ask.uid)
        if now is not None and before is not None and said(now) != said(before):
            self._note("_describe", now)

    def progressed(self, uid: str, done: Ranges) -> bool:
        self._note("progressed", uid, done)
        return super().progressed(uid, done)

    def forget(self, uid: str) -> None:
        self._note("forget", uid)
        super().forget(uid)

    def release(self, cluster: str, uid: str) -> None:
        self._note("release", cluster, uid)
        super().release(cluster, uid)

    def departs(self, cluster: str, uid: str, includes_seq: int) -> None:
        self._note("departs", cluster, uid, includes_seq)
        super().departs(cluster, uid, includes_seq)

    def departed(self, cluster: str, uids: Iterable[str]) -> bool:
        uids = tuple(uids)
        self._note("departed", cluster, uids)
        return super().departed(cluster, uids)

    def set_out(self, uid: str, slices: Mapping[str, int]) -> None:
        self._note("set_out", uid, slices)
        super().set_out(uid, slices)

    def confirm(self, cluster: str, uid: str, seq: int) -> None:
        self._note("confirm", cluster, uid, seq)
        super().confirm(cluster, uid, seq)

    def reported(self, cluster: str, includes_seq: int) -> None:
        self._note("reported", cluster, includes_seq)
        super().reported(cluster, includes_seq)

    def all_changes(self) -> Iterator[Change]:
        """All of it as changes. Read in the turn in which this is called."""
        made = self.copy()
        charged = made._charged
        books = tuple(getattr(charged, name) for name in BOOKS)
        return itertools.chain(
            ((Op.COMMITMENT, each, None) for each in made),
            (
                (Op.RECENT, cluster, steps[at : at + STEPS])
                for cluster, steps in charged._recent.items()
                for at in range(0, len(steps), STEPS)
            ),
            ((Op.BOOKS, books, (made._done, made.terminating)),),
        )


def noted(
    feed: Feed,
) -> tuple[Noted, Table[WorkloadKey, Workload], Table[ObjectName, Record]]:
    """Empty commitments, workloads and decisions of which the feed hears every change."""
    workloads: Watched[WorkloadKey, Workload] = Watched(feed, Op.WORKLOAD)
    records: Watched[ObjectName, Record] = Watched(feed, Op.RECORD)
    return Noted(feed), workloads, records


class Replica(Commitments):
    """The copy that the follower keeps of `Noted`, from its changes. Reading it changes nothing
    that it has of the original."""

    def __init__(self) -> None:
        super().__init__(commitment_table())
        self._charged.follows = True

    def begin(self, commitment: Commitment) -> None:
        """One of those that there were when it began to follow."""
        self._commitments[commitment.uid] = commitment
        self._sums.count(commitment, +1)

    def resume(self, cluster: str, steps: list[tuple[int, str]]) -> None:
        """Some of the steps of a cluster until then."""
        self._charged._recent.setdefault(cluster, Places()).extend(steps)

    def open_books(
        self,
        books: tuple[Any, ...],
        beside: tuple[dict[str, Ranges], Mapping[str, tuple[Former, ...]]],
    ) -> None:
        """The rest of what there was then."""
        for name, value in zip(BOOKS, books, strict=True):
            setattr(self._charged, name, value)
        self._done, terminating = beside
        for uid, charged in terminating.items():
            self.charge_beyond(uid, charged)

    def make(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Makes one change that was made to the original."""
        if method == "record":
            commitment, undone = arguments
            self.record(commitment, undone=undone)
            return
        if method == "_describe":
            (now,) = arguments
            before = self._commitments.get(now.uid)
            if before is not None:
                self._say(before, now)
            return
        getattr(self, method)(*arguments)

    def read(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Makes one change that a read has made to the original."""
        getattr(self._charged, method)(*arguments)
        if method == "sum_up":  # charged one by one in what is kept here
            self._charged._changed(arguments[0])
