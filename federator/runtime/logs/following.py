"""Follows the log files of one folder: appended lines, rotation by rename, truncation, files that
come and go. Blocking, for a thread; one pass reads a bounded number of bytes.

The application owns the folder, so nothing in it is trusted: only regular files are opened, and no
symbolic link is followed.
"""

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from federator.runtime.logs.records import Lines

PASS_MAX: Final = 1 << 18
"""Bytes that one pass reads of a file. The rest follows in the next passes, which begin at once."""
FILES_MAX: Final = 64
"""Files that are followed at the same time: the first ones by name."""
END_PASSES: Final = 64
"""The last passes: an application that writes without a pause keeps no sidecar from its end."""
IDLE_PASSES: Final = 5
"""After so many passes without a new byte, a line without an end is printed as it is."""
POSITIONS: Final = "logs.json"
Print = Callable[[str, str, bool], None]
"""Takes file, text, partial."""


@dataclass(slots=True)
class Followed:
    """One file, by its inode. `offset` counts the bytes that were read."""

    name: str
    handle: int
    inode: int
    offset: int = 0
    lines: Lines = field(default_factory=Lines)
    idle: int = 0


@dataclass(slots=True)
class Folder:
    """The files of one folder that match a pattern. `kept` is a folder that outlives the sidecar
    and not the pod: a sidecar that is started again prints no line twice."""

    path: Path
    pattern: str = "*.log"
    kept: Path | None = None
    files: dict[int, Followed] = field(default_factory=dict)
    trouble: str = ""
    skipped: int = 0
    """Matching entries that are not followed: no regular files, or too many."""
    _positions: dict[str, int] = field(default_factory=dict)
    _saved: str = ""

    def resume(self) -> None:
        """Goes on from the positions that an earlier sidecar has left."""
        if self.kept is None:
            return
        with contextlib.suppress(OSError, ValueError, AttributeError):
            kept = json.loads((self.kept / POSITIONS).read_text("utf-8"))
            self._positions = {
                inode: offset for inode, offset in kept.items() if type(offset) is int
            }

    def turn(self, show: Print) -> bool:
        """One pass. Returns whether there is more to read already."""
        self._look()
        more = False
        for followed in list(self.files.values()):
            more |= self._read(followed, show)
        self._save()
        return more

    def end(self, show: Print) -> None:
        """The last passes: what is there, lines without an end included."""
        for _ in range(END_PASSES):
            if not self.turn(show):
                break
        for followed in self.files.values():
            self._finish(followed, show)
        self._save()
        for followed in self.files.values():
            os.close(followed.handle)
        self.files.clear()

    # -- files ----------------------------------------------------------------

    def _look(self) -> None:
        """Opens the files that are new, by inode."""
        present: dict[int, str] = {}
        self.skipped = 0
        try:
            with os.scandir(self.path) as entries:
                listed = sorted(
                    (entry for entry in entries if fnmatch(entry.name, self.pattern)),
                    key=lambda entry: entry.name,
                )
                for entry in listed:
                    if not entry.is_file(follow_symlinks=False) or len(present) >= FILES_MAX:
                        self.skipped += 1
                        continue
                    present[entry.inode()] = entry.name
        except OSError as bad:
            self.trouble = f"{self.path} cannot be read: {bad.strerror}"
            return
        self.trouble = ""
        for inode, name in present.items():
            if (followed := self.files.get(inode)) is not None:
                followed.name = name
            elif len(self.files) >= FILES_MAX:
                self.skipped += 1  # until one that is not there any more was read to its end
            elif (opened := self._open(name)) is not None:
                self.files[opened.inode] = opened

    def _open(self, name: str) -> Followed | None:
        # Not blocking: somebody may put a FIFO in the place of the file that was listed.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            handle = os.open(self.path / name, flags)
        except OSError:
            return None
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            os.close(handle)
            return None
        offset = self._positions.pop(str(facts.st_ino), 0)
        return Followed(name, handle, facts.st_ino, min(offset, facts.st_size))

    def _read(self, followed: Followed, show: Print) -> bool:
        facts = os.fstat(followed.handle)
        if facts.st_size < followed.offset:
            self._finish(followed, show)
            followed.offset = 0  # it was truncated, and is written from its beginning
        data = os.pread(followed.handle, PASS_MAX, followed.offset)
        followed.offset += len(data)
        for text, partial in followed.lines.feed(data):
            show(followed.name, text, partial)
        followed.idle = 0 if data else followed.idle + 1
        if followed.idle == IDLE_PASSES:
            self._finish(followed, show)
        if not data and self._gone(followed):
            self._finish(followed, show)
            os.close(followed.handle)
            del self.files[followed.inode]
        return len(data) == PASS_MAX

    def _gone(self, followed: Followed) -> bool:
        """Whether no name that matches leads to it any more, and nothing was added for a while: a
        program may write a last line to a file that it has just rotated."""
        if followed.idle < IDLE_PASSES:
            return False
        try:
            return os.lstat(self.path / followed.name).st_ino != followed.inode
        except OSError:
            return True

    @staticmethod
    def _finish(followed: Followed, show: Print) -> None:
        for text, partial in followed.lines.end():
            show(followed.name, text, partial)

    # -- positions ------------------------------------------------------------

    def _save(self) -> None:
        """Of complete lines only: what is not printed yet is read again."""
        if self.kept is None:
            return
        positions = {str(f.inode): f.offset - len(f.lines.rest) for f in self.files.values()}
        text = json.dumps(positions)
        if text == self._saved:
            return
        fresh = self.kept / f"{POSITIONS}.new"
        with contextlib.suppress(OSError):
            fresh.write_text(text, "utf-8")
            fresh.replace(self.kept / POSITIONS)
            self._saved = text


def labels(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What every record says about the pod."""
    named = {
        "project": "PINTEREST_PROJECT",
        "kind": "PINTEREST_WORKLOAD_KIND",
        "workload": "PINTEREST_WORKLOAD_NAME",
        "cluster": "PINTEREST_CLUSTER",
        "zone": "PINTEREST_ZONE",
        "pod": "POD_NAME",
    }
    for label, variable in named.items():
        if value := environ.get(variable):
            yield label, value
