"""Several files that change together: a folder with links to a set, switched by one rename.

The layout is that of a kubelet's volumes (its AtomicWriter), which libraries that follow files
know: `tls.crt -> ..data/tls.crt`, `..data -> ..2026-12-01T08-00-00.000000`. A reader that resolves
`..data` once reads a certificate and a key that belong together.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DATA: Final = "..data"
FRESH: Final = "..data_tmp"


@dataclass(frozen=True, slots=True)
class Content:
    """What one file is to hold: bytes, or those of the file of the same name now (`data` None),
    which are linked and not read."""

    data: bytes | None
    mode: int = 0o644


def present(folder: Path) -> Path | None:
    """The folder that the files are in now."""
    with contextlib.suppress(OSError):
        return folder / os.readlink(folder / DATA)
    return None


def write(folder: Path, contents: Mapping[str, Content], stamp: str) -> None:
    """Replaces all files at once. `stamp` names the new set; no two may be the same. Raises
    OSError, and then the former files stand."""
    folder.mkdir(parents=True, exist_ok=True)
    former = present(folder)
    fresh = folder / f"..{stamp}"
    fresh.mkdir(mode=0o755)
    try:
        for name, content in contents.items():
            _place(fresh / name, content, former)
        link = folder / FRESH
        link.unlink(missing_ok=True)
        link.symlink_to(fresh.name)
        _named(folder, contents)
        link.rename(folder / DATA)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    for old in folder.iterdir():
        if old.name.startswith("..") and old.is_dir() and not old.is_symlink() and old != fresh:
            shutil.rmtree(old, ignore_errors=True)
    for shown in folder.iterdir():
        if not shown.name.startswith("..") and shown.name not in contents and shown.is_symlink():
            shown.unlink()


def _place(path: Path, content: Content, former: Path | None) -> None:
    if content.data is None:
        if former is None:
            raise FileNotFoundError(f"there is no {path.name} to keep")
        os.link(former / path.name, path)
        return
    # Never readable with another mode, however briefly.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, content.mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, content.mode)
        file.write(content.data)


def _named(folder: Path, contents: Mapping[str, Content]) -> None:
    """The links by which applications open the files. They never change."""
    for name in contents:
        link = folder / name
        if not link.is_symlink():
            link.unlink(missing_ok=True)
            link.symlink_to(f"{DATA}/{name}")
