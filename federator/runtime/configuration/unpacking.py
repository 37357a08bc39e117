"""Unpacks untrusted archives: nothing outside of its folder, no devices, bounded in number and
size. Blocks: it runs in a thread.

Links are made after all files, and nothing may lie below one: a link never leads a write.
"""

import io
import os
import posixpath
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from federator.runtime.files.backends import Away, Refusal

UNPACKED_MAX: Final = 512 << 20
"""Bytes of an archive after it is decompressed."""
ENTRIES_MAX: Final = 10_000
NAME_MAX: Final = 1024
PIECE: Final = 1 << 16
READ_MAX: Final = 1 << 20
"""The library reads headers of any length in one piece."""
_GZIP: Final = b"\x1f\x8b"


class _Bounded(io.FileIO):
    """A file of which nothing large is read in one piece."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0 or size > READ_MAX:
            raise Refusal("ConfigUnsafe", f"a header of the archive has {size} bytes")
        return super().read(size) or b""


def unpack(source: Path, target: Path, stopped: Callable[[], bool] = lambda: False) -> int:
    """Unpacks a tar file, compressed with gzip or not, into a folder that it makes; returns the
    number of entries. Raises Refusal, OSError; then a part of the folder may be there."""
    plain = _decompressed(source, stopped)
    try:
        with _Bounded(plain) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            return _Unpacking(archive, target, stopped).run()
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise Refusal("ConfigUnsafe", "the archive has a file and a folder of one name") from None
    except (tarfile.TarError, EOFError, UnicodeError, ValueError) as bad:
        raise Refusal("ConfigUnreadable", f"the archive is no tar file: {bad}") from None
    finally:
        if plain != source:
            plain.unlink(missing_ok=True)


def _decompressed(source: Path, stopped: Callable[[], bool]) -> Path:
    """The archive without compression: the file itself, or another one next to it."""
    with source.open("rb") as packed:
        if packed.read(2) != _GZIP:
            return source
        packed.seek(0)
        plain = source.with_name(f"{source.name}.tar")
        try:
            with plain.open("wb") as out:
                _inflate(packed, out, stopped)
        except BaseException:
            plain.unlink(missing_ok=True)
            raise
    return plain


def _inflate(packed: IO[bytes], out: IO[bytes], stopped: Callable[[], bool]) -> None:
    written, inflater = 0, zlib.decompressobj(wbits=31)
    rest = b""
    while piece := rest or packed.read(PIECE):
        _go_on(stopped)
        try:
            data = inflater.decompress(piece, PIECE)
        except zlib.error:
            raise Refusal("ConfigUnreadable", "the archive is damaged: no gzip") from None
        written += len(data)
        if written > UNPACKED_MAX:
            raise Refusal(
                "ConfigTooLarge",
                f"the archive has more than {UNPACKED_MAX} bytes when it is decompressed",
            )
        out.write(data)
        rest = inflater.unconsumed_tail
        if inflater.eof:  # gzip files may follow one another
            rest, inflater = inflater.unused_data, zlib.decompressobj(wbits=31)


def _go_on(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise Away("the pod ends")


class _Unpacking:
    """One archive."""

    def __init__(self, archive: tarfile.TarFile, target: Path, stopped: Callable[[], bool]) -> None:
        self._archive, self._target, self._stopped = archive, target, stopped
        self._files: set[str] = set()
        self._links: dict[str, str] = {}

    def run(self) -> int:
        self._target.mkdir(parents=True)
        count = 0
        while (member := self._archive.next()) is not None:
            count += 1
            if count > ENTRIES_MAX:
                raise Refusal("ConfigTooLarge", f"the archive has more than {ENTRIES_MAX} entries")
            self._add(member)
            self._archive.members = []  # type: ignore[attr-defined] # it remembers all of them
        for name, target in self._links.items():
            self._below_no_link(name)
            place = self._target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
        return count

    def _add(self, member: tarfile.TarInfo) -> None:
        _go_on(self._stopped)
        name = _name(member.name)
        if name == ".":
            return
        self._below_no_link(name)
        if name in self._files or name in self._links:
            raise Refusal("ConfigUnsafe", f"the archive has {name[:200]!r} twice")
        place = self._target / name
        if member.isdir():
            place.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            self._links[name] = _inside(name, member.linkname)
        elif member.islnk():
            former = _name(member.linkname)
            if former not in self._files:
                message = (
                    f"{name[:200]!r} is a link to {member.linkname[:200]!r}, no file before it"
                )
                raise Refusal("ConfigUnsafe", message)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(self._target / former, place)
            self._files.add(name)
        elif member.isreg() and not member.issparse():
            self._write(member, place)
            self._files.add(name)
        else:
            raise Refusal(
                "ConfigUnsafe",
                f"{name[:200]!r} is no file, folder or link, but type {member.type!r}",
            )

    def _write(self, member: tarfile.TarInfo, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        source = self._archive.extractfile(member)
        assert source is not None
        with source, place.open("xb") as file:
            shutil.copyfileobj(source, file, PIECE)
        place.chmod(0o555 if member.mode & 0o100 else 0o444)

    def _below_no_link(self, name: str) -> None:
        above = posixpath.dirname(name)
        while above:
            if above in self._links or above in self._files:
                raise Refusal(
                    "ConfigUnsafe", f"{name[:200]!r} lies below {above[:200]!r}, which is no folder"
                )
            above = posixpath.dirname(above)


def _name(text: str) -> str:
    """The path of an entry below the folder. Raises Refusal."""
    name = posixpath.normpath(text)
    bad = (
        not text
        or len(text) > NAME_MAX
        or text.startswith("/")
        or ".." in text.split("/")
        or "\x00" in text
        or any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in text.split("/"))
    )
    if bad:
        raise Refusal(
            "ConfigUnsafe", f"the archive has {text[:200]!r}, which is outside of its folder"
        )
    return name


def _inside(name: str, target: str) -> str:
    """The target of a link, if it stays inside. Raises Refusal. Steps up are at the beginning only:
    after another link they would start from where that leads."""
    where = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    steps = [step for step in target.split("/") if step not in ("", ".")]
    down = [index for index, step in enumerate(steps) if step != ".."]
    late = bool(down) and ".." in steps[down[0] :]
    if not target or target.startswith("/") or where == ".." or where.startswith("../") or late:
        raise Refusal(
            "ConfigUnsafe", f"{name[:200]!r} is a link to {target[:200]!r}, outside of its folder"
        )
    return target
