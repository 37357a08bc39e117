"""A PlacementDecision as hub, ledger and command line read it back.

Decisions of one kind of workload under one policy differ in few things: what many of them say alike
is read once and kept once, because a hub holds a hundred thousand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, Final

import msgspec

from federator.api import capacityfields, raw, scaleupfields
from federator.api.raw import Obj
from federator.model import interning, names, shards
from federator.model import seq as seqs
from federator.model.ask import Admitted, Former, FormerCopies, PodShape, Tier, Unit
from federator.model.decision import Preempted, Reason, Share, apart, together
from federator.model.kubernetes import quantity
from federator.model.names import WorkloadKey
from federator.model.quickly import quickly
from federator.model.scaleup import Addition
from federator.model.shards import Ranges

_REASONS: Final = {str(reason): reason for reason in Reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedOver:
    """A cluster that copies left because it was lost, or for a maintenance window. Times in epoch
    seconds."""

    cluster: str
    silent_since: str
    """Since when it had been silent; with its name this is one silence. "" for a window."""
    at_s: float
    """When the last of them left."""
    copies: int
    """That left and have not come back."""
    back_s: float | None = None
    """When copies last went back."""
    window: str = ""
    """When the maintenance window began; "" for a cluster that was lost."""

    @property
    def silence(self) -> str:
        return f"{self.cluster} {self.silent_since or self.window}"

    @property
    def last_s(self) -> float:
        """When this last moved copies, either way."""
        return max(self.at_s, self.back_s or self.at_s)


@dataclass(frozen=True, slots=True)
class Terms:
    """What many decisions have in common."""

    unit: Unit
    wanted: int
    shortfall: int
    reason: Reason
    message: str
    leaving: tuple[str, ...]
    max_clusters_at_once: int | None
    policy_name: str
    policy_origin: str
    unlimited_quota: bool
    violations: tuple[str, ...]
    causes: tuple[str, ...]
    project: str
    tier: Tier
    shape: PodShape | None
    """None in a decision that was written without a charge."""
    held: int
    """Copies that stay where the policy gives them no place, for want of another."""
    tolerated: Mapping[str, tuple[str, ...]]
    """NoExecute taints with which shares stay, by cluster."""
    to_move: int
    """Copies that wait for the move budget, or for a rebalance."""
    moved: int
    """Copies that edits moved with it and within the minute before."""
    preempted: Preempted | None
    """Set while copies are missing that left for another workload."""
    per_cluster: int
    """Copies that each cluster was to have under strategy Duplicate; 0 for none."""
    surplus: int
    """Copies beyond the count that stay because of that."""
    rebalanced: str
    """The last request for a rebalance that is done with."""
    policy_namespace: str
    charged: Admitted | None
    """The same as what was admitted; None as `shape`."""
    held_back: int
    """Generation of the workload that asks for more than there is, and is not in force; 0 for
    none."""
    revision: str
    """ControllerRevision that keeps the spec in force then; "" when that is not known."""
    held_profile: str
    """RuntimeProfile with a present version that asks for more than there is; "" for none."""
    required: tuple[str, ...]
    """Names of the Required policies that were in force beside it."""
    deletion_reason: str
    waiting_for: tuple[str, ...]
    failovers: tuple[FailedOver, ...] = ()
    """Lost clusters that copies left lately, oldest first."""
    additions: tuple[Addition, ...] = ()
    """Nodes that clusters were to add for copies of it."""


@dataclass(frozen=True, slots=True)
class Besides:
    """What most decisions say nothing of: they share one."""

    deleting: bool = False
    marks: Mapping[str, int] = field(default_factory=dict)
    """Where members hold slices of it with a seq above its own, and up to which they are known."""
    given: tuple[Share, ...] = ()
    """What clusters had by earlier decisions and have no more; for replicas with the seq of the
    decision before they lost it."""
    missing: int = 0
    """Copies that were not ready when those in `given` began to leave."""
    blocks: Mapping[str, Ranges] = field(default_factory=dict)
    """Where ordinals began, for copies with numbers."""
    may_run: Mapping[str, Ranges] = field(default_factory=dict)
    """Where shards that may not run twice may run beside the shares."""
    records_given: bool = False
    """Whether it says so at all: decisions of earlier versions do not."""


Figures = bytes | tuple[str, str, float, str]
"""uid, resourceVersion, time and hash of the inputs: packed, if they are as an API server and a hub
write them."""
_FIGURES: Final = Struct("<16sqd8s")
PIECES_MAX: Final = 4
"""Ranges of a share that is kept for other decisions."""


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """A decision object; its verdicts are not kept."""

    name: str
    key: WorkloadKey
    workload_uid: str
    seq: int
    portions: tuple[Share, ...]
    """The shares, and their seq, as `model.decision.apart` returns them."""
    shares_seq: int
    terms: Terms
    figures: Figures
    besides: Besides

    @property
    def shares(self) -> tuple[Share, ...]:
        return together(self.portions, self.shares_seq)

    @property
    def uid(self) -> str:
        figures = self.figures
        return interning.uid_text(figures[:16]) if isinstance(figures, bytes) else figures[0]

    @property
    def resource_version(self) -> str:
        figures = self.figures
        return str(_FIGURES.unpack(figures)[1]) if isinstance(figures, bytes) else figures[1]

    @property
    def as_of(self) -> float:
        figures = self.figures
        as_of: float = (_FIGURES.unpack(figures) if isinstance(figures, bytes) else figures)[2]
        return as_of

    @property
    def inputs_hash(self) -> str:
        figures = self.figures
        return figures[-8:].hex() if isinstance(figures, bytes) else figures[3]

    @property
    def deleting(self) -> bool:
        return self.besides.deleting

    @property
    def marks(self) -> Mapping[str, int]:
        return self.besides.marks

    @property
    def given(self) -> tuple[Share, ...]:
        return self.besides.given

    @property
    def missing(self) -> int:
        return self.besides.missing

    @property
    def blocks(self) -> Mapping[str, Ranges]:
        return self.besides.blocks

    @property
    def may_run(self) -> Mapping[str, Ranges]:
        return self.besides.may_run

    @property
    def records_given(self) -> bool:
        return self.besides.records_given

    def in_object(
        self, uid: str, resource_version: str, *, deleting: bool = False
    ) -> "DecisionFacts":
        """The same in an object with this uid and version."""
        figures = figures_of(uid, resource_version, self.as_of, self.inputs_hash)
        besides = replace(self.besides, deleting=deleting)
        return replace(self, figures=figures, besides=besides)

    @property
    def placed(self) -> int:
        return sum(share.count for share in self.portions)

    def share_of(self, cluster: str) -> Share | None:
        for at, share in enumerate(self.portions):
            if share.cluster == cluster:
                return together(self.portions[at : at + 1], self.shares_seq)[0]
        return None


def decision_facts(obj: Obj) -> DecisionFacts:
    """Total on whatever the host may hold."""
    spec, metadata = raw.mapping(obj, "spec"), raw.mapping(obj, "metadata")
    workload = raw.mapping(spec, "workload")
    uid, version = raw.text(metadata, "uid"), raw.text(metadata, "resourceVersion")
    as_of, inputs_hash = raw.epoch_s(raw.text(spec, "asOf")), raw.text(spec, "inputsHash")
    namespace, name = names.object_name(raw.text(metadata, "namespace"), raw.text(metadata, "name"))
    portions, shares_seq = apart(shares(obj))
    return _facts(
        name=name,
        key=names.key(raw.text(workload, "kind"), namespace, raw.text(workload, "name")),
        workload_uid=interning.uid(raw.text(workload, "uid")),
        seq=interning.listed(raw.integer(spec, "seq")),
        portions=shared_portions(portions),
        shares_seq=shares_seq,
        terms=_terms(spec),
        figures=figures_of(uid, version, as_of, inputs_hash),
        besides=_besides(obj, spec, metadata),
    )


_facts = quickly(DecisionFacts)


def figures_of(uid: str, version: str, as_of: float, inputs_hash: str) -> Figures:
    """These four, packed where that loses nothing."""
    try:
        number, digest = int(version), bytes.fromhex(inputs_hash)
        packed_uid = interning.packed_uid(uid)
        made = _FIGURES.pack(packed_uid, number, as_of, digest)
    except (ValueError, StructError):
        return uid, version, as_of, inputs_hash
    same = packed_uid and str(number) == version and digest.hex() == inputs_hash
    return made if same and len(digest) == 8 else (uid, version, as_of, inputs_hash)


def _besides(obj: Obj, spec: Obj, metadata: Obj) -> Besides:
    deleting, missing = "deletionTimestamp" in metadata, max(raw.integer(spec, "missing"), 0)
    given, marks = _shares_in(obj, "given"), _marks(spec)
    if not (deleting or missing or given or marks or "blocks" in spec or "mayStillRun" in spec):
        return _PLAIN["given" in spec]
    return Besides(
        deleting=deleting,
        marks=marks,
        given=given,
        missing=missing,
        blocks=_blocks(spec, "blocks") if "blocks" in spec else _NO_BLOCKS,
        may_run=_blocks(spec, "mayStillRun") if "mayStillRun" in spec else _NO_BLOCKS,
        records_given="given" in spec,
    )


def _marks(spec: Obj) -> Mapping[str, int]:
    marks = raw.mapping(spec, "marks")
    return (
        {interning.text(cluster): seqs.clamped(raw.integer(marks, cluster)) for cluster in marks}
        if marks
        else _NO_MARKS
    )


def _blocks(spec: Obj, field: str) -> Mapping[str, Ranges]:
    listed = raw.objects(spec, field)
    blocks = {
        interning.text(raw.text(entry, "cluster")): raw.ranges(entry, "ranges") for entry in listed
    }
    return {cluster: ranges for cluster, ranges in blocks.items() if cluster and ranges}


_NO_BLOCKS: Final[Mapping[str, Ranges]] = {}
_NO_MARKS: Final[Mapping[str, int]] = {}
_PLAIN: Final = tuple(
    Besides(marks=_NO_MARKS, blocks=_NO_BLOCKS, may_run=_NO_BLOCKS, records_given=said)
    for said in (False, True)
)
NOTHING_BESIDES: Final = _PLAIN[True]
"""Of a decision that was written without any of it."""


def shares(obj: Obj) -> tuple[Share, ...]:
    """The shares, with their ranges in the pieces that have Jobs. Entries without a cluster are
    skipped."""
    return _shares_in(obj, "shares")


def shared_portions(portions: tuple[Share, ...]) -> tuple[Share, ...]:
    """The one copy of what many decisions give; a job set in many pieces is like no other."""
    if any(len(share.ranges) > PIECES_MAX or share.seq for share in portions):
        return portions
    return interning.value(portions)


def _shares_in(obj: Obj, field: str) -> tuple[Share, ...]:
    shares = map(_to_share, raw.objects(obj, "spec", field))
    return tuple(share for share in shares if share.cluster)


def _to_share(entry: Obj) -> Share:
    cluster, seq = (
        interning.text(raw.text(entry, "cluster")),
        interning.listed(raw.integer(entry, "seq")),
    )
    if "ranges" in entry:
        ranges = raw.ranges(entry, "ranges")
        count = shards.size(ranges)
        # ordinals, which have a count of replicas beside them, all run at once
        slots = raw.integer(entry, "slots", default=count if "replicas" in entry else 0)
        pods = raw.integers(entry, "pods")
        return Share(cluster, count, max(slots, 0), seq, ranges, pods=pods)
    copies = max(raw.integer(entry, "replicas"), 0)
    nodes = max(raw.integer(entry, "nodes"), 0) if "nodes" in entry else None
    return Share(cluster, copies, copies, seq, nodes=nodes)


_NO_TERMS: Final = frozenset(
    {
        "workload",
        "seq",
        "placed",
        "clusters",
        "shares",
        "given",
        "missing",
        "inputsHash",
        "asOf",
        "verdicts",
        "quotaGenerations",
    }
    | {"marks", "blocks", "mayStillRun", "seal"}
)
"""What decisions do not have in common, or nobody reads back."""


def _terms(spec: Obj) -> Terms:
    terms = {name: value for name, value in spec.items() if name not in _NO_TERMS}
    try:
        encoded = msgspec.json.encode(terms)
    except UnicodeEncodeError:  # half a surrogate pair
        return _read_terms(terms)
    return _shared_terms(encoded)


@lru_cache(maxsize=1024)
def _shared_terms(encoded: bytes) -> Terms:
    return _read_terms(msgspec.json.decode(encoded))


def _read_terms(spec: Mapping[str, Any]) -> Terms:
    tolerated = raw.mapping(spec, "tolerated")
    policy, charge, deletion = (
        raw.mapping(spec, part) for part in ("policy", "charge", "deletion")
    )
    in_force = raw.mapping(spec, "inForce")
    shared = interning.text
    shape = capacityfields.shared_shape(raw.mapping(charge, "shape")) if "shape" in charge else None
    project, tier = shared(raw.text(charge, "project")), raw.tier(charge, "tier")
    return Terms(
        unit=Unit.SHARDS if raw.text(spec, "unit") == Unit.SHARDS else Unit.REPLICAS,
        wanted=raw.integer(spec, "wanted"),
        shortfall=raw.integer(spec, "shortfall"),
        reason=_REASONS.get(raw.text(spec, "reason"), Reason.PENDING_EVALUATION),
        message=shared(raw.text(spec, "message")),
        leaving=raw.texts(spec, "leaving"),
        max_clusters_at_once=raw.integer(spec, "maxClustersAtOnce") or None,
        policy_name=shared(raw.text(policy, "name")),
        policy_origin=shared(raw.text(policy, "origin")),
        unlimited_quota=raw.flag(spec, "unlimitedQuota"),
        violations=raw.texts(spec, "violations"),
        causes=interning.texts(raw.texts(spec, "causes")),
        project=project,
        tier=tier,
        shape=shape,
        charged=_charged(charge, project, tier, shape) if shape is not None else None,
        held_back=raw.integer(in_force, "heldBack"),
        revision=raw.text(in_force, "revision"),
        held_profile=shared(raw.text(in_force, "runtimeProfile")),
        held=raw.integer(spec, "held"),
        tolerated={name: raw.texts(tolerated, name) for name in tolerated},
        to_move=raw.integer(spec, "toMove"),
        moved=raw.integer(spec, "moved"),
        preempted=_preempted(raw.mapping(spec, "preempted")),
        per_cluster=raw.integer(spec, "perCluster"),
        surplus=raw.integer(spec, "surplus"),
        rebalanced=raw.text(spec, "rebalanced"),
        policy_namespace=shared(raw.text(policy, "namespace")),
        required=interning.texts(
            raw.text(entry, "name") for entry in raw.objects(policy, "required")
        ),
        deletion_reason=raw.text(deletion, "reason"),
        waiting_for=raw.texts(deletion, "waitingFor"),
        failovers=tuple(map(_failed_over, raw.objects(spec, "failovers"))),
        additions=scaleupfields.to_additions(spec["scaleUp"]) if "scaleUp" in spec else (),
    )


def _failed_over(entry: Obj) -> FailedOver:
    return FailedOver(
        cluster=interning.text(raw.text(entry, "cluster")),
        silent_since=raw.text(entry, "silentSince"),
        window=raw.text(entry, "window"),
        at_s=raw.epoch_s(raw.text(entry, "at")),
        copies=max(raw.integer(entry, "copies"), 0),
        back_s=raw.epoch_s(raw.text(entry, "backAt")) if "backAt" in entry else None,
    )


def _preempted(fields: Obj) -> Preempted | None:
    if not fields:
        return None
    by = WorkloadKey(*(raw.text(fields, name) for name in ("kind", "namespace", "name")))
    return Preempted(
        by, raw.text(fields, "project"), raw.text(fields, "reason"), raw.integer(fields, "copies")
    )


def _charged(charge: Obj, project: str, tier: Tier, shape: PodShape) -> Admitted:
    priority, count = (
        raw.integer(charge, name) if name in charge else None for name in ("priority", "count")
    )
    try:
        content = interning.listed(bytes.fromhex(raw.text(charge, "content")))
    except ValueError:
        content = b""
    former = tuple(map(_former, raw.objects(charge, "former"))) if "former" in charge else ()
    return Admitted(
        raw.integer(charge, "generation"), shape, project, tier, priority, count, content, former
    )


def _former(fields: Obj) -> Former:
    return Former(
        interning.text(raw.text(fields, "project")),
        raw.tier(fields, "tier"),
        quantity.valid(raw.mapping(fields, "requests")),
        tuple(
            FormerCopies(
                interning.text(raw.text(entry, "cluster")),
                max(raw.integer(entry, "copies"), 0),
                raw.ranges(entry, "ranges") if "ranges" in entry else (),
            )
            for entry in raw.objects(fields, "clusters")
        ),
    )
