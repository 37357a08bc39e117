"""Taints and tolerations, of clusters and of node rows alike, with Kubernetes' rules of matching.

Used by placement's filters, by the capacity of node rows and by pod shapes; never raises once
values are built.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from federator.model import errors
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from federator.model.names import FEDERATION


class Effect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


REFUSING: Final = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)
"""The effects that keep new work away."""
_EFFECTS: Final = tuple(str(effect) for effect in Effect)


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """Keeps away what does not tolerate it."""

    key: str
    value: str = ""
    effect: str = Effect.NO_SCHEDULE

    @property
    def by_federation(self) -> bool:
        """Whether the federation sets taints of this key itself; all others are people's."""
        return self.key.partition("/")[0] == FEDERATION

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


UNREACHABLE_TAINT: Final = Taint(f"{FEDERATION}/unreachable", effect=Effect.NO_EXECUTE)
"""Set by the hub on a cluster of which nothing is heard, and taken away when it is."""


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """`key` "" with operator Exists tolerates everything; `effect` "" means every effect; `seconds`
    -1 for ever."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int = -1

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


def evicting(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints by which people take away what a cluster holds."""
    return tuple(
        taint for taint in taints if taint.effect == Effect.NO_EXECUTE and not taint.by_federation
    )


def untolerated(
    taints: Iterable[Taint],
    tolerations: Collection[Toleration],
    effects: Collection[str] = REFUSING,
) -> Taint | None:
    """The first taint with one of these effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(
            toleration.tolerates(taint) for toleration in tolerations
        ):
            return taint
    return None


def taint_from_dict(obj: Mapping[str, Any], path: str = "") -> Taint:
    """Reads {key, value, effect}. Raises FieldError."""
    _only(obj, ("key", "value", "effect", "timeAdded"), path)
    problem = selectors.check_label_key(obj.get("key"))
    if problem:
        raise FieldError(errors.join(path, "key"), problem)
    value = _text(obj, "value", path)
    problem = selectors.check_label_value(value)
    if problem:
        raise FieldError(errors.join(path, "value"), problem)
    effect = _text(obj, "effect", path)
    if effect not in _EFFECTS:
        raise FieldError(
            errors.join(path, "effect"), "one of NoSchedule, PreferNoSchedule, NoExecute"
        )
    return Taint(obj["key"], value, effect)


def toleration_from_dict(obj: Mapping[str, Any], path: str = "") -> Toleration:
    """Reads {key, operator, value, effect, tolerationSeconds} with Kubernetes' checks. Raises
    FieldError."""
    _only(obj, ("key", "operator", "value", "effect", "tolerationSeconds"), path)
    key, value, effect = (
        _text(obj, "key", path),
        _text(obj, "value", path),
        _text(obj, "effect", path),
    )
    operator = _text(obj, "operator", path) or "Equal"
    if operator not in ("Equal", "Exists"):
        raise FieldError(errors.join(path, "operator"), "Equal or Exists")
    problem = selectors.check_label_key(key) if key else None
    if problem:
        raise FieldError(errors.join(path, "key"), problem)
    if not key and operator != "Exists":
        raise FieldError(errors.join(path, "operator"), "must be Exists when key is empty")
    if operator == "Exists" and value:
        raise FieldError(errors.join(path, "value"), "must be empty when operator is Exists")
    if effect and effect not in _EFFECTS:
        raise FieldError(
            errors.join(path, "effect"), "one of NoSchedule, PreferNoSchedule, NoExecute, or empty"
        )
    seconds = obj.get("tolerationSeconds")
    if seconds is None:
        return Toleration(key, operator, value, effect)
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise FieldError(errors.join(path, "tolerationSeconds"), "an integer")
    return Toleration(key, operator, value, effect, max(seconds, 0))


def taint_to_dict(taint: Taint) -> dict[str, str]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": str(taint.effect)}


def toleration_to_dict(toleration: Toleration) -> dict[str, Any]:
    """Without the fields that are empty."""
    pairs = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": str(toleration.effect),
    }
    out: dict[str, Any] = {name: text for name, text in pairs.items() if text}
    if toleration.seconds >= 0:
        out["tolerationSeconds"] = toleration.seconds
    return out


def _only(obj: Mapping[str, Any], fields: Collection[str], path: str) -> None:
    if not isinstance(obj, Mapping):
        raise FieldError(path, "an object")
    for name in obj:
        if name not in fields:
            raise FieldError(errors.join(path, str(name)), "unknown field")


def _text(obj: Mapping[str, Any], name: str, path: str) -> str:
    text = obj.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise FieldError(errors.join(path, name), "a text")
    return text
