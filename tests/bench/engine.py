"""E1 to E3: online decisions per second by the placing core alone, at 10, 100 and 1,000 clusters.

A thousand asks differ in size and count, 30 % are spread over zones, 20 % belong to projects whose
FederatedQuota does not admit all of them, 10 % are gangs that go to one cluster as a whole. Nodes
have eight shapes per cluster. Every decision is charged and encoded, as placing does it; after a
thousand a new cycle begins. The figure is decisions per second of processor time, so that it scales
with the machine.
"""

import time
from collections.abc import Iterator

import msgspec

from federator.api.placement import placementdecision
from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, PodShape, Tier, Unit
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, NodeRow
from federator.model.kubernetes import quantity
from federator.model.names import WorkloadKey
from federator.model.policy import Division, Policy, SpreadRule, Strategy
from federator.placement import engine
from federator.placement.room.commitments import Commitments
from federator.process import malloc
from tests.bench.harness import Result

SIZES = {"E1": 10, "E2": 100, "E3": 1000}
SECONDS = 6.0
ASKS = 1000
SHAPES = (("16", "64Gi"), ("32", "128Gi"), ("48", "192Gi"), ("64", "256Gi"))


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    malloc.collect_rarely()  # as the hub does when it starts
    for row, clusters in SIZES.items():
        if row in wanted:
            yield _run(row, clusters, SECONDS * min(1.0, scale))


def _run(row: str, clusters: int, seconds: float) -> Result:
    snapshot = FleetSnapshot(as_of=0.0, clusters=fleet(clusters), quotas=_quotas())
    asks = [ask_of(index) for index in range(ASKS)]
    commitments = Commitments()
    ledger = commitments.open(snapshot)
    decided, spent, begun = 0, 0, time.process_time()
    while time.process_time() - begun < seconds:
        if decided % ASKS == 0:
            ledger = commitments.open(snapshot)
        ask = asks[decided % ASKS]
        decision = engine.decide(ask, (), snapshot, ledger, seq=decided + 1)
        spent += len(
            msgspec.json.encode(placementdecision.to_spec(decision, ("created",), ask, ()))
        )
        decided += 1
    took = time.process_time() - begun
    return Result(
        row, ours=decided / took, notes={"clusters": clusters, "bytes_each": round(spent / decided)}
    )


def fleet(count: int) -> dict[str, ClusterView]:
    views = {}
    for index in range(count):
        rows = tuple(_rows(*SHAPES[(index + turn) % len(SHAPES)]) for turn in range(4))
        name = f"c{index:04d}"
        views[name] = ClusterView(
            name=name,
            labels={"zone": f"z{index % 6}", "region": f"r{index % 3}"},
            apis=frozenset({"PinterestService.pinterest.com", "PinterestJobSet.pinterest.com"}),
            ready=True,
            capacity=Capacity(rows=tuple(one for pair in rows for one in pair)),
        )
    return views


def _rows(cpu: str, memory: str) -> tuple[NodeRow, NodeRow]:
    """Half of the machines are half full."""
    whole = quantity.vector({"cpu": cpu, "memory": memory, "pods": "110"})
    half = quantity.vector(
        {"cpu": str(int(cpu) // 2), "memory": f"{int(memory[:-2]) // 2}Gi", "pods": "60"}
    )
    return NodeRow(count=20, allocatable=whole, free=whole), NodeRow(
        count=20, allocatable=whole, free=half
    )


def _quotas() -> tuple[QuotaAccount, ...]:
    """Four projects have about 60 % of the cpu that they ask for in a cycle; others are free."""
    return tuple(
        QuotaAccount(
            f"q{project}",
            projects=frozenset({f"n{project}"}),
            tiers={Tier.ON_DEMAND: TierQuota(maximum=quantity.vector({"cpu": cpu}))},
            unknown_projects=True,
        )
        for project, cpu in ((1, "70"), (6, "190"), (11, "300"), (16, "420"))
    )


def ask_of(index: int) -> Ask:
    """Of every ten: three are spread over zones, one is a gang; of every five one has a quota."""
    turn, gang = index % 10, index % 10 == 9
    zones = SpreadRule(topology_key="zone", min_domains=2, max_skew=0, hard=False)
    policy = Policy(
        name="gangs" if gang else "p",
        division=Division(strategy=Strategy.CAPACITY, max_clusters=1 if gang else None),
        spread=(zones,) if turn in {0, 3, 7} else (),
        require_all=gang,
    )
    requests = quantity.vector(
        {"cpu": f"{100 + 50 * (index % 20)}m", "memory": f"{256 + 64 * (index % 16)}Mi"}
    )
    return Ask(
        key=WorkloadKey("PinterestJobSet" if gang else "PinterestService", "n", f"w{index}"),
        uid=f"00000000-0000-4000-8000-{index:012d}",
        generation=1,
        unit=Unit.SHARDS if gang else Unit.REPLICAS,
        count=1 + index % 30,
        slots=1 + index % 30,
        shape=PodShape(requests=requests),
        project=f"n{index % 20}",
        policy=policy,
        whole=gang,
    )
