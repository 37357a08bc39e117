"""What one seed means: the size of its world, the chances of its faults and the pace of its user.

Drawn once before a run starts, from generators of their own, so that one more draw elsewhere changes nothing here.
Printed with every failure.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from federator.embedded.faults import FAULTS

MOST_PER_MILLE: Mapping[str, int] = {
    "crash-before-write": 80,
    "crash-after-write": 80,
    "lost-reply": 100,
    "conflict": 200,
    "watch-reset": 300,
}
"""The highest chance of each fault, in a thousand requests that it can befall."""

CRASHES = frozenset(name for name in FAULTS if name.startswith("crash-"))
MEMBER_CRASH_PER_MILLE = 3
"""Member processes write more than the hub does; they die less often."""


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
    """Chance of each fault in a thousand requests of the hub."""
    member: Mapping[str, int]
    """The same for the member processes."""

    def without_faults(self) -> "Parameters":
        return replace(self, hub={}, member={})

    def calm(self, *, quota_cpu: int) -> "Parameters":
        """The same without faults, and with this quota."""
        return replace(self.without_faults(), quota_cpu=quota_cpu)

    def text(self) -> str:
        """One line that says everything drawn."""
        faults = " ".join(f"{name}={self.hub[name]}/{self.member.get(name, 0)}" for name in self.hub)
        return (
            f"seed {self.seed}: {self.members} members of {self.nodes} nodes, {self.steps} actions with pauses up to"
            f" {self.pause_s:g} s, restarts within {self.restart_s:g} s, quota of {self.quota_cpu} cpus (0: none),"
            f" faults per mille of hub/members: {faults or 'none'}"
        )


def generator(seed: int, purpose: str) -> random.Random:
    """The generator of one purpose under one seed."""
    return random.Random(f"{seed}/{purpose}")


def draw(seed: int) -> Parameters:
    """The parameters of a seed. A quarter of the faults are left out of each world, so that others get time to bite."""
    rng = generator(seed, "parameters")
    hub = {name: rng.randint(1, most) if rng.random() < 0.75 else 0 for name, most in MOST_PER_MILLE.items()}
    member = {
        name: (rng.randint(0, MEMBER_CRASH_PER_MILLE) if name in CRASHES else chance // 2)
        for name, chance in hub.items()
    }
    return Parameters(
        seed=seed,
        members=rng.randint(2, 3),
        nodes=rng.randint(2, 3),
        steps=rng.randint(6, 14),
        pause_s=rng.choice((0.05, 1.0, 4.0, 8.0)),
        restart_s=rng.choice((0.1, 2.0, 10.0)),
        quota_cpu=rng.choice((0, 0, 4, 8)),
        hub=hub,
        member=member,
    )
