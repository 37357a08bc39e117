"""Log files as records: rotation, truncation, long lines, binary, and what is not followed."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from federator.runtime.logs import following, part
from federator.runtime.logs.following import FILES_MAX, IDLE_PASSES, Folder
from federator.runtime.logs.records import LINE_MAX, Lines, record


class Printed(list[tuple[str, str, bool]]):
    """What was shown: file, text, partial."""

    def __call__(self, file: str, text: str, partial: bool) -> None:
        self.append((file, text, partial))

    @property
    def texts(self) -> list[str]:
        return [text for _, text, _ in self]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_the_bytes_arrive(size: int) -> None:
    data = "eins\r\nzwei ✓\n\nvier".encode()
    lines, texts = Lines(), list[str]()
    for begin in range(0, len(data), size):
        texts += [text for text, _ in lines.feed(data[begin : begin + size])]
    assert texts == ["eins", "zwei ✓", ""]
    assert list(lines.end()) == [("vier", False)]
    assert list(lines.end()) == []


def test_a_long_line_becomes_several_records_and_no_character_is_cut() -> None:
    line = "✓" * (LINE_MAX // 3 * 2 + 100)
    lines = Lines()
    records = [*lines.feed(line.encode()), *lines.feed(b"\nnext\n")]
    assert "".join(text for text, partial in records[:-1]) == line
    assert [partial for _, partial in records] == [True] * (len(records) - 2) + [False, False]
    assert all(len(text.encode()) <= LINE_MAX for text, _ in records)
    assert records[-1] == ("next", False)


def test_bytes_that_are_no_text_are_escaped() -> None:
    (text, _), *_ = Lines().feed(b"\xff\x00\x80\xfe\x1b[31m\n")
    assert text == "\\xff\x00\\x80\\xfe\x1b[31m"
    line = record(text, {"workload": "web"}, "app.log", partial=False)
    assert "\n" not in line
    assert "\x1b" not in line
    assert "\x00" not in line
    assert json.loads(line) == {"workload": "web", "file": "app.log", "message": text}


def test_a_megabyte_without_a_line_end_is_read_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "core.log").write_bytes(os.urandom(1 << 20).replace(b"\n", b"\0"))
    folder, printed = Folder(tmp_path), Printed()
    folder.end(printed)
    assert len(printed) >= (1 << 20) // LINE_MAX
    assert {partial for *_, partial in printed[:-1]} == {True}


def test_appended_lines_are_printed_once_and_a_line_without_an_end_after_a_while(
    tmp_path: Path,
) -> None:
    folder, printed = Folder(tmp_path), Printed()
    with (tmp_path / "app.log").open("a", encoding="utf-8", buffering=1) as file:
        folder.turn(printed)
        file.write("one\ntw")
        folder.turn(printed)
        assert printed.texts == ["one"]
        file.write("o\nthree")
        for _ in range(IDLE_PASSES + 3):
            folder.turn(printed)
        assert printed.texts == ["one", "two", "three"]
    folder.end(printed)
    assert printed.texts == ["one", "two", "three"]


def test_a_rotated_file_is_read_to_its_end_and_the_new_one_from_its_beginning(
    tmp_path: Path,
) -> None:
    folder, printed = Folder(tmp_path), Printed()
    path = tmp_path / "app.log"
    with path.open("a", encoding="utf-8", buffering=1) as file:
        file.write("1\n")
        folder.turn(printed)
        path.rename(tmp_path / "app.log.1")
        (tmp_path / "app.log").write_text("3\n", encoding="utf-8")
        file.write("2\n")  # a program may write on to the file that it had open
        folder.turn(printed)
    assert sorted(printed.texts) == ["1", "2", "3"]
    assert len(folder.files) == 2
    for _ in range(IDLE_PASSES + 1):
        folder.turn(printed)
    assert [each.name for each in folder.files.values()] == ["app.log"]
    folder.end(printed)
    assert sorted(printed.texts) == ["1", "2", "3"]


def test_a_truncated_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    folder, printed, path = Folder(tmp_path), Printed(), tmp_path / "app.log"
    path.write_text("old line\nhalf", encoding="utf-8")
    folder.turn(printed)
    path.write_text("new\n", encoding="utf-8")
    folder.turn(printed)
    assert printed.texts == ["old line", "half", "new"]
    path.unlink()
    for _ in range(IDLE_PASSES + 1):
        folder.turn(printed)
    assert folder.files == {}


def test_links_pipes_and_folders_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n", encoding="utf-8")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "link.log").symlink_to(secret)
    os.mkfifo(logs / "pipe.log")
    (logs / "folder.log").mkdir()
    (logs / "notes.txt").write_text("other\n", encoding="utf-8")
    (logs / "app.log").write_text("mine\n", encoding="utf-8")
    folder, printed = Folder(logs), Printed()
    folder.end(printed)
    assert printed.texts == ["mine"]
    assert folder.skipped == 3


def test_a_limited_number_of_files_is_followed(tmp_path: Path) -> None:
    for number in range(FILES_MAX + 5):
        (tmp_path / f"{number:03}.log").write_text(f"{number}\n", encoding="utf-8")
    folder, printed = Folder(tmp_path), Printed()
    folder.turn(printed)
    assert (len(printed), len(folder.files), folder.skipped) == (FILES_MAX, FILES_MAX, 5)
    folder.end(printed)


def test_files_that_are_replaced_again_and_again_stay_limited(tmp_path: Path) -> None:
    folder, printed = Folder(tmp_path), Printed()
    for turn in range(4):
        for number in range(FILES_MAX):
            path = tmp_path / f"{number:03}.log"
            path.rename(tmp_path / f"{turn}-{number:03}.old") if path.exists() else None
            path.write_text(f"{turn} {number}\n", encoding="utf-8")
        folder.turn(printed)
        assert len(folder.files) == FILES_MAX
    assert folder.skipped == FILES_MAX
    for _ in range(IDLE_PASSES + 2):
        folder.turn(printed)
    assert printed.texts[-1] == f"3 {FILES_MAX - 1}"
    folder.end(printed)


def test_an_application_that_never_stops_writing_ends_with_the_sidecar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PASS_MAX", 64)
    path, shown = tmp_path / "app.log", 0
    path.write_bytes(b"x\n" * 100)
    folder = Folder(tmp_path)

    def show(_file: str, _text: str, _partial: bool) -> None:
        nonlocal shown
        shown += 1
        assert shown < 100_000, "the last pass does not end"
        with path.open("ab") as file:
            file.write(b"x\nx\n")

    folder.end(show)
    assert folder.files == {}


def test_a_sidecar_that_is_started_again_prints_nothing_twice(tmp_path: Path) -> None:
    logs, kept = tmp_path / "logs", tmp_path / "state"
    logs.mkdir()
    kept.mkdir()
    path = logs / "app.log"
    path.write_text("one\ntw", encoding="utf-8")
    first, printed = Folder(logs, kept=kept), Printed()
    first.turn(printed)  # and is killed
    with path.open("a", encoding="utf-8") as file:
        file.write("o\nthree\n")
    again = Folder(logs, kept=kept)
    again.resume()
    again.end(printed)
    assert printed.texts == ["one", "two", "three"]
    for each in first.files.values():
        os.close(each.handle)


def test_positions_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    (tmp_path / "logs.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "app.log").write_text("one\n", encoding="utf-8")
    folder, printed = Folder(tmp_path, kept=tmp_path), Printed()
    folder.resume()
    folder.end(printed)
    assert printed.texts == ["one"]


@dataclass(frozen=True)
class Variables:
    env: Mapping[str, str]


@pytest.mark.e2e
def test_the_part_prints_records_with_the_labels_of_the_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        made = part.make(
            Variables(
                {
                    "PINTEREST_LOG_DIR": str(tmp_path / "logs"),
                    "PINTEREST_WORKLOAD_NAME": "web",
                    "PINTEREST_CLUSTER": "use1-a",
                    "POD_NAME": "web-1",
                }
            )
        )
        running = asyncio.ensure_future(made.run())
        while made.state().reason != "FolderMissing":  # noqa: ASYNC110 - another thread looks
            await asyncio.sleep(0.01)
        assert made.state().ready
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "app.log").write_text("started\nlast", encoding="utf-8")
        while made.state().reason != "Printing":  # noqa: ASYNC110 - another thread looks
            await asyncio.sleep(0.01)
        running.cancel()  # what is there by then is printed before the process ends
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    labels = {"workload": "web", "cluster": "use1-a", "pod": "web-1", "file": "app.log"}
    assert records == [{**labels, "message": "started"}, {**labels, "message": "last"}]
    assert dict(following.labels({})) == {}
