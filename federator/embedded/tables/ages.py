"""Durations as kubectl shows them: `47s`, `3m12s`, `5h30m`, `12d`. The rules are apimachinery's
`HumanDuration`."""

from federator.kube import clock

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human(seconds: float) -> str:
    """A duration in two significant units at most."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _pair(whole // _MINUTE, "m", whole % _MINUTE, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _pair(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _pair(whole // _DAY, "d", whole % _DAY // _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _pair(whole // _YEAR, "y", whole // _DAY % 365, "d")
    return f"{whole // _YEAR}y"


def since(timestamp: str | None, now: float) -> str:
    """How long ago an RFC 3339 time was; `<unknown>` when there is none."""
    if not timestamp:
        return "<unknown>"
    try:
        return human(now - clock.parse(timestamp))
    except ValueError:
        return "<invalid>"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
