"""What a sandbox is made of: members with labels, taints and machines, read from a strict YAML file
or built in.

Read by `federator sandbox --fleet`, the demo and tests. Errors name the field's path.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from federator.embedded.controllers import NodePool
from federator.kinds import read
from federator.model import names
from federator.model.errors import FieldError
from federator.model.scaleup import INSTANCE_TYPE


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


class Gpus(_Strict):
    """GPUs of each node of a pool."""

    model: str
    count: Annotated[int, Field(ge=1, le=16)]


class ScaleUp(_Strict):
    """The autoscaler of a pool: it adds machines for Pending pods and removes empty ones."""

    max: Annotated[int, Field(ge=1, le=5000)]
    """Machines of the pool at most."""
    minutes: Annotated[int, Field(ge=1, le=1440)] = 2
    """Until a further machine is there."""
    price_per_hour: str | None = None
    """Of one machine."""


class Pool(_Strict):
    """`count` equal machines."""

    count: Annotated[int, Field(ge=1, le=5000)]
    cpu: str = "32"
    memory: str = "128Gi"
    pods: Annotated[int, Field(ge=1, le=1000)] = 110
    gpus: Gpus | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[dict[str, str]] = Field(default_factory=list)
    scale_up: ScaleUp | None = None


class MemberSpec(_Strict):
    """One member cluster."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[dict[str, str]] = Field(default_factory=list)
    usable: str | None = None
    failover_buffer: str | None = None
    operator: Literal["JobSet", "TrainJob"] | None = None
    """The operator with a stand-in there; TrainJob comes with JobSet."""
    gateway: bool = False
    """Serves HTTPRoutes and ServiceExports, and a stand-in takes what is written of them."""
    pod_groups: bool = False
    """Whether PodGroups are served, and heeded by its scheduler: as where Kubernetes 1.37 is
    started with the feature gate GenericWorkload."""
    nodes: Annotated[list[Pool], Field(min_length=1)]


class FleetSpec(_Strict):
    """All members of a sandbox."""

    members: Annotated[list[MemberSpec], Field(max_length=1000)]

    def member(self, name: str) -> MemberSpec:
        return next(member for member in self.members if member.name == name)


def parse(text: str) -> FleetSpec:
    """Reads a fleet file. Raises FieldError with the field's path."""
    documents = read.load_yaml(text)
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        raise FieldError(
            "", f"a fleet file holds one document with `members`, not {len(documents)}"
        )
    try:
        fleet = FleetSpec.model_validate(documents[0])
    except ValidationError as bad:
        first = bad.errors()[0]
        raise FieldError(".".join(str(part) for part in first["loc"]), first["msg"]) from None
    seen: set[str] = set()
    for index, member in enumerate(fleet.members):
        if member.name in seen:
            raise FieldError(f"members.{index}.name", f"{member.name!r} is named twice")
        seen.add(member.name)
    return fleet


def generated(count: int) -> FleetSpec:
    """`count` members over three regions with two zones each, of different sizes; what `--clusters
    N` gives."""
    regions = ("us-east-1", "us-west-2", "eu-west-1")
    members = []
    for index in range(count):
        region = regions[index % 3]
        zone = f"{region}{'ab'[index // 3 % 2]}"
        suffix = f"-{index // 6}" if index >= 6 else ""
        members.append(
            MemberSpec(
                name=f"{zone}{suffix}",
                labels={"region": region, "zone": zone},
                nodes=[
                    Pool(
                        count=8 + 4 * (index % 3),
                        cpu="32",
                        memory="128Gi",
                        labels={"family": "general"},
                    )
                ],
            )
        )
    return FleetSpec(members=members)


def resized(fleet: FleetSpec, count: int) -> FleetSpec:
    """A fleet of `count` members with the machines of this one: members are repeated under further
    names, or, where there are fewer, those that stay have so many times the machines that what
    fitted before still does."""
    here = len(fleet.members)
    times = -(-here // count) if count < here else 1
    members = []
    for index in range(count):
        base = fleet.members[index % here]
        name = base.name if index < here else f"{base.name}-{index // here}"
        nodes = [
            pool.model_copy(update={"count": min(pool.count * times, 5000)}) for pool in base.nodes
        ]
        members.append(base.model_copy(update={"name": name, "nodes": nodes}))
    return FleetSpec(members=members)


def pools(member: MemberSpec) -> Sequence[NodePool]:
    """The machines as the embedded kubelets take them."""
    result = []
    for index, pool in enumerate(member.nodes):
        allocatable = _allocatable(pool)
        labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", **pool.labels}
        if pool.scale_up is not None:
            labels[INSTANCE_TYPE] = _class_of(member, index, pool)
        if pool.gpus is not None:
            labels["nvidia.com/gpu.product"] = pool.gpus.model
        result.append(
            NodePool(
                count=pool.count,
                allocatable=allocatable,
                labels=labels,
                taints=tuple(pool.taints),
                name=f"{member.name}-{index}",
                most=pool.scale_up.max if pool.scale_up is not None else None,
                start_s=pool.scale_up.minutes * 60.0 if pool.scale_up is not None else None,
            )
        )
    return result


def _allocatable(pool: Pool) -> dict[str, str]:
    amounts = {"cpu": pool.cpu, "memory": pool.memory, "pods": str(pool.pods)}
    return amounts if pool.gpus is None else amounts | {"nvidia.com/gpu": str(pool.gpus.count)}


def _class_of(member: MemberSpec, index: int, pool: Pool) -> str:
    """The instance type of the machines of a pool that can grow."""
    return pool.labels.get(INSTANCE_TYPE, f"{member.name}-{index}")


def _scale_up(member: MemberSpec) -> list[dict[str, Any]]:
    """What the MemberCluster states of its autoscaler."""
    classes = []
    for index, pool in enumerate(member.nodes):
        if pool.scale_up is None:
            continue
        stated: dict[str, Any] = {
            "name": _class_of(member, index, pool),
            "shape": _allocatable(pool),
            "max": pool.scale_up.max,
            "minutes": pool.scale_up.minutes,
        }
        if pool.scale_up.price_per_hour is not None:
            stated["pricePerHour"] = pool.scale_up.price_per_hour
        if pool.labels:
            stated["labels"] = dict(pool.labels)
        if pool.taints:
            stated["taints"] = list(pool.taints)
        classes.append(stated)
    return classes


def member_cluster(member: MemberSpec, secret: str) -> dict[str, Any]:
    """The MemberCluster object that joins it."""
    spec: dict[str, Any] = {"credentials": {"secretRef": {"name": secret}}}
    if member.taints:
        spec["taints"] = member.taints
    if member.usable is not None:
        spec["usable"] = member.usable
    if member.failover_buffer is not None:
        spec["failoverBuffer"] = member.failover_buffer
    if classes := _scale_up(member):
        spec["scaleUp"] = classes
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {
            "name": member.name,
            "labels": member.labels,
            "finalizers": [names.CLUSTER_FINALIZER],
        },
        "spec": spec,
    }
