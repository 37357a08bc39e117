"""What was last seen of one slice in one member: the input of every status fold."""

from dataclasses import dataclass
from typing import Final

from federator.model.shards import Ranges

MISSING: Final = "MissingDependency"
"""The reason of a slice that names what is not in its cluster."""
RESTORED: Final = "DriftRestored"
"""The condition of a slice of which something was put back, and the reason of the Event that tells it."""


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
    """Replicas of the template that the slice has now, by a report that is about that one; else 0."""
    actual: int = 0
    """Copies that exist, ready or not."""
    active: int = 0
    """Running shards."""
    completed: Ranges = ()
    failed: Ranges = ()
    healthy: bool | None = None
    """The member's own word on its natives (load balancer, ...); None when it gave none."""
    finished: bool = False
    template: str = ""
    """Digest of what the pods are made from that `updated` counts (`api.podparts`); "" where nobody says."""
    outdated: bool = False
    """What it says is not what the present generation says, or it pins another version of its RuntimeProfile: set by
    the hub, which knows both."""
    stalled: bool = False
    """Its roll-out has made no progress for the time that its deadline gives."""
    reason: str = ""
    """The first useful reason why something is not ready (CamelCase), with `message` as a sentence."""
    message: str = ""
    unschedulable: int = 0
    unschedulable_since_s: float = 0.0
    deleting: bool = False
    drift: str = ""
    """Which of its native objects was last put back after somebody changed or deleted it, and when; "" for none."""
    unheard: str = ""
    """Why `known` is False although the cluster answers, as a sentence; "" when the cluster itself is not heard."""

    unreadable: str = ""
    """The field of its status that is not what its schema allows; what it says counts for nothing."""

    @property
    def updated_ready(self) -> int:
        """Copies of the present template that are certainly ready: those that are ready less those that may be old."""
        return max(0, min(self.ready, self.updated, self.ready + self.updated - self.actual))
