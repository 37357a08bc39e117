"""The invariants that any decision must keep, on random fleets; and Webster's method against exact
fractions.
"""

import dataclasses
from collections.abc import Mapping
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from federator.model import decision as decisions
from federator.model import shards
from federator.model.ask import Ask, Tier, Unit
from federator.model.decision import Decision, Reason
from federator.model.fleet import Commitment, FleetSnapshot, Holding, copies_of
from federator.model.policy import Division, Group, Policy, Strategy
from federator.model.shards import Ranges
from federator.placement import engine
from federator.placement.division import division
from federator.placement.division.division import Party
from federator.placement.room.commitments import Commitments
from federator.placement.selection.candidates import NOBODY
from tests.unit.placement import invariants, worlds
from tests.unit.placement.fleets import cluster, fleet, jobs
from tests.unit.placement.invariants import Case


def booked(ask: Ask, held: tuple[Holding, ...]) -> Commitments:
    commitments = Commitments()
    if held:
        commitments.record(
            Commitment(ask.uid, ask.key, ask.project, ask.key.namespace, ask.tier, ask.shape, held)
        )
    return commitments


def decided(
    ask: Ask,
    held: tuple[Holding, ...],
    snapshot: FleetSnapshot,
    finished: Ranges = (),
    capped: Mapping[str, int] = NOBODY,
    *,
    per_cluster: int = 0,
) -> Case:
    commitments = booked(ask, held)
    before = commitments.open(snapshot)
    room = {name: before.room(name, ask.shape) for name in snapshot.clusters}
    decision = engine.decide(
        ask,
        held,
        snapshot,
        commitments.open(snapshot),
        seq=50,
        capped=capped,
        finished=finished,
        per_cluster=per_cluster,
    )
    return Case(ask, held, snapshot, decision, room, finished, per_cluster)


@st.composite
def cases(
    draw: st.DrawFn, *, plain: bool = False
) -> tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges]:
    ask = draw(worlds.asks(plain=plain))
    done = shards.normal(draw(worlds.finished)) if ask.unit is Unit.SHARDS else ()
    return ask, draw(worlds.holdings(ask)), draw(worlds.snapshots()), done


@given(cases(), worlds.capped)
def test_every_invariant_holds_of_every_decision(
    given_: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges], capped: Mapping[str, int]
) -> None:
    ask, held, snapshot, done = given_
    case = decided(ask, held, snapshot, done, capped)
    assert invariants.check(case) == []
    assert all(verdict.message for verdict in case.decision.verdicts)
    assert len(case.decision.verdicts) == len(snapshot.clusters)


@given(cases(), worlds.capped)
def test_reasons_and_the_record_are_those_of_all_verdicts_whenever_these_are_worded(
    given_: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges], capped: Mapping[str, int]
) -> None:
    ask, held, snapshot, done = given_
    said = decided(ask, held, snapshot, done, capped).decision.verdicts
    reasons, grouped = list(decisions.reasons(said)), decisions.grouped(said)
    every = tuple(said)
    assert [(verdict.cluster, verdict.reason) for verdict in every] == reasons
    assert list(decisions.reasons(said)) == reasons
    assert dataclasses.replace(grouped, plain=False) == decisions.grouped(every)


@given(cases(), worlds.capped)
def test_the_order_of_the_input_does_not_matter(
    given_: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges], capped: Mapping[str, int]
) -> None:
    ask, held, snapshot, done = given_
    turned = FleetSnapshot(
        snapshot.as_of,
        {name: snapshot.clusters[name] for name in reversed(list(snapshot.clusters))},
        tuple(reversed(snapshot.quotas)),
    )
    other_way = decided(ask, held[::-1], turned, done, dict(list(capped.items())[::-1]))
    assert decided(ask, held, snapshot, done, capped).decision == other_way.decision


def replayed(case: Case, capped: Mapping[str, int] = NOBODY) -> Decision:
    held = tuple(
        Holding(one.cluster, one.count, one.slots, one.seq, one.ranges)
        for one in case.decision.shares
    )
    return engine.decide(
        case.ask,
        held,
        case.snapshot,
        booked(case.ask, held).open(case.snapshot),
        seq=60,
        capped=capped,
        previous_hash=case.decision.inputs_hash,
        finished=case.finished,
    )


@given(cases(), worlds.capped)
def test_asking_again_with_unchanged_inputs_moves_nothing(
    given_: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges], capped: Mapping[str, int]
) -> None:
    """More may be placed (a gang's first members, say), but nobody who has something loses it."""
    ask, held, snapshot, done = given_
    assume(not ask.suspended)
    case = decided(ask, held, snapshot, done, capped)
    again = replayed(case, capped)
    for share in case.decision.shares:
        now = again.share_of(share.cluster)
        assert now is not None
        assert now.count >= share.count
        assert not shards.minus(share.ranges, now.ranges)


def test_who_leaves_under_a_policy_that_cannot_be_followed_leaves_in_one_decision() -> None:
    """With its finished shards: with only these it would be no holder in the next decision."""
    policy = Policy(
        division=Division(strategy=Strategy.DUPLICATE, groups=(Group("g", names=("a",)),))
    )
    ask = jobs(5, 1, policy=policy)
    had = (
        Holding("a", 1, 0, 1, ((0, 0),)),
        Holding("b", 1, 1, 1, ((1, 1),)),
        Holding("c", 2, 1, 1, ((2, 3),)),
    )
    snapshot = fleet(*(cluster(name, 4) for name in "abcd"))

    case = decided(ask, had, snapshot, ((0, 0), (2, 2)), {})

    assert {share.cluster: share.ranges for share in case.decision.shares} == {
        "a": ((0, 0),),
        "b": ((1, 1), (3, 4)),
    }
    assert replayed(case).shares == case.decision.shares


@given(cases(plain=True), st.sampled_from(worlds.NAMES))
def test_losing_a_cluster_moves_only_its_share(
    given_: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges], lost: str
) -> None:
    ask, _, snapshot, done = given_
    first = decided(ask, (), snapshot, done)
    held = tuple(
        Holding(one.cluster, one.count, one.slots, one.seq, one.ranges)
        for one in first.decision.shares
    )
    left = FleetSnapshot(
        snapshot.as_of,
        {name: view for name, view in snapshot.clusters.items() if name != lost},
        snapshot.quotas,
    )
    after = engine.decide(ask, held, left, booked(ask, held).open(left), seq=60, finished=done)
    for share in first.decision.shares:
        now = after.share_of(share.cluster)
        if share.cluster != lost:
            assert now is not None
            assert not shards.minus(share.ranges, now.ranges)
            assert now.count >= share.count


@given(cases(plain=True), st.sampled_from(worlds.NAMES), st.integers(1, 3))
def test_more_room_never_places_fewer(
    given_: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges], name: str, nodes: int
) -> None:
    ask, _, snapshot, done = given_
    view = snapshot.clusters.get(name)
    assume(view is not None and view.capacity is not None and view.capacity.rows)
    assert view is not None
    assert view.capacity is not None
    row = view.capacity.rows[0]
    extra = dataclasses.replace(row, count=nodes, free=row.allocatable)
    more = dataclasses.replace(view.capacity, rows=(*view.capacity.rows, extra), copies={})
    small = dataclasses.replace(view, capacity=dataclasses.replace(view.capacity, copies={}))
    smaller = dataclasses.replace(snapshot, clusters={**snapshot.clusters, name: small})
    larger = dataclasses.replace(
        snapshot, clusters={**snapshot.clusters, name: dataclasses.replace(view, capacity=more)}
    )
    before, after = (
        decided(ask, (), smaller, done).decision,
        decided(ask, (), larger, done).decision,
    )
    assert sum(share.slots for share in after.shares) >= sum(share.slots for share in before.shares)
    assert after.shortfall <= before.shortfall


@given(st.lists(st.tuples(worlds.asks(), st.booleans()), max_size=6), worlds.snapshots())
def test_a_batch_never_exceeds_quota_or_room_and_the_books_always_add_up(
    batch: list[tuple[Ask, bool]], snapshot: FleetSnapshot
) -> None:
    commitments = Commitments()
    ledger = commitments.open(snapshot)
    made: list[tuple[Commitment, bool]] = []
    for index, (plan, deleted) in enumerate(batch):
        ask = dataclasses.replace(plan, uid=f"uid-{index}")
        room = {name: ledger.room(name, ask.shape) for name in snapshot.clusters}
        decision = engine.decide(ask, (), snapshot, ledger, seq=10 + index)
        assert invariants.check(Case(ask, (), snapshot, decision, room)) == []
        made.append((Commitment.of(ask, decision.shares), deleted))
    usage = {
        (project, tier): ledger.usage(project, tier)
        for project in ("feed", "ads", "free")
        for tier in Tier
    }
    for one, _ in made:
        commitments.assume(one)
        assert invariants.check_commitments(commitments, snapshot) == []
    assert usage == {account: commitments.usage(*account) for account in usage}
    for one, deleted in made:
        if deleted:
            commitments.forget(one.uid)
            commitments.forget(one.uid)
            assert invariants.check_commitments(commitments, snapshot) == []


@given(cases(), cases())
def test_what_is_rolled_back_was_never_given(
    first: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges],
    second: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges],
) -> None:
    ask, held, snapshot, done = first
    other = dataclasses.replace(second[0], uid="uid-other")
    commitments = booked(ask, held)
    untouched = engine.decide(other, (), snapshot, commitments.open(snapshot), seq=60)
    ledger = commitments.open(snapshot)
    mark = ledger.mark()
    engine.decide(ask, held, snapshot, ledger, seq=50, finished=done)
    ledger.rollback(mark)
    assert engine.decide(other, (), snapshot, ledger, seq=60) == untouched


parties = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 40), st.integers(0, 5)), min_size=1, max_size=7
)


def built(given_: list[tuple[int, int, int]]) -> list[Party]:
    return [Party(f"c{i}", weight, cap, floor) for i, (weight, cap, floor) in enumerate(given_)]


def by_fractions(given_: list[tuple[int, int, int]], total: int) -> list[int]:
    """Webster's method said plainly, one seat at a time."""
    built_ = built(given_)
    seats = [0] * len(built_)
    left = total
    for i in sorted(range(len(built_)), key=lambda i: (-built_[i].weight, built_[i].name)):
        seats[i] = min(built_[i].floor, built_[i].cap, left)
        left -= seats[i]
    while left:
        able = [i for i, party in enumerate(built_) if seats[i] < party.cap and party.weight]
        if not able:
            break
        best = min(
            able,
            key=lambda i: (-Fraction(built_[i].weight, 2 * seats[i] + 1), seats[i], built_[i].name),
        )
        seats[best] += 1
        left -= 1
    return seats


@given(parties, st.integers(0, 150))
def test_division_is_websters_method_in_exact_fractions(
    given_: list[tuple[int, int, int]], total: int
) -> None:
    divided = built(given_)
    missing = division.divide(divided, total)
    assert [party.seats for party in divided] == by_fractions(given_, total)
    assert sum(party.seats for party in divided) + missing == total


@given(parties, st.integers(0, 150))
def test_one_copy_more_takes_none_from_anybody(
    given_: list[tuple[int, int, int]], total: int
) -> None:
    fewer, more = built(given_), built(given_)
    division.divide(fewer, total)
    division.divide(more, total + 1)
    assert all(one.seats <= other.seats for one, other in zip(fewer, more, strict=True))


@given(parties, st.integers(0, 100), st.integers(0, 100))
def test_growing_and_shrinking_pass_through_the_same_divisions(
    given_: list[tuple[int, int, int]], low: int, more: int
) -> None:
    direct, there_and_back = built(given_), built(given_)
    division.divide(direct, low)
    if division.divide(there_and_back, low + more) == 0:
        floors = sum(min(party.floor, party.cap) for party in direct)
        assume(low >= floors)
        division.divide(there_and_back, low)
        assert [one.seats for one in there_and_back] == [one.seats for one in direct]


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)), min_size=1, max_size=6),
    st.integers(0, 10**6),
)
def test_large_divisions_give_every_seat_that_fits(
    given_: list[tuple[int, int]], total: int
) -> None:
    divided = [Party(f"c{i}", weight, cap) for i, (weight, cap) in enumerate(given_)]
    missing = division.divide(divided, total)
    assert missing == max(total - sum(cap for _, cap in given_), 0)
    assert sum(party.seats for party in divided) == total - missing


@given(cases())
def test_a_decision_with_nothing_missing_says_so_and_every_other_names_its_constraint(
    given_: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges],
) -> None:
    ask, held, snapshot, done = given_
    decision = decided(ask, held, snapshot, done).decision
    if decision.shortfall:
        assert decision.reason is not Reason.CHOSEN
    assert decision.message


@given(cases())
def test_holdings_count_what_may_run_at_once(
    given_: tuple[Ask, tuple[Holding, ...], FleetSnapshot, Ranges],
) -> None:
    ask, held, snapshot, done = given_
    decision = decided(ask, held, snapshot, done).decision
    running = sum(
        copies_of(Holding(one.cluster, one.count, one.slots, 0, one.ranges))
        for one in decision.shares
    )
    assert running == sum(min(one.slots, one.count) for one in decision.shares)
