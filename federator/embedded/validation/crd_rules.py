"""Rules for the schemas of CRDs: structural, without what a real server refuses, with CEL rules
that compile.

The words and paths of Kubernetes 1.37. The cost budget of CEL rules is not estimated here; a real
server may refuse a rule over unbounded lists that passes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.storage.field_errors import (
    FieldError,
    GoStruct,
    forbidden,
    invalid,
    not_supported,
    required,
)
from federator.embedded.storage.schema import Node
from federator.embedded.validation import schema_rules
from federator.embedded.validation.cel import rules

Schema = Mapping[str, Any]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
_HIDE_STRUCTURE: Final = tuple(f".{key}" for key in (*_UNSUPPORTED, "uniqueItems", "items"))
"""With one of these a schema cannot be read as a structural one, and nothing is said about its
structure."""
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_NESTED_FORBIDDEN: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


def check(schema: Schema, path: str, has_status: bool) -> list[FieldError]:
    """Complaints about one version's schema. `has_status`: the status sub-resource restricts the
    root."""
    errors = list(_root(schema, path, has_status))
    unsupported = list(_supported(schema, path))
    structural: list[FieldError] = []
    if not any(error.field.endswith(_HIDE_STRUCTURE) for error in unsupported):
        structural = [*_structural(schema, "root", path), *_complete(schema, path)]
        structural.sort(key=lambda error: error.line())
    errors += structural + unsupported
    if not errors:
        node = Node(schema, None)
        errors += list(_defaults(node, path))
        errors += list(_rules(node, path))
    return errors


def _root(schema: Schema, path: str, has_status: bool) -> Iterator[FieldError]:
    if has_status and schema.get("type", "object") != "object":
        text = (
            'only "object" is allowed as the type at the root of the schema'
            " if the status subresource is enabled"
        )
        yield invalid(f"{path}.type", schema["type"], text)
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def _below(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """All sub-schemas, nested ones of junctors included, with their paths."""
    for key, child in sorted((schema.get("properties") or {}).items()):
        yield child, f"{path}.properties[{key}]"
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), Mapping):
            yield schema[key], f"{path}.{key}"
    for key in _JUNCTORS:
        for index, child in enumerate(schema.get(key) or ()):
            yield child, f"{path}.{key}[{index}]"


def _supported(schema: Schema, path: str) -> Iterator[FieldError]:
    """What OpenAPI knows and a CRD may not say."""
    for child, at in _below(schema, path):
        yield from _supported(child, at)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)
    if schema.get("properties") and "additionalProperties" in schema:
        # Whatever it says: with properties, unknown ones are pruned, not refused.
        yield forbidden(
            f"{path}.additionalProperties",
            "additionalProperties and properties are mutual exclusive",
        )
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if kind == "null":
        yield forbidden(
            f"{path}.type", "type cannot be set to null, use nullable as an alternative"
        )
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(
            f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"
        )
    for key in _UNSUPPORTED:
        if key in schema and schema[key] not in (None, "", {}, []):
            yield forbidden(f"{path}.{key}", f"{key} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    yield from _extensions(schema, path, kind)


def _extensions(schema: Schema, path: str, kind: str) -> Iterator[FieldError]:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None:
        if kind != "object":
            yield _wrong_kind(path, kind, "must be object if x-kubernetes-map-type is specified")
        if map_type not in ("atomic", "granular"):
            yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    list_type = schema.get("x-kubernetes-list-type")
    if list_type is not None:
        if kind != "array":
            yield _wrong_kind(path, kind, "must be array if x-kubernetes-list-type is specified")
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(
                f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map")
            )
    if list_type == "set":
        yield from _set_items(schema.get("items") or {}, f"{path}.items")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        at = f"{path}.x-kubernetes-list-type"
        yield required(at, text) if list_type is None else invalid(at, list_type, text)
    if list_type == "map":
        yield from _map_items(schema, keys, path)


def _wrong_kind(path: str, kind: str, text: str) -> FieldError:
    return invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)


def _set_items(items: Schema, path: str) -> Iterator[FieldError]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") != "atomic":
        yield invalid(f"{path}.x-kubernetes-list-type", items.get("x-kubernetes-list-type"), text)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), text)
    if items.get("nullable"):
        yield forbidden(f"{path}.nullable", "cannot be nullable when x-kubernetes-list-type is set")


def _map_items(schema: Schema, keys: list[str], path: str) -> Iterator[FieldError]:
    at_keys, items = f"{path}.x-kubernetes-list-map-keys", schema.get("items")
    if not keys:
        yield required(at_keys, "must not be empty if x-kubernetes-list-type is map")
    if not isinstance(items, Mapping):
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), text)
        return
    if items.get("nullable"):
        yield forbidden(
            f"{path}.items.nullable", "cannot be nullable when x-kubernetes-list-type is map"
        )
    properties = items.get("properties") or {}
    for key in keys:
        if key not in properties:
            yield invalid(at_keys, keys, "entries must all be names of item properties")
            continue
        at = f"{path}.items.properties[{key}]"
        if properties[key].get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{at}.type", items.get("type", ""), text)
        if "default" not in properties[key] and key not in (items.get("required") or ()):
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a"
                " required property"
            )
            yield required(f"{at}.default", text)
        if properties[key].get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{at}.nullable", text)
    if len(set(keys)) != len(keys):
        yield invalid(at_keys, keys, "must not contain duplicate entries")


_LEVELS: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def _structural(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    """The invariants of a structural schema."""
    kind, items = schema.get("type", ""), schema.get("items")
    if kind == "array" and not isinstance(items, Mapping):
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, Mapping):
        yield from _structural(items, "item", f"{path}.items")
    for key, child in (schema.get("properties") or {}).items():
        if not (level == "root" and key == "metadata"):
            yield from _structural(child, "field", f"{path}.properties[{key}]")
    extra = schema.get("additionalProperties")
    if extra is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(extra, Mapping):
        yield from _structural(extra, "field", f"{path}.additionalProperties")
    yield from _type_rules(schema, kind, level, path)
    yield from _junctors(schema, level, path, True)
    if level == "root":
        yield from _metadata(schema, path)


def _type_rules(schema: Schema, kind: str, level: str, path: str) -> Iterator[FieldError]:
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    either = bool(schema.get("x-kubernetes-int-or-string"))
    if either and preserve:
        text = "must be false if x-kubernetes-int-or-string is true"
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, text)
    if embedded and kind != "object":
        yield _wrong_kind(path, kind, "must be object if x-kubernetes-embedded-resource is true")
    elif not kind and not either and not preserve:
        yield required(f"{path}.type", _LEVELS[level])
    if level == "root" and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if embedded and not preserve and not schema.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without"
            " x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", text)
    pattern = schema.get("pattern")
    if pattern:
        problem = _bad_pattern(pattern)
        if problem:
            text = f"must be a valid regular expression, but isn't: {problem}"
            yield invalid(f"{path}.pattern", pattern, text)


def _bad_pattern(pattern: str) -> str:
    """Why RE2 refuses a pattern, or empty."""
    look = re.search(r"\(\?(<?[=!])([^)]*\)?)", pattern)
    if look and look.group(1).startswith("<"):
        return f"error parsing regexp: invalid named capture: `{look.group(0)}`"
    if look:
        return f"error parsing regexp: invalid or unsupported Perl syntax: `(?{look.group(1)}`"
    if re.search(r"(?<!\\)\\[1-9]", pattern):
        return "error parsing regexp: invalid escape sequence: `\\1`"
    try:
        re.compile(pattern.replace(r"\z", r"\Z"))
    except re.error as error:
        if "unterminated subpattern" in error.msg:
            return f"error parsing regexp: missing closing ): `{pattern}`"
        return f"error parsing regexp: {error}"
    return ""


def _metadata(schema: Schema, path: str) -> Iterator[FieldError]:
    metadata = (schema.get("properties") or {}).get("metadata")
    if metadata is None:
        return
    at = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        yield invalid(f"{at}.type", metadata.get("type", ""), "must be object")
    allowed = {"name", "generateName"}
    if set(metadata.get("properties") or {}) - allowed or set(metadata) - {
        "type",
        "properties",
        "description",
    }:
        text = (
            "must not specify anything other than name and generateName, but metadata is"
            " implicitly specified"
        )
        yield forbidden(at, text)


def _junctors(schema: Schema, level: str, path: str, either: bool) -> Iterator[FieldError]:
    """`allOf`, `anyOf`, `oneOf` and `not` may only restrict values, not describe them."""
    for key in _JUNCTORS:
        for index, child in enumerate(schema.get(key) or ()):
            if key == "anyOf" and either and list(schema["anyOf"]) == _INT_OR_STRING:
                continue
            inner_either = key == "allOf" and either and index == 0
            yield from _nested(child, level, f"{path}.{key}[{index}]", inner_either)
    if isinstance(schema.get("not"), Mapping):
        yield from _nested(schema["not"], level, f"{path}.not", False)


def _nested(schema: Schema, level: str, path: str, either: bool) -> Iterator[FieldError]:
    yield from _junctors(schema, level, path, either)
    if isinstance(schema.get("items"), Mapping):
        yield from _nested(schema["items"], level, f"{path}.items", False)
    for key, child in (schema.get("properties") or {}).items():
        yield from _nested(child, "field", f"{path}.properties[{key}]", False)
        if key == "metadata":
            yield forbidden(
                f"{path}.properties[metadata]", "must not be specified in a nested context"
            )
    for key, text in _NESTED_FORBIDDEN:
        if schema.get(key) not in (None, "", False, [], {}):
            yield forbidden(f"{path}.{key}", text)


def _complete(schema: Schema, path: str) -> Iterator[FieldError]:
    """Every field or item that a junctor of the root names must be described outside of it."""
    for key in _JUNCTORS:
        for index, child in enumerate(schema.get(key) or ()):
            yield from _mentioned(child, schema, f"{path}.{key}[{index}]", path)
    if isinstance(schema.get("not"), Mapping):
        yield from _mentioned(schema["not"], schema, f"{path}.not", path)


def _mentioned(nested: Schema, outside: Schema, path: str, at: str) -> Iterator[FieldError]:
    for key, child in (nested.get("properties") or {}).items():
        described = (outside.get("properties") or {}).get(key)
        if described is None:
            where = f"{at}.properties[{key}]"
            yield required(where, f"because it is defined in {path}.properties[{key}]")
        else:
            yield from _mentioned(
                child, described, f"{path}.properties[{key}]", f"{at}.properties[{key}]"
            )
    if isinstance(nested.get("items"), Mapping):
        if not isinstance(outside.get("items"), Mapping):
            yield required(f"{at}.items", f"because it is defined in {path}.items")
        else:
            yield from _mentioned(nested["items"], outside["items"], f"{path}.items", f"{at}.items")
    for key in _JUNCTORS:
        for index, child in enumerate(nested.get(key) or ()):
            yield from _mentioned(child, outside, f"{path}.{key}[{index}]", at)


def _nodes(node: Node, path: str) -> Iterator[tuple[Node, str]]:
    yield node, path
    for key, child in sorted(node.fields.items()):
        yield from _nodes(child, f"{path}.properties[{key}]")
    if node.items is not None:
        yield from _nodes(node.items, f"{path}.items")
    if node.values is not None:
        yield from _nodes(node.values, f"{path}.additionalProperties")


def _defaults(root: Node, path: str) -> Iterator[FieldError]:
    for node, at in _nodes(root, path):
        if node.has_default and node.default is not None:
            yield from schema_rules.check_part(node.default, None, node, f"{at}.default")


def _rules(root: Node, path: str) -> Iterator[FieldError]:
    for node, at in _nodes(root, path):
        for index, raw in enumerate(node.raw.get("x-kubernetes-validations") or ()):
            where = f"{at}.x-kubernetes-validations[{index}]"
            if not raw.get("rule", "").strip():
                yield required(f"{where}.rule", "rule is not specified")
                continue
            yield from _message_problems(raw, where)
            for key in ("rule", "messageExpression"):
                if raw.get(key):
                    yield from _compiles(raw, key, node, where)


def _compiles(raw: Schema, key: str, node: Node, where: str) -> Iterator[FieldError]:
    try:
        rules.compile_expression(raw[key], node)
    except rules.RuleError as error:
        # A real server prints the rule as its Go struct.
        printed = {go: raw.get(name, empty) for go, name, empty in _RULE_FIELDS}
        yield invalid(f"{where}.{key}", GoStruct(printed), str(error))


_RULE_FIELDS: Final = (
    ("Rule", "rule", ""),
    ("Message", "message", ""),
    ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None),
    ("FieldPath", "fieldPath", ""),
    ("OptionalOldSelf", "optionalOldSelf", None),
)


def _message_problems(raw: Schema, where: str) -> Iterator[FieldError]:
    message = raw.get("message")
    if message is not None and message and not message.strip():
        yield invalid(f"{where}.message", message, "must be non-empty if specified")
    if message and "\n" in message.strip():
        yield invalid(f"{where}.message", message, "must not contain line breaks")
    if not message and "\n" in raw["rule"].strip():
        yield required(f"{where}.message", "message must be specified if rule contains line breaks")
    if raw.get("reason") and raw["reason"] not in _REASONS:
        yield not_supported(f"{where}.reason", raw["reason"], _REASONS)
