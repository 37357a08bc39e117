"""The folder in memory that a sandbox keeps files of its pods in, and what killed sandboxes left.

A sandbox that gets SIGKILL removes nothing, and memory is given back only by a restart of the
machine. The next sandbox therefore removes folders with a dead owner. An owner holds a lock on its
folder, which the kernel releases however the process ends; no process id is compared.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

PREFIX: Final = "federator-sandbox-"
"""Not `federator-pods-`, the name of earlier releases: those folders have no locks, and may belong
to a sandbox that runs."""
_UNLOCKED: Final = ".federator-sandbox-"
"""A folder gets its name when it is locked. Before, another sandbox would take it for one that was
left."""


@contextlib.contextmanager
def held(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, held until the block ends; whatever is in it goes then. Removes
    folders that killed sandboxes of this user have left there."""
    sweep(parent)
    new = Path(tempfile.mkdtemp(prefix=_UNLOCKED, dir=parent))
    descriptor = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = new.rename(parent / f"{PREFIX}{new.name.removeprefix(_UNLOCKED)}")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def sweep(parent: Path) -> list[Path]:
    """Removes the folders of this user in `parent` that no process holds. Returns them."""
    removed = []
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError), _unheld(folder):
            shutil.rmtree(folder)
            removed.append(folder)
    if removed:
        log.info("removed %d folders of sandboxes that were killed", len(removed))
    return removed


@contextlib.contextmanager
def _unheld(folder: Path) -> Iterator[None]:
    """Holds the folder of a dead owner. Raises OSError when its owner lives, when it is another
    user's, or no folder: everybody may make links in a shared directory."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
