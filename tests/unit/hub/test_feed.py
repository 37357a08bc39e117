"""The copy of the hub's memory that the snapshot worker keeps: change by change it becomes what the
hub has."""

import asyncio
import itertools
import random
from collections import deque
from dataclasses import replace
from typing import Any

import pytest

from federator.hub.cache.state import HubState
from federator.hub.records.feed import Change, Feed, Noted, Op, Watched
from federator.hub.snapshot import following, frames
from federator.hub.snapshot.world import Heads, StateCopy
from federator.model.fleet import Holding
from federator.placement.room.commitments import Commitments
from tests.unit.hub import world as worlds
from tests.unit.placement.fleets import commitment, service
from tests.unit.placement.test_columns import SHAPES
from tests.unit.placement.test_kept_world import (
    NAMES,
    STEPS,
    Changing,
    columns_of,
    from_nothing,
    view,
)


class Copy:
    """A world that follows a hub through pickles, as the worker does."""

    def __init__(self, world: worlds.World) -> None:
        self.state: HubState = world.federation.processes["hub"].state
        self.clock = world.federation.clock
        self.world = StateCopy()
        self.heads = Heads()
        self.changes: deque[Change] = self.state.feed.follow()
        self.there = following.present(self.state)

    def catch_up(self) -> None:
        """Makes what has changed."""
        changes = [*self.there, *self.changes]
        self.changes.clear()
        for change in changes:
            self.world.apply(frames.loads(frames.dumps(change)))
        head = self.heads.next(self.state, self.clock)
        self.world.take(frames.loads(frames.dumps(head)))


def held(commitments: Commitments, state: HubState) -> dict[str, Any]:
    """What decisions read of commitments."""
    counted = {
        name: member.contents.report.capacity.includes_seq
        for name, member in state.members.items()
        if member.contents.report is not None
    }
    return {
        "commitments": {each.uid: each for each in commitments},
        "usage": commitments.usage_by_project(),
        "audit": dict(commitments.audit()),
        "room": {
            name: sorted(commitments.copy().uncovered(name, seq), key=repr)
            for name, seq in counted.items()
        },
        "beyond": commitments.terminating,
    }


def assert_same(copy: Copy) -> None:
    copy.catch_up()
    state, world = copy.state, copy.world
    assert world.workloads == state.workloads
    assert world.by_name == state.records
    assert held(world.commitments, state) == held(state.commitments, state)
    assert world.snapshot == replace(state.snapshot(copy.clock), as_of=world.snapshot.as_of)
    assert list(world.rules) == list(state.rules)
    assert world.profiles == state.profiles


def test_a_question_tells_only_of_clusters_that_have_changed() -> None:
    async def scenario(world: worlds.World) -> None:
        await world.settle()
        copy = Copy(world)
        assert_same(copy)
        first, again = (copy.state.snapshot(copy.clock).clusters for _ in range(2))
        assert all(first[name] is again[name] for name in "abc")
        head = copy.heads.next(copy.state, copy.clock)
        assert (head.clusters, dict(head.views), dict(head.capacities)) == (None, {}, {})

        await world.patch("MemberCluster", "", "b", {"spec": {"cordoned": True}})
        await asyncio.sleep(1)
        head = copy.heads.next(copy.state, copy.clock)
        assert (head.clusters, [*head.views]) == (None, ["b"])
        copy.world.take(head)
        assert_same(copy)

        await world.delete("MemberCluster", "", "b")
        for _ in range(20):
            await asyncio.sleep(3)
            assert_same(copy)
        assert set(copy.world.snapshot.clusters) == {"a", "c"}

    worlds.play(scenario)


def test_the_copy_follows_every_change() -> None:
    async def scenario(world: worlds.World) -> None:
        await world.create("PinterestService", "feed", "before", worlds.service(5, "500m"))
        await world.settle()
        copy = Copy(world)
        assert_same(copy)

        for number in range(6):
            spec = worlds.service(2 + number, "250m")
            await world.create("PinterestService", "feed", f"w{number}", spec)
            await asyncio.sleep(0.2)
            assert_same(copy)
        await world.settle()
        quota = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "60"}}}}
        await world.create("FederatedQuota", "", "feed", quota)
        policy = {"clusters": {"names": ["a", "b"]}}
        await world.create("PlacementPolicy", "feed", "two", policy)
        for _ in range(20):
            await asyncio.sleep(1)
            assert_same(copy)
        await world.delete("PinterestService", "feed", "w3")
        await world.delete("PlacementPolicy", "feed", "two")
        for _ in range(20):
            await asyncio.sleep(3)
            assert_same(copy)
        assert not any(key.name == "w3" for key in copy.world.workloads)

    worlds.play(scenario)


def test_a_copy_that_begins_while_copies_are_on_their_way_is_the_same() -> None:
    async def scenario(world: worlds.World) -> None:
        for number in range(8):
            await world.create("PinterestService", "feed", f"w{number}", worlds.service(3, "250m"))
        for wait in itertools.repeat(0.05, 60):
            await asyncio.sleep(wait)
            assert_same(Copy(world))

    worlds.play(scenario)


def filled(book: dict[str, Any]) -> dict[str, Any]:
    return {cluster: what for cluster, what in book.items() if what}


class Replayed:
    """Commitments to which anything happens, and their copy, which hears of it."""

    def __init__(self, seed: int) -> None:
        feed, self.copy = Feed(), StateCopy()
        self.changing = Changing(random.Random(seed))
        self.changing.commitments = Noted(feed)
        self.changes = feed.follow()

    def assert_same_columns(self, *, in_place: bool = False) -> None:
        """Read on copies: a read changes what it reads. With `in_place` the copy is read before,
        as verdicts read it in the worker."""
        for change in self.changes:
            self.copy.apply(frames.loads(frames.dumps(change)))
        self.changes.clear()
        snapshot = self.changing.snapshot()
        if in_place:
            read = columns_of(self.copy.commitments.open(snapshot).world)
            assert read == columns_of(from_nothing(self.changing.commitments, snapshot))
            ours, theirs = self.copy.commitments._charged, self.changing.commitments._charged
            for book in ("_trails", "_leaving", "_summed"):
                assert filled(getattr(ours, book)) == filled(getattr(theirs, book)), book
        of_copy = columns_of(from_nothing(self.copy.commitments, snapshot))
        assert of_copy == columns_of(from_nothing(self.changing.commitments, snapshot))


@pytest.mark.parametrize("seed", range(12))
def test_the_room_of_the_copy_is_that_of_the_hub_whenever_the_hub_reads(seed: int) -> None:
    replayed = Replayed(seed)
    steps = [step for step in STEPS if step is not Changing.copy]  # a copy is followed by no other
    for _ in range(60):
        replayed.changing.rng.choice(steps)(replayed.changing)
        replayed.assert_same_columns()


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_that_is_read_between_changes_stays_that_of_the_hub(seed: int) -> None:
    replayed = Replayed(seed)
    steps = [step for step in STEPS if step is not Changing.copy]
    for _ in range(60):
        replayed.changing.rng.choice(steps)(replayed.changing)
        replayed.assert_same_columns(in_place=True)


def test_what_the_hub_charges_in_sums_the_copy_does_too() -> None:
    replayed = Replayed(1)
    changing, rng = replayed.changing, replayed.changing.rng
    changing.views = {name: view(rng, name, 3) for name in NAMES}
    for number in range(200):
        changing.seq += 1
        held = [Holding(name, 1, 1, changing.seq) for name in NAMES]
        made = commitment(service(1, name=f"w{number}"), held)
        made = replace(made, uid=made.key.name, shape=rng.choice(SHAPES))
        changing.commitments.assume(made)
        if number == 100:  # new reports, with more charges beyond them than are made singly
            for name in NAMES:
                changing.commitments.reported(name, 3)
        if number in (0, 100, 150):
            assert changing.opened().world is not None
    replayed.assert_same_columns()
    assert replayed.copy.commitments._charged._summed == changing.commitments._charged._summed != {}


def test_what_the_hub_releases_as_it_reads_the_copy_does_too() -> None:
    replayed = Replayed(2)
    changing = replayed.changing
    changing.views = {name: view(changing.rng, name, 0) for name in NAMES}
    there = commitment(service(1, name="web"), [Holding("a", 4, 4, 1)])
    changing.commitments.assume(there)
    changing.commitments.assume(replace(there, holdings=()))  # it leaves
    changing.views = {name: view(changing.rng, name, 9) for name in NAMES}
    assert changing.opened().world is not None
    replayed.assert_same_columns()
    assert (
        replayed.copy.commitments._charged._leaving == changing.commitments._charged._leaving == {}
    )
    changing.commitments.assume(replace(there, holdings=(Holding("a", 2, 2, 10),)))
    replayed.assert_same_columns()


def test_a_report_alone_releases_nothing_in_the_copy() -> None:
    """The hub releases what has left when it reads: a workload that comes back before is charged
    above what the report counts of it."""
    replayed = Replayed(3)
    changing = replayed.changing
    changing.views = {name: replace(view(changing.rng, name, 5), stale=False) for name in NAMES}
    there = commitment(service(1, name="web"), [Holding("a", 4, 4, 1)])
    changing.commitments.assume(there)
    changing.commitments.assume(replace(there, holdings=()))
    changing.commitments.confirm("a", there.uid, 1)
    changing.commitments.reported("a", 5)
    replayed.assert_same_columns(in_place=True)
    changing.commitments.assume(replace(there, holdings=(Holding("a", 6, 6, 10),)))
    replayed.assert_same_columns()


def test_nothing_is_kept_while_nobody_follows() -> None:
    async def scenario(world: worlds.World) -> None:
        copy = Copy(world)
        copy.state.feed.end()
        await world.create("PinterestService", "feed", "web", worlds.service(3, "250m"))
        await world.settle()
        assert not copy.changes

    worlds.play(scenario)


def test_a_feed_hears_of_every_key_of_a_cleared_table() -> None:
    feed = Feed()
    table: Watched[str, int] = Watched(feed, Op.WORKLOAD)
    table["a"], table["b"] = 1, 2
    changes = feed.follow()

    table.clear()

    assert not table
    assert list(changes) == [(Op.WORKLOAD, "a", None), (Op.WORKLOAD, "b", None)]
