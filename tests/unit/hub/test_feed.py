"""The copy of the hub's memory that the snapshot worker keeps: change by change it becomes what the
hub has."""

import asyncio
import itertools
from collections import deque
from typing import Any

from federator.hub.cache.state import HubState
from federator.hub.records.feed import Change, Feed, Op, Watched
from federator.hub.snapshot import following, frames
from federator.hub.snapshot.world import Heads, World
from federator.placement.room.commitments import Commitments
from tests.unit.hub import world as worlds


class Copy:
    """A world that follows a hub through pickles, as the worker does."""

    def __init__(self, world: worlds.World) -> None:
        self.state: HubState = world.federation.processes["hub"].state
        self.clock = world.federation.clock
        self.world = World()
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
            name: sorted(commitments.uncovered(name, seq), key=repr)
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
    assert world.snapshot.clusters == state.snapshot(copy.clock).clusters
    assert list(world.rules) == list(state.rules)
    assert world.profiles == state.profiles


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
