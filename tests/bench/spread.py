"""E0: one decision of 1,000,000 copies over 100 clusters with a hard rule over zones and a soft one
over regions.

Both bind: zones may differ by 100 copies although rooms differ fivefold, and the regions have
different numbers of zones. The figure is decisions per second by the processor time of the median,
so that it scales with the machine.
"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from federator.model.decision import Decision
from federator.model.policy import SpreadRule
from federator.placement import engine
from federator.placement.room.commitments import Commitments
from tests.bench.harness import Result
from tests.unit.placement.fleets import cluster, fleet, service

COPIES = 1_000_000
CLUSTERS = 100
RULES = (SpreadRule("zone", 3, 100, hard=True), SpreadRule("region", 1, 1_000))
ROUNDS = 7


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    if "E0" in wanted:
        yield _run(scale)


def _run(scale: float) -> Result:
    zones = [index * index % 10 for index in range(CLUSTERS)]
    snapshot = fleet(
        *(
            cluster(
                f"c{index:03d}",
                5_000 + 7_919 * index % 35_000,
                labels={"zone": f"z{zone}", "region": f"r{zone % 3}"},
            )
            for index, zone in enumerate(zones)
        )
    )
    ask = service(max(int(COPIES * scale), 1))
    ask = replace(ask, policy=replace(ask.policy, spread=RULES))
    took: list[float] = []
    decision: Decision | None = None
    for seq in range(ROUNDS):
        ledger = Commitments().open(snapshot)
        ledger.room("c000", ask.shape)
        begun = time.process_time()
        decision = engine.decide(ask, (), snapshot, ledger, seq=seq + 1)
        took.append(time.process_time() - begun)
    spent = statistics.median(took)
    missing = decision.shortfall if decision else ask.count
    return Result("E0", ours=1 / spent, notes={"ms": round(1000 * spent, 1), "missing": missing})
