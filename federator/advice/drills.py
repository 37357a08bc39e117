"""Where everything would go if clusters were empty, of a federation or of files: for a drain's dry
run, and for a drill, which loses each cluster or each zone in turn.
"""

import itertools
from collections.abc import Collection, Sequence

from federator.hub.offline import Situation
from federator.model.names import WorkloadKey
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import Loss, Outcome
from federator.scheduling.entry import Entry
from federator.scheduling.evacuation import Rehearsed


def of_all(situation: Situation, by: str, a_minute: int) -> list[Outcome]:
    """One outcome for every loss. `by`: a label of clusters; "" for each cluster by itself."""
    return [of_one(situation, loss, a_minute) for loss in drill.losses(situation.snapshot, by)]


def of_one(situation: Situation, loss: Loss, a_minute: int) -> Outcome:
    """What one loss would come to. Clusters that are being emptied take nothing."""
    entries = holders(situation, loss.clusters)
    tiers = {entry.key: entry.ask.tier for entry in entries}
    tally = drill.Tally(loss)
    tally.add(rehearse(situation, entries, loss.clusters), tiers)
    return tally.outcome(a_minute)


def holders(situation: Situation, clusters: Collection[str]) -> list[Entry]:
    """Who has anything in these clusters, in the order of an evacuation."""
    names, entries = frozenset(clusters), []
    for key, record in situation.records.items():
        workload = situation.workloads[key]
        ask = situation.ask_of(workload)
        if ask is None or ask.suspended or names.isdisjoint(record.clusters):
            continue
        entries.append(situation.entry(workload, ask, situation.snapshot))
    return drill.in_order(entries)


def rehearse(
    situation: Situation, entries: Sequence[Entry], clusters: Collection[str]
) -> list[Rehearsed]:
    """Where these would go if the clusters were empty. Nothing is charged to the situation."""
    numbers = itertools.count(
        max((record.seq for record in situation.records.values()), default=0) + 1
    )

    def other(key: WorkloadKey) -> Entry | None:
        workload = situation.workloads.get(key)
        ask = situation.ask_of(workload) if workload is not None else None
        if workload is None or ask is None:
            return None
        return situation.entry(workload, ask, situation.snapshot)

    commitments = situation.commitments.copy()
    return evacuation.rehearse(
        entries, situation.snapshot, commitments, clusters, numbers.__next__, others=other
    )
