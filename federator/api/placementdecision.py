"""PlacementDecision: where one workload goes, and why. Write-ahead log and tombstone in one object, all of it in
`spec`.

The hub writes it before any member hears of it and rebuilds its ledger from it; people read it with kubectl. Schema
and conversions from and to the core's Decision; how verdicts are made small is `verdicttext`'s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from federator.api import capacityfields, raw, verbs, verdicttext
from federator.api.capacityfields import Shape
from federator.api.common import (
    ATOMIC,
    Amount,
    ClusterName,
    IndexSet,
    Int64,
    Metadata,
    Model,
    Moment,
    Sentence,
    ShortText,
    TierName,
    list_map,
    rules,
)
from federator.api.raw import Obj
from federator.api.verdicttext import Verdicts
from federator.model import names, shards, sharing
from federator.model.ask import Ask, PodShape, Tier, Unit
from federator.model.decision import Decision, Reason, Share
from federator.model.names import WorkloadKey

KIND: Final = "PlacementDecision"
MAX_CAUSES: Final = 10
_REASONS: Final = {str(reason): reason for reason in Reason}


class WorkloadRef(Model):
    """The workload on the host that is decided about."""

    kind: ShortText
    """Its kind."""
    name: ShortText
    """Its name; its namespace is the decision's own."""
    uid: Annotated[str, Field(max_length=64)]
    """Its uid: a workload made anew under the same name has its own decision."""


class ShareFields(Model):
    """What one cluster is given."""

    cluster: ClusterName
    """Name of the member cluster."""
    seq: Int64
    """Number of the decision that last changed this share."""
    replicas: Amount | None = None
    """Copies, for kinds with replicas."""
    ranges: IndexSet | None = None
    """Shards, for job sets: 0-99,200-299; one Job runs each range."""
    slots: Amount | None = None
    """How many of the shards may run at once."""


class PolicyRef(Model):
    """The policy that was in force."""

    name: ShortText
    """Its name; default for the built-in one, empty for one written in the workload."""
    namespace: ShortText = ""
    """Its namespace; empty for a ClusterPlacementPolicy."""
    uid: Annotated[str, Field(max_length=64)] = ""
    """Its uid."""
    generation: Amount = 0
    """Its generation."""
    origin: ShortText = ""
    """How it was found: policyRef, inline, match or default."""


class Charge(Model):
    """What the ledger is charged with while the decision stands, so that it can be rebuilt from decisions alone."""

    project: Annotated[str, Field(max_length=253)]
    """Project whose quota is charged."""
    tier: TierName
    """Tier that is charged."""
    shape: Shape
    """What one copy needs."""


class Deletion(Model):
    """Why this decision still stands although its workload is gone."""

    reason: ShortText
    """DeletionBlocked, or Emptying while members are being emptied."""
    message: Sentence = ""
    """A sentence that names who is waited for."""
    waiting_for: Annotated[list[ClusterName], Field(max_length=1000, json_schema_extra=ATOMIC)] = Field(
        default_factory=list
    )
    """Clusters that are not known to be empty."""


class Spec(Model):
    """The decision."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self.seq >= oldSelf.seq", "seq never falls: a newer decision has already been written"),
            ("self.workload == oldSelf.workload", "the workload of a decision is fixed"),
        )
    )

    workload: WorkloadRef
    """What is decided about."""
    seq: Int64
    """Number of this decision; it rises with every change, whoever leads."""
    unit: Literal["replicas", "shards"]
    """What is divided."""
    wanted: Amount
    """Copies or shards that the workload asks for."""
    placed: Amount
    """Copies or shards that the shares give."""
    shortfall: Amount
    """Copies or shards that no cluster could take."""
    clusters: Amount
    """Clusters with a share."""
    reason: ShortText
    """Chosen when nothing is missing; else the binding constraint."""
    message: Sentence = ""
    """The same as a sentence with numbers."""
    shares: Annotated[list[ShareFields], Field(max_length=1000, json_schema_extra=list_map("cluster"))] = Field(
        default_factory=list
    )
    """Who gets what."""
    leaving: Annotated[list[ClusterName], Field(max_length=1000, json_schema_extra=ATOMIC)] = Field(
        default_factory=list
    )
    """Clusters that lost their share and were not known to be empty when this was written."""
    max_clusters_at_once: Amount | None = None
    """A changed template reaches at most this many clusters that are not healthy yet."""
    policy: PolicyRef
    """The policy that was in force."""
    quota_generations: Annotated[dict[str, Amount], Field(max_length=64)] = Field(default_factory=dict)
    """Generations of the quota accounts that were read."""
    unlimited_quota: bool | None = None
    """True when no FederatedQuota speaks for the project."""
    charge: Charge | None = None
    """What the ledger is charged with."""
    as_of: Moment
    """The time of the fleet's picture that it was made from."""
    inputs_hash: Annotated[str, Field(max_length=64)]
    """Hash of all that it depends on; the decision is valid while this is."""
    violations: Annotated[list[Sentence], Field(max_length=16, json_schema_extra=ATOMIC)] = Field(default_factory=list)
    """Soft spread rules that could not be kept."""
    verdicts: Verdicts | None = None
    """Why each cluster was or was not chosen."""
    causes: Annotated[list[Sentence], Field(max_length=MAX_CAUSES, json_schema_extra=ATOMIC)] = Field(
        default_factory=list
    )
    """What the last decisions were made for, newest last."""
    deletion: Deletion | None = None
    """Why it still stands although its workload is gone."""


class PlacementDecision(Model):
    """Where one workload goes, and why. Written by the federation only."""

    api_version: Literal["federation.pinterest.com/v1alpha1"]
    """federation.pinterest.com/v1alpha1."""
    kind: Literal["PlacementDecision"]
    """PlacementDecision."""
    metadata: Metadata
    """Standard metadata."""
    spec: Spec
    """The decision."""


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """A decision object as hub and ledger read it back; `raw_spec` is not kept."""

    name: str
    uid: str
    resource_version: str
    key: WorkloadKey
    workload_uid: str
    seq: int
    unit: Unit
    wanted: int
    shortfall: int
    reason: Reason
    message: str
    shares: tuple[Share, ...]
    leaving: tuple[str, ...]
    max_clusters_at_once: int | None
    inputs_hash: str
    as_of: float
    policy_name: str
    policy_namespace: str
    policy_uid: str
    policy_generation: int
    policy_origin: str
    quota_generations: Mapping[str, int]
    unlimited_quota: bool
    violations: tuple[str, ...]
    causes: tuple[str, ...]
    project: str
    tier: Tier
    shape: PodShape | None
    """None in a decision that was written without a charge."""
    deleting: bool
    deletion_reason: str
    waiting_for: tuple[str, ...]

    @property
    def placed(self) -> int:
        return sum(share.count for share in self.shares)

    def share_of(self, cluster: str) -> Share | None:
        for share in self.shares:
            if share.cluster == cluster:
                return share
        return None


def to_spec(
    decision: Decision, causes: Sequence[str], ask: Ask | None = None, leaving: Sequence[str] = ()
) -> dict[str, Any]:
    """The whole `.spec`. `causes` are oldest first, of which the last ten stay; `ask` adds what the ledger is charged
    with and the roll-out's bound; `leaving` are clusters without a share that may still hold something."""
    unit = ask.unit if ask else Unit.SHARDS if any(share.ranges for share in decision.shares) else Unit.REPLICAS
    spec: dict[str, Any] = {
        "workload": {"kind": decision.key.kind, "name": decision.key.name, "uid": decision.uid},
        "seq": decision.seq,
        "unit": str(unit),
        "wanted": decision.wanted,
        "placed": sum(share.count for share in decision.shares),
        "shortfall": decision.shortfall,
        "clusters": sum(1 for share in decision.shares if share.count),
        "reason": str(decision.reason),
        "message": verdicttext.clipped(decision.message),
        "shares": [_share_fields(share, unit) for share in decision.shares],
        "policy": _policy_ref(decision),
        "quotaGenerations": dict(sorted(decision.quota_generations.items())),
        "asOf": raw.rfc3339(decision.as_of),
        "inputsHash": decision.inputs_hash,
        "violations": [verdicttext.clipped(sentence) for sentence in decision.violations[:16]],
        "verdicts": verdicttext.summarise(decision.verdicts),
        "causes": [verdicttext.clipped(cause) for cause in causes[-MAX_CAUSES:]],
    }
    if decision.unlimited_quota:
        spec["unlimitedQuota"] = True
    if leaving:
        spec["leaving"] = list(leaving)
    if ask and ask.policy.max_clusters_at_once:
        spec["maxClustersAtOnce"] = ask.policy.max_clusters_at_once
    if ask:
        shape = capacityfields.from_shape(ask.shape)
        spec["charge"] = {"project": ask.project, "tier": str(ask.tier), "shape": shape}
    return spec


def shares(obj: Obj) -> tuple[Share, ...]:
    """The shares, with their ranges in the pieces that have Jobs. Entries without a cluster are skipped."""
    found = (_to_share(entry) for entry in raw.objects(obj, "spec", "shares"))
    return tuple(share for share in found if share.cluster)


def decision_facts(obj: Obj) -> DecisionFacts:
    spec = raw.mapping(obj, "spec")
    metadata = raw.mapping(obj, "metadata")
    policy = raw.mapping(spec, "policy")
    charge = raw.mapping(spec, "charge")
    reason = raw.text(spec, "reason")
    shared, seq = sharing.text, raw.integer(spec, "seq")
    quotas = raw.mapping(spec, "quotaGenerations")
    return DecisionFacts(
        name=raw.text(metadata, "name"),
        uid=raw.text(metadata, "uid"),
        resource_version=raw.text(metadata, "resourceVersion"),
        key=names.key(
            raw.text(spec, "workload", "kind"), raw.text(metadata, "namespace"), raw.text(spec, "workload", "name")
        ),
        workload_uid=shared(raw.text(spec, "workload", "uid")),
        seq=seq,
        unit=Unit.SHARDS if raw.text(spec, "unit") == Unit.SHARDS else Unit.REPLICAS,
        wanted=raw.integer(spec, "wanted"),
        shortfall=raw.integer(spec, "shortfall"),
        reason=_REASONS.get(reason, Reason.PENDING_EVALUATION),
        message=shared(raw.text(spec, "message")),
        shares=tuple(replace(share, seq=seq) if share.seq == seq else share for share in shares(obj)),
        leaving=raw.texts(spec, "leaving"),
        max_clusters_at_once=raw.integer(spec, "maxClustersAtOnce") or None,
        inputs_hash=raw.text(spec, "inputsHash"),
        as_of=raw.epoch_s(raw.text(spec, "asOf")),
        policy_name=shared(raw.text(policy, "name")),
        policy_namespace=shared(raw.text(policy, "namespace")),
        policy_uid=shared(raw.text(policy, "uid")),
        policy_generation=raw.integer(policy, "generation"),
        policy_origin=shared(raw.text(policy, "origin")),
        quota_generations=sharing.counters({name: raw.integer(quotas, name) for name in quotas}),
        unlimited_quota=raw.flag(spec, "unlimitedQuota"),
        violations=raw.texts(spec, "violations"),
        causes=sharing.texts(raw.texts(spec, "causes")),
        project=shared(raw.text(charge, "project")),
        tier=verbs.tier_of(raw.text(charge, "tier")),
        shape=capacityfields.shared_shape(raw.mapping(charge, "shape")) if "shape" in charge else None,
        deleting="deletionTimestamp" in metadata,
        deletion_reason=raw.text(spec, "deletion", "reason"),
        waiting_for=raw.texts(spec, "deletion", "waitingFor"),
    )


def _share_fields(share: Share, unit: Unit) -> dict[str, Any]:
    fields: dict[str, Any] = {"cluster": share.cluster, "seq": share.seq}
    if unit is Unit.SHARDS:
        return fields | {"ranges": shards.text(share.ranges), "slots": share.slots}
    return fields | {"replicas": share.count}


def _to_share(entry: Obj) -> Share:
    cluster, seq = sharing.text(raw.text(entry, "cluster")), raw.integer(entry, "seq")
    if "ranges" in entry:
        ranges = verbs.read_ranges(raw.text(entry, "ranges"))
        return Share(cluster, shards.size(ranges), max(raw.integer(entry, "slots"), 0), seq, ranges)
    copies = max(raw.integer(entry, "replicas"), 0)
    return Share(cluster, copies, copies, seq)


def _policy_ref(decision: Decision) -> dict[str, Any]:
    named = {"namespace": decision.policy_namespace, "uid": decision.policy_uid, "origin": decision.policy_origin}
    return {"name": decision.policy_name, "generation": decision.policy_generation} | raw.present(named)
