"""Drift of slices: a slice that was exactly as decided, was changed or deleted by somebody else in
the member, and was restored (F45). Reported on the workload.

A wish is what a slice is made from. A write for the wish that was already in place undoes somebody
else's change; moved shares, rollouts and new profiles are other wishes. Nothing is known of the
time before this process started, so differences that another hub version wrote are not drift.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from federator.hub.host.events import Events
from federator.hub.members.member import Member
from federator.hub.records.workloads import Workload
from federator.model.decision import Share
from federator.model.names import WorkloadKey
from federator.model.observation import RESTORED

FIELDS_MAX: Final = 10
"""More fields than this are counted, not named."""
_PARTS: Final = ("metadata", "spec")


class Drift:
    """Records what was in place, and reports what was restored."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def in_place(
        self, member: Member, workload: Workload, share: Share | None, pins: tuple[str, ...]
    ) -> None:
        """The slice is exactly what this share, content and profile make."""
        if share is not None:
            member.writes.observe_in_place(workload.key, _wish(workload, share, pins))

    def undoes(
        self, member: Member, workload: Workload, share: Share | None, pins: tuple[str, ...]
    ) -> bool:
        """Whether a write for this wish, about to begin, undoes somebody else's change. A new wish
        replaces the recorded one; going back to it later is a new wish as well."""
        wish = _wish(workload, share, pins) if share is not None else None
        if wish is not None and member.writes.in_place.get(workload.key) == wish:
            return True
        member.writes.forget_in_place(workload.key)
        return False

    def tell(self, member: Member, workload: Workload, fields: Sequence[str]) -> None:
        """Reports a write that undid a change of these fields, or the deletion of the slice when
        there are none: at most every ten minutes per cluster."""
        if self._events.repeats(workload.uid, f"{RESTORED} {member.name}"):
            return
        what = (
            f"was changed there ({_named(fields)}) and put back"
            if fields
            else "was deleted there and made anew"
        )
        self._tell(member, workload, f"its slice {what}")

    def heard(
        self, member: Member, key: WorkloadKey, workload: Workload | None, *, report: bool
    ) -> None:
        """A slice was read: reports what the member process has restored since. `report` is False
        for the first list, which the former hub may have reported."""
        seen = member.contents.slice_of(key)
        text = seen.observation.drift if seen is not None else ""
        if text == member.writes.put_back.get(key, ""):
            return
        member.writes.observe_put_back(key, "")
        if (
            not text
            or workload is None
            or seen is None
            or seen.mark is None
            or seen.mark.workload_uid != workload.uid
        ):
            return
        member.writes.observe_put_back(key, text)
        if report and not self._events.repeats(workload.uid, f"{RESTORED} natives {member.name}"):
            self._tell(member, workload, text.rstrip("."))

    def _tell(self, member: Member, workload: Workload, what: str) -> None:
        note = f"{member.name}: {what}; edit the workload on the host instead"
        self._events.tell(
            workload.key, workload.uid, RESTORED, note, action="Restore", warning=True
        )


def fields_of(patch: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that a merge patch changes, two levels deep: spec.replicas, metadata.labels."""
    return tuple(sorted(_fields(patch)))


def _fields(patch: Mapping[str, Any]) -> Iterator[str]:
    for name, part in patch.items():
        if name in _PARTS and isinstance(part, Mapping):
            yield from (f"{name}.{below}" for below in part)
        else:
            yield name


def _named(fields: Sequence[str]) -> str:
    more = f" and {len(fields) - FIELDS_MAX} more" if len(fields) > FIELDS_MAX else ""
    return ", ".join(fields[:FIELDS_MAX]) + more


def _wish(workload: Workload, share: Share, pins: tuple[str, ...]) -> int:
    """A number for all that a slice is made from: one is kept of each slice of the fleet, and what
    would depend on two wishes with one number is a line in the Events."""
    return hash((workload.uid, workload.content, pins, share))
