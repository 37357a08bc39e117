"""The table of faults: every row of every file of this folder, by name, in the order of their
numbers."""

from collections.abc import Mapping

from tests.faults import answers, requests, watches
from tests.faults.episodes import (
    admission,
    clusters,
    deletions,
    floods,
    histories,
    leases,
    objects,
    partitions,
    processes,
    rooms,
    timing,
)
from tests.faults.rows import Episode, Fault, RequestFault


def _number(row: Fault) -> tuple[int, str]:
    return int(row.number.removeprefix("F")), row.name


_ROWS: tuple[Fault, ...] = (
    *requests.ROWS,
    *watches.ROWS,
    *partitions.ROWS,
    *objects.ROWS,
    *processes.ROWS,
    *leases.ROWS,
    *timing.ROWS,
    *clusters.ROWS,
    *deletions.ROWS,
    *histories.ROWS,
    *answers.ROWS,
    *admission.ROWS,
    *floods.ROWS,
    *rooms.ROWS,
)

FAULTS: Mapping[str, Fault] = {row.name: row for row in sorted(_ROWS, key=_number)}
REQUEST_FAULTS: Mapping[str, RequestFault] = {
    name: row for name, row in FAULTS.items() if isinstance(row, RequestFault)
}
EPISODES: Mapping[str, Episode] = {
    name: row for name, row in FAULTS.items() if isinstance(row, Episode)
}
ROOMS: frozenset[str] = frozenset(row.name for row in rooms.ROWS)
"""Episodes after which a member's scheduler cannot bind what it was given."""
SLOW_HOST = "slow-host"
"""The episode in which what hubs ask of the host, renewals of their Lease too, takes a while."""
MEMBER_DOWN = "member-process-down"
"""The episode in which a member's objects are not reported, though its API server answers."""
STATUSES = "statuses-refused"
"""The episode in which what job sets have done cannot be recorded."""
SHORTAGE = "hub-short-of-descriptors"
"""The episode in which hubs have no descriptors for connections to members."""
