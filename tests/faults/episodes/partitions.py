"""Episodes of the network: links between hubs, host, members and members' own processes, cut whole
or one way.

A family is one kind of link times the ways in which it can be cut: one line per family, one row per
pair.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable

from tests.faults.links import Cut
from tests.faults.rows import Episode, Stage

Pairs = Iterable[tuple[str, str]]
Choice = Callable[[Stage, random.Random], Pairs]
ARRIVAL_S = 0.1
"""Within this time after a link has healed everything that waited for it has arrived."""


@contextlib.asynccontextmanager
async def severed(
    stage: Stage, name: str, pairs: Pairs, how: Cut, *, late: bool = False
) -> AsyncIterator[None]:
    """The links of the pairs are cut while this is entered. The fault counts when anything was sent
    over one.

    `late`: writes that were sent into a silent link arrive when it heals, also when their sender
    has given up or died; the fault counts when that happened.
    """
    chosen, sign = sorted(pairs), "late" if late else how
    before = stage.links.touched[sign]
    for process, cluster in chosen:
        await stage.links.sever(process, cluster, how, late=late)
    try:
        yield
    finally:
        for process, cluster in chosen:
            stage.links.heal(process, cluster, how, late=late)
        if late:
            await asyncio.sleep(ARRIVAL_S)
        if stage.links.touched[sign] > before:
            stage.happened(name)


def hub_to_member(stage: Stage, rng: random.Random) -> Pairs:
    """Every hub to one member, or only one of the hubs to it."""
    member = rng.choice(list(stage.members))
    return [
        (hub, member)
        for hub in (stage.hubs if rng.random() < 0.7 else [rng.choice(list(stage.hubs))])
    ]


def hub_to_host(stage: Stage, rng: random.Random) -> Pairs:
    """Every hub to the host, or only one of them."""
    return [
        (hub, "host")
        for hub in (stage.hubs if rng.random() < 0.5 else [rng.choice(list(stage.hubs))])
    ]


def member_to_own_api(stage: Stage, rng: random.Random) -> Pairs:
    """One member's process to the API server beside it."""
    member = rng.choice(list(stage.members))
    return [(f"member-{member}", member)]


def everybody_to_member(stage: Stage, rng: random.Random) -> Pairs:
    """Every process to the API server of one member."""
    member = rng.choice(list(stage.members))
    return [(process, member) for process in (*stage.hubs, f"member-{member}")]


def hubs_to_every_member(stage: Stage, rng: random.Random) -> Pairs:
    """Every hub to every member: our own network is the fault."""
    return [(hub, member) for hub in stage.hubs for member in stage.members]


def _row(
    name: str,
    number: str,
    link: tuple[str, Choice],
    how: Cut,
    *,
    lasts_s: tuple[float, float],
    late: bool = False,
) -> Episode:
    where, choose = link

    def befall(stage: Stage, rng: random.Random) -> contextlib.AbstractAsyncContextManager[None]:
        return severed(stage, name, choose(stage, rng), how, late=late)

    heals = f"packets pass again after {lasts_s[0]:g} to {lasts_s[1]:g} s"
    return Episode(name, number, where, heals, befall, lasts_s)


_HUB_MEMBER = ("hubs and one member", hub_to_member)
_HUB_HOST = ("hubs and the host", hub_to_host)
_OWN_API = ("a member process and the API server beside it", member_to_own_api)
_ONE_API = ("one member's API server", everybody_to_member)
_ALL = ("hubs and all members", hubs_to_every_member)
_WHILE_S = (5.0, 90.0)

ROWS = (
    _row("hub-member-silent", "F15", _HUB_MEMBER, Cut.SILENT, lasts_s=_WHILE_S),
    _row("hub-member-mute", "F15", _HUB_MEMBER, Cut.MUTE, lasts_s=_WHILE_S),
    _row("hub-member-deaf", "F29", _HUB_MEMBER, Cut.DEAF, lasts_s=_WHILE_S),
    _row("hub-member-late", "F30", _HUB_MEMBER, Cut.SILENT, lasts_s=_WHILE_S, late=True),
    _row("hub-host-silent", "F31", _HUB_HOST, Cut.SILENT, lasts_s=_WHILE_S),
    _row("hub-host-mute", "F31", _HUB_HOST, Cut.MUTE, lasts_s=_WHILE_S),
    _row("hub-host-deaf", "F29", _HUB_HOST, Cut.DEAF, lasts_s=_WHILE_S),
    _row("hub-host-late", "F30", _HUB_HOST, Cut.SILENT, lasts_s=_WHILE_S, late=True),
    _row("host-refused", "F31", _HUB_HOST, Cut.REFUSED, lasts_s=_WHILE_S),
    _row("member-own-api-silent", "F15", _OWN_API, Cut.SILENT, lasts_s=_WHILE_S),
    _row("member-own-api-mute", "F15", _OWN_API, Cut.MUTE, lasts_s=_WHILE_S),
    _row("member-own-api-deaf", "F29", _OWN_API, Cut.DEAF, lasts_s=_WHILE_S),
    _row("member-own-api-late", "F30", _OWN_API, Cut.SILENT, lasts_s=_WHILE_S, late=True),
    _row("member-down-short", "F22", _ONE_API, Cut.REFUSED, lasts_s=(1.0, 20.0)),
    _row("member-down-long", "F23", _ONE_API, Cut.REFUSED, lasts_s=(60.0, 300.0)),
    _row("hub-short-of-descriptors", "F67", _ALL, Cut.SHORT, lasts_s=(60.0, 300.0)),
    _row("members-back-at-once", "F37", _ALL, Cut.REFUSED, lasts_s=(5.0, 60.0)),
)
