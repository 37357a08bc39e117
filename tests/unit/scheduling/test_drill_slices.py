"""A drill works in slices: how many workloads come next follows from how long the last ones took."""

from collections.abc import Sequence

import pytest

from federator.model.fleet import FleetSnapshot, Holding
from federator.model.names import WorkloadKey
from federator.placement.room.commitments import Commitments
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import Loss, Tally
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.evacuation import Rehearsed
from tests.unit.placement.fleets import cluster, commitment, fleet, service

LOSS = Loss("a", ("a",))


def entry(name: str) -> Entry:
    return Entry(ask=service(1, name=name), standing=Standing(held=(Holding("a", 1, 1, 1),)))


class Work:
    """Workloads that each take some time to rehearse."""

    def __init__(self, *each_s: float) -> None:
        self.entries = {made.key: made for made in map(entry, map(str, range(len(each_s))))}
        self.each_s = dict(zip(self.entries, each_s, strict=True))
        self.now_s, self.slices = 0.0, list[list[WorkloadKey]]()

    def rehearse(self, entries: Sequence[Entry]) -> list[Rehearsed]:
        self.slices.append([made.key for made in entries])
        self.now_s += sum(self.each_s[made.key] for made in entries)
        return [Rehearsed(made.key, None, 1, 0, "") for made in entries]

    def run(self) -> tuple[list[float], drill.DrillResult]:
        tally = Tally(LOSS)
        took = drill.in_slices(
            self.entries, self.entries.get, self.rehearse, tally, lambda: self.now_s
        )
        return list(took), tally.outcome(300)


@pytest.mark.parametrize("each_s", [0.0001, 0.0005, 0.001, 0.0024], ids=str)
def test_no_slice_takes_longer_than_its_time(each_s: float) -> None:
    work = Work(*[each_s] * 300)

    took, outcome = work.run()

    assert max(took) <= drill.SLICE_S
    assert outcome.workloads == outcome.copies == 300
    assert [key for some in work.slices for key in some] == list(work.entries)
    # and no more turns are taken than that needs
    assert len(took) <= 8 + 300 / min(drill.MOST, max(1, int(0.5 * drill.SLICE_S / each_s)))


def test_after_workloads_that_take_long_fewer_come_at_once() -> None:
    work = Work(*[0.0001] * 100, *[0.02] * 20, *[0.0001] * 100)

    took, _ = work.run()

    long = [some for some in work.slices if any(work.each_s[key] > 0.01 for key in some)]
    assert {len(some) for some in long[2:-1]} == {1}, "one is never cut in two"
    assert len(work.slices[-2]) > 10, "and more again when they are quick"
    assert sum(took) == pytest.approx(work.now_s)


def test_where_work_takes_no_time_the_count_bounds_a_slice() -> None:
    work = Work(*[0.0] * 500)

    work.run()

    assert max(map(len, work.slices)) == drill.MOST


def test_what_is_gone_when_its_turn_comes_is_left_out() -> None:
    work, tally = Work(0.001, 0.001), Tally(LOSS)
    first = next(iter(work.entries))

    for _ in drill.in_slices(
        [first, WorkloadKey("PinterestService", "n", "gone")],
        work.entries.get,
        work.rehearse,
        tally,
        lambda: work.now_s,
    ):
        pass

    assert tally.outcome(300).workloads == 1


def test_slices_come_to_what_all_at_once_comes_to() -> None:
    """Each slice is decided above what the ones before it were given."""
    snapshot = fleet(cluster("a", 40), cluster("b", 7), cluster("c", 5))
    entries = {made.key: made for made in (entry(f"w{at:02d}") for at in range(20))}

    def commitments() -> Commitments:
        made = Commitments()
        for one in entries.values():
            made.record(commitment(one.ask, one.standing.held))
        return made

    def outcome(snapshot: FleetSnapshot, held: Commitments, most: int) -> drill.DrillResult:
        tally, seq = Tally(LOSS), iter(range(100, 1000))

        def rehearse(some: Sequence[Entry]) -> list[Rehearsed]:
            return evacuation.rehearse(
                some, snapshot, held, LOSS.clusters, seq.__next__, others=entries.get
            )

        if most:
            tally.add(rehearse(list(entries.values())), {k: e.ask.tier for k, e in entries.items()})
        else:
            for _ in drill.in_slices(entries, entries.get, rehearse, tally, lambda: 0.0):
                pass
        return tally.outcome(300)

    at_once = outcome(snapshot, commitments(), 1)
    assert outcome(snapshot, commitments(), 0) == at_once
    assert sum(one.copies for one in at_once.unplaced) == 8
