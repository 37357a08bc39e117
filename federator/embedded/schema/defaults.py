"""Fills in what a request left out, in place: CRD schema defaults, and what a real server adds to
builtins.

Give it a fresh tree (the result of `pruning.prune`, or a copy): it writes into it. Values that
depend on the cluster (addresses, uids) are not made here but in `natives`.
"""

from collections.abc import Callable
from typing import Any

from federator.embedded.schema import native_defaults, sharing
from federator.embedded.schema.pruning import copy_json
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.schema import Node

_CONTAINERS = frozenset((dict, list))
_VALIDATION = "CustomResourceValidation"

Filler = Callable[[Any], None]


def fill(obj: dict[str, Any], info: ResourceInfo) -> None:
    """Adds defaults to the object in place."""
    if info.is_builtin:
        _native_filler(info.node)(obj)
    else:
        fill_custom(obj, info.node)


def fill_native(value: Any, node: Node) -> None:
    """Adds defaults to one part of a builtin, such as its status, in place."""
    _native_filler(node)(value)


def zero(node: Node) -> dict[str, Any]:
    """The zero value of a builtin as its wire form shows it: structs present and empty, required
    scalars zero."""
    value: dict[str, Any] = {}
    for key, field in node.fields.items():
        if field.default == {}:
            value[key] = zero(field)
        elif field.has_default and key not in node.omit:
            value[key] = {"integer": 0, "number": 0, "boolean": False}.get(field.kind, "")
    value.update(dict.fromkeys(node.nulls))
    return value


def fill_custom(value: Any, node: Node) -> None:
    """Structural defaults, in place: declared properties with a default that are absent (or null
    where null is not allowed)."""
    if type(value) is dict:
        defaults: list[tuple[str, Node]] | None = node.compiled.get("defaults")
        if defaults is None:
            defaults = [
                (k, field)
                for k, field in node.fields.items()
                if field.has_default and field.default is not None
            ]
            node.compiled["defaults"] = defaults
        for key, field in defaults:
            if key not in value or (value[key] is None and not field.nullable):
                value[key] = copy_json(field.default)
        fields, values = node.fields, node.values
        for key in value:
            step = fields.get(key, values)
            if step is None:
                continue
            if value[key] is None and step is values and step.has_default and not step.nullable:
                value[key] = copy_json(step.default)
            if type(value[key]) in _CONTAINERS:
                fill_custom(value[key], step)
    elif type(value) is list and node.items is not None:
        items = node.items
        for index in range(len(value)):
            if value[index] is None and items.has_default and not items.nullable:
                value[index] = copy_json(items.default)
            if type(value[index]) in _CONTAINERS:
                fill_custom(value[index], items)


def _native_filler(node: Node) -> Filler:
    filler: Filler | None = node.compiled.get("fill")
    if filler is None:
        if node.kind == "object" and "properties" in node.raw:
            filler = _struct_filler(node)
            if node.name == _VALIDATION:
                filler = _schema_filler(filler)
        elif node.kind == "object" and node.values is not None:
            filler = _map_filler(node.values)
        elif node.kind == "array" and node.items is not None:
            filler = _list_filler(node.items)
        else:
            filler = _nothing
        node.compiled["fill"] = filler
    return filler


def _schema_filler(below: Filler) -> Filler:
    """Returns a filler for the schema of a definition. A shared schema has its defaults already."""

    def fill_schema(value: Any) -> None:
        if type(value) is not dict or sharing.find(value.get("openAPIV3Schema")) is None:
            below(value)

    return fill_schema


def _nothing(_: Any) -> None:
    return None


def _struct_filler(node: Node) -> Filler:
    """Struct-valued fields first (a Go struct is never absent), then the kind's own rule, then
    below, then scalar defaults.

    Outer before inner, as a real server does: a container's rule may see what its pod's rule has
    set.
    """
    structs = tuple(k for k, field in node.fields.items() if field.default == {})
    scalars = tuple(
        (k, field.default)
        for k, field in node.fields.items()
        if field.has_default and field.default != {} and not (k in node.omit and not field.default)
    )
    nulls = node.nulls
    rule = native_defaults.rule_of(node.name)
    table: dict[str, Filler] = {}

    def fill_struct(value: Any) -> None:
        if type(value) is not dict:
            return
        for key in structs:
            if key not in value:
                value[key] = {}
        if rule is not None:
            rule(value)
        for key, child in value.items():
            kind = type(child)
            if kind is dict or kind is list:
                step = table.get(key)
                if step is None:
                    field = node.fields.get(key)
                    step = table[key] = _native_filler(field) if field is not None else _nothing
                if step is not _nothing:
                    step(child)
        for key, default in scalars:
            if key not in value:
                value[key] = default
        for key in nulls:
            if key not in value:
                value[key] = None

    return fill_struct


def _map_filler(values: Node) -> Filler:
    if values.kind not in ("object", "array"):
        return _nothing

    def fill_map(value: Any) -> None:
        step = _native_filler(values)
        for child in value.values():
            step(child)

    return fill_map


def _list_filler(items: Node) -> Filler:
    if items.kind not in ("object", "array"):
        return _nothing

    def fill_list(value: Any) -> None:
        step = _native_filler(items)
        for child in value:
            step(child)

    return fill_list
