"""What an API server remembers of our own writes (managedFields), read to find fields that we once set and want no
more.

Comparing values alone cannot see such a field: what a live object has beyond a wish may be anybody's. The next apply
takes it away, so there it is enough to notice; a merge patch has to name it. Pure; called where objects are compared.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from federator.model.kubernetes import diffs

_SELF = "."


def of(metadata: Mapping[str, Any], manager: str, operation: str) -> Mapping[str, Any]:
    """The fields (FieldsV1) that `manager` has set by `operation` (Apply or Update), status apart; empty where it has
    set none, or nobody tells."""
    fields: Mapping[str, Any] = {}
    entries = metadata.get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping) or entry.get("subresource"):
            continue
        if (entry.get("manager"), entry.get("operation")) == (manager, operation):
            fields = _union(fields, entry.get("fieldsV1"))
    return fields


def _union(first: Any, other: Any) -> Mapping[str, Any]:
    left, right = (fields if isinstance(fields, Mapping) else {} for fields in (first, other))
    return {**left, **{name: _union(left.get(name), below) for name, below in right.items()}} if left else right


def removals(fields: Mapping[str, Any], live: Any, want: Any, *, complete: bool) -> dict[str, Any]:
    """The merge patch that takes the fields among `fields` off `live` that `want` does not have any more. A map goes as
    a whole where all of it is ours; lists that hold such a field are replaced whole, as merge patches do.

    `complete`: `want` has every default. Only then is a list whose items nobody tells apart compared field by field.
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
            # A map whose fields are not told apart (a nodeSelector) has one owner, like a number.
            deeper = (
                diffs.replacement_patch(have, wanted)
                if wanted and not below
                else removals(below, have, wanted, complete=complete)
            )
            if deeper:
                patch[name] = deeper
        elif wanted is not None and (leftover(below, wanted) or (complete and not below and have != wanted)):
            patch[name] = wanted
    return patch


def _is_ours(fields: Mapping[str, Any], live: Any) -> bool:
    """Whether everything in `live` is among `fields`; lists, and maps with one owner, count as whole."""
    if not isinstance(live, Mapping) or not fields:
        return True
    return all(f"f:{name}" in fields and _is_ours(fields[f"f:{name}"], value) for name, value in live.items())


def leftover(fields: Mapping[str, Any], want: Any) -> str:
    """Path of the first field among `fields` that `want` does not have any more; "" when it has them all.

    What cannot be understood (an index of a list, a key that is no JSON) counts as wanted: a field too many that stays
    does less harm than an object that is written for ever.
    """
    return _leftover(fields, want, frozenset())


def _leftover(fields: Mapping[str, Any], want: Any, keys: frozenset[str]) -> str:
    """`keys`: names of fields that make up the key of this very list item; a default may stand in for them."""
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
    """Whether an item of a list of ours has a field in `live` that `want` lacks, where nobody tells items apart (rules
    of an Ingress, tolerations): there it was set together with the rest, or is a default that is not known here. Only
    an apply tells."""
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
        beyond = (name for name, value in live.items() if want.get(name) is None and _DEFAULTS.get(name) != value)
        return any(live[name] is not None for name in beyond) or any(
            _has_more(live[name], value) for name, value in want.items() if name in live
        )
    if isinstance(live, list) and isinstance(want, list):
        return any(_has_more(live_item, other) for live_item, other in zip(live, want, strict=False))
    return False


_GONE: Any = object()
_UNKNOWN: Any = object()


def _child(kind: str, rest: str, want: Any) -> tuple[Any, frozenset[str]]:
    """What `want` has at one element of a path, and the names that make up its key."""
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
        if isinstance(item, Mapping) and all(item.get(name, value) == value for name, value in key.items()):
            return item, frozenset(key)
    return _GONE, none
