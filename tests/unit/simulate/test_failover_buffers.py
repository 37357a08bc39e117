"""The loss of a cluster while others lend what they keep for it: Reserved work takes it back in the
same instant, however many are due with it, and in steps where what leaves lies on several nodes."""

import pytest

from federator.model.ask import Tier
from federator.scheduling.waiting.room_claims import WAITS_S
from federator.simulate.demand import Work
from federator.simulate.engine import run
from federator.simulate.inputs import Event, EventKind, Inputs
from tests.unit.simulate.fleets import cluster, inputs_of, lives, nodes, service, simulate

LOST_S = 100


def _inputs(reserved: list[Work], lent: int, machines: int, end_s: int = 1000) -> Inputs:
    """Reserved work in a; b joins later, and work of tier Preemptible has all of it."""
    b = cluster("b", nodes(machines), buffer_permille=500)
    joins = Event(30, EventKind.ADDED, "b", view=b)
    lost = Event(LOST_S, EventKind.LOST, "a")
    batch = [
        service(f"batch-{at:03}", 60 + at // 100, 1, tier=Tier.PREEMPTIBLE) for at in range(lent)
    ]
    a = cluster("a", nodes(1, cpu=4000))
    return inputs_of([a], [*reserved, *batch], joins, lost, end_s=end_s)


@pytest.mark.parametrize("due_at_once", [4, run.HEADS_MAX], ids=["few", "one batch"])
def test_who_would_leave_is_due_in_another_cycle_of_the_same_instant(
    due_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "HEADS_MAX", due_at_once)
    reserved = [service(f"api-{at}", 0, 1, tier=Tier.RESERVED) for at in range(4)]
    by_id = lives(simulate(_inputs(reserved, 8, 2)))
    for work in reserved:
        stays = [(stay.cluster, stay.start_s, stay.end_s) for stay in by_id[work.id].stays]
        assert stays == [("a", 0, LOST_S), ("b", LOST_S, None)], work.id
    left = [name for name, life in by_id.items() if life.preempted]
    assert left == [f"batch-{at:03}" for at in range(4, 8)], "the newest leave, and no more"


def test_what_leaves_on_several_nodes_is_not_enough_and_more_leave_a_while_later() -> None:
    """Four copies of a cpu leave two nodes of four, and a copy of four fits on neither."""
    large = service("api", 0, 1, cpu_milli=4000, tier=Tier.RESERVED)
    by_id = lives(simulate(_inputs([large], 8, 2)))
    (wait,) = by_id["api"].waits
    assert (wait.start_s, wait.end_s) == (LOST_S, LOST_S + WAITS_S)
    assert by_id["api"].stays[-1].end_s is None
    lent = [life.stays[-1] for name, life in by_id.items() if name != "api"]
    back = [stay.start_s for stay in lent if stay.end_s is None]
    assert back == [LOST_S + WAITS_S] * 4, "what is left is lent again at once"


def test_nobody_leaves_for_what_no_node_of_the_cluster_could_ever_hold() -> None:
    larger = service("api", 0, 1, cpu_milli=6000, tier=Tier.RESERVED)
    played = _inputs([larger], 8, 2)
    a = cluster("a", nodes(1, cpu=8000))
    by_id = lives(simulate(inputs_of([a], played.works, *played.events, end_s=1000)))
    assert by_id["api"].waits[-1].end_s is None
    assert not any(life.preempted for life in by_id.values())
