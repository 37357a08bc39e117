"""How much work a call is, whatever the machine and the load: the lines of Python that it runs.

Seconds never decide a test of the pure core. What grows with the square of its input, or follows a text
that multiplies itself, runs too many lines.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines(work: Callable[[], object]) -> int:
    """How many lines of Python `work` runs. What the interpreter does within a line is not counted."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
