"""What our evaluator lacks of CEL and of its Kubernetes extensions: quantities, parts of times, and
the string and list helpers rules use.

Plain functions, also callable as methods (`quantity(a).isLessThan(quantity(b))`). A quantity is
carried as its canonical text. Registered by `cel_rules` only for the rules that name one of them.
"""

import itertools
import re
import zoneinfo
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from federator.embedded.schema import scalars


def _is_quantity(text: Any) -> bool:
    try:
        scalars.quantity(str(text))
    except ValueError:
        return False
    return True


def _compare(left: str, right: str) -> int:
    a, b = scalars.amount(left), scalars.amount(right)
    return (a > b) - (a < b)


def _as_integer(text: str) -> int:
    value = scalars.amount(text)
    if value.denominator != 1:
        raise ValueError("cannot convert value to integer")
    return int(value)


def _index_of(holder: Any, item: Any) -> int:
    if isinstance(holder, str):
        return holder.find(item)
    return holder.index(item) if item in holder else -1


def _last_index_of(holder: Any, item: Any) -> int:
    if isinstance(holder, str):
        return holder.rfind(item)
    return len(holder) - 1 - holder[::-1].index(item) if item in holder else -1


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text, re.ASCII)
    return match.group(0) if match else ""


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    return text.split(separator, limit - 1) if limit > 0 else text.split(separator)


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise IndexError(f"index out of range: {start}")
    return text[start:stop]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise IndexError(f"index out of range: {index}")
    return text[index : index + 1]


_OFFSET: Final = re.compile(r"([+-]?)(\d{1,2}):(\d{2})", re.ASCII)


def _in_zone(moment: datetime, zone: str | None) -> datetime:
    """The moment in a zone, an IANA name or an offset such as -08:00; in UTC without one."""
    if not zone:
        return moment.astimezone(UTC)
    if ":" in zone:
        match = _OFFSET.fullmatch(zone)
        if match is None:
            raise ValueError(f"invalid offset: {zone}")
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return moment.astimezone(timezone(-offset if match[1] == "-" else offset))
    try:
        return moment.astimezone(zoneinfo.ZoneInfo(zone))
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        raise ValueError(f"unknown time zone {zone}") from None


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    def part(moment: datetime, zone: str | None = None) -> int:
        return read(_in_zone(moment, zone))

    return part


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "quantity": lambda text: scalars.quantity(str(text)),
    "isQuantity": _is_quantity,
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "isLessThan": lambda a, b: _compare(a, b) < 0,
    "compareTo": _compare,
    "add": lambda a, b: scalars.decimal(scalars.amount(a) + scalars.amount(str(b))),
    "sub": lambda a, b: scalars.decimal(scalars.amount(a) - scalars.amount(str(b))),
    "sign": lambda text: _compare(text, "0"),
    "asInteger": _as_integer,
    "isInteger": lambda text: scalars.amount(text).denominator == 1,
    "asApproximateFloat": lambda text: float(scalars.amount(text)),
    "lowerAscii": lambda text: text.lower(),
    "upperAscii": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "split": _split,
    "replace": str.replace,
    "substring": _substring,
    "charAt": _char_at,
    "join": lambda items, separator="": separator.join(items),
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": _find,
    "findAll": lambda text, pattern: [m[0] for m in re.finditer(pattern, text, re.ASCII)],
    "isSorted": lambda items: all(a <= b for a, b in itertools.pairwise(items)),
    "sum": sum,
    "getFullYear": _part(lambda moment: moment.year),
    "getMonth": _part(lambda moment: moment.month - 1),
    "getDate": _part(lambda moment: moment.day),
    "getDayOfMonth": _part(lambda moment: moment.day - 1),
    "getDayOfWeek": _part(lambda moment: moment.isoweekday() % 7),
    "getDayOfYear": _part(lambda moment: moment.timetuple().tm_yday - 1),
    "getHours": _part(lambda moment: moment.hour),
    "getMinutes": _part(lambda moment: moment.minute),
    "getSeconds": _part(lambda moment: moment.second),
    "getMilliseconds": _part(lambda moment: moment.microsecond // 1000),
}
"""By their CEL name."""

BUILT_IN: Final = frozenset(
    {
        *("size", "contains", "startsWith", "endsWith", "matches", "max", "min"),
        *(
            "string",
            "int",
            "uint",
            "double",
            "bytes",
            "bool",
            "duration",
            "timestamp",
            "type",
            "dyn",
        ),
        *(
            "hasValue",
            "value",
            "or",
            "orValue",
            "optional.of",
            "optional.none",
            "optional.ofNonZeroValue",
        ),
    }
)
"""What the evaluator knows by itself; any other name in a rule is refused when the rule is
compiled."""
