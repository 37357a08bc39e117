"""What one seed means: the size of its world, the chances of its faults and the pace of its user.

Drawn once before a run starts, from generators of their own, so that one more draw elsewhere
changes nothing here. Printed with every failure.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tests.faults import table
from tests.simulation import hostile

REQUEST_FAULTS_MOST = 7
"""Kinds of faults of single requests in one world: few, so that each has time to bite."""
EPISODES_MOST = 4
MEMBER_DOWN_PER_MILLE = 30
"""Of all worlds, so many have a member whose process is gone for longer than the grace."""
SLOW_HOST_PER_MILLE = 50
"""Of all worlds, so many have a host that answers late for a while. Drawn in the same way as room.
"""
ROOMS_PER_MILLE = 250
"""Of all worlds, so many lose room in a member. Drawn from a generator of its own: the others are
what they would be without.
"""
BACKLOG_PER_MILLE = 250
"""Of all worlds, so many have job sets that queue for a tight quota (`backlog`). Drawn in the same
way as room.
"""
TWO_KINDS_PER_MILLE = 250
"""Of all worlds, so many have machines of two kinds. Drawn in the same way."""

SOME_PER_MILLE = 300
"""So many seeds have profiles, and so many do more to job sets than make and delete them."""
CONTEST_PER_MILLE = 250
"""Of all worlds without profiles, so many have accounts that take back what they lend, and gangs (`contest`). Drawn
in the same way."""
HALF_DONE_SHARE = 0.8
"""Of those, in such a part something goes wrong while somebody leaves or a gang begins."""

SHORTAGE_PER_MILLE = 40
"""Of all worlds, so many have hubs that run out of descriptors. Drawn in the same way."""

MOVING_S = 15.0
"""Job sets of a backlog are moved for about so long first of all."""
STATUSES_SHARE = 0.6
"""Of the worlds with a backlog, such a part has a host that refuses statuses of job sets for a
while.
"""
APART = table.ROOMS | {table.STATUSES, table.SLOW_HOST, table.MEMBER_DOWN, table.SHORTAGE}
"""Episodes that are drawn by themselves."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One episode of the nemesis: which, when it begins after the start of the script, and how long
    it lasts.
    """

    fault: str
    start_s: float
    lasts_s: float

    def text(self) -> str:
        return f"{self.fault}@{self.start_s:g}+{self.lasts_s:g}"


@dataclass(frozen=True, slots=True)
class Parameters:
    """One world. Times in virtual seconds."""

    seed: int
    members: int
    nodes: int
    """Machines of 8 cpus in each member."""
    steps: int
    """What the user does, in number of actions."""
    pause_s: float
    """Longest pause between two of them."""
    restart_s: float
    """Longest time for which a crashed process stays down."""
    quota_cpu: int
    """Limit of project feed in cpus; 0 for none."""
    hub: Mapping[str, int]
    """Chance of each fault of single requests in a thousand requests of a hub."""
    member: Mapping[str, int]
    """The same for the member processes."""
    hubs: int = 1
    """With two, they stand for election."""
    shuffled: bool = False
    """Whether ready tasks take their steps in a seeded order instead of the order in which they
    became ready.
    """
    turns: tuple[Turn, ...] = ()
    """What the nemesis does."""
    two_kinds: bool = False
    """Whether machines differ, and some pods ask for one kind of them (`machines`)."""
    backlog: bool = False
    """Whether job sets queue for a tight quota (`backlog`)."""
    contest: bool = False
    """Whether accounts lend and take back, and gangs begin (`contest`)."""
    patient: bool = False
    """Whether every episode runs its course after the script; otherwise all are healed at its end.
    """

    def without_faults(self) -> "Parameters":
        return replace(self, hub={}, member={}, turns=())

    def calm(self, *, quota_cpu: int) -> "Parameters":
        """The same without faults, and with this quota."""
        return replace(self.without_faults(), quota_cpu=quota_cpu)

    def text(self) -> str:
        """One line that says everything drawn."""
        faults = " ".join(
            f"{name}={self.hub[name]}/{self.member.get(name, 0)}" for name in self.hub
        )
        turns = " ".join(turn.text() for turn in self.turns)
        return (
            f"seed {self.seed}: {self.hubs} hubs, {self.members} members of {self.nodes} nodes"
            f"{' of two kinds' if self.two_kinds else ''}{', with a backlog' if self.backlog else ''}"
            f"{', with a contest' if self.contest else ''},"
            f" {self.steps} actions"
            f" with pauses up to {self.pause_s:g} s, restarts within {self.restart_s:g} s, "
            f"quota of {self.quota_cpu}"
            f" cpus (0: none), faults per mille of hub/members: {faults or 'none'}, episodes "
            "at + for seconds:"
            f" {turns or 'none'}{', each to its end' if self.patient else ''}"
        )


def generator(seed: int, purpose: str) -> random.Random:
    """The generator of one purpose under one seed."""
    return random.Random(f"{seed}/{purpose}")


def draw(seed: int, only: Collection[str] = ()) -> Parameters:
    """The parameters of a seed. A world has only some of the faults, so that each gets time to
    bite.

    `only`: no other faults and acts than these, and one or two of these episodes, to look at them
    closely. Raises ValueError for a name that is in neither table.
    """
    if unknown := sorted(set(only) - hostile.NUMBERS.keys()):
        raise ValueError(f"there is no fault {unknown[0]!r} in the table")
    rng = generator(seed, "parameters")
    members, nodes, steps = rng.randint(2, 3), rng.randint(2, 3), rng.randint(6, 14)
    members = (
        3 if has_backlog(seed) else members
    )  # so that what is taken from one is divided over others
    pause_s = rng.choice((0.05, 1.0, 4.0, 8.0))
    rows = {name: row for name, row in table.REQUEST_FAULTS.items() if name in only or not only}
    chosen = rng.sample(sorted(rows), rng.randint(0, min(REQUEST_FAULTS_MOST, len(rows))))
    hub = {name: rng.randint(1, rows[name].hub_per_mille) for name in chosen}
    return Parameters(
        seed=seed,
        members=members,
        nodes=nodes,
        steps=steps,
        pause_s=pause_s,
        restart_s=rng.choice((0.1, 2.0, 10.0)),
        quota_cpu=rng.choice((0, 0, 4, 8)),
        hub=hub,
        member={name: rng.randint(0, rows[name].member_per_mille) for name in chosen},
        hubs=rng.choice((1, 2)),
        shuffled=True,
        turns=tuple(_turns(seed, rng, only, within_s=steps * pause_s / 2 + 5.0)),
        two_kinds=two_kinds(generator(seed, "machines")),
        backlog=has_backlog(seed),
        contest=has_contest(seed),
        patient=rng.random() < 0.5,
    )


def two_kinds(rng: random.Random) -> bool:
    """Whether the machines of a world differ: the first draw of its generator for machines."""
    return rng.randrange(1000) < TWO_KINDS_PER_MILLE


def has_backlog(seed: int) -> bool:
    """Whether job sets queue for a tight quota in the world of a seed."""
    return generator(seed, "backlog").randrange(1000) < BACKLOG_PER_MILLE


def has_contest(seed: int) -> bool:
    """Whether accounts lend and take back in the world of a seed. Not where profiles make copies
    larger: that is an edit, for which nobody leaves."""
    drawn = generator(seed, "contest").randrange(1000) < CONTEST_PER_MILLE
    return drawn and generator(seed, "profiles").randrange(1000) >= SOME_PER_MILLE


def _turns(seed: int, rng: random.Random, only: Collection[str], *, within_s: float) -> list[Turn]:
    names = sorted(name for name in table.EPISODES if (name in only if only else name not in APART))
    count = min(len(names), rng.choice((1, 2) if only else (0, 1, 1, 2, 2, 3, EPISODES_MOST)))
    found = [_turn(rng, name, within_s) for name in rng.sample(names, count)]
    apart = generator(seed, "rooms")
    if not only and apart.randrange(1000) < ROOMS_PER_MILLE:
        found.append(_turn(apart, apart.choice(sorted(table.ROOMS)), within_s))
    refused = generator(seed, "statuses")
    if not only and has_backlog(seed) and refused.random() < STATUSES_SHARE:
        found.append(_turn(refused, table.STATUSES, MOVING_S))
    slow = generator(seed, "slow host")
    if not only and slow.randrange(1000) < SLOW_HOST_PER_MILLE:
        found.append(_turn(slow, table.SLOW_HOST, within_s))
    down = generator(seed, "member process")
    if not only and down.randrange(1000) < MEMBER_DOWN_PER_MILLE:
        found.append(_turn(down, table.MEMBER_DOWN, within_s))
    short = generator(seed, "shortage")
    if not only and short.randrange(1000) < SHORTAGE_PER_MILLE:
        found.append(_turn(short, table.SHORTAGE, within_s))
    half = generator(seed, "half done")
    if has_contest(seed) and half.random() < HALF_DONE_SHARE:
        found += [_turn(half, hostile.HALF_DONE, within_s) for _ in range(half.randint(1, 2))]
    acting = generator(seed, "hostile")
    acts = [_turn(acting, name, within_s) for name in hostile.drawn(acting, only)]
    return [*sorted(found, key=lambda turn: (turn.start_s, turn.fault)), *acts]


def _turn(rng: random.Random, name: str, within_s: float) -> Turn:
    shortest, longest = hostile.EVENTS[name].lasts_s
    start_s = rng.uniform(0.0, within_s)
    return Turn(name, round(start_s, 2), round(rng.uniform(shortest, longest), 2))
