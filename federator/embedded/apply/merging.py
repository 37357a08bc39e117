"""Merging an applied configuration into a live object by its schema: lists by their keys, atomic
parts as a whole.

The order of merged lists follows the configuration, with live items kept in between, as a real
server does. Nothing is changed in place. Called by `ownership.apply` only.
"""

import operator
from collections.abc import Iterator
from typing import Any

from federator.embedded.apply.fieldsets import (
    ABSENT,
    FIELDS,
    FLAT,
    KEYED,
    VALUES,
    child_node,
    element,
    shape,
)
from federator.embedded.apply.patches import same
from federator.embedded.storage.schema import Node


def merged(live: Any, config: Any, node: Node | None) -> Any:
    """`live` with everything `config` says: `live` itself, or its very parts, where nothing
    changes. Null says null."""
    if live is ABSENT or config is None:
        return config
    if config is ABSENT:
        return live
    kind = shape(config, node)
    if kind == FIELDS and type(config) is dict and type(live) is dict:
        result = live
        for key, value in config.items():
            before = live.get(key, ABSENT)
            after = merged(before, value, child_node(node, key))
            if after is not before:
                if result is live:
                    result = dict(live)
                result[key] = after
        return result
    if kind in (KEYED, VALUES) and type(config) is list and type(live) is list and node is not None:
        items = _merged_items(live, config, kind, node)
        return live if len(items) == len(live) and all(map(operator.is_, items, live)) else items
    return live if same(live, config) else config


def _merged_items(live: list[Any], config: list[Any], kind: int, node: Node) -> list[Any]:
    """Items of both lists: shared ones in the configuration's order, live ones before the shared
    item they stood before.
    """
    live_names = [element(item, kind, node) for item in live]
    names = [element(item, kind, node) for item in config]
    old: dict[str, Any] = {}
    for name, item in zip(live_names, live, strict=True):
        # What comes twice in the live list is not merged with.
        old[name] = ABSENT if name in old else item
    wanted = dict(zip(names, config, strict=True))
    shared = [name for name in names if name in old]
    result: list[Any] = []
    done: set[str] = set()
    i = j = 0
    while i < len(live) or j < len(names):
        if i < len(live) and j < len(names):
            name = live_names[i]
            if name == names[j]:
                done.add(name)
                result.append(merged(old[name], wanted[name], node.items))
                i, j, shared = i + 1, j + 1, shared[1:]
                continue
            if name in wanted and shared and shared[0] != name:
                # Shared, but its turn comes later in the configuration's order.
                i += 1
                continue
        if i < len(live):
            name = live_names[i]
            if name not in wanted:
                result.append(live[i])
                i += 1
                continue
            if name in done:
                i += 1
        if j < len(names):
            name = names[j]
            done.add(name)
            result.append(merged(old.get(name, ABSENT), wanted[name], node.items))
            j += 1
            if shared and shared[0] == name:
                shared = shared[1:]
    return result


_GO_KINDS = {dict: "map", list: "list", str: "string", bool: "boolean", int: "int", float: "float"}


def mismatches(config: Any, node: Node | None, path: str = "") -> Iterator[str]:
    """Why a configuration does not fit the schema, in the server's words: unknown fields, wrong
    types, double keys."""
    if node is None or config is None:
        return
    if node.kind == "object":
        yield from _map_mismatches(config, node, path)
    elif node.kind == "array":
        yield from _list_mismatches(config, node, path)
    elif node.kind and not _is_scalar(config, node):
        wanted = {
            "integer": "numeric (int or float)",
            "number": "numeric (int or float)",
            "boolean": "boolean",
        }
        shown = _GO_KINDS.get(type(config), "null")
        if node.kind == "string":
            shown = f"&value.valueUnstructured{{Value:{_go_literal(config)}}}"
        elif node.kind == "boolean":
            shown = f"&{{{_go_value(config)}}}"
        yield f"{path}: expected {wanted.get(node.kind, 'string')}, got {shown}"


def _is_scalar(value: Any, node: Node) -> bool:
    if node.kind in ("integer", "number"):
        return type(value) in (int, float)
    return type(value) is (bool if node.kind == "boolean" else str)


def _map_mismatches(config: Any, node: Node, path: str) -> Iterator[str]:
    if type(config) is not dict:
        yield f"{path}: expected map, got &{{{_go_value(config)}}}"
        return
    open_ended = (
        node.preserve or node.values is not None or node.raw.get("additionalProperties") is True
    )
    closed = bool(node.fields) and not open_ended
    for key, value in config.items():
        field = child_node(node, key)
        if field is None and closed:
            yield f"{path}.{key}: field not declared in schema"
        elif field is not None:
            yield from mismatches(value, field, f"{path}.{key}")


def _list_mismatches(config: Any, node: Node, path: str) -> Iterator[str]:
    if type(config) is not list:
        yield f"{path}: expected list, got &{{{_go_value(config)}}}"
        return
    kind = shape(config, node)
    seen: set[str] = set()
    for index, item in enumerate(config):
        at = f"{path}[{index}]"
        if kind == KEYED and type(item) is dict and not _has_key(item, node):
            keys = " ".join(f'"{key}"' for key in node.keys)
            yield (
                f"{path}: element {index}: associative list with keys has an element that omits"
                " all key fields "
                f"[{keys}] (and doesn't have default values for any key fields)"
            )
            continue
        if kind != FLAT:
            name = element(item, kind, node)
            printed = _printed_key(item, node) if name.startswith("k:") else f"[={name[2:]}]"
            if name in seen:
                yield f"{path}: duplicate entries for key {printed}"
            seen.add(name)
            at = f"{path}{printed}"
        if node.items is not None:
            yield from mismatches(item, node.items, at)


def _has_key(item: dict[str, Any], node: Node) -> bool:
    fields = node.items.fields if node.items is not None else {}
    return any(key in item or (key in fields and "default" in fields[key].raw) for key in node.keys)


def _printed_key(item: Any, node: Node) -> str:
    from federator.embedded.apply.fieldsets import paths

    return next(iter(paths({element(item, 2, node): {}})))


def _go_literal(value: Any) -> str:
    """A value as Go's `%#v` prints it."""
    if isinstance(value, dict):
        inner = ", ".join(f'"{key}":{_go_literal(value[key])}' for key in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(_go_literal(item) for item in value) + "}"
    return f'"{value}"' if isinstance(value, str) else _go_value(value)


def _go_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
