"""What clusters keep for copies that lose theirs: nobody else grows into it but Preemptible work,
which has it until then and leaves for them.
"""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest

from federator.model.ask import Ask, PodShape, Tier
from federator.model.decision import Reason
from federator.model.fleet import (
    Capacity,
    ClusterView,
    Commitment,
    FleetSnapshot,
    Holding,
    NodeRow,
)
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle, evacuation
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from federator.scheduling.queueing_hints import Hint, HintKind, Waiting, may_help
from federator.scheduling.waiting.room_claims import RoomClaim
from tests.unit.placement.fleets import commitment, commitments_with, counts, fleet, held, service

CPUS = 10
Held = tuple[Ask, tuple[Holding, ...]]


def work(name: str, tier: Tier, copies: int, **more: object) -> Ask:
    return service(copies, name=name, tier=tier, **more)  # type: ignore[arg-type]


def view(name: str, works: list[Held], **more: object) -> ClusterView:
    """A cluster of ten nodes with a cpu each, of which these copies have theirs."""
    used = sum(one.count for _, mine in works for one in mine if one.cluster == name)
    node = Resources({"cpu": 1000, "pods": 10})
    full = Resources({"pods": 9})
    rows = (NodeRow(CPUS - used, node, node), NodeRow(used, node, full))
    capacity = Capacity(rows=tuple(row for row in rows if row.count), includes_seq=2)
    return ClusterView(name, capacity=capacity, **more)  # type: ignore[arg-type]


def commitments_of(works: list[Held]) -> Commitments:
    return commitments_with(
        *(replace(commitment(*one), whole=False, priority=one[0].priority) for one in works)
    )


def run(
    entry: Entry, snapshot: FleetSnapshot, works: list[Held], commitments: Commitments | None = None
) -> Cycle:
    entries = {ask.key: Entry(ask=ask, standing=Standing(held=mine)) for ask, mine in works}
    made = cycle.run(
        [entry],
        Queue(),
        snapshot,
        commitments or commitments_of(works),
        seq=itertools.count(10).__next__,
        find=entries.get,
    )
    assert not made.failed
    return made


def got(made: Cycle, name: str) -> Mapping[str, int]:
    (one,) = [one for one in made.decided if one.key.name == name]
    return counts(one.decision)


@pytest.mark.parametrize(
    ("tier", "ordinary", "lent", "grows"),
    [
        (Tier.RESERVED, 0, 0, 6),
        (Tier.ON_DEMAND, 0, 0, 6),
        (Tier.PREEMPTIBLE, 0, 0, 10),
        (Tier.ON_DEMAND, 4, 0, 2),
        (Tier.ON_DEMAND, 6, 0, 0),
        (Tier.ON_DEMAND, 8, 0, 0),  # what failed over is in the buffer
        (Tier.PREEMPTIBLE, 8, 0, 2),
        (Tier.ON_DEMAND, 0, 3, 6),  # the lent part of the buffer counts as kept
        (Tier.ON_DEMAND, 0, 4, 6),
        (Tier.ON_DEMAND, 0, 5, 5),
        (Tier.ON_DEMAND, 4, 4, 2),
    ],
)
def test_only_preemptible_work_grows_into_a_buffer(
    tier: Tier, ordinary: int, lent: int, grows: int
) -> None:
    works = [
        (work("ordinary", Tier.ON_DEMAND, ordinary), held(b=ordinary)),
        (work("lent", Tier.PREEMPTIBLE, lent), held(b=lent)),
    ]
    works = [one for one in works if one[0].count]
    snapshot = fleet(view("b", works, buffer_permille=400))
    made = run(Entry(ask=work("new", tier, 20)), snapshot, works)
    assert sum(got(made, "new").values()) == grows
    decision = made.decided[0].decision
    says = "in b room is kept for what loses its cluster (spec.failoverBuffer)"
    assert (says in decision.message) == (tier is not Tier.PREEMPTIBLE and 10 - ordinary > grows)


def _lost(
    tier: Tier = Tier.RESERVED, lent: int = 4, **more: object
) -> tuple[Entry, FleetSnapshot, list[Held]]:
    """Four copies lose cluster a, where b has ordinary work up to its buffer, and lent the rest."""
    ask = work("api", tier, 4)
    works = [
        (ask, held(a=4)),
        (work("ordinary", Tier.ON_DEMAND, 6), held(b=6)),
        (work("batch", Tier.PREEMPTIBLE, lent, priority=1), held(b=lent)),
    ]
    works = [one for one in works if one[0].count]
    a = view("a", works, dead=True, ready=False)
    snapshot = fleet(a, view("b", works, buffer_permille=more.pop("buffer", 400)))
    return Entry(ask=ask, standing=Standing(held=held(a=4)), **more), snapshot, works  # type: ignore[arg-type]


@pytest.mark.parametrize("tier", [Tier.RESERVED, Tier.ON_DEMAND])
def test_what_loses_its_cluster_goes_into_a_buffer_that_nobody_has(tier: Tier) -> None:
    entry, snapshot, works = _lost(tier, lent=0)
    made = run(entry, snapshot, works)
    assert got(made, "api") == {"b": 4}


def test_preemptible_work_leaves_the_buffer_that_was_lent_and_the_copies_take_their_place() -> None:
    entry, snapshot, works = _lost()
    commitments = commitments_of(works)
    made = run(entry, snapshot, works, commitments)
    assert got(made, "api") == {"a": 4}, "room is taken once it is seen free"
    assert got(made, "batch") == {}
    gone = next(one.decision for one in made.decided if one.key.name == "batch")
    assert gone.preempted is not None
    assert (gone.preempted.why, gone.preempted.copies) == ("FailoverBuffer", 4)
    waits = next(one.decision for one in made.decided if one.key.name == "api")
    assert "spec.failoverBuffer of the clusters" in waits.message
    assert made.room_claims[entry.key].copies == {"b": 4}

    left = [one for one in works if one[0].key.name != "batch"]
    later = fleet(snapshot.clusters["a"], view("b", left, buffer_permille=400))
    again = run(entry, later, left)
    assert got(again, "api") == {"b": 4}


@pytest.mark.parametrize(
    "more", [{"buffer": 0}, {"may_leave": 0}], ids=["without a buffer", "before its turn"]
)
def test_nobody_leaves_without_a_buffer_or_before_a_turn(more: Mapping[str, object]) -> None:
    entry, snapshot, works = _lost(**more)  # type: ignore[arg-type]
    made = run(entry, snapshot, works)
    assert [one.key.name for one in made.decided] == ["api"]
    assert got(made, "api") == {"a": 4}


def test_no_more_leaves_than_may_move_now() -> None:
    entry, snapshot, works = _lost(may_leave=1)
    made = run(entry, snapshot, works)
    assert sum(got(made, "batch").values()) == 3


def test_preemptible_work_that_loses_its_cluster_makes_nobody_leave() -> None:
    entry, snapshot, works = _lost(Tier.PREEMPTIBLE)
    made = run(entry, snapshot, works)
    assert [one.key.name for one in made.decided] == ["api"]


def test_work_that_grows_makes_nobody_leave_a_buffer() -> None:
    _, snapshot, works = _lost()
    made = run(Entry(ask=work("new", Tier.RESERVED, 2)), snapshot, works)
    assert [one.key.name for one in made.decided] == ["new"]


def test_the_lowest_priority_leaves_first_and_then_the_newest() -> None:
    ask = work("api", Tier.RESERVED, 2)
    works = [
        (ask, held(a=2)),
        (work("ordinary", Tier.ON_DEMAND, 6), held(b=6)),
        (work("high", Tier.PREEMPTIBLE, 2, priority=5), held(b=2)),
        (work("old", Tier.PREEMPTIBLE, 1), held(b=1)),
        (work("new", Tier.PREEMPTIBLE, 1), (Holding("b", 1, 1, 2),)),
    ]
    commitments = commitments_of(works)
    for wanted, gone in ((1, ["new"]), (2, ["new", "old"])):
        a = view("a", works, dead=True, ready=False)
        snapshot = fleet(a, view("b", works, buffer_permille=400))
        entry = Entry(ask=ask, standing=Standing(held=held(a=2)), may_leave=wanted)
        made = run(entry, snapshot, works, commitments)
        left = sorted(one.key.name for one in made.decided if one.beneficiary != one.key)
        assert left == gone


@pytest.mark.parametrize(("buffer", "stays"), [(400, 0), (0, 4)])
def test_a_rehearsal_counts_what_was_lent_as_room(buffer: int, stays: int) -> None:
    entry, snapshot, works = _lost(buffer=buffer)
    well = {name: replace(one, dead=False, ready=True) for name, one in snapshot.clusters.items()}
    entries = {ask.key: Entry(ask=ask, standing=Standing(held=mine)) for ask, mine in works}

    def other(key: WorkloadKey) -> Entry | None:
        return entries.get(key)

    commitments = commitments_of(works)
    numbers = itertools.count(10)
    (rehearsed,) = evacuation.rehearse(
        [entry],
        replace(snapshot, clusters=well),
        commitments,
        ["a"],
        numbers.__next__,
        others=other,
    )
    assert (rehearsed.before, rehearsed.stays) == (4, stays)
    assert bool(rehearsed.why) == bool(stays)
    batch = commitments.commitment("uid-batch")
    assert isinstance(batch, Commitment)
    assert batch.copies == (0 if buffer else 4), "what it leaves is not given twice"


def test_what_preemptible_work_holds_is_known_by_cluster() -> None:
    commitments = Commitments()
    asked = work("batch", Tier.PREEMPTIBLE, 5)
    commitments.record(commitment(asked, held(a=2, b=3)))
    commitments.record(commitment(work("web", Tier.ON_DEMAND, 5), held(a=5)))
    assert commitments.preemptible("a")["cpu"] == 2000
    assert commitments.copy().preemptible("b")["cpu"] == 3000
    commitments.record(commitment(asked, held(b=1)))
    assert commitments.preemptible("a") == Resources()
    assert commitments.preemptible("b")["cpu"] == 1000
    assert commitments.as_now("uid-web", {}).preemptible("b")["cpu"] == 1000
    commitments.forget("uid-batch")
    assert commitments.preemptible("b") == Resources()


def test_nobody_leaves_where_no_node_could_ever_hold_the_copy() -> None:
    """By the sums four copies of a cpu make room for two of two cpus, on nodes of one cpu each."""
    ask = work("api", Tier.RESERVED, 2, shape=PodShape(Resources({"cpu": 2000})))
    works = [(ask, held(a=2)), (work("batch", Tier.PREEMPTIBLE, 10), held(b=10))]
    a = view("a", works, dead=True, ready=False)
    snapshot = fleet(a, view("b", works, buffer_permille=400))
    made = run(Entry(ask=ask, standing=Standing(held=held(a=2))), snapshot, works)
    assert [one.key.name for one in made.decided] == ["api"]
    assert not made.room_claims


def test_what_is_left_over_on_full_nodes_is_no_reason_to_give_away_a_claimed_node() -> None:
    """Two nodes are free for two copies, and eight have a tenth of a cpu left each: by the sums one
    more would fit."""
    shape = PodShape(Resources({"cpu": 900}))
    api = work("api", Tier.RESERVED, 2, shape=shape)
    batch = work("batch", Tier.PREEMPTIBLE, 3, shape=shape)
    node = Resources({"cpu": 1000, "pods": 10})
    rows = (NodeRow(2, node, node), NodeRow(8, node, Resources({"cpu": 100, "pods": 9})))
    snapshot = fleet(ClusterView("b", capacity=Capacity(rows=rows)))
    for claimed, gets in ((2, {}), (1, {"b": 1}), (0, {"b": 2})):
        queue, waits = Queue(), Waiting(api.key, "feed", Reason.INSUFFICIENT_CAPACITY)
        claim = RoomClaim(api, {"b": claimed}, snapshot.as_of + 60)
        queue.settle([api.key], {api.key: waits}, room_claims={api.key: claim})
        numbers = itertools.count(10).__next__
        made = cycle.run([Entry(ask=batch)], queue, snapshot, Commitments(), seq=numbers)
        assert got(made, "batch") == gets


def test_what_left_for_its_room_is_requeued_when_there_is_room() -> None:
    entry, snapshot, works = _lost()
    made = run(entry, snapshot, works)
    waits = made.inadmissible[works[2][0].key]
    assert waits.reason is Reason.PREEMPTED
    assert may_help(Hint(HintKind.ROOM, "b"), waits)
    assert may_help(Hint(HintKind.CLUSTER, "c"), waits)
    assert may_help(Hint(HintKind.QUOTA), waits), "its quota may be gone when it comes back"
