"""What a member process remembers of the numbers that it has obeyed, in its next life too."""

import asyncio
from typing import Any

import pytest

from federator.api import clustercapacity
from federator.member.cache import highest
from federator.member.cache.highest import Highest
from federator.model import seq as seqs
from tests.unit.member.memberworld import MemberWorld, block, in_member, service, template

KIND = "ClusterCapacity"


def loaded(**status: Any) -> Highest:
    found = Highest()
    found.load(status)
    return found


@pytest.mark.parametrize(
    ("uid", "seq", "obeyed", "newer"),
    [
        ("known", 7, False, 0),
        ("known", 9, False, 0),
        ("known", 6, False, 7),
        ("known", 6, True, 7),
        ("unknown", 5, False, 0),
        ("unknown", 4, False, 4),
        ("unknown", 1, False, 4),
        ("unknown", 1, True, 0),
    ],
)
def test_what_is_older_than_what_was_obeyed_is_stale(
    uid: str, seq: int, obeyed: bool, newer: int
) -> None:
    known = loaded(highest={"known": 7}, forgottenSeq=4)
    assert known.newer(uid, seq, obeyed=obeyed) == newer
    known.hear(uid, seq, obeyed=obeyed)
    assert known.newer("known", 6, obeyed=False) >= 7
    assert known.newer(uid, seq, obeyed=False) == newer


def test_what_was_heard_before_it_is_known_what_earlier_lives_obeyed_counts_after() -> None:
    known = Highest()
    for uid, seq in (("a", 3), ("b", 9), ("c", 2)):
        known.hear(uid, seq, obeyed=False)
    known.load({"highest": {"a": 5, "b": 8}, "forgottenSeq": 4})
    assert [known.newer(uid, seq, obeyed=False) for uid, seq in (("a", 3), ("b", 8), ("c", 2))] == [
        5,
        9,
        4,
    ]
    known.load({"highest": {"a": 50}})
    assert known.newer("a", 5, obeyed=False) == 0


def test_a_life_that_hears_what_is_known_has_nothing_to_write() -> None:
    known = loaded(highest={"a": 5}, forgottenSeq=2)
    known.hear("a", 5, obeyed=False)
    known.hear("seen-before", 1, obeyed=True)
    assert known.version == 0
    assert known.fields() == {"highest": {"a": 5}, "forgottenSeq": 2}
    known.hear("new", 6, obeyed=False)
    assert known.version == 1
    assert known.fields() == {"highest": {"a": 5, "new": 6, "seen-before": 1}, "forgottenSeq": 2}
    assert loaded().fields() == {"highest": None, "forgottenSeq": None}


def test_what_does_not_fit_is_forgotten_only_with_its_number() -> None:
    known = loaded()
    for number in range(clustercapacity.MAX_HIGHEST + 10):
        known.hear(f"uid-{number}", number + 1, obeyed=False)
    fields = known.fields()
    assert len(fields["highest"]) == clustercapacity.MAX_HIGHEST
    assert fields["forgottenSeq"] == 10
    next_life = loaded(**fields)
    assert (
        next_life.newer("uid-3", 4, obeyed=False) == 10
    )  # removed since, or not: its number says nothing
    assert next_life.newer("uid-3", 4, obeyed=True) == 0
    assert next_life.newer("uid-3", 11, obeyed=False) == 0
    assert next_life.newer("uid-11", 11, obeyed=False) == 12
    assert next_life.top == clustercapacity.MAX_HIGHEST + 10


def test_memory_is_bounded_and_the_last_number_of_all_is_still_obeyed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(highest, "REMEMBERED", 100)
    known = loaded()
    known.hear("raised", seqs.MAX, obeyed=False)
    for number in range(300):
        known.hear(f"uid-{number}", number + 1, obeyed=False)
    assert known.newer("raised", seqs.MAX - 1, obeyed=False) == seqs.MAX
    assert known.newer("other", seqs.MAX, obeyed=False) == 0


def test_a_status_that_somebody_has_written_is_read_within_its_bounds() -> None:
    wild = {"a": 2**70, "b": -1, "c": "7", "d": True, **{f"x{number}": 1 for number in range(600)}}
    known, forgotten = clustercapacity.highest({"highest": wild, "forgottenSeq": "many"})
    assert len(known) == clustercapacity.MAX_HIGHEST
    assert (known["a"], known["b"], known["c"], forgotten) == (seqs.MAX, 0, 0, 0)
    assert clustercapacity.highest({"highest": ["a"]}) == ({}, 0)


@in_member()
async def test_a_late_slice_is_refused_by_the_next_life_too(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", healthy=True)
    await world.patch("PinterestService", "web", {"spec": {"slice": {"seq": 7}}})
    await world.until_status(KIND, "cluster", includesSeq=7)
    assert (await world.get(KIND, "cluster"))["status"]["highest"] == {"host-uid-1": 7}
    await world.stop_member()
    await world.delete("PinterestService", "web")
    await world.create(service(slice=block(seq=6)))  # it was on its way for long
    world.start_member()
    found = await world.until_condition("PinterestService", "web", "Expanded", "False")
    assert found["reason"] == "StaleSlice"
    assert await world.names("Deployment") == []
    assert (await world.get(KIND, "cluster"))["status"]["includesSeq"] == 7

    await world.patch("PinterestService", "web", {"spec": {"slice": {"seq": 8}}})
    await world.until_status("PinterestService", "web", healthy=True, within_s=30)


@in_member()
async def test_a_next_life_writes_nothing_that_is_known_and_what_it_hears_once(
    world: MemberWorld,
) -> None:
    for number in range(30):
        made = service(
            f"web-{number}",
            1,
            template=template("10m"),
            slice=block(seq=number + 5, workloadUID=f"uid-{number}"),
        )
        await world.create(made)
    await world.until_status("PinterestService", "web-29", healthy=True)
    await asyncio.sleep(90)
    reports = [entry for entry in world.log if "clustercapacities" in entry]
    assert len(reports) < 12
    assert len((await world.get(KIND, "cluster"))["status"]["highest"]) == 30
    before = len(world.log)
    await world.restart_member()
    await asyncio.sleep(90)
    assert world.log[before:] == []
    await world.delete("PinterestService", "web-3")
    await asyncio.sleep(90)
    assert (await world.get(KIND, "cluster"))["status"]["highest"]["uid-3"] == 8
