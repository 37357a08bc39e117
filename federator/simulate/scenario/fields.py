"""Values of scenario files: durations, shares, fractions; and problems of a document as
sentences.
"""

import difflib
import math
import re
import types
import typing
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, PlainValidator, ValidationError
from pydantic_core import PydanticCustomError

from federator.model import errors
from federator.model.errors import FieldError

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|min|h|d|w)?", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)", re.ASCII)
DURATION_MAX_S: Final = 100 * 366 * 86400


def seconds(value: object) -> int:
    """`90s`, `10m`, `2h`, `3d`, `1w`, `1.5h` or a number of seconds as seconds. Raises
    ValueError.
    """
    match = (
        _DURATION.fullmatch(str(value).strip()) if isinstance(value, str | int | float) else None
    )
    if match is None or isinstance(value, bool):
        raise ValueError(f"{str(value)[:40]!r} is no duration: 90s, 10m, 2h, 3d and 1w are")
    exact = Fraction(match[1]) * _SECONDS[match[2] or "s"]
    if exact > DURATION_MAX_S:
        raise ValueError("is longer than a hundred years")
    return round(exact)


class Date(int):
    """Epoch seconds of an instant that was given as a date, not as the time since second 0."""


def instant(value: object) -> int:
    """A duration since second 0, or a date with its time zone, `2026-03-12T14:00Z` or
    `2026-03-12T14:00+01:00`, as a Date. Raises ValueError.
    """
    text = str(value).strip()
    if _DATE.match(text) is None:
        return seconds(value)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no date: 2026-03-12T14:00Z is") from None
    if date.tzinfo is None:
        raise ValueError(f"{text[:40]!r} has no time zone: end it with Z, or +01:00")
    return Date(math.floor(date.timestamp()))


def since(value: int, origin_s: int, path: str) -> int:
    """An instant as seconds since second 0, which is at `origin_s`; 0: it has no date. Raises
    FieldError."""
    if not isinstance(value, Date):
        return value
    if not origin_s:
        message = "is a date, and the demand has none: its times are not `iso`, nor recorded"
        raise FieldError(path, message)
    if value < origin_s:
        first = datetime.fromtimestamp(origin_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        raise FieldError(path, f"lies before second 0, which is {first}")
    return int(value) - origin_s


def at_least_a_minute(value: int) -> int:
    """A duration that is no shorter. Raises PydanticCustomError."""
    if value < 60:
        raise refused("is shorter than a minute")
    return value


def fraction(value: object) -> Fraction:
    """`1/2`, `0.5`, `50%` or a number as an exact fraction. Raises ValueError."""
    text = str(value).strip()
    try:
        if isinstance(value, bool):
            raise ValueError
        percent = text.endswith("%")
        exact = Fraction(text.removesuffix("%").strip()) / (100 if percent else 1)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{text[:40]!r} is no fraction: 1/2, 0.5 and 50% are") from None
    if exact < 0 or exact > 1_000_000:
        raise ValueError("must be at least 0 and at most 1000000")
    return exact


def _checked(read: Any) -> Any:
    def validated(value: object) -> Any:
        try:
            return read(value)
        except ValueError as bad:
            raise refused(str(bad)) from None

    return validated


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Duration = Annotated[int, PlainValidator(_checked(seconds))]
"""In seconds."""
Instant = Annotated[int, PlainValidator(_checked(instant))]
"""In seconds since second 0, or a Date."""
Portion = Annotated[Fraction, PlainValidator(_checked(fraction))]
Names = Annotated[list[str], BeforeValidator(_listed)]
"""One name, or a list of them."""


def problems(model: type[BaseModel], bad: ValidationError) -> Iterator[FieldError]:
    """Each problem with the field's path; an unknown field with the nearest name that there is."""
    for detail in bad.errors(include_url=False, include_context=False, include_input=False):
        path = ""
        for part in detail["loc"]:
            path = f"{path}[{part}]" if isinstance(part, int) else errors.join(path, str(part))
        message = _WORDS.get(detail["type"], detail["msg"])
        if detail["type"] == "extra_forbidden":
            message = (
                "unknown "
                f"field{_near(str(detail['loc'][-1]), _fields_at(model, detail['loc'][:-1]))}"
            )
        yield FieldError(path, message)


def _near(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, 1, 0.5)
    return f"; is it {near[0]!r}?" if near else f"; known are {', '.join(names)}" if names else ""


def near(name: str, names: Sequence[str]) -> str:
    """` (is it 'b'?)` for a name that is close to a known one, else which are known."""
    matches = difflib.get_close_matches(name, names, 1, 0.5)
    if matches:
        return f" (is it {matches[0]!r}?)"
    return f"; there are {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""


def existing(name: str, names: Collection[str], path: str) -> str:
    """The name of one of the clusters. Raises FieldError with the path of the field."""
    if name not in names:
        raise FieldError(path, f"there is no cluster {name!r}{near(name, list(names))}")
    return name


def refused(message: str) -> PydanticCustomError:
    return PydanticCustomError("scenario", "{problem}", {"problem": message})


def _fields_at(model: type[BaseModel], loc: Sequence[str | int]) -> Sequence[str]:
    """The fields of the model that a path leads to."""
    here: Any = model
    for part in loc:
        if isinstance(part, int):
            continue
        inner = _model_in(here)
        if inner is None:
            return ()
        by_alias = {
            info.alias or name: info.annotation for name, info in inner.model_fields.items()
        }
        if part in by_alias:
            here = by_alias[part]
    inner = _model_in(here)
    return [info.alias or name for name, info in inner.model_fields.items()] if inner else ()


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation is, or holds: `X`, `X | None`, `list[X]`, `dict[str, X]`."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    return next(
        (model for part in typing.get_args(annotation) if (model := _model_in(part)) is not None),
        None,
    )


_WORDS: Final = {
    "missing": "is required",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
