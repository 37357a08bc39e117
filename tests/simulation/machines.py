"""Machines that are not all alike, and pods that ask for some of them: only their member can say how many more of such
pods it could run, and the hub has to ask it.

Drawn from a generator of its own and only in some seeds: the worlds and scripts of the others are the same with and
without.
"""

import random
from typing import Any

from federator.embedded.fleetfile import Pool
from tests.simulation.drawing import Parameters, generator

Body = dict[str, Any]
PER_MILLE = 250
"""Of all seeds, so many have machines of two kinds."""
ASKS_PER_MILLE = 500
"""Of the workloads made in such a seed, so many ask for one kind."""
CHANGES_PER_MILLE = 300
"""Of the services rolled in such a seed, so many come to ask for another."""
LABEL = "disk"
MACHINE = {"cpu": "8", "memory": "32Gi"}
"""What each machine of a member has."""


def two_kinds(parameters: Parameters) -> bool:
    """Whether the machines of this world differ."""
    return _drawn(generator(parameters.seed, "machines"))


def _drawn(rng: random.Random) -> bool:
    return rng.randrange(1000) < PER_MILLE


def pools(parameters: Parameters) -> list[Pool]:
    """The machines of one member."""
    cpu, memory = MACHINE["cpu"], MACHINE["memory"]
    if not two_kinds(parameters):
        return [Pool(count=parameters.nodes, cpu=cpu, memory=memory)]
    kinds = {"ssd": 1, "hdd": parameters.nodes - 1}
    return [Pool(count=count, cpu=cpu, memory=memory, labels={LABEL: kind}) for kind, count in kinds.items() if count]


class Choosy:
    """Draws which pods ask for which machines."""

    def __init__(self, rng: random.Random) -> None:
        self.any = _drawn(rng)
        """Whether this seed has any."""
        self._rng = rng

    def made(self, template: Body) -> None:
        """A workload is made with this template."""
        if self.any and self._rng.randrange(1000) < ASKS_PER_MILLE:
            template["spec"].update(self._rng.choice(_WAYS))

    def rolled(self) -> Body:
        """What a merge patch of a pod's spec changes about its machines."""
        if not self.any or self._rng.randrange(1000) >= CHANGES_PER_MILLE:
            return {}
        return {"nodeSelector": {LABEL: self._rng.choice(("ssd", "hdd", None))}}


def _terms(operator: str, *values: str) -> Body:
    """A required node affinity."""
    expression = {"key": LABEL, "operator": operator} | ({"values": list(values)} if values else {})
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


ANYWHERE: Body = {"spec": {"template": {"spec": {"nodeSelector": None, "affinity": None}}}}
"""The patch with which a script ends for its services: pods that ask for what contradicts itself, or whose roll-out
finds no machine of their kind for one more, would wait for ever."""
_WAYS: tuple[Body, ...] = (
    {"nodeSelector": {LABEL: "ssd"}},
    {"nodeSelector": {LABEL: "hdd"}},
    _terms("In", "ssd", "tape"),
    _terms("NotIn", "ssd"),
    _terms("Exists"),
    {"nodeSelector": {LABEL: "tape"}},
)
"""The last of them is nowhere."""
