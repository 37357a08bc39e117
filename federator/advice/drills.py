"""Where everything would go if clusters were empty, of a federation or of files: for a drain's dry
run, and for a drill, which loses each cluster or each zone in turn.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from federator.hub.placing.offline import Situation
from federator.hub.snapshot.world import StateCopy
from federator.kube.clock import RealClock
from federator.kube.threads import Stop
from federator.model.names import WorkloadKey, is_probe
from federator.placement.selection import filters
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import DrillResult, Loss
from federator.scheduling.entry import Entry
from federator.scheduling.evacuation import Rehearsed

ANSWER_S: Final = 2.0
"""Seconds of processor time that one answer of the snapshot worker may take."""
PART: Final = 256
"""Workloads between two looks at that time."""
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
    """What the first of these losses would come to, as many as its time suffices for, in the
    snapshot worker. `native`: kinds that the host runs itself."""
    time = RealClock().processor
    until_s = time() + ANSWER_S

    def late() -> bool:
        return time() >= until_s

    situation = world.situation(native)
    wanted = frozenset(name for loss in losses for name in loss.clusters)
    held: dict[str, list[WorkloadKey]] = {}
    for key, record in situation.records.items():
        for name in wanted.intersection(record.clusters):
            held.setdefault(name, []).append(key)
    outcomes: list[DrillResult] = []
    for loss in losses:
        keys = {key for name in loss.clusters for key in held.get(name, ())}
        outcome = _in_time(situation, loss, keys, a_minute, late)
        if outcome is None:
            break
        outcomes.append(outcome)
    return outcomes


def _in_time(
    situation: Situation,
    loss: Loss,
    keys: Iterable[WorkloadKey],
    a_minute: int,
    late: Callable[[], bool],
) -> DrillResult | None:
    """What a loss would come to; None if that takes too long. A part that is computed is lost then:
    a later answer cannot go on with it, because the world will have changed."""
    left, entries = iter(keys), list[Entry]()
    while some := list(itertools.islice(left, PART)):
        if late():
            return None
        entries += _entries(situation, some)
    tally, ordered = drill.Tally(loss), iter(drill.in_order(entries))
    rehearse_some = _rehearsing(situation, loss.clusters) if entries else None
    while rehearse_some is not None and (part := list(itertools.islice(ordered, PART))):
        if late():
            return None
        tally.add(rehearse_some(part), {entry.key: entry.ask.tier for entry in part})
    return tally.outcome(a_minute)


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
    return _rehearsing(situation, clusters)(entries)


def _rehearsing(
    situation: Situation, clusters: Collection[str]
) -> Callable[[Sequence[Entry]], list[Rehearsed]]:
    """A function that says the same of some entries after others. Each call decides above what
    those before it were given."""
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
    supposed = [name for name in clusters if name in views and not views[name].draining]

    def rehearse_some(entries: Sequence[Entry]) -> list[Rehearsed]:
        rehearsed = evacuation.rehearse(
            entries, snapshot, commitments, clusters, numbers.__next__, others=other
        )
        return [replace(each, why=_supposing(each.why, supposed)) for each in rehearsed]

    return rehearse_some


def _supposing(why: str, clusters: Iterable[str]) -> str:
    """The reason without a drain that nobody has asked for."""
    for name in clusters:
        why = why.replace(f"cluster {name} {filters.DRAINED}", f"cluster {name} would be empty")
    return why
