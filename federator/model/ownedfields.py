"""What server-side apply remembers of our own applies, read to find fields that we once set and want no more.

Comparing values alone cannot see such a field: what a live object has beyond a wish may be anybody's. A real API server
takes it away with the next apply, so all there is to do is to notice. Pure; called where objects are compared.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

_SELF = "."


def applied(metadata: Mapping[str, Any], manager: str) -> Mapping[str, Any]:
    """The fields (FieldsV1) of the object that `manager` applied; empty where it applied none, or nobody tells."""
    entries = metadata.get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping) or entry.get("subresource"):
            continue
        if (entry.get("manager"), entry.get("operation")) == (manager, "Apply"):
            fields = entry.get("fieldsV1")
            return fields if isinstance(fields, Mapping) else {}
    return {}


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
        found, key_names = _child(kind, rest, want)
        if found is _GONE:
            return element
        if isinstance(below, Mapping) and below and found is not _UNKNOWN:
            deeper = _leftover(below, found, key_names)
            if deeper:
                return f"{element} {deeper}"
    return ""


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
