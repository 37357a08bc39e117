"""Slices that are gone before any report of their member counts their pods, which end after them:
their room is given to nobody else until a report was made when their end had been seen, and no
longer than that.
"""

import asyncio
import random
from typing import Any

import pytest

from federator.hub.cache.arriving import TOLD_WITHIN_S, Arriving
from federator.hub.members import capacity_report
from federator.hub.members.link import Link
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability, ReachabilityState
from federator.hub.records.slice_rows import slice_store
from federator.kube.clock import Clock
from federator.kube.control.lanes import Lane
from federator.model.fleet import Holding
from federator.model.names import ClusterName
from federator.placement.room.commitments import Commitments
from tests.faults import boxes
from tests.unit.hub.world import World, between, play, service, small_fleet
from tests.unit.placement.fleets import POD, commitment
from tests.unit.placement.fleets import service as asked

PSVC = "PinterestService"
LARGE = "7500m"
"""One copy fills a node."""
NODES = 4
LATE_S = 12.0


def slow_to_stop(replicas: int) -> dict[str, Any]:
    spec = service(replicas, LARGE)
    spec["template"]["metadata"] = {"annotations": {"embedded.federator/stop-seconds": "8"}}
    return spec


def pods(world: World) -> int:
    """Pods of the cluster that hold a node."""
    member = world.federation.members["a"]
    every = member.store.items(member.registry.get("", "pods"))
    return sum("nodeName" in pod.obj["spec"] for pod in every)


@pytest.mark.parametrize("deleted", [True, False])
def test_room_of_pods_that_no_report_has_counted_is_given_away_once_they_have_ended(
    deleted: bool,
) -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        report = between("member-a", "a", "clustercapacities/cluster/status")
        world.put(boxes.holding_up(report, lambda sending: asyncio.sleep(LATE_S)))
        await world.create(PSVC, "feed", "early", slow_to_stop(NODES))
        await asyncio.sleep(1)
        assert pods(world) == NODES
        if deleted:
            await world.delete(PSVC, "feed", "early")
        else:
            await world.patch(PSVC, "feed", "early", {"spec": {"replicas": 0}})
        await asyncio.sleep(1)
        stands = await world.get(PSVC, "feed", "early", at="a") is not None
        assert stands, "a slice goes with its pods"
        await world.create(PSVC, "feed", "later", service(NODES, LARGE))
        while pods(world):
            assert await world.shares("feed", "later") == {}
            await asyncio.sleep(0.5)
        await asyncio.sleep(3 * LATE_S)
        assert await world.shares("feed", "later") == {"a": NODES}

    play(scenario, fleet=small_fleet(1, NODES))


def test_room_of_what_its_member_process_never_saw_is_given_away_after_a_while() -> None:
    """It has nothing to tell, so no report ends what is charged."""

    async def scenario(world: World) -> None:
        await asyncio.sleep(60)
        before = await world.get("ClusterCapacity", "", "cluster", at="a")
        await world.federation.kill("member a")
        await world.create(PSVC, "feed", "early", service(NODES, LARGE))
        await asyncio.sleep(1)
        assert await world.get(PSVC, "feed", "early", at="a") is not None
        await world.delete(PSVC, "feed", "early")
        await asyncio.sleep(1)
        assert await world.get(PSVC, "feed", "early", at="a") is None
        world.federation.start_member("a")
        await world.create(PSVC, "feed", "later", service(NODES, LARGE))
        await asyncio.sleep(TOLD_WITHIN_S - 10)
        assert await world.shares("feed", "later") == {}
        now = await world.get("ClusterCapacity", "", "cluster", at="a")
        assert before is not None
        assert now is not None
        assert now["status"] == before["status"]
        await asyncio.sleep(25)
        assert await world.shares("feed", "later") == {"a": NODES}

    play(scenario, fleet=small_fleet(1, NODES))


class Room:
    """The room of one member, as its commitments have it, while slices of web come and go."""

    def __init__(self) -> None:
        self.commitments = Commitments()
        self.arriving = Arriving(self.commitments)
        clock = Clock(0.0)
        self.member = Member(
            name=ClusterName("a"),
            obj={"metadata": {"name": "a"}},
            on_slice=lambda member, key: None,
            on_count=lambda member: None,
            on_capacity=lambda member: None,
            on_rewind=lambda member: None,
            on_other=lambda member: None,
            lane=Lane("a", clock=clock, rng=random.Random(1)),
            now_s=clock.now,
            fleet="federator",
            host_uid="h",
            link=Link(reachability=ReachabilityState(Reachability.LIVE)),
        )
        self.member.contents.stores[PSVC] = slice_store("a/services")
        self.member.process.report(0.0)
        self.seq = 0

    def report(self, seen: str | None, *, includes_seq: int | None = None) -> None:
        """A report of a member process that had seen services up to this version; with None of one
        that does not tell."""
        status: dict[str, Any] = {
            "includesSeq": self.seq if includes_seq is None else includes_seq,
            "sliceVersions": {} if seen is None else {PSVC: seen},
        }
        told = {"metadata": {"name": "cluster"}, "status": status}
        self.member.contents.report = capacity_report.of(told, "federator")
        self.arriving.reported(self.member)

    def live(self, copies: int) -> None:
        """A slice for so many copies is there, decided after what reports include."""
        self.seq += 1
        web = asked(copies)
        self.commitments.assume(commitment(web, [Holding("a", copies, copies, self.seq)]))

    def end(self, version: str, *, at_s: float = 0.0, deleted: bool = False) -> None:
        """It is decided to leave, and gone by this version."""
        self.seq += 1
        if not deleted:
            self.commitments.record(commitment(asked(0), []))
        self.member.contents.stores[PSVC].resource_version = version
        self.arriving.gone(self.member, PSVC, "uid-web", at_s)
        if deleted:
            self.commitments.forget("uid-web")
        else:
            self.commitments.release("a", "uid-web")

    @property
    def charged(self) -> int:
        """Copies that are charged beside the last report."""
        assert self.member.contents.report is not None
        includes_seq = self.member.contents.report.capacity.includes_seq
        return sum(n for _, n in self.commitments.uncovered("a", includes_seq))


@pytest.fixture
def room() -> Room:
    made = Room()
    made.report("10")
    return made


@pytest.mark.parametrize("deleted", [True, False])
def test_what_is_gone_unreported_is_charged_until_its_end_is_included(
    room: Room, deleted: bool
) -> None:
    room.live(4)
    room.end("12", deleted=deleted)
    assert room.charged == 4
    room.report("11")
    assert room.charged == 4, "it includes later decisions, and not this slice"
    room.report("12", includes_seq=0)
    assert room.charged == 0, "its member process may never have seen the slice"


def test_what_was_reported_is_not_charged_once_it_is_gone(room: Room) -> None:
    room.live(4)
    room.commitments.confirm("a", "uid-web", room.seq)
    room.report("11")
    room.end("12")
    assert room.charged == 0


def test_what_is_heard_of_late_is_not_charged(room: Room) -> None:
    room.live(4)
    room.report("12", includes_seq=0)
    assert room.charged == 4
    room.end("12")
    assert room.charged == 0


def test_a_slice_that_comes_again_is_charged_beside_what_ends(room: Room) -> None:
    room.live(4)
    room.end("12")
    room.live(3)
    assert room.charged == 7
    room.end("14")
    assert room.charged == 7
    room.live(1)
    room.report("13", includes_seq=0)
    assert room.charged == 8
    room.report("14", includes_seq=0)
    assert room.charged == 1


@pytest.mark.parametrize("versions", [(None, None), ("x", "y")])
def test_a_member_that_does_not_say_what_it_has_seen_includes_it_with_its_next_report(
    room: Room, versions: tuple[str | None, str | None]
) -> None:
    """Its process is of an earlier release, or its versions are no numbers."""
    room.report(versions[0])
    room.live(4)
    room.end(versions[1] or "12")
    assert room.charged == 4
    room.report(versions[0], includes_seq=0)
    assert room.charged == 0


def test_silence_of_a_process_that_speaks_ends_what_is_charged(room: Room) -> None:
    room.live(4)
    room.end("12", at_s=100.0)
    assert not room.arriving.heard(room.member, 100.0 + TOLD_WITHIN_S)
    assert room.charged == 4
    room.member.process.silent_since = "2026-09-21T14:13:20Z"
    assert not room.arriving.heard(room.member, 101.0 + TOLD_WITHIN_S)
    assert room.charged == 4, "its process may have begun with it"
    room.member.process.silent_since = ""
    assert room.arriving.heard(room.member, 101.0 + TOLD_WITHIN_S)
    assert room.charged == 0
    assert not room.arriving.heard(room.member, 102.0 + TOLD_WITHIN_S)


def test_nothing_is_charged_in_a_member_that_left_or_is_met_anew(room: Room) -> None:
    room.live(4)
    room.end("12")
    room.arriving.forget(room.member)
    assert room.charged == 0


def test_a_copy_of_the_commitments_charges_it_too(room: Room) -> None:
    room.live(4)
    room.end("12")
    copied, now = room.commitments.copy(), room.commitments.as_now("uid-other", {"a": 0})
    room.report("12", includes_seq=0)
    assert room.charged == 0
    assert [made.uncovered("a", 0) for made in (copied, now)] == [[(POD, 4)]] * 2
