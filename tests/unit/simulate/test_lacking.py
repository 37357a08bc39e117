"""Those that lack copies are counted by kind as they would be if all were looked at."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from federator.placement.policy.policies import Bindings, Policies
from federator.simulate.engine.asks import Asks
from federator.simulate.engine.lacking import Lacking
from federator.simulate.engine.running import Running
from federator.simulate.engine.shapes import Shapes
from federator.simulate.outcome import FOR_CAPACITY
from tests.unit.simulate.fleets import job, service

ASKS = Asks(Policies(()), Bindings(()), Shapes())
WORKS = [
    *(job(f"job{at}", 0, 60, 1 + at % 2) for at in range(4)),
    *(service(f"web{at}", 0, 3) for at in range(3)),
]
REASONS = ["InsufficientCapacity", "ExceedsMaxQuota", "ClusterUnhealthy"]
STEPS = st.tuples(
    st.sampled_from(["put", "drop", "scale"]),
    st.integers(0, len(WORKS) - 1),
    st.integers(1, 4),
    st.sampled_from(REASONS),
)


def counted(lacking: Lacking) -> Counter[tuple[int, int, int, bool]]:
    said = Counter[tuple[int, int, int, bool]]()
    for lack in lacking.grouped():
        said[id(lack.shape), lack.missing, lack.together, lack.for_room] += lack.copies
    return said


@given(st.lists(STEPS, max_size=40))
def test_what_comes_and_goes_is_counted_as_if_all_were_looked_at(
    steps: list[tuple[str, int, int, str]],
) -> None:
    lacking, waiting = Lacking(), dict[int, Running]()
    every = [Running(work, ASKS.of(work)) for work in WORKS]
    for what, at, copies, reason in steps:
        running = every[at]
        if what == "put":
            running.waits_from(0, reason)
            lacking.put(running)
            waiting[at] = running
        elif what == "drop":
            lacking.drop(running.ask.key)
            waiting.pop(at, None)
        elif not running.is_job:
            running.ask = ASKS.of(running.work, copies, 1)
            lacking.renew(running.ask.key)
    expected = Counter[tuple[int, int, int, bool]]()
    for running in waiting.values():
        gang = running.ask.policy.division.max_clusters == 1
        together = running.missing if gang else 1
        for_room = running.waiting_for in FOR_CAPACITY
        kind = (id(running.ask.shape), running.missing, together, for_room)
        expected[kind] += running.missing

    assert len(lacking) == len(waiting)
    assert counted(lacking) == expected

    for at, running in waiting.items():
        running.waits_from(1, REASONS[at % 3])
    lacking.renew()
    assert sum(counted(lacking).values()) == sum(expected.values())
    room = [running for running in waiting.values() if running.waiting_for in FOR_CAPACITY]
    assert sum(count for kind, count in counted(lacking).items() if kind[-1]) == sum(
        running.missing for running in room
    )
