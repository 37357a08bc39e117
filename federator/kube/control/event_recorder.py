"""Events on users' objects: one object per thing told, repeats counted in it, talkative objects
slowed down (F68).

Used by the applier for `EmitEvent` steps. Losing an Event is harmless; it never fails a turn.
"""

import collections
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.model import plaintext
from federator.model.steps import EmitEvent, ObjectRef

API_VERSION = "events.k8s.io/v1"
SERIES_S = 360.0
"""The same thing told again within this many seconds is counted in the Event that told it first."""
BURST = 10.0
"""An object may have so many new Events at once, then one per `REFILL_S` seconds."""
REFILL_S = 60.0
NOTE_MAX = 1024
"""Longest note that an API server takes, in bytes."""
REASON_MAX = 128
_REMEMBERED = 4096


@dataclass(slots=True)
class _Series:
    name: str
    count: int
    told_at: float


@dataclass(slots=True)
class _Allowance:
    left: float
    at: float


class EventRecorder:
    """Writes Events to one API server. `component` is the reporting controller, `instance` this
    process."""

    def __init__(
        self, client: Client, *, clock: Clock, component: str = "federator", instance: str = ""
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = f"federation.pinterest.com/{component}"
        self._instance = instance or component
        self._series: collections.OrderedDict[tuple[str, ...], _Series] = collections.OrderedDict()
        self._allowances: collections.OrderedDict[str, _Allowance] = collections.OrderedDict()
        self.dropped = 0
        """Events that were not written because their object had too many."""

    async def record(self, step: EmitEvent) -> dict[str, Any] | None:
        """Writes the Event, or counts it in the one that is there; None when it was dropped. Raises
        ApiErrors."""
        now = self._clock.now()
        same = (
            step.uid,
            step.regarding.namespace,
            step.regarding.name,
            step.reason,
            step.note,
            step.action,
        )
        series = self._series.get(same)
        if series is not None and now - series.told_at < SERIES_S:
            series.count += 1
            series.told_at = now
            self._series.move_to_end(same)
            try:
                return await self._count(step, series)
            except errors.NotFound:
                del self._series[same]  # the server forgets Events after an hour or so
        if not self._allowed(step.uid or f"{step.regarding.namespace}/{step.regarding.name}", now):
            self.dropped += 1
            return None
        return await self._create(step, same, now)

    async def _create(self, step: EmitEvent, same: tuple[str, ...], now: float) -> dict[str, Any]:
        stamp = self._clock.rfc3339_micro()
        name = _name(step, same, stamp)
        self._series[same] = _Series(name, 1, now)
        if len(self._series) > _REMEMBERED:
            self._series.popitem(last=False)
        return await self._client.create(self._ref(step, name), self._body(step, name, stamp))

    async def _count(self, step: EmitEvent, series: _Series) -> dict[str, Any]:
        patch = {"series": {"count": series.count, "lastObservedTime": self._clock.rfc3339_micro()}}
        return await self._client.patch(self._ref(step, series.name), patch)

    def _body(self, step: EmitEvent, name: str, stamp: str) -> Mapping[str, Any]:
        about = step.regarding
        regarding = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "uid": step.uid,
        }
        if about.namespace:
            regarding["namespace"] = about.namespace
        return {
            "apiVersion": API_VERSION,
            "kind": "Event",
            "metadata": {"name": name, "namespace": _namespace(step)},
            "eventTime": stamp,
            "reportingController": self._component,
            "reportingInstance": self._instance[:128],
            "action": step.action[:128],
            "reason": step.reason[:REASON_MAX],
            "note": _cut(plaintext.visible(step.note), NOTE_MAX),
            "type": "Warning" if step.warning else "Normal",
            "regarding": regarding,
        }

    def _ref(self, step: EmitEvent, name: str) -> ObjectRef:
        return ObjectRef(API_VERSION, "events", _namespace(step), name, "Event")

    def _allowed(self, about: str, now: float) -> bool:
        allowance = self._allowances.get(about)
        if allowance is None:
            allowance = self._allowances[about] = _Allowance(BURST, now)
            if len(self._allowances) > _REMEMBERED:
                self._allowances.popitem(last=False)
        allowance.left = min(BURST, allowance.left + (now - allowance.at) / REFILL_S)
        allowance.at = now
        if allowance.left < 1.0:
            return False
        allowance.left -= 1.0
        return True


def _namespace(step: EmitEvent) -> str:
    """Events about cluster-scoped objects live in `default`; an API server takes them nowhere
    else."""
    return step.regarding.namespace or "default"


def _name(step: EmitEvent, same: tuple[str, ...], stamp: str) -> str:
    digest = hashlib.sha256("\0".join((*same, stamp)).encode()).hexdigest()[:16]
    return f"{step.regarding.name[:200].rstrip('.-')}.{digest}"


def _cut(text: str, most: int) -> str:
    """`text` in at most `most` bytes of UTF-8, cut between characters."""
    data = text.encode()
    return text if len(data) <= most else data[: most - 3].decode(errors="ignore") + "..."
