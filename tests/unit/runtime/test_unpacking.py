"""Archives of strangers are unpacked inside of one folder, or refused with the reason."""

import gzip
import io
import os
import random
import stat
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from federator.runtime.configuration import unpacking
from federator.runtime.configuration.unpacking import unpack
from federator.runtime.files.backends import Refusal

Entry = tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]


def _info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> Entry:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    return made


def _file(name: str, data: bytes = b"x", mode: int = 0o644) -> Entry:
    made = tarfile.TarInfo(name)
    made.size, made.mode = len(data), mode
    return made, data


def _tar(entries: Sequence[Entry]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            info, data = entry if isinstance(entry, tuple) else (entry, b"")
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _unpacked(tmp_path: Path, data: bytes) -> Path:
    tmp_path.mkdir(exist_ok=True)
    source = tmp_path / "in"
    source.write_bytes(data)
    unpack(source, tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("packed", [lambda data: data, gzip.compress], ids=["tar", "tar.gz"])
def test_files_folders_and_links_inside_are_made(
    tmp_path: Path, packed: Callable[[bytes], bytes]
) -> None:
    entries = [
        _info(".", tarfile.DIRTYPE),
        _info("./bin", tarfile.DIRTYPE),
        _file("./bin/run", b"#!/bin/sh", 0o4755),
        _file("a/b/c.json", b"{}" * 300),
        _info("now", tarfile.SYMTYPE, "a/b"),
        _info("a/up", tarfile.SYMTYPE, "../bin/run"),
        _info("same.json", tarfile.LNKTYPE, "a/b/c.json"),
    ]

    out = _unpacked(tmp_path, packed(_tar(entries)))

    assert (out / "now" / "c.json").read_bytes() == b"{}" * 300
    assert (out / "a" / "up").read_bytes() == b"#!/bin/sh"
    assert (out / "same.json").read_bytes() == b"{}" * 300
    assert stat.S_IMODE((out / "bin" / "run").stat().st_mode) == 0o555
    assert stat.S_IMODE((out / "a/b/c.json").stat().st_mode) == 0o444
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".tar")] == []


@pytest.mark.parametrize(
    "entries",
    [
        [_file("/etc/passwd")],
        [_file("../x")],
        [_file("a/../../x")],
        [_file("a/../x")],
        [_info("l", tarfile.SYMTYPE, "/etc")],
        [_info("l", tarfile.SYMTYPE, "..")],
        [_info("a/l", tarfile.SYMTYPE, "../../x")],
        [_info("l", tarfile.SYMTYPE, "d"), _file("l/x")],
        [_file("l/x"), _info("l", tarfile.SYMTYPE, "/tmp")],
        [_info("d/l", tarfile.SYMTYPE, ".."), _info("z", tarfile.SYMTYPE, "d/l/../x")],
        [_info("h", tarfile.LNKTYPE, "/etc/passwd")],
        [_info("h", tarfile.LNKTYPE, "../in")],
        [_info("l", tarfile.SYMTYPE, "d"), _info("h", tarfile.LNKTYPE, "l")],
        [_info("null", tarfile.CHRTYPE)],
        [_info("disk", tarfile.BLKTYPE)],
        [_info("pipe", tarfile.FIFOTYPE)],
        [_file("a"), _file("a")],
        [_file("a"), _file("a/b")],
        [_info("a", tarfile.DIRTYPE), _file("a")],
        [_file("a/b"), _file("a")],
        [_file("x" * 300)],
    ],
    ids=lambda entries: ",".join(
        e.name if isinstance(e, tarfile.TarInfo) else e[0].name for e in entries
    )[:40],
)
def test_what_leads_outside_or_is_no_file_is_refused(
    tmp_path: Path, entries: Sequence[Entry]
) -> None:
    before = sorted(os.listdir("/"))

    with pytest.raises(Refusal):
        _unpacked(tmp_path, _tar(entries))

    assert sorted(os.listdir("/")) == before
    assert {each.name for each in tmp_path.iterdir()} <= {"in", "out"}


def test_a_bomb_is_refused_before_it_is_written(tmp_path: Path) -> None:
    unpacked = io.BytesIO()
    with gzip.GzipFile(fileobj=unpacked, mode="wb", compresslevel=9) as out:
        zeros = bytes(1 << 20)
        for _ in range((unpacking.UNPACKED_MAX >> 20) + 1):
            out.write(zeros)

    with pytest.raises(Refusal, match="when it is decompressed"):
        _unpacked(tmp_path, unpacked.getvalue())

    assert [each.name for each in tmp_path.iterdir()] == ["in"]


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    many = [_info(f"d{index}", tarfile.DIRTYPE) for index in range(unpacking.ENTRIES_MAX + 1)]

    with pytest.raises(Refusal, match="more than 10000 entries"):
        _unpacked(tmp_path, _tar(many))


def test_a_header_of_any_length_is_not_read_into_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 400 << 20

    with pytest.raises(Refusal, match="a header of the archive has"):
        _unpacked(tmp_path, header.tobuf() + bytes(4096))


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"\x1f\x8bno gzip", b"\0" * 100, random.Random(1).randbytes(4096)],
    ids=["empty", "text", "gzip in name only", "zeros", "noise"],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(Refusal, match="the archive is"):
        _unpacked(tmp_path, data)


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    whole = _tar([_file("a", os.urandom(100_000))])

    with pytest.raises(Refusal):
        _unpacked(tmp_path, whole[:50_000])
    with pytest.raises(Refusal):
        _unpacked(tmp_path / "gz", gzip.compress(whole)[:50_000])
