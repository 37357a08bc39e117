"""The history: what is written down of decisions and conditions, and what is read back whatever
became of the files.
"""

import asyncio
import os
import random
from pathlib import Path

import pytest

from federator.hub.history import entry as entries
from federator.hub.history.entry import HistoryEntry, Kind
from federator.hub.history.journal import Journal
from federator.hub.history.options import HistoryOptions
from federator.hub.history.segments import EntrySelection, Found, Segments
from federator.kube.clock import Clock, RealClock

WEB = "PinterestService/feed/web"
ALWAYS = EntrySelection("", 0.0, 1e12, 1000)


def never() -> bool:
    return False


def told(at: float, key: str = WEB, kind: Kind = Kind.DECISION, **more: object) -> HistoryEntry:
    return HistoryEntry(at=at, kind=kind, key=key, **more)  # type: ignore[arg-type]


def segments(folder: Path, segment_bytes: int = 64 * 1024, count: int = 8) -> Segments:
    return Segments(folder, segment_bytes=segment_bytes, segments=count)


def lines(*found: HistoryEntry) -> list[bytes]:
    return [entries.line(entry) for entry in found]


def times(found: Found) -> list[float]:
    return [entry.at for entry in found.entries]


def test_what_is_written_is_read_back_oldest_first(tmp_path: Path) -> None:
    kept = segments(tmp_path / "made" / "anew")
    first = told(
        1.0, before=None, after={"a": 3}, cause="Placed", evidence="3 of 3", seq=7, inputs_hash="x"
    )
    kept.append(lines(first, told(2.0)))
    kept.append(lines(told(3.0, key="PinterestService/feed/other"), told(4.0)))

    assert kept.read(ALWAYS, never).entries[0] == entries.read(entries.line(first))
    assert times(kept.read(EntrySelection(WEB, 0.0, 10.0, 10), never)) == [1.0, 2.0, 4.0]
    assert times(kept.read(EntrySelection(WEB, 2.0, 3.0, 10), never)) == [2.0]
    newest = kept.read(EntrySelection(WEB, 0.0, 10.0, 2), never)
    assert (times(newest), newest.more, newest.begins) == ([2.0, 4.0], True, 1.0)


def test_entries_of_the_folder_that_are_no_files_are_left_alone(tmp_path: Path) -> None:
    kept = segments(tmp_path, segment_bytes=1000)
    (tmp_path / "history-00000001.jsonl").mkdir()
    for number in range(20):
        kept.append(lines(told(float(number), evidence="x" * 100)))
        if number == 10:
            os.mkfifo(tmp_path / "history-00000005.jsonl")
            (tmp_path / "history-00000009.jsonl").mkdir()

    assert times(kept.read(ALWAYS, never)) == [float(number) for number in range(20)]
    assert kept.last_term() is None
    assert len([path for path in tmp_path.iterdir() if path.is_file()]) > 2


def test_files_are_bounded_and_the_oldest_goes_first(tmp_path: Path) -> None:
    kept = segments(tmp_path, segment_bytes=1000, count=3)
    for number in range(200):
        kept.append(lines(told(float(number), evidence="x" * 100)))

    files = list(tmp_path.iterdir())
    assert len(files) == 3
    assert sum(path.stat().st_size for path in files) < 4000
    found = kept.read(ALWAYS, never)
    assert times(found)[-1] == 199.0
    assert times(found) == [float(number) for number in range(int(times(found)[0]), 200)]
    assert found.begins == times(found)[0]


def test_a_torn_line_and_one_of_a_later_version_cost_nothing_but_themselves(tmp_path: Path) -> None:
    kept = segments(tmp_path)
    kept.append(lines(told(1.0)))
    (file,) = tmp_path.iterdir()
    file.write_bytes(
        file.read_bytes()
        + b'{"v":2,"at":5,"kind":"Decision","key":"x"}\n\xff\xfe\n{"v":1,"at":2.0,"ki'
    )
    kept.append(lines(told(3.0)))

    assert times(kept.read(ALWAYS, never)) == [1.0, 3.0]


def test_files_are_for_their_owner_only_and_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "history-notes.jsonl").write_text("mine")
    segments(tmp_path / "own").append(lines(told(1.0)))
    segments(tmp_path).append(lines(told(1.0)))

    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "own").iterdir()} == {0o600}
    assert (tmp_path / "history-notes.jsonl").read_text() == "mine"


def test_a_gap_is_told_where_other_hubs_led_in_between(tmp_path: Path) -> None:
    async def life(term: int) -> None:
        journal = Journal(HistoryOptions(directory=str(tmp_path)), RealClock())
        await journal.lead(term, f"hub-{term}")
        running = asyncio.ensure_future(journal.run())
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])

    for term in (3, 4, 9):
        asyncio.run(life(term))

    found = segments(tmp_path).read(ALWAYS, never).entries
    assert [
        (entry.kind, entry.before, entry.after) for entry in found if entry.kind is Kind.LEADER
    ] == [
        (Kind.LEADER, None, 3),
        (Kind.LEADER, 3, 4),
        (Kind.LEADER, 4, 9),
    ]
    (gap,) = [entry for entry in found if entry.kind is Kind.GAP]
    assert gap.cause == "other hubs led, or none, for 4 terms"
    assert gap.before == found[1].at


def test_files_that_cannot_be_written_lose_entries_and_say_how_many(tmp_path: Path) -> None:
    blocked = tmp_path / "history"
    blocked.write_text("a file where the folder should be")

    async def life() -> None:
        journal = Journal(HistoryOptions(directory=str(blocked), waiting_max=3), RealClock())
        for number in range(5):
            journal.cluster("a", "Unreachable", f"{number}", lost=True)
        segments_of = journal._segments
        assert segments_of is not None
        assert not await journal._write(segments_of)
        blocked.unlink()
        journal.cluster("a", "Reachable", "again", lost=False)
        assert await journal._write(segments_of)

    asyncio.run(life())
    lost, back = segments(blocked).read(ALWAYS, never).entries
    assert (lost.kind, lost.cause) == (Kind.LOST, "5 entries could not be written")
    assert (back.key, back.before, back.after) == ("MemberCluster/a", "NotReady", "Ready")


def test_without_a_folder_nothing_is_kept() -> None:
    journal = Journal(HistoryOptions(), Clock(0.0))
    journal.cluster("a", "Unreachable", "", lost=True)

    assert not journal.kept
    assert not journal._waiting


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_in_the_files_are_read_without_harm(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    kept = segments(tmp_path)
    kept.append(lines(*(told(float(number), cause="x") for number in range(20))))
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    for _ in range(30):
        content[rng.randrange(len(content))] = rng.randrange(256)
    file.write_bytes(bytes(content))

    assert len(kept.read(ALWAYS, never).entries) <= 60
    kept.last_term()
