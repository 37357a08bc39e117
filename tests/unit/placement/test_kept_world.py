"""The world that is kept, after any sequence of changes, against one that is opened from nothing."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from federator.model.ask import Component, PodShape
from federator.model.fleet import (
    Capacity,
    ClusterView,
    Commitment,
    FleetSnapshot,
    Holding,
    NodeRow,
)
from federator.model.kubernetes.taints import Taint
from federator.model.resources import Resources
from federator.placement.room import charged, kept
from federator.placement.room.commitments import Commitments
from federator.placement.room.kept import KeptWorld
from federator.placement.room.ledger import Ledger
from federator.placement.room.world import World
from tests.unit.placement.fleets import commitment, service
from tests.unit.placement.plainledger import PlainLedger
from tests.unit.placement.test_columns import SHAPES, agree

NAMES = ("a", "b", "c", "d")
UIDS = ("u0", "u1", "u2", "u3", "u4")
GANG = PodShape.together((Component("x", SHAPES[0], 2, 2), Component("y", SHAPES[1], 1, 1)))


def columns_of(world: World) -> dict[str, Any]:
    """Everything that decisions read of a world, by cluster; resources by name, for a world that is
    kept may have columns of some that no cluster names any more."""
    columns, found = world.nodes, {}
    named = [name for name, there in zip(columns.names, columns.named, strict=True) if there.any()]
    for name, at in world.at.items():
        rows, left = int(columns.used[at]), world.headroom(at)
        kinds = columns.kinds[at, :rows].tolist()
        found[name] = {
            "free": {
                resource: columns.free[index, at, :rows].tolist()
                for index, resource in enumerate(columns.names)
                if columns.named[index, at]
            },
            "counts": columns.counts[at, :rows].tolist(),
            "makes": [columns.makes.every[kind] for kind in kinds],
            "inverse": columns.makes.inverse[:, columns.kinds[at, :rows]].tolist(),
            "empty": columns.counts[at, rows:].any(),
            "most": int(columns.most[at]),
            "headroom": None if left is None else [left[resource] for resource in named],
            "capacity": None if (opened := world.opened[at]) is None else opened.base.capacity,
        }
    shapes = (*SHAPES, *(part.shape for part in GANG.parts))
    rooms = {shape.id: world.rooms(shape).tolist() for shape in shapes}
    nodes = {shape.id: world.all_nodes_with_room(shape).tolist() for shape in shapes}
    return {"clusters": found, "rooms": rooms, "nodes": nodes}


def from_nothing(commitments: Commitments, snapshot: FleetSnapshot) -> World:
    copied = commitments.copy()
    copied._kept = KeptWorld()
    return copied.open(snapshot).world


def view(rng: random.Random, name: str, includes_seq: int) -> ClusterView:
    """A cluster as its member may report it."""
    rows = []
    for _ in range(rng.randint(1, 3)):
        amounts = {"cpu": rng.randint(1, 12) * 1000, "memory": 10_000, "pods": 20}
        if rng.random() < 0.2:
            amounts["nvidia.com/gpu"] = 4
        whole = Resources(amounts)
        free = Resources({of: amount * rng.randint(3, 10) // 10 for of, amount in amounts.items()})
        marks = (Taint("gpu", "", "NoSchedule"),) if rng.random() < 0.15 else ()
        rows.append(NodeRow(rng.randint(1, 4), whole, free, taints=marks))
    exact = {SHAPES[0].id: rng.randint(0, 30)} if rng.random() < 0.15 else {}
    capacity = Capacity(tuple(rows), exact, includes_seq, packs=rng.random() < 0.2)
    usable = rng.choice((1000, 1000, 1000, 700))
    return ClusterView(name, usable_permille=usable, capacity=capacity, stale=rng.random() < 0.1)


class Changing:
    """Commitments and clusters to which anything may happen, in any order."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.commitments, self.seq = rng, Commitments(), 3
        self.views = {name: view(rng, name, rng.randint(0, 3)) for name in NAMES}
        self.readers: list[tuple[Ledger, World, dict[str, Any]]] = []

    def uid(self) -> str:
        return self.rng.choice(UIDS)

    def name(self) -> str:
        return self.rng.choice(NAMES)

    def made(self, seq: int) -> Commitment:
        names = sorted(self.rng.sample(NAMES, self.rng.randint(0, 3)))
        counts = [(name, self.rng.randint(0, 6)) for name in names]
        held = [Holding(name, count, count, seq) for name, count in counts]
        made = commitment(service(1, name=self.uid()), held)
        return replace(made, uid=made.key.name, shape=self.rng.choice((*SHAPES, GANG)))

    def assume(self) -> None:
        self.seq += 1
        self.commitments.assume(self.made(self.seq))

    def scale(self) -> None:
        """One share changes; the others keep their numbers."""
        before = self.commitments.commitment(self.uid())
        if before is None or not before.holdings:
            return
        self.seq += 1
        changed, more = self.rng.choice(before.holdings), self.rng.randint(-4, 4)
        held = tuple(
            replace(one, count=max(one.count + more, 0), seq=self.seq) if one is changed else one
            for one in before.holdings
        )
        self.commitments.assume(replace(before, holdings=held))

    def read(self) -> None:
        """A decision that another hub made, or one that was made before."""
        made = self.made(max(self.seq - self.rng.randint(0, 6), 1))
        self.commitments.record(made, undone=self.rng.random() < 0.3)

    def undo(self) -> None:
        """A decision that the host does not take."""
        self.seq += 1
        made = self.made(self.seq)
        before = self.commitments.commitment(made.uid)
        self.commitments.assume(made)
        if before is None:
            self.commitments.forget(made.uid)
        else:
            self.commitments.record(before, undone=True)

    def confirm(self) -> None:
        self.commitments.confirm(self.name(), self.uid(), self.seq - self.rng.randint(0, 4))

    def send(self) -> None:
        before = self.commitments.commitment(self.uid())
        if before is not None:
            for held in before.holdings:
                self.commitments.in_flight(held.cluster, before.uid, held.seq)

    def report(self) -> None:
        name, includes_seq = self.name(), max(self.seq - self.rng.randint(0, 6), 0)
        self.commitments.reported(name, includes_seq)
        if name in self.views:
            self.views[name] = view(self.rng, name, includes_seq)

    def edit(self) -> None:
        name, stale = self.name(), self.rng.random() < 0.3
        if name in self.views:
            usable = self.rng.choice((1000, 1000, 500))
            self.views[name] = replace(
                self.views[name], stale=stale, usable_permille=usable, draining=stale
            )

    def joins_or_leaves(self) -> None:
        name = self.name()
        if self.views.pop(name, None) is None:
            self.views[name] = view(self.rng, name, self.seq - 1)

    def forget(self) -> None:
        self.commitments.forget(self.uid())

    def release(self) -> None:
        name, uid = self.name(), self.uid()
        if self.rng.random() < 0.5:
            self.commitments.departs(name, uid, self.seq - self.rng.randint(0, 4))
        self.commitments.release(name, uid)

    def departed(self) -> None:
        self.commitments.departed(self.name(), sorted({self.uid(), self.uid()}))

    def copy(self) -> None:
        self.commitments = self.commitments.copy()

    def read_on(self) -> None:
        """A ledger that goes on reading what it was opened on."""
        ledger = self.opened()
        self.readers.append((ledger, ledger.world, columns_of(ledger.world)))

    def cycle(self) -> None:
        """What a cycle charges ends with it."""
        ledger = self.opened()
        ledger.charge(self.name(), self.rng.choice((*SHAPES, GANG)), self.rng.randint(1, 5))
        assert ledger.world is not None

    def opened(self) -> Ledger:
        return self.commitments.open(self.snapshot())

    def snapshot(self) -> FleetSnapshot:
        return FleetSnapshot(0.0, dict(self.views), ())

    def check(self) -> None:
        snapshot = self.snapshot()
        ledger = self.commitments.open(snapshot)
        assert ledger.world is not None
        anew, one_by_one = self.commitments.copy(), PlainLedger(self.commitments.copy(), snapshot)
        anew._kept = KeptWorld()
        expected = columns_of(anew.open(snapshot).world)
        assert columns_of(ledger.world) == expected
        agree(ledger, one_by_one, snapshot, SHAPES)
        # what is decided about one of them in another thread reads the same
        counted = {
            name: seen.capacity.includes_seq
            for name, seen in self.views.items()
            if seen.capacity is not None and not seen.stale
        }
        elsewhere = self.commitments.as_now(self.uid(), counted)
        assert columns_of(elsewhere.open(snapshot).world) == expected

    def end(self) -> None:
        self.check()
        for _, world, then in self.readers:
            assert columns_of(world) == then, "it has changed under its reader"


STEPS: tuple[Callable[[Changing], None], ...] = (
    *[Changing.assume] * 5,
    *[Changing.scale] * 2,
    *[Changing.check] * 3,
    *[Changing.read] * 3,
    Changing.undo,
    *[Changing.confirm] * 2,
    Changing.send,
    *[Changing.report] * 2,
    Changing.edit,
    Changing.joins_or_leaves,
    Changing.forget,
    Changing.release,
    Changing.departed,
    Changing.copy,
    Changing.read_on,
    Changing.cycle,
)


@pytest.mark.parametrize("seed", range(60))
def test_a_world_that_is_brought_up_to_date_is_the_one_opened_from_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    few = rng.choice(((1, 3), (2, 6), (64, 4096)))  # charges made singly
    monkeypatch.setattr(kept, "SINGLY", few[0])
    for module in (kept, charged):
        monkeypatch.setattr(module, "SINGLY_MORE", few[1])
    changing = Changing(rng)
    for _ in range(40):
        rng.choice(STEPS)(changing)
    changing.end()
