"""PlacementPolicy (of one namespace) and ClusterPlacementPolicy (of all): schema and conversion to
the core's policy."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from federator.api import placementfields, raw
from federator.api.common import (
    ATOMIC,
    LIST_SET,
    Amount,
    Conditions,
    DnsLabel,
    FederationObject,
    Labels,
    Model,
    ObjectName,
    Owner,
    Sentence,
    many,
)
from federator.api.placement import affinityfields, overridefields
from federator.api.placement.affinityfields import WorkloadAffinityFields
from federator.api.placement.overridefields import Overrides
from federator.api.placementfields import PolicyFields
from federator.api.raw import Obj
from federator.model.errors import FieldError
from federator.model.policy import Demand, Policy

KIND: Final = "PlacementPolicy"
CLUSTER_KIND: Final = "ClusterPlacementPolicy"
REQUIRED: Final = "Required"
IN_FORCE: Final = "InForce"
"""The condition of a PlacementPolicy that is not in force; there is none on the others."""
KindName = Literal[
    "PinterestService",
    "PinterestJobSet",
    "PinterestCronJob",
    "PinterestDaemon",
    "PinterestNativeCronJob",
    "PinterestTrainingJob",
    "PinterestTrainingJob",
    "PinterestStatefulSet",
    "Deployment",
]


class Workloads(Model):
    """Which workloads a policy speaks for; what is left out does not restrict."""

    names: list[ObjectName] = many(1000, LIST_SET)
    """Only workloads with these names."""
    kinds: list[KindName] = many(16, LIST_SET)
    """Only these kinds."""
    match_labels: Labels = Field(default_factory=dict)
    """Only workloads with these labels."""
    projects: list[Annotated[str, Field(max_length=63)]] = many(256, LIST_SET)
    """Only workloads of these projects."""


class ClusterWorkloads(Workloads):
    """Which workloads a policy of all namespaces speaks for; what is left out does not restrict.
    Labels and the project of a workload are what its owner writes: for a Required policy, select by
    namespaces or projects."""

    namespaces: list[DnsLabel] = many(1000, LIST_SET)
    """Only workloads of these namespaces."""


class Spec(PolicyFields):
    """What the policy says."""

    workloads: Workloads | None = None
    """Workloads that the policy applies to when they name none; all when left out."""
    priority: Annotated[
        int, Field(ge=-1_000_000, le=1_000_000, json_schema_extra={"format": "int32"})
    ] = 0
    """If several policies select a workload, the highest priority takes effect, then a policy with
    `workloads.names`, then the first policy by name."""
    workload_affinity: WorkloadAffinityFields | None = None
    """Near which other workloads of the namespace copies go, and from which they stay away, by
    label."""
    overrides: Overrides = Field(default_factory=list)
    """What differs in the slices of some clusters: image, command, environment, labels and more.
    Entries are applied in order, those of Required policies after those of the workload's own
    policy. Never requests, limits or anything else that placement depends on."""


class ClusterSpec(Spec):
    """What the policy says."""

    workloads: ClusterWorkloads | None = None
    """Workloads that the policy applies to when they name none; all when left out. A Required
    policy applies to them whatever they name: there projects are those that a namespace is bound to
    by a FederatedQuota, and those that a workload claims."""
    enforcement: Literal["Default", "Required"] | None = None
    """Default (when left out): for workloads that say nothing else. Required: joined by AND to
    whatever policy a workload has. Then clusters must be admitted by both, division.minPerCluster,
    maxPerCluster and maxClusters are the stricter ones, division.perCluster and spread rules are
    added, its clusters.preferences and workloadAffinity do not count, and of taints that people set
    only those are tolerated that tolerations of this policy allow as well: none when it has
    none."""
    owner: Owner | None = None
    """The owner of the policy, shown where the policy refuses something."""


class ClusterStatus(Model):
    """How the policy stands, as the hub last saw it."""

    observed_generation: Amount | None = None
    """Generation of the policy that this is about."""
    matched: Amount | None = None
    """Workloads that follow the policy: as their own, or because it is Required."""
    unknown: Annotated[list[Sentence], Field(max_length=32, json_schema_extra=ATOMIC)] | None = None
    """Names and labels in the policy that no cluster has, each with its field."""
    conflicts: Annotated[list[Sentence], Field(max_length=8, json_schema_extra=ATOMIC)] | None = (
        None
    )
    """Other policies that select a workload of this one with the same precedence: only the names of
    the policies decide which is taken."""


class Status(ClusterStatus):
    """How the policy stands, as the hub last saw it."""

    conditions: Conditions = Field(default_factory=list)
    """InForce: False with TooManyPolicies on those of a namespace that are beyond the oldest 200 (a
    setting of the hub); no condition on the others."""


class PlacementPolicy(FederationObject):
    """Where the workloads of its namespace may go, and how their copies are divided."""

    kind: Literal["PlacementPolicy"]
    """PlacementPolicy."""
    spec: Spec
    """What the policy says."""
    status: Status | None = None
    """What is said of it."""


class ClusterPlacementPolicy(FederationObject):
    """Where workloads of all namespaces may go: by default, or always (enforcement Required)."""

    kind: Literal["ClusterPlacementPolicy"]
    """ClusterPlacementPolicy."""
    spec: ClusterSpec
    """What the policy says."""
    status: ClusterStatus | None = None
    """What is said of it."""


def to_policy(obj: Obj, origin: str) -> Policy:
    """The policy as the core reads it; `origin` tells how it was found (policyRef, match)."""
    name = raw.text(obj, "metadata", "name")
    spec = raw.mapping(obj, "spec")
    fields = affinityfields.to_fields(spec, placementfields.to_policy_fields(spec))
    if fields["problem"]:
        fields["problem"] = f"policy {name}: spec.{fields['problem']}"
    return Policy(
        name=name,
        namespace=raw.text(obj, "metadata", "namespace"),
        uid=raw.text(obj, "metadata", "uid"),
        generation=raw.integer(obj, "metadata", "generation"),
        origin=origin,
        overrides=overridefields.to_overrides(spec, _title(obj)),
        **fields,
    )


def _title(obj: Obj) -> str:
    """Kind and name of a policy, as messages name it."""
    name, namespace = (raw.text(obj, "metadata", field) for field in ("name", "namespace"))
    return f"{KIND} {namespace}/{name}" if namespace else f"{CLUSTER_KIND} {name}"


def rule_fields(kind: str, obj: Obj) -> dict[str, Any]:
    """The fields of the core's `Rule`: which workloads it speaks for, and its policy. Total: an
    unreadable one matches as written, and its policy has a `problem`."""
    matched = matching({**obj, "kind": kind})
    try:
        policy = to_policy(obj, "match")
    except FieldError as bad:
        meta = obj["metadata"]
        policy = Policy(
            name=meta["name"],
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            generation=meta.get("generation", 0),
            origin="match",
            problem=f"policy {meta['name']}: {bad}",
        )
    return {"policy": policy, **matched}


_DEMANDED: Final = (
    "names",
    "exclude",
    "selector",
    "tolerations",
    "spread",
    "moves",
    "conditions",
)
"""What a Required policy asks for beside bounds."""

UNKNOWN_MAX: Final = 32
SENTENCE_MAX: Final = 1024


def to_status(
    generation: int, matched: int, unknown: Sequence[str], conflicts: Sequence[str]
) -> dict[str, Any]:
    """The fields of a status beside its conditions; what there is nothing of is left out."""
    fields: dict[str, Any] = {"observedGeneration": generation, "matched": matched}
    if unknown:
        fields["unknown"] = [each[:SENTENCE_MAX] for each in unknown[:UNKNOWN_MAX]]
    if conflicts:
        fields["conflicts"] = [each[:SENTENCE_MAX] for each in conflicts]
    return fields


def to_demand(obj: Obj) -> Demand | None:
    """What a Required policy asks for; None for one that is not Required."""
    spec = raw.mapping(obj, "spec")
    if raw.text(obj, "kind") != CLUSTER_KIND or raw.text(spec, "enforcement") != REQUIRED:
        return None
    fields = placementfields.to_policy_fields(spec)
    division = fields["division"]
    team, contact = (raw.text(spec, "owner", part) for part in ("team", "contact"))
    name, problem = raw.text(obj, "metadata", "name"), fields["problem"]
    return Demand(
        name=name,
        problem=f"Required policy {name}: spec.{problem}" if problem else "",
        generation=raw.integer(obj, "metadata", "generation"),
        owner=", ".join(part for part in (team, contact) if part),
        min_per_cluster=division.min_per_cluster,
        max_per_cluster=division.max_per_cluster,
        max_clusters=division.max_clusters,
        per_cluster=division.per_cluster,
        overrides=overridefields.to_overrides(spec, _title(obj)),
        **{field: fields[field] for field in _DEMANDED},
    )


def matching(obj: Obj) -> dict[str, Any]:
    """Keyword arguments of `placement.policy.policies.Rule` next to the policy: the workloads that
    it matches, its priority, and what it demands."""
    workloads = raw.mapping(obj, "spec", "workloads")
    return {
        "namespaces": frozenset(raw.texts(workloads, "namespaces")),
        "created_s": raw.epoch_s(raw.text(obj, "metadata", "creationTimestamp")),
        "demand": to_demand(obj),
        "names": frozenset(raw.texts(workloads, "names")),
        "kinds": frozenset(raw.texts(workloads, "kinds")),
        "match_labels": raw.text_map(workloads, "matchLabels"),
        "projects": frozenset(raw.texts(workloads, "projects")),
        "priority": raw.integer(obj, "spec", "priority"),
        "cluster_wide": raw.text(obj, "kind") == CLUSTER_KIND,
    }
