"""What `federator plan` prints is what happens: random fleets, each with five random edits that are
planned, made, and compared once the hub is done.

`python -m tests.simulation.plans --seeds 0-199` makes 1,000 edits. A campaign of its own beside
`run`, because a plan speaks of a fleet that nothing else changes (`planned`): policies, quotas,
labels, taints, drains and workloads are edited, and every share, shortfall and reason of every
workload is compared, by a plan on a dump and by one on the leader's memory. An edit after which
something does not settle is counted and not judged: a plan takes roll-outs to end.

The first two edits of a world are then made in a second one, between edits of other people. Nothing
is judged there: how far it ends from the plan is counted.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tests.simulation import planned
from tests.simulation.campaigns import Broken, Campaign
from tests.simulation.planned import Played, World

RULE: Final = "37 a plan is what happens"
BUSY: Final = 2
"""Edits of other people that come between a plan and the end, in the second world; and how many
edits are planned there."""
EDITS, MOVING, UNSETTLED = "edits", "edits that change placements", "edits not judged"
COPIES, ELSEWHERE = "busy: copies planned", "busy: copies elsewhere"
WORKLOADS, OTHERWISE = "busy: workloads planned", "busy: workloads otherwise"


def surprises(played: Sequence[Played]) -> list[str]:
    """Edits that ended otherwise than planned, in words."""
    return [
        f"{'delete' if one.edit.deletes else 'apply'} {one.edit.obj}: {one.different}"
        for one in played
        if one.different and not one.waiting
    ]


def counted(played: Sequence[Played]) -> Counter[str]:
    """What was seen on an unchanged fleet."""
    return Counter(
        {
            EDITS: len(played),
            MOVING: sum(one.moved for one in played),
            UNSETTLED: sum(bool(one.different and one.waiting) for one in played),
        }
    )


def strayed(played: Sequence[Played]) -> Counter[str]:
    """How far plans were from what came of them on a busy fleet."""
    copies = sum(sum(shares.values()) for one in played for shares, _, _ in one.planned.values())
    return Counter(
        {
            WORKLOADS: sum(len(one.planned) for one in played),
            OTHERWISE: sum(len(one.different.keys() & one.planned.keys()) for one in played),
            COPIES: copies,
            ELSEWHERE: sum(one.copies_elsewhere() for one in played),
        }
    )


async def _play(seed: int) -> Counter[str]:
    world = planned.drawn(seed)
    played = await planned.played(world, seed)
    if different := surprises(played):
        raise Broken(seed, RULE, f"{len(different)} of {len(played)}: " + "; ".join(different))
    few = World(world.cores, world.objects, world.edits[:BUSY])
    return counted(played) + strayed(await planned.played(few, seed, busy=BUSY))


CAMPAIGN: Final = Campaign(__doc__ or "", _play, wanted=(EDITS, MOVING, WORKLOADS), whole=20)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
