"""How a submission is kept: in labels and an annotation of the objects that it made. Pure.

The identifier of a submission is a digest of its namespace, its workflow and its key, so a repeated
request finds what the first one has made. The names of objects are as fixed: a kind that ends gets
a part of the identifier in its name, one object for each submission; any other kind keeps its name,
and its annotation lists the last submissions that changed it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from federator.api import raw
from federator.api.submissions import ID_LABEL, KEPT_MAX, RECORDS, WORKFLOW_LABEL, Record
from federator.gateway.platforms import table
from federator.model.names import short_hash

ID_CHARS: Final = 20
SUFFIX_CHARS: Final = 8
BASE_CHARS: Final = 43
"""A workload's name has 52 characters at most."""


def identifier(namespace: str, workflow: str, key: str) -> str:
    return short_hash("submission", namespace, workflow, key, length=ID_CHARS)


def body_digest(artifact: str, version: str, parameters: Mapping[str, Any]) -> str:
    """What must be the same in a repeated request."""
    text = json.dumps([artifact, version, dict(parameters)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def ends(kind: str) -> bool:
    """Whether objects of this kind run to an end, so that each submission makes its own."""
    return table.PLATFORMS.kinds[kind].ends


def name_of(kind: str, name: str, identity: str) -> str:
    """The name of an object of a submission."""
    if not ends(kind):
        return name
    return f"{name[:BASE_CHARS].rstrip('-')}-{identity[:SUFFIX_CHARS]}"


def marked(obj: Mapping[str, Any], record: Record, earlier: Sequence[Record]) -> dict[str, Any]:
    """The object with the record of its submission. `earlier`: those that it has already."""
    meta = obj["metadata"]
    older = [_row(each, whole=False) for each in earlier if each.id != record.id]
    rows = [_row(record, whole=True), *older[: KEPT_MAX - 1]]
    labels = {ID_LABEL: record.id, WORKFLOW_LABEL: record.workflow}
    annotations = {RECORDS: json.dumps(rows, sort_keys=True)}
    return {
        **obj,
        "metadata": {
            **meta,
            "labels": {**raw.text_map(meta, "labels"), **labels},
            "annotations": {**raw.text_map(meta, "annotations"), **annotations},
        },
    }


def _row(record: Record, *, whole: bool) -> dict[str, Any]:
    row = asdict(record)
    if not whole:
        del row["parameters"]
    return row
