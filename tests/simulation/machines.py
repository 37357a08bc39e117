"""Machines that are not all alike, and pods that ask for some of them: only their member can say
how many more of such pods it could run, and the hub has to ask it.

Drawn from a generator of its own and only in some seeds: the worlds and scripts of the others are
the same with and without.
"""

from typing import Any

from federator.sandbox.fleetfile import Pool
from tests.simulation.drawing import Parameters, generator, two_kinds

Body = dict[str, Any]
ASKS_PER_MILLE = 500
"""Of the workloads made in such a seed, so many ask for one kind."""
CHANGES_PER_MILLE = 300
"""Of the services rolled in such a seed, so many come to ask for another."""
LABEL = "disk"
MACHINE = {"cpu": "8", "memory": "32Gi"}
"""What each machine of a member has."""


def pools(parameters: Parameters) -> list[Pool]:
    """The machines of one member."""
    cpu, memory = MACHINE["cpu"], MACHINE["memory"]
    if not parameters.two_kinds:
        return [Pool(count=parameters.nodes, cpu=cpu, memory=memory)]
    kinds = {"ssd": 1, "hdd": parameters.nodes - 1}
    return [
        Pool(count=count, cpu=cpu, memory=memory, labels={LABEL: kind})
        for kind, count in kinds.items()
        if count
    ]


class Choosy:
    """Draws which pods ask for which machines."""

    def __init__(self, parameters: Parameters) -> None:
        self.any = parameters.two_kinds
        """Whether this world has machines to ask for."""
        self._rng = generator(parameters.seed, "machines")
        two_kinds(self._rng)  # its first draw has said so

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
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


ANYWHERE: Body = {"spec": {"template": {"spec": {"nodeSelector": None, "affinity": None}}}}
"""The patch with which a script ends for its services: pods that ask for what contradicts itself,
or whose roll-out finds no machine of their kind for one more, would wait for ever.
"""
_WAYS: tuple[Body, ...] = (
    {"nodeSelector": {LABEL: "ssd"}},
    {"nodeSelector": {LABEL: "hdd"}},
    _terms("In", "ssd", "tape"),
    _terms("NotIn", "ssd"),
    _terms("Exists"),
    {"nodeSelector": {LABEL: "tape"}},
)
"""The last of them is nowhere."""
