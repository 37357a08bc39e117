"""Mutants that no test can tell from the original, by name, each with the reason. They are not
drawn.

A name that no longer fits a mutant fails `tests/unit/mutation`: the list goes with the code.
"""

from collections.abc import Mapping
from typing import Final

EQUIVALENT: Final[Mapping[str, str]] = {}
