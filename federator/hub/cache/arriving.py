"""Slices that the hub has seen come to a member, or go from it, while the member's last capacity
report may not include their pods.

The two are watched apart: a report may include a later decision and not this one yet. Only a report
made when the member process had seen this very version of the slice includes it. A slice that was
taken for included too early would have its room given away twice.

So would one that is gone before any report included it: its pods end after it, and only a report
made when the member process had seen its end counts those that do still. A slice that lived while
the member process did not look may never be reported of, so what is charged for it ends after a
while: by then a member process that speaks would have told of its pods.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from federator.hub.members.capacity_report import CapacityReport
from federator.hub.members.member import Member
from federator.hub.records.slices import SliceSeen
from federator.kube.store import version_number
from federator.model.names import ClusterName
from federator.placement.room.commitments import Commitments

TOLD_WITHIN_S: Final = 60.0
"""A member process tells of a new slice at once, of small changes within half of this."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """A slice in flight, as the hub first saw it with this seq; or that a slice is gone, with the
    version by which its member process has seen that too."""

    kind: str
    version: int


class Arriving:
    """Confirms slices in flight, and ends what is charged for those that are gone, as reports turn
    out to include them."""

    def __init__(self, commitments: Commitments) -> None:
        self._commitments = commitments
        self._sights: dict[ClusterName, dict[tuple[str, int], _Sight]] = {}
        """Member -> (uid of the workload, seq) -> what no report includes yet."""
        self._ends: dict[ClusterName, dict[str, tuple[_Sight, float]]] = {}
        """Member -> uid of the workload -> the end of its slice, which no report includes yet, and
        since when it is known here."""

    def seen(self, member: Member, slice_seen: SliceSeen) -> None:
        """The hub has seen this slice in the member, by its watch or its own write."""
        mark, name = slice_seen.mark, member.name
        if mark is None or not self._commitments.is_in_flight(name, mark.workload_uid, mark.seq):
            return
        sight = _Sight(slice_seen.key.kind, version_number(slice_seen.resource_version))
        report = member.contents.report
        if report is not None and _tells_of(report, sight) and _includes(report, sight):
            self._commitments.confirm(name, mark.workload_uid, mark.seq)  # it was heard of late
            self._commitments.reported(name, report.capacity.includes_seq)
            return
        # the first sight counts: a status that is written later makes a new version of the slice
        self._sights.setdefault(name, {}).setdefault((mark.workload_uid, mark.seq), sight)

    def gone(self, member: Member, kind: str, uid: str, now_s: float) -> None:
        """The slice of this workload is not in the member any more."""
        report, store = member.contents.report, member.contents.stores.get(kind)
        if report is None or store is None:
            return
        end = _Sight(kind, version_number(store.resource_version))
        if _tells_of(report, end) and _includes(report, end):
            return  # it was heard of late
        self._ends.setdefault(member.name, {})[uid] = (end, now_s)
        self._commitments.departs(member.name, uid, report.capacity.includes_seq)

    def heard(self, member: Member, now_s: float) -> bool:
        """The member answers. Returns whether less is charged there than before, because its member
        process has told nothing of what is gone for so long that there is nothing to tell."""
        if not (member.is_current and member.process.speaks):
            return False
        ends = self._ends.get(member.name, {})
        return self._ended(
            member.name, [uid for uid, (_, at_s) in ends.items() if now_s > at_s + TOLD_WITHIN_S]
        )

    def reported(self, member: Member) -> None:
        """The member has a new report."""
        report, sights = member.contents.report, self._sights.get(member.name, {})
        if report is None:
            return
        for place in [place for place, sight in sights.items() if _includes(report, sight)]:
            del sights[place]
            self._commitments.confirm(member.name, *place)
        ends = self._ends.get(member.name, {})
        self._ended(member.name, [uid for uid, (end, _) in ends.items() if _includes(report, end)])
        self._commitments.reported(member.name, report.capacity.includes_seq)

    def forget(self, member: Member) -> None:
        """What was seen there is of another history, or the member has left."""
        self._sights.pop(member.name, None)
        self._ended(member.name, list(self._ends.get(member.name, ())))

    def _ended(self, name: ClusterName, uids: Sequence[str]) -> bool:
        """Nothing is charged there any more for slices of these that are gone."""
        for uid in uids:
            del self._ends[name][uid]
        return self._commitments.departed(name, uids)


def _includes(report: CapacityReport, sight: _Sight) -> bool:
    """Whether a report that came after this sight was made when the member process had seen the
    slice; assumed of one that does not tell."""
    return not _tells_of(report, sight) or sight.version <= report.slice_versions[sight.kind]


def _tells_of(report: CapacityReport, sight: _Sight) -> bool:
    """Older member processes do not say what they had seen, and versions may be no numbers."""
    return sight.kind in report.slice_versions and sight.version >= 0
