"""Finds fields that we once set and no longer want, in the API server's record of our writes
(managedFields).

Comparing values cannot find them: extra fields of a live object may be anyone's. Server-side apply
removes them with the next apply, so there it is enough to notice; a merge patch must name them.
Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from federator.model.kubernetes import diffs

_SELF = "."


def of(metadata: Mapping[str, Any], manager: str, operation: str) -> Mapping[str, Any]:
    """The fields (FieldsV1) that `manager` set by `operation` (Apply or Update), without status;
    empty when there are none."""
    fields: Mapping[str, Any] = {}
    entries = metadata.get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping) or entry.get("subresource"):
            continue
        if (entry.get("manager"), entry.get("operation")) == (manager, operation):
            fields = _union(fields, entry.get("fieldsV1"))
    return fields


def handed_over(metadata: Mapping[str, Any], manager: str) -> list[dict[str, Any]] | None:
    """The managedFields after which `manager` owns by Apply what it owned by Update, as if it had
    applied from the start: then its next apply removes what that does not name. None if it owns
    nothing by Update.

    A create, other than an apply, owns the server's defaults too: the next apply gives them up,
    and the server sets them again.
    """
    entries = [entry for entry in metadata.get("managedFields") or () if isinstance(entry, Mapping)]
    ours = [
        entry
        for entry in entries
        if entry.get("manager") == manager and not entry.get("subresource")
    ]
    updates = [entry for entry in ours if entry.get("operation") == "Update"]
    if not updates:
        return None
    fields: Mapping[str, Any] = {}
    for entry in ours:
        fields = _union(fields, entry.get("fieldsV1"))
    applies = {**updates[-1], "operation": "Apply", "fieldsV1": fields}
    return [applies, *(dict(entry) for entry in entries if entry not in ours)]


def _union(first: Any, other: Any) -> Mapping[str, Any]:
    left, right = (fields if isinstance(fields, Mapping) else {} for fields in (first, other))
    return (
        {**left, **{name: _union(left.get(name), below) for name, below in right.items()}}
        if left
        else right
    )


def removals(fields: Mapping[str, Any], live: Any, want: Any, *, complete: bool) -> dict[str, Any]:
    """The merge patch that removes from `live` those `fields` that `want` no longer has. A map is
    removed as a whole when all of it is ours; a list with such a field is replaced, as merge
    patches do.

    `complete`: `want` has every default. Only then is a list with indistinguishable items compared
    field by field.
    """
    patch: dict[str, Any] = {}
    for element, below in sorted(fields.items()):
        kind, _, name = element.partition(":")
        if kind != "f" or not isinstance(live, Mapping) or live.get(name) is None:
            continue
        have, wanted = live[name], want.get(name) if isinstance(want, Mapping) else None
        if wanted is None and _is_ours(below, have):
            patch[name] = None
        elif isinstance(have, Mapping) and isinstance(wanted or {}, Mapping):
            # A map without owners per field (a nodeSelector) has one owner, like a number.
            deeper = (
                diffs.replacement_patch(have, wanted)
                if wanted and not below
                else removals(below, have, wanted, complete=complete)
            )
            if deeper:
                patch[name] = deeper
        elif wanted is not None and (
            leftover(below, wanted) or (complete and not below and have != wanted)
        ):
            patch[name] = wanted
    return patch


def _is_ours(fields: Mapping[str, Any], live: Any) -> bool:
    """Whether everything in `live` is among `fields`; lists, and maps with one owner, count as
    whole."""
    if not isinstance(live, Mapping) or not fields:
        return True
    return all(
        f"f:{name}" in fields and _is_ours(fields[f"f:{name}"], value)
        for name, value in live.items()
    )


def leftover(fields: Mapping[str, Any], want: Any) -> str:
    """Path of the first of `fields` that `want` no longer has; "" when it has them all.

    Elements that cannot be understood (a list index, a key that is no JSON) count as wanted: a
    leftover field does less harm than endless writes.
    """
    return _leftover(fields, want, frozenset())


def _leftover(fields: Mapping[str, Any], want: Any, keys: frozenset[str]) -> str:
    """`keys`: fields that form the key of this list item; a default may stand in for them."""
    for element, below in sorted(fields.items()):
        kind, _, rest = element.partition(":")
        if element == _SELF or (kind == "f" and rest in keys):
            continue
        child, key_names = _child(kind, rest, want)
        if child is _GONE:
            return element
        if isinstance(below, Mapping) and below and child is not _UNKNOWN:
            deeper = _leftover(below, child, key_names)
            if deeper:
                return f"{element} {deeper}"
    return ""


def surplus(fields: Mapping[str, Any], live: Any, want: Any) -> bool:
    """Whether an item of one of our lists has a field in `live` that `want` lacks, where items
    cannot be told apart (rules of an Ingress, tolerations). Such a field was set with the rest, or
    is an unknown default; only an apply shows which."""
    for element, below in fields.items():
        kind, _, rest = element.partition(":")
        have, wanted = (_child(kind, rest, side)[0] for side in (live, want))
        if any(side is _GONE or side is _UNKNOWN for side in (have, wanted)):
            continue
        if isinstance(below, Mapping) and below:
            if surplus(below, have, wanted):
                return True
        elif isinstance(have, list) and _has_more(have, wanted):
            return True
    return False


_DEFAULTS: Final = {"apiVersion": "v1", "expirationSeconds": 3600, "divisor": "0"}
"""What servers add to items of such lists (sources of projected volumes)."""


def _has_more(live: Any, want: Any) -> bool:
    """Whether `live` has a field, at any depth, that `want` lacks and that is no default."""
    if isinstance(live, Mapping) and isinstance(want, Mapping):
        beyond = (
            name
            for name, value in live.items()
            if want.get(name) is None and _DEFAULTS.get(name) != value
        )
        return any(live[name] is not None for name in beyond) or any(
            _has_more(live[name], value) for name, value in want.items() if name in live
        )
    if isinstance(live, list) and isinstance(want, list):
        return any(
            _has_more(live_item, other) for live_item, other in zip(live, want, strict=False)
        )
    return False


_GONE: Any = object()
_UNKNOWN: Any = object()


def _child(kind: str, rest: str, want: Any) -> tuple[Any, frozenset[str]]:
    """What `want` has at one element of a path, and the names that form its key."""
    none: frozenset[str] = frozenset()
    if kind == "f":
        there = isinstance(want, Mapping) and want.get(rest) is not None
        return (want[rest] if there else _GONE), none
    if kind not in ("k", "v"):
        return _UNKNOWN, none
    try:
        key = msgspec.json.decode(rest)
    except msgspec.DecodeError:
        return _UNKNOWN, none
    items = want if isinstance(want, list) else []
    if kind == "v":
        return (key if key in items else _GONE), none
    if not isinstance(key, Mapping):
        return _UNKNOWN, none
    for item in items:
        if isinstance(item, Mapping) and all(
            item.get(name, value) == value for name, value in key.items()
        ):
            return item, frozenset(key)
    return _GONE, none
