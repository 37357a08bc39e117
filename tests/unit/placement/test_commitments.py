"""What is charged above a summary, when it is credited, and that commitments and ledgers add up."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model import shards
from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, Tier
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, Holding, copies_of
from federator.model.resources import Resources
from federator.model.shards import Ranges
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
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


def at(copies: int, includes_seq: int) -> FleetSnapshot:
    view = cluster("a", copies)
    assert isinstance(view, ClusterView)
    assert isinstance(view.capacity, Capacity)
    return fleet(
        dataclasses.replace(
            view, capacity=dataclasses.replace(view.capacity, includes_seq=includes_seq)
        )
    )


def holding(copies: int, seq: int) -> Holding:
    return Holding("a", copies, copies, seq)


def decide(commitments: Commitments, name: str, copies: int, seq: int) -> None:
    """A decision of which no slice has been written yet."""
    commitments.assume(commitment(service(1, name=name), [holding(copies, seq)]))


def test_only_slices_above_the_summary_are_charged() -> None:
    commitments = Commitments()
    commitments.record(commitment(service(1, name="old"), [holding(3, 5)]))
    commitments.record(commitment(service(1, name="new"), [holding(2, 6)]))
    assert commitments.open(at(10, 5)).room("a", POD) == 8
    assert commitments.open(at(10, 6)).room("a", POD) == 10
    assert commitments.open(at(10, 0)).room("a", POD) == 5


def test_decisions_that_are_read_in_any_order_charge_what_is_above_the_summary() -> None:
    commitments = Commitments()
    for seq in (8, 3, 9, 1, 6):
        commitments.record(commitment(service(1, name=f"w{seq}"), [holding(seq, seq)]))
    assert commitments.open(at(100, 6)).room("a", POD) == 100 - 8 - 9
    commitments.record(commitment(service(1, name="w2"), [holding(2, 2)]))
    commitments.release("a", "uid-w9")
    assert commitments.open(at(100, 1)).room("a", POD) == 100 - 8 - 3 - 6 - 2


def test_a_growth_charges_only_what_the_summary_does_not_know() -> None:
    commitments = Commitments()
    commitments.record(commitment(service(1), [holding(100, 5)]))
    commitments.record(commitment(service(1), [holding(103, 9)]))
    assert commitments.open(at(10, 5)).room("a", POD) == 7


def test_a_shrink_is_credited_only_by_a_summary() -> None:
    commitments = Commitments()
    commitments.record(commitment(service(1), [holding(2, 5)]))
    commitments.record(commitment(service(1), [holding(8, 6)]))
    commitments.record(commitment(service(1), [holding(1, 7)]))
    assert commitments.open(at(10, 5)).room("a", POD) == 4
    assert commitments.open(at(10, 7)).room("a", POD) == 10


def test_a_share_that_left_stays_charged_until_a_summary_or_until_it_is_confirmed_gone() -> None:
    commitments = Commitments()
    commitments.record(commitment(service(1), [holding(4, 6)]))
    commitments.record(commitment(service(1), held(b=4)))
    assert commitments.open(at(10, 5)).room("a", POD) == 6
    assert commitments.open(at(10, 6)).room("a", POD) == 10
    again = Commitments()
    again.record(commitment(service(1), [holding(4, 6)]))
    again.record(commitment(service(1), held(b=4)))
    again.release("a", "uid-web")
    assert again.open(at(10, 5)).room("a", POD) == 10


def test_a_share_whose_slice_is_gone_before_its_decision_is_recorded_leaves_nothing() -> None:
    """Hubs record a decision when it is written, and members may tell sooner that they are empty
    (seed 2578).
    """
    commitments = Commitments()
    commitments.record(commitment(service(1), [holding(3, 5)]))
    commitments.release("a", "uid-web")
    commitments.record(commitment(service(1), [Holding("b", 3, 3, 6)]))
    assert commitments.open(at(10, 5)).room("a", POD) == 10
    assert commitments.open(at(10, 6)).room("a", POD) == 10


def test_a_slice_that_another_overtook_stays_charged_until_a_summary_after_it() -> None:
    commitments = Commitments()
    decide(commitments, "early", 3, 5)
    decide(commitments, "later", 2, 6)
    commitments.confirm("a", "uid-later", 6)
    commitments.reported("a", 6)
    assert commitments.open(at(8, 6)).room("a", POD) == 5, "the summary knows of the later one only"
    commitments.confirm("a", "uid-early", 5)
    assert commitments.open(at(8, 6)).room("a", POD) == 5, (
        "it has arrived, but that summary was made before"
    )
    commitments.reported("a", 6)
    assert commitments.open(at(5, 6)).room("a", POD) == 5


def test_a_growth_on_its_way_charges_only_what_no_summary_knows() -> None:
    commitments = Commitments()
    decide(commitments, "web", 3, 5)
    commitments.confirm("a", "uid-web", 5)
    decide(commitments, "web", 7, 6)
    decide(commitments, "other", 1, 8)
    commitments.confirm("a", "uid-other", 8)
    commitments.reported("a", 8)
    assert commitments.open(at(10, 8)).room("a", POD) == 6
    commitments.confirm("a", "uid-web", 5)
    commitments.reported("a", 8)
    assert commitments.open(at(10, 8)).room("a", POD) == 6, "an old slice is no news of the new one"


def test_of_two_slices_on_their_way_a_summary_may_include_neither_or_the_first() -> None:
    commitments = Commitments()
    decide(commitments, "web", 4, 5)
    decide(commitments, "web", 6, 7)
    commitments.reported("a", 8)
    assert commitments.open(at(10, 8)).room("a", POD) == 4
    commitments.confirm("a", "uid-web", 5)
    assert commitments.is_in_flight("a", "uid-web", 7)
    commitments.reported("a", 8)
    assert commitments.open(at(6, 8)).room("a", POD) == 4


def test_of_a_decision_that_was_never_in_force_no_summary_is_taken_to_include_anything() -> None:
    """The host did not take the first decision; the next one is made when a summary is there whose
    seq is higher than that of the first."""
    commitments = Commitments()
    before = commitment(service(1, name="web"), [])
    commitments.record(before)
    decide(commitments, "web", 6, 5)
    commitments.record(before, undone=True)
    assert commitments.open(at(10, 4)).room("a", POD) == 10
    decide(commitments, "web", 6, 7)
    commitments.reported("a", 8)
    assert commitments.open(at(10, 8)).room("a", POD) == 4


def test_what_an_earlier_leader_decided_and_did_not_write_is_charged_once_that_is_known() -> None:
    commitments = Commitments()
    commitments.reported("a", 9)
    commitments.record(commitment(service(1, name="web"), [holding(3, 5)]))
    assert commitments.open(at(10, 9)).room("a", POD) == 10
    commitments.in_flight("a", "uid-web", 5)
    commitments.in_flight("a", "uid-web", 4)
    commitments.in_flight("a", "uid-nobody", 5)
    assert commitments.open(at(10, 9)).room("a", POD) == 7


def test_a_slice_that_never_sets_out_is_not_waited_for() -> None:
    """A decision that the host did not take, a share that went again, a workload that is gone."""
    before = commitment(service(1, name="web"), [holding(3, 5)])
    then: Callable[[Commitments], object]
    for then in (
        lambda commitments: commitments.record(before),
        lambda commitments: commitments.record(commitment(service(1, name="web"), held(b=3))),
        lambda commitments: commitments.forget("uid-web"),
        lambda commitments: commitments.release("a", "uid-web"),
    ):
        commitments = Commitments()
        commitments.record(before)
        decide(commitments, "web", 9, 6)
        then(commitments)
        commitments.reported("a", 8)
        assert commitments.open(at(10, 8)).room("a", POD) == 10


def test_forgetting_releases_quota_and_room_once_and_for_all() -> None:
    commitments = Commitments()
    commitments.record(commitment(service(1), [holding(4, 6)]))
    commitments.forget("uid-web")
    commitments.forget("uid-web")
    assert commitments.usage("feed", Tier.ON_DEMAND) == Resources()
    assert commitments.placed("feed") == 0
    assert commitments.open(at(10, 0)).room("a", POD) == 10
    assert len(commitments) == 0


def test_recording_the_same_thing_again_changes_nothing() -> None:
    commitments = Commitments()
    for _ in range(3):
        commitments.record(commitment(service(1), [holding(4, 6)]))
    assert commitments.usage("feed", Tier.ON_DEMAND) == Resources({"cpu": 4000, "pods": 4})
    assert commitments.open(at(10, 5)).room("a", POD) == 6


def test_usage_moves_with_the_project_and_the_tier() -> None:
    commitments = Commitments()
    commitments.record(commitment(service(1), held(a=4)))
    commitments.record(commitment(service(1, project="ads", tier=Tier.RESERVED), held(a=3)))
    assert commitments.usage("feed", Tier.ON_DEMAND) == Resources()
    assert commitments.usage("ads", Tier.RESERVED) == Resources({"cpu": 3000, "pods": 3})
    assert commitments.usage_by_project() == {"ads": Resources({"cpu": 3000, "pods": 3})}
    assert commitments.audit() == {("ads", Tier.RESERVED): Resources({"cpu": 3000, "pods": 3})}


def test_charges_of_a_batch_are_seen_by_the_rest_of_the_batch_and_not_by_the_next() -> None:
    commitments = Commitments()
    ledger = commitments.open(at(10, 0))
    mark = ledger.mark()
    ledger.charge("a", POD, 4)
    assert ledger.room("a", POD) == 6
    ledger.rollback(mark)
    assert ledger.room("a", POD) == 10
    ledger.charge("a", POD, 99)
    assert ledger.room("a", POD) == 0
    assert commitments.open(at(10, 0)).room("a", POD) == 10


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.assume(commitment(service(1, name="other"), held(a=1))),
        lambda found: found.forget("uid-web"),
        lambda found: found.release("a", "uid-web"),
        lambda found: found.in_flight("a", "uid-web", 1),
        lambda found: found.reported("a", 1),
    ],
    ids=["assumed", "forgotten", "released", "in flight", "reported"],
)
def test_a_ledger_does_not_change_under_the_cycle_that_opened_it(
    change: Callable[[Commitments], object],
) -> None:
    commitments = Commitments()
    commitments.record(commitment(service(1), held(a=4)))
    ledger = commitments.open(at(10, 0))
    assert ledger.usage("feed", Tier.ON_DEMAND) == commitments.usage("feed", Tier.ON_DEMAND)
    change(commitments)
    with pytest.raises(RuntimeError, match=r"have changed since this ledger was opened$"):
        ledger.usage("feed", Tier.ON_DEMAND)
    with pytest.raises(RuntimeError, match=r"have changed since this ledger was opened$"):
        ledger.room("a", POD)


def test_clusters_that_are_unknown_silent_or_stale_have_no_room() -> None:
    silent, stale = cluster("s", 5, capacity=None), cluster("t", 5, stale=True)
    ledger = Commitments().open(fleet(silent, stale))
    assert [ledger.room(name, POD) for name in ("s", "t", "nobody")] == [0, 0, 0]


def test_a_released_workload_frees_its_quota_within_the_batch() -> None:
    commitments = Commitments()
    commitments.record(commitment(service(1), held(a=4)))
    ledger = commitments.open(at(10, 0))
    ledger.release("uid-web")
    assert ledger.usage("feed", Tier.ON_DEMAND) == Resources()
    assert ledger.placed("feed") == 0
    assert ledger.commitment("uid-web") is None


def test_slots_run_only_while_there_are_shards_for_them() -> None:
    assert copies_of(Holding("a", 3, 10, 1, ((0, 2),))) == 3
    assert copies_of(Holding("a", 30, 10, 1, ((0, 29),))) == 10
    assert copies_of(Holding("a", 30, 30, 1)) == 30


def test_old_steps_are_dropped_but_what_a_summary_saw_is_remembered() -> None:
    commitments = Commitments()
    for seq in range(1, 50):
        commitments.record(commitment(service(1), [holding(seq, seq)]))
        assert commitments.open(at(100, seq - 1)).room("a", POD) == 99


SHARDS = 12


def by_hand(given: dict[str, tuple[int, frozenset[int]]], done: frozenset[int]) -> int:
    """Pods that such shares may run: slots, as far as there are shards that are not done."""
    return sum(min(slots, len(mine - done)) for slots, mine in given.values())


def ranges_of(indexes: frozenset[int]) -> Ranges:
    return shards.normal((index, index) for index in indexes)


_INDEXES = st.frozensets(st.integers(0, SHARDS - 1))
_DECISION = st.tuples(st.integers(0, SHARDS), st.integers(0, 6), st.integers(0, 6))


@given(st.lists(st.one_of(_INDEXES, _DECISION), max_size=12))
def test_what_is_held_follows_from_the_decision_and_from_what_is_done_in_whatever_order_they_are_heard_of(
    heard: list[frozenset[int] | tuple[int, int, int]],
) -> None:
    commitments, ask = Commitments(), jobs(SHARDS, SHARDS)
    given_: dict[str, tuple[int, frozenset[int]]] = {}
    done: frozenset[int] = frozenset()
    for seq, news in enumerate(heard, 1):
        if isinstance(news, frozenset):
            had, done = by_hand(given_, done), news
            assert commitments.progressed(ask.uid, ranges_of(done)) == (by_hand(given_, done) < had)
        else:
            cut, slots_a, slots_b = news
            parts = {
                "a": (slots_a, frozenset(range(cut))),
                "b": (slots_b, frozenset(range(cut, SHARDS))),
            }
            given_ = {name: part for name, part in parts.items() if part[1]}
            shares = [
                Holding(n, len(mine), slots, seq, ranges_of(mine))
                for n, (slots, mine) in given_.items()
            ]
            commitments.record(commitment(ask, shares))
        copies = by_hand(given_, done)
        assert commitments.usage("feed", ask.tier)["pods"] == copies
        assert commitments.placed("feed") == bool(copies)
        assert commitments.audit().get(("feed", ask.tier), Resources())["pods"] == copies
    commitments.forget(ask.uid)
    assert commitments.placed("feed") == 0
    assert commitments.usage("feed", ask.tier) == Resources()


def test_books_as_they_are_now_say_the_same_and_follow_nobody() -> None:
    mine, other = service(3, name="mine"), service(4, name="other")
    snapshot = fleet(
        cluster("a", 9),
        cluster("b", 9),
        quotas=[QuotaAccount("q", projects=frozenset({"feed"}), tiers={LIMITED: TEN})],
    )
    commitments = commitments_with(
        commitment(other, held(a=4)), commitment(mine, (Holding("b", 3, 3, 7),))
    )
    commitments.in_flight("b", mine.uid, 7)
    commitments.reported("a", 0)
    copy = commitments.as_now(mine.uid, dict.fromkeys("ab", 0))
    before = [_answers(one.open(snapshot), mine) for one in (commitments, copy)]
    assert before[0] == before[1]
    assert copy.commitment(other.uid) is None  # nothing of others but sums
    commitments.record(commitment(service(9, name="third"), held(a=9)))
    assert _answers(copy.open(snapshot), mine) == before[0]
    assert _answers(commitments.open(snapshot), mine) != before[0]


LIMITED, TEN = Tier.ON_DEMAND, TierQuota(maximum=Resources({"cpu": 10_000}))


def _answers(ledger: Ledger, ask: Ask) -> tuple[object, ...]:
    rooms = [ledger.room(name, ask.shape) for name in "ab"]
    return (
        rooms,
        ledger.admission(ask, 9, 0),
        ledger.usage("feed", Tier.ON_DEMAND),
        ledger.placed("feed"),
    )


def test_what_a_project_without_an_account_is_given_counts_once_somebody_asks() -> None:
    account = QuotaAccount("q", projects=frozenset({"feed"}))
    snapshot = fleet(cluster("a", 50), quotas=[account])
    ledger = Commitments().open(snapshot)
    free, mine = service(4, name="free", project="free"), service(2, name="mine")
    mark = ledger.mark()
    ledger.commit(commitment(free, held(a=4)), {"a": 4})
    ledger.commit(commitment(mine, held(a=2)), {"a": 2})
    assert ledger.placed("feed") == 1
    assert ledger.usage("free", free.tier) == free.shape.requests * 4
    assert ledger.placed("free") == 1
    ledger.commit(commitment(dataclasses.replace(free, project="feed"), held(a=4)), {})
    assert ledger.placed("feed") == 2
    assert ledger.usage("free", free.tier) == Resources()
    ledger.rollback(mark)
    assert ledger.usage("feed", mine.tier) == ledger.usage("free", free.tier) == Resources()
    assert (ledger.placed("feed"), ledger.placed("free")) == (0, 0)
