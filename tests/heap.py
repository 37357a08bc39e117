"""The heap of a test process: what stands on it for the whole run is not looked through for rubbish
again and again.

Ten thousand tests and all modules are over a million objects. By Python's own thresholds the
collector goes through all of them every few seconds, and takes a quarter of the processor time of a
run, far more where a test asks for a collection itself.
"""

import gc
from typing import Final

SELDOM: Final = (50_000, 10, 5)
"""Objects made beyond those that have gone, before the youngest are looked through; collections of
one age before the next age's turn. Rubbish that only the collector finds stays below some hundred
megabytes."""


def collect_seldom() -> None:
    """For a process that will read the tests."""
    gc.set_threshold(*SELDOM)


def keep_for_good() -> None:
    """What is on the heap now stays to the end of the process, and no collection looks at it."""
    gc.collect()
    gc.freeze()
