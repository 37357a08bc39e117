"""How a long-lived process treats its memory: what it remembers is looked through rarely, and what it has done with
goes back to the system.
"""

import ctypes
import gc
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
"""`man 3 mallopt`."""
_LARGE_BYTES: Final = 256 * 1024


def collect_rarely() -> None:
    """Tells the collector that nearly everything here lives long: what is remembered of a hundred thousand objects is
    not looked through for rubbish each time that a few hundred more have come."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def return_large_blocks() -> bool:
    """Pages of lists go back to the system when they are freed. False where there is no glibc.

    By default glibc learns from each large block that is freed to keep larger ones in its heap (the dynamic threshold
    of mallopt(3)), where what is remembered comes to lie between them: of a hub's memory a tenth were such gaps.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES))
    except (OSError, AttributeError):
        return False
