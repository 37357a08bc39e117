"""Slices that the hub has seen in a member, and that the member's last capacity report may not
include.

The two are watched apart: a report may include a later decision and not this one yet. Only a report
made when the member process had seen this very version of the slice includes it. A slice that was
taken for included too early would have its room given away twice.
"""

from dataclasses import dataclass

from federator.hub.members.capacity_report import CapacityReport
from federator.hub.members.member import Member
from federator.hub.records.slices import SliceSeen
from federator.kube.store import version_number
from federator.model.names import ClusterName
from federator.placement.room.commitments import Commitments


@dataclass(frozen=True, slots=True)
class _Sight:
    """A slice in flight, as the hub first saw it with this seq."""

    kind: str
    version: int


class Arriving:
    """Confirms slices in flight as reports turn out to include them."""

    def __init__(self, commitments: Commitments) -> None:
        self._commitments = commitments
        self._sights: dict[ClusterName, dict[tuple[str, int], _Sight]] = {}
        """Member -> (uid of the workload, seq) -> what no report includes yet."""

    def seen(self, member: Member, slice_seen: SliceSeen) -> None:
        """The hub has seen this slice in the member, by its watch or its own write."""
        mark, name = slice_seen.mark, member.name
        if mark is None or not self._commitments.is_in_flight(name, mark.workload_uid, mark.seq):
            return
        sight = _Sight(slice_seen.key.kind, version_number(slice_seen.resource_version))
        report = member.report
        if report is not None and _tells_of(report, sight) and _includes(report, sight):
            self._commitments.confirm(name, mark.workload_uid, mark.seq)  # it was heard of late
            self._commitments.reported(name, report.capacity.includes_seq)
            return
        # the first sight counts: a status that is written later makes a new version of the slice
        self._sights.setdefault(name, {}).setdefault((mark.workload_uid, mark.seq), sight)

    def reported(self, member: Member) -> None:
        """The member has a new report."""
        report, sights = member.report, self._sights.get(member.name, {})
        if report is None:
            return
        for place in [place for place, sight in sights.items() if _includes(report, sight)]:
            del sights[place]
            self._commitments.confirm(member.name, *place)
        self._commitments.reported(member.name, report.capacity.includes_seq)

    def forget(self, member: Member) -> None:
        """What was seen there is of another history, or the member has left."""
        self._sights.pop(member.name, None)


def _includes(report: CapacityReport, sight: _Sight) -> bool:
    """Whether a report that came after this sight was made when the member process had seen the
    slice; assumed of one that does not tell."""
    return not _tells_of(report, sight) or sight.version <= report.slice_versions[sight.kind]


def _tells_of(report: CapacityReport, sight: _Sight) -> bool:
    """Older member processes do not say what they had seen, and versions may be no numbers."""
    return sight.kind in report.slice_versions and sight.version >= 0
