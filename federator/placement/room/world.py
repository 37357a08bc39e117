"""The room of all clusters of one snapshot, and what charging takes from it.

One `World` is kept by the commitments from cycle to cycle and brought up to date where something
changed (`kept`); a ledger reads it, and copies it when it charges for the first time. How many
copies of a shape fit is remembered per shape, and counted again only for the clusters that changed
since.
"""

import functools
import itertools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from federator.model.ask import PodShape
from federator.model.fleet import Capacity, ClusterView, Views
from federator.model.quickly import quickly
from federator.model.resources import PODS, UNLIMITED, Resources
from federator.placement.room import changes, nodes
from federator.placement.room.binding import Ints
from federator.placement.room.columns import Columns
from federator.placement.room.nodes import Asked, Nodes

PENDING: Final = -1
"""Room of a shape that only the member can count and has not reported yet."""
_REMEMBERED: Final = 1 << 19
"""Rooms (clusters x shapes) that are remembered, about 4 MB."""
_FEW: Final = 2
"""Clusters that are counted one by one rather than in columns."""
_FEW_REPORTS: Final = 3
"""Clusters that are counted by their reports, before those are in the columns."""
_FEW_ROWS: Final = 1024
"""So many rows of nodes are counted sooner than it is found which of them have changed."""
_ALL: Final = slice(None)
Names: TypeAlias = list[str] | None
"""As `others_of` gives them."""


@dataclass(frozen=True)
class Base:
    """A cluster's room by its last summary."""

    capacity: Capacity
    nodes: Nodes

    @functools.cached_property
    def allocatable(self) -> Resources:
        return self.capacity.allocatable

    @functools.cached_property
    def empty(self) -> Nodes:
        """One node of every sort, with nothing on it."""
        rows = self.capacity.rows
        return nodes.Nodes.of(
            {replace(row, count=1, free=row.allocatable) for row in rows if row.count}
        )

    @functools.cached_property
    def emptied(self) -> Nodes:
        """All nodes, with nothing on them."""
        rows = self.capacity.rows
        return nodes.Nodes.of([replace(row, free=row.allocatable) for row in rows])

    @functools.cached_property
    def used(self) -> Resources:
        return (self.allocatable - self.capacity.free).at_least_zero()


@dataclass(frozen=True, slots=True)
class Opened:
    """A cluster with a summary to rely on: its room by that summary."""

    base: Base
    headroom: Resources | None
    """What spec.usable leaves; None where that is everything."""

    @classmethod
    def of(cls, base: Base, usable_permille: int) -> "Opened":
        if usable_permille >= 1000:
            return _opened(base, None)
        return _opened(base, base.allocatable.scaled(usable_permille) - base.used)

    @property
    def nodes(self) -> Nodes:
        return self.base.nodes

    def differs_by_amounts(self, before: "Opened") -> bool:
        """Whether only the nodes bound both, which are of the same makes and resources: then it
        differs from what it was by amounts alone."""
        new, old = self.base.capacity, before.base.capacity
        nodes, former = self.base.nodes, before.base.nodes
        return (
            nodes.makes is former.makes
            and nodes.names is former.names
            and self.headroom is before.headroom is None
            and new.packs == old.packs
            and not (new.copies or old.copies)
        )


_opened = quickly(Opened)
_NO_NODES: Final = Nodes.of(())


@dataclass(frozen=True, slots=True)
class Charge:
    """What one charge changed, for taking it back."""

    at: Ints
    nodes: changes.NodesCharge | changes.Single
    headroom: Ints | None
    """[R, c]: what it took of the headroom."""
    charged: tuple[tuple[int, Mapping[PodShape, int]], ...]
    """Copies charged before, of the clusters that count some shapes themselves."""


_charge = quickly(Charge)
_Kept: TypeAlias = tuple[Ints, int, int]
"""What was counted, with the clock of the world and the position of its changes at that time."""


class World:
    """All clusters by name, as columns; C clusters, R resources."""

    __slots__ = (
        "_charged",
        "_clock",
        "_closed",
        "_columns",
        "_counting",
        "_headroom",
        "_late",
        "_packs",
        "_rooms",
        "_some_pack",
        "_stamps",
        "_with_room",
        "_written",
        "at",
        "opened",
    )

    def __init__(self, every: Mapping[str, Opened | None]) -> None:
        """None: a cluster with a room of 0, because it never reported or its report is stale."""
        self.at = {name: at for at, name in enumerate(every)}
        """name -> index in all columns."""
        self.opened = list(every.values())
        self._columns = Columns(
            [_NO_NODES if opened is None else opened.nodes for opened in self.opened]
        )
        self._late: dict[int, int] = {}
        """Clusters that have reported, and are not in the columns as they did -> clock then."""
        self._written = 0
        """Clock of the last change of the columns."""
        count = len(self.opened)
        self._closed = np.zeros(count, dtype=np.bool_)
        self._packs = np.zeros(count, dtype=np.bool_)
        self._some_pack = False
        """Whether the scheduler of some cluster fills, or filled, nodes."""
        self._counting: frozenset[int] = frozenset()
        """Clusters that report exact counts of some shapes."""
        self._charged: dict[int, Mapping[PodShape, int]] = {}
        """Of those clusters: copies charged beyond the summary."""
        self._headroom: Ints | None = None
        """[R, C], UNLIMITED where spec.usable does not bound; None where it bounds no cluster."""
        self._rooms: dict[str, _Kept] = {}
        """shape id -> (room per cluster, clock when it was counted)."""
        self._with_room: dict[str, _Kept] = {}
        """The same of the nodes on which one copy fits."""
        self._clock = 0
        self._stamps: Ints = np.zeros(count, dtype=np.int64)
        """[C]: clock of the last change."""
        for at in range(count):
            self._set(at)

    @property
    def nodes(self) -> Columns:
        if self._late:
            for at in self._late:
                opened = self.opened[at]
                self._columns.put(at, _NO_NODES if opened is None else opened.nodes)
            self._late.clear()
            self._written = self._clock
        return self._columns

    def put(self, name: str, opened: Opened | None) -> bool:
        """Replaces one cluster; False when the columns cannot take it and must be made anew."""
        at = self.at[name]
        before = self.opened[at]
        if before is None or opened is None or not opened.differs_by_amounts(before):
            if not self._columns.holds(_NO_NODES if opened is None else opened.nodes):
                return False
            self.opened[at] = opened
            self._set(at)
        else:
            self.opened[at] = opened
        self._clock += 1
        # Written into the columns at the next read: a cluster may report again before that.
        self._stamps[at] = self._late[at] = self._clock
        return True

    def copy(self) -> "World":
        """A copy. Changes of it do not show in this one."""
        made = World.__new__(World)
        made.at, made.opened, made._columns = self.at, self.opened.copy(), self.nodes.copy()
        made._late, made._written = {}, self._written
        made._closed, made._packs, made._counting = (
            self._closed.copy(),
            self._packs.copy(),
            self._counting,
        )
        made._some_pack, made._charged = self._some_pack, dict(self._charged)
        made._headroom = None if self._headroom is None else self._headroom.copy()
        made._rooms, made._with_room = dict(self._rooms), dict(self._with_room)
        made._clock, made._stamps = self._clock, self._stamps.copy()
        return made

    def rooms(self, shape: PodShape) -> Ints:
        """[C]: how many more copies fit in each cluster; 0 for a cluster without a report to rely
        on, PENDING where only the member can count the shape and has not reported it. Not to be
        changed."""
        asked = self._columns.asked(shape)
        # What else bounds room does not follow from the rows that were changed.
        followed = self._headroom is None and not self._counting and asked.plain
        kept = self._rooms.get(asked.id)
        if followed and kept is not None:
            if self._clock == kept[1]:
                return kept[0]
            counted = self._by_reports(kept, shape, asked)
            if counted is None and self._columns.changes is None:
                # Asking which clusters changed costs more than counting so few rows again.
                few = self._columns.counts.size <= _FEW_ROWS
                if few or self._clock - kept[1] >= self._stamps.size:  # nearly all have changed
                    counted = self.nodes.copies(shape, _ALL)
            if counted is not None:
                self._rooms[asked.id] = (counted, self._clock, self._columns.position)
                return counted
        return self._remembered(self._rooms, shape, self._count, followed=followed)

    def _by_reports(self, kept: _Kept, shape: PodShape, asked: Asked) -> Ints | None:
        """What was counted, as it is now if only a few clusters have reported since: by what they
        said. None where more has changed."""
        counted, clock, _ = kept
        columns = self._columns
        if clock < self._written or shape.one_per_node or columns.makes.tainted:
            return None
        changed = [at for at, then in self._late.items() if then > clock]
        if len(changed) > _FEW_REPORTS:
            return None
        counted = counted.copy()
        for at in changed:
            opened = self.opened[at]
            rows = None if opened is None else opened.base.nodes.listed_as(columns.names)
            if rows is None or len(rows[-1]) > nodes.FEW_ROWS:
                return None
            counted[at] = min(asked.copies(rows, None), UNLIMITED)
        return counted

    def _remembered(
        self,
        kept: dict[str, _Kept],
        shape: PodShape,
        count: Callable[[PodShape, str, Ints | slice], Ints],
        *,
        followed: bool = False,
    ) -> Ints:
        """What `count` gives for every cluster, counted again only for those that changed since.
        `followed`: it is what the nodes alone have room for."""
        key = self._columns.asked(shape).id
        entry = kept.get(key)
        if entry is None:
            # Cleared as a whole: keeping the order of use would cost more than counting again.
            if (len(kept) + 1) * self._stamps.size > _REMEMBERED:
                kept.clear()
            counted = count(shape, key, _ALL)
        else:
            counted, clock, position = entry
            if clock == self._clock:
                return counted
            updated = self.nodes.updated(counted, shape, position) if followed else None
            if updated is not None:
                counted = updated
            else:
                (stale,) = (self._stamps > clock).nonzero()
                # Above three quarters picking the rows costs more than counting all.
                if stale.size == self._stamps.size or (
                    followed and 4 * stale.size > 3 * counted.size
                ):
                    counted = count(shape, key, _ALL)
                else:
                    counted = counted.copy()
                    counted[stale] = count(shape, key, stale)
        kept[key] = (counted, self._clock, self.nodes.position)
        return counted

    def headroom(self, at: int) -> Resources | None:
        """What spec.usable leaves of one cluster; None where that is everything."""
        opened = self.opened[at]
        if opened is None or opened.headroom is None or self._headroom is None:
            return None
        left = dict(zip(self.nodes.names, self._headroom[:, at].tolist(), strict=True))
        if PODS not in opened.base.allocatable:
            del left[PODS]
        return Resources(left)

    def nodes_admitting(self, at: int, shape: PodShape) -> int:
        """How many nodes of one cluster a daemon's pod goes to; PENDING without a report to rely
        on, and where only the member can tell."""
        opened = self.opened[at]
        if opened is None:
            return PENDING
        if shape.plain:
            return self.nodes.admitting(at, shape)
        return opened.base.capacity.copies.get(nodes.shape_id(shape), PENDING)

    def nodes_with_room(self, at: int, shape: PodShape) -> int:
        """On how many nodes of one cluster one copy fits; at most its room, where that is known and
        something else than the nodes bounds it."""
        opened = self.opened[at]
        if opened is None:
            return 0
        here = np.array([at])
        heights = self.nodes.heights(shape, here)
        fit = int((self.nodes.counts[here, : heights.shape[1]] * (heights > 0)).sum())
        if opened.headroom is None and nodes.shape_id(shape) not in opened.base.capacity.copies:
            return fit  # nothing else limits it: its room is not smaller, or unknown
        room = int(self.rooms(shape)[at])
        # A member may know of bounds that its nodes do not show.
        return fit if room == PENDING else min(fit, room)

    def all_nodes_with_room(self, shape: PodShape) -> Ints:
        """[C]: `nodes_with_room` of every cluster. Not to be changed."""
        return self._remembered(self._with_room, shape, self._count_nodes)

    def _count_nodes(self, shape: PodShape, _: str, at: Ints | slice) -> Ints:
        """[c]: `nodes_with_room` of the clusters `at`."""
        if isinstance(at, slice):
            self.rooms(shape)  # decisions on what is ordered by nodes read it next
        heights = self.nodes.heights(shape, at)
        fit: Ints = np.vecdot(heights > 0, self.nodes.counts[at, : heights.shape[1]])
        if self._headroom is not None or self._counting:
            every = range(fit.size) if isinstance(at, slice) else at.tolist()
            for place, here in enumerate(every):
                opened = self.opened[here]
                if opened is not None and (opened.headroom is not None or here in self._counting):
                    fit[place] = self.nodes_with_room(here, shape)
        return fit

    def charge(self, shape: PodShape, grown: Mapping[str, int]) -> Charge | None:
        """Charges `grown` copies by cluster; clusters without a report are left out."""
        places, opened = self.at, self.opened
        given = sorted(
            [
                (at, copies)
                for name, copies in grown.items()
                if copies > 0 and (at := places.get(name, -1)) >= 0 and opened[at] is not None
            ]
        )
        if not given:
            return None
        clusters, more = zip(*given, strict=True)
        return self.charge_at(shape, list(clusters), list(more))

    def charge_at(self, shape: PodShape, clusters: list[int], grown: list[int]) -> Charge:
        """Charges some copies each in clusters with a report, which rise."""
        at = np.array(clusters, dtype=np.int64)
        packs = self._packs[at] if self._some_pack else None
        made = self.nodes.charge(shape, at, grown, packs)
        taken = None
        if self._headroom is not None:
            needs = np.array([shape.requests[name] for name in self.nodes.names], dtype=np.int64)
            # UNLIMITED is no amount: subtracting from it would make it a limit.
            taken = np.where(
                self._headroom[:, at] == UNLIMITED, 0, needs[:, None] * np.array(grown)
            )
            self._headroom[:, at] -= taken
        before = self._note(shape, clusters, grown) if self._counting else ()
        self._changed(at)
        return _charge(at, made, taken, before)

    def _note(
        self, shape: PodShape, clusters: list[int], grown: list[int]
    ) -> tuple[tuple[int, Mapping[PodShape, int]], ...]:
        """Notes the copies of clusters that count some shapes themselves; returns what was noted
        before."""
        charged = [
            (here, more)
            for here, more in zip(clusters, grown, strict=True)
            if here in self._counting
        ]
        before = tuple((here, self._charged[here]) for here, _ in charged)
        for here, more in charged:
            former = self._charged[here]
            self._charged[here] = {**former, shape: former.get(shape, 0) + more}
        return before

    def undo(self, made: Charge) -> None:
        """Takes a charge back; later ones must have been taken back before."""
        self.nodes.undo(made.nodes)
        if made.headroom is not None and self._headroom is not None:
            self._headroom[:, made.at] += made.headroom
        self._charged.update(made.charged)
        self._changed(made.at)

    def _changed(self, at: Ints) -> None:
        self._clock += 1
        self._written = self._clock
        self._stamps[at] = self._clock

    def _set(self, at: int) -> None:
        """Everything of one cluster beside its nodes."""
        opened = self.opened[at]
        self._closed[at] = opened is None
        self._packs[at] = opened is not None and opened.base.capacity.packs
        self._some_pack = self._some_pack or bool(self._packs[at])
        if at in self._counting:
            self._counting -= {at}
        if opened is not None and opened.base.capacity.copies:
            self._counting |= {at}
            self._charged[at] = {}
        if opened is not None and opened.headroom is not None and self._headroom is None:
            self._headroom = np.full(
                (len(self._columns.names), len(self.opened)), UNLIMITED, dtype=np.int64
            )
        if self._headroom is not None:
            left = None if opened is None else opened.headroom
            bounded = [
                left is not None
                and opened is not None
                and (name != PODS or name in opened.base.allocatable)
                for name in self._columns.names
            ]
            amounts = [
                left[name] if left is not None and is_bounded else UNLIMITED
                for name, is_bounded in zip(self._columns.names, bounded, strict=True)
            ]
            self._headroom[:, at] = amounts

    def _plainly(self, shape: PodShape) -> bool:
        """Whether nothing but the nodes bounds the room."""
        return self._headroom is None and not self._counting and self._columns.asked(shape).plain

    def _count(self, shape: PodShape, key: str, at: Ints | slice) -> Ints:
        """[c]: the room of the clusters `at`."""
        plainly = self._plainly(shape)
        if plainly and not isinstance(at, slice) and at.size <= _FEW:
            few = [self.nodes.copies_of(shape, here) for here in at.tolist()]
            return np.array(few, dtype=np.int64)
        if plainly:
            return self.nodes.copies(shape, at)  # 0 without a report: there are no nodes
        size = self._stamps[at].size
        fit = (
            self.nodes.copies(shape, at) if shape.plain else np.full(size, PENDING, dtype=np.int64)
        )
        every = range(size) if isinstance(at, slice) else at.tolist()
        places = {here: place for place, here in enumerate(every)} if self._counting else {}
        evaluated = fit != PENDING
        for here in self._counting & places.keys():
            opened = self.opened[here]
            if opened is not None and (exact := opened.base.capacity.copies.get(key)) is not None:
                place, charged = places[here], self._charged[here]
                if shape.plain:
                    lost = max(
                        opened.base.nodes.copies(shape) - int(fit[place]), charged.get(shape, 0)
                    )
                else:
                    lost = sum(
                        _destroyed(shape, other, copies) for other, copies in charged.items()
                    )
                fit[place], evaluated[place] = exact - lost, True
        if self._headroom is not None:
            fit = np.where(evaluated, np.minimum(fit, self._bound(shape, at)), fit)
        fit = np.where(evaluated, np.maximum(fit, 0), fit)
        fit[self._closed[at]] = 0
        return fit

    def _bound(self, shape: PodShape, at: Ints | slice) -> Ints:
        """[c]: how many copies spec.usable leaves room for."""
        assert self._headroom is not None
        bound: Ints = np.full(self._stamps[at].size, UNLIMITED, dtype=np.int64)
        for name, need in shape.requests.items():
            if need <= 0:
                continue
            if name in self.nodes.names:
                row = self._headroom[self.nodes.names.index(name), at]
                fits = np.where(row == UNLIMITED, UNLIMITED, np.maximum(row, 0) // need)
            else:  # no node has it: what is bounded has no room
                fits = np.where((self._headroom[:, at] == UNLIMITED).all(axis=0), UNLIMITED, 0)
            np.minimum(bound, fits, out=bound)
        return bound


def _destroyed(shape: PodShape, other: PodShape, copies: int) -> int:
    """The most copies of `shape` that `copies` of `other` can have displaced, wherever they were
    bound.

        shape cpu 2, other cpu 3: one copy of other can destroy up to ceil(3 / 2) = 2 places, 4
        copies 8
    """
    if other == shape:
        return copies
    worst = 0
    for name, need in shape.requests.items():
        if need > 0 and other.requests[name] > 0:
            worst = max(worst, -(-other.requests[name] // need))
    return worst * copies


def same_report(view: ClusterView, other: ClusterView) -> bool:
    """Whether both are opened alike, with the same charges."""
    same = view.capacity is other.capacity and view.stale == other.stale
    return same and view.usable_permille == other.usable_permille


def others_of(before: Mapping[str, ClusterView], now: Mapping[str, ClusterView]) -> Names:
    """The names under which another object stands now, or may; None when the names are others."""
    if isinstance(now, Views) and (others := now.others_of(before)) is not None:
        return others
    if [*before] == [*now]:
        return list(itertools.compress(before, map(operator.is_not, before.values(), now.values())))
    if before.keys() != now.keys():
        return None
    return [name for name, view in now.items() if before[name] is not view]


def judged_alike(
    before: Mapping[str, ClusterView], now: Mapping[str, ClusterView], others: Names
) -> bool:
    """Whether filters judge all clusters as before, of which these `others` differ."""
    if isinstance(now, Views) and now.judged_as(before):
        return True
    return others is not None and all(before[name].judged_as(now[name]) for name in others)
