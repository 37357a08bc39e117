"""When a cluster is to be probed, by what its MemberCluster and its standards say. Pure: times are
arguments, in epoch seconds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from federator.api import raw

RETRY_S: Final = 60.0
"""A cluster that waits at its gate is probed again so long after a probe that did not pass."""


class Cause(StrEnum):
    """Why a probe begins."""

    ASKED = "asked"
    GATE = "gate"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class Want:
    """What is asked of one cluster now."""

    request: str = ""
    """A request that was not dealt with; "" for none."""
    waits: bool = False
    """It takes no work until it has passed a probe, and is ready by its own status."""
    every_s: float = 0.0
    """Seconds between two probes; 0: no schedule."""


def due(want: Want, last: Mapping[str, Any], now_s: float) -> tuple[Cause | None, float]:
    """Why a probe is due now, else None and the seconds until one is; infinity when none will be.
    `last`: `status.probe`."""
    if want.request:
        return Cause.ASKED, 0.0
    text = raw.text(last, "finishedAt")
    finished_s = raw.epoch_s(text) if text else -math.inf
    waits: dict[Cause, float] = {}
    if want.waits:
        waits[Cause.GATE] = finished_s + RETRY_S - now_s
    if want.every_s:
        waits[Cause.SCHEDULE] = finished_s + want.every_s - now_s
    if not waits:
        return None, math.inf
    cause, left_s = min(waits.items(), key=lambda entry: entry[1])
    return (cause, 0.0) if left_s <= 0 else (None, left_s)
