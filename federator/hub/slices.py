"""What the hub remembers of a slice in a member, and how a slice is compared with what it should be.

`summarise` is the projection of the member reflectors. A slice is *verified* when its live digest is known to cover a
rendered content and share; the verdict is remembered by digest, so that a restart or a drift is noticed and an
unchanged object is never read twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.api import kinds, raw
from federator.api.deployment import MEMBER_STATUS_ANNOTATION
from federator.api.verbs import SliceMark, WorkloadVerbs
from federator.hub import workloads
from federator.model import diffs, names
from federator.model.decision import Share
from federator.model.names import WorkloadKey
from federator.model.observation import SliceObservation


@dataclass(frozen=True, slots=True)
class SliceSeen:
    """One object of a workload kind in one member."""

    cluster: str
    key: WorkloadKey
    uid: str
    resource_version: str
    mark: SliceMark | None
    deleting: bool
    live: str
    """Digest of everything of it that we write."""
    observation: SliceObservation
    native: Mapping[str, Any] = field(default_factory=dict)
    """The counters of a carried native kind's status; empty for our kinds, whose observation says all."""

    def ours(self, fleet: str) -> bool:
        return self.mark is not None and self.mark.fleet == fleet


def summarise(kind: str, cluster: str, obj: Mapping[str, Any]) -> SliceSeen:
    """Total on whatever a member may hold."""
    verbs = kinds.verbs_of(kind)
    meta = obj["metadata"]
    return SliceSeen(
        cluster=cluster,
        key=WorkloadKey(kind, meta.get("namespace", ""), meta["name"]),
        uid=meta.get("uid", ""),
        resource_version=meta.get("resourceVersion", ""),
        mark=verbs.read_mark(obj),
        deleting="deletionTimestamp" in meta,
        live=live_digest(obj),
        observation=verbs.observe(obj, cluster, True),
        native=_counters(obj) if kinds.KINDS[kind].model is None else {},
    )


def _counters(obj: Mapping[str, Any]) -> dict[str, int]:
    status = obj.get("status")
    return {name: n for name, n in status.items() if isinstance(n, int)} if isinstance(status, Mapping) else {}


def live_digest(obj: Mapping[str, Any]) -> str:
    """Of spec, labels and annotations: what a drift would change. Status and bookkeeping are left out."""
    meta = obj["metadata"]
    return workloads.digest([obj.get("spec"), meta.get("labels"), _lasting(raw.mapping(meta, "annotations"))])


def _lasting(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the member writes: its roll-out revision, and what it says of a carried Deployment."""
    return {
        name: text
        for name, text in annotations.items()
        if name != MEMBER_STATUS_ANNOTATION and not name.startswith("deployment.kubernetes.io/")
    }


@dataclass(frozen=True, slots=True)
class Verified:
    """`live` covers `content` with `share`, as rendered for slice `uid`."""

    uid: str
    live: str
    content: str
    share: str


@dataclass(slots=True)
class VerifiedBook:
    """Per member: the last comparison of every slice. Forgotten with the process; rebuilt by reading."""

    entries: dict[WorkloadKey, Verified] = field(default_factory=dict)

    def of(self, seen: SliceSeen) -> Verified | None:
        entry = self.entries.get(seen.key)
        return entry if entry is not None and entry.uid == seen.uid and entry.live == seen.live else None


def share_digest(share: Share, profile: str) -> str:
    return f"{share.count}/{share.slots}/{share.seq}/{share.ranges}/{profile}"


def render(
    verbs: WorkloadVerbs,
    obj: Mapping[str, Any],
    share: Share,
    *,
    fleet: str,
    profile: tuple[str, str],
    origin: int | None = None,
) -> dict[str, Any]:
    """The complete slice of `obj` for the share's cluster. `profile` is (name, hash), empty strings for none.

    `origin` replaces the generation it is marked with: a generation that changed nothing for this cluster is not
    worth a write.
    """
    meta = obj["metadata"]
    mark = SliceMark(
        fleet=fleet,
        workload_uid=meta["uid"],
        origin_generation=meta.get("generation", 0) if origin is None else origin,
        cluster=share.cluster,
        seq=share.seq,
        ranges=share.ranges,
        profile_name=profile[0],
        profile_hash=profile[1],
    )
    return verbs.render_slice(obj, share, mark)


def difference(live: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes every field we own have our value; empty when there is nothing to do.

    Fields of a spec of ours that the live object has and we do not want any more are removed, but only in objects
    that carry `spec.slice`: there the hub is the one writer of spec. In carried native kinds, what is not ours is
    left to its owner.
    """
    patch: dict[str, Any] = {}
    live_meta, want_meta = live["metadata"], want["metadata"]
    meta_patch = {
        part: found
        for part in ("labels", "annotations")
        if (found := diffs.merge_patch(raw.mapping(live_meta, part), want_meta.get(part) or {}))
    }
    if meta_patch:
        patch["metadata"] = meta_patch
    live_spec, want_spec = raw.mapping(live, "spec"), want.get("spec") or {}
    spec_patch = diffs.merge_patch(live_spec, want_spec)
    if "slice" in want_spec:
        spec_patch |= {name: None for name in live_spec if name not in want_spec}
    if spec_patch:
        patch["spec"] = spec_patch
    return patch


def share_part(patch: Mapping[str, Any], want: Mapping[str, Any], neutral: Mapping[str, Any]) -> dict[str, Any]:
    """What of a patch belongs to the share and not to the content: the fields in which `want` differs from the neutral
    slice."""
    spec = patch.get("spec") or {}
    want_spec, neutral_spec = want.get("spec") or {}, neutral.get("spec") or {}
    found: dict[str, Any] = {}
    if chosen := {name: spec[name] for name in spec if want_spec.get(name) != neutral_spec.get(name)}:
        found["spec"] = chosen
    metadata = patch.get("metadata") or {}
    if marks := {
        part: only
        for part, ours in (("labels", _MARK_LABELS), ("annotations", _MARK_ANNOTATIONS))
        if (only := {name: text for name, text in (metadata.get(part) or {}).items() if name in ours})
    }:
        found["metadata"] = marks
    return found


_MARK_LABELS = frozenset({names.FLEET_LABEL, names.WORKLOAD_UID_LABEL})
_MARK_ANNOTATIONS = frozenset({names.SLICE_ANNOTATION})


def fleet_selector(fleet: str) -> str:
    """Selects what this fleet wrote, for kinds of which members hold many others."""
    return f"{names.FLEET_LABEL}={fleet}"
