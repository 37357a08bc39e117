"""Submissions as their objects keep them: in labels and an annotation. Pure.

The gateway writes them; the gateway and the dashboard read them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from federator.api import raw
from federator.model.names import FEDERATION

ID_LABEL: Final = "submission.pinterest.com/id"
"""The submission that made the object, or changed it last. Not below the federation's own prefix:
admission lets the hub alone write labels there, and callers write these."""
WORKFLOW_LABEL: Final = "submission.pinterest.com/workflow"
RECORDS: Final = f"{FEDERATION}/submissions"
"""Annotation: the last submissions of the object as JSON, the newest first."""
KEPT_MAX: Final = 10
"""Submissions that one object lists, as many as it has revisions."""


@dataclass(frozen=True, slots=True)
class Record:
    """One submission, as an object keeps it."""

    id: str
    body: str
    """Digest of the request's body."""
    workflow: str
    artifact: str
    version: str
    digest: str
    by: str
    at: str
    commit: str = ""
    """By its signed provenance, or else by the workflow file."""
    branch: str = ""
    verdict: str = ""
    """The verdict with which it was written: placed or queued; refused only for a repeated request
    that completes an interrupted submission."""
    objects: tuple[str, ...] = ()
    """KIND/NAME of each of its objects."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Only of the newest of an object."""


def read(obj: Mapping[str, Any]) -> tuple[Record, ...]:
    """The submissions of an object, the newest first; () where it has none or they cannot be
    read."""
    text = raw.text(obj, "metadata", "annotations", RECORDS)
    try:
        rows = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return ()
    if not isinstance(rows, list):
        return ()
    return tuple(each for row in rows[:KEPT_MAX] if (each := _record(row)) is not None)


def _record(row: Any) -> Record | None:
    if not isinstance(row, dict) or row.keys() - {each.name for each in fields(Record)}:
        return None
    texts = {
        each.name: row.get(each.name, "")
        for each in fields(Record)
        if each.name not in ("objects", "parameters")
    }
    objects, parameters = row.get("objects", []), row.get("parameters", {})
    readable = all(isinstance(text, str) for text in texts.values()) and texts["id"]
    if not readable or not isinstance(objects, list) or not isinstance(parameters, dict):
        return None
    if not all(isinstance(each, str) for each in objects):
        return None
    return Record(**texts, objects=tuple(objects), parameters=parameters)


def of_submission(objs: Iterable[Mapping[str, Any]], identity: str) -> Record | None:
    """The record of a submission in any of its objects."""
    return next(
        (each for obj in objs for each in read(obj) if each.id == identity),
        None,
    )


def state_of(obj: Mapping[str, Any]) -> tuple[str, str]:
    """(state, why) of one object of a submission."""
    for kind, state in (("Failed", "Failed"), ("Complete", "Succeeded")):
        condition = raw.condition(obj, kind)
        if condition.get("status") == "True":
            return state, raw.text(condition, "message") if state == "Failed" else ""
    placed, ready = raw.condition(obj, "Placed"), raw.condition(obj, "Ready")
    running = ready.get("status") == "True" or raw.integer(obj, "status", "running") > 0
    if running:
        return "Running", ""
    if placed.get("status") == "False" and not raw.integer(obj, "status", "placed"):
        return "Queued", raw.text(placed, "message")
    if placed:
        return "Placed", raw.text(ready, "message")
    return "Pending", "the hub has not decided yet"
