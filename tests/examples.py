"""How many examples each property is tried with: `USUAL` in `make test`, more where
FEDERATOR_EXAMPLES says so (`make test-long`, `make soak`).

What fails in a long run becomes an explicit example or a test of its own: the usual run finds a
known error by what it tries, never by luck.
"""

import os
from typing import Final

from hypothesis import settings

USUAL: Final = 25
ASKED: Final = int(os.environ.get("FEDERATOR_EXAMPLES", "0"))
"""Of each property, in a long run; 0 in a usual one."""


def examples(long: int) -> settings:
    """At least so many in a long run: the property is about something that few examples have."""
    return settings(max_examples=max(long, ASKED) if ASKED else USUAL)


def dear_examples(long: int = 50) -> settings:
    """At most so many, also in a long run: each is a whole simulation, or many plans."""
    return settings(max_examples=min(long, ASKED) if ASKED else USUAL)
