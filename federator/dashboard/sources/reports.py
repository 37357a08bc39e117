"""Reports of simulations in one folder, as `federator simulate --out` writes them. Bounded in files
and bytes; nothing outside the folder is read, and no link is followed."""

import contextlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SHOWN_MAX: Final = 100
"""Reports that are listed, the newest first."""
LOOKED_MAX: Final = 10_000
"""Entries of the folder that are looked at."""
BYTES_MAX: Final = 4 * 1024 * 1024
REPORT: Final = "report.json"
ANSWER: Final = "answer.json"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class Unreadable(Exception):
    """There is no such report, or it cannot be read. The message is for the reader."""


@dataclass(frozen=True, slots=True)
class Report:
    """One simulation."""

    name: str
    """Of its folder."""
    written_s: float
    """Epoch seconds."""
    facts: Mapping[str, Any]
    """`report.json`."""
    answer: Mapping[str, Any]
    """`answer.json`; {} for a simulation that was asked no question."""


def newest(folder: Path) -> tuple[list[Report], list[str]]:
    """(the newest reports, sentences about those that cannot be read). Raises OSError for a folder
    that cannot be read."""
    dated: list[tuple[float, str]] = []
    with os.scandir(folder) as entries:
        for _, entry in zip(range(LOOKED_MAX), entries, strict=False):
            if _NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    dated.append((os.stat(Path(entry.path, REPORT)).st_mtime, entry.name))
    reports, unread = [], []
    for _, name in sorted(dated, reverse=True)[:SHOWN_MAX]:
        try:
            reports.append(read(folder, name))
        except Unreadable as bad:
            unread.append(str(bad))
    return reports, unread


def read(folder: Path, name: str) -> Report:
    """One report. Raises `Unreadable`."""
    if not _NAME.fullmatch(name):
        raise Unreadable("No report can have this name.")
    try:
        where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=where)
        finally:
            os.close(where)
        try:
            facts, written_s = _object(inside, name, REPORT)
            try:
                answer, _ = _object(inside, name, ANSWER)
            except FileNotFoundError:
                answer = {}
        finally:
            os.close(inside)
    except FileNotFoundError:
        raise Unreadable(f"There is no report {name}.") from None
    except OSError as trouble:
        raise Unreadable(f"The report {name} cannot be read: {trouble.strerror}.") from None
    return Report(name, written_s, facts, answer)


def _object(inside: int, name: str, file_name: str) -> tuple[Mapping[str, Any], float]:
    """(the object in a file, when it was written). Raises OSError and `Unreadable`."""
    with os.fdopen(
        os.open(file_name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=inside), "rb"
    ) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable(f"The report {name} cannot be read: {file_name} is no file.")
        text = file.read(BYTES_MAX + 1)
    if len(text) > BYTES_MAX:
        raise Unreadable(f"The report {name} is too large: {file_name} has more than 4 MiB.")
    try:
        report = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        raise Unreadable(f"The report {name} cannot be read: {file_name} is no JSON.") from None
    if not isinstance(report, dict):
        raise Unreadable(f"The report {name} cannot be read: {file_name} is no object.")
    return report, about.st_mtime
