"""Total accessors on decoded objects: what an API server can hold never makes them raise.

The verbs of every kind and the conversions to core values read through here. A value of the wrong
type counts as absent, since hot paths see objects that nobody validated; validation with words and
paths is `read`'s.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from federator.model import plaintext, shards
from federator.model.ask import Tier
from federator.model.shards import Ranges

Obj = Mapping[str, Any]

FIGURE_MAX: Final = 1_000_000
"""As many copies as a workload may ask for; a thousand clusters' figures then add up to a 32-bit
number."""
_LAST_S: Final = 253_402_214_400.0
"""The last day of the year 9999: what comes after cannot be written any more."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}", re.ASCII)

NO_FIELDS: Final[Obj] = {}


def at(obj: Any, *path: str) -> Any:
    """The value at the path, None where anything on the way is missing or not an object."""
    for name in path:
        # Nearly everything is a dict or absent, and hot paths pass here: no call is made for those.
        if type(obj) is dict:
            obj = obj.get(name)
        elif obj is None or not isinstance(obj, Mapping):
            return None
        else:
            obj = obj.get(name)
    return obj


def _is_object(value: Any) -> bool:
    """The check against the abstract class is slow, and nearly everything is a dict or absent."""
    return type(value) is dict or (value is not None and isinstance(value, Mapping))


def mapping(obj: Any, *path: str) -> Obj:
    """The object at the path, an empty one where there is none."""
    for name in path:
        # Here, in `text` and in `integer` the steps are taken without a call of `at`: a hub that
        # starts passes them a hundred times for each workload.
        obj = obj.get(name) if type(obj) is dict else at(obj, name)
    return obj if type(obj) is dict or _is_object(obj) else NO_FIELDS


def items(obj: Any, *path: str) -> Sequence[Any]:
    value = at(obj, *path)
    return value if isinstance(value, list) else ()


def objects(obj: Any, *path: str) -> list[Obj]:
    """The entries of a list that are objects."""
    return [entry for entry in items(obj, *path) if _is_object(entry)]


def texts(obj: Any, *path: str) -> tuple[str, ...]:
    """The entries of a list that are texts."""
    return tuple(entry for entry in items(obj, *path) if isinstance(entry, str))


def text(obj: Any, *path: str, default: str = "") -> str:
    for name in path:
        obj = obj.get(name) if type(obj) is dict else at(obj, name)
    return obj if isinstance(obj, str) else default


def integer(obj: Any, *path: str, default: int = 0) -> int:
    """An integer; `true` is none."""
    for name in path:
        obj = obj.get(name) if type(obj) is dict else at(obj, name)
    return obj if type(obj) is int else default


def figure(obj: Any, *path: str) -> int:
    """A number of copies that somebody reports, within bounds."""
    value = integer(obj, *path)
    return value if 0 <= value <= FIGURE_MAX else min(max(value, 0), FIGURE_MAX)


def word(obj: Any, *path: str) -> str:
    """A reason in CamelCase; "" for anything that cannot be the reason of a condition."""
    value = text(obj, *path)
    return value if _WORD.fullmatch(value) else ""


def sentence(obj: Any, *path: str) -> str:
    """A message for people, cut to what a status may carry, safe to show."""
    return plaintext.clipped(text(obj, *path))


def tier(obj: Any, *path: str) -> Tier:
    """The tier of that name; OnDemand for anything else."""
    return _TIERS.get(text(obj, *path), Tier.ON_DEMAND)


_TIERS: Final[Mapping[str, Tier]] = {tier.value: tier for tier in Tier}


def ranges(obj: Any, *path: str) -> Ranges:
    """Reads `0-3,4-7` and keeps the pieces apart; () for anything that is not sorted and
    disjoint."""
    written = text(obj, *path)
    if not written:
        return ()
    try:
        shards.parse(written)
        return tuple(piece for part in written.split(",") for piece in shards.parse(part))
    except ValueError:
        return ()


def integers(obj: Any, *path: str) -> tuple[int, ...]:
    """A list of integers that are not negative; () for anything else."""
    listed = items(obj, *path)
    if not listed:
        return ()
    valid = all(type(value) is int and 0 <= value <= FIGURE_MAX for value in listed)
    return tuple(listed) if valid else ()


def flag(obj: Any, *path: str) -> bool:
    return at(obj, *path) is True


def text_map(obj: Any, *path: str) -> dict[str, str]:
    """The entries of a map that have texts as values."""
    return {name: value for name, value in mapping(obj, *path).items() if isinstance(value, str)}


def present(fields: Obj) -> dict[str, Any]:
    """Without the fields that say nothing: None, "", [] and {}; zeros and False stay."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", [], {}, ())
    }


def condition(obj: Obj, kind: str) -> Obj:
    """The condition of that type in `.status.conditions`, or an empty object."""
    for entry in items(obj, "status", "conditions"):
        if _is_object(entry) and entry.get("type") == kind:
            return entry  # type: ignore[no-any-return]
    return NO_FIELDS


def rfc3339(epoch_s: float) -> str:
    """UTC with microseconds, which keeps order and comes back as the same instant."""
    return (
        datetime.fromtimestamp(epoch_s, UTC)
        .isoformat(timespec="microseconds")
        .replace("+00:00", "Z")
    )


def second(epoch_s: int) -> str:
    """UTC, to the second, as native controllers write times; "" for 0 and what was before."""
    if epoch_s <= 0:
        return ""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_s(moment: str) -> float:
    """Seconds since 1970 of an RFC 3339 time; 0.0 for anything else, and for what was before."""
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return 0.0
    return min(max(parsed.timestamp(), 0.0), _LAST_S) if parsed.tzinfo else 0.0
