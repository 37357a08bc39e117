"""Hostile actors: what a tenant does with his own rights on the host, and what a member says that
is not so.

Each act is a row of `ACTS`, done by the nemesis like an episode: it begins, lasts, and ends for
good. `draw` gives acts to a share of the worlds, from a generator of its own, so that the other
worlds are what they are without. `tenants` and `liars` have the acts, `wronged` the rules of those
who suffer them.
"""

import random
from collections.abc import Collection, Mapping

from tests.faults import table
from tests.faults.rows import Episode
from tests.simulation import halfdone, liars, tenants
from tests.simulation.acts import Act

HOSTILE_PER_MILLE = 300
"""Of all worlds, so many have hostile actors."""
ACTS_MOST = 2

ACTS: Mapping[str, Act] = {row.name: row for row in (*tenants.ROWS, *liars.ROWS)}
HALF_DONE = halfdone.ROW.name
EVENTS: Mapping[str, Episode | Act] = {**table.EPISODES, **ACTS, HALF_DONE: halfdone.ROW}
"""Everything that a turn of the nemesis may be, by name."""
NUMBERS: Mapping[str, str] = {
    name: row.number for name, row in {**table.FAULTS, **ACTS, HALF_DONE: halfdone.ROW}.items()
}
"""Everything that a campaign counts -> its number in the list of faults or, of acts, of invariants.
"""


def drawn(rng: random.Random, only: Collection[str]) -> list[str]:
    """The acts of a world. `only`: none but these, and one at least where any is among them."""
    names = sorted(name for name in ACTS if name in only or not only)
    if not names or (not only and rng.randrange(1000) >= HOSTILE_PER_MILLE):
        return []
    return rng.sample(names, min(len(names), rng.randint(1, ACTS_MOST)))
