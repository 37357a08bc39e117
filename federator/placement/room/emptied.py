"""The clusters of a fleet with all of their nodes free: what a workload could have at best."""

from dataclasses import replace

from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.rules.namespaces import NO_QUOTAS
from federator.placement.room.commitments import Commitments


class EmptyFleet:
    """Kept from one snapshot to the next: only clusters that changed are emptied again, and what
    the engine remembers of the others counts. For one thread."""

    def __init__(self) -> None:
        self.commitments = Commitments()
        """What nothing is charged to."""
        self._emptied: dict[str, tuple[ClusterView, ClusterView]] = {}
        """Cluster -> (as it is, emptied)."""

    def of(self, snapshot: FleetSnapshot) -> FleetSnapshot:
        """The same fleet, empty."""
        before = self._emptied
        self._emptied = {
            name: before[name]
            if name in before and before[name][0] is view
            else (view, _emptied(view))
            for name, view in snapshot.clusters.items()
        }
        clusters = {name: emptied for name, (_, emptied) in self._emptied.items()}
        return replace(snapshot, clusters=clusters)


def _emptied(view: ClusterView) -> ClusterView:
    if view.capacity is None:
        return view
    rows = tuple(replace(row, free=row.allocatable) for row in view.capacity.rows)
    capacity = replace(view.capacity, rows=rows, copies={}, waiting=(), quotas=NO_QUOTAS)
    return replace(view, capacity=capacity)
