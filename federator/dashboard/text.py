"""Words and numbers as pages show them. Pure."""

from typing import Final
from urllib.parse import quote

from federator.dashboard.sources.rows import Health
from federator.kube import clock as clocks
from federator.model.kubernetes import quantity
from federator.model.resources import Resources

TONES: Final = {
    Health.STALLED: "bad",
    Health.FAILED: "bad",
    Health.SHORT: "bad",
    Health.UNKNOWN: "warn",
    Health.NOT_READY: "warn",
    Health.PROGRESSING: "busy",
    Health.PENDING: "busy",
    Health.SUSPENDED: "idle",
    Health.READY: "good",
    Health.COMPLETE: "good",
}
"""Health -> the class of its colour; the word always stands beside it."""


def tone(health: str) -> str:
    """The class of a health's colour."""
    return TONES.get(Health(health), "idle")


def age(stamp: str, now_s: float) -> str:
    """The time since an RFC 3339 stamp, such as `5m`; "" for what is no time."""
    try:
        return lasting(now_s - clocks.parse(stamp))
    except ValueError:
        return ""


def lasting(length_s: float) -> str:
    """A length of time, such as `5m`."""
    seconds = max(0, int(length_s))
    for unit, size, below in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172800)):
        if seconds < below:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86400}d"


def address(*parts: str) -> str:
    """A path of these parts."""
    return "/" + "/".join(quote(part, safe="", errors="replace") for part in parts)


def amounts(resources: Resources) -> dict[str, str]:
    """As Kubernetes writes them."""
    return quantity.render(resources)


def percent(used: int, whole: int) -> int | None:
    """Whole percent, rounded down; None of nothing."""
    return 100 * max(used, 0) // whole if whole > 0 else None
