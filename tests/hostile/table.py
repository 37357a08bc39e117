"""What one hostile input is, and the bounds that every one of them is held to. The cases stand in
the files beside it.

A case is named once and sent through every channel it can come by; each channel has its own test
module.
"""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from tests import heap

CPU_S = 1.0
"""Processor seconds one input may cost: generous, since the machine may be busy; a bomb costs
minutes.
"""
MEMORY = 20 * 1024 * 1024
"""Bytes that reading one input may take at its peak beside the input itself (F59)."""
TIMES = 10
"""...and for large inputs, how many times their own size (invariant 23)."""


@dataclass(frozen=True)
class Case:
    """One hostile input. `path` and `words` are what its error must say."""

    name: str
    row: str
    """The number of the fault (docs/internals/faults.md) that it belongs to."""
    given: Any
    """A text, bytes, an object, or a function that makes one when it is needed."""
    path: str = ""
    words: str = ""

    def input(self) -> Any:
        return self.given() if callable(self.given) else self.given


AnyCase = TypeVar("AnyCase", bound=Case)


def size_of(given: Any) -> int:
    return len(given) if isinstance(given, str | bytes) else 0


@contextmanager
def bounded(cpu_s: float = CPU_S, memory: int = MEMORY, *, measured: bool = True) -> Iterator[None]:
    """Fails when the block takes more processor time, or more memory at its peak, than it may.

    Tracing memory makes Python several times slower, so a `measured` block may take four times as
    long. What earlier tests have left on the heap is not looked through for rubbish meanwhile: that
    can take longer than any input.
    """
    if measured:
        heap.keep_for_good()
        tracemalloc.start()
    else:
        gc.disable()
    begun = time.process_time()
    try:
        yield
        spent = time.process_time() - begun
        peak = tracemalloc.get_traced_memory()[1] if measured else 0
    finally:
        gc.enable()
        if measured:
            tracemalloc.stop()
    allowed = cpu_s * (4 if measured else 1)
    assert spent < allowed, f"took {spent:.2f} s of the processor, {allowed:g} s are allowed"
    assert peak < memory, f"took {peak} bytes at its peak, {memory} are allowed"


def by_name(cases: tuple[AnyCase, ...]) -> dict[str, AnyCase]:
    found = {case.name: case for case in cases}
    assert len(found) == len(cases), "two cases have one name"
    return found
