"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902) on plain trees; strategic merge patch is in
`strategic`.

Each returns a new tree that shares with its target only what it did not touch: neither the target
nor the patch is ever changed. Refusals carry the status and words of a real server.
"""

from typing import Any

from federator.embedded.apply import strategic as _strategic
from federator.embedded.schema.pruning import copy_json
from federator.embedded.storage.schema import Node

MAX_OPERATIONS = 10_000
"""A longer JSON patch is refused (413), as on a real server."""

_REJECTED = "the server rejected our request due to an error in our request"


class BadPatch(Exception):
    """A patch that cannot be applied: the HTTP status, the reason of the `Status` (may be empty)
    and its message."""

    def __init__(self, message: str, status: int = 400, reason: str = "BadRequest") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason


def go_type(value: Any) -> str:
    """How Go's JSON decoder names what it met."""
    if isinstance(value, bool):
        return "bool"
    return {dict: "object", list: "array", str: "string", int: "number", float: "number"}.get(
        type(value), "null"
    )


def merge(target: Any, patch: Any) -> Any:
    """JSON merge patch: null removes, objects merge, everything else replaces. The patch of an
    object must be an object.
    """
    if not isinstance(patch, dict):
        raise BadPatch(
            f"error decoding patch: json: cannot unmarshal {go_type(patch)} into Go value of type "
            "map[string]interface {}"
        )
    return _merged(target, patch)


def _merged(target: Any, patch: Any) -> Any:
    if type(patch) is not dict:
        return copy_json(patch)
    merged = dict(target) if type(target) is dict else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif type(value) is dict:
            merged[key] = _merged(merged.get(key), value)
        else:
            merged[key] = copy_json(value)
    return merged


def strategic(target: dict[str, Any], patch: Any, node: Node) -> dict[str, Any]:
    """Strategic merge patch by the merge keys of a builtin's schema. Raises `BadPatch`."""
    if not isinstance(patch, dict):
        raise BadPatch(
            f"json: cannot unmarshal {go_type(patch)} into Go value of type map[string]interface"
            f" {{}}"
        )
    try:
        return _strategic.merged(target, patch, node)
    except _strategic.Unmergeable as refusal:
        status, reason = (400, "BadRequest") if refusal.is_format else (500, "")
        raise BadPatch(str(refusal), status, reason) from None


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902, operations in order, all or nothing. Raises `BadPatch`."""
    if not isinstance(operations, list):
        raise BadPatch(
            f"error decoding patch: json: cannot unmarshal {go_type(operations)} into Go value of"
            " type "
            "[]handlers.jsonPatchOp"
        )
    if len(operations) > MAX_OPERATIONS:
        raise BadPatch(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got"
            f" {len(operations)}",
            413,
            "RequestEntityTooLarge",
        )
    # One private copy, then plain edits: patches are small and rare, and half-applied ones must
    # leave no trace.
    tree = copy_json(target)
    for operation in operations:
        if not isinstance(operation, dict):
            raise BadPatch(
                f"error decoding patch: json: cannot unmarshal {go_type(operation)} into Go value"
                " of type "
                "handlers.jsonPatchOp"
            )
        tree = _applied(tree, operation)
    return tree


def _rejected() -> BadPatch:
    return BadPatch(_REJECTED, 422, "Invalid")


def _applied(tree: Any, operation: dict[str, Any]) -> Any:
    op, path = operation.get("op"), _steps(operation.get("path"))
    if op == "add":
        return _put(tree, path, copy_json(_value(operation)), insert=True)
    if op == "replace":
        # Of a map's missing key too: the server's library looks only at lists.
        return _put(tree, path, copy_json(_value(operation)), insert=False)
    if op == "remove":
        _take(tree, path)
        return tree
    if op == "test":
        expected = operation.get("value")
        try:
            actual = _get(tree, path)
        except BadPatch:
            # Testing for null where nothing is holds, as on a real server.
            actual = None
        if not same(actual, expected):
            raise _rejected()
        return tree
    if op in ("copy", "move"):
        source = _steps(operation.get("from"))
        # A map's missing key is copied as null, on a real server too.
        above = _get(tree, source[:-1]) if source else None
        is_nothing = op == "copy" and isinstance(above, dict) and source[-1] not in above
        value = None if is_nothing else copy_json(_get(tree, source))
        if op == "move":
            if path[: len(source)] == source and path != source:
                raise _rejected()
            _take(tree, source)
        return _put(tree, path, value, insert=True)
    raise _rejected()


def same(left: Any, right: Any) -> bool:
    """JSON equality: like Python's, but `true` is not 1."""
    if left is right:
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            same(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _rejected()
    return operation["value"]


def _steps(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise _rejected()
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _index(step: str, length: int) -> int:
    try:
        index = int(step)
    except ValueError:
        raise _rejected() from None
    if index < 0:
        # Counted from the end, as the server's library does.
        index += length
    if not 0 <= index < length:
        raise _rejected()
    return index


def _get(tree: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(tree, dict):
            if step not in tree:
                raise _rejected()
            tree = tree[step]
        elif isinstance(tree, list):
            tree = tree[_index(step, len(tree))]
        else:
            raise _rejected()
    return tree


def _put(tree: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    holder, last = _get(tree, path[:-1]), path[-1]
    if isinstance(holder, dict):
        holder[last] = value
    elif isinstance(holder, list) and insert:
        holder.insert(len(holder) if last == "-" else _index(last, len(holder) + 1), value)
    elif isinstance(holder, list):
        holder[_index(last, len(holder))] = value
    else:
        raise _rejected()
    return tree


def _take(tree: Any, path: list[str]) -> None:
    if not path:
        raise _rejected()
    holder, last = _get(tree, path[:-1]), path[-1]
    if isinstance(holder, dict) and last in holder:
        del holder[last]
    elif isinstance(holder, list):
        del holder[_index(last, len(holder))]
    else:
        raise _rejected()
