"""Episodes of the network: partitions, whole and one-way, between hubs, host, members and members' own processes."""

import contextlib
import random
from collections.abc import AsyncIterator, Iterable

from federator.embedded.faults.links import Cut
from federator.embedded.faults.rows import Episode, Stage

Pairs = Iterable[tuple[str, str]]


@contextlib.asynccontextmanager
async def severed(stage: Stage, name: str, pairs: Pairs, how: Cut) -> AsyncIterator[None]:
    """The links of the pairs are cut while this is entered. The fault counts when anything was sent over one."""
    chosen = sorted(pairs)
    before = stage.links.touched[how]
    for process, cluster in chosen:
        await stage.links.sever(process, cluster, how)
    try:
        yield
    finally:
        for process, cluster in chosen:
            stage.links.heal(process, cluster, how)
        if stage.links.touched[how] > before:
            stage.happened(name)


def hub_to_member(stage: Stage, rng: random.Random) -> Pairs:
    """Every hub to one member, or only one of the hubs to it."""
    member = rng.choice(list(stage.members))
    return [(hub, member) for hub in (stage.hubs if rng.random() < 0.7 else [rng.choice(list(stage.hubs))])]


def hub_to_host(stage: Stage, rng: random.Random) -> Pairs:
    """Every hub to the host, or only one of them."""
    return [(hub, "host") for hub in (stage.hubs if rng.random() < 0.5 else [rng.choice(list(stage.hubs))])]


def member_to_own_api(stage: Stage, rng: random.Random) -> Pairs:
    """One member's process to the API server beside it."""
    member = rng.choice(list(stage.members))
    return [(f"member-{member}", member)]


def hub_member_silent(stage: Stage, rng: random.Random) -> contextlib.AbstractAsyncContextManager[None]:
    """Nothing passes between hubs and a member, in either direction."""
    return severed(stage, "hub-member-silent", hub_to_member(stage, rng), Cut.SILENT)


ROWS = (
    Episode(
        "hub-member-silent",
        "F15",
        "hubs and one member",
        "packets pass again after 5 to 90 s",
        hub_member_silent,
        (5.0, 90.0),
    ),
)
