"""Conditions of a workload, and how they are merged into the live ones.

`fold` creates them; the hub's status aggregation and the member write them. Time is an argument,
and lastTransitionTime changes only with the status, so that folding twice gives equal bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.model import plaintext

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of the Kubernetes API conventions, without its time.

    `reason` is CamelCase, `message` a sentence with numbers. `observed_generation` is the
    generation that the condition is about.
    """

    type: str
    status: str
    reason: str
    message: str = ""
    observed_generation: int = 0


def truth(value: bool | None) -> str:
    """True, False, or Unknown for None."""
    return UNKNOWN if value is None else TRUE if value else FALSE


def merge(
    live: Sequence[Any] | None, wanted: Iterable[Condition], now: str, owned: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """The list to write: `wanted` over `live`, in the order of the live list, new ones at the end.

    A condition with an unchanged status keeps its lastTransitionTime; others get `now` (RFC 3339).
    Types in `owned` that are no longer wanted are dropped; other types stay unchanged.
    """
    fresh = {condition.type: condition for condition in wanted}
    dropped = set(owned) - fresh.keys()
    merged: list[dict[str, Any]] = []
    for old in live or ():
        if not isinstance(old, Mapping):
            continue
        kind = old.get("type")
        if kind in dropped:
            continue
        condition = fresh.pop(kind, None) if isinstance(kind, str) else None
        merged.append(dict(old) if condition is None else rendered(condition, old, now))
    merged.extend(rendered(condition, None, now) for condition in fresh.values())
    return merged


def rendered(condition: Condition, old: Mapping[str, Any] | None, now: str) -> dict[str, Any]:
    """One condition in API form; its transition time is the old one's when the status is the
    same."""
    body: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": plaintext.clipped(condition.message),
        "lastTransitionTime": now,
    }
    if condition.observed_generation:
        body["observedGeneration"] = condition.observed_generation
    if (
        old is not None
        and old.get("status") == condition.status
        and isinstance(old.get("lastTransitionTime"), str)
    ):
        body["lastTransitionTime"] = old["lastTransitionTime"]
    return body


def find(conditions: Sequence[Any] | None, kind: str) -> Mapping[str, Any] | None:
    """The live condition of that type; None for none."""
    for condition in conditions or ():
        if isinstance(condition, Mapping) and condition.get("type") == kind:
            return condition
    return None


def is_true(conditions: Sequence[Any] | None, kind: str) -> bool:
    condition = find(conditions, kind)
    return condition is not None and condition.get("status") == TRUE
