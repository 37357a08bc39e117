"""Validation of custom resources against their structural schema, with a real server's words and
ratcheting.

Two passes: `fits`, compiled per node and without paths, says yes to almost every object; only when
it does not, `problems` walks again, slowly, and words each complaint. On updates, complaints about
values that did not change are dropped (ratcheting).
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from federator.embedded.apply.patches import same
from federator.embedded.schema import formats
from federator.embedded.storage.field_errors import (
    FieldError,
    invalid,
    mistyped,
    not_supported,
    required,
    too_long,
    too_many,
)
from federator.embedded.storage.schema import Node

Fits = Callable[[Any], bool]
_ABSENT: Final = object()
_BOUNDS: Final = frozenset(
    {
        *("minimum", "maximum", "multipleOf", "minLength", "maxLength", "pattern"),
        *("minItems", "maxItems", "minProperties", "maxProperties", "enum"),
        *("allOf", "anyOf", "oneOf", "not"),
    }
)


def check(value: Any, old: Any, node: Node) -> list[FieldError]:
    """Complaints about the object; `old` is None on create."""
    return check_part(value, old, node, "")


def check_part(value: Any, old: Any, node: Node, prefix: str) -> list[FieldError]:
    """Complaints about one part (the status). Their paths begin at the part and are reported below
    `prefix`."""
    if _fits(node)(value):
        return []
    return list(problems(value, _ABSENT if old is None else old, node, "", prefix))


def _fits(node: Node) -> Fits:
    fits: Fits | None = node.compiled.get("fits")
    if fits is None:
        fits = node.compiled["fits"] = _compiled(node)
    return fits


def _compiled(node: Node) -> Fits:
    bounded = bool(_BOUNDS & node.raw.keys()) or bool(node.format)
    kind = node.kind
    if node.int_or_string or (not kind and bounded):
        return lambda value: not any(problems(value, _ABSENT, node, "", ""))
    if not kind:
        return _object_fits(node, False) if node.raw.get("properties") else lambda value: True
    if kind == "object":
        return _object_fits(node, bounded)
    if kind == "array":
        return _list_fits(node, bounded)
    return _scalar_fits(node, bounded)


def _scalar_fits(node: Node, bounded: bool) -> Fits:
    """Says yes at once to the plain cases; anything else is left to the slow walk."""
    wanted = {"string": str, "boolean": bool, "integer": int}.get(node.kind)
    raw = node.raw
    if wanted is None or (bounded and not _QUICK.issuperset(_BOUNDS & raw.keys())):
        return lambda value: not any(problems(value, _ABSENT, node, "", ""))
    if not bounded:
        return lambda value: (
            type(value) is wanted or not any(problems(value, _ABSENT, node, "", ""))
        )
    if "enum" in raw:
        candidates = [item for item in raw["enum"] if type(item) is wanted]
        allowed = frozenset(
            item for item in candidates if not any(problems(item, _ABSENT, node, "", ""))
        )
        return lambda value: (
            (type(value) is wanted and value in allowed)
            or not any(problems(value, _ABSENT, node, "", ""))
        )
    if wanted is int:
        low, high = _integer_range(node)
        return lambda value: (
            (type(value) is int and low <= value <= high)
            or not any(problems(value, _ABSENT, node, "", ""))
        )
    shortest, longest = raw.get("minLength", 0), raw.get("maxLength", 2**63)
    matches = _searches(raw["pattern"]).search if "pattern" in raw else None
    checked = bool(node.format)
    return lambda value: (
        (
            type(value) is str
            and not checked
            and shortest <= len(value) <= longest
            and (matches is None or matches(value) is not None)
        )
        or not any(problems(value, _ABSENT, node, "", ""))
    )


_QUICK: Final = frozenset({"minimum", "maximum", "minLength", "maxLength", "pattern", "enum"})
"""Bounds the quick look knows by itself."""


def _integer_range(node: Node) -> tuple[float, float]:
    """Bounds within which an integer is surely fine; exclusive ones and formats make them
    narrower."""
    raw = node.raw
    bits = {"int32": 31}.get(node.format, 63)
    low = max(raw.get("minimum", -(2**bits)) + bool(raw.get("exclusiveMinimum")), -(2**bits))
    high = min(raw.get("maximum", 2**bits - 1) - bool(raw.get("exclusiveMaximum")), 2**bits - 1)
    return low, high


def _object_fits(node: Node, bounded: bool) -> Fits:
    table: dict[str, Fits] = {}
    names, needed, values, nullable = (
        node.raw.get("properties", {}),
        node.required,
        node.values,
        node.nullable,
    )
    optional_type = not node.kind

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return optional_type or (value is None and nullable)
        for key in needed:
            if key not in value:
                return False
        for key, child in value.items():
            step = table.get(key)
            if step is None:
                if key in names:
                    step = table[key] = _fits(node.fields[key])
                elif values is not None:
                    step = _fits(values)
                else:
                    continue
            if not step(child):
                return False
        return not bounded or not any(_own_problems(value, node, "", ""))

    return fits


def _list_fits(node: Node, bounded: bool) -> Fits:
    items, nullable = node.items, node.nullable

    def fits(value: Any) -> bool:
        if type(value) is not list:
            return value is None and nullable
        if items is not None:
            step = _fits(items)
            for child in value:
                if not step(child):
                    return False
        return not bounded or not any(_own_problems(value, node, "", ""))

    return fits


# The slow pass.


def problems(value: Any, old: Any, node: Node, path: str, prefix: str) -> Iterator[FieldError]:
    """Complaints about `value`, none when it equals `old` (the value this one replaces, or
    `_ABSENT`)."""
    if old is not _ABSENT and same(value, old):
        return
    wrong_type = _type_problem(value, node, path, prefix)
    if wrong_type is not None:
        yield wrong_type
    yield from _own_problems(value, node, path, prefix)
    if type(value) is list:
        yield from _item_problems(value, old, node, path, prefix)
    elif type(value) is dict:
        yield from _field_problems(value, old, node, path, prefix)


def _under(prefix: str, path: str) -> str:
    at = f"{prefix}.{path}" if prefix and path else prefix or path
    return at or "<nil>"


def _field_problems(
    value: dict[str, Any], old: Any, node: Node, path: str, prefix: str
) -> Iterator[FieldError]:
    before = old if type(old) is dict and node.map_type != "atomic" else {}
    for key in sorted(value):
        field = node.fields.get(key)
        child = field if field is not None else node.values
        if child is not None:
            at = f"{path}.{key}" if path else key
            yield from problems(value[key], before.get(key, _ABSENT), child, at, prefix)
    for key in node.required:
        if key not in value:
            yield required(_under(prefix, f"{path}.{key}" if path else key))


def _item_problems(
    value: list[Any], old: Any, node: Node, path: str, prefix: str
) -> Iterator[FieldError]:
    if node.items is None:
        return
    before: dict[Any, Any] = {}
    if node.list_type == "map" and type(old) is list:
        before = {_key_of(item, node.keys): item for item in old}
    for index, item in enumerate(value):
        was = before.get(_key_of(item, node.keys), _ABSENT) if before else _ABSENT
        yield from problems(item, was, node.items, f"{path}[{index}]", prefix)


def _key_of(item: Any, keys: tuple[str, ...]) -> Any:
    return tuple(repr(item.get(key)) for key in keys) if type(item) is dict else repr(item)


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return {str: "string", int: "integer", float: "number", list: "array", dict: "object"}[
        type(value)
    ]


def _type_problem(value: Any, node: Node, path: str, prefix: str) -> FieldError | None:
    wanted = "integer,string" if node.int_or_string else node.kind
    if not wanted:
        return None
    actual = _json_type(value)
    if value is None:
        return None if node.nullable else _not_of_type(path, prefix, wanted, "null")
    whole = (
        actual == "number" and value == int(value)
        if actual == "number" and abs(value) < 2**63
        else False
    )
    fits = (
        actual in wanted.split(",")
        or (actual == "integer" and wanted == "number")
        or (whole and wanted == "integer")
    )
    if fits:
        return None
    format_name = node.format if node.kind in ("integer", "number") else ""
    if format_name and actual not in ("string", "array"):
        return _not_of_type(
            path, prefix, format_name, {"number": "float64", "integer": "int64"}.get(actual, "")
        )
    return _not_of_type(path, prefix, wanted, actual)


def _not_of_type(path: str, prefix: str, wanted: str, actual: str) -> FieldError:
    return mistyped(
        _under(prefix, path), actual, f'{path} in body must be of type {wanted}: "{actual}"'
    )


def _own_problems(value: Any, node: Node, path: str, prefix: str) -> Iterator[FieldError]:
    """Bounds of this node alone, in the order a real server checks them."""
    raw = node.raw
    yield from _combination_problems(value, node, path, prefix)
    at = _under(prefix, path)
    if type(value) is str:
        yield from _string_problems(value, node, path, at)
    elif type(value) in (int, float):
        yield from _number_problems(value, node, path, at)
    elif type(value) is list:
        if "minItems" in raw and len(value) < raw["minItems"]:
            yield invalid(
                at, len(value), f"{path} in body should have at least {raw['minItems']} items"
            )
        if "maxItems" in raw and len(value) > raw["maxItems"]:
            yield too_many(at, len(value), raw["maxItems"])
    if "enum" in raw and not any(same(value, allowed) for allowed in raw["enum"]):
        yield not_supported(
            at, value, [item if isinstance(item, str) else repr(item) for item in raw["enum"]]
        )
    if type(value) is dict:
        if "minProperties" in raw and len(value) < raw["minProperties"]:
            yield invalid(
                at,
                len(value),
                f"{path} in body should have at least {raw['minProperties']} properties",
            )
        if "maxProperties" in raw and len(value) > raw["maxProperties"]:
            yield too_many(at, len(value), raw["maxProperties"])


def _string_problems(value: str, node: Node, path: str, at: str) -> Iterator[FieldError]:
    raw = node.raw
    if "maxLength" in raw and len(value) > raw["maxLength"]:
        yield too_long(at, raw["maxLength"])
    if "minLength" in raw and len(value) < raw["minLength"]:
        yield invalid(at, value, f"{path} in body should be at least {raw['minLength']} chars long")
    if "pattern" in raw and not _searches(raw["pattern"]).search(value):
        yield invalid(at, value, f"{path} in body should match '{raw['pattern']}'")
    if node.format and node.kind in ("", "string") and not formats.holds(node.format, value):
        yield mistyped(at, value, f'{path} in body must be of type {node.format}: "{value}"')


@functools.lru_cache(maxsize=512)
def _searches(pattern: str) -> re.Pattern[str]:
    """A pattern as RE2 reads it: ASCII classes, and `$` only at the very end."""
    translated = re.sub(r"(?<!\\)((?:\\\\)*)\$", r"\1\\Z", pattern.replace(r"\z", r"\Z"))
    return re.compile(translated, re.ASCII)


def go_float(value: float) -> str:
    """A number as Go prints a float64: `5`, `0.5`, `2.147483647e+09`."""
    digits, _, exponent = f"{value!r}".partition("e")
    magnitude = abs(value)
    if magnitude and not 1e-4 <= magnitude < 1e21:
        power = int(exponent) if exponent else 0
        return f"{digits.removesuffix('.0')}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if magnitude >= 1e6 and float(value) == int(value):
        text = f"{int(magnitude)}"
        mantissa = text.rstrip("0")
        tail = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
        return f"{'-' if value < 0 else ''}{mantissa[0]}{tail}e+{len(text) - 1:02d}"
    return f"{int(value)}" if float(value) == int(value) else f"{value!r}"


def _bound(limit: float, value: float) -> str:
    """A bound as it is printed beside a value: whole beside whole numbers."""
    return str(int(limit)) if type(value) is int else go_float(limit)


def _number_problems(value: float, node: Node, path: str, at: str) -> Iterator[FieldError]:
    raw = node.raw
    bits = {"int32": 31, "int64": 63}.get(node.format) if node.kind == "integer" else None
    if bits is not None and (value != int(value) or not -(2**bits) <= value < 2**bits):
        text = f"Checked value must be of type integer with format {node.format} in {path}"
        yield _composite(text)
    factor = raw.get("multipleOf")
    if factor is not None:
        if type(value) is int and int(factor) == 0:
            # Integers are compared with the whole part of the factor on a real server.
            yield invalid(at, 0, f"factor MultipleOf declared for {path} must be positive: 0")
        elif not float(value / factor).is_integer():
            yield invalid(at, value, f"{path} in body should be a multiple of {go_float(factor)}")
    limit = raw.get("maximum")
    if limit is not None and (value > limit or (value == limit and raw.get("exclusiveMaximum"))):
        words = "less than" if raw.get("exclusiveMaximum") else "less than or equal to"
        yield invalid(at, value, f"{path} in body should be {words} {_bound(limit, value)}")
    limit = raw.get("minimum")
    if limit is not None and (value < limit or (value == limit and raw.get("exclusiveMinimum"))):
        words = "greater than" if raw.get("exclusiveMinimum") else "greater than or equal to"
        yield invalid(at, value, f"{path} in body should be {words} {_bound(limit, value)}")


def _branches(node: Node, key: str) -> list[Node]:
    """The parsed alternatives of `allOf`, `anyOf`, `oneOf`, or the one of `not`."""
    branches: list[Node] | None = node.compiled.get(key)
    if branches is None:
        raw = node.raw[key]
        branches = node.compiled[key] = [
            Node(item, node.resolve) for item in (raw if isinstance(raw, list) else [raw])
        ]
    return branches


def _combination_problems(value: Any, node: Node, path: str, prefix: str) -> Iterator[FieldError]:
    raw = node.raw

    def failing(key: str) -> list[list[FieldError]]:
        return [
            list(problems(value, _ABSENT, branch, path, prefix)) for branch in _branches(node, key)
        ]

    if "anyOf" in raw and not node.int_or_string:
        failures = failing("anyOf")
        if all(failures):
            yield _composite(f'"{path}" must validate at least one schema (anyOf)')
            yield from min(failures, key=len)
    if "oneOf" in raw:
        failures = failing("oneOf")
        valid = sum(not failure for failure in failures)
        if valid != 1:
            problem = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield _composite(f'"{path}" must validate one and only one schema (oneOf). {problem}')
            if not valid:
                yield from min(failures, key=len)
    if "allOf" in raw:
        failures = failing("allOf")
        if any(failures):
            none = "" if not all(failures) else ". None validated"
            yield _composite(f'"{path}" must validate all the schemas (allOf){none}')
            for failure in failures:
                yield from failure
    if "not" in raw and not any(problems(value, _ABSENT, _branches(node, "not")[0], path, prefix)):
        yield _composite(f'"{path}" must not validate the schema (not)')


def _composite(text: str) -> FieldError:
    return invalid("<nil>", "", text)
