"""Mutants that no test can tell from the original, by name, each with the reason. They are not
drawn.

A name that no longer fits a mutant fails `tests/unit/mutation`: the list goes with the code.
"""

from collections.abc import Mapping
from typing import Final

_ONLY_FASTER: Final = (
    "From how many seats on they are given or taken at once, and from where the number is searched,"
    " changes the time alone (tests/unit/placement/test_leaps.py)."
)

EQUIVALENT: Final[Mapping[str, str]] = {
    "webster.seats_of: left > _MANY * len(weights)  ->  left >= _MANY * len(weights)": (
        _ONLY_FASTER
    ),
    "webster.seats_of: max(weights) <= 3 * min(weights)  ->  max(weights) < 3 * min(weights)": (
        _ONLY_FASTER
    ),
    "webster.module: 4  ->  5": _ONLY_FASTER,
    "division.Party: 0  ->  1  #4": "The product passes the order of every party.",
    "division._take: surplus > 4 * len(able)  ->  surplus >= 4 * len(able)": _ONLY_FASTER,
    "division._take: 4  ->  5": _ONLY_FASTER,
    "division._take: 4  ->  3": _ONLY_FASTER,
    "webster._leap: 2  ->  3": _ONLY_FASTER,
    "division._leap_back: 1  ->  2": (
        "Without any weight no seat above a floor is kept, whatever the divisor."
    ),
    "division._leap_back: 1  ->  2  #2": _ONLY_FASTER,
    "webster._leap: 1  ->  2": _ONLY_FASTER,
    "domains.Domains.lower: after < self.least  ->  after <= self.least": (
        "The least becomes what it is."
    ),
    "domains.Domains.grow: False  ->  True": (
        "That the breach of other domains may have changed has them counted again, to the same."
    ),
    "ledger.Ledger.admission: not self.snapshot.quotas or self._uncovered(ask)  ->  "
    "self._uncovered(ask)": "Without accounts the longer way admits as many.",
    "division.divide: missing < 0  ->  missing <= 0": (
        "To take 0 seats back changes nothing, and to give 0 seats does not either."
    ),
}
