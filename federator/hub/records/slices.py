"""What the hub remembers of a slice in a member, and how a slice is compared with what it should
be.

`summarise` is the projection of the member reflectors. A slice proves itself when the digest of its
content is that of what the hub would render, and its mark and amount are those of its share: then
it need not be read again. Where it holds more than that (defaults of another version, a webhook's
fields) it is read and compared once, and the verdict is remembered by digest, so that a drift is
noticed.
"""

import functools
import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from federator.api import raw
from federator.hub.records import workloads
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kinds.verbs import (
    EXPANDER,
    EXPANDERS,
    USUAL_RULES,
    Environment,
    PodRules,
    Profile,
    SliceMark,
    WorkloadVerbs,
    is_as_written,
)
from federator.kube import client as clients
from federator.kube.store import Store
from federator.kube.wire import decode
from federator.model import interning, names, shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.kubernetes import diffs, owned_fields
from federator.model.names import WorkloadKey
from federator.model.observation import SliceObservation, quick_observation
from federator.model.quickly import quickly
from federator.status.given import BEYOND_BOUNDS, Contradiction


class SliceMeta(decode.Meta):
    """What is read of a slice's metadata, whatever stands in it."""

    generation: Any = None
    labels: Any = None
    annotations: Any = None
    deletionTimestamp: Any = None


class SliceShape(msgspec.Struct):
    """What is decoded of a slice in a member. Left out: `managedFields`, a third of the object."""

    metadata: SliceMeta
    spec: Any = None
    status: Any = None

    def as_object(self) -> dict[str, Any]:
        """The same as a decoded object."""
        meta = self.metadata
        metadata: dict[str, Any] = {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resourceVersion,
            "generation": meta.generation,
            "labels": meta.labels,
            "annotations": meta.annotations,
        }
        if meta.deletionTimestamp is not None:
            metadata["deletionTimestamp"] = meta.deletionTimestamp
        return {"metadata": metadata, "spec": self.spec, "status": self.status}


@dataclass(frozen=True, slots=True)
class SliceSeen:
    """One object of a workload kind in one member."""

    cluster: str
    key: WorkloadKey
    uid: str
    resource_version: str
    mark: SliceMark | None
    deleting: bool
    amount: int
    """What its spec says of the share beside the mark: replicas, or how many shards run at once; -1
    for nothing."""
    live: bytes
    """Digest of everything else of it that we write."""
    plain: bool
    """Its mark is spelled as we write it: `live` can be compared with `Workload.content`."""
    observation: SliceObservation
    """Without uid, seq and origin generation, which this row has anyway; one copy of equal ones."""
    native: Mapping[str, int] = field(default_factory=dict)
    """The counters of a carried native kind's status; empty for our kinds, because their
    observation says all."""

    def ours(self, fleet: str) -> bool:
        return self.mark is not None and self.mark.fleet == fleet

    def serves(self, fleet: str, workload_uid: str) -> bool:
        """Whether it is this workload's: the progress of an earlier workload of the same name is
        not its own."""
        return self.ours(fleet) and self.mark is not None and self.mark.workload_uid == workload_uid

    @property
    def due(self) -> int:
        """How many pods of it there should be now: copies, or shards that may run at once while so
        many are left."""
        seen = self.observation
        left = seen.desired
        if seen.completed or seen.failed:
            left -= shards.size(shards.union(seen.completed, seen.failed))
        return min(self.amount, left) if self.amount >= 0 else left

    @property
    def rolled_out(self) -> bool:
        """Whether the member has observed what it says now, and its pods are as they should be: the
        rollout may go on. Shards that have begun keep the template that they began with, and shards
        that are done are not ready."""
        seen = self.observation
        updated = (
            seen.updated >= seen.desired or registry.verbs_of(self.key.kind).unit is Unit.SHARDS
        )
        return updated and seen.observed_generation >= seen.generation and seen.ready >= self.due


def summarise(
    kind: str, cluster: str, obj: Mapping[str, Any], before: SliceSeen | None = None
) -> SliceSeen:
    """Total on whatever a member may hold. `before` is what was seen of it last: a slice's status
    changes often and its mark hardly ever, and one that is spelled as before is not read again."""
    verbs = registry.verbs_of(kind)
    meta = obj["metadata"]
    mark = before.mark if before is not None else None
    plain = mark is not None and is_as_written(obj, mark)
    if not plain:
        mark = verbs.read_mark(obj)
        plain = mark is not None and is_as_written(obj, mark)
    return made_slice(
        cluster=cluster,
        key=names.key(kind, raw.text(meta, "namespace"), raw.text(meta, "name")),
        uid=raw.text(meta, "uid"),
        resource_version=raw.text(meta, "resourceVersion"),
        mark=mark,
        deleting="deletionTimestamp" in meta,
        amount=raw.integer(obj, "spec", verbs.amount, default=-1) if verbs.amount else 1,
        live=workloads.content_digest(verbs, obj) if plain else _whole_digest(obj),
        plain=plain,
        observation=_shared(_figures(verbs.observe(obj, cluster, True))),
        native=interning.counters(_counters(obj))
        if registry.KINDS[kind].model is None
        else interning.NOTHING,
    )


made_slice = quickly(SliceSeen)


ROW_BYTES = 900
"""A row without its texts and ranges, about."""
PIECE_BYTES = 130
"""One range: a pair of numbers."""


_environment_texts = operator.attrgetter(*(field.name for field in fields(Environment)))


def weight(seen: SliceSeen) -> int:
    """What a row takes in memory, in bytes, about: nothing that a member can make long is left
    out."""
    observed, mark = seen.observation, seen.mark
    pieces = len(observed.completed) + len(observed.failed)
    texts = (
        len(seen.uid)
        + len(seen.resource_version)
        + len(observed.message)
        + len(observed.drift)
        + len(observed.template)
    )
    if mark is not None:
        pieces += len(mark.ranges)
        texts += len(mark.fleet) + len(mark.workload_uid) + len(mark.cluster)
        texts += len("".join(mark.rules.profile)) + len(mark.rules.expander)
        texts += len(mark.rules.overrides)
        texts += len("".join(_environment_texts(mark.rules.environment)))
    return ROW_BYTES + PIECE_BYTES * pieces + texts


_OWN = ("uid", "seq", "origin_generation")
_FIGURES = tuple(field.name for field in fields(SliceObservation) if field.name not in _OWN)
_figures = operator.attrgetter(*_FIGURES)


def _shared(figures: tuple[Any, ...]) -> SliceObservation:
    """One copy of what many slices say alike. What is long is hardly ever said alike: a job set in
    ten thousand pieces says something else with each shard, and eight thousand copies of that would
    fill the memory."""
    completed, failed, message, drift = _lengths(figures)
    if (
        len(completed) + len(failed) > SHARED_PIECES_MAX
        or len(message) + len(drift) > SHARED_TEXT_MAX
    ):
        return _observation(figures)
    return _remembered(figures)


def _observation(figures: tuple[Any, ...]) -> SliceObservation:
    return quick_observation(**dict(zip(_FIGURES, figures, strict=True)))


_remembered = functools.lru_cache(maxsize=8192)(_observation)
SHARED_PIECES_MAX = 8
"""Ranges of an observation that is kept for others; with the texts that is at most about two
kilobytes."""
SHARED_TEXT_MAX = 256
_lengths = operator.itemgetter(*map(_FIGURES.index, ("completed", "failed", "message", "drift")))


COUNTERS = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
)
"""Figures of carried native kinds that are added up over clusters."""


def _counters(obj: Mapping[str, Any]) -> dict[str, int]:
    status = raw.mapping(obj, "status")
    return {name: raw.figure(status, name) for name in COUNTERS if name in status}


def _whole_digest(obj: Mapping[str, Any]) -> bytes:
    """Of spec, labels and annotations with whatever stands for a mark in them: what a drift would
    change."""
    meta = obj["metadata"]
    return workloads.digest(
        [
            "whole",
            obj.get("spec"),
            meta.get("labels"),
            workloads.lasting(raw.mapping(meta, "annotations")),
        ]
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is known of a slice beside what it should be."""

    compared: bool = False
    """False: it has to be read and compared first."""
    content: bool = False
    """Its content (everything but the share) is what the workload now says."""
    current: bool = False
    """It carries exactly the decided share and content."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a comparison with the whole live object showed: it covers `content` and `share`."""

    uid: str
    live: bytes
    mark: SliceMark | None
    amount: int
    content: bytes
    """b"" when something of the content differs."""
    profile: Profile
    share: Share | None
    """None when anything differs."""
    overrides: str = ""
    """Digest of the overrides with which it was compared."""


@dataclass(slots=True)
class VerifiedSlices:
    """Per member: the last comparison of every slice that does not prove itself. Forgotten with the
    process; rebuilt by reading."""

    entries: dict[WorkloadKey, Verified] = field(default_factory=dict)

    def of(self, seen: SliceSeen) -> Verified | None:
        entry = self.entries.get(seen.key)
        if entry is None or (entry.uid, entry.live, entry.amount) != (
            seen.uid,
            seen.live,
            seen.amount,
        ):
            return None
        return entry if entry.mark == seen.mark else None

    def note(
        self,
        seen: SliceSeen,
        content: bytes,
        profile: Profile,
        share: Share | None,
        *,
        overrides: str = "",
    ) -> None:
        """Remembers a comparison. `content` is b"", `share` None for what differs."""
        self.entries[seen.key] = Verified(
            seen.uid, seen.live, seen.mark, seen.amount, content, profile, share, overrides
        )

    def forget(self, key: WorkloadKey) -> None:
        self.entries.pop(key, None)


def proves_itself(seen: SliceSeen, workload: Workload) -> bool:
    """Whether its digest alone says that its content is the workload's."""
    return seen.plain and bool(workload.content) and seen.live == workload.content


def carries(
    seen: SliceSeen,
    workload: Workload,
    share: Share,
    fleet: str,
    profile: Profile,
    *,
    overrides: str = "",
) -> bool:
    """Whether mark and amount are those that a slice rendered for this share has. The generation
    that it is marked with is whatever it is: one that changed nothing for this cluster was not
    worth a write. Nor is a seq that is only higher: it was raised in the member, and fences off
    earlier writes only. Nor are other rules of expansion and another environment: both come with
    the next roll-out."""
    mark = seen.mark
    if mark is None or seen.amount != (
        share.slots if workload.verbs.unit is Unit.SHARDS else share.count
    ):
        return False
    return mark == SliceMark(
        fleet=fleet,
        workload_uid=workload.uid,
        origin_generation=mark.origin_generation,
        cluster=share.cluster,
        seq=max(share.seq, mark.seq),
        ranges=share.ranges,
        rules=as_known(mark, profile, overrides),
        pods=share.pods,
    )


def gives(seen: SliceSeen, share: Share) -> bool:
    """Whether this slice has just what the share says, whatever its number."""
    if registry.verbs_of(seen.key.kind).unit is Unit.SHARDS:
        return (
            seen.mark is not None
            and seen.mark.ranges == share.ranges
            and seen.amount == share.slots
        )
    ranges = seen.mark.ranges if seen.mark is not None else ()
    return seen.amount == share.count and ranges == share.ranges


def as_known(mark: SliceMark, profile: Profile, overrides: str = "") -> PodRules:
    """The rules of a slice with pods that stay as they are, with this profile and these
    overrides."""
    expander, rules = mark.rules.expander, mark.rules
    if expander not in EXPANDERS:
        expander = EXPANDER
    return PodRules(profile, expander, rules.environment, rules.ran_until_s, overrides)


def render(
    verbs: WorkloadVerbs,
    obj: Mapping[str, Any],
    share: Share,
    *,
    fleet: str,
    rules: PodRules = USUAL_RULES,
    origin: int | None = None,
) -> dict[str, Any]:
    """The complete slice of `obj` for the share's cluster.

    `origin` replaces the generation it is marked with: a generation that changed nothing for this
    cluster is not worth a write.
    """
    meta = obj["metadata"]
    mark = SliceMark(
        fleet=fleet,
        workload_uid=meta["uid"],
        origin_generation=meta.get("generation", 0) if origin is None else origin,
        cluster=share.cluster,
        seq=share.seq,
        ranges=share.ranges,
        rules=rules,
        pods=share.pods,
    )
    return verbs.render_slice(obj, share, mark)


def difference(
    live: Mapping[str, Any], want: Mapping[str, Any], *, answered: bool = False
) -> dict[str, Any]:
    """The merge patch that makes every field we own have our value; empty when there is nothing to
    do.

    What we once set and want no more is removed, as far as the server remembers that it was us.
    `answered`: `live` is the answer to our own write; what it has of that kind is not ours to
    change (a server of another version writes its defaults in our name, and does so again). In
    objects that carry `spec.slice` the hub is the one writer of spec: there whatever we do not want
    goes, in the spec itself, in the objects within it and anywhere in its pod template. In carried
    native kinds, what others added is left to them.
    """
    live_spec, want_spec = raw.mapping(live, "spec"), want.get("spec") or {}
    live_meta, want_meta = live["metadata"], want["metadata"]
    patch: dict[str, Any] = {"spec": diffs.merge_patch(live_spec, want_spec)}
    patch["metadata"] = {
        part: diffs.merge_patch(raw.mapping(live_meta, part), want_meta.get(part) or {})
        for part in _NOTES
    }
    if "slice" in want_spec:
        patch["spec"] |= {name: None for name in live_spec if name not in want_spec}
        if patched := diffs.replacement_patch(raw.mapping(live_spec, "slice"), want_spec["slice"]):
            # a pin of a profile that is no more would stay for good
            patch["spec"]["slice"] = patched
        template, wanted = raw.mapping(live_spec, "template"), raw.mapping(want_spec, "template")
        if template and wanted and (patched := diffs.replacement_patch(template, wanted)):
            patch["spec"]["template"] = patched
    if not answered:
        removed = owned_fields.removals(
            _ours(live_meta, carried="slice" not in want_spec), live, want, complete=True
        )
        patch = diffs.combined(patch, removed)
        if "slice" in want_spec:
            extras = diffs.extras_removed(live_spec, want_spec)
            patch["spec"] = diffs.combined(extras, patch["spec"])
    patch["metadata"] = {part: fields for part, fields in patch["metadata"].items() if fields}
    return {part: fields for part, fields in patch.items() if fields}


_NOTES = ("labels", "annotations")


def _ours(meta: Mapping[str, Any], *, carried: bool) -> dict[str, Any]:
    """The fields that we once set and may take away: labels and annotations, and in carried kinds
    what is in spec."""
    ours = owned_fields.of(meta, clients.FIELD_MANAGER, "Update")
    notes = {
        f"f:{part}": owned
        for part in _NOTES
        if (owned := raw.mapping(ours, "f:metadata", f"f:{part}"))
    }
    spec = raw.mapping(ours, "f:spec") if carried else {}
    return {
        element: fields for element, fields in (("f:metadata", notes), ("f:spec", spec)) if fields
    }


def with_our_notes(live: Mapping[str, Any]) -> dict[str, Any]:
    """The slice without labels and annotations that others added in its member, by the API server's
    record of field managers."""
    meta = live["metadata"]
    ours = _ours(meta, carried=False)
    notes = {
        part: {
            name: text
            for name, text in raw.mapping(meta, part).items()
            if f"f:{name}" in raw.mapping(ours, "f:metadata", f"f:{part}")
        }
        for part in _NOTES
    }
    return {**live, "metadata": {**meta, **notes}}


def share_part(
    patch: Mapping[str, Any], want: Mapping[str, Any], neutral: Mapping[str, Any]
) -> dict[str, Any]:
    """What of a patch belongs to the share and not to the content: the fields in which `want`
    differs from the neutral slice."""
    spec = patch.get("spec") or {}
    want_spec, neutral_spec = want.get("spec") or {}, neutral.get("spec") or {}
    kept: dict[str, Any] = {}
    if chosen := {
        name: spec[name] for name in spec if want_spec.get(name) != neutral_spec.get(name)
    }:
        kept["spec"] = chosen
    metadata = patch.get("metadata") or {}
    if marks := {
        part: only
        for part, ours in (
            ("labels", workloads.MARK_LABELS),
            ("annotations", workloads.MARK_ANNOTATIONS),
        )
        if (
            only := {
                name: text for name, text in (metadata.get(part) or {}).items() if name in ours
            }
        )
    }:
        kept["metadata"] = marks
    return kept


def without(part: Mapping[str, Any], pins: Collection[str]) -> dict[str, Any]:
    """The same patch of a share, leaving these pins of the slice (profile, overrides) as they
    are."""
    spec = dict(raw.mapping(part, "spec"))
    if "slice" in spec:
        spec["slice"] = {name: value for name, value in spec["slice"].items() if name not in pins}
    spec = {name: value for name, value in spec.items() if value != {}}
    return {name: value for name, value in part.items() if name != "spec"} | (
        {"spec": spec} if spec else {}
    )


def fleet_selector(fleet: str) -> str:
    """Selects what this fleet wrote, for kinds of which members hold many others."""
    return f"{names.FLEET_LABEL}={fleet}"


def beyond(cluster: str, kind: str, store: Store[SliceSeen]) -> Contradiction | None:
    """That it holds more of a kind than is kept; None while it does not."""
    if not store.left_out or store.bound is None:
        return None
    message = (
        f"It holds more than is kept of {kind}: {len(store)} objects of at most"
        f" {store.bound.objects},"
        f" {store.bytes} of at most {store.bound.bytes} bytes, and {store.left_out} left out"
    )
    return Contradiction(BEYOND_BOUNDS, message)
