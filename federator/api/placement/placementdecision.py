"""PlacementDecision: where one workload goes, and why. Write-ahead log and tombstone in one object,
all of it in `spec`.

The hub writes it before any member hears of it and rebuilds its ledger from it; people read it with
kubectl. Schema and conversion from the core's Decision; `decisionfacts` reads it back, and how
verdicts are made small is `verdicttext`'s.
"""

import functools
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from federator.api import raw, scaleupfields
from federator.api.common import (
    ATOMIC,
    Amount,
    ClusterName,
    Count,
    FederationObject,
    IndexSet,
    Model,
    Moment,
    ObjectName,
    Sentence,
    Seq,
    ShortText,
    list_map,
    many,
    named,
    rules,
)
from federator.api.placement import chargefields, verdicttext
from federator.api.placement.decisionfacts import FailedOver
from federator.api.placement.verdicttext import Verdicts
from federator.api.scaleupfields import MAX_ADDITIONS, AdditionFields
from federator.model import plaintext, shards
from federator.model.ask import Ask, Unit
from federator.model.decision import Decision, Preempted, Share

KIND: Final = "PlacementDecision"
MAX_CAUSES: Final = 10
MAX_FAILOVERS: Final = 4


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
    seq: Seq
    """Number of the decision that last changed this share."""
    replicas: Amount | None = None
    """Copies, for kinds with replicas."""
    ranges: IndexSet | None = None
    """Shards, for job sets: 0-99,200-299; one Job runs each range. Ordinals, for stateful sets; one
    StatefulSet runs each range."""
    slots: Amount | None = None
    """How many of the shards may run at once."""
    nodes: Amount | None = None
    """Nodes that get a pod, for daemons: what is charged. The number of replicas is then 1."""
    pods: Annotated[list[Count], Field(max_length=64, json_schema_extra=ATOMIC)] | None = None
    """Pods of each component, for a gang that got fewer than it asks for."""


class GivenFields(Model):
    """What one cluster was given by earlier decisions and is not given any more."""

    cluster: ClusterName
    """Name of the member cluster."""
    replicas: Amount | None = None
    """Copies that it had, for kinds with replicas."""
    ranges: IndexSet | None = None
    """Shards that it had, for job sets."""
    seq: Seq | None = None
    """Number of the last decision that gave it these copies, for kinds with replicas. Shares with a
    higher number receive the replacements."""


class FailoverFields(Model):
    """A cluster that copies left because it was lost, or for a maintenance window, and whether they
    went back."""

    cluster: ClusterName
    """Name of the member cluster."""
    silent_since: ShortText = ""
    """Since when it had been silent: moves because of one silence are one."""
    window: ShortText = ""
    """When the maintenance window began for which they left; empty for a cluster that was lost."""
    at: Moment
    """When the last of them left."""
    copies: Amount
    """Copies, for job sets slots, that left and have not come back."""
    back_at: Moment | None = None
    """When copies last went back; absent before."""


class BlockFields(Model):
    """Ordinals that began in one cluster."""

    cluster: ClusterName
    """Name of the member cluster."""
    ranges: IndexSet
    """The blocks: 0-4,9-11. They stay when their ordinals are scaled away, and disjoint over all
    clusters."""


class LeftFields(Model):
    """Shards that one cluster may still run."""

    cluster: ClusterName
    """Name of the member cluster."""
    ranges: IndexSet
    """The shards: 0-4,9-11."""


class RequiredRef(Model):
    """A Required ClusterPlacementPolicy that was in force."""

    name: ObjectName
    """Its name."""
    generation: Amount = 0
    """Its generation."""


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
    required: list[RequiredRef] = many(64, list_map("name"))
    """Required ClusterPlacementPolicies that were in force beside it, by name; up to 64 of them."""


class InForce(Model):
    """What members hold while the workload asks for more than it may have."""

    generation: Amount
    """Generation of the workload that is in force; 0 where that is not known."""
    held_back: Amount
    """Generation that is not: it asks for more than quota or room have. 0 if only a RuntimeProfile
    is held back."""
    revision: ShortText = ""
    """ControllerRevision that keeps the spec in force."""
    runtime_profile: ShortText = ""
    """RuntimeProfile of which pods keep a former version: the present one asks for more than quota
    or room have."""


class PreemptedBy(Model):
    """Copies that left so that another workload gets its quota."""

    kind: ShortText
    """Kind of that workload."""
    namespace: ShortText
    """Its namespace."""
    name: ShortText
    """Its name."""
    project: ShortText
    """The project that it is charged to."""
    reason: ShortText
    """By which right: InClusterQueue (of the same account), InCohortReclamation (what is guaranteed
    to its account), InCohortFairSharing, InCohortReclaimWhileBorrowing, Room (of tier Preemptible,
    for want of room), FailoverBuffer (the same, for what loses its cluster, where a cluster keeps
    room for that) or RoomReclamation (of tier OnDemand, for what is guaranteed)."""
    copies: Amount
    """Copies, for job sets slots, that left."""


class Deletion(Model):
    """Why this decision still stands although its workload is gone."""

    reason: ShortText
    """DeletionBlocked, or Emptying while members are being emptied."""
    message: Sentence = ""
    """A sentence that names the members that the deletion waits for."""
    waiting_for: list[ClusterName] = many(1000)
    """Clusters that are not known to be empty."""


class Spec(Model):
    """The decision."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.seq >= oldSelf.seq",
                "seq never falls: a newer decision has already been written",
            ),
            ("self.workload == oldSelf.workload", "the workload of a decision is fixed"),
        )
    )

    workload: WorkloadRef
    """What is decided about."""
    seq: Seq
    """Number of this decision; it rises with every change, also under another leader."""
    unit: Literal["replicas", "shards"]
    """What is divided."""
    wanted: Amount
    """Copies or shards that the workload asks for."""
    placed: Amount
    """Copies or shards that the shares give."""
    shortfall: Amount
    """Copies or shards that no cluster could take."""
    held: Amount | None = None
    """Copies, for job sets slots, of the shares that stay where they run although the policy gives
    them no place there, because they have none elsewhere."""
    tolerated: dict[
        str, Annotated[list[Sentence], Field(max_length=64, json_schema_extra=ATOMIC)]
    ] = named(1000)
    """Clusters with a share and with NoExecute taints, and those taints: an edit of tolerations
    takes nothing away."""
    to_move: Amount | None = None
    """Copies, for job sets slots, that have a place elsewhere and wait for the move budget, or for
    a rebalance."""
    moved: Amount | None = None
    """Copies, for job sets slots, that edits moved with this decision and those of the minute
    before it."""
    per_cluster: Amount | None = None
    """Copies that each cluster was to have under strategy Duplicate. It stands while copies stay
    because of it."""
    surplus: Amount | None = None
    """Copies beyond the workload's count that stay where strategy Duplicate placed them, until
    somebody changes the count or asks for a rebalance."""
    rebalanced: Annotated[str, Field(max_length=256)] = ""
    """The last request for a rebalance after which everything lay as the policy wants it."""
    clusters: Amount
    """Clusters with a share."""
    reason: ShortText
    """Chosen when nothing is missing; else the binding constraint."""
    message: Sentence = ""
    """The same as a sentence with numbers."""
    shares: list[ShareFields] = many(1000, list_map("cluster"))
    """The share of each cluster."""
    marks: dict[str, Seq] = named(1000)
    """Clusters that hold, or held, a slice of this workload with a seq above this decision's, and
    that seq: up to it nothing there is news. After a restore of the host, or when somebody has
    changed numbers in a member."""
    blocks: list[BlockFields] = many(1000, list_map("cluster"))
    """For stateful sets: where each ordinal began, and comes back to."""
    may_still_run: list[LeftFields] = many(1000, list_map("cluster"))
    """For Exclusive job sets: shards that were taken from a cluster and that it may still run. No
    other cluster gets them before nothing is left there, or before it is fenced."""
    leaving: list[ClusterName] = many(1000)
    """Clusters that lost their share and were not known to be empty when this was written."""
    given: list[GivenFields] = many(1000, list_map("cluster"))
    """What clusters still hold of earlier decisions: what they report counts within that and their
    share. Left out by versions that did not record it."""
    missing: Amount | None = None
    """Copies that were not ready when the copies in `given` began to leave. The move does not wait
    for these."""
    scale_up: list[AdditionFields] = many(MAX_ADDITIONS)
    """Copies that were given a place on nodes which their cluster has to add first."""
    failovers: list[FailoverFields] = many(MAX_FAILOVERS)
    """Lost clusters that copies left by themselves or by a person's word, the last ones, oldest
    first: by this they rest between moves, and find home."""
    max_clusters_at_once: Amount | None = None
    """A changed template reaches at most this many clusters that are not healthy yet."""
    policy: PolicyRef
    """The policy that was in force."""
    quota_generations: dict[str, Amount] = named(64)
    """Generations of the quota accounts that were read."""
    unlimited_quota: bool | None = None
    """True when no FederatedQuota speaks for the project."""
    in_force: InForce | None = None
    """Set while an edit of the workload or of its RuntimeProfile is held back: what was admitted
    before stays in force."""
    charge: chargefields.ChargeFields | None = None
    """What the ledger is charged with."""
    as_of: Moment
    """The time of the fleet's picture that it was made from."""
    inputs_hash: Annotated[str, Field(max_length=64)]
    """Hash of all that it depends on; the decision is valid while this is."""
    violations: list[Sentence] = many(16)
    """Soft spread rules that could not be kept."""
    verdicts: Verdicts | None = None
    """Why each cluster was or was not chosen."""
    causes: list[Sentence] = many(MAX_CAUSES)
    """What the last decisions were made for, newest last."""
    preempted: PreemptedBy | None = None
    """Set while copies are missing that left for another workload."""
    deletion: Deletion | None = None
    """Why it still stands although its workload is gone."""
    seal: Annotated[str, Field(max_length=128)] = ""
    """By what the hub knows its own decision again: a hash under a key that only the hub has."""


class PlacementDecision(FederationObject):
    """Where one workload goes, and why. Written by the federation only."""

    kind: Literal["PlacementDecision"]
    """PlacementDecision."""
    spec: Spec
    """The decision."""


def to_spec(
    decision: Decision,
    causes: Sequence[str],
    ask: Ask | None = None,
    leaving: Sequence[str] = (),
    *,
    rebalanced: str = "",
    given: Sequence[Share] = (),
    missing: int = 0,
    revision: str = "",
    content: bytes = b"",
    failovers: Sequence[FailedOver] = (),
) -> dict[str, Any]:
    """The whole `.spec`. `causes` are oldest first, of which the last ten stay; `ask` adds what the
    ledger is charged with and the roll-out's bound; `leaving` are clusters without a share that may
    still hold something; `rebalanced` is the last request for a rebalance that is done with;
    `given` is what clusters had before, and `missing` how many copies were not ready when they lost
    it; `revision` keeps the spec in force where an edit is held back; `content` is the digest of
    what is charged; `failovers` are the lost clusters that copies left lately."""
    ask = decision.under or ask
    unit = _unit(decision, ask)
    counts = [share.count for share in decision.shares]
    generations, violations = decision.quota_generations, decision.violations
    spec: dict[str, Any] = {
        "workload": {"kind": decision.key.kind, "name": decision.key.name, "uid": decision.uid},
        "seq": decision.seq,
        "unit": str(unit),
        "wanted": decision.wanted,
        "placed": sum(counts),
        "shortfall": decision.shortfall,
        "clusters": len(counts) - counts.count(0),
        "reason": str(decision.reason),
        "message": plaintext.clipped(decision.message),
        "shares": _shares_fields(decision.shares, unit),
        "given": [_given_fields(share, unit) for share in given] if given else [],
        **({"missing": missing} if missing else {}),
        "policy": _policy_ref(
            decision.policy_name,
            decision.policy_generation,
            decision.policy_namespace,
            decision.policy_uid,
            decision.policy_origin,
            decision.required,
        ).copy(),
        "quotaGenerations": dict(sorted(generations.items())) if generations else {},
        "asOf": _moment(decision.as_of),
        "inputsHash": decision.inputs_hash,
        "violations": [plaintext.clipped(sentence) for sentence in violations[:16]],
        "verdicts": verdicttext.summarise(decision.verdicts),
        "causes": [plaintext.clipped(cause) for cause in causes[-MAX_CAUSES:]],
    }
    spec |= _now_and_then(decision, leaving, rebalanced, failovers)
    if ask and ask.policy.max_clusters_at_once:
        spec["maxClustersAtOnce"] = ask.policy.max_clusters_at_once
    if ask:
        spec["charge"] = chargefields.rendered(ask, content)
        spec |= _in_force(decision, ask.generation, revision)
    return spec


def _in_force(decision: Decision, generation: int, revision: str) -> dict[str, Any]:
    """The field `inForce`, while an edit is held back."""
    if not (decision.held_back or decision.held_profile):
        return {}
    named = {"revision": revision, "runtimeProfile": decision.held_profile}
    kept = {field: name for field, name in named.items() if name}
    return {"inForce": {"generation": generation, "heldBack": decision.held_back} | kept}


def _now_and_then(
    decision: Decision, leaving: Sequence[str], rebalanced: str, failovers: Sequence[FailedOver]
) -> dict[str, Any]:
    """The fields that most decisions do not have."""
    spec: dict[str, Any] = {}
    if decision.to_move:
        spec["toMove"] = decision.to_move
    if decision.moved:
        spec["moved"] = decision.moved
    if rebalanced:
        spec["rebalanced"] = rebalanced
    if decision.per_cluster:
        spec["perCluster"] = decision.per_cluster
    if decision.surplus:
        spec["surplus"] = decision.surplus
    if decision.tolerated:
        spec["tolerated"] = {
            cluster: list(taints[:64]) for cluster, taints in sorted(decision.tolerated.items())
        }
    if decision.blocks:
        spec["blocks"] = [
            {"cluster": cluster, "ranges": shards.text(ranges)}
            for cluster, ranges in sorted(decision.blocks.items())
        ]
    if decision.may_run:
        spec["mayStillRun"] = [
            {"cluster": cluster, "ranges": shards.text(ranges)}
            for cluster, ranges in sorted(decision.may_run.items())
        ]
    if decision.marks:
        spec["marks"] = dict(sorted(decision.marks.items()))
    if decision.held:
        spec["held"] = decision.held
    if decision.unlimited_quota:
        spec["unlimitedQuota"] = True
    if decision.preempted is not None:
        spec["preempted"] = _preempted_fields(decision.preempted)
    if decision.additions:
        spec["scaleUp"] = scaleupfields.from_additions(decision.additions)
    if leaving:
        spec["leaving"] = list(leaving)
    if failovers:
        spec["failovers"] = [_failover_fields(left) for left in failovers[-MAX_FAILOVERS:]]
    return spec


_moment = functools.lru_cache(maxsize=16)(raw.rfc3339)
"""All decisions of a cycle are as of one moment."""


def _preempted_fields(gone: Preempted) -> dict[str, Any]:
    by = {"kind": gone.by.kind, "namespace": gone.by.namespace, "name": gone.by.name}
    return by | {"project": gone.project, "reason": gone.why, "copies": gone.copies}


def _unit(decision: Decision, ask: Ask | None) -> Unit:
    """Without an ask, only shares of shards have ranges."""
    if ask:
        return ask.unit
    return Unit.SHARDS if any(share.ranges for share in decision.shares) else Unit.REPLICAS


def _shares_fields(shares: Sequence[Share], unit: Unit) -> list[dict[str, Any]]:
    if unit is Unit.SHARDS:
        return [_share_fields(share, unit) for share in shares]
    return [
        {"cluster": share.cluster, "seq": share.seq, "replicas": share.count}
        if not share.ranges and share.nodes is None
        else _share_fields(share, unit)
        for share in shares
    ]


def _share_fields(share: Share, unit: Unit) -> dict[str, Any]:
    if unit is Unit.SHARDS:
        pods = {"pods": list(share.pods)} if share.pods else {}
        return {
            "cluster": share.cluster,
            "seq": share.seq,
            "ranges": shards.text(share.ranges),
            "slots": share.slots,
        } | pods
    fields: dict[str, Any] = {"cluster": share.cluster, "seq": share.seq, "replicas": share.count}
    if share.ranges:
        fields["ranges"] = shards.text(share.ranges)
    return fields if share.nodes is None else fields | {"nodes": share.nodes}


def _given_fields(share: Share, unit: Unit) -> dict[str, Any]:
    if unit is Unit.SHARDS:
        return {"cluster": share.cluster, "ranges": shards.text(share.ranges)}
    since = {"seq": share.seq} if share.seq else {}
    return {"cluster": share.cluster, "replicas": share.count} | since


def _failover_fields(left: FailedOver) -> dict[str, Any]:
    back = {"backAt": raw.rfc3339(left.back_s)} if left.back_s is not None else {}
    since = raw.present({"silentSince": left.silent_since, "window": left.window})
    at = raw.rfc3339(left.at_s)
    return {"cluster": left.cluster, **since, "at": at, "copies": left.copies, **back}


@functools.lru_cache(maxsize=1024)
def _policy_ref(  # noqa: PLR0917 the fields
    name: str,
    generation: int,
    namespace: str,
    uid: str,
    origin: str,
    required: tuple[tuple[str, int], ...],
) -> dict[str, Any]:
    """Of all decisions under one policy."""
    demands = [{"name": demand, "generation": written} for demand, written in required[:64]]
    named = {"namespace": namespace, "uid": uid, "origin": origin, "required": demands}
    return {"name": name, "generation": generation} | raw.present(named)
