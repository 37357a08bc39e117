"""The fields of a placement policy, as policies and workloads (inline) spell them, and their
conversion to the core's values.

Used by `placementpolicy` and by the models of the workload kinds. Conversions are total: they read
what an API server holds.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import clusterchoice, movefields, raw
from federator.api.clusterchoice import ClusterChoice, Selector, selector_of
from federator.api.common import (
    LIST_SET,
    Amount,
    ClusterName,
    Count,
    DnsLabel,
    LabelKey,
    LabelValue,
    Model,
    ObjectName,
    list_map,
    many,
    rules,
)
from federator.api.movefields import FailoverFields, MoveBudgetFields
from federator.api.raw import Obj
from federator.model.bounds import PerCluster
from federator.model.errors import FieldError
from federator.model.kubernetes import taints
from federator.model.kubernetes.taints import Toleration
from federator.model.policy import Division, Group, MoveBudget, Policy, SpreadRule, Strategy, Weight
from federator.model.scaleup import scale_up_of


class TolerationFields(Model):
    """What a pod tolerates of the nodes' taints."""

    key: Annotated[str, Field(max_length=317)] = ""
    """Key of the taint; empty with Exists for every taint."""
    operator: Literal["Equal", "Exists"] | None = None
    """Equal (the default) compares the value, Exists does not."""
    value: LabelValue = ""
    """Value of the taint, for Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; every effect when left out."""
    toleration_seconds: Amount | None = None
    """How long NoExecute is tolerated, in seconds; for ever when left out."""

    @model_validator(mode="after")
    def _as_kubernetes(self) -> Self:
        try:
            taints.toleration_from_dict(self.model_dump(by_alias=True, exclude_none=True))
        except FieldError as error:
            raise PydanticCustomError("toleration", "{problem}", {"problem": str(error)}) from None
        return self


SECONDS_RULE = (
    "!has(self.tolerationSeconds) || !has(self.effect) || self.effect == 'NoExecute'",
    "tolerationSeconds is for taints with effect NoExecute",
)


class ClusterTolerationFields(TolerationFields):
    """Lets work go to clusters with a matching taint, and stay there."""

    model_config = ConfigDict(json_schema_extra=rules(SECONDS_RULE))

    toleration_seconds: Amount | None = None
    """How long work stays on a cluster with a NoExecute taint, in seconds from the taint's
    timeAdded; for ever when left out. Then it leaves within the move budget. Meanwhile the cluster
    takes no new work."""

    @model_validator(mode="after")
    def _for_no_execute(self) -> Self:
        if self.toleration_seconds is not None and self.effect not in (None, "NoExecute"):
            raise PydanticCustomError("toleration", SECONDS_RULE[1])
        return self


DOMAINS_RULE = (
    "!has(self.maxDomains) || !has(self.minDomains) || self.minDomains <= self.maxDomains",
    "minDomains must not be above maxDomains",
)


class SpreadFields(Model):
    """Bounds how unevenly copies may lie over the values of one cluster label."""

    model_config = ConfigDict(json_schema_extra=rules(DOMAINS_RULE))

    topology_key: LabelKey
    """The cluster label with the domains as values, such as zone or region."""
    min_domains: Annotated[int, Field(ge=1, le=1000, json_schema_extra={"format": "int32"})] = 1
    """At least this many domains are used."""
    max_domains: (
        Annotated[int, Field(ge=1, le=1000, json_schema_extra={"format": "int32"})] | None
    ) = None
    """At most this many domains are used: those that hold copies of the workload first, then those
    with most room. With DoNotSchedule nothing is placed while fewer than minDomains have room."""
    max_skew: Count = 0
    """Largest difference of copies between two eligible domains; 0 for no bound."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "ScheduleAnyway"
    """DoNotSchedule keeps copies back, ScheduleAnyway takes the least violation and reports it."""

    @model_validator(mode="after")
    def _domains_fit(self) -> Self:
        if self.max_domains is not None and self.min_domains > self.max_domains:
            raise PydanticCustomError("spread", DOMAINS_RULE[1])
        return self


class WeightFields(Model):
    """A weight for the clusters it names or selects."""

    weight: Annotated[int, Field(ge=0, le=1_000_000, json_schema_extra={"format": "int32"})]
    """Share relative to the other weights; 0 gives nothing."""
    names: list[ClusterName] = many(1000, LIST_SET)
    """Clusters by name."""
    selector: Selector | None = None
    """Clusters by label."""


class GroupFields(Model):
    """One of several ordered groups of clusters."""

    name: DnsLabel
    """Name of the group, for verdicts."""
    names: list[ClusterName] = many(1000, LIST_SET)
    """Clusters by name."""
    selector: Selector | None = None
    """Clusters by label."""


MOST_PATTERN = "^(100|[1-9]?[0-9])%$"
PER_CLUSTER_RULES = (
    ("has(self.cluster) != has(self.selector)", "say either cluster or selector"),
    ("has(self.min) || has(self.max)", "say min, max or both"),
    (
        "!has(self.min) || !has(self.max) || type(self.max) != int || self.min <= int(self.max)",
        "min must not be above max",
    ),
)


def _most(value: int | str) -> int | str:
    if isinstance(value, int) and not 0 <= value <= 1_000_000:
        raise PydanticCustomError("most", "a number of copies is from 0 to 1000000")
    if isinstance(value, str) and not re.fullmatch(MOST_PATTERN, value, re.ASCII):
        raise PydanticCustomError("most", "a percentage is from 0% to 100%")
    return value


class ClusterBounds(Model):
    """Bounds on the copies of one cluster, or of each cluster with these labels."""

    model_config = ConfigDict(json_schema_extra=rules(*PER_CLUSTER_RULES))

    cluster: ClusterName | None = None
    """The cluster, by name."""
    selector: Selector | None = None
    """Clusters by label. The bounds hold for each of them, not for their sum."""
    min: Count | None = None
    """A cluster that joins gets at least this many copies, or none."""
    max: (
        Annotated[
            int | str,
            AfterValidator(_most),
            Field(json_schema_extra={"x-federator-pattern": MOST_PATTERN, "minimum": 0}),
        ]
        | None
    ) = None
    """A cluster gets at most this many copies: a number, or a percentage of the workload's copies
    (of the parallelism of a job set), rounded down. A percentage above 0% allows at least one."""

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        if (self.cluster is None) == (self.selector is None):
            raise PydanticCustomError("perCluster", PER_CLUSTER_RULES[0][1])
        if self.min is None and self.max is None:
            raise PydanticCustomError("perCluster", PER_CLUSTER_RULES[1][1])
        if self.min is not None and isinstance(self.max, int) and self.min > self.max:
            raise PydanticCustomError("perCluster", PER_CLUSTER_RULES[2][1])
        return self


BOUNDS_RULE = (
    "!has(self.maxPerCluster) || !has(self.minPerCluster)"
    " || self.minPerCluster <= self.maxPerCluster",
    "minPerCluster must not be above maxPerCluster",
)


class DivisionFields(Model):
    """How copies are divided over the chosen clusters."""

    model_config = ConfigDict(json_schema_extra=rules(BOUNDS_RULE))

    strategy: Literal["Duplicate", "Weighted", "Capacity", "Pack", "Spread"] = "Capacity"
    """Duplicate gives every cluster all copies; Weighted divides by weights, Capacity by free room,
    Spread evenly; Pack uses as few clusters as it can."""
    min_per_cluster: Count = 0
    """A cluster that joins gets at least this many; one that holds copies may have fewer only when
    all that take part are down to it and fewer still are wanted, because nobody is moved for it."""
    max_per_cluster: Count | None = None
    """A cluster gets at most this many."""
    mode: Literal["Steady", "Fresh"] = "Steady"
    """Steady moves as little as possible, Fresh divides anew at every change."""
    weights: list[WeightFields] = many(64)
    """Weights for Weighted; clusters that none of them names get nothing. Without weights all count
    alike."""
    groups: list[GroupFields] = many(16, list_map("name"))
    """Ordered groups of clusters: the next is used only for what the earlier ones cannot take."""
    max_clusters: (
        Annotated[int, Field(ge=1, le=1000, json_schema_extra={"format": "int32"})] | None
    ) = None
    """At most this many clusters."""
    per_cluster: list[ClusterBounds] = many(64)
    """Bounds of single clusters, by name or label, in addition to minPerCluster and maxPerCluster.
    Of all bounds that hold for a cluster the strictest counts."""

    @model_validator(mode="after")
    def _bounds_fit(self) -> "DivisionFields":
        if self.max_per_cluster is not None and self.min_per_cluster > self.max_per_cluster:
            raise PydanticCustomError("bounds", BOUNDS_RULE[1])
        return self


class Rollout(Model):
    """How a changed template travels over the clusters."""

    max_clusters_at_once: (
        Annotated[int, Field(ge=1, le=1000, json_schema_extra={"format": "int32"})] | None
    ) = None
    """A changed template reaches this many clusters, and the next ones when these are healthy; all
    at once when left out."""


class PolicyFields(Model):
    """What a policy says about where work may go and how it is divided."""

    clusters: ClusterChoice | None = None
    """Which clusters may be used; all ready ones when left out."""
    tolerations: list[ClusterTolerationFields] = many(32)
    """Taints of clusters that this work accepts."""
    spread: list[SpreadFields] = many(8, list_map("topologyKey"))
    """Ordered bounds on how copies lie over domains."""
    division: DivisionFields | None = None
    """How copies are divided; by free capacity when left out."""
    partial: Literal["Allow", "RequireAll"] | None = None
    """Allow (the default) places what fits, RequireAll everything or nothing."""
    rollout: Rollout | None = None
    """How a changed template travels over the clusters."""
    on_policy_change: Literal["Reconcile", "Lazy"] | None = None
    """What becomes of running copies when the policy, or a label it reads, is edited: Reconcile
    (the default) moves them within the move budget, Lazy leaves them where they are until somebody
    asks: federator rebalance."""
    move_budget: MoveBudgetFields | None = None
    """How fast copies move; 10% a minute when left out, and never fewer than 100 copies."""
    failover: FailoverFields | None = None
    """When copies leave a cluster that is lost, and whether they come back."""
    scale_up: Literal["Never", "WhenShort", "Prefer"] | None = None
    """Whether nodes that a cluster can add (its spec.scaleUp) count as room. WhenShort (the
    default): when no free room is left. Prefer: like free room. Never: they do not."""


class Placement(PolicyFields):
    """Where a workload may go: the name of a policy, or the fields of one written here."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.policyRef) || (!has(self.clusters) && !has(self.tolerations)"
                " && !has(self.spread) && !has(self.division) && !has(self.partial)"
                " && !has(self.rollout) && !has(self.onPolicyChange) && !has(self.moveBudget)"
                " && !has(self.failover) && !has(self.scaleUp))",
                "policyRef and inline fields of a policy exclude each other",
            )
        )
    )

    policy_ref: ObjectName | None = None
    """Name of a PlacementPolicy of this namespace, else of a ClusterPlacementPolicy."""

    @model_validator(mode="after")
    def _one_or_the_other(self) -> "Placement":
        if self.policy_ref is not None and len(self.model_fields_set) > 1:
            raise PydanticCustomError(
                "placement", "policyRef and inline fields of a policy exclude each other"
            )
        return self


def to_policy_fields(fields: Obj) -> dict[str, Any]:
    """The keyword arguments of a `Policy` from policy fields; entries that mean nothing are left
    out."""
    clusters = raw.mapping(fields, "clusters")
    conditions, preferences, problem = clusterchoice.conditions_of(clusters)
    rollout = raw.integer(fields, "rollout", "maxClustersAtOnce")
    return {
        "names": raw.texts(clusters, "names"),
        "exclude": raw.texts(clusters, "exclude"),
        "selector": selector_of(clusters.get("selector")),
        "tolerations": tolerations_of(fields.get("tolerations")),
        "spread": tuple(_spread(rule) for rule in raw.objects(fields, "spread")),
        "division": _division(raw.mapping(fields, "division")),
        "require_all": raw.text(fields, "partial") == "RequireAll",
        "max_clusters_at_once": rollout if rollout > 0 else None,
        "lazy": raw.text(fields, "onPolicyChange") == "Lazy",
        "moves": movefields.move_budget(raw.mapping(fields, "moveBudget")) or MoveBudget(),
        "failover": movefields.failover_of(raw.mapping(fields, "failover")),
        "conditions": conditions,
        "preferences": preferences,
        "reads_reports": conditions.reported or any(wish.reported for wish in preferences),
        "problem": problem,
        "scale_up": scale_up_of(raw.text(fields, "scaleUp")),
    }


def policy_from_inline(fields: Obj) -> Policy:
    """The policy that a workload spells out under `spec.placement`."""
    made = to_policy_fields(fields)
    if made["problem"]:
        made["problem"] = f"spec.placement.{made['problem']}"
    return Policy(name="", origin="inline", **made)


def tolerations_of(value: object) -> tuple[Toleration, ...]:
    """Those that are valid; a toleration that is not tolerates nothing."""
    tolerations: list[Toleration] = []
    for entry in value if isinstance(value, list) else ():
        try:
            tolerations.append(taints.toleration_from_dict(entry))
        except FieldError:
            continue
    return tuple(tolerations)


def _spread(rule: Obj) -> SpreadRule:
    return SpreadRule(
        topology_key=raw.text(rule, "topologyKey"),
        min_domains=max(raw.integer(rule, "minDomains", default=1), 1),
        max_skew=max(raw.integer(rule, "maxSkew"), 0),
        hard=raw.text(rule, "whenUnsatisfiable") == "DoNotSchedule",
        max_domains=most if (most := raw.integer(rule, "maxDomains")) > 0 else None,
    )


def _division(fields: Obj) -> Division:
    strategy = raw.text(fields, "strategy")
    per_cluster = raw.integer(fields, "maxPerCluster", default=-1)
    clusters = raw.integer(fields, "maxClusters")
    return Division(
        strategy=Strategy(strategy) if strategy in set(Strategy) else Strategy.CAPACITY,
        min_per_cluster=max(raw.integer(fields, "minPerCluster"), 0),
        max_per_cluster=per_cluster if per_cluster >= 0 else None,
        fresh=raw.text(fields, "mode") == "Fresh",
        weights=tuple(
            Weight(
                max(raw.integer(w, "weight"), 0),
                raw.texts(w, "names"),
                selector_of(w.get("selector")),
            )
            for w in raw.objects(fields, "weights")
        ),
        groups=tuple(
            Group(raw.text(g, "name"), raw.texts(g, "names"), selector_of(g.get("selector")))
            for g in raw.objects(fields, "groups")
        ),
        max_clusters=clusters if clusters > 0 else None,
        per_cluster=tuple(
            _per_cluster(at, entry) for at, entry in enumerate(raw.objects(fields, "perCluster"))
        ),
    )


def _per_cluster(at: int, entry: Obj) -> PerCluster:
    most, share = entry.get("max"), ""
    if isinstance(most, str) and re.fullmatch(MOST_PATTERN, most, re.ASCII):
        share = most.removesuffix("%")
    number = isinstance(most, int) and not isinstance(most, bool)
    return PerCluster(
        f"division.perCluster[{at}]",
        raw.text(entry, "cluster"),
        selector_of(entry.get("selector")),
        max(raw.integer(entry, "min"), 0),
        max(raw.integer(entry, "max"), 0) if number else None,
        int(share) if share else None,
    )
