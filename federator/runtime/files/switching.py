"""Trees of files that change as a whole: a folder with links to a tree that one rename replaces.

The layout is that of a kubelet's volumes, which libraries that follow files know:
`db -> ..data/db`, `..data -> ..STAMP`. After each switch the file `..refreshed` gets the stamp: an
application that follows its files only has to look at this one.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

DATA: Final = "..data"
REFRESHED: Final = "..refreshed"
_STAMPED: Final = re.compile(r"\.\.[0-9]")


def present(folder: Path) -> Path | None:
    """The tree that the links lead to now."""
    with contextlib.suppress(OSError):
        tree = folder / os.readlink(folder / DATA)
        return tree if tree.is_dir() else None
    return None


def keep(folder: Path, name: str, fresh: Path) -> None:
    """Takes a file of the present tree into a fresh one. It is linked, and not read. Raises
    OSError."""
    former = present(folder)
    if former is None:
        raise FileNotFoundError(f"there is no {name} to keep")
    os.link(former / name, fresh / name)


def switch(folder: Path, fill: Callable[[Path], None], stamp: str) -> None:
    """Replaces the whole tree. `fill` writes the new one into the folder that it is given; `stamp`
    names it, and no two may be the same. Raises OSError and what `fill` raises, and then the former
    tree stands."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"..{stamp}"
    try:
        fresh.mkdir(mode=0o755)
        fill(fresh)
        link = folder / "..data_tmp"
        link.unlink(missing_ok=True)
        link.symlink_to(fresh.name)
        shown = sorted(each.name for each in fresh.iterdir())
        _link(folder, shown)
        link.replace(folder / DATA)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _tidy(folder, fresh, shown)
    mark = folder / f"{REFRESHED}.new"
    mark.write_text(f"{stamp}\n", "ascii")
    mark.replace(folder / REFRESHED)


def _link(folder: Path, shown: Sequence[str]) -> None:
    """The links by which applications open the files. They never change."""
    for name in shown:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{DATA}/{name}")


def _tidy(folder: Path, fresh: Path, shown: Sequence[str]) -> None:
    """Removes former trees, and links to what is not there any more."""
    for each in folder.iterdir():
        if each.is_symlink():
            if not each.name.startswith("..") and each.name not in shown:
                each.unlink()
        elif each.is_dir() and _STAMPED.match(each.name) and each != fresh:
            shutil.rmtree(each, ignore_errors=True)


def stamp(now_s: float) -> str:
    """A name for a tree that is written now; it begins with a digit."""
    now = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
    return f"{now}-{os.urandom(4).hex()}"


def place(path: Path, data: bytes, mode: int) -> None:
    """Writes a new file, which never has another mode, however briefly. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        os.fchmod(handle, mode)


def is_in_memory(folder: Path) -> bool:
    """Whether a folder lies in a file system that is never written to a disk of the node."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
        where = os.path.realpath(folder)
    except OSError:
        return False
    best, kind = "", ""
    for line in mounts:
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].replace("\\040", " ")
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind in ("tmpfs", "ramfs")
