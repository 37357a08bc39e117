"""What was last observed of one slice in one member: the input of every status fold."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from federator.model.quickly import quickly
from federator.model.shards import Ranges

MISSING: Final = "MissingDependency"
"""Reason of a slice that references an object which its cluster does not have."""
RESTORED: Final = "DriftRestored"
"""Condition of a slice of which something was restored, and reason of the Event about it."""


@dataclass(frozen=True, slots=True)
class NodesWithout:
    """Nodes of one cluster on which a daemon is not ready, for one reason."""

    why: str
    """The end of a sentence that begins with the node's name."""
    count: int
    names: tuple[str, ...]
    """The first of them."""


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """How many nodes of one cluster a daemon runs on."""

    desired: int = 0
    """Nodes that are to have a pod of it."""
    current: int = 0
    """Nodes that have one."""
    ready: int = 0
    """Nodes on which it is ready."""
    updated: int = 0
    """Nodes that have one of the present template."""
    starting: int = 0
    """Nodes that still have its start-up taint."""
    without: tuple[NodesWithout, ...] = ()
    """Where it is not ready, those that it is not to run on included; the largest groups first."""


@dataclass(frozen=True, slots=True)
class RoleFigures:
    """The pods of one component of a gang."""

    name: str
    wanted: int = 0
    active: int = 0
    """Pods that exist and have not ended."""
    ready: int = 0
    succeeded: int = 0
    failed: int = 0


class Phase(StrEnum):
    """How far the pods of a gang have come together in its cluster."""

    ADMITTING = "Admitting"
    """Its objects are made, and suspended: no pod begins."""
    RELEASED = "Released"
    """Its pods may begin; some may still wait for nodes."""
    RUNNING = "Running"
    """All its pods ran at once."""
    ROLLED_BACK = "RolledBack"
    """Some found no node for too long, and all gave theirs back; it is tried again later."""


@dataclass(frozen=True, slots=True)
class Gang:
    """How a gang stands in its cluster."""

    phase: Phase = Phase.ADMITTING
    since_s: float = 0.0
    """Since when it is in this phase, in epoch seconds; 0.0 before it was ever told."""
    attempts: int = 0
    """How often it was rolled back."""
    roles: tuple[RoleFigures, ...] = ()
    group: str = ""
    """The PodGroup by which the cluster's scheduler binds all its pods at once; "" where it binds
    them one by one."""


@dataclass(frozen=True, slots=True)
class BlockFigures:
    """One block of ordinals in one cluster."""

    low: int
    high: int
    """The last ordinal of it."""
    ready: int = 0
    updated: int = 0
    """Ordinals that have the present template."""
    actual: int = 0
    """Ordinals that exist, ready or not."""


@dataclass(frozen=True, slots=True)
class RepeatFigures:
    """The runs that one cluster makes by itself. Times are in epoch seconds, 0 for none."""

    active: int = 0
    last_s: int = 0
    """Scheduled time of its newest run."""
    done_s: int = 0
    """When a run was last completed."""
    stopped: bool = False
    """It begins no runs: its CronJob is suspended."""


@dataclass(frozen=True, slots=True)
class SliceObservation:
    """One cluster's part of a workload, as last observed.

    `known` False: the cluster has been silent lately. All figures are then the last ones and count
    as unknown, neither ready nor gone.
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
    """Replicas of the slice's present template, if the report is about that template; else 0."""
    actual: int = 0
    """Copies that exist, ready or not."""
    active: int = 0
    """Running shards."""
    idle: int = 0
    """Copies of the share that an autoscaler of the member does not ask for now. `ready`, `updated`
    and `actual` contain them: they are not missing."""
    completed: Ranges = ()
    failed: Ranges = ()
    healthy: bool | None = None
    """The member's report about the slice's natives (load balancer, ...); None without one."""
    finished: bool = False
    template: str = ""
    """Digest of the pod template that `updated` counts (`kinds.pods.podparts`); "" when unknown."""
    outdated: bool = False
    """Its content is not that of the present generation, or it pins another version of its
    RuntimeProfile. Set by the hub, which has both."""
    stalled: bool = False
    """Its rollout has made no progress within its deadline."""
    reason: str = ""
    """The first useful reason why something is not ready (CamelCase), with `message` as a sentence.
    """
    message: str = ""
    unschedulable: int = 0
    unschedulable_since_s: float = 0.0
    terminating: int = 0
    """Pods that exist in addition to `actual`: they are terminating, or the slice does not ask for
    them any more."""
    deregistered: int = 0
    """Terminating pods that have left the registry of their service, as far as they were in one."""
    surge: int = 0
    """Pods above the wanted number that a rollout of the slice may add."""
    deleting: bool = False
    drift: str = ""
    """Which native object was last restored after a change or deletion by another client, and when;
    "" for none."""
    unheard: str = ""
    """Why `known` is False although the cluster answers, as a sentence; "" when the cluster itself
    is silent."""

    nodes: NodeFigures | None = None
    """For daemons. Then the cluster is one copy, which is ready when all nodes have the daemon
    ready."""
    gang: Gang | None = None
    """For gangs, which are one shard: how its pods stand."""
    blocks: tuple[BlockFigures, ...] = ()
    """For copies with numbers."""
    repeats: RepeatFigures | None = None
    """For what the cluster runs again and again by itself."""
    broken: str = ""
    """Of shards: which pod matched a rule of the failure policy that ends the whole job set, as a
    sentence; "" for none."""
    unreadable: str = ""
    """The field of its status that violates the schema; the whole report then counts for nothing.
    """

    @property
    def updated_ready(self) -> int:
        """Copies of the present template that are certainly ready: the ready ones minus those that
        may be old.

            ready 5, updated 3, actual 6: 3 may be old -> 5 + 3 - 6 = 2 are certainly updated and
            ready
        """
        return max(0, min(self.ready, self.updated, self.ready + self.updated - self.actual))


quick_observation = quickly(SliceObservation)
"""What was observed of a slice, made quickly: one for each slice that is read."""
