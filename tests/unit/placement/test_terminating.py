"""Pods beyond what commitments give are charged to accounts, and free nothing before they end."""

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Former, FormerCopies, Tier
from federator.model.fleet import Commitment
from federator.model.resources import Resources
from federator.placement.room.commitments import Commitments
from tests.unit.placement.fleets import POD, cluster, commitment, fleet, held, service

TIER = Tier.ON_DEMAND
QUOTAS = (
    QuotaAccount(
        "feed",
        projects=frozenset({"feed"}),
        tiers={TIER: TierQuota(Resources({"cpu": 8000}))},
        generation=1,
    ),
)
ROOMY = fleet(cluster("a", 100), cluster("b", 100), quotas=QUOTAS)


def former(copies: int, at: str = "a") -> tuple[Former, ...]:
    held_ = (FormerCopies(at, copies),)
    return (Former("feed", TIER, POD.requests, held_),) if copies else ()


class Reported:
    """Commitments of one service, with copies that run by cluster, as members report."""

    def __init__(self, **runs: int) -> None:
        self.runs = dict(runs)
        self.commitments = Commitments()
        self.commitments.reported_beyond = self.beyond

    def beyond(self, after: Commitment) -> tuple[Former, ...]:
        has = {holding.cluster: holding.count for holding in after.holdings}
        left = {at: max(runs - has.get(at, 0), 0) for at, runs in self.runs.items()}
        return tuple(part for at, copies in left.items() for part in former(copies, at))

    def used(self) -> int:
        return self.commitments.usage("feed", TIER)["cpu"]


def test_shrunk_workload_is_charged_until_its_pods_have_ended() -> None:
    world, web = Reported(a=8), service(8)
    world.commitments.record(commitment(web, held(a=8)))
    world.commitments.record(commitment(web, held(a=1)))
    assert world.used() == 8000
    ledger = world.commitments.open(ROOMY)
    assert ledger.admission(service(4, name="next"), 4, 0).copies == 0
    assert ledger.admission(web, 8, 1).copies == 1, "its own growth waits as well"
    world.runs["a"] = 3
    assert world.commitments.recount(web.uid)
    assert not world.commitments.recount(web.uid)
    assert world.used() == 3000
    world.runs["a"] = 0
    world.commitments.recount(web.uid)
    assert world.used() == 1000
    assert world.commitments.audit() == {("feed", TIER): world.commitments.usage("feed", TIER)}


def test_copies_that_a_cycle_takes_are_not_given_in_it() -> None:
    world, web = Reported(a=8), service(8)
    world.commitments.record(commitment(web, held(a=8)))
    ledger = world.commitments.open(ROOMY)
    mark = ledger.mark()
    ledger.hold(commitment(web, held(a=2)))
    assert ledger.admission(service(4, name="next"), 4, 0).copies == 0
    ledger.rollback(mark)
    assert ledger.usage("feed", TIER)["cpu"] == 8000


def test_move_is_charged_twice_and_never_refused() -> None:
    world, web = Reported(a=8), service(8)
    world.commitments.record(commitment(web, held(a=8)))
    world.commitments.record(commitment(web, held(b=8)))
    assert world.used() == 16_000
    assert world.commitments.open(ROOMY).admission(web, 8, 8).copies == 8


def test_workload_that_is_gone_is_charged_for_nothing() -> None:
    world, web = Reported(a=8), service(8)
    world.commitments.record(commitment(web, held(a=1)))
    world.commitments.forget(web.uid)
    assert world.used() == 0
    assert not world.commitments.terminating


def test_copies_of_commitments_keep_the_charge() -> None:
    world, web = Reported(a=8), service(8)
    world.commitments.record(commitment(web, held(a=1)))
    for copied in (world.commitments.copy(), world.commitments.as_now(web.uid, {})):
        assert copied.usage("feed", TIER)["cpu"] == 8000
        copied.record(commitment(web, held(a=2)))
        assert copied.usage("feed", TIER)["cpu"] == 9000, "nothing is reported to a copy"
