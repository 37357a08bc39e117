"""The audit over several files: rotation, crashes, a full disk, and what a check of a folder finds."""

import asyncio
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from federator.cli.main import cli
from federator.gateway import audit, chains
from federator.gateway.audit import Audit
from tests.unit.gateway.disks import Disk

DAY = "2026-12-01T{:02}:00:00.000000Z"


class Written:
    """An audit whose files hold a few lines, and a clock that is turned by hand."""

    def __init__(self, folder: Path, process: str = "one", file_bytes: int = 1200) -> None:
        self.folder = folder
        self.now = DAY.format(0)
        self.audit = Audit(folder, process, lambda: self.now, file_bytes)

    async def write(self, count: int, what: str = "created") -> None:
        for at in range(count):
            await self.audit.write(what, user="ci:job", submission=f"{at:020x}")

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir())


@pytest.fixture
async def written(tmp_path: Path) -> Written:
    """Five files or so of one process, ended in order."""
    made = Written(tmp_path / "audit")
    made.audit.open()
    await made.write(20)
    made.audit.close()
    assert len(made.files) >= 4
    return made


def troubles(folder: Path, *, archived: bool = False) -> list[str]:
    found, unreadable = chains.verify(chains.listed([folder]), archived=archived)
    return [*unreadable, *(each.trouble for each in found if each.trouble)]


async def test_the_chain_goes_on_from_file_to_file(written: Written) -> None:
    (chain,), unreadable = chains.verify(chains.listed([written.folder]))

    assert (chain.trouble, unreadable) == ("", [])
    assert chain.ended
    assert [each.number for each in chain.files] == list(range(1, len(written.files) + 1))
    # 20 entries; each file has a first and a last line of its own.
    assert chain.lines == 20 + 2 * len(chain.files)
    assert all(path.stat().st_size < 1200 + 2 * 400 for path in written.files)
    assert {path.stat().st_mode & 0o777 for path in written.files} == {0o600}


async def test_another_day_begins_another_file(tmp_path: Path) -> None:
    made = Written(tmp_path, file_bytes=audit.FILE_BYTES)
    made.audit.open()
    await made.write(1)
    made.now = DAY.format(23)
    await made.write(1)
    assert len(made.files) == 1
    made.now = "2026-12-02T00:00:00.000000Z"
    await made.write(1)
    made.audit.close()

    assert [path.name[:10] for path in made.files] == ["2026-12-01", "2026-12-02"]
    assert troubles(tmp_path) == []


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def _without(number: int) -> Callable[[list[Path]], object]:
    return lambda files: files[number].unlink()


def _edited(number: int, edit: Callable[[list[bytes]], list[bytes]]) -> Callable[[list[Path]], Any]:
    return lambda files: files[number].write_bytes(b"".join(edit(_lines(files[number]))))


def _swapped(files: list[Path]) -> None:
    first, second = files[1].read_bytes(), files[2].read_bytes()
    files[1].write_bytes(second)
    files[2].write_bytes(first)
    files[1].unlink()


def _copied(files: list[Path]) -> None:
    files[1].with_name(files[1].name.replace("000002", "000099")).write_bytes(files[1].read_bytes())


def _moved_line(files: list[Path]) -> None:
    """The last entry of a file goes to the beginning of the next one."""
    lines = _lines(files[1])
    files[1].write_bytes(b"".join(lines[:-1]))
    files[2].write_bytes(lines[-1] + files[2].read_bytes())


TAMPERED: dict[str, Callable[[list[Path]], object]] = {
    "the first file removed": _without(0),
    "a file in between removed": _without(1),
    "the last file removed": _without(-1),
    "a line of the first file removed": _edited(0, lambda lines: [*lines[:1], *lines[2:]]),
    "the last line of a file removed": _edited(1, lambda lines: lines[:-1]),
    "the end of a file cut": _edited(1, lambda lines: [*lines[:-1], lines[-1][:20]]),
    "the end of the last file cut within a line": _edited(
        -1, lambda lines: [*lines[:-1], lines[-1][:20]]
    ),
    "lines of a file swapped": _edited(0, lambda lines: [lines[0], lines[2], lines[1], lines[3]]),
    "a word changed": _edited(
        2, lambda lines: [lines[0], lines[1].replace(b"ci:job", b"ci:you"), *lines[2:]]
    ),
    "a file emptied": lambda files: files[1].write_bytes(b""),
    "files swapped, and one removed": _swapped,
    "a file copied": _copied,
    "a line moved to the next file": _moved_line,
    "a file of something else": lambda files: files[1].write_bytes(b"{}\n"),
}


@pytest.mark.parametrize("how", TAMPERED)
async def test_a_changed_folder_is_not_whole(written: Written, how: str) -> None:
    TAMPERED[how](written.files)

    assert troubles(written.folder) != []


async def test_a_chain_written_anew_after_a_changed_file_does_not_fit(written: Written) -> None:
    """A forger that computes all digests of one file again, has to change all later ones."""
    path = written.files[1]
    entries = [json.loads(text) for text in path.read_text().splitlines()]
    before, lines = entries[0]["prev"], []
    for entry in entries:
        kept = {name: value for name, value in entry.items() if name not in ("hash", "prev")}
        text, before = audit.line({**kept, "user": "ci:you"}, before)
        lines.append(text)
    path.write_bytes(b"".join(lines))

    assert "does not follow the file before it" in troubles(written.folder)[0]


async def test_names_and_order_of_files_make_no_difference(written: Written) -> None:
    for number, path in enumerate(reversed(written.files)):
        path.rename(path.with_name(f"{number}.jsonl"))

    assert troubles(written.folder) == []


async def test_earlier_files_may_be_in_an_archive(written: Written) -> None:
    first = written.files[0]
    last = json.loads(first.read_text().splitlines()[-1])["hash"]
    first.unlink()
    assert "file 1 is missing" in troubles(written.folder)[0]
    assert troubles(written.folder, archived=True) == []

    result = CliRunner().invoke(cli, ["audit", "verify", "--archived", str(written.folder)])
    assert result.exit_code == 0
    assert f" after {last}; ended; last digest " in result.output


async def test_several_processes_have_chains_of_their_own(tmp_path: Path) -> None:
    all_ = [Written(tmp_path, name) for name in ("one", "two", "three")]
    for each in all_:
        each.audit.open()
    await asyncio.gather(*(each.write(6) for each in all_))
    for each in all_[:2]:
        each.audit.close()

    found, _ = chains.verify(chains.listed([tmp_path]))
    assert {(each.process, each.ended, each.trouble) for each in found} == {
        ("one", True, ""),
        ("two", True, ""),
        ("three", False, ""),
    }
    result = CliRunner().invoke(cli, ["audit", "verify", str(tmp_path)])
    assert result.exit_code == 0
    assert "process three: whole" in result.output
    assert "running, or ended without its last line" in result.output
    all_[2].audit.close()


async def test_the_command_fails_for_each_chain_that_is_not_whole(written: Written) -> None:
    other = Written(written.folder, "two")
    other.audit.open()
    other.audit.close()
    written.files[1].unlink()

    result = CliRunner().invoke(cli, ["audit", "verify", str(written.folder)])
    assert result.exit_code == 1
    assert "process two: whole, 2 lines in 1 file from" in result.output
    assert "file 2 is missing" in result.output
    empty = written.folder / "empty"
    empty.mkdir()
    result = CliRunner().invoke(cli, ["audit", "verify", str(empty)])
    assert result.exit_code == 1
    assert "no files of an audit" in result.output


# -- a disk that is full, or fails ---------------------------------------------


@pytest.mark.parametrize(
    "fails",
    [
        ("write",),
        ("part",),
        ("fdatasync",),
        ("write", "write", "write"),
        ("part", "part", "part"),
        ("fdatasync", "fsync", "write"),
    ],
)
async def test_a_line_that_is_not_on_disk_is_refused_and_the_chain_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: tuple[str, ...]
) -> None:
    disk = Disk(monkeypatch)
    made = Written(tmp_path, file_bytes=audit.FILE_BYTES)
    made.audit.open()
    await made.write(2, "before")
    disk.failing(*fails)
    for at in range(len(fails)):
        with pytest.raises(OSError, match=r"space|of a line"):
            await made.write(1, f"refused-{at}")
    await made.write(2, "after")
    made.audit.close()

    assert troubles(tmp_path) == []
    what = [json.loads(line)["what"] for path in made.files for line in _lines(path)]
    assert what == ["start", "before", "before", "start", "after", "after", "stop"]


@pytest.mark.parametrize("fails", [("fsync",), ("write",), ("part",), ("fdatasync",)])
@pytest.mark.parametrize("at", [0, 1])
async def test_a_disk_that_fails_between_two_files_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: tuple[str, ...], at: int
) -> None:
    disk = Disk(monkeypatch)
    made = Written(tmp_path, file_bytes=audit.FILE_BYTES)
    made.audit.open()
    await made.write(1, "before")
    made.now = "2026-12-02T00:00:00.000000Z"
    if at and fails != ("fsync",):
        # The line of the old file is written, and that of the new one is not.
        real = made.audit._begin

        def begin(created: tuple[Path, int]) -> None:
            disk.failing(*fails)
            monkeypatch.setattr(made.audit, "_begin", real)
            real(created)

        monkeypatch.setattr(made.audit, "_begin", begin)
    else:
        disk.failing(*fails)
    with pytest.raises(OSError, match=r"space|of a line"):
        await made.write(1, "refused")
    await made.write(1, "after")
    made.audit.close()

    assert troubles(tmp_path) == []
    assert [path.stat().st_size for path in made.files if not path.stat().st_size] == []
    what = [json.loads(line)["what"] for path in made.files for line in _lines(path)]
    assert "refused" not in what
    assert what[-2:] == ["after", "stop"]


async def test_a_caller_that_goes_away_breaks_no_chain(tmp_path: Path) -> None:
    made = Written(tmp_path)
    made.audit.open()

    async def gone(at: int) -> None:
        task = asyncio.create_task(made.audit.write("created", number=at))
        await asyncio.sleep(0)
        task.cancel()

    for at in range(30):
        await gone(at)
        await made.audit.write("kept", number=at)
    made.audit.close()

    assert troubles(tmp_path) == []
    what = [json.loads(line)["what"] for path in made.files for line in _lines(path)]
    assert what.count("kept") == 30
    with pytest.raises(OSError, match="closed"):
        await made.audit.write("late")


async def test_a_crash_at_any_byte_leaves_a_chain_that_is_whole_or_cut_at_its_end(
    tmp_path: Path,
) -> None:
    made = Written(tmp_path / "whole", file_bytes=600)
    made.audit.open()
    await made.write(2)
    made.audit.close()
    *kept, last = made.files
    content = last.read_bytes()
    for size in range(0, len(content), 7):
        folder = tmp_path / str(size)
        folder.mkdir()
        for path in kept:
            (folder / path.name).write_bytes(path.read_bytes())
        (folder / last.name).write_bytes(content[:size])
        found = troubles(folder)
        whole = size == 0 or content[:size].endswith(b"\n")
        assert whole or "is cut, as if the process had ended while it wrote it" in found[0]
        assert not whole or found == []


async def test_a_file_that_cannot_be_closed_is_followed_by_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Written(tmp_path, file_bytes=audit.FILE_BYTES)
    made.audit.open()
    await made.write(1)
    real, first = os.close, made.audit._file
    failed: list[int] = []

    def close(number: int) -> None:
        real(number)
        if number == first and not failed:
            failed.append(number)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "close", close)
    made.now = "2026-12-02T00:00:00.000000Z"
    await made.write(2)
    made.audit.close()

    assert failed == [first]
    assert len(made.files) == 2
    assert troubles(tmp_path) == []
