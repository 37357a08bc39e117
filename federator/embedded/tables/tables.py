"""Server-side Tables: the columns `kubectl get` prints, for builtins from code and for custom
resources from their CRD.

Called by `views`; one row per object. Which builtin has which columns is a table in `columns`.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from federator.embedded.storage.resources import Column, ResourceInfo
from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import ages, cluster_rows, columns

_NAME = Column("Name", format="name")
_CREATED = Column("Created At", "date")
_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)
      | \[\?\(@\.(?P<where>[^=!]+?)\s*==\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')\)\]
      | \[['"](?P<quoted>[^'"]+)['"]\]
      | \[(?P<index>-?\d+|\*)\]""",
    re.VERBOSE,
)

Step = Callable[[Any], list[Any]]


def table(
    info: ResourceInfo,
    objects: Sequence[JsonObject],
    version: str,
    *,
    include: str,
    now: float,
    whole: bool = False,
) -> JsonObject:
    """A `meta.k8s.io/v1` Table. `include`: what rows carry besides cells, Metadata | Object |
    None. `whole`: the objects are a list, so that one can be told to be first among them."""
    definitions, row = _layout(info)
    rows = [_row(row, obj, include, now) for obj in objects]
    if whole and info.key == ("storage.k8s.io", "storageclasses"):
        first = cluster_rows.default_class(objects)
        for each in rows:
            each["cells"][0] += " (default)" * (each["cells"][0] == first)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": definitions,
        "rows": rows,
    }


def _row(cells: columns.Cells, obj: JsonObject, include: str, now: float) -> JsonObject:
    row: JsonObject = {"cells": cells(obj, now)}
    conditions = _completed(obj) if obj.get("kind") == "Pod" else None
    if conditions:
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = obj
    elif include == "None":
        row["object"] = None
    else:
        row["object"] = partial(obj, "v1")
    return row


def partial(obj: JsonObject, version: str) -> JsonObject:
    """Only the metadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }


def _completed(pod: JsonObject) -> list[JsonObject] | None:
    phase = (pod.get("status") or {}).get("phase")
    if phase not in {"Succeeded", "Failed"}:
        return None
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


@functools.lru_cache(maxsize=1024)
def _layout(info: ResourceInfo) -> tuple[list[JsonObject], columns.Cells]:
    if not info.is_builtin:
        return _custom_layout(info)
    if info.key in columns.LAYOUTS:
        shown, cells = columns.LAYOUTS[info.key]
        return [column.definition() for column in shown], cells
    return [column.definition() for column in (_NAME, _CREATED)], _created_at


def _created_at(obj: JsonObject, _now: float) -> list[Any]:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]


def _custom_layout(info: ResourceInfo) -> tuple[list[JsonObject], columns.Cells]:
    finders = [(column.type, path(column.json_path)) for column in info.printer_columns]

    def cells(obj: JsonObject, now: float) -> list[Any]:
        return [
            obj["metadata"]["name"],
            *(_cell(type_, first(steps, obj), now) for type_, steps in finders),
        ]

    return [column.definition() for column in (_NAME, *info.printer_columns)], cells


def _cell(type_: str, value: Any, now: float) -> Any:
    """One value as a cell of its column's type; what does not fit is empty."""
    if value is None:
        return None
    if type_ == "string":
        return value if isinstance(value, str) else _printed(value)
    if type_ == "date":
        return ages.since(value, now) if isinstance(value, str) else None
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if (
        type_ in {"integer", "number"}
        and isinstance(value, int | float)
        and not isinstance(value, bool)
    ):
        return int(value) if type_ == "integer" else float(value)
    return None


def _printed(value: Any) -> str:
    """What a JSONPath prints for a value that is no string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(value).decode()


def path(text: str) -> list[Step]:
    """A simple JSONPath (`.a.b[0]['c'].d[?(@.type=="Ready")].status`) as steps."""
    steps: list[Step] = []
    for match in _STEP.finditer(text if text.startswith((".", "[")) else f".{text}"):
        if match["where"]:
            wanted = match["double"] if match["double"] is not None else match["single"]
            steps.append(functools.partial(_where, match["where"].strip().split("."), wanted))
        elif match["index"]:
            steps.append(functools.partial(_at, match["index"]))
        else:
            steps.append(
                functools.partial(_field, match["quoted"] or match["field"].replace("\\", ""))
            )
    return steps


def first(steps: list[Step], obj: Any) -> Any:
    """The first value a path finds, or None."""
    values = [obj]
    for step in steps:
        values = [value for item in values for value in step(item)]
        if not values:
            return None
    return values[0]


def _field(name: str, value: Any) -> list[Any]:
    return [value[name]] if isinstance(value, dict) and name in value else []


def _at(index: str, value: Any) -> list[Any]:
    if index == "*":
        return (
            list(value.values())
            if isinstance(value, dict)
            else list(value)
            if isinstance(value, list)
            else []
        )
    return value[int(index) :][:1] if isinstance(value, list) else []


def _where(fields: list[str], wanted: str, value: Any) -> list[Any]:
    parts = []
    for item in value if isinstance(value, list) else ():
        inner = item
        for field in fields:
            inner = inner.get(field) if isinstance(inner, dict) else None
        if inner is not None and (inner if isinstance(inner, str) else _printed(inner)) == wanted:
            parts.append(item)
    return parts
