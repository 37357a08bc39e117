"""RES: what one cycle spends on the reservations of wide work that waits (queueing: Backfilling).

A hundred clusters are full of jobs that say when they end, a hundred in each; 64 jobs, the most that
reserve in one cycle, wait for room in one cluster, and each looks for the one where it is there
first. The figure is such cycles per second of processor time, so that it scales with the machine;
gate: 200 ms.
"""

import statistics
import time
from collections.abc import Iterator
from typing import Final

from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask
from federator.model.fleet import Commitment, FleetSnapshot
from federator.model.policy import Division, Policy
from federator.placement.room.commitments import Commitments
from federator.scheduling.waiting.reservations import MOST, Reservations
from tests.bench.harness import Result
from tests.unit.placement.fleets import cluster, fleet, held, jobs

CLUSTERS: Final = 100
JOBS: Final = 100
"""In each cluster."""
SHARDS: Final = 8
ROUNDS: Final = 5
TOGETHER: Final = Policy(division=Division(max_clusters=1), require_all=True)
KEEPS: Final = QuotaAccount("all", projects=frozenset({"feed"}), backfills=True)


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    if "RES" in wanted:
        yield _run(max(int(JOBS * scale), 1))


def _run(each: int) -> Result:
    names = [f"c{index:03d}" for index in range(CLUSTERS)]
    snapshot = fleet(*(cluster(name, SHARDS * (each + 1)) for name in names), quotas=[KEEPS])
    commitments = _running(names, each, snapshot)
    waiting = [_wide(f"wide{index}", 40 + 13 * (index % 9), 3600) for index in range(MOST)]
    took: list[float] = []
    made = 0
    for _ in range(ROUNDS):
        kept = Reservations(waiting, (), commitments, commitments.open(snapshot))
        begun = time.process_time()
        for ask in kept.waiting:
            kept.reserve(ask, now=True)
        took.append(time.process_time() - begun)
        made = len(kept.made)
    spent = statistics.median(took)
    return Result("RES", ours=1 / spent, notes={"ms": round(1000 * spent), "reserved": made})


def _running(names: list[str], each: int, snapshot: FleetSnapshot) -> Commitments:
    commitments = Commitments()
    for at, name in enumerate(names):
        for index in range(each):
            ask = _wide(f"{name}-{index}", SHARDS, 600 + 37 * ((31 * at + 17 * index) % 997))
            given = held(**{name: SHARDS})
            commitments.record(
                Commitment(
                    ask.uid,
                    ask.key,
                    ask.project,
                    ask.key.namespace,
                    ask.tier,
                    ask.shape,
                    given,
                    run_s=ask.run_s,
                    began_s=snapshot.as_of,
                )
            )
    return commitments


def _wide(name: str, count: int, run_s: int) -> Ask:
    return jobs(count, count, name=name, policy=TOGETHER, run_s=run_s)
