"""What a rebalance would move: of a federation or of files, for its dry run and its bound."""

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from federator.hub.placing.offline import Situation
from federator.model.fleet import copies_of
from federator.model.names import WorkloadKey
from federator.scheduling import drill, evacuation
from federator.scheduling.entry import Entry


@dataclass(frozen=True, slots=True)
class Planned:
    """What one workload would move."""

    key: WorkloadKey
    before: Mapping[str, int]
    """Cluster -> copies that its decision gives it."""
    after: Mapping[str, int]
    left_out: str = ""
    """Why it is not asked to, as a part of a sentence; "" when it is."""

    @property
    def surplus(self) -> int:
        """Copies beyond its count, which go without replacement."""
        return max(sum(self.before.values()) - sum(self.after.values()), 0)

    @property
    def moves(self) -> int:
        """Copies that leave a cluster and come up in another."""
        leave = sum(
            max(copies - self.after.get(name, 0), 0) for name, copies in self.before.items()
        )
        return leave - self.surplus

    @property
    def changes(self) -> list[tuple[str, int, int]]:
        """(cluster, copies now, copies then) where they differ."""
        names = sorted({*self.before, *self.after})
        rows = [(name, self.before.get(name, 0), self.after.get(name, 0)) for name in names]
        return [row for row in rows if row[1] != row[2]]


def plan(
    situation: Situation, keys: Collection[WorkloadKey], most: int | None = None
) -> list[Planned]:
    """One entry for each of these workloads that has a decision, in the order of an evacuation.
    Each is decided next to those before it. `most`: copies that may move in all. A workload that
    would move more than remains of it is left out, and stays as it is for the workloads after
    it."""
    numbers = itertools.count(
        max((record.seq for record in situation.records.values()), default=0) + 1
    )
    commitments, left = situation.commitments.copy(), most
    planned: list[Planned] = []
    for entry in drill.in_order(_entries(situation, keys)):
        rehearsed = evacuation.rehearse(
            [entry], situation.snapshot, commitments, (), numbers.__next__
        )
        decision, record = rehearsed[0].decision, situation.records[entry.key]
        before = {share.cluster: copies_of(share) for share in record.shares}
        if decision is None:
            planned.append(Planned(entry.key, before, before, rehearsed[0].why))
            continue
        move = Planned(
            entry.key, before, {share.cluster: copies_of(share) for share in decision.shares}
        )
        if left is not None and move.moves > left:
            if (present := record.commitment(entry.ask)) is not None:
                commitments.record(present)
            why = f"{move.moves} to move are more than the {left} that still may"
            planned.append(replace(move, left_out=why))
            continue
        left = left - move.moves if left is not None else None
        planned.append(move)
    return planned


def _entries(situation: Situation, keys: Collection[WorkloadKey]) -> list[Entry]:
    entries = []
    for key in keys:
        workload = situation.workloads.get(key)
        ask = situation.ask_of(workload) if workload is not None else None
        if workload is None or ask is None or key not in situation.records:
            continue
        entry = situation.entry(workload, ask, situation.snapshot)
        recorded = entry.standing.recorded
        if recorded is None:
            continue
        asked = replace(entry.standing, recorded=replace(recorded, rebalance=True))
        entries.append(replace(entry, standing=asked))
    return entries
