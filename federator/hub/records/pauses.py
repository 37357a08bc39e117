"""The pause object: the switch that every hub watches, and what is said of a pause. Read by the hub
and by commands. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federator.api import raw

PAUSE_OBJECT = "federator"
"""ConfigMap in the system namespace; `paused: "true"` in its data stops all writes of placing and
dispatching."""
FACTS_MAX = 400
"""Characters about a pause that are shown in a condition."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is placed or dispatched."""

    facts: str
    """Since when, by which user and why, as far as it is known: " since T by U (why)", or ""."""


def read(obj: Mapping[str, Any]) -> Pause | None:
    """The pause that the object asks for; None for none."""
    said = facts(obj)
    return None if said is None else Pause(said)


def facts(obj: Mapping[str, Any] | None) -> str | None:
    """Since when, by which user and why there is a pause, as far as the object says (" since T by U
    (why)"); None without a pause. A pause that was set by hand shows its field manager."""
    obj = obj or {}
    if raw.text(obj, "data", "paused") != "true":
        return None
    since, by, why = (raw.text(obj, "data", name) for name in ("since", "by", "reason"))
    if not since:
        last = max(
            raw.objects(obj, "metadata", "managedFields"),
            key=lambda entry: raw.text(entry, "time"),
            default={},
        )
        since, by = raw.text(last, "time"), by or raw.text(last, "manager")
    parts = (
        f" since {since}" if since else "",
        f" by {by}" if by else "",
        f" ({why})" if why else "",
    )
    return "".join(parts)[:FACTS_MAX]
