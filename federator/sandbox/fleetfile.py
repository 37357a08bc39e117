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


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


class Gpus(_Strict):
    """GPUs of each node of a pool."""

    model: str
    count: Annotated[int, Field(ge=1, le=16)]


class Pool(_Strict):
    """`count` equal machines."""

    count: Annotated[int, Field(ge=1, le=5000)]
    cpu: str = "32"
    memory: str = "128Gi"
    pods: Annotated[int, Field(ge=1, le=1000)] = 110
    gpus: Gpus | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[dict[str, str]] = Field(default_factory=list)


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
        allocatable: dict[str, str] = {
            "cpu": pool.cpu,
            "memory": pool.memory,
            "pods": str(pool.pods),
        }
        labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", **pool.labels}
        if pool.gpus is not None:
            allocatable["nvidia.com/gpu"] = str(pool.gpus.count)
            labels["nvidia.com/gpu.product"] = pool.gpus.model
        result.append(
            NodePool(
                count=pool.count,
                allocatable=allocatable,
                labels=labels,
                taints=tuple(pool.taints),
                name=f"{member.name}-{index}",
            )
        )
    return result


def member_cluster(member: MemberSpec, secret: str) -> dict[str, Any]:
    """The MemberCluster object that joins it."""
    spec: dict[str, Any] = {"credentials": {"secretRef": {"name": secret}}}
    if member.taints:
        spec["taints"] = member.taints
    if member.usable is not None:
        spec["usable"] = member.usable
    if member.failover_buffer is not None:
        spec["failoverBuffer"] = member.failover_buffer
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
