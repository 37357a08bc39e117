"""Room that is kept for wide work: who goes before it, who waits, and that it starts when it was
told to.
"""

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask, Component, PodShape, Unit
from federator.model.decision import Reason
from federator.model.fleet import Commitment, FleetSnapshot
from federator.model.names import WorkloadKey
from federator.model.policy import Division as Dividing
from federator.model.policy import Policy, Strategy
from federator.placement.room.commitments import Commitments
from federator.placement.room.futures import End, Future
from federator.scheduling import cycle, ordering
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry
from federator.scheduling.queue import Queue
from federator.scheduling.queueing_hints import Hint, HintKind
from federator.scheduling.waiting.reservations import Reservations
from tests.unit.placement.fleets import POD, cluster, fleet, held, jobs, service

NOW_S = 1_000.0
KEEPS = QuotaAccount("all", projects=frozenset({"feed"}), backfills=True)
TOGETHER = Policy(division=Dividing(max_clusters=1), require_all=True)


def wide(count: int, run_s: int | None = None, *, name: str = "wide", **more: object) -> Ask:
    """A job that starts in one cluster or not at all."""
    return jobs(count, count, name=name, policy=TOGETHER, run_s=run_s, **more)


def running(*holders: tuple[str, int, float | None], at: str = "a") -> Commitments:
    """(name, copies, when it ends) of jobs that run in a cluster and are in no summary yet."""
    commitments = Commitments()
    for name, copies, ends_s in holders:
        run_s = None if ends_s is None else int(ends_s - NOW_S)
        ask = wide(copies, run_s, name=name)
        commitments.record(
            Commitment(
                ask.uid,
                ask.key,
                ask.project,
                ask.key.namespace,
                ask.tier,
                ask.shape,
                held(**{at: copies}),
                run_s=run_s,
                began_s=NOW_S,
            )
        )
    return commitments


def run(
    asks: Iterable[Ask],
    snapshot: FleetSnapshot,
    commitments: Commitments | None = None,
    queue: Queue | None = None,
) -> Cycle:
    numbers = itertools.count(100)
    entries = [Entry(ask=ask) for ask in asks]
    return cycle.run(
        entries, queue or Queue(), snapshot, commitments or Commitments(), seq=numbers.__next__
    )


def placed(made: Cycle) -> dict[str, int]:
    return {one.key.name: sum(share.count for share in one.decision.shares) for one in made.decided}


def message(made: Cycle, name: str) -> str:
    return next(one.decision.message for one in made.decided if one.key.name == name)


@dataclass(frozen=True)
class Row:
    """What one small workload gets beside a job of 10 that waits for 10 cpus of which 2 are in use
    until 2,000."""

    why: str
    small: Ask
    want: int
    size: int = 10


SMALL = [
    Row("has ended when the wide one starts", wide(4, 1_000, name="small"), 4),
    Row("ends one second late", wide(4, 1_001, name="small"), 0),
    Row("does not say when it ends", wide(4, None, name="small"), 0),
    Row("fits beside the wide one", wide(4, None, name="small"), 4, size=14),
    Row("a service takes what is beside", service(6, name="small"), 3, size=13),
    Row("does not fit now", wide(9, 10, name="small"), 0),
]


@pytest.mark.parametrize("row", SMALL, ids=lambda row: row.why)
def test_small_work_starts_where_it_delays_nobody(row: Row) -> None:
    snapshot = fleet(cluster("a", row.size), quotas=[KEEPS])
    commitments = running(("runs", row.size - 8, 2_000.0))
    first = wide(10, name="wide", priority=1)

    made = run([row.small, first], snapshot, commitments)

    assert placed(made) == {"wide": 0, "small": row.want}
    assert made.reservations["a"].ask == first
    assert made.reservations["a"].start_s == 2_000.0
    assert "room is kept for it in a" in message(made, "wide")
    if not row.want and row.small.shape == POD and row.small.count <= 8:
        assert "room is kept, from 1970-01-01T00:33:20" in message(made, "small")
        assert "wide" not in message(made, "small"), "its owner is not told whose it is"


def test_nothing_is_kept_where_no_account_wants_it() -> None:
    snapshot = fleet(cluster("a", 10), quotas=[replace(KEEPS, backfills=False)])

    made = run(
        [wide(4, None, name="small"), wide(10, priority=1)],
        snapshot,
        running(("runs", 2, 2_000.0)),
    )

    assert placed(made) == {"wide": 0, "small": 4}
    assert not made.reservations


def test_an_account_above_speaks_for_those_below() -> None:
    above = QuotaAccount("company", backfills=True)
    below = QuotaAccount("feed", projects=frozenset({"feed"}), parent="company")
    snapshot = fleet(cluster("a", 10), quotas=[above, below])

    made = run([wide(10)], snapshot, running(("runs", 2, 2_000.0)))

    assert set(made.reservations) == {"a"}


def test_who_waits_and_is_not_due_keeps_room_too() -> None:
    """What comes after it in the order does not take its room; what comes before it does."""
    snapshot, commitments = fleet(cluster("a", 10), quotas=[KEEPS]), running(("runs", 2, 2_000.0))
    queue, first = Queue(), wide(10, priority=1)
    made = run([first], snapshot, commitments, queue)
    queue.settle([first.key], made.inadmissible, made.reservations)

    after = run([wide(4, name="after")], snapshot, commitments, queue)
    before = run([wide(4, 900, name="before", priority=2)], snapshot, commitments, queue)

    assert placed(after) == {"after": 0}
    assert placed(before) == {"before": 4}
    assert after.reservations["a"].ask == before.reservations["a"].ask == first
    assert after.released_hints == ()


def test_who_is_let_in_again_is_tried_again() -> None:
    """The reservation ends when the workload starts or goes; others may have what is left."""
    commitments, queue = running(("runs", 2, 2_000.0)), Queue()
    first, after = wide(10, priority=1), wide(4, name="after")
    made = run([first, after], fleet(cluster("a", 10), quotas=[KEEPS]), commitments, queue)
    queue.settle([first.key, after.key], made.inadmissible, made.reservations)

    larger = run([first], fleet(cluster("a", 16), quotas=[KEEPS]), commitments, queue)

    assert placed(larger) == {"wide": 10}
    assert larger.released_hints == (Hint(HintKind.ROOM, "a"),)
    assert queue.requeued_by(*larger.released_hints) == sorted([first.key, after.key])
    assert queue.forget(first.key) == (Hint(HintKind.ROOM, "a"),)
    assert list(queue.for_room()) == [after]


def test_room_is_kept_in_the_cluster_where_it_is_there_first() -> None:
    """And others go where nothing is kept."""
    commitments = running(("early", 4, 2_000.0), at="b")
    for one in running(("late", 4, 3_000.0), at="a"):
        commitments.record(one)
    snapshot = fleet(cluster("a", 10), cluster("b", 10), quotas=[KEEPS])

    made = run([wide(10, priority=1), wide(5, name="small")], snapshot, commitments)

    (small,) = (one for one in made.decided if one.key.name == "small")
    assert {name: one.start_s for name, one in made.reservations.items()} == {"b": 2_000.0}
    assert [share.cluster for share in small.decision.shares] == ["a"]


def test_the_next_in_the_order_reserves_in_another_cluster() -> None:
    commitments = running(("early", 4, 2_000.0), at="b")
    for one in running(("late", 4, 3_000.0), at="a"):
        commitments.record(one)
    snapshot = fleet(cluster("a", 10), cluster("b", 10), quotas=[KEEPS])

    made = run([wide(10, priority=2), wide(9, name="next", priority=1)], snapshot, commitments)

    assert {name: one.ask.key.name for name, one in made.reservations.items()} == {
        "b": "wide",
        "a": "next",
    }


def test_nothing_is_kept_where_too_little_is_known_to_end() -> None:
    """Else a cluster would stand idle for something that may never start."""
    snapshot = fleet(cluster("a", 10), quotas=[KEEPS])
    commitments = running(("forever", 2, None), ("ends", 2, 2_000.0))

    made = run([wide(10, priority=1), wide(4, name="small")], snapshot, commitments)

    assert placed(made) == {"wide": 0, "small": 4}
    assert not made.reservations


def test_work_that_overruns_is_expected_to_end_at_any_time() -> None:
    snapshot = fleet(cluster("a", 10), quotas=[KEEPS])
    commitments = running(("late", 2, 900.0))

    made = run([wide(10, priority=1), wide(4, 5, name="small")], snapshot, commitments)

    assert made.reservations["a"].start_s == NOW_S
    assert placed(made) == {"wide": 0, "small": 0}


def test_what_this_cycle_starts_counts_among_the_ends() -> None:
    """A job that was let in before the wide one gives back in time what the wide one needs."""
    snapshot = fleet(cluster("a", 10), quotas=[KEEPS])

    made = run([wide(6, 500, name="first", priority=2), wide(10, priority=1)], snapshot)

    assert placed(made) == {"first": 6, "wide": 0}
    assert made.reservations["a"].start_s == NOW_S + 500


def test_a_gang_reserves_the_least_that_it_starts_with() -> None:
    parts = (Component("chief", POD, 1, 1), Component("worker", POD, 12, 7))
    gang = Ask(
        WorkloadKey("PinterestTrainingJob", "feed", "gang"),
        "uid-gang",
        1,
        Unit.SHARDS,
        1,
        1,
        PodShape.together(parts),
        "feed",
        whole=True,
        priority=1,
    )
    snapshot = fleet(cluster("a", 10), quotas=[KEEPS])
    commitments = running(("early", 3, 2_000.0), ("late", 2, 3_000.0))

    made = run([gang, wide(1, name="one"), wide(1, name="two")], snapshot, commitments)

    assert made.reservations["a"].start_s == 2_000.0, "eight of them find room then"
    assert placed(made) == {"gang": 0, "one": 0, "two": 0}
    assert next(one for one in made.decided if one.key == gang.key).decision.reason is (
        Reason.INSUFFICIENT_CAPACITY
    )


def test_what_is_no_use_in_part_reserves_and_what_comes_in_parts_does_not() -> None:
    snapshot = fleet(cluster("a", 10), quotas=[KEEPS])
    parts = jobs(12, 12, priority=1, policy=Policy(division=Dividing(Strategy.PACK)))

    made = run([parts], snapshot, running(("runs", 10, 2_000.0)))

    assert not made.reservations


@dataclass(frozen=True)
class Job:
    submit_s: int
    run_s: int
    width: int


def played(works: Sequence[Job], sizes: Sequence[int]) -> list[tuple[str, float, float]]:
    """Plays works that end exactly when they say, one second of room reports being instant. Returns
    of each that ever reserved as the first of those that wait: its name, when it started, and when
    it was first told to."""
    commitments, queue, numbers = Commitments(), Queue(), itertools.count(1)
    asks = [
        wide(job.width, job.run_s, name=f"j{at}", created_s=float(job.submit_s))
        for at, job in enumerate(works)
    ]
    by_key = {ask.key: ask for ask in asks}
    views = [cluster(f"c{at}", size) for at, size in enumerate(sizes)]
    promised: dict[WorkloadKey, float] = {}
    started: dict[WorkloadKey, float] = {}
    events = [(job.submit_s, 1, at) for at, job in enumerate(works)]
    heapq.heapify(events)
    while events:
        now_s = events[0][0]
        due: dict[WorkloadKey, None] = {}
        while events and events[0][0] == now_s:
            _, begins, at = heapq.heappop(events)
            if begins:
                due[asks[at].key] = None
                continue
            commitment = commitments.commitment(asks[at].uid)
            assert commitment is not None
            commitments.forget(asks[at].uid)
            names = [holding.cluster for holding in commitment.holdings]
            due |= dict.fromkeys(queue.requeued_by(*(Hint(HintKind.ROOM, one) for one in names)))
        while due:
            snapshot = replace(fleet(*views, quotas=[KEEPS]), as_of=float(now_s))
            heads = [by_key[key] for key in due]
            made = cycle.run(
                [Entry(ask=ask) for ask in heads],
                queue,
                snapshot,
                commitments,
                seq=numbers.__next__,
            )
            queue.settle(due, made.inadmissible, made.reservations)
            first = min(queue.for_room(), key=ordering.standing, default=None)
            for kept in made.reservations.values():
                if kept.ask is first:
                    promised.setdefault(kept.ask.key, kept.start_s)
            for one in made.decided:
                commitments.assume(one.after)
                if one.decision.shares:
                    started[one.key] = float(now_s)
                    at = asks.index(by_key[one.key])
                    heapq.heappush(events, (now_s + works[at].run_s, 0, at))
            due = dict.fromkeys(queue.requeued_by(*made.released_hints))
    return [(key.name, started.get(key, float("inf")), when) for key, when in promised.items()]


WORKS = st.lists(
    st.builds(Job, st.integers(0, 30), st.integers(1, 20), st.integers(1, 8)),
    min_size=2,
    max_size=14,
)


@given(works=WORKS, sizes=st.lists(st.integers(4, 8), min_size=1, max_size=3))
def test_who_reserves_starts_no_later_than_without_those_who_pass_it(
    works: list[Job], sizes: list[int]
) -> None:
    """Without them it would start when enough of what runs has ended: that is what it is told, and
    what it is told holds when the others end as they say."""
    for name, started_s, told_s in played(works, sizes):
        assert started_s <= told_s, name


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"), st.integers(1, 9), st.sampled_from((2_000, 2_500, 3_000))
        ),
        max_size=12,
    ),
    st.integers(1, 14),
    st.booleans(),
)
def test_room_is_kept_where_no_other_cluster_has_it_before(
    runs: list[tuple[str, int, int]], count: int, now: bool
) -> None:
    """Of several at one time, in the first by name; though only few clusters are looked at."""
    commitments = Commitments()
    for number, (at, copies, ends_s) in enumerate(runs):
        for one in running((f"run{number}", copies, float(ends_s)), at=at):
            commitments.record(one)
    snapshot, ask = fleet(*(cluster(name, 14) for name in "abcd"), quotas=[KEEPS]), wide(count)
    kept, ledger = (
        Reservations((), (), commitments, commitments.open(snapshot)),
        commitments.open(snapshot),
    )
    starts = []
    for name in "abcd":
        (nodes, headroom), capacity = ledger.left(name), snapshot.clusters[name].capacity
        assert nodes is not None
        assert capacity is not None
        ends = [End(float(ends_s), ask.shape, copies) for at, copies, ends_s in runs if at == name]
        future = Future(capacity, nodes, headroom, ends)
        at_s = future.earliest(((ask.shape, count),))
        if now and ledger.room(name, ask.shape) >= count:
            at_s = NOW_S
        starts += [] if at_s is None else [(at_s, name)]

    made = kept.reserve(ask, now=now)

    assert (None if made is None else (made.start_s, made.cluster)) == min(starts, default=None)
