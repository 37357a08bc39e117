"""A service that a policy gives to every cluster: in some seeds, its user edits the policy to and
fro, removes it and makes it anew, and scales the service now and then.

Drawn from a generator of its own: the worlds and scripts of the other seeds are the same with and
without.
"""

import random
from collections.abc import Iterator
from typing import Any

from tests.simulation.drawing import Parameters, generator

Body = dict[str, Any]
Move = tuple[float, str, str, str, str, Body]
"""Pause in seconds, and what is done to which kind, namespace and name."""
PER_MILLE = 120
"""Of all seeds, so many have such a service."""
NAMESPACE, NAME, POLICY = "ads", "everywhere", "everywhere"
SERVICE, POLICY_KIND = "PinterestService", "ClusterPlacementPolicy"
MOVES = 6
MOVE_S = (1.0, 12.0)
"""Pause before each, in seconds."""
OTHERS: tuple[Body, ...] = (
    {"strategy": "Spread"},
    {"strategy": "Pack"},
    {"strategy": "Capacity", "maxClusters": 1},
    {"strategy": "Spread", "mode": "Fresh"},
)
FIELDS = ("strategy", "mode", "maxClusters")


class Duplicates:
    """What the user of such a seed does with it."""

    def __init__(self, parameters: Parameters) -> None:
        self._rng: random.Random = generator(parameters.seed, "duplicates")
        self.any = self._rng.randrange(1000) < PER_MILLE
        """Whether this seed has one."""
        self._policy = True
        """Whether the policy is there."""

    def begin(self) -> Iterator[Move]:
        """The policy, and the service that names it."""
        if not self.any:
            return
        yield (
            0.0,
            "create",
            POLICY_KIND,
            "",
            POLICY,
            {"spec": {"division": {"strategy": "Duplicate"}}},
        )
        container = {
            "name": "app",
            "image": "app:1",
            "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}},
        }
        spec: Body = {"replicas": self._rng.randint(2, 4), "placement": {"policyRef": POLICY}}
        spec["template"] = {"spec": {"containers": [container]}}
        yield 0.1, "create", SERVICE, NAMESPACE, NAME, {"spec": spec}

    def moves(self) -> Iterator[Move]:
        """Edits, of which the last leaves a policy that can be followed."""
        for _ in range(MOVES if self.any else 0):
            yield self._move()
        if self.any and not self._policy:
            yield self._made()

    def _move(self) -> Move:
        if not self._policy:
            return self._made()
        drawn, pause_s = self._rng.random(), self._pause()
        if drawn < 0.2:
            return (
                pause_s,
                "patch",
                SERVICE,
                NAMESPACE,
                NAME,
                {"spec": {"replicas": self._rng.randint(1, 4)}},
            )
        if drawn < 0.4:
            self._policy = False
            return pause_s, "delete", POLICY_KIND, "", POLICY, {}
        division = dict.fromkeys(FIELDS) | self._division()
        return pause_s, "patch", POLICY_KIND, "", POLICY, {"spec": {"division": division}}

    def _made(self) -> Move:
        self._policy = True
        return (
            self._pause(),
            "create",
            POLICY_KIND,
            "",
            POLICY,
            {"spec": {"division": self._division()}},
        )

    def _division(self) -> Body:
        return self._rng.choice(({"strategy": "Duplicate"}, self._rng.choice(OTHERS)))

    def _pause(self) -> float:
        return round(self._rng.uniform(*MOVE_S), 3)
