"""Schema of PinterestDaemon: the models that its CRD is generated from and files are checked by."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api.common import (
    ATOMIC,
    SEQ_RULE,
    Amount,
    Count,
    IntOrPercent,
    LabelKey,
    LabelValue,
    Model,
    Sentence,
    ShortText,
    many,
    rules,
)
from federator.kinds.shared.workloadfields import (
    ClusterRow,
    PinterestKind,
    WorkloadSpec,
    WorkloadStatus,
    rows_of,
)

KIND: Final = "PinterestDaemon"
SELECTOR_LABEL: Final = "pinterest.com/daemon"
"""Label of its pods, with the workload's name as value: selector of the DaemonSet, never changed.
"""
GROUPS_MAX: Final = 3
"""Reasons for which nodes are without it, that are told of a cluster."""
NAMED_MAX: Final = 3
"""Nodes that are named for each."""

STRATEGY_RULE = (
    "(has(self.maxSurge) && self.maxSurge != 0 && self.maxSurge != '0%')"
    " ? !has(self.maxUnavailable) || self.maxUnavailable == 0 || self.maxUnavailable == '0%'"
    " : !has(self.maxUnavailable) || (self.maxUnavailable != 0 && self.maxUnavailable != '0%')",
    "either maxSurge or maxUnavailable is above 0, and not both",
)


class UpdateStrategy(Model):
    """How pods are replaced within one cluster."""

    model_config = ConfigDict(json_schema_extra=rules(STRATEGY_RULE))

    max_unavailable: IntOrPercent | None = None
    """Nodes that may be without a ready pod while replacing; 1 when left out, 0 with maxSurge."""
    max_surge: IntOrPercent | None = None
    """Nodes that may have the old and the new pod while replacing; 0 when left out."""
    min_ready_seconds: Count | None = None
    """A pod counts as available after it was ready for so long."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "UpdateStrategy":
        surges, stays = self.max_surge not in (None, 0, "0%"), self.max_unavailable in (0, "0%")
        if (stays and not surges) or (surges and not (stays or self.max_unavailable is None)):
            raise PydanticCustomError("updateStrategy", STRATEGY_RULE[1])
        return self


RESERVED_RULE = (
    "!self.key.contains('kubernetes.io/') && !self.key.startsWith('federation.pinterest.com/')",
    "taints of Kubernetes and of the federation are not taken away by a daemon",
)


class StartupTaint(Model):
    """A taint that nodes come with, and keep until the daemon is ready there."""

    model_config = ConfigDict(json_schema_extra=rules(RESERVED_RULE))

    key: LabelKey
    """Key of the taint."""
    value: LabelValue = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "NoExecute"] = "NoSchedule"
    """Its effect on pods that do not tolerate it."""

    @model_validator(mode="after")
    def _not_reserved(self) -> "StartupTaint":
        if "kubernetes.io/" in self.key or self.key.startswith("federation.pinterest.com/"):
            raise PydanticCustomError("key", RESERVED_RULE[1])
        return self


UNDIVIDED_RULE = (
    "!has(self.placement) || (!has(self.placement.division) && !has(self.placement.spread))",
    "a daemon runs on every node of every cluster that matches: placement.division and "
    "placement.spread have no"
    " meaning for it",
)
RESTART_RULE = (
    "!has(self.template.spec) || !has(self.template.spec.restartPolicy)"
    " || self.template.spec.restartPolicy == 'Always'",
    "the pods of a daemon have restartPolicy Always",
)


class Spec(WorkloadSpec):
    """What a PinterestDaemon asks for."""

    model_config = ConfigDict(json_schema_extra=rules(SEQ_RULE, UNDIVIDED_RULE, RESTART_RULE))

    update_strategy: UpdateStrategy | None = None
    """How pods are replaced within one cluster. Clusters get a new template one after the other;
    the policy's rollout.maxClustersAtOnce lets it be more.
    """

    startup_taint: StartupTaint | None = None
    """Nodes that come with this taint (of the kubelet's --register-with-taints, or of whatever
    makes nodes) lose it when the daemon is ready there. Its pods tolerate it; others wait.
    """

    @model_validator(mode="after")
    def _undivided(self) -> "Spec":
        if self.placement is not None and self.placement.model_fields_set & {"division", "spread"}:
            raise PydanticCustomError("placement", UNDIVIDED_RULE[1])
        return self


class NodesWithout(Model):
    """Nodes on which it is not ready, for one reason."""

    why: Sentence
    """Why, as the end of a sentence that begins with the node's name."""
    count: Amount = 0
    """How many."""
    names: list[ShortText] = many(NAMED_MAX)
    """The first of them."""


Groups = Annotated[list[NodesWithout], Field(max_length=GROUPS_MAX, json_schema_extra=ATOMIC)]


class Row(ClusterRow):
    """One cluster's part of a daemon."""

    desired: Amount = 0
    """Nodes that are to have it."""
    current: Amount = 0
    """Nodes that have it."""
    ready: Amount = 0
    """Nodes on which it is ready."""
    updated: Amount = 0
    """Nodes that have the current template."""
    starting: Amount = 0
    """Nodes that still have its start-up taint."""
    nodes_without: Groups = Field(default_factory=list)
    """Where it is not ready and why, nodes that it is not to run on included; the largest groups.
    """


class Status(WorkloadStatus):
    """What is reported of a PinterestDaemon: figures are nodes."""

    desired: Amount = 0
    """Nodes that are to have it, by the clusters' own word."""
    current: Amount = 0
    """Nodes that have it, ready or not."""
    updated: Amount = 0
    """Nodes that have the current template."""
    starting: Amount = 0
    """Nodes that still have its start-up taint."""
    nodes_without: Groups = Field(default_factory=list)
    """On a slice: as in a row of clusterStatuses."""
    unknown: Amount = 0
    """Nodes of unreachable clusters: neither ready nor gone."""
    cluster_statuses: rows_of(Row) = Field(default_factory=list)  # type: ignore[valid-type]
    """Per cluster."""


class PinterestDaemon(PinterestKind):
    """A pod on every node of every cluster that matches, with its ConfigMap."""

    kind: Literal["PinterestDaemon"]
    """PinterestDaemon."""
    spec: Spec
    """What is asked for."""
    status: Status | None = None
    """What is reported."""
