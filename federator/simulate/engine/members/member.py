"""One member cluster: its nodes, the copies bound to them, and what it reports of its room.

The member's scheduler is modelled as the placement core models it (`placement.room.binding`), but
on single nodes, and copies leave the nodes that they were bound to. So room is broken up as it is
in a cluster, and the report shows it.
"""

import bisect
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from federator.model.ask import PodShape
from federator.model.fleet import Capacity, ClusterView, NodeRow
from federator.model.kubernetes import taints
from federator.model.quickly import quickly
from federator.model.resources import PODS, UNLIMITED, ZERO, Resources
from federator.model.rules import namespaces
from federator.model.rules.namespaces import QuotaLeft
from federator.placement.room import binding, nodes
from federator.placement.room.nodes import Columned
from federator.simulate.engine.members.summary import KEPT, Row, Summary
from federator.simulate.engine.shapes import Shapes, models_of

Ints = NDArray[np.int64]
Bound = tuple[tuple[int, int], ...]
"""(node, copies on it) of copies that are bound; of a gang (its number, 1)."""
_NONE: Final[Bound] = ()
_ENDLESS: Final = 1 << 31
"""Copies of a node that need nothing of it."""


_seen: Callable[..., ClusterView] = quickly(ClusterView)
_capacity = quickly(Capacity)


def _facts(view: ClusterView) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Everything of the cluster before and after its capacity, in the order of its fields."""
    names = [field.name for field in fields(view)]
    values, at = [getattr(view, name) for name in names], names.index("capacity")
    return tuple(values[:at]), tuple(values[at + 1 :])


def _nobody_listens() -> None:
    pass


class Member:
    """Nodes by number, kept by row: nodes of one make with the same free amounts."""

    _coming: Sequence[int] = ()
    """Makes of which nodes may come."""

    def __init__(
        self, view: ClusterView, shapes: Shapes, changed: Callable[[], None] = _nobody_listens
    ) -> None:
        """`changed` is called when its report is not what it was."""
        self._view, self._facts = view, _facts(view)
        self._tell = changed
        rows = view.capacity.rows if view.capacity is not None else ()
        self._packs = view.capacity.packs if view.capacity is not None else False
        self._quotas = dict(view.capacity.quotas) if view.capacity is not None else {}
        """What ResourceQuotas leave before the simulation places anything, by namespace."""
        self._counted: dict[str, Resources] = {}
        """What copies count for in these."""
        self._lay_out(rows)
        self._takes: dict[int, _Take] = {}
        """By the identity of the shape: hashing one costs more than all that is looked up."""
        self._group()
        self._reported: ClusterView | None = None
        self.moves = 0
        """How often copies were bound or unbound."""
        self.resized = 0
        """How often nodes came or went."""
        self._rooms: dict[int, tuple[int, int]] = {}
        """Identity of a shape -> (moves, copies that it had room for then)."""
        self._gangs: dict[int, Sequence[tuple[PodShape, Bound]]] = {}
        """Number of a gang -> where its pods are."""
        self._last_gang = 0
        self._copies = _Copies(self, shapes)
        self._tell()

    def _lay_out(self, rows: Sequence[NodeRow]) -> None:
        """Columns of all nodes, by make."""
        self._makes = [replace(row, count=1, free=row.allocatable) for row in rows]
        self._make_of = np.repeat(np.arange(len(rows)), [row.count for row in rows])
        limited = any(PODS in row.allocatable or row.podless for row in rows)
        named = {name for row in rows for name in row.allocatable} | ({PODS} if limited else set())
        self.names = tuple(sorted(named))
        sizes = [[self._size(row, name) for row in rows] for name in self.names]
        self.allocatable: Ints = np.array(sizes, dtype=np.int64).reshape(
            len(self.names), len(rows)
        )[:, self._make_of]
        left = [[self._left(row, name) for row in rows] for name in self.names]
        self._free: Ints = np.array(left, dtype=np.int64).reshape(len(self.names), len(rows))[
            :, self._make_of
        ]
        """[r, n]: of resource `names[r]` on node n; of nodes in `_stale` not as it is now."""
        self.taken: list[int] = (self.allocatable - self._free).sum(axis=1).tolist()
        """By `names`: what copies hold, and what was not free before them."""
        self._stale: set[int] = set()
        self._scored = [self.names.index(name) for name in binding.SCORED if name in self.names]
        one_by = binding.inverse([sizes[place] for place in self._scored])
        self._one_by: list[list[float]] = one_by.reshape(len(self._scored), len(rows)).T.tolist()
        """[make, scored]: 1 / allocatable."""
        self._inverse = binding.inverse(self.allocatable[self._scored].tolist()).reshape(
            len(self._scored), self._free.shape[1]
        )
        self._one_each = np.ones(self._free.shape[1], dtype=np.int64)

    def _group(self) -> None:
        """Equal nodes as rows, in the order in which they are reported."""
        self._at: list[Row] = list(
            zip(self._make_of.tolist(), map(tuple, self._free.T.tolist()), strict=True)
        )
        """Node -> its row."""
        self._rows: dict[Row, list[int]] = {}
        """Row of equal nodes -> the nodes, rising."""
        for node, row in enumerate(self._at):
            self._rows.setdefault(row, []).append(node)
        present = {make for make, _ in self._rows}.union(self._coming)
        self._summary = Summary(self._makes, present, self.names)
        self._order = {row: self._summary.order(row) for row in self._rows}
        """Row -> its place among the rows, as a sort key."""
        self._listed = sorted((order, row) for row, order in self._order.items())
        """The rows in this order."""
        self._nodes_of = [self._rows[row] for _, row in self._listed]
        """The nodes of each of them."""

    @staticmethod
    def _size(row: NodeRow, name: str) -> int:
        if name == PODS and name not in row.allocatable and not row.podless:
            return UNLIMITED
        return row.allocatable[name]

    @staticmethod
    def _left(row: NodeRow, name: str) -> int:
        """What is free before the simulation places anything: what is not stays occupied."""
        if name == PODS and name not in row.allocatable and not row.podless:
            return UNLIMITED
        return row.free[name]

    @property
    def nodes(self) -> int:
        return len(self._at)

    @property
    def free(self) -> Ints:
        """[r, n]: the free amount of resource `names[r]` on node n. Not to be changed."""
        for node in self._stale:
            self._free[:, node] = self._at[node][1]
        self._stale.clear()
        return self._free

    def total(self, name: str) -> int:
        """Allocatable of a resource, over all nodes."""
        return int(self.allocatable[self.names.index(name)].sum()) if name in self.names else 0

    def left(self, name: str) -> int:
        """Free of a resource, over all nodes."""
        if name not in self.names:
            return 0
        at = self.names.index(name)
        if len(self._rows) <= nodes.FEW_ROWS:
            return sum([free[at] * len(there) for (_, free), there in self._rows.items()])
        return int(self.free[at].sum())

    def heights(self, shape: PodShape, free: Ints | None = None) -> Ints:
        """Copies of the shape that every node has room for now, or with these free amounts."""
        free = self.free if free is None else free
        take = self._take(shape)
        need = take.need
        if need is None or not free.shape[1]:
            return np.zeros(free.shape[1], dtype=np.int64)
        used = np.flatnonzero(need)
        if not used.size:
            heights = np.full(free.shape[1], _ENDLESS, dtype=np.int64)
        else:
            heights = (free[used] // need[used, None]).min(axis=0)
        if shape.one_per_node:
            heights = np.minimum(heights, 1)
        admitted = take.admitted
        heights = np.maximum(heights, 0)
        return heights if admitted is None else np.where(admitted, heights, 0)

    def room(self, shape: PodShape) -> int:
        """Copies of the shape that there is room for now. Of a gang as many as its components
        have room for, each for itself.
        """
        counted = self._rooms.get(id(shape))
        if counted is None or counted[0] != self.moves:
            counted = self._rooms[id(shape)] = (self.moves, self._count_now(shape))
        return counted[1]

    def reach(self, shape: PodShape) -> int:
        """As `room`, with the nodes that it can add."""
        return self.room(shape)

    def _count_now(self, shape: PodShape) -> int:
        if shape.parts or len(self._rows) > nodes.FEW_ROWS:
            return self._count(shape, self.free)
        take, fit = self._take(shape), 0
        if take.need is None:
            return 0
        for (make, free), there in self._rows.items():
            if take.makes is None or take.makes[make]:
                fits = [have // need for have, need in zip(free, take.each, strict=True) if need]
                height = min(fits, default=_ENDLESS)
                fit += max(min(height, 1) if shape.one_per_node else height, 0) * len(there)
        return fit

    def _count(self, shape: PodShape, free: Ints) -> int:
        if not shape.parts:
            return int(self.heights(shape, free).sum())
        least = ((part.shape, part.min) for part in shape.parts if part.min > 0)
        return min((int(self.heights(pod, free).sum()) // count for pod, count in least), default=0)

    def could_hold(self, shape: PodShape, copies: int) -> bool:
        """Whether so many copies would fit if the cluster were empty."""
        return self._count(shape, self.allocatable) >= copies

    def take(self, shape: PodShape, copies: int, namespace: str) -> Bound:
        """`bind` for copies of a namespace, which its ResourceQuotas count."""
        bound = self.bind(shape, copies)
        if self._quotas:
            self._count_in(namespace, shape, bound, +1)
        return bound

    def give_back(self, shape: PodShape, bound: Bound, namespace: str) -> None:
        """`unbind` for copies of a namespace."""
        if self._quotas:
            self._count_in(namespace, shape, bound, -1)
        self.unbind(shape, bound)

    def _count_in(self, namespace: str, shape: PodShape, bound: Bound, sign: int) -> None:
        if namespace in self._quotas:
            copies = sign * sum(count for _, count in bound)
            before = self._counted.get(namespace, ZERO)
            self._counted[namespace] = before + shape.requests * copies

    def _left_in(self) -> Mapping[str, tuple[QuotaLeft, ...]]:
        """What the quotas of each namespace leave now."""
        return {
            namespace: tuple(
                namespaces.less(quota, self._counted.get(namespace, ZERO)) for quota in quotas
            )
            for namespace, quotas in self._quotas.items()
        }

    def bind(self, shape: PodShape, copies: int) -> Bound:
        """Binds as many of the copies as there is room for, where the member's scheduler would. In
        place of a node, a gang has a number below 0.
        """
        if shape.parts:
            return tuple((number, 1) for number in self._bind_gangs(shape, copies))
        if copies == 1 and not self._packs:
            return self._bind_one(shape)
        heights = self.heights(shape)
        if copies <= 0 or not heights.any():
            return _NONE
        if self._packs:
            each = self._as_each(binding.packed(self._one_each, heights, copies))
        else:
            each = self._as_each(
                binding.spread(self._one_each, heights, copies, lambda n: self._openness(shape, n))
            )
        nodes = np.flatnonzero(each).tolist()
        bound = tuple(zip(nodes, each[nodes].tolist(), strict=True))
        self._move(shape, bound, -1)
        return bound

    def _bind_gangs(self, shape: PodShape, copies: int) -> Iterator[int]:
        """All pods of a gang, or none of them."""
        for _ in range(copies):
            pods: list[tuple[PodShape, Bound]] = []
            for pod, count in shape.pods:
                pods.append((pod, self.bind(pod, count)))
                if sum(bound for _, bound in pods[-1][1]) < count:
                    self._unbind(pods)
                    return
            self._last_gang -= 1
            self._gangs[self._last_gang] = pods
            yield self._last_gang

    def _bind_one(self, shape: PodShape) -> Bound:
        """As `binding.spread`: to the first node of those with the best score. Equal nodes score
        alike, and mostly as when they were asked for last."""
        take = self._take(shape)
        best, first, scores = -math.inf, -1, take.scores
        for row, nodes_there in self._rows.items():
            score = scores.get(row)
            if score is None:
                score = scores[row] = self._score(take, row)
            if score > best or (score == best and nodes_there[0] < first):
                best, first = score, nodes_there[0]
        if first < 0:
            return _NONE
        if len(scores) > KEPT:
            scores.clear()
        self._move(shape, ((first, 1),), -1)
        return ((first, 1),)

    def _score(self, take: "_Take", row: Row) -> float:
        """Of one more copy on a node of the row, as `binding.openness`; -inf where none fits."""
        make, free = row
        if take.need is None or (take.makes is not None and not take.makes[make]):
            return -math.inf
        if any(have < need for have, need in zip(free, take.each, strict=True)):
            return -math.inf
        parts = zip(self._scored, self._one_by[make], strict=True)
        return sum(((free[at] - take.each[at]) * one_by for at, one_by in parts), 0.0)

    def unbind(self, shape: PodShape, bound: Bound) -> None:
        """The copies are gone from their nodes."""
        if shape.parts:
            for number, _ in bound:
                self._unbind(self._gangs.pop(number))
        else:
            self._move(shape, bound, +1)

    def _unbind(self, pods: Iterable[tuple[PodShape, Bound]]) -> None:
        for pod, bound in pods:
            self._move(pod, bound, +1)

    def report(self, includes_seq: int) -> ClusterView:
        """The cluster as it reports itself now; every decision so far is in it."""
        if self._reported is None:
            every, counts = self._in_order()
            nodes_left = self._summary.nodes(every, counts)
            rows = Columned(nodes_left, functools.partial(self._summary.rows, every, counts))
            capacity = _capacity(rows, self._copies, includes_seq, packs=self._packs)
            if self._view.rules:
                rules, quotas = self._view.rules, self._left_in()
                capacity = replace(capacity, rules=rules, quotas=quotas)
            before, after = self._facts
            self._reported = _seen(*before, capacity, *after)
        return self._reported

    def _in_order(self) -> tuple[list[Row], list[int]]:
        """The rows as `nodes.row_key` sorts them, by the number of their nodes only where makes are
        alike; and that number of each."""
        if self._summary.distinct:
            return [row for _, row in self._listed], list(map(len, self._nodes_of))
        every = sorted(self._rows, key=lambda row: (self._order[row], len(self._rows[row])))
        return every, [len(self._rows[row]) for row in every]

    def change(self, **facts: object) -> None:
        """Other facts of the cluster, such as `cordoned`."""
        self._view = replace(self._view, **facts)  # type: ignore[arg-type]
        self._facts = _facts(self._view)
        self._reported = None
        self._tell()

    def _move(self, shape: PodShape, bound: Bound, sign: int) -> None:
        take = self._take(shape)
        if take.need is None or not bound:
            return
        rows, order, listed = self._rows, self._order, self._listed
        moved = 0
        for node, copies in bound:
            before = self._at[node]
            there = rows[before]
            if len(there) == 1:
                place = bisect.bisect_left(listed, (order.pop(before), before))
                del rows[before], listed[place], self._nodes_of[place]
            else:
                del there[bisect.bisect_left(there, node)]
            times = sign * copies
            moved += times
            free = [left + each * times for left, each in zip(before[1], take.each, strict=True)]
            after = self._at[node] = (before[0], tuple(free))
            self._stale.add(node)
            if after in rows:
                bisect.insort(rows[after], node)
            else:
                order[after] = self._summary.order(after)
                rows[after] = there = [node]
                place = bisect.bisect_left(listed, (order[after], after))
                listed.insert(place, (order[after], after))
                self._nodes_of.insert(place, there)
        self.taken = [
            taken - each * moved for taken, each in zip(self.taken, take.each, strict=True)
        ]
        self.moves += 1
        self._reported = None
        self._tell()

    def _admits(self, make: int, shape: PodShape) -> bool:
        """Whether nodes of the make take pods of the shape, by taints and GPU model."""
        row, models = self._makes[make], models_of(shape)
        tolerated = taints.untolerated(row.taints, shape.tolerations) is None
        return tolerated and (not models or row.model in models)

    def _as_each(self, bound: binding.BoundCopies) -> Ints:
        each = bound.each.copy()
        for row, _, copies in bound.parts:
            each[row] = copies
        return each

    def _openness(self, shape: PodShape, copies: int) -> binding.Floats:
        scored = self._take(shape).scored
        return binding.openness(self.free[self._scored], self._inverse, scored, copies)

    def _take(self, shape: PodShape) -> "_Take":
        take = self._takes.get(id(shape))
        if take is None:
            take = self._takes[id(shape)] = self._taken(shape)
        return take

    def _taken(self, shape: PodShape) -> "_Take":
        requests = shape.requests
        all_named = all(
            name in self.names or name == PODS or not need for name, need in requests.items()
        )
        each = [max(requests[name], 1) if name == PODS else requests[name] for name in self.names]
        scored = [requests[self.names[place]] for place in self._scored]
        admitted = [self._admits(make, shape) for make in range(len(self._makes))]
        all_admitted = all(admitted)
        return _Take(
            shape=shape,
            each=each,
            need=np.array(each, dtype=np.int64) if all_named else None,
            scored=np.array(scored, dtype=np.int64).reshape(len(scored), 1),
            makes=None if all_admitted else admitted,
            admitted=None if all_admitted else np.array(admitted, dtype=np.bool_)[self._make_of],
        )


@dataclass(frozen=True, slots=True)
class _Take:
    """What one copy of a shape takes in a member, by the names of the member."""

    shape: PodShape
    """Kept, so that nothing else has its identity."""
    each: Sequence[int]
    need: Ints | None
    """As `each`; None when no node has one of the resources."""
    scored: Ints
    """What it takes of the resources that are scored, as a column."""
    makes: Sequence[bool] | None
    """The makes that it may use by taints and GPU model; None for all."""
    admitted: NDArray[np.bool_] | None
    """The nodes of these makes; None for all."""
    scores: dict[Row, float] = field(default_factory=dict)
    """Row -> score of one more copy there, as far as it was asked for."""


class _Copies(Mapping[str, int]):
    """Shape id -> copies that fit, of the shapes that only the member can count. They are counted
    when they are asked for, and hold until the next copy is bound.
    """

    def __init__(self, member: Member, shapes: Shapes) -> None:
        self._member = member
        self._shapes = shapes

    def __getitem__(self, key: str) -> int:
        return int(self._member.heights(self._shapes.special[key]).sum())

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes.special)

    def __len__(self) -> int:
        return len(self._shapes.special)

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        return self[key] if key in self._shapes.special else default
