"""Schema of PinterestStatefulSet: the models that its CRD is generated from and files are checked
by."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api.common import (
    IMMUTABLE,
    LIST_SET,
    SEQ_RULE,
    Amount,
    ClusterName,
    Count,
    IndexSet,
    Model,
    list_map,
    many,
    rules,
)
from federator.kinds.shared.claims import ClaimMetadata, ClaimSpec
from federator.kinds.shared.ports import ServicePort
from federator.kinds.shared.workloadfields import (
    ClusterRow,
    PinterestKind,
    WorkloadSpec,
    WorkloadStatus,
    rows_of,
)

KIND: Final = "PinterestStatefulSet"
SELECTOR_LABEL: Final = "pinterest.com/statefulset"
"""Label of its pods, with the workload's name as value: selector of its StatefulSets and of its
Service, never changed."""
BLOCK_LABEL: Final = "pinterest.com/block"
"""Label of the pods and claims of one block, with its lowest ordinal as value."""
MAX_REPLICAS: Final = 10_000


class ClaimTemplate(Model):
    """A claim that each ordinal has of its own, called TEMPLATE-NAME-BLOCK-ORDINAL."""

    metadata: ClaimMetadata
    """Name of the volume; labels and annotations of the claims."""
    spec: ClaimSpec
    """The claim: access modes, size, storage class."""


class HeadlessService(Model):
    """The headless Service of the workload's name, by which each pod has a name inside its
    cluster."""

    ports: list[ServicePort] = many(64, list_map("port", "protocol"))
    """Its ports; a headless Service needs none."""
    publish_not_ready_addresses: bool | None = None
    """True when pods are found by name before they are ready, as members that look for each other
    at the start need it."""


class UpdateStrategy(Model):
    """How pods are replaced within one cluster: one after the other, from the highest ordinal of
    each block down."""

    min_ready_seconds: Count | None = None
    """A pod counts as available after it was ready for so long."""


CLAIMS_RULE = (
    "has(self.volumeClaimTemplates) == has(oldSelf.volumeClaimTemplates)"
    " && (!has(self.volumeClaimTemplates)"
    " || self.volumeClaimTemplates == oldSelf.volumeClaimTemplates)",
    "volumeClaimTemplates are fixed: the claims that exist were made from them",
)
ONCE_RULE = (
    "!has(self.placement) || !has(self.placement.division)"
    " || !has(self.placement.division.strategy)"
    " || self.placement.division.strategy != 'Duplicate'",
    "each ordinal runs once: placement.division.strategy Duplicate cannot number copies",
)
RESTART_RULE = (
    "!has(self.template.spec) || !has(self.template.spec.restartPolicy)"
    " || self.template.spec.restartPolicy == 'Always'",
    "the pods of a stateful set have restartPolicy Always",
)


class Spec(WorkloadSpec):
    """What a PinterestStatefulSet asks for."""

    model_config = ConfigDict(
        json_schema_extra=rules(SEQ_RULE, CLAIMS_RULE, ONCE_RULE, RESTART_RULE)
    )

    replicas: Annotated[
        int, Field(ge=0, le=MAX_REPLICAS, json_schema_extra={"format": "int32"})
    ] = 1
    """Ordinals 0 to replicas - 1 over all clusters; on a slice, those of this cluster. The highest
    come and go first."""
    service: HeadlessService | None = None
    """The headless Service; without ports when left out."""
    pod_management_policy: Annotated[
        Literal["OrderedReady", "Parallel"], Field(json_schema_extra=IMMUTABLE)
    ] = "OrderedReady"
    """OrderedReady: within a block a pod starts when the one before is ready. Parallel: all at
    once. Fixed."""
    update_strategy: UpdateStrategy | None = None
    """How pods are replaced within one cluster. Clusters get a new template one after the other,
    the one with the highest ordinal first; the policy's rollout.maxClustersAtOnce lets it be
    more."""
    volume_claim_templates: list[ClaimTemplate] = many(16)
    """Claims that each ordinal has of its own. Fixed."""
    claim_retention: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the claims of ordinals that are scaled away, and of all when the workload is
    deleted. Retain: they stay, and are found again by an ordinal that comes back. Delete: they go
    with their pods."""
    release: list[ClusterName] = many(100, LIST_SET)
    """Clusters that give up their ordinals: the ordinals stop there, and begin again elsewhere,
    with empty claims, after nothing is left there. Nothing else moves an ordinal."""

    @model_validator(mode="after")
    def _once(self) -> "Spec":
        division = self.placement.division if self.placement is not None else None
        if division is not None and division.strategy == "Duplicate":
            raise PydanticCustomError("division", ONCE_RULE[1])
        return self


class Block(Model):
    """Ordinals that one native StatefulSet runs."""

    ordinals: IndexSet
    """The ordinals, such as 0-4."""
    replicas: Amount = 0
    """Ordinals that exist, ready or not."""
    ready: Amount = 0
    """Ordinals that are ready."""
    updated: Amount = 0
    """Ordinals that have the current template."""


class Row(ClusterRow):
    """One cluster's part of a stateful set."""

    ordinals: IndexSet = ""
    """The ordinals that it is given, in blocks, such as 0-4,9-11."""
    replicas: Amount = 0
    """How many these are."""
    ready: Amount = 0
    """Ordinals that are ready."""
    updated: Amount = 0
    """Ordinals that have the current template."""
    actual: Amount = 0
    """Ordinals that exist."""
    blocks: list[Block] = many(256, list_map("ordinals"))
    """Each block, as the cluster reports it."""


class Status(WorkloadStatus):
    """What is reported of a PinterestStatefulSet."""

    desired: Amount = 0
    """Ordinals asked for."""
    replicas: Amount = 0
    """Ordinals that exist, ready or not."""
    updated_replicas: Amount = 0
    """Ordinals that have the current template."""
    unknown_replicas: Amount = 0
    """Ordinals in unreachable clusters: neither ready nor gone."""
    selector: Annotated[str, Field(max_length=1024)] = ""
    """Selects the pods."""
    blocks: list[Block] = many(256, list_map("ordinals"))
    """On a slice: each block."""
    cluster_statuses: rows_of(Row) = Field(default_factory=list)  # type: ignore[valid-type]
    """Per cluster."""


class PinterestStatefulSet(PinterestKind):
    """Numbered pods with storage of their own, in blocks over clusters."""

    kind: Literal["PinterestStatefulSet"]
    """PinterestStatefulSet."""
    spec: Spec
    """What is asked for."""
    status: Status | None = None
    """What is reported."""
