"""Checks the chains of audits over the files of all processes. Reads files, and changes none."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from federator.gateway import audit
from federator.gateway.audit import Broken, Checked

_NAME: Final = re.compile(r".*-(?P<process>[^-]+)-(?P<number>[0-9]{6,})\.jsonl", re.ASCII)


@dataclass(frozen=True, slots=True)
class File:
    """One file of a chain. `checked` is None for an empty one: its process ended, or had no space,
    before it wrote a line."""

    path: Path
    process: str
    number: int
    checked: Checked | None


@dataclass(frozen=True, slots=True)
class Chain:
    """The files of one process, or why they are no whole chain."""

    process: str
    files: tuple[File, ...]
    trouble: str = ""

    @property
    def lines(self) -> int:
        return sum(each.checked.lines for each in self.files if each.checked is not None)

    @property
    def last(self) -> Checked | None:
        """The last file with a line."""
        return next((each.checked for each in reversed(self.files) if each.checked), None)

    @property
    def ended(self) -> bool:
        """False while the process runs, and after a crash."""
        return self.last is not None and self.last.ending.get("what") == audit.STOP


def listed(paths: Iterable[Path]) -> Iterator[Path]:
    """Files, and the files in folders. Raises OSError."""
    for path in paths:
        if path.is_dir():
            yield from sorted(each for each in path.iterdir() if each.suffix == ".jsonl")
        else:
            yield path


def verify(paths: Iterable[Path], *, archived: bool = False) -> tuple[list[Chain], list[str]]:
    """(chains, sentences about files that cannot be read or are changed). `archived`: earlier
    files of a chain may be elsewhere."""
    by_process: dict[str, list[File]] = defaultdict(list)
    unreadable = []
    for path in paths:
        try:
            file = _read(path)
        except (OSError, Broken) as bad:
            unreadable.append(f"{path}: {bad}")
        else:
            by_process[file.process].append(file)
    chains = [
        Chain(process, tuple(files), _trouble(files, archived=archived))
        for process, unsorted in sorted(by_process.items())
        if (files := sorted(unsorted, key=lambda each: (each.number, str(each.path))))
    ]
    return chains, unreadable


def _read(path: Path) -> File:
    """Raises OSError and `Broken`."""
    named = _NAME.fullmatch(path.name)
    if named is not None and path.stat().st_size == 0:
        return File(path, named["process"], int(named["number"]), None)
    with path.open("rb") as file:
        checked = audit.verify(iter(lambda: file.readline(audit.LINE_MAX + 1), b""))
    process, number = checked.first.get("process"), checked.first.get("file")
    if not isinstance(process, str) or not isinstance(number, int):
        raise Broken("line 1: names no process and file")
    return File(path, process, number, checked)


def _trouble(files: Sequence[File], *, archived: bool) -> str:
    """Why the files of one process are not a whole chain; "" when they are."""
    before: Checked | None = None
    expected = files[0].number if archived else 1
    for each in files:
        if each.number < expected:
            return f"{each.path}: is file {each.number} of its chain a second time"
        if each.number > expected:
            return f"{each.path}: is file {each.number} of its chain; file {expected} is missing"
        expected += 1
        if each.checked is None:
            continue
        if before is None and not archived and each.checked.before != audit.ZERO:
            return f"{each.path}: does not begin a chain"
        if before is not None and each.checked.before != before.last:
            return f"{each.path}: does not follow the file before it"
        if before is not None and before.ending.get("what") == audit.STOP:
            return f"{each.path}: follows a file that ends the chain"
        before = each.checked
    if before is not None and before.ending.get("what") == audit.CONTINUES:
        following = before.ending.get("file")
        if files[-1].number != following:
            return f"{files[-1].path}: goes on in file {following} of its chain, which is missing"
    return ""
