"""A scheduling cycle by itself: what counts within it, what it leaves alone, and what it says of
those that lack something.
"""

import dataclasses
import gc
import itertools
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Admitted, PodShape, Tier
from federator.model.decision import Decision, Reason, Share
from federator.model.fleet import FleetSnapshot, Holding
from federator.model.policy import Division, Policy
from federator.model.resources import Resources
from federator.placement import engine
from federator.placement.policy.permitted import NotPermitted
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.scheduling import cycle, ordering
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry, Recorded, Standing
from federator.scheduling.queue import Queue
from federator.scheduling.queueing_hints import Hint, HintKind
from federator.scheduling.write_order import Effect
from tests.unit.placement.fleets import (
    POD,
    cluster,
    commitment,
    commitments_with,
    fleet,
    held,
    jobs,
    service,
)

ACCOUNT = QuotaAccount(
    "feed",
    projects=frozenset({"feed"}),
    tiers={Tier.ON_DEMAND: TierQuota(Resources({"cpu": 4000}))},
    generation=1,
)


def run(
    *entries: Entry,
    snapshot: FleetSnapshot,
    commitments: Commitments | None = None,
    queue: Queue | None = None,
) -> Cycle:
    numbers = itertools.count(100)
    above = Commitments() if commitments is None else commitments
    return cycle.run(entries, queue or Queue(), snapshot, above, seq=numbers.__next__)


def counts(made: Cycle) -> Mapping[str, Mapping[str, int]]:
    return {
        one.key.name: {share.cluster: share.count for share in one.decision.shares}
        for one in made.decided
    }


def test_each_decision_counts_on_those_before_it_and_nothing_outlives_the_cycle() -> None:
    commitments, snapshot = Commitments(), fleet(cluster("a", 4), cluster("b", 4))
    entries = [Entry(ask=service(3, name=name)) for name in ("web", "api", "ads")]

    made = run(*entries, snapshot=snapshot, commitments=commitments)

    assert sum(sum(found.values()) for found in counts(made).values()) == 8
    assert len(commitments) == 0
    assert [one.decision.seq for one in made.decided] == [100, 101, 102]
    assert counts(run(*entries, snapshot=snapshot, commitments=commitments)) == counts(made), (
        "the same again"
    )


class Watched(Commitments):
    """Commitments that know of the ledgers above them, as long as these live."""

    def __init__(self) -> None:
        super().__init__()
        self.ledgers: list[weakref.ref[Ledger]] = []

    def open(self, snapshot: FleetSnapshot) -> Ledger:
        ledger = super().open(snapshot)
        self.ledgers.append(weakref.ref(ledger))
        return ledger


@pytest.mark.parametrize("account", [None, ACCOUNT, dataclasses.replace(ACCOUNT, backfills=True)])
def test_the_ledger_ends_with_its_cycle(account: QuotaAccount | None) -> None:
    """Otherwise the room of all clusters is copied before each cycle, for a reader that waits for
    the collector."""
    commitments = Watched()
    snapshot = fleet(cluster("a", 4), cluster("b", 4), quotas=[account] if account else [])
    whole = Policy(division=Division(max_clusters=1), require_all=True)
    entries = [Entry(ask=service(copies, policy=whole, name=f"w{copies}")) for copies in (9, 3, 2)]

    gc.disable()
    try:
        made = run(*entries, snapshot=snapshot, commitments=commitments)
        assert len(made.decided) == 3
        assert [ledger() for ledger in commitments.ledgers] == [None]
    finally:
        gc.enable()


def test_quota_that_one_gives_up_another_gets_and_is_written_after_it() -> None:
    """It is still on the account of the first until the host has taken it from there."""
    snapshot = fleet(cluster("a", 20), quotas=[ACCOUNT])
    shrinks, grows = service(1, name="shrinks", priority=5), service(3, name="grows")
    commitments = commitments_with(commitment(shrinks, held(a=4)))
    standing = Standing(
        held=held(a=4), recorded=Recorded(seq=1, inputs_hash="", shares=(Share("a", 4, 4, 1),))
    )

    made = run(
        Entry(ask=grows),
        Entry(ask=shrinks, standing=standing),
        snapshot=snapshot,
        commitments=commitments,
    )

    assert counts(made) == {"shrinks": {"a": 1}, "grows": {"a": 3}}
    assert [(effect, [one.key.name for one in wave]) for effect, wave in made.write_order] == [
        (Effect.FREES, ["shrinks"]),
        (Effect.TAKES, ["grows"]),
    ]
    assert made.hints_of(made.decided) == (Hint(HintKind.QUOTA),)
    assert made.hints_of(()) == ()
    assert [one.beneficiary for one in made.decided] == [one.key for one in made.decided]


def test_a_bug_in_one_decision_is_that_workloads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sound, bad = engine.decide, service(3, name="bad", priority=9)

    def decide(ask: Any, *args: Any, **more: Any) -> Decision:
        made = sound(ask, *args, **more)
        if ask.key == bad.key:
            raise ZeroDivisionError("planted")
        return made

    monkeypatch.setattr(engine, "decide", decide)
    made = run(Entry(ask=bad), Entry(ask=service(4)), snapshot=fleet(cluster("a", 4)))

    assert counts(made) == {"web": {"a": 4}}, "what the other had charged is given back"
    assert isinstance(made.failed[bad.key], ZeroDivisionError)


def test_who_lacks_something_is_tried_again_later_each_time_and_sooner_with_news() -> None:
    queue, ask, snapshot = Queue(), service(6), fleet(cluster("a", 4))

    made = run(Entry(ask=ask), snapshot=snapshot, queue=queue)
    assert made.requeues == {ask.key: 5.0}
    assert ask.key not in queue, "a cycle changes no queue"
    queue.settle([ask.key], made.inadmissible)
    assert queue.requeued_by(Hint(HintKind.ROOM, "a")) == [ask.key]
    assert queue.requeued_by(Hint(HintKind.QUOTA)) == []
    assert run(Entry(ask=ask), snapshot=snapshot, queue=queue).requeues == {ask.key: 10.0}

    made = run(Entry(ask=ask), snapshot=fleet(cluster("a", 6)), queue=queue)
    queue.settle([ask.key], made.inadmissible)
    assert len(queue) == 0
    assert made.requeues == {}
    assert queue.retry_after_s(ask.key) == 5.0


def test_what_may_not_run_keeps_what_it_has_and_what_that_is_charged() -> None:
    shape = PodShape(Resources({"cpu": 500, "pods": 1}))
    charged = Admitted(3, shape, "feed", Tier.ON_DEMAND, priority=1, count=2)
    recorded = Recorded(
        seq=7, inputs_hash="", shares=(Share("a", 2, 2, 7),), wanted=2, charged=charged
    )
    standing = Standing(held=(Holding("a", 2, 2, 7),), recorded=recorded, admitted=charged)
    why = NotPermitted(Reason.IDENTITY_NOT_ALLOWED, "spec.iamRole: is not allowed")

    made = run(
        Entry(ask=service(9), standing=standing, refused=why), snapshot=fleet(cluster("a", 20))
    )

    (one,) = made.decided
    assert (one.decision.reason, one.decision.seq, one.decision.shares) == (
        why.reason,
        7,
        recorded.shares,
    )
    assert one.after.usage == shape.requests * 2
    assert made.inadmissible == {}, "no room helps"


def test_what_may_not_run_and_never_reached_a_member_is_taken_back_under_a_new_number() -> None:
    recorded = Recorded(
        seq=7, inputs_hash="", shares=(Share("a", 3, 3, 7), Share("b", 2, 2, 7)), wanted=5
    )
    why = NotPermitted(Reason.IDENTITY_NOT_ALLOWED, "spec.iamRole: is not allowed")

    made = run(
        Entry(ask=service(5), standing=Standing(recorded=recorded), refused=why), snapshot=fleet()
    )

    decision = made.decided[0].decision
    assert (decision.shares, decision.seq) == ((), 100)


def test_numbers_go_above_those_of_the_member_and_rise_within_a_cycle() -> None:
    def further(name: str) -> Entry:
        return Entry(ask=service(1, name=name), standing=Standing(mark=lambda _: 5_000))

    made = run(further("web"), further("api"), snapshot=fleet(cluster("a", 4)))

    numbers = [share.seq for one in made.decided for share in one.decision.shares]
    assert numbers[0] > 5_000
    assert numbers[1] > numbers[0]
    assert [one.decision.seq for one in made.decided] == [100, 101], (
        "the host's own numbers stay where they are"
    )


def test_ranges_that_have_jobs_stay_pieces_of_their_own() -> None:
    standing = Standing(held=(Holding("a", 10, 2, 1, ((0, 4), (5, 9))),))

    (one,) = run(Entry(ask=jobs(12, 2), standing=standing), snapshot=fleet(cluster("a", 9))).decided

    assert one.decision.shares[0].ranges == ((0, 4), (5, 9), (10, 11))


def test_an_ask_is_made_of_components_and_is_weighed_by_all_of_them() -> None:
    (replicas,) = service(3).components
    assert (replicas.shape, replicas.count, replicas.min) == (POD, 3, 0)
    (slots,) = jobs(10, 4, policy=Policy(require_all=True)).components
    assert (slots.count, slots.min) == (4, 4)
    assert ordering.demand(jobs(10, 4)) == POD.requests * 4
