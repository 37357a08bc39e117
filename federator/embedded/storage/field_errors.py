"""One complaint about one field, worded as a real API server words it; the `Invalid` status is made
of these.

Pure values. Produced by every kind of validation, turned into answers by the REST layer.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class FieldError:
    """`field` is the path as the server prints it (`spec.ports[0].name`), `reason` as in a
    `StatusCause`."""

    field: str
    reason: str
    message: str

    def cause(self) -> dict[str, str]:
        """The entry of `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def line(self) -> str:
        """How the error reads within the status message."""
        return f"{self.field}: {self.message}"


class GoStruct(dict[str, Any]):
    """A value that a real server prints as its Go struct: capital names, in the struct's order."""


def shown(value: Any) -> str:
    """A value as the server prints it: strings quoted, objects and lists as compact JSON with
    sorted keys."""
    if isinstance(value, dict | list):
        return go_json(value, sort=not isinstance(value, GoStruct))
    return json.dumps(value, ensure_ascii=False)


_HTML: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def go_json(value: Any, *, sort: bool = True) -> str:
    """Compact JSON as Go writes it, with the characters escaped that could be HTML."""
    return json.dumps(value, separators=(",", ":"), sort_keys=sort, ensure_ascii=False).translate(
        _HTML
    )


def required(field: str, detail: str = "") -> FieldError:
    """A value that must be there and is not."""
    return FieldError(
        field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value"
    )


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}")


def mistyped(field: str, value: Any, detail: str) -> FieldError:
    """A value of a wrong type or format."""
    return FieldError(field, "FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {detail}")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """A value outside an enumeration; `supported` in the order to print."""
    values = ", ".join(json.dumps(item) for item in supported)
    return FieldError(
        field,
        "FieldValueNotSupported",
        f"Unsupported value: {shown(value)}: supported values: {values}",
    )


def forbidden(field: str, detail: str) -> FieldError:
    """A field that may not be set (or changed) here."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: Any) -> FieldError:
    """A value that must be unique and is not."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def not_found(field: str, value: Any) -> FieldError:
    """A reference to something that is not there."""
    return FieldError(field, "FieldValueNotFound", f"Not found: {shown(value)}")


def too_long(field: str, limit: int) -> FieldError:
    """A string of more than `limit` bytes."""
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, actual: int, limit: int) -> FieldError:
    """A list or map with more than `limit` items."""
    return FieldError(
        field, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} items"
    )


def aggregate(errors: Sequence[FieldError]) -> str:
    """All complaints in one text: equal ones once, several in brackets."""
    lines = list(dict.fromkeys(error.line() for error in errors))
    return lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
