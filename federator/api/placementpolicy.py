"""PlacementPolicy (of one namespace) and ClusterPlacementPolicy (of all): schema and conversion to the core's
policy."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from federator.api import placementfields, raw
from federator.api.common import LIST_SET, Labels, Metadata, Model
from federator.api.placementfields import PolicyFields
from federator.api.raw import Obj
from federator.model.ask import Policy

KIND: Final = "PlacementPolicy"
CLUSTER_KIND: Final = "ClusterPlacementPolicy"
KindName = Literal[
    "PinterestService",
    "PinterestJobSet",
    "PinterestCronJob",
    "PinterestDaemon",
    "PinterestTrainingJob",
    "PinterestStatefulSet",
    "Deployment",
]


class Workloads(Model):
    """Which workloads a policy speaks for; what is left out does not restrict."""

    kinds: Annotated[list[KindName], Field(max_length=16, json_schema_extra=LIST_SET)] = Field(default_factory=list)
    """Only these kinds."""
    match_labels: Labels = Field(default_factory=dict)
    """Only workloads with these labels."""
    projects: Annotated[
        list[Annotated[str, Field(max_length=63)]], Field(max_length=256, json_schema_extra=LIST_SET)
    ] = Field(default_factory=list)
    """Only workloads of these projects."""


class Spec(PolicyFields):
    """What the policy says."""

    workloads: Workloads | None = None
    """Workloads that the policy applies to when they name none; all when left out."""
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000, json_schema_extra={"format": "int32"})] = 0
    """Of several policies that apply, the one with the highest priority is taken, then the first by name."""


class PlacementPolicy(Model):
    """Where the workloads of its namespace may go, and how their copies are divided over clusters."""

    api_version: Literal["federation.pinterest.com/v1alpha1"]
    """federation.pinterest.com/v1alpha1."""
    kind: Literal["PlacementPolicy"]
    """PlacementPolicy."""
    metadata: Metadata
    """Standard metadata."""
    spec: Spec
    """What the policy says."""


class ClusterPlacementPolicy(Model):
    """Where workloads of all namespaces may go, unless a PlacementPolicy of their namespace applies."""

    api_version: Literal["federation.pinterest.com/v1alpha1"]
    """federation.pinterest.com/v1alpha1."""
    kind: Literal["ClusterPlacementPolicy"]
    """ClusterPlacementPolicy."""
    metadata: Metadata
    """Standard metadata."""
    spec: Spec
    """What the policy says."""


def to_policy(obj: Obj, origin: str) -> Policy:
    """The policy as the core reads it; `origin` tells how it was found (policyRef, match)."""
    return Policy(
        name=raw.text(obj, "metadata", "name"),
        namespace=raw.text(obj, "metadata", "namespace"),
        uid=raw.text(obj, "metadata", "uid"),
        generation=raw.integer(obj, "metadata", "generation"),
        origin=origin,
        **placementfields.to_policy_fields(raw.mapping(obj, "spec")),
    )


def matching(obj: Obj) -> dict[str, Any]:
    """Keyword arguments of `placement.policies.Rule` beside the policy: for whom it speaks, and with which priority."""
    workloads = raw.mapping(obj, "spec", "workloads")
    return {
        "kinds": frozenset(raw.texts(workloads, "kinds")),
        "match_labels": raw.text_map(workloads, "matchLabels"),
        "projects": frozenset(raw.texts(workloads, "projects")),
        "priority": raw.integer(obj, "spec", "priority"),
        "cluster_wide": raw.text(obj, "kind") == CLUSTER_KIND,
    }
