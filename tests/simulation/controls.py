"""`python -m tests.simulation.controls`: every planted bug in the campaign's own worlds, until its
rule catches it.
"""

import argparse
import functools
import logging
import sys
from collections.abc import Mapping, Sequence

from tests import heap
from tests.simulation import cases, running
from tests.simulation.credulous import CREDULOUS
from tests.simulation.lived import LIVED
from tests.simulation.mutations import MUTATIONS
from tests.simulation.numbered import NUMBERED
from tests.simulation.planting import PLANTED
from tests.simulation.running import Plant
from tests.simulation.uncharged import FREED, LOWERED, UNCHARGED
from tests.simulation.unguaranteed import UNGUARANTEED
from tests.simulation.unmatched import UNMATCHED
from tests.simulation.unreleased import UNRELEASED
from tests.simulation.unruled import UNRULED
from tests.simulation.unseen import UNSEEN

WITHIN = 200
"""Seeds, from 0 on, in which each must be caught."""

CONTROLS: Mapping[str, tuple[str, Plant]] = {
    **MUTATIONS,
    **CREDULOUS,
    **LIVED,
    **NUMBERED,
    **UNCHARGED,
    **UNGUARANTEED,
    **UNMATCHED,
    **UNRELEASED,
    **UNRULED,
    **UNSEEN,
    **PLANTED,
}
"""Every bug -> (the rule that must catch it, the bug)."""
DRAWN = CONTROLS.keys() - {LOWERED, FREED}
"""Bugs that drawn worlds show. The others need a slow roll-out of lowered requests, or pods that
terminate slowly, next to a full account, which few drawn worlds have: `directed` has them."""


def first_caught(what: str, within: int = WITHIN) -> int | None:
    """How many seeds it takes until the rule of this bug is broken."""
    rule, plant = CONTROLS[what]
    with plant.patched():  # what it changes is there: below, every error is taken for the bug's own
        pass
    for seed in range(within):
        try:
            cases.run(cases.Case.of(seed, plant.only), plant)
        except running.Broken as error:
            if rule in error.rules:
                return seed + 1
        except Exception:  # the harness itself stumbled over the bug: that names no rule
            continue
    return None


def main(arguments: Sequence[str]) -> int:
    """Prints one line per bug; 1 when any of them escapes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    parser.add_argument(
        "--within", type=int, default=WITHIN, help="seeds in which each must be caught"
    )
    parser.add_argument("--only", default="", help="bugs whose description contains this")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    names = sorted(
        (what for what in DRAWN if options.only in what),
        key=lambda what: (CONTROLS[what][0], what),
    )
    escaped = 0
    with heap.workers(options.jobs) as pool:
        for what, seeds in zip(
            names,
            pool.imap(functools.partial(first_caught, within=options.within), names),
            strict=True,
        ):
            escaped += seeds is None
            told = str(seeds) if seeds is not None else f"not within {options.within}"
            print(f"| {what} | {CONTROLS[what][0]} | {told} |", flush=True)
    print(f"{len(names)} planted bugs, {len(names) - escaped} caught within {options.within} seeds")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
