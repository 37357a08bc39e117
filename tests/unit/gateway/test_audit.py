"""The audit's chain of digests: what breaks it, and what a line never holds."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from federator.gateway import audit
from federator.gateway.audit import Audit, Broken


def chain(count: int = 5) -> list[bytes]:
    lines, before = [], audit.ZERO
    for at in range(count):
        what = f"entry-{at}" if at else "start"
        text, before = audit.line({"what": what, "user": "ci:job"}, before)
        lines.append(text)
    return lines


def test_a_whole_chain_is_whole_and_its_last_digest_is_known() -> None:
    lines = chain()
    checked = audit.verify(lines)

    assert (checked.lines, checked.last) == (5, json.loads(lines[-1])["hash"])
    # What is cut off the end is seen by the last digest alone.
    assert audit.verify(lines[:3]).last != checked.last


BREAKS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "no line": lambda lines: [],
    "a text changed": lambda lines: [
        *lines[:2],
        lines[2].replace(b"ci:job", b"ci:you"),
        *lines[3:],
    ],
    "a digest changed": lambda lines: [lines[0].replace(b'"hash": "', b'"hash": "0'), *lines[1:]],
    "a line removed": lambda lines: [*lines[:2], *lines[3:]],
    "the first line removed": lambda lines: lines[1:],
    "the first lines removed": lambda lines: lines[3:],
    "a line twice": lambda lines: [*lines[:2], *lines[1:]],
    "lines swapped": lambda lines: [lines[1], lines[0], *lines[2:]],
    "a line of another chain": lambda lines: [*lines[:2], chain(1)[0], *lines[2:]],
    "a line that is cut": lambda lines: [*lines[:-1], lines[-1][:-9]],
    "white space": lambda lines: [lines[0].replace(b", ", b",  ", 1), *lines[1:]],
    "a key twice": lambda lines: [lines[0].replace(b"{", b'{"what": "x", ', 1), *lines[1:]],
    "no JSON": lambda lines: [b"what\n", *lines],
    "no object": lambda lines: [b"[]\n", *lines],
    "no digest": lambda lines: [b'{"what": "x"}\n', *lines],
    "a line of a megabyte": lambda lines: [b"[" * 2**20 + b"\n", *lines],
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_chain_that_was_changed_is_broken(how: str) -> None:
    with pytest.raises(Broken):
        audit.verify(BREAKS[how](chain()))


async def test_a_process_writes_a_file_of_its_own_that_only_it_reads(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    audits = [Audit(folder, name, lambda: "2026-12-01T00:00:00Z") for name in ("one", "two")]
    for each in audits:
        each.open()
    text = "\x1b[31m" + "x" * 2000
    await asyncio.gather(*(audits[0].write("refused", detail=text, at_=at) for at in range(20)))
    for each in audits:
        each.close()

    files = sorted(folder.iterdir())
    assert len(files) == 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    with files[0].open("rb") as file:
        assert audit.verify(file).lines == 22
    assert "\x1b" not in files[0].read_text()
    assert max(map(len, files[0].read_bytes().splitlines())) < 1500
    with pytest.raises(FileExistsError):
        Audit(folder, "one", lambda: "2026-12-01T00:00:00Z").open()
