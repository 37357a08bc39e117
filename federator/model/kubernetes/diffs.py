"""What must change in a live object so that every wanted field has our value.

Pure functions on decoded JSON. Other fields of the live object belong to other writers (defaults,
webhooks) and are left alone. Lists are compared as a whole, element by element, because a merge
patch replaces them whole.
"""

from collections.abc import Mapping
from typing import Any


def covers(live: Any, want: Any) -> bool:
    """Whether `live` has every field of `want` with its value. Lists must agree in length and
    order; null equals absent."""
    # What is equal is covered, and most is: comparing it whole takes no call for each field.
    if live == want:
        return True
    if isinstance(want, Mapping):
        if not isinstance(live, Mapping):
            return not want and live is None
        return all(covers(live.get(name), value) for name, value in want.items())
    if isinstance(want, list):
        if not isinstance(live, list):
            return not want and live is None
        return len(live) == len(want) and all(covers(a, b) for a, b in zip(live, want, strict=True))
    return False


def merge_patch(live: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest merge patch after which `live` covers `want`; empty when it already does."""
    patch: dict[str, Any] = {}
    for name, value in want.items():
        have = live.get(name)
        if covers(have, value):
            continue
        if isinstance(value, Mapping) and isinstance(have, Mapping):
            patch[name] = merge_patch(have, value)
        else:
            patch[name] = value
    return patch


def patched(live: Any, patch: Any) -> Any:
    """`live` after a merge patch: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    before = live if isinstance(live, Mapping) else {}
    kept = {name: value for name, value in before.items() if name not in patch}
    changed = {
        name: patched(before.get(name), value) for name, value in patch.items() if value is not None
    }
    return {**kept, **changed}


def replacement_patch(live: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch after which `live` equals `want` exactly: fields that `want` lacks are removed.
    For objects with one writer."""
    patch: dict[str, Any] = {name: None for name in live if name not in want}
    for name, value in want.items():
        have = live.get(name)
        if have == value:
            continue
        if isinstance(value, Mapping) and isinstance(have, Mapping):
            patch[name] = replacement_patch(have, value)
        else:
            patch[name] = value
    return patch


def extras_removed(live: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that takes out of `live`, and of the objects within it, the fields that
    `want` lacks. What stands in lists is left alone."""
    patch: dict[str, Any] = {name: None for name in live if name not in want}
    for name, value in want.items():
        have = live.get(name)
        if not (isinstance(value, Mapping) and isinstance(have, Mapping)):
            continue
        if inner := extras_removed(have, value):
            patch[name] = inner
    return patch


def combined(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """One merge patch with the effect of both; where they disagree, `other` wins."""
    merged = dict(first)
    for name, value in other.items():
        before = merged.get(name)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        merged[name] = combined(before, value) if both else value  # type: ignore[arg-type]
    return merged
