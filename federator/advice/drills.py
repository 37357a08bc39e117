"""Where everything would go if clusters were empty, of a federation or of files: for a drain's dry
run, and for a drill, which loses each cluster or each zone in turn.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from federator.hub.placing.offline import Situation
from federator.hub.snapshot.world import StateCopy
from federator.kube.threads import Stop
from federator.model.names import WorkloadKey, is_probe
from federator.placement.selection import filters
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import DrillResult, Loss
from federator.scheduling.entry import Entry
from federator.scheduling.evacuation import Rehearsed

Each = Callable[[Callable[[Loss], DrillResult], Sequence[Loss]], Iterable[DrillResult]]
"""Does a task for each loss; the outcomes come in the order of the losses."""


def of_all(
    situation: Situation, by: str, a_minute: int, each: Each = map, *, together: int = 1
) -> list[DrillResult]:
    """One outcome for every loss. `by`: a label of clusters; "" for each cluster by itself.
    `together`: so many are lost at once."""
    held = _by_cluster(situation)

    def of_one(loss: Loss) -> DrillResult:
        there = {entry.key: entry for name in loss.clusters for entry in held.get(name, ())}
        return _of_one(situation, loss, drill.in_order(there.values()), a_minute)

    return list(each(of_one, drill.losses(situation.snapshot, by, together)))


def in_world(
    world: StateCopy, losses: Sequence[Loss], native: frozenset[str], a_minute: int, _: Stop
) -> list[DrillResult]:
    """What each of these losses would come to, in the snapshot worker. `native`: kinds that the
    host runs itself."""
    situation = world.situation(native)
    wanted = frozenset(name for loss in losses for name in loss.clusters)
    held: dict[str, list[WorkloadKey]] = {}
    for key, record in situation.records.items():
        for name in wanted.intersection(record.clusters):
            held.setdefault(name, []).append(key)

    def of_one(loss: Loss) -> DrillResult:
        keys = {key for name in loss.clusters for key in held.get(name, ())}
        return _of_one(situation, loss, _entries(situation, keys), a_minute)

    return list(map(of_one, losses))


def _of_one(
    situation: Situation, loss: Loss, entries: Sequence[Entry], a_minute: int
) -> DrillResult:
    """What one loss would come to. Clusters that are being emptied take nothing."""
    tally = drill.Tally(loss)
    if entries:
        tiers = {entry.key: entry.ask.tier for entry in entries}
        tally.add(rehearse(situation, entries, loss.clusters), tiers)
    return tally.outcome(a_minute)


def _by_cluster(situation: Situation) -> dict[str, list[Entry]]:
    """Cluster -> the workloads with anything there."""
    held: dict[str, list[Entry]] = {}
    for key, record in situation.records.items():
        workload = situation.workloads[key]
        ask = situation.ask_of(workload)
        if ask is None or ask.suspended or workload.deleting or not record.clusters:
            continue
        if is_probe(key):
            continue
        entry = situation.entry(workload, ask, situation.snapshot)
        for name in record.clusters:
            held.setdefault(name, []).append(entry)
    return held


def holders(situation: Situation, clusters: Collection[str]) -> list[Entry]:
    """The workloads with anything in these clusters, in the order of an evacuation."""
    names, records = frozenset(clusters), situation.records.items()
    return _entries(
        situation, (key for key, record in records if not names.isdisjoint(record.clusters))
    )


def _entries(situation: Situation, keys: Iterable[WorkloadKey]) -> list[Entry]:
    """These of the workloads with a decision that may have another place, in that order."""
    entries = []
    for key in keys:
        if is_probe(key):
            continue
        workload = situation.workloads[key]
        ask = situation.ask_of(workload)
        if ask is not None and not ask.suspended and not workload.deleting:
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

    commitments, views = situation.commitments.copy(), situation.snapshot.clusters
    snapshot = situation.with_peers(situation.snapshot)
    rehearsed = evacuation.rehearse(
        entries, snapshot, commitments, clusters, numbers.__next__, others=other
    )
    supposed = [name for name in clusters if name in views and not views[name].draining]
    return [replace(each, why=_supposing(each.why, supposed)) for each in rehearsed]


def _supposing(why: str, clusters: Iterable[str]) -> str:
    """The reason without a drain that nobody has asked for."""
    for name in clusters:
        why = why.replace(f"cluster {name} {filters.DRAINED}", f"cluster {name} would be empty")
    return why
