"""Finds and words what decoding did not like: the paths of unknown fields, and the first value of a
wrong type.

The slow second look, taken only when `pruning`'s fast walk stumbled. Wordings are those of a real
server.
"""

from collections.abc import Iterator
from typing import Any

from federator.embedded.schema import builtins, scalars
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.schema import Node

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def unknown_fields(obj: dict[str, Any], info: ResourceInfo) -> list[str]:
    """Paths of fields the schema does not know: in the order met for builtins, sorted for custom
    resources."""
    if info.is_builtin:
        return list(_unknown_typed(obj, info.node, ""))
    unknown = sorted(_unknown_custom(obj, info.node, "", root=True))
    # Metadata is decoded first on a real server, so its complaints come first.
    return [p for p in unknown if p.startswith("metadata.")] + [
        p for p in unknown if not p.startswith("metadata.")
    ]


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _unknown_typed(value: Any, node: Node | None, path: str) -> Iterator[str]:
    if node is None:
        return
    if isinstance(value, dict):
        declared = "properties" in node.raw
        for key, child in value.items():
            field = node.fields.get(key) if declared else node.values
            if field is not None:
                yield from _unknown_typed(child, field, _joined(path, key))
            elif declared:
                yield _joined(path, key)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _unknown_typed(child, node.items, f"{path}[{index}]")


def _unknown_custom(
    value: Any, node: Node | None, path: str, *, root: bool = False
) -> Iterator[str]:
    if isinstance(value, list):
        for index, child in enumerate(value):
            if node is None or node.items is not None or not node.preserve:
                yield from _unknown_custom(child, node.items if node else None, f"{path}[{index}]")
        return
    if not isinstance(value, dict):
        return
    for key, child in value.items():
        at = _joined(path, key)
        if node is None:
            yield at
        elif (root or node.embedded) and key in ("apiVersion", "kind"):
            continue
        elif (root or node.embedded) and key == "metadata":
            yield from _unknown_typed(child, builtins.node(_OBJECT_META), at)
        else:
            field = node.fields.get(key, node.values)
            if field is not None:
                yield from _unknown_custom(child, field, at)
            elif not node.preserve and node.raw.get("additionalProperties") is not True:
                yield at


def undecodable(obj: Any, info: ResourceInfo) -> str:
    """The whole message of the 400 for an object with a value of a wrong type."""
    node = info.node if info.is_builtin else builtins.node(_OBJECT_META)
    start = obj if info.is_builtin else obj.get("metadata")
    detail = next(_wrong(start, node, "", node.name), "unexpected value")
    return f'{info.kind} in version "{info.version}" cannot be handled as a {info.kind}: {detail}'


def _go_type(node: Node) -> str:
    if node.name and node.kind == "object" and "properties" in node.raw:
        return f"v1.{node.name}"
    if node.kind == "object":
        return (
            f"map[string]{_go_type(node.values)}"
            if node.values is not None
            else "map[string]interface {}"
        )
    if node.kind == "array":
        return f"[]{_go_type(node.items)}" if node.items is not None else "[]interface {}"
    if node.kind == "integer":
        return node.format or "int64"
    return {"boolean": "bool", "number": "float64"}.get(node.kind, "string")


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float) or (isinstance(value, int) and abs(value) >= 2**31):
        return f"number {value!r}"
    return {int: "number", str: "string", dict: "object", list: "array"}.get(type(value), "null")


def _mismatch(value: Any, node: Node, path: str, struct: str) -> str:
    return (
        f"json: cannot unmarshal {_json_type(value)} into Go struct field {struct}.{path} of type"
        f" {_go_type(node)}"
    )


def _wrong(value: Any, node: Node, path: str, struct: str) -> Iterator[str]:
    """Complaints about values of wrong types below `value`, in the order met."""
    if value is None:
        return
    special = _special(value, node)
    if special is not None:
        yield from special
    elif node.kind == "object":
        if not isinstance(value, dict):
            yield _mismatch(value, node, path, struct)
            return
        declared = "properties" in node.raw
        for key, child in value.items():
            field = node.fields.get(key) if declared else node.values
            if field is not None:
                at = _joined(path, key) if declared else path
                yield from _wrong(child, field, at, (node.name or struct) if declared else struct)
    elif node.kind == "array":
        if not isinstance(value, list):
            yield _mismatch(value, node, path, struct)
            return
        for child in value:
            if node.items is not None:
                yield from _wrong(child, node.items, path, struct)
    elif not _fits(value, node):
        yield _mismatch(value, node, path, struct)


def _fits(value: Any, node: Node) -> bool:
    if node.kind == "string":
        return isinstance(value, str)
    if node.kind == "boolean":
        return isinstance(value, bool)
    if node.kind == "integer":
        bound = 2**31 if node.format == "int32" else 2**63
        return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
    return node.kind != "number" or (isinstance(value, int | float) and not isinstance(value, bool))


def _special(value: Any, node: Node) -> list[str] | None:
    """Complaints about types with their own decoder; None where the type is an ordinary one."""
    if node.name == "Quantity":
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            return [scalars.QUANTITY_PATTERN]
        return _tried(lambda: scalars.quantity(str(value)))
    if node.name == "IntOrString":
        bad = isinstance(value, bool | float | dict | list)
        return (
            [f"json: cannot unmarshal {_json_type(value)} into Go value of type int32"]
            if bad
            else []
        )
    if node.name in ("Time", "MicroTime"):
        if not isinstance(value, str):
            return [f"json: cannot unmarshal {_json_type(value)} into Go value of type string"]
        return _tried(lambda: scalars.time(value, node.name == "MicroTime"))
    if node.format == "byte" and isinstance(value, str):
        return [_illegal_base64(value)] if _illegal_base64(value) else []
    return None


def _tried(read: Any) -> list[str]:
    try:
        read()
    except ValueError as error:
        return [str(error)]
    return []


def _illegal_base64(value: str) -> str:
    """Go's words for the first byte that no base64 has; empty when the text is fine."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = value.replace("\n", "").replace("\r", "")
    body = text.rstrip("=")
    for index, char in enumerate(body):
        if char not in alphabet:
            return f"illegal base64 data at input byte {index}"
    padding = len(text) - len(body)
    if padding > 2 or len(text) % 4:
        return f"illegal base64 data at input byte {min(len(body), len(text) // 4 * 4)}"
    return ""
