"""The spec and status fields that the models of all Pinterest workload kinds share, in one place so
that they never differ.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from federator.api.common import (
    NATIVES_MAX,
    Amount,
    AnyObject,
    ClusterName,
    Conditions,
    Int32,
    Metadata,
    Model,
    ObjectName,
    PodTemplate,
    Sentence,
    ShortText,
    SliceBlock,
    TierName,
    Unschedulable,
    list_map,
    many,
    named,
    rules,
)
from federator.api.placementfields import Placement
from federator.kinds.shared.runtimefields import RuntimeFields

NAME_RULE = (
    "size(self.metadata.name) <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "a workload's name has at most 52 lower-case letters, digits and '-', beginning with a letter",
)

_FILE_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)


def _file_name(name: str) -> str:
    if not _FILE_NAME.fullmatch(name) or name in (".", ".."):
        raise PydanticCustomError(
            "file_name", "a file name has 1 to 253 letters, digits, '-', '_' and '.'"
        )
    return name


FileName = Annotated[str, AfterValidator(_file_name)]
"""Checked here only: a CEL rule over map keys exceeds the cost that API servers allow."""
ConfigMapData = Annotated[
    dict[FileName, Annotated[str, Field(max_length=524288)]], Field(max_length=64)
]


class PinterestKind(Model):
    """What every kind of ours is, whatever it asks for."""

    model_config = ConfigDict(json_schema_extra=rules(NAME_RULE))

    api_version: Literal["pinterest.com/v1beta1"]
    """pinterest.com/v1beta1."""
    kind: str
    """Its kind."""
    metadata: Metadata
    """Standard metadata."""


class WorkloadSpec(Model):
    """What every Pinterest workload says."""

    project: (
        Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")] | None
    ) = None
    """Quota account that this workload is charged to; the namespace's name when left out."""
    tier: TierName = "OnDemand"
    """Service class: Reserved before OnDemand before Preemptible."""
    priority: Int32 = 0
    """Order within the tier, higher first; bounded by the quota's maxPriority."""
    suspend: bool | None = None
    """While true, the federation leaves the workload as it is: nothing is placed, moved or changed;
    status is still reported.
    """
    runtime_profile: ObjectName | None = None
    """RuntimeProfile that gives its pods sidecars, init containers, variables and volumes;
    "default" when left out.
    """
    iam_role: Annotated[str, Field(max_length=128, pattern=r"^[-+=,.@_/a-zA-Z0-9]+$")] | None = None
    """IAM role of the pods; their service account is annotated with it."""
    config: ConfigMapData = Field(default_factory=dict)
    """Files of the ConfigMap NAME-config, mounted at /etc/pinterest/config; a change restarts the
    pods of a service.
    """
    sidecars: dict[str, AnyObject] = named(32)
    """Parameters for containers of the RuntimeProfile, by container name."""
    runtime: RuntimeFields | None = None
    """Secrets and configuration that the runtime of its pods brings, and the version of it."""
    placement: Placement | None = None
    """Where the workload may go; the best matching policy decides when left out."""
    template: PodTemplate
    """The pods."""
    slice: SliceBlock | None = None
    """Written by the federation in member clusters; refused on the host."""


class Native(Model):
    """One native object of a slice."""

    kind: ShortText = ""
    """Its kind."""
    name: ShortText = ""
    """Its name, in the namespace of the slice."""
    health: Literal["Healthy", "Progressing", "Degraded"] = "Healthy"
    """Healthy; Progressing while waiting is all that it takes; Degraded when somebody should look.
    """
    reason: ShortText = ""
    """Why it is not healthy, in CamelCase."""
    owner: ShortText | None = None
    """Of what another native object has made, the kind and name of that one, as JobSet/NAME."""


class WorkloadStatus(Model):
    """What is reported of every Pinterest workload. On the host: of all clusters together; on a
    slice: of this cluster.
    """

    observed_generation: Amount = 0
    """The newest generation that this status speaks about."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, Placed, Applied, Healthy, Reconciling, Stalled, and others."""
    ready: Amount = 0
    """Copies that are certainly ready (services), or running (jobs)."""
    placed: Amount = 0
    """Copies or shards that the decision gives to clusters."""
    clusters: Amount = 0
    """Clusters with a share."""
    summary: ShortText = ""
    """One line for tables."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why it is not ready, as a sentence."""
    reason: ShortText = ""
    """On a slice: the first useful reason why it is not ready, in CamelCase."""
    policy: ShortText = ""
    """The placement policy in force."""
    template: ShortText = ""
    """On a slice: digest of what the pods are made from that updatedReplicas counts."""
    healthy: bool | None = None
    """On a slice: whether its native objects are healthy."""
    unschedulable: Unschedulable | None = None
    """On a slice: copies that the member's scheduler has found no node for."""
    terminating_replicas: Amount = 0
    """On a slice: pods that exist in addition to those it counts, because they are terminating or
    it does not ask for them any more. They are charged to its quota account."""
    deregistered_replicas: Amount = 0
    """On a slice: terminating pods that have left the registry of their service. The others that
    terminate may still be sent requests, and are not told to end until they have left."""
    natives: list[Native] = many(NATIVES_MAX)
    """On a slice: the native objects that it was expanded to, those that are not healthy first."""


class ClusterRow(Model):
    """One cluster's part."""

    cluster: ClusterName
    """Name of the member cluster."""
    known: bool = True
    """False while the cluster is unreachable. Its figures are then the last known ones."""
    reason: ShortText = ""
    """Why it is not ready, in CamelCase."""
    message: Sentence = ""
    """Why it is not ready, as a sentence."""


def rows_of(row: Any) -> Any:
    """The type of a status' list of cluster rows."""
    return Annotated[list[row], Field(max_length=1000, json_schema_extra=list_map("cluster"))]
