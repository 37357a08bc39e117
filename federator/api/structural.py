"""Checks a decoded object against a structural schema, with the path of every problem. Pure.

`read` uses it for what models leave open (pod templates, Deployments) and for unknown fields. It
knows what our schemas use: types, bounds, patterns, enums, required and unknown fields, keyed lists
and sets; CEL rules are the models' validators here.
"""

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from federator.api import schema as schemas
from federator.model import errors
from federator.model.errors import FieldError

Schema = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, str]] = {
    "object": (dict, "an object"),
    "array": (list, "a list"),
    "string": (str, "a text"),
    "boolean": (bool, "true or false"),
    "integer": (int, "an integer"),
    "number": (int, "a number"),
}


def problems(value: Any, schema: Schema, path: str = "") -> Iterator[FieldError]:
    """Every problem, in the order of the object. null stands for a field that is left out, as API
    servers read it."""
    if value is None or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if schema.get("x-kubernetes-int-or-string"):
        yield from _int_or_string(value, schema, path)
    elif not _is(value, schema.get("type", "object")):
        yield FieldError(
            path, f"must be {_TYPES[schema.get('type', 'object')][1]}, not {_named(value)}"
        )
    elif isinstance(value, dict):
        yield from _object(value, schema, path)
    elif isinstance(value, list):
        yield from _array(value, schema, path)
    elif isinstance(value, str):
        yield from _string(value, schema, path)
    elif not isinstance(value, bool):
        yield from _number(value, schema, path)


def _is(value: Any, kind: str) -> bool:
    if kind == "number":
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        )
    return isinstance(value, _TYPES[kind][0]) and (kind == "boolean" or not isinstance(value, bool))


def _named(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return (
        "an object"
        if isinstance(value, dict)
        else "a list"
        if isinstance(value, list)
        else type(value).__name__
    )


def _object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[FieldError]:
    properties = schema.get("properties")
    rest = schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if value.get(name) is None:
            yield FieldError(errors.join(path, name), "is required")
    if len(value) > schema.get("maxProperties", len(value)):
        yield FieldError(
            path, f"has {len(value)} entries, at most {schema['maxProperties']} are allowed"
        )
    for name, entry in value.items():
        here = errors.join(path, str(name))
        if properties is not None and name in properties:
            yield from problems(entry, properties[name], here)
        elif isinstance(rest, Mapping):
            yield from problems(entry, rest, here)
        elif properties is not None:
            yield FieldError(here, f"unknown field{_guess(str(name), properties)}")


def _guess(name: str, candidates: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name[:64], candidates, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _array(value: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxItems", len(value)):
        yield FieldError(
            path, f"has {len(value)} entries, at most {schema['maxItems']} are allowed"
        )
        return
    if len(value) < schema.get("minItems", 0):
        yield FieldError(
            path, f"has {len(value)} entries, at least {schema['minItems']} are needed"
        )
    for index, entry in enumerate(value):
        yield from problems(entry, schema["items"], f"{path}[{index}]")
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") == "set":
        yield from _repeated([repr(entry) for entry in value], path)
    elif keys and all(isinstance(entry, dict) for entry in value):
        fields = schema["items"].get("properties", {})
        idents = [
            ", ".join(f"{k} {e.get(k, fields.get(k, {}).get('default', ''))!r}" for k in keys)
            for e in value
        ]
        yield from _repeated(idents, path)


def _repeated(idents: list[str], path: str) -> Iterator[FieldError]:
    first: dict[str, int] = {}
    for index, ident in enumerate(idents):
        if ident in first:
            yield FieldError(f"{path}[{index}]", f"repeats {path}[{first[ident]}]: {ident[:120]}")
        else:
            first[ident] = index


def _string(value: str, schema: Schema, path: str) -> Iterator[FieldError]:
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        yield FieldError(
            path,
            f"must be one of {', '.join(map(str, allowed))}, not {value[:40]!r}"
            f"{_guess(value, dict.fromkeys(map(str, allowed)))}",
        )
        return
    if len(value) > schema.get("maxLength", len(value)):
        yield FieldError(
            path, f"has {len(value)} characters, at most {schema['maxLength']} are allowed"
        )
        return
    if len(value) < schema.get("minLength", 0):
        yield FieldError(path, "must not be empty")
    yield from _pattern(value, schema, path)


def _pattern(value: str, schema: Schema, path: str) -> Iterator[FieldError]:
    pattern = schema.get("pattern")
    if pattern is None or _compiled(pattern).search(value):
        return
    if pattern == schemas.QUANTITY_PATTERN:
        yield FieldError(path, f"{value[:40]!r} is not a quantity such as 500m, 2 or 4Gi")
    else:
        yield FieldError(path, f"{value[:40]!r} does not have the form {pattern}")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Go's `$` is the end of the text, Python's may stand before a final newline."""
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)


def _int_or_string(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if isinstance(value, str):
        yield from _string(value, schema, path)
    elif not _is(value, "integer"):
        hint = ": put it in quotes" if isinstance(value, float) else ""
        yield FieldError(path, f"must be an integer or a text, not {_named(value)}{hint}")


def _number(value: float, schema: Schema, path: str) -> Iterator[FieldError]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if schema.get("format") == "int32":
        low = -(2**31) if low is None else low
        high = 2**31 - 1 if high is None else high
    elif schema.get("type") == "integer":
        low = -(2**63) if low is None else low
        high = 2**63 - 1 if high is None else high
    if low is not None and value < low:
        yield FieldError(path, f"must be at least {low}, not {value}")
    elif high is not None and value > high:
        yield FieldError(path, f"must be at most {high}, not {value}")
    elif value not in schema.get("enum", (value,)):
        yield FieldError(path, f"must be one of {', '.join(map(str, schema['enum']))}, not {value}")
