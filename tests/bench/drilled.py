"""E9: the N-1 sweep, as `federator drill` asks for it.

100,000 workloads, each in one of a hundred clusters whose members have reported them: a thousand
kinds of asks, 30 % spread over zones, three tiers. Each cluster in turn is lost, and everything in
it is given another place, on a copy of what all hold, on all processors. The figure is workloads
per second over the whole sweep.
"""

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace

from federator.model.ask import Ask, PodShape, Tier, Unit
from federator.model.decision import Share
from federator.model.fleet import ClusterView, Commitment, FleetSnapshot, Holding
from federator.model.kubernetes import quantity
from federator.model.names import WorkloadKey
from federator.model.policy import Division, Policy, SpreadRule, Strategy
from federator.placement.room.commitments import Commitments
from federator.process import forking, malloc
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import DrillResult, Loss
from federator.scheduling.entry import Entry, Standing
from tests.bench import engine
from tests.bench.harness import Result

CLUSTERS = 100
WORKLOADS = 100_000
CLASSES = 1000
A_MINUTE = 300


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    malloc.collect_rarely()  # as the hub does when it starts
    if "E9" in wanted:
        yield _sweep(max(CLUSTERS, round(WORKLOADS * scale)))


def _sweep(count: int) -> Result:
    clusters = {name: _reported(view, count) for name, view in engine.fleet(CLUSTERS).items()}
    snapshot = FleetSnapshot(as_of=0.0, clusters=clusters)
    names = sorted(snapshot.clusters)
    entries: dict[WorkloadKey, Entry] = {}
    held: dict[str, list[Entry]] = {name: [] for name in names}
    commitments = Commitments()
    for index in range(count):
        ask, cluster = _ask(index), names[index % CLUSTERS]
        share = Share(cluster, ask.count, ask.count, index + 1)
        commitments.record(Commitment.of(ask, (share,)))
        holding = Holding(cluster, ask.count, ask.count, index + 1)
        entry = Entry(ask=ask, standing=Standing(held=(holding,)))
        entries[ask.key] = entry
        held[cluster].append(entry)
    for name in names:
        commitments.reported(name, count)  # their reports include it all

    def outcome(loss: Loss) -> DrillResult:
        return _outcome(loss, held, snapshot, commitments, entries)

    begun = time.perf_counter()
    processes = forking.processors()
    outcomes = list(forking.each(outcome, drill.losses(snapshot), processes=processes))
    took = time.perf_counter() - begun
    looked_at = sum(one.workloads for one in outcomes)
    notes = {
        "workloads": looked_at,
        "sweep_s": round(took, 2),
        "processes": processes,
        "copies without a place": sum(one.missing(tier) for one in outcomes for tier in Tier),
    }
    return Result("E9", ours=looked_at / took, notes=notes)


def _reported(view: ClusterView, seq: int) -> ClusterView:
    """The cluster as its member has counted everything up to this decision."""
    assert view.capacity is not None
    return replace(view, capacity=replace(view.capacity, includes_seq=seq))


def _outcome(
    loss: Loss,
    held: dict[str, list[Entry]],
    snapshot: FleetSnapshot,
    standing: Commitments,
    entries: dict[WorkloadKey, Entry],
) -> DrillResult:
    """As `advice.drills.of_one` asks, of entries that are at hand."""
    tally, numbers = drill.Tally(loss), itertools.count(len(entries) + 1)
    ordered = drill.in_order(entry for name in loss.clusters for entry in held[name])
    rehearsed = evacuation.rehearse(
        ordered, snapshot, standing.copy(), loss.clusters, numbers.__next__, others=entries.get
    )
    tally.add(rehearsed, {entry.key: entry.ask.tier for entry in ordered})
    return tally.outcome(A_MINUTE)


def _ask(index: int) -> Ask:
    """One of a thousand kinds, with one to three copies."""
    kind = index * 7 % CLASSES
    zones = SpreadRule(topology_key="zone", min_domains=2, max_skew=0, hard=False)
    requests = quantity.vector(
        {"cpu": f"{100 + 50 * (kind % 20)}m", "memory": f"{256 + 64 * (kind % 16)}Mi"}
    )
    return Ask(
        key=WorkloadKey("PinterestService", f"n{kind % 20}", f"w{index}"),
        uid=f"00000000-0000-4000-8000-{index:012d}",
        generation=1,
        unit=Unit.REPLICAS,
        count=1 + kind % 3,
        slots=1 + kind % 3,
        shape=PodShape(requests=requests),
        project=f"n{kind % 20}",
        tier=tuple(Tier)[kind % 3],
        policy=Policy(
            name="p",
            division=Division(strategy=Strategy.CAPACITY),
            spread=(zones,) if kind % 10 < 3 else (),
        ),
    )
