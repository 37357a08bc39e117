"""The audit of a gateway process: one line of JSON for each request that changes something or is
refused, appended to a file, each line with the digest of the one before it.

The file is the record; Events on the host expire. A process has a file and a chain of its own;
the first line names the process. Tokens are never written: a line names users, objects, digests and
what was decided.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from federator import __version__
from federator.model import plaintext

ZERO: Final = "0" * 64
LINE_MAX: Final = 16 * 1024
TEXT_MAX: Final = 512
"""Characters of one text of a line."""


class Broken(ValueError):
    """A file is not the chain that was written. Names the line."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that is whole."""

    lines: int
    last: str
    """Digest of the last line: kept elsewhere, it shows whether lines were cut off the end."""


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
    """Checks the digests of all lines. Raises `Broken` for the first line that was changed, added
    or removed. Lines cut off the end leave a whole chain: compare `last`."""
    before, number = ZERO, 0
    for text in lines:
        number += 1
        entry, digest = _checked(text, number)
        if entry["prev"] != before:
            raise Broken(f"line {number}: does not follow the line before it")
        before = digest
    if not number:
        raise Broken("the file has no line")
    return Checked(number, before)


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


class Audit:
    """Appends to a file of its own in a folder, named by time and process; None writes nothing.
    `now`: the present time as text."""

    def __init__(self, folder: Path | None, process: str, now: Callable[[], str]) -> None:
        self._folder = folder
        self._process = process
        self._now = now
        self._before = ZERO
        self._writing = asyncio.Lock()
        self._file: int | None = None

    def open(self) -> None:
        """Creates the file and writes the first line. Raises OSError."""
        if self._folder is None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{self._now().replace(':', '')}-{self._process}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(self._folder / name, flags, 0o600)
        self._append({"what": "start", "process": self._process, "version": __version__})

    async def write(self, what: str, **entry: Any) -> None:
        """Appends an entry, on disk when it returns. Raises OSError."""
        if self._file is None:
            return
        async with self._writing:
            await asyncio.to_thread(self._append, {"what": what, **entry})

    def _append(self, entry: Mapping[str, Any]) -> None:
        assert self._file is not None
        text, digest = line(redacted({"at": self._now(), **entry}), self._before)
        written = os.write(self._file, text)
        if written != len(text):
            raise OSError("the audit's file took a part of a line only")
        os.fdatasync(self._file)
        self._before = digest

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
