"""Memory settings of a long-lived process: rare garbage collection, and freed memory returned to
the system."""

import ctypes
import gc
import linecache
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
"""`man 3 mallopt`."""
_LARGE_BYTES: Final = 256 * 1024


def collect_rarely() -> None:
    """Makes garbage collection rare: nearly all objects of a hub live long, and scanning the
    records of a hundred thousand workloads for every few hundred new ones costs too much."""
    _keep_modules()
    gc.set_threshold(20_000, 20, 20)


def collect_hardly() -> None:
    """Makes garbage collection rarer still, until `keep_all` is called: a process that reads its
    first lists makes many objects that stay, and hardly any cycles."""
    _keep_modules()
    gc.set_threshold(200_000, 20, 20)


def _keep_modules() -> None:
    """What was imported stays; the sources that docstrings of fields were read from do not."""
    linecache.clearcache()
    gc.freeze()


def keep_all() -> None:
    """Takes all objects of this moment out of garbage collection: the records of a hub that has
    read its lists stay, and scanning them stops its loop for some tenths of a second. Objects
    without cycles are still freed when nothing refers to them."""
    collect_rarely()


def return_free_pages() -> bool:
    """Gives the free pages between blocks in use back to the system: about a millisecond for each
    ten megabytes. False where there was none, or no glibc.

    glibc does that by itself at the end of its heap only. A tenth of the memory of a hub with many
    members were pages that connections and lists had used.
    """
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError):
        return False


def return_large_blocks() -> bool:
    """Makes glibc return freed large blocks to the system. False where there is no glibc.

    By default glibc raises its mmap threshold with each freed large block (the dynamic threshold of
    mallopt(3)) and keeps larger blocks in the heap, where long-lived objects end up between them. A
    tenth of a hub's memory were such gaps.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES))
    except (OSError, AttributeError):
        return False
