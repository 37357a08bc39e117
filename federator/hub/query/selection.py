"""Which pods of a cluster belong to a workload, and what is read of them. Pure; total on what a
member may answer.

The kind says how to recognise its pods (`verbs.PodLookup`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from federator.api import raw
from federator.kinds import registry
from federator.model import plaintext
from federator.model.shards import Ranges

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
    """The container with the log that is shown by default."""


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
    """The pods of a workload as it stands on the host. Raises FieldError for one that selects
    none."""
    meta = raw.mapping(obj, "metadata")
    name = raw.text(meta, "name")
    verbs = registry.verbs_of(kind)
    labels = verbs.lookup.selector(obj)
    template = verbs.pod_template(obj)
    named = raw.text(template, "metadata", "annotations", DEFAULT_CONTAINER)
    containers = raw.objects(template, "spec", "containers")
    first = next((raw.text(container, "name") for container in containers), "")
    return Selection(
        kind, raw.text(meta, "namespace"), name, raw.text(meta, "uid"), labels, named or first
    )


def table(body: bytes) -> Table:
    """Decodes a member's answer. Raises ValueError for what is no Table."""
    try:
        answer = _decoder.decode(body)
    except msgspec.MsgspecError:
        raise ValueError("the answer is no table of pods") from None
    if answer.kind != "Table":
        raise ValueError("the answer is no table of pods")
    return answer


def rows(table: Table, selection: Selection, pieces: Ranges) -> list[dict[str, Any]]:
    """The rows of pods that belong to the workload, each with its name, `CELLS`, and the shard of a
    job set's. `pieces`: the ranges that the cluster was given, by which its Jobs are called."""
    places = {column.name.lower(): index for index, column in enumerate(table.columnDefinitions)}
    lookup = registry.verbs_of(selection.kind).lookup
    shard_of = lookup.shards(selection.name, pieces) if lookup.shards is not None else None
    shown = []
    for row in table.rows or ():
        meta = row.object.metadata if row.object is not None else _Meta()
        owner = next(
            (owner for owner in meta.ownerReferences or () if owner.get("controller") is True), {}
        )
        if not meta.name or not lookup.made_for(selection.name, owner, meta.labels or {}):
            continue
        fields: dict[str, Any] = {"name": text(meta.name)}
        for name in CELLS:
            index = places.get(name, len(row.cells))
            fields[name] = text(row.cells[index]) if index < len(row.cells) else ""
        if shard_of is not None:
            completion = (meta.annotations or {}).get(INDEX_ANNOTATION, "")
            fields["shard"] = shard_of(str(owner.get("name", "")), completion)
        shown.append(fields)
    return shown


def text(value: object) -> str:
    """A member's word on something, fit for a terminal: short, and without control characters."""
    return plaintext.visible(str(value) if isinstance(value, str | int) else "")[:TEXT_MAX]
