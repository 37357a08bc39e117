"""Pod shapes of works: what one copy requests, and which GPU models it accepts."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from federator.model.ask import PodShape
from federator.model.resources import CPU, GPU, MEMORY, PODS, Resources
from federator.simulate.demand import Work

MIB: Final = 1 << 20
MODEL_LABEL: Final = "nvidia.com/gpu.product"
"""The node label by which GPU models are chosen."""


@dataclass(slots=True)
class Shapes:
    """The shapes of one simulation, each made once."""

    made: dict[tuple[Any, ...], PodShape] = field(default_factory=dict)
    special: dict[str, PodShape] = field(default_factory=dict)
    """By id: shapes that only a member can count."""

    def of(self, work: Work) -> PodShape:
        """The shape of one copy. What the work does not record it does not request; every copy is
        one pod.
        """
        key = (work.cpu_milli, work.memory_mib, work.gpu, work.gpu_models)
        shape = self.made.get(key)
        if shape is None:
            amounts = {
                CPU: work.cpu_milli or 0,
                MEMORY: (work.memory_mib or 0) * MIB,
                GPU: work.gpu or 0,
                PODS: 1,
            }
            shape = self.made[key] = PodShape(
                Resources(amounts), node_selector=selector(work.gpu_models)
            )
            self.note(shape)
        return shape

    def note(self, shape: PodShape) -> None:
        """A shape that was made elsewhere is in use."""
        for pod, _ in shape.pods:
            if not pod.plain:
                self.special[pod.id] = pod


def selector(models: Iterable[str]) -> str:
    """The node selector of the shapes that accept these GPU models; "" for any."""
    values = sorted(set(models))
    if not values:
        return ""
    term = {"matchExpressions": [{"key": MODEL_LABEL, "operator": "In", "values": values}]}
    return json.dumps(term, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=4096)
def models_of(shape: PodShape) -> frozenset[str]:
    """The GPU models that the shape accepts, of a gang those of its pods; empty for any."""
    if shape.parts:
        return frozenset().union(*(models_of(part.shape) for part in shape.parts))
    if not shape.node_selector:
        return frozenset()
    return frozenset(json.loads(shape.node_selector)["matchExpressions"][0]["values"])
