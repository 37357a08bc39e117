"""The heap of a test process: what stands on it for the whole run is not looked through for rubbish
again and again.

Ten thousand tests and all modules are over a million objects. By Python's own thresholds the
collector goes through all of them every few seconds, and takes a quarter of the processor time of a
run, far more where a test asks for a collection itself.
"""

import contextlib
import gc
import multiprocessing
from collections.abc import Iterator
from multiprocessing.pool import Pool
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


@contextlib.contextmanager
def one_world() -> Iterator[None]:
    """A world is one big heap that dies at once: collecting its youth over and over costs a third
    of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def workers(jobs: int) -> Pool:
    """Processes that play worlds, one after another, over what this one has read by now: what a
    fork has from its parent is not looked through in it, and so not copied.
    """
    collect_seldom()
    keep_for_good()
    return multiprocessing.get_context("fork").Pool(jobs)
