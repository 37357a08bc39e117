"""What is charged above a summary, when it is credited, and that books and ledgers add up."""

import dataclasses
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from federator.model import shards
from federator.model.ask import Ask, Tier
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, Holding, QuotaAccount, TierQuota, copies_of
from federator.model.resources import Resources
from federator.model.shards import Ranges
from federator.placement.books import Books
from federator.placement.ledger import Ledger
from tests.unit.placement.fleets import POD, books_with, cluster, commitment, fleet, held, jobs, service


def at(copies: int, includes_seq: int) -> FleetSnapshot:
    view = cluster("a", copies)
    assert isinstance(view, ClusterView)
    assert isinstance(view.capacity, Capacity)
    return fleet(dataclasses.replace(view, capacity=dataclasses.replace(view.capacity, includes_seq=includes_seq)))


def holding(copies: int, seq: int) -> Holding:
    return Holding("a", copies, copies, seq)


def decide(books: Books, name: str, copies: int, seq: int) -> None:
    """A decision of which no slice has been written yet."""
    books.decide(commitment(service(1, name=name), [holding(copies, seq)]))


def test_only_slices_above_the_summary_are_charged() -> None:
    books = Books()
    books.record(commitment(service(1, name="old"), [holding(3, 5)]))
    books.record(commitment(service(1, name="new"), [holding(2, 6)]))
    assert books.open(at(10, 5)).room("a", POD) == 8
    assert books.open(at(10, 6)).room("a", POD) == 10
    assert books.open(at(10, 0)).room("a", POD) == 5


def test_decisions_that_are_read_in_any_order_charge_what_is_above_the_summary() -> None:
    books = Books()
    for seq in (8, 3, 9, 1, 6):
        books.record(commitment(service(1, name=f"w{seq}"), [holding(seq, seq)]))
    assert books.open(at(100, 6)).room("a", POD) == 100 - 8 - 9
    books.record(commitment(service(1, name="w2"), [holding(2, 2)]))
    books.vacate("a", "uid-w9")
    assert books.open(at(100, 1)).room("a", POD) == 100 - 8 - 3 - 6 - 2


def test_a_growth_charges_only_what_the_summary_does_not_know() -> None:
    books = Books()
    books.record(commitment(service(1), [holding(100, 5)]))
    books.record(commitment(service(1), [holding(103, 9)]))
    assert books.open(at(10, 5)).room("a", POD) == 7


def test_a_shrink_is_credited_only_by_a_summary() -> None:
    books = Books()
    books.record(commitment(service(1), [holding(2, 5)]))
    books.record(commitment(service(1), [holding(8, 6)]))
    books.record(commitment(service(1), [holding(1, 7)]))
    assert books.open(at(10, 5)).room("a", POD) == 4
    assert books.open(at(10, 7)).room("a", POD) == 10


def test_a_share_that_left_stays_charged_until_a_summary_or_until_it_is_confirmed_gone() -> None:
    books = Books()
    books.record(commitment(service(1), [holding(4, 6)]))
    books.record(commitment(service(1), held(b=4)))
    assert books.open(at(10, 5)).room("a", POD) == 6
    assert books.open(at(10, 6)).room("a", POD) == 10
    again = Books()
    again.record(commitment(service(1), [holding(4, 6)]))
    again.record(commitment(service(1), held(b=4)))
    again.vacate("a", "uid-web")
    assert again.open(at(10, 5)).room("a", POD) == 10


def test_a_share_whose_slice_is_gone_before_its_decision_is_recorded_leaves_nothing_behind() -> None:
    """Hubs record a decision when it is written, and members may tell sooner that they are empty (seed 2578)."""
    books = Books()
    books.record(commitment(service(1), [holding(3, 5)]))
    books.vacate("a", "uid-web")
    books.record(commitment(service(1), [Holding("b", 3, 3, 6)]))
    assert books.open(at(10, 5)).room("a", POD) == 10
    assert books.open(at(10, 6)).room("a", POD) == 10


def test_a_slice_that_another_overtook_stays_charged_until_a_summary_after_it() -> None:
    books = Books()
    decide(books, "early", 3, 5)
    decide(books, "later", 2, 6)
    books.arrived("a", "uid-later", 6)
    books.reported("a", 6)
    assert books.open(at(8, 6)).room("a", POD) == 5, "the summary knows of the later one only"
    books.arrived("a", "uid-early", 5)
    assert books.open(at(8, 6)).room("a", POD) == 5, "it has arrived, but that summary was made before"
    books.reported("a", 6)
    assert books.open(at(5, 6)).room("a", POD) == 5


def test_a_growth_on_its_way_charges_only_what_no_summary_knows() -> None:
    books = Books()
    decide(books, "web", 3, 5)
    books.arrived("a", "uid-web", 5)
    decide(books, "web", 7, 6)
    decide(books, "other", 1, 8)
    books.arrived("a", "uid-other", 8)
    books.reported("a", 8)
    assert books.open(at(10, 8)).room("a", POD) == 6
    books.arrived("a", "uid-web", 5)
    books.reported("a", 8)
    assert books.open(at(10, 8)).room("a", POD) == 6, "an old slice is no news of the new one"


def test_what_an_earlier_leader_decided_and_did_not_write_is_charged_once_that_is_known() -> None:
    books = Books()
    books.reported("a", 9)
    books.record(commitment(service(1, name="web"), [holding(3, 5)]))
    assert books.open(at(10, 9)).room("a", POD) == 10
    books.sets_out("a", "uid-web", 5)
    books.sets_out("a", "uid-web", 4)
    books.sets_out("a", "uid-nobody", 5)
    assert books.open(at(10, 9)).room("a", POD) == 7


def test_a_slice_that_never_sets_out_is_not_waited_for() -> None:
    """A decision that the host did not take, a share that went again, a workload that is gone."""
    before = commitment(service(1, name="web"), [holding(3, 5)])
    then: Callable[[Books], object]
    for then in (
        lambda books: books.record(before),
        lambda books: books.record(commitment(service(1, name="web"), held(b=3))),
        lambda books: books.forget("uid-web"),
        lambda books: books.vacate("a", "uid-web"),
    ):
        books = Books()
        books.record(before)
        decide(books, "web", 9, 6)
        then(books)
        books.reported("a", 8)
        assert books.open(at(10, 8)).room("a", POD) == 10


def test_forgetting_releases_quota_and_room_once_and_for_all() -> None:
    books = Books()
    books.record(commitment(service(1), [holding(4, 6)]))
    books.forget("uid-web")
    books.forget("uid-web")
    assert books.usage("feed", Tier.ON_DEMAND) == Resources()
    assert books.placed("feed") == 0
    assert books.open(at(10, 0)).room("a", POD) == 10
    assert len(books) == 0


def test_recording_the_same_thing_again_changes_nothing() -> None:
    books = Books()
    for _ in range(3):
        books.record(commitment(service(1), [holding(4, 6)]))
    assert books.usage("feed", Tier.ON_DEMAND) == Resources({"cpu": 4000, "pods": 4})
    assert books.open(at(10, 5)).room("a", POD) == 6


def test_usage_moves_with_the_project_and_the_tier() -> None:
    books = Books()
    books.record(commitment(service(1), held(a=4)))
    books.record(commitment(service(1, project="ads", tier=Tier.RESERVED), held(a=3)))
    assert books.usage("feed", Tier.ON_DEMAND) == Resources()
    assert books.usage("ads", Tier.RESERVED) == Resources({"cpu": 3000, "pods": 3})
    assert books.usage_by_project() == {"ads": Resources({"cpu": 3000, "pods": 3})}
    assert books.audit() == {("ads", Tier.RESERVED): Resources({"cpu": 3000, "pods": 3})}


def test_charges_of_a_batch_are_seen_by_the_rest_of_the_batch_and_not_by_the_next() -> None:
    books = Books()
    ledger = books.open(at(10, 0))
    mark = ledger.mark()
    ledger.charge("a", POD, 4)
    assert ledger.room("a", POD) == 6
    ledger.rollback(mark)
    assert ledger.room("a", POD) == 10
    ledger.charge("a", POD, 99)
    assert ledger.room("a", POD) == 0
    assert books.open(at(10, 0)).room("a", POD) == 10


def test_clusters_that_are_unknown_silent_or_stale_have_no_room() -> None:
    silent, stale = cluster("s", 5, capacity=None), cluster("t", 5, stale=True)
    ledger = Books().open(fleet(silent, stale))
    assert [ledger.room(name, POD) for name in ("s", "t", "nobody")] == [0, 0, 0]


def test_a_released_workload_frees_its_quota_within_the_batch() -> None:
    books = Books()
    books.record(commitment(service(1), held(a=4)))
    ledger = books.open(at(10, 0))
    ledger.release("uid-web")
    assert ledger.usage("feed", Tier.ON_DEMAND) == Resources()
    assert ledger.placed("feed") == 0
    assert ledger.commitment("uid-web") is None


def test_slots_run_only_while_there_are_shards_for_them() -> None:
    assert copies_of(Holding("a", 3, 10, 1, ((0, 2),))) == 3
    assert copies_of(Holding("a", 30, 10, 1, ((0, 29),))) == 10
    assert copies_of(Holding("a", 30, 30, 1)) == 30


def test_old_steps_are_dropped_but_what_a_summary_saw_is_remembered() -> None:
    books = Books()
    for seq in range(1, 50):
        books.record(commitment(service(1), [holding(seq, seq)]))
        assert books.open(at(100, seq - 1)).room("a", POD) == 99


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
    books, ask = Books(), jobs(SHARDS, SHARDS)
    given_: dict[str, tuple[int, frozenset[int]]] = {}
    done: frozenset[int] = frozenset()
    for seq, news in enumerate(heard, 1):
        if isinstance(news, frozenset):
            had, done = by_hand(given_, done), news
            assert books.progressed(ask.uid, ranges_of(done)) == (by_hand(given_, done) < had)
        else:
            cut, slots_a, slots_b = news
            parts = {"a": (slots_a, frozenset(range(cut))), "b": (slots_b, frozenset(range(cut, SHARDS)))}
            given_ = {name: part for name, part in parts.items() if part[1]}
            shares = [Holding(n, len(mine), slots, seq, ranges_of(mine)) for n, (slots, mine) in given_.items()]
            books.record(commitment(ask, shares))
        copies = by_hand(given_, done)
        assert books.usage("feed", ask.tier)["pods"] == copies
        assert books.placed("feed") == bool(copies)
        assert books.audit().get(("feed", ask.tier), Resources())["pods"] == copies
    books.forget(ask.uid)
    assert books.placed("feed") == 0
    assert books.usage("feed", ask.tier) == Resources()


def test_books_as_they_are_now_say_the_same_and_follow_nobody() -> None:
    mine, other = service(3, name="mine"), service(4, name="other")
    snapshot = fleet(
        cluster("a", 9), cluster("b", 9), quotas=[QuotaAccount("q", projects=frozenset({"feed"}), tiers={LIMITED: TEN})]
    )
    books = books_with(commitment(other, held(a=4)), commitment(mine, (Holding("b", 3, 3, 7),)))
    books.sets_out("b", mine.uid, 7)
    books.reported("a", 0)
    copy = books.as_now(mine.uid, dict.fromkeys("ab", 0))
    before = [_answers(one.open(snapshot), mine) for one in (books, copy)]
    assert before[0] == before[1]
    assert copy.commitment(other.uid) is None  # nothing of others but sums
    books.record(commitment(service(9, name="third"), held(a=9)))
    assert _answers(copy.open(snapshot), mine) == before[0]
    assert _answers(books.open(snapshot), mine) != before[0]


LIMITED, TEN = Tier.ON_DEMAND, TierQuota(maximum=Resources({"cpu": 10_000}))


def _answers(ledger: Ledger, ask: Ask) -> tuple[object, ...]:
    rooms = [ledger.room(name, ask.shape) for name in "ab"]
    return rooms, ledger.admission(ask, 9, 0), ledger.usage("feed", Tier.ON_DEMAND), ledger.placed("feed")
