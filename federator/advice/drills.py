"""What the loss of each cluster, or of each zone, would come to, of a federation or of files."""

import itertools

from federator.hub.offline import Situation
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import Loss, Outcome
from federator.scheduling.entry import Entry


def of_all(situation: Situation, by: str, a_minute: int) -> list[Outcome]:
    """One outcome for every loss. `by`: a label of clusters; "" for each cluster by itself."""
    return [of_one(situation, loss, a_minute) for loss in drill.losses(situation.snapshot, by)]


def of_one(situation: Situation, loss: Loss, a_minute: int) -> Outcome:
    """What one loss would come to. Clusters that are being emptied take nothing."""
    entries = drill.in_order(_entries(situation, frozenset(loss.clusters)))
    numbers = itertools.count(
        max((record.seq for record in situation.records.values()), default=0) + 1
    )
    rehearsed = evacuation.rehearse(
        entries,
        situation.snapshot,
        situation.commitments.copy(),
        loss.clusters,
        numbers.__next__,
    )
    tiers = {entry.key: entry.ask.tier for entry in entries}
    return drill.outcome(loss, rehearsed, tiers, a_minute)


def _entries(situation: Situation, clusters: frozenset[str]) -> list[Entry]:
    entries = []
    for key, record in situation.records.items():
        workload = situation.workloads[key]
        ask = situation.ask_of(workload)
        if ask is None or ask.suspended or clusters.isdisjoint(record.clusters):
            continue
        entries.append(situation.entry(workload, ask, situation.snapshot))
    return entries
