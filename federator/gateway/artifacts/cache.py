"""Versions that were fetched, on disk: by content, bounded in bytes, the least recently used first
to go.

    sha256/HEX      the file of a version, and signed statements
    versions/HEX    JSON: what a version of a source stood for, HEX being the hash of both

Every file is written beside its place and renamed, so that a crash leaves a whole file or none.
What is read is compared with its digest; a file that differs is deleted. Files are small: callers
run these functions in a thread.
"""

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from federator.api import raw
from federator.gateway.artifacts.ports import ENVELOPES_MAX, Fetched
from federator.gateway.artifacts.registry import digest_of
from federator.model import sources

BYTES_MAX: Final = 256 * 1024 * 1024
_PARTIAL: Final = ".partial"


@dataclass(frozen=True, slots=True)
class Kept:
    """A version as it was fetched."""

    fetched: Fetched
    envelopes: tuple[bytes, ...]


class Cache:
    """One folder, used by one process. Safe to call from several threads."""

    def __init__(self, folder: Path, *, bytes_max: int = BYTES_MAX) -> None:
        self._content, self._versions = folder / "sha256", folder / "versions"
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        for each in (self._content, self._versions):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in each.glob(f"*{_PARTIAL}"):  # of a process that has crashed
                left.unlink(missing_ok=True)
        self._sizes = {path: path.stat().st_size for path in self._by_age()}
        """In the order of their last use, oldest first."""
        self._bytes = sum(self._sizes.values())

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self._bytes

    def keep(self, source: str, versions: tuple[str, ...], kept: Kept) -> None:
        """Keeps a version, under each of these names. Raises OSError."""
        with self._lock:
            self._write(self._at(source, kept.fetched.digest), _entry(kept))
            for content in (kept.fetched.file, *kept.envelopes):
                self._write(self._content / digest_of(content).removeprefix("sha256:"), content)
            for version in versions:
                if not sources.DIGEST.fullmatch(version):
                    name = _pointer(source, version)
                    self._write(self._versions / name, kept.fetched.digest.encode())
            self._trim()

    def digest(self, source: str, version: str) -> str:
        """The digest that the version had when it was last fetched; "" when it never was."""
        if sources.DIGEST.fullmatch(version):
            return version
        with self._lock:
            pointed = self._read(self._versions / _pointer(source, version)) or b""
        digest = pointed.decode(errors="replace")
        return digest if sources.DIGEST.fullmatch(digest) else ""

    def read(self, source: str, digest: str) -> Kept | None:
        """A version with all its statements; None when any of it is missing or damaged."""
        with self._lock:
            entry = self._read(self._at(source, digest))
            try:
                fields: Mapping[str, Any] = json.loads(entry or b"{}")
            except ValueError:
                return None
            file = self._verified(raw.text(fields, "file"))
            if file is None:
                return None
            named = raw.texts(fields, "envelopes")[:ENVELOPES_MAX]
            envelopes = [self._verified(each) for each in named]
        whole = tuple(each for each in envelopes if each is not None)
        if len(whole) < len(named):
            return None
        return Kept(Fetched(digest, file, raw.text_map(fields, "properties")), whole)

    def _at(self, source: str, digest: str) -> Path:
        """By source too: to know a digest is no right to read the version of another source."""
        return self._versions / f"{_pointer(source, digest)}.json"

    def _verified(self, digest: str) -> bytes | None:
        if not sources.DIGEST.fullmatch(digest):
            return None
        path = self._content / digest.removeprefix("sha256:")
        content = self._read(path)
        if content is not None and digest_of(content) != digest:
            self._drop(path)
            return None
        return content

    def _read(self, path: Path) -> bytes | None:
        try:
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        if path in self._sizes:
            self._sizes[path] = self._sizes.pop(path)
        return content

    def _write(self, path: Path, content: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=_PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        self._bytes += len(content) - self._sizes.pop(path, 0)
        self._sizes[path] = len(content)

    def _trim(self) -> None:
        for path in list(self._sizes):
            if self._bytes <= self._bytes_max:
                return
            self._drop(path)

    def _drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._bytes -= self._sizes.pop(path, 0)

    def _by_age(self) -> Iterator[Path]:
        files = [path for folder in (self._content, self._versions) for path in folder.iterdir()]
        yield from sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name))


def _pointer(source: str, version: str) -> str:
    return digest_of(f"{source}\0{version}".encode()).removeprefix("sha256:")


def _entry(kept: Kept) -> bytes:
    fields = {
        "file": digest_of(kept.fetched.file),
        "properties": dict(kept.fetched.properties),
        "envelopes": [digest_of(each) for each in kept.envelopes],
    }
    return json.dumps(fields, sort_keys=True).encode()
