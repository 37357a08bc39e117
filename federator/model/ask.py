"""The Ask: what a workload wants, independent of its kind, and the policy it is placed under.

`kinds.asks` builds it from an object, a policy and a runtime profile; placement, the ledger and
explain read it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from federator.model import names, shards
from federator.model.kubernetes.taints import Toleration
from federator.model.names import WorkloadKey
from federator.model.policy import DEFAULT_POLICY, Policy
from federator.model.resources import CPU, GPU, MEMORY, ZERO, Resources
from federator.model.shards import Ranges


class Tier(StrEnum):
    """Service class; earlier ones are placed first."""

    RESERVED = "Reserved"
    ON_DEMAND = "OnDemand"
    PREEMPTIBLE = "Preemptible"


ANY_NUMBER: Final = 1 << 20
"""Copies that may be missing of a kind that never replaces copies in another cluster: a cluster
that loses it does not wait for others."""


class Unit(StrEnum):
    """What is divided: interchangeable replicas, or numbered shards."""

    REPLICAS = "replicas"
    SHARDS = "shards"


@dataclass(frozen=True, slots=True)
class PodShape:
    """One copy as the member's scheduler will see it: the effective request after runtime
    injection.

    `node_selector` is the canonical JSON of nodeSelector and required node affinity, "" for none.
    The hub cannot evaluate it; the member reports the copies that fit, by `id`.
    """

    requests: Resources
    node_selector: str = ""
    tolerations: tuple[Toleration, ...] = ()
    one_per_node: bool = False
    every_node: bool = False
    """A pod of a daemon: each node that admits it gets one, whether it has room or not. Then
    `one_per_node` is set too."""
    parts: "tuple[Component, ...]" = ()
    """A gang: all these pods together are one copy, placed in one cluster or not at all. `requests`
    is then what all of them request. Empty for a single pod."""

    @staticmethod
    def together(parts: "Iterable[Component]") -> "PodShape":
        """The shape of a gang of these pods."""
        every, total = tuple(parts), ZERO
        for part in every:
            total = total + part.shape.requests * part.count
        return PodShape(total, parts=every)

    def granted(self, counts: Sequence[int]) -> "PodShape":
        """The gang with so many pods of each component, and no choice left; without counts all
        that it asks for."""
        wanted = counts or [part.count for part in self.parts]
        return PodShape.together(
            replace(part, count=count, min=count)
            for part, count in zip(self.parts, wanted, strict=False)
        )

    @property
    def pods(self) -> "tuple[tuple[PodShape, int], ...]":
        """The single pods that one copy consists of, and how many there are of each, in the order
        in which they are given room: the largest first, which leaves the others more choice."""
        if not self.parts:
            return ((self, 1),)
        ordered = sorted(self.parts, key=lambda part: (_size(part.shape), part.name))
        return tuple((part.shape, part.count) for part in ordered if part.count > 0)

    @property
    def elastic(self) -> bool:
        """Whether the gang is content with fewer pods than it asks for."""
        return any(part.min < part.count for part in self.parts)

    @property
    def id(self) -> str:
        """Names this shape in ClusterCapacity; equal shapes have equal ids in every process."""
        amounts = ",".join(f"{name}={amount}" for name, amount in self.requests.items())
        tolerations = ";".join(sorted(repr(t) for t in self.tolerations))
        every: tuple[str, ...] = ("every node",) if self.every_node else ()
        every += tuple(
            f"{part.name} {part.count} {part.min} {part.shape.id}" for part in self.parts
        )
        return names.short_hash(
            amounts, self.node_selector, tolerations, str(self.one_per_node), *every, length=12
        )

    @property
    def plain(self) -> bool:
        """Whether the published histogram of free nodes is enough to count it."""
        return not self.node_selector and all(part.shape.plain for part in self.parts)


def _size(shape: PodShape) -> tuple[int, ...]:
    return tuple(-shape.requests[name] for name in (GPU, MEMORY, CPU))


@dataclass(frozen=True, slots=True)
class Privileges:
    """What a workload's pods need permission for. The first three are sentences that begin with a
    field's path, "" when there is nothing to object; the others are names, "" when no permission is
    needed."""

    baseline: str = ""
    """What the Pod Security level `baseline` forbids."""
    restricted: str = ""
    """What `restricted` forbids, all of `baseline` included."""
    nodes: str = ""
    """What only a `privileged` namespace may do: choose the node, or precede the nodes' own pods.
    """
    service_account: str = ""
    iam_role: str = ""
    priority_class: str = ""
    """A priority class other than that of the workload's tier."""
    hosts: tuple[tuple[str, str], ...] = ()
    """(path of the field, host name) of its doors from outside; `*` for every host."""
    service_annotations: tuple[tuple[str, str], ...] = ()
    """(path, key) of the annotations of its Services."""
    service_types: tuple[tuple[str, str], ...] = ()
    """(path, type) of its Services that are open to the outside."""
    grace: tuple[str, int] | None = None
    """(path, seconds) of the longest time that one of its pods may take to end; None where no
    template says one."""


NO_PRIVILEGES = Privileges()


@dataclass(frozen=True, slots=True)
class Component:
    """Equal pods of a workload: `count` are wanted at once, fewer than `min` are useless."""

    name: str
    shape: PodShape
    count: int
    min: int


@dataclass(frozen=True, slots=True)
class Ordinals:
    """Of a workload with numbered copies: each stays in the cluster where it began."""

    claims: bool = False
    """Each has volume claims, which exist in one cluster only."""
    released: tuple[str, ...] = ()
    """Clusters where a person gives up the ordinals: they begin again elsewhere."""


@dataclass(frozen=True, slots=True)
class Disruptions:
    """How many copies of one cluster's share may be missing at once: so many, or, without a number,
    so many of a hundred, rounded up as for a PodDisruptionBudget."""

    copies: int | None = None
    percent: int = 0

    def of(self, share: int) -> int:
        """Of a share of so many copies."""
        if self.copies is not None:
            return max(self.copies, 0)
        return -(-share * min(max(self.percent, 0), 100) // 100)


@dataclass(frozen=True, slots=True)
class Container:
    """What one container of a pod states. A limit stands for a request that is left out."""

    requests: Resources
    limits: Resources
    ends: bool = False
    """It ends before the next one begins: an init container that is no sidecar."""


@dataclass(frozen=True, slots=True)
class StatedPod:
    """A pod, container by container in the order in which they begin, runtime support included.
    LimitRanges and ResourceQuotas of members read this; room reads the shape."""

    containers: tuple[Container, ...]
    requests: Resources
    """The effective request of all of it."""
    count: int = 1
    """How many of these a copy consists of."""


MAX_FORMER: Final = 8
"""So many former accounts are charged for one workload at most."""


@dataclass(frozen=True, slots=True)
class FormerCopies:
    """Copies in one cluster that may still run as they were before an edit."""

    cluster: str
    copies: int
    ranges: Ranges = ()
    """Of shards, those among which they are; empty for replicas."""


@dataclass(frozen=True, slots=True)
class Former:
    """What an account is charged for copies that may still run in its project and tier, although an
    edit of the workload has selected another account."""

    project: str
    tier: Tier
    requests: Resources
    """Of one copy."""
    held: tuple[FormerCopies, ...]
    """By cluster."""

    @property
    def copies(self) -> int:
        return sum(held.copies for held in self.held)

    @property
    def usage(self) -> Resources:
        return self.requests * self.copies

    def without(self, done: Ranges) -> "Former":
        """The same when exactly these shards have ended."""
        if not done or not any(held.ranges for held in self.held):
            return self
        left = (_unfinished(held, done) for held in self.held)
        return replace(self, held=tuple(held for held in left if held.copies))


def _unfinished(held: FormerCopies, done: Ranges) -> FormerCopies:
    if not held.ranges:
        return held
    return replace(
        held, copies=min(held.copies, shards.size(shards.minus(shards.normal(held.ranges), done)))
    )


@dataclass(frozen=True, slots=True)
class Ask:
    """What one workload wants: `count` copies or shards, of which `slots` may run at once (equal to
    count for replicas)."""

    key: WorkloadKey
    uid: str
    generation: int
    unit: Unit
    count: int
    slots: int
    shape: PodShape
    project: str
    tier: Tier = Tier.ON_DEMAND
    priority: int = 0
    created_s: float = 0.0
    """Creation time in epoch seconds; gives the age for the queue order."""
    policy: Policy = DEFAULT_POLICY
    labels: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    """Quota admits all of it or nothing (jobs); services are admitted in part."""
    least: int = 0
    """Of one that is admitted as a whole: so many at once are enough; 0 for all."""
    suspended: bool = False
    privileges: Privileges = NO_PRIVILEGES
    project_bound: bool = True
    """Whether its namespace may claim its project: a cluster open to some projects is not opened by
    a mere claim."""
    overlaps: bool = False
    """Two copies of the same may run for a while without harm: only then it leaves a cluster that
    is merely silent."""
    exclusive: bool = False
    """No shard may run in two clusters at once: it begins elsewhere only when it is known to have
    ended where it was."""
    guarded: bool = False
    """It is exclusive, and guards in its pods stop its shards when their cluster's lease is over.
    """
    own: Resources | None = None
    """What the template's containers request, where a profile's additions raise the shape above it;
    None: same as the shape."""
    ordinals: Ordinals | None = None
    """Of copies with numbers; None for interchangeable ones and for shards."""
    run_s: int | None = None
    """Seconds after its beginning by which it has ended; None when that is not known: never."""
    needs: tuple[str, ...] = ()
    """Kinds beside its own that a cluster has to serve, as `Kind.group`."""
    disruptions: Disruptions | None = None
    """At most so many of its copies leave for others at once; None where it does not say."""
    former: tuple[Former, ...] = ()
    """Accounts that are charged in addition, until no copy runs in them any more."""
    stated: tuple[StatedPod, ...] = ()
    """What the pods of one copy state; () for an ask without a pod template."""
    ties_by_name: bool = False
    """Ties between clusters are broken by its name (`tie_break`)."""

    @property
    def tie_break(self) -> str:
        """What decides between clusters that are equally good for it, as part of a hash. By name
        the choice is known before the object exists. Mode Fresh, which divides without regard to
        what is held, goes on by the uid: else copies of older releases would move."""
        if not self.ties_by_name or self.policy.division.fresh:
            return self.uid
        return f"{self.key.kind}/{self.key.namespace}/{self.key.name}"

    @property
    def in_one(self) -> bool:
        """Whether it leaves as a whole when others need its quota: gangs, daemons, and what is
        placed with RequireAll. Replicas and shards leave one by one."""
        return bool(self.shape.parts) or self.shape.every_node or self.policy.require_all

    @property
    def at_once(self) -> int:
        """Copies that it wants to run at once."""
        return max(min(self.slots, self.count) if self.unit is Unit.SHARDS else self.count, 0)

    @property
    def components(self) -> tuple[Component, ...]:
        """The pods it consists of: those of a gang, or one component of equal pods."""
        if self.shape.parts:
            return self.shape.parts
        count = self.at_once
        return (
            Component(str(self.unit), self.shape, count, count if self.policy.require_all else 0),
        )


@dataclass(frozen=True, slots=True)
class Admitted:
    """What of a workload was admitted last, as its decision in force charges it."""

    generation: int
    """Of the workload; 0 when the decision does not say."""
    shape: PodShape
    project: str
    tier: Tier
    priority: int | None = None
    """None when the decision does not say: any priority counts as admitted."""
    count: int | None = None
    """Requested copies, or slots for shards; None when the decision does not say."""
    content: bytes = b""
    """Digest of the slice content of that generation; empty when the decision does not say."""
    former: tuple[Former, ...] = ()
    """As in the ask."""


@dataclass(frozen=True, slots=True)
class Support:
    """The RuntimeProfile of a workload. Its present version may ask for more than the version with
    which the workload was admitted."""

    profile: str
    former: PodShape | None = None
    """What one copy of the workload's present spec needs with the newest earlier version that asks
    for no more than is charged; None if no such version is known."""
