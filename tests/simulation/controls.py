"""`python -m tests.simulation.controls`: every planted bug in the campaign's own worlds, until its rule catches it."""

import logging
import sys

from tests.simulation import drawing, running
from tests.simulation.planting import CONTROLS

WITHIN = 200
"""Seeds, from 0 on, in which each must be caught."""


def first_caught(what: str) -> int | None:
    """How many seeds it takes until the rule of this bug is broken."""
    rule, plant = CONTROLS[what]
    for seed in range(WITHIN):
        try:
            running.simulate(drawing.draw(seed), plant)
        except running.Broken as error:
            if any(breach.startswith(rule) for breach in error.breaches):
                return seed + 1
    return None


def main() -> int:
    """Prints one line per bug; 1 when any of them escapes."""
    logging.disable(logging.WARNING)
    escaped = 0
    for what, (rule, _) in sorted(CONTROLS.items(), key=lambda item: item[1][0]):
        seeds = first_caught(what)
        escaped += seeds is None
        print(f"| {what} | {rule} | {seeds if seeds is not None else f'not within {WITHIN}'} |", flush=True)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
