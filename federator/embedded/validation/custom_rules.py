"""Validation of custom resources: schema, embedded resources, list keys, scale paths and CEL rules,
in the server's order.
"""

import json
from collections.abc import Iterator
from typing import Any

from federator.embedded.storage.field_errors import FieldError, duplicate, invalid, required
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.schema import MAP, SET, Node
from federator.embedded.validation import metadata_rules, schema_rules
from federator.embedded.validation.cel import rules

_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_UNCHECKED = FieldError(
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing "
    "errors to complete validation",
)


def check(
    obj: dict[str, Any], old: dict[str, Any] | None, info: ResourceInfo, subresource: str
) -> list[FieldError]:
    """Complaints about a custom resource. For the status sub-resource only the status is held
    against the schema."""
    node = info.node
    errors = list(_type_meta(obj, info))
    if not errors:
        meta = obj.get("metadata") or {}
        if old is None:
            errors += [_in_characters(error) for error in metadata_rules.on_create(meta, info)]
        else:
            errors += metadata_rules.on_update(meta, old.get("metadata") or {})
        errors += _against_schema(obj, old, node, subresource)
        errors += _scale(obj, info, spec=subresource != "status")
    if subresource != "status":
        errors += _embedded(obj, node, "", root=True)
    lists = list(_lists(obj, node, ""))
    # An object that broke this before may be updated without mending it.
    if lists and (old is None or not any(_lists(old, node, ""))):
        errors += lists
    if any(error.reason in _BLOCKING for error in errors):
        return [*errors, _UNCHECKED] if rules.has_rules(node) else errors
    return errors + rules.check(obj, old, node)


def _in_characters(error: FieldError) -> FieldError:
    """Names of custom resources are measured in characters where those of natives are in bytes, say
    the words."""
    return FieldError(
        error.field, error.reason, error.message.replace(" 253 bytes", " 253 characters")
    )


def _type_meta(obj: dict[str, Any], info: ResourceInfo) -> Iterator[FieldError]:
    if obj.get("kind") != info.kind:
        yield invalid("kind", obj.get("kind"), f"must be {info.kind}")
    if obj.get("apiVersion") != info.api_version:
        yield invalid("apiVersion", obj.get("apiVersion"), f"must be {info.api_version}")


def _against_schema(
    obj: dict[str, Any], old: dict[str, Any] | None, node: Node, subresource: str
) -> list[FieldError]:
    if subresource != "status":
        return schema_rules.check(obj, old, node)
    status = node.fields.get("status")
    if status is None or "status" not in obj:
        return []
    return schema_rules.check_part(obj["status"], (old or {}).get("status"), status, "status")


def _scale(obj: dict[str, Any], info: ResourceInfo, *, spec: bool) -> Iterator[FieldError]:
    if info.scale is None:
        return
    paths = [info.scale.spec] if spec else []
    for path in [*paths, info.scale.status]:
        value, problem = _reached(obj, path, int, "int64")
        if problem:
            yield invalid(path, 0, problem)
        elif value is not None and value < 0:
            yield invalid(path, value, "should be a non-negative integer")
        elif value is not None and value > 2**31 - 1:
            yield invalid(path, value, f"should be less than or equal to {2**31 - 1}")
    if info.scale.selector:
        _, problem = _reached(obj, info.scale.selector, str, "string")
        if problem:
            yield invalid(info.scale.selector, "", problem)


_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}


def _reached(obj: Any, path: str, wanted: type, name: str) -> tuple[Any, str]:
    """(value under a path or None, why it cannot be read or empty)."""
    for step in path.strip(".").split("."):
        if obj is None:
            return None, ""
        if not isinstance(obj, dict):
            kind = _GO_TYPES.get(type(obj), "")
            return (
                None,
                f"{path} accessor error: {_go(obj)} is of the type {kind}, expected"
                f" map[string]interface{{}}",
            )
        if step not in obj:
            return None, ""
        obj = obj[step]
    if type(obj) is not wanted:
        kind = _GO_TYPES.get(type(obj), "map[string]interface {}")
        return None, f"{path} accessor error: {_go(obj)} is of the type {kind}, expected {name}"
    return obj, ""


def _go(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _embedded(value: Any, node: Node, path: str, *, root: bool = False) -> Iterator[FieldError]:
    """Embedded resources must say what they are and have sound metadata."""
    if not node.any_below("has_embedded", lambda each: each.embedded):
        return
    if type(value) is dict:
        if node.embedded and not root:
            for key in ("apiVersion", "kind"):
                if not value.get(key):
                    yield required(f"{path}.{key}", "must not be empty" if key in value else "")
            meta = value.get("metadata") or {}
            yield from metadata_rules.labels(meta.get("labels"), f"{path}.metadata.labels")
            yield from metadata_rules.annotations(
                meta.get("annotations"), f"{path}.metadata.annotations"
            )
        for key, child in value.items():
            below = node.fields.get(key, node.values)
            if below is not None:
                yield from _embedded(child, below, f"{path}.{key}" if path else key)
    elif type(value) is list and node.items is not None:
        for index, item in enumerate(value):
            yield from _embedded(item, node.items, f"{path}[{index}]")


def _has_unique_lists(node: Node) -> bool:
    return node.any_below("has_unique_lists", lambda each: each.list_type in (SET, MAP))


def _lists(value: Any, node: Node, path: str) -> Iterator[FieldError]:
    """Duplicates in lists of type set and map."""
    if type(value) is dict:
        children: list[tuple[str, Node]] | None = node.compiled.get("unique_children")
        if children is None:
            children = [(k, child) for k, child in node.fields.items() if _has_unique_lists(child)]
            node.compiled["unique_children"] = children
        for key, child in children:
            if key in value:
                yield from _lists(value[key], child, f"{path}.{key}" if path else key)
        if node.values is not None and _has_unique_lists(node.values):
            for key, item in value.items():
                yield from _lists(item, node.values, f"{path}[{key}]")
    elif type(value) is list:
        if node.list_type in (SET, MAP):
            yield from _duplicates(value, node, path)
        if node.items is not None and _has_unique_lists(node.items):
            for index, item in enumerate(value):
                yield from _lists(item, node.items, f"{path}[{index}]")


def _duplicates(value: list[Any], node: Node, path: str) -> Iterator[FieldError]:
    if len(value) < 2:
        return
    seen: set[str] = set()
    reported: set[str] = set()
    for index, item in enumerate(value):
        identity = _identity(item, node)
        # Keys come in the schema's order, so equal identities read the same.
        text = repr(identity)
        if text in seen and text not in reported:
            reported.add(text)
            yield duplicate(f"{path}[{index}]", identity)
        seen.add(text)


def _identity(item: Any, node: Node) -> Any:
    """What makes two items the same: the item itself in sets, its keys (with their defaults) in
    maps."""
    if node.list_type != MAP or type(item) is not dict:
        return item
    filled: dict[str, Any] | None = node.compiled.get("key_defaults")
    if filled is None:
        fields = node.items.fields if node.items is not None else {}
        filled = {
            key: fields[key].default
            for key in node.keys
            if key in fields and fields[key].has_default
        }
        node.compiled["key_defaults"] = filled
    return {
        key: item.get(key, filled.get(key)) for key in node.keys if key in item or key in filled
    }
