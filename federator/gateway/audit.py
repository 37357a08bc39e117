"""The audit of a gateway process: one line of JSON for each request that changes something or is
refused, appended to files, each line with the digest of the one before it.

The files are the record; Events on the host expire. A process has a chain of its own, which goes on
from file to file: its lines `start`, `continues` and `stop` say where it begins, goes on and ends.
Tokens are never written: a line names users, objects, digests and what was decided.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from federator import __version__
from federator.model import plaintext

log = logging.getLogger(__name__)

ZERO: Final = "0" * 64
FILE_BYTES: Final = 64 * 1024 * 1024
"""The next line opens another file when the present one is as large, or of another day (UTC)."""
START: Final = "start"
CONTINUES: Final = "continues"
STOP: Final = "stop"
LINE_MAX: Final = 16 * 1024
TEXT_MAX: Final = 512
"""Characters of one text of a line."""
TOGETHER_MAX: Final = 64
"""Lines that are put on disk together."""


class Broken(ValueError):
    """A file is not the chain that was written. Names the line."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that is whole."""

    lines: int
    before: str
    """Digest of the line before the first one: the last of the file before, or `ZERO`."""
    last: str
    """Digest of the last line: kept elsewhere, it shows whether lines were cut off the end."""
    first: Mapping[str, Any] = field(default_factory=dict)
    """The first entry: it names the process, and the number of the file."""
    ending: Mapping[str, Any] = field(default_factory=dict)
    """The last entry."""


def line(entry: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """(the line, its digest) of an entry after the line with the digest `before`."""
    text = json.dumps({**entry, "prev": before}, sort_keys=True, ensure_ascii=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{text[:-1]}, "hash": "{digest}"}}\n'.encode(), digest


def redacted(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with its texts cut and made safe to show."""
    return {
        name: plaintext.clipped(value, TEXT_MAX) if isinstance(value, str) else value
        for name, value in entry.items()
    }


def verify(lines: Iterable[bytes]) -> Checked:
    """Checks the digests of all lines of a file. Raises `Broken` for the first line that was
    changed, added or removed. Lines cut off the end leave a whole chain: compare `last`."""
    before, number = ZERO, 0
    first: dict[str, Any] = {}
    entry: dict[str, Any] = {}
    for text in lines:
        number += 1
        entry, digest = _checked(text, number)
        first = first or entry
        if number > 1 and entry["prev"] != before:
            raise Broken(f"line {number}: does not follow the line before it")
        before = digest
    if not number:
        raise Broken("the file has no line")
    if first.get("what") != START:
        raise Broken("line 1: is not the first line of a file")
    return Checked(number, first["prev"], before, first, entry)


def _checked(text: bytes, number: int) -> tuple[dict[str, Any], str]:
    if len(text) > LINE_MAX:
        raise Broken(f"line {number}: is longer than {LINE_MAX} bytes")
    if not text.endswith(b"\n"):
        raise Broken(f"line {number}: is cut, as if the process had ended while it wrote it")
    try:
        entry = json.loads(text)
        digest = entry.pop("hash")
        again, recomputed = line({k: v for k, v in entry.items() if k != "prev"}, entry["prev"])
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise Broken(f"line {number}: is no line of an audit") from None
    if recomputed != digest or again != text:
        raise Broken(f"line {number}: its content does not have its digest")
    return entry, digest


@dataclass(slots=True)
class _Batch:
    """Entries that are put on disk together, and whether they are."""

    entries: list[Mapping[str, Any]]
    written: "asyncio.Future[None]"


class Audit:
    """Appends to files of its own in a folder; None writes nothing. `now`: the present time as
    text. One thread writes, so that a caller that goes away disturbs no line. Entries that come
    while it writes wait for it, and are then put on disk together."""

    def __init__(
        self,
        folder: Path | None,
        process: str,
        now: Callable[[], str],
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self._folder = folder
        self._process = process
        self._now = now
        self._file_bytes = file_bytes
        self._before = ZERO
        self._number = 0
        self._size = 0
        self._day = ""
        self._file: int | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._next: _Batch | None = None
        """The batch that takes further entries."""
        self._joining = threading.Lock()
        """Held while the loop adds to the next batch, and while the thread takes it."""

    def open(self) -> None:
        """Creates the first file. Raises OSError."""
        if self._folder is None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._begin(self._created())
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="audit")

    async def write(self, what: str, **entry: Any) -> None:
        """Appends an entry, on disk when it returns. Raises OSError. Lines that could not be
        written whole are taken back, and the next one goes to another file."""
        if self._folder is None:
            return
        if self._writer is None:
            raise OSError("the audit is closed")
        with self._joining:
            batch = self._next
            if batch is None or len(batch.entries) >= TOGETHER_MAX:
                entries: list[Mapping[str, Any]] = []
                loop = asyncio.get_running_loop()
                written = loop.run_in_executor(self._writer, self._write, entries)
                batch = self._next = _Batch(entries, written)
            batch.entries.append({"what": what, **entry})
        await asyncio.shield(batch.written)

    def _write(self, entries: list[Mapping[str, Any]]) -> None:
        with self._joining:
            if self._next is not None and self._next.entries is entries:
                self._next = None
        if self._file is None:
            self._begin(self._created())
        elif self._size >= self._file_bytes or self._now()[:10] != self._day:
            # The other file is there before the line that names it, so that none is missed after
            # a crash.
            path, created = self._created()
            try:
                self._append([{"what": CONTINUES, "file": self._number}])
            except OSError:
                self._remove(path, created)
                raise
            former, self._file = self._file, None  # not used again, even where closing fails
            with contextlib.suppress(OSError):  # its lines are on disk
                os.close(former)
            self._begin((path, created))
        self._append(entries)

    def _created(self) -> tuple[Path, int]:
        """Another file, which is empty."""
        assert self._folder is not None
        now = self._now()
        name = f"{now.replace(':', '')}-{self._process}-{self._number + 1:06d}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        path = self._folder / name
        created = os.open(path, flags, 0o600)
        self._number += 1
        try:
            self._sync_folder()
        except OSError:
            self._remove(path, created)
            raise
        return path, created

    def _remove(self, path: Path, file: int | None) -> None:
        """Takes back an empty file, so that a full disk does not fill with them."""
        if file is not None:
            os.close(file)
        with contextlib.suppress(OSError):
            path.unlink()
            self._number -= 1

    def _sync_folder(self) -> None:
        """Makes the names of files as durable as their lines."""
        assert self._folder is not None
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _begin(self, created: tuple[Path, int]) -> None:
        """Writes to this file from now on."""
        path, self._file = created
        self._size, self._day = 0, self._now()[:10]
        first = {
            "what": START,
            "process": self._process,
            "file": self._number,
            "version": __version__,
        }
        try:
            self._append([first])
        except OSError:
            self._remove(path, None)
            raise

    def _append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """All of them or none."""
        assert self._file is not None
        lines, before = [], self._before
        for entry in entries:
            text, before = line(redacted({"at": self._now(), **entry}), before)
            lines.append(text)
        whole = b"".join(lines)
        try:
            written = os.write(self._file, whole)
            if written != len(whole):
                raise OSError(f"{written} of {len(whole)} bytes of a line were written")
            os.fdatasync(self._file)
        except OSError:
            self._abandon()
            raise
        self._size += len(whole)
        self._before = before

    def _abandon(self) -> None:
        """Takes back what was written of some lines, and ends the file: after an error nobody knows
        what is on disk. The next line begins another file."""
        file, self._file = self._file, None
        assert file is not None
        try:
            os.ftruncate(file, self._size)
        except OSError:
            log.exception("lines of refused requests stay in the audit")
        finally:
            with contextlib.suppress(OSError):
                os.close(file)

    def close(self) -> None:
        """Writes the last line, and closes the file."""
        if self._writer is None:
            return
        self._writer.shutdown()
        self._writer = None
        if self._file is not None:
            try:
                self._append([{"what": STOP}])
            except OSError:
                log.exception("the audit cannot be closed")
        if self._file is not None:
            os.close(self._file)
            self._file = None
