"""What others give up for a workload stays for it until its own next turn, whoever is due first."""

import itertools

import pytest

from federator.model.ask import Ask, Tier
from federator.model.decision import Reason
from federator.model.fleet import (
    Commitment,
    FleetSnapshot,
    Preemption,
    QuotaAccount,
    Take,
    TierQuota,
)
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from tests.unit.placement.fleets import cluster, fleet, held, service


def account(name: str, cpus: int, **more: object) -> QuotaAccount:
    tiers = {Tier.ON_DEMAND: TierQuota(Resources({"cpu": cpus * 1000}))}
    projects = frozenset({name}) if more.get("parent") else frozenset()
    return QuotaAccount(name, projects=projects, tiers=tiers, generation=1, **more)  # type: ignore[arg-type]


ACCOUNTS = (
    account("studio", 20),
    account("clips", 10, parent="studio"),
    account("search", 5, parent="studio", preemption=Preemption(reclaim=Take.ANY)),
    account("maps", 5, parent="studio"),
)
ROOMY = fleet(cluster("a", 100), quotas=ACCOUNTS)


class Federation:
    """Cycles one after the other, each with the workloads that are due in it."""

    def __init__(self, *asks: Ask, snapshot: FleetSnapshot = ROOMY) -> None:
        self.asks = {ask.key: ask for ask in asks}
        self.queue, self.commitments = Queue(), Commitments()
        self.snapshot, self.numbers = snapshot, itertools.count(100)

    def entry(self, key: WorkloadKey) -> Entry:
        ask = self.asks[key]
        before = self.commitments.commitment(ask.uid)
        shares = before.holdings if before is not None else ()
        return Entry(ask=ask, standing=Standing(held=held(**{s.cluster: s.count for s in shares})))

    def turn(self, *due: Ask) -> Cycle:
        made = cycle.run(
            [self.entry(ask.key) for ask in due],
            self.queue,
            self.snapshot,
            self.commitments,
            seq=self.numbers.__next__,
            others=self.entry,
        )
        assert not made.failed
        for decided in made.decided:
            self.commitments.assume(decided.after)
        self.queue.settle(made.keys, made.inadmissible, made.kept, made.claims)
        return made

    def copies(self, ask: Ask) -> int:
        holds: Commitment | None = self.commitments.commitment(ask.uid)
        return holds.copies if holds is not None else 0


WEB = service(20, name="web", project="clips")
API = service(5, name="api", project="search")
TILES = service(8, name="tiles", project="maps")


@pytest.mark.parametrize("first", [WEB, TILES], ids=["who left", "who never had it"])
def test_who_is_due_before_the_winner_does_not_take_what_was_freed(first: Ask) -> None:
    federation = Federation(WEB, API, TILES)
    federation.turn(WEB)
    federation.turn(API)
    assert [federation.copies(ask) for ask in (WEB, API)] == [15, 0], (
        "room is taken when it is free"
    )

    made = federation.turn(first)

    assert federation.copies(first) == {WEB.key: 15, TILES.key: 0}[first.key]
    (decided,) = made.decided
    assert decided.decision.reason in (Reason.PREEMPTED, Reason.QUOTA_EXCEEDED)
    assert decided.decision.message, "it is told why"
    federation.turn(API)
    assert federation.copies(API) == 5


def test_nobody_leaves_a_second_time_for_a_claim() -> None:
    federation = Federation(WEB, API, TILES)
    federation.turn(WEB)
    federation.turn(API)
    assert [decided.key for decided in federation.turn(TILES).decided] == [TILES.key]
    assert federation.copies(WEB) == 15


def test_a_claim_ends_with_its_workload_and_with_its_next_turn() -> None:
    federation = Federation(WEB, API)
    federation.turn(WEB)
    federation.turn(API)
    assert set(federation.queue.claims) == {API.key}
    federation.queue.forget(API.key)
    federation.turn(WEB)
    assert federation.copies(WEB) == 20

    federation.turn(API)
    assert set(federation.queue.claims) == {API.key}
    federation.turn(API)
    assert not federation.queue.claims
    assert federation.copies(API) == 5
