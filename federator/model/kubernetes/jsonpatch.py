"""JSON Patch (RFC 6902) on plain trees: add, remove, replace and test. Pure. `move` and `copy` are
not carried out: what they write stands elsewhere."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from federator.model.errors import FieldError


def steps(path: str) -> tuple[str, ...]:
    """The parts of a JSON pointer. Raises ValueError for text that is none."""
    if not path.startswith("/"):
        raise ValueError(path)
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))


def applied(tree: Any, operations: Sequence[Mapping[str, Any]], path: str) -> Any:
    """A copy of the tree with all operations carried out in order. Raises FieldError below `path`
    for the first that cannot be."""
    changed = copy.deepcopy(tree)
    for index, operation in enumerate(operations):
        at = f"{path}[{index}]"
        try:
            _apply(changed, operation)
        except (LookupError, TypeError, ValueError) as bad:
            where = str(operation.get("path"))[:200]
            raise FieldError(at, f"cannot {operation.get('op')} {where}: {_why(bad)}") from None
    return changed


def _why(bad: Exception) -> str:
    if isinstance(bad, _Differs):
        return "the object has another value there"
    return "the object has no such field"


class _Differs(ValueError):
    """A `test` that does not hold."""


def _apply(tree: Any, operation: Mapping[str, Any]) -> None:
    *parents, last = steps(operation["path"])
    at = tree
    for part in parents:
        at = at[_index(at, part)] if isinstance(at, list) else at[part]
    value = copy.deepcopy(operation.get("value"))
    match operation["op"]:
        case "add" if isinstance(at, list):
            at.insert(len(at) if last == "-" else _index(at, last, inserts=True), value)
        case "add" if isinstance(at, dict):
            at[last] = value
        case "replace":
            key = _present(at, last)
            at[key] = value
        case "remove":
            del at[_present(at, last)]
        case "test":
            if at[_present(at, last)] != value:
                raise _Differs
        case _:
            raise ValueError(last)


def _present(at: Any, part: str) -> Any:
    """The key or index of a field that is there. Raises LookupError."""
    if isinstance(at, list):
        return _index(at, part)
    if part not in at:
        raise KeyError(part)
    return part


def _index(at: list[Any], part: str, *, inserts: bool = False) -> int:
    """Raises LookupError outside the list."""
    if not (part.isascii() and part.isdigit()) or (len(part) > 1 and part[0] == "0"):
        raise IndexError(part)
    index = int(part)
    if index >= len(at) + inserts:
        raise IndexError(part)
    return index
