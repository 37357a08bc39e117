"""The files of the history: numbered segments in one folder. Blocks; called in threads.

A hub appends to the newest segment until it is full. Reading is bounded by what is kept: `segments`
files of at most `segment_bytes` and one line each.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from federator.hub.history import entry as entries
from federator.hub.history.entry import ABOUT_ALL, HistoryEntry, Kind

PATTERN: Final = "history-*.jsonl"
Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class EntrySelection:
    """Which entries are requested."""

    key: str
    """Of one object; empty for every entry."""
    since: float
    until: float
    """Epoch seconds, both included."""
    limit: int
    """At most so many, the newest ones."""
    uid: str = ""
    """Of the object that has the name now, created at `born`; "" when there is none: then only the
    last object of the name is told of."""
    born: float = 0.0
    """Epoch seconds. An earlier entry without a uid is about a former object of the name."""


@dataclass(frozen=True, slots=True)
class Found:
    """Entries, oldest first."""

    entries: Sequence[HistoryEntry]
    more: bool
    """Whether older matching entries were left out."""
    begins: float | None
    """Time of the oldest entry that is kept, about anything; None without entries."""


class Segments:
    """One folder. Made and used by one hub process."""

    def __init__(self, folder: Path, *, segment_bytes: int, segments: int) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments = segments

    def append(self, lines: Sequence[bytes]) -> None:
        """Appends lines. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = self._files()
        current = files[-1] if files else self._next()
        if files and current.stat().st_size >= self._segment_bytes:
            current = self._next()
            files.append(current)
            for old in files[: -self._segments]:
                old.unlink(missing_ok=True)
        descriptor = os.open(current, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write((b"\n" if _is_torn(current) else b"") + b"".join(lines))

    def last_term(self) -> tuple[int, float] | None:
        """(term, epoch seconds) of the last entry about a leader, with the time of the last entry
        of all."""
        last: HistoryEntry | None = None
        for entry in self._newest_first(lambda: False):
            last = last or entry
            if entry.kind is Kind.LEADER and isinstance(entry.after, int):
                return entry.after, last.at
        return None

    def read(self, wanted: EntrySelection, stop: Stop) -> Found:
        """The requested entries. Ends early, with what it has, once `stop` returns True. Raises
        OSError."""
        newest: list[HistoryEntry] = []
        more = False
        begins: float | None = None
        uid = wanted.uid
        for entry in self._newest_first(stop, wanted.key):
            if wanted.key not in ("", entry.key) and entry.kind not in ABOUT_ALL:
                continue
            if wanted.key == entry.key:
                uid = uid or entry.uid
                if entry.uid != uid if entry.uid else entry.at < wanted.born:
                    continue
            if entry.at > wanted.until:
                continue
            if entry.at < wanted.since:
                break
            if len(newest) == wanted.limit:
                more = True
                break
            newest.append(entry)
        oldest = next(iter(self._files()), None)
        if oldest is not None:
            with oldest.open("rb") as file:
                first = entries.read(file.readline())
            begins = first.at if first is not None else None
        return Found(newest[::-1], more, begins)

    def _newest_first(self, stop: Stop, key: str = "") -> Iterator[HistoryEntry]:
        """Entries from the last one back. With a `key`, lines that cannot be about it are not
        decoded."""
        about = [f'"{kind}"'.encode() for kind in sorted(ABOUT_ALL)]
        words = [key.encode(), *about] if key else []
        for path in reversed(self._files()):
            for text in reversed(path.read_bytes().splitlines()):
                if stop():
                    return
                if words and not any(word in text for word in words):
                    continue
                if (entry := entries.read(text)) is not None:
                    yield entry

    def _files(self) -> list[Path]:
        """The segments. Whatever else has such a name, a folder or a pipe, is left alone."""
        return sorted(
            (path for path in self._folder.glob(PATTERN) if _number(path) > 0 and path.is_file()),
            key=_number,
        )

    def _next(self) -> Path:
        """The segment after the last one, with a number that no other entry of the folder has."""
        number = max(map(_number, self._folder.glob(PATTERN)), default=0) + 1
        return self._folder / PATTERN.replace("*", f"{number:08d}")


def _number(path: Path) -> int:
    """The number of a segment; 0 for another file."""
    text = path.name.removeprefix("history-").removesuffix(".jsonl")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _is_torn(path: Path) -> bool:
    """Whether a process ended in the middle of its last line."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if not file.tell():
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
