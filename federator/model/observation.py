"""What was last seen of one slice in one member: the input of every status fold."""

from dataclasses import dataclass
from typing import Final

from federator.model.shards import Ranges

MISSING: Final = "MissingDependency"
"""The reason of a slice that names what is not in its cluster."""


@dataclass(frozen=True, slots=True)
class SliceObservation:
    """One cluster's part of a workload, as last heard.

    `known` False means the cluster has not been heard of lately: all figures are then the last ones seen and count as
    unknown, neither ready nor gone.
    """

    cluster: str
    known: bool
    exists: bool = False
    uid: str = ""
    generation: int = 0
    observed_generation: int = 0
    seq: int = 0
    origin_generation: int = 0
    """Generation of the host's object that this slice was rendered from."""
    desired: int = 0
    ready: int = 0
    updated: int = 0
    """Replicas of the current template (for rollouts)."""
    actual: int = 0
    """Copies that exist, ready or not."""
    active: int = 0
    """Running shards."""
    completed: Ranges = ()
    failed: Ranges = ()
    healthy: bool | None = None
    """The member's own word on its natives (load balancer, ...); None when it gave none."""
    finished: bool = False
    reason: str = ""
    """The first useful reason why something is not ready (CamelCase), with `message` as a sentence."""
    message: str = ""
    unschedulable: int = 0
    unschedulable_since_s: float = 0.0
    deleting: bool = False
