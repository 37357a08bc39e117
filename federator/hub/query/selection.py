"""Which pods of a cluster belong to a workload, and what is read of them. Pure; total on what a member may answer.

Pods carry no mark of the federation: a mark in their template would replace every pod. They are those that the native
object's own selector takes, in the workload's namespace, and that a ReplicaSet of its Deployment, or a Job, made.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from federator.api import raw
from federator.kinds.jobset import jobsets, pinterestjobset
from federator.kinds.service import pinterestservice
from federator.model import plaintext
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from federator.model.shards import Range

HASH_LABEL = "pod-template-hash"
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
TEXT_MAX = 253
"""Characters of a text that a member says of a pod."""
CELLS = ("ready", "status", "restarts", "age", "ip", "node")
"""Columns of a server's own table of pods that are shown."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The pods of one workload in any cluster."""

    kind: str
    namespace: str
    name: str
    uid: str
    """Of the workload on the host."""
    labels: str
    """The selector."""
    container: str
    """Whose log is shown when nobody says otherwise."""


class _Meta(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[dict[str, Any]] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Row(msgspec.Struct):
    cells: list[Any] = []
    object: _Object | None = None


class _Column(msgspec.Struct):
    name: str = ""


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class Table(msgspec.Struct):
    """As much of a `meta.k8s.io/v1` Table as is read."""

    kind: str = ""
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    columnDefinitions: list[_Column] = []
    rows: list[_Row] | None = None


_decoder = msgspec.json.Decoder(Table)


def of_workload(kind: str, obj: Mapping[str, Any]) -> Selection:
    """The pods of a workload as it stands on the host. Raises FieldError for one that selects none."""
    meta = raw.mapping(obj, "metadata")
    name = raw.text(meta, "name")
    if kind == "PinterestService":
        labels = f"{pinterestservice.SELECTOR_LABEL}={name}"
    elif kind == "PinterestJobSet":
        labels = f"{pinterestjobset.SELECTOR_LABEL}={name}"
    else:
        chosen = raw.mapping(obj, "spec", "selector")
        labels = selectors.to_text(selectors.from_dict(chosen, "spec.selector"))
        if not labels:
            raise FieldError("spec.selector", "selects no pods by their labels")
    template = raw.mapping(obj, "spec", "template")
    named = raw.text(template, "metadata", "annotations", DEFAULT_CONTAINER)
    first = next((raw.text(one, "name") for one in raw.objects(template, "spec", "containers")), "")
    return Selection(kind, raw.text(meta, "namespace"), name, raw.text(meta, "uid"), labels, named or first)


def table(body: bytes) -> Table:
    """Decodes a member's answer. Raises ValueError for what is no Table."""
    try:
        found = _decoder.decode(body)
    except msgspec.MsgspecError:
        raise ValueError("the answer is no table of pods") from None
    if found.kind != "Table":
        raise ValueError("the answer is no table of pods")
    return found


def rows(found: Table, selection: Selection, pieces: Sequence[Range]) -> list[dict[str, Any]]:
    """The rows of pods that belong to the workload, each with its name, `CELLS`, and the shard of a job set's.
    `pieces`: the ranges that the cluster was given, by which its Jobs are called."""
    places = {column.name.lower(): index for index, column in enumerate(found.columnDefinitions)}
    bases = {jobsets.job_name(selection.name, piece): piece[0] for piece in pieces}
    shown = []
    for row in found.rows or ():
        meta = row.object.metadata if row.object is not None else _Meta()
        owner = next((one for one in meta.ownerReferences or () if one.get("controller") is True), {})
        if not meta.name or not _made_for(selection, owner, meta.labels or {}):
            continue
        known: dict[str, Any] = {"name": text(meta.name)}
        for name in CELLS:
            index = places.get(name, len(row.cells))
            known[name] = text(row.cells[index]) if index < len(row.cells) else ""
        if selection.kind == "PinterestJobSet":
            completion = (meta.annotations or {}).get(INDEX_ANNOTATION, "")
            known["shard"] = _shard(selection.name, str(owner.get("name", "")), completion, bases)
        shown.append(known)
    return shown


def _made_for(selection: Selection, owner: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if selection.kind == "PinterestJobSet":
        return owner.get("kind") == "Job"
    made_by = f"{selection.name}-{labels.get(HASH_LABEL, '')}"
    return owner.get("kind") == "ReplicaSet" and owner.get("name") == made_by


def _shard(name: str, job: str, index: str, bases: Mapping[str, int]) -> int | None:
    """The shard that a pod runs; None where neither the pieces nor the Job's name tell."""
    base = bases.get(job)
    if base is None and (plain := re.fullmatch(rf"{re.escape(name)}-(\d{{1,9}})-\d{{1,9}}", job, re.ASCII)):
        base = int(plain[1])
    return base + int(index) if base is not None and index.isascii() and index.isdecimal() and len(index) < 10 else None


def text(value: object) -> str:
    """A member's word on something, fit for a terminal: short, and without control characters."""
    return plaintext.visible(str(value) if isinstance(value, str | int) else "")[:TEXT_MAX]
