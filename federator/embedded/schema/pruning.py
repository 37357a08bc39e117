"""Decoding: a fresh copy of a request's object with only the fields its schema knows, as a real
server would read it.

One walk does copying, pruning, null handling and, for builtins, type checks and canonical scalars.
Walkers are compiled once per schema node. Called by the REST layer on every body; never by trusted
writers. It never changes its input.
"""

import base64
import binascii
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from federator.embedded.schema import builtins, diagnosis, scalars
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.schema import Node

_META: Final = ("apiVersion", "kind", "metadata")
Walker = Callable[[Any, list[str]], Any]
"""(value, names of dropped fields) -> fresh value. Raises `Mistyped` where a builtin cannot be
decoded."""


class Mistyped(Exception):
    """A value a builtin field cannot hold; `diagnosis` finds where."""


class Undecodable(Exception):
    """The object cannot be read as its kind: 400 BadRequest with this message."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """`obj` shares nothing with the input; `unknown` names the dropped fields as
    `spec.containers[0].imagee`."""

    obj: dict[str, Any]
    unknown: list[str]


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON tree, several times faster than `copy.deepcopy`."""
    if type(value) is dict:
        return {k: (copy_json(v) if type(v) in _CONTAINERS else v) for k, v in value.items()}
    if type(value) is list:
        return [(copy_json(v) if type(v) in _CONTAINERS else v) for v in value]
    return value


_CONTAINERS: Final = frozenset((dict, list))


def prune(obj: dict[str, Any], info: ResourceInfo) -> Pruned:
    """The object as the server stores it, before defaults. Raises `Undecodable` for builtins (and
    for bad metadata)."""
    dropped: list[str] = []
    walk = _root_walker(info)
    try:
        fresh = walk(obj, dropped)
    except Mistyped:
        raise Undecodable(diagnosis.undecodable(obj, info)) from None
    return Pruned(fresh, diagnosis.unknown_fields(obj, info) if dropped else [])


def strict_error(unknown: list[str], duplicates: list[str] | tuple[str, ...] = ()) -> str:
    """What a Strict request is answered about unknown and duplicate fields (also the text of Warn,
    one item each)."""
    problems = [f'duplicate field "{name}"' for name in duplicates] + [
        f'unknown field "{name}"' for name in unknown
    ]
    return "strict decoding error: " + ", ".join(problems)


class _Pairs(dict[str, Any]):
    """A decoded object that remembers which of its keys came twice."""

    twice: tuple[str, ...] = ()


def _remember_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded = _Pairs(pairs)
    if len(decoded) != len(pairs):
        names = [name for name, _ in pairs]
        decoded.twice = tuple(name for name in decoded if names.count(name) > 1)
    return decoded


def duplicate_fields(raw_json: bytes) -> list[str]:
    """Dotted paths of keys that a JSON body gives twice, in the order met. Call it only for
    requests that ask for it (Strict, Warn).
    """
    duplicates: list[str] = []

    def visit(value: Any, path: str) -> None:
        if isinstance(value, _Pairs):
            duplicates.extend(f"{path}.{key}" if path else key for key in value.twice)
            for key, child in value.items():
                visit(child, f"{path}.{key}" if path else key)
        elif isinstance(value, list):
            for index, child in enumerate(value):
                visit(child, f"{path}[{index}]")

    visit(json.loads(raw_json, object_pairs_hook=_remember_twice), "")
    return duplicates


def _root_walker(info: ResourceInfo) -> Walker:
    node = info.node
    walk: Walker | None = node.compiled.get("prune_root")
    if walk is None:
        walk = _typed(node) if info.is_builtin else _custom(node, embedded=True)
        node.compiled["prune_root"] = walk
    return walk


# Builtins: every value is checked against its Go type, nulls become zero values.


def _typed(node: Node) -> Walker:
    walk: Walker | None = node.compiled.get("prune")
    if walk is None:
        walk = _TYPED_BY_NAME.get(node.name, _typed_by_kind)(node)
        node.compiled["prune"] = walk
    return walk


def _typed_by_kind(node: Node) -> Walker:
    if node.kind == "object":
        if "properties" in node.raw:
            return _typed_struct(node)
        if node.values is not None:
            return _typed_map(node.values)
        return _anything
    if node.kind == "array" and node.items is not None:
        return _typed_list(node.items)
    if node.kind == "string" and node.format == "byte":
        return _base64
    if node.format == "int32":
        return _integer(32)
    return _SCALARS.get(node.kind, _anything)


def _typed_struct(node: Node) -> Walker:
    table: dict[str, Walker] = {}
    omit = node.omit

    def walk(value: Any, dropped: list[str]) -> Any:
        if type(value) is not dict:
            raise Mistyped
        fresh: dict[str, Any] = {}
        for key, child in value.items():
            if child is None:
                if key not in node.fields:
                    dropped.append(key)
                continue
            step = table.get(key)
            if step is None:
                field = node.fields.get(key)
                if field is None:
                    dropped.append(key)
                    continue
                step = table[key] = _typed(field)
            kept = step(child, dropped)
            # The wire form of a builtin has no empty lists, zero numbers or false flags where its
            # type says so.
            if kept or key not in omit:
                fresh[key] = kept
        return fresh

    return walk


def _zero(node: Node) -> Any:
    return {"object": {}, "array": [], "integer": 0, "number": 0, "boolean": False}.get(
        node.kind, ""
    )


def _typed_map(values: Node) -> Walker:
    zero = _zero(values)
    if values.name == "Quantity":
        return _resource_list

    def walk(value: Any, dropped: list[str]) -> Any:
        if type(value) is not dict:
            raise Mistyped
        step = _typed(values)
        return {k: (copy_json(zero) if v is None else step(v, dropped)) for k, v in value.items()}

    return walk


def _typed_list(items: Node) -> Walker:
    zero = _zero(items)

    def walk(value: Any, dropped: list[str]) -> Any:
        if type(value) is not list:
            raise Mistyped
        step = _typed(items)
        return [copy_json(zero) if v is None else step(v, dropped) for v in value]

    return walk


def _of(*types: type) -> Walker:
    def walk(value: Any, _: list[str]) -> Any:
        if type(value) not in types:
            raise Mistyped
        return value

    return walk


def _integer(bits: int) -> Walker:
    least, beyond = -(2 ** (bits - 1)), 2 ** (bits - 1)

    def walk(value: Any, _: list[str]) -> Any:
        if type(value) is not int or not least <= value < beyond:
            raise Mistyped
        return value

    return walk


def _base64(value: Any, _: list[str]) -> Any:
    if type(value) is not str:
        raise Mistyped
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except binascii.Error:
        raise Mistyped from None
    return value


def _anything(value: Any, _: list[str]) -> Any:
    return copy_json(value)


def _quantity(value: Any, _: list[str]) -> Any:
    if type(value) not in (str, int, float):
        raise Mistyped
    try:
        return scalars.quantity(str(value))
    except ValueError:
        raise Mistyped from None


def _resource_list(value: Any, dropped: list[str]) -> Any:
    """Amounts of resources: a real server rounds them up to milli units on reading."""
    if type(value) is not dict:
        raise Mistyped
    amounts = {k: "0" if v is None else _quantity(v, dropped) for k, v in value.items()}
    return {k: scalars.rounded_to_milli(v) if v[-1] in "nu" else v for k, v in amounts.items()}


def _moment(value: Any, _: list[str], *, micro: bool) -> Any:
    if type(value) is not str:
        raise Mistyped
    try:
        return scalars.time(value, micro)
    except ValueError:
        raise Mistyped from None


def _schema_or(_: Node) -> Walker:
    """`items`, `additionalProperties`, `dependencies` of a CRD's schema: a schema, or something
    else that is kept."""

    def walk(value: Any, dropped: list[str]) -> Any:
        if type(value) is dict and "Schema" not in value:
            step = _typed(
                builtins.node(
                    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
                )
            )
            # A custom decoder reads these on a real server: what it does not know goes without a
            # word.
            return step(value, [])
        return copy_json(value)

    return walk


_SCALARS: Final[dict[str, Walker]] = {
    "string": _of(str),
    "integer": _integer(64),
    "number": _of(int, float),
    "boolean": _of(bool),
}
_TYPED_BY_NAME: Final[dict[str, Callable[[Node], Walker]]] = {
    "Quantity": lambda _: _quantity,
    "IntOrString": lambda _: _of(str, int),
    "Time": lambda _: functools.partial(_moment, micro=False),
    "MicroTime": lambda _: functools.partial(_moment, micro=True),
    "JSONSchemaPropsOrArray": _schema_or,
    "JSONSchemaPropsOrBool": _schema_or,
}


# Custom resources: unknown fields go, nothing is checked; wrong types are validation's to tell.


def _metadata(value: Any, dropped: list[str]) -> Any:
    return _typed(builtins.node("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"))(value, dropped)


def _custom(node: Node, *, embedded: bool = False) -> Walker:
    walk: Walker | None = None if embedded else node.compiled.get("prune")
    if walk is None:
        walk = _custom_container(node, embedded or node.embedded)
        if not embedded:
            node.compiled["prune"] = walk
    return walk


def _custom_container(node: Node, embedded: bool) -> Walker:
    table: dict[str, tuple[Walker, bool]] = {}
    values = node.values
    keep_unknown = node.preserve
    unnamed: tuple[Walker, bool] | None = None
    if values is not None:
        unnamed = _custom(values), values.nullable or values.has_default
    elif keep_unknown or node.raw.get("additionalProperties") is True:
        unnamed = (_anything, True)

    def entry(key: str) -> tuple[Walker, bool] | None:
        """(walker, whether a null is kept) of one key; None where the schema does not know it."""
        if embedded and key in _META:
            return (_metadata if key == "metadata" else _anything), False
        field = node.fields.get(key)
        return unnamed if field is None else (_custom(field), field.nullable or field.has_default)

    def walk(value: Any, dropped: list[str]) -> Any:
        if type(value) is dict:
            fresh: dict[str, Any] = {}
            for key, child in value.items():
                cached = table.get(key)
                if cached is None:
                    cached = entry(key)
                    if cached is None:
                        dropped.append(key)
                        continue
                    if key in node.fields or key in _META:
                        table[key] = cached
                if child is not None:
                    fresh[key] = cached[0](child, dropped) if type(child) in _CONTAINERS else child
                elif cached[1]:
                    fresh[key] = None
            return fresh
        if type(value) is list:
            items = node.items
            if items is None:
                return (
                    copy_json(value)
                    if keep_unknown
                    else [_emptied(child, dropped) for child in value]
                )
            step = _custom(items)
            return [
                step(child, dropped) if type(child) in _CONTAINERS else child for child in value
            ]
        return value

    return walk


def _emptied(value: Any, dropped: list[str]) -> Any:
    """What is left of a value under no schema at all: objects lose every field."""
    if type(value) is dict:
        dropped.extend(value)
        return {}
    if type(value) is list:
        return [_emptied(child, dropped) for child in value]
    return value
