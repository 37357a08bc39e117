"""Ordered groups of clusters (`division.groups`): copies overflow into later groups in order, and leave
them in the reverse order.
"""

from collections.abc import Mapping

import pytest

from federator.model.decision import Decision
from federator.model.fleet import FleetSnapshot
from federator.model.policy import Division, Group, Policy, Strategy
from federator.placement.selection.leaving import Allowance
from tests.unit.placement.fleets import (
    cluster,
    counts,
    decide,
    fleet,
    held,
    holdings,
    jobs,
    service,
)

GROUPS = (
    Group("own", names=("d", "b")),
    Group("near", names=("a", "e")),
    Group("far", names=("c",)),
)
ROOM = {"d": 3, "b": 2, "a": 4, "e": 2, "c": 5}
FULL = held(**ROOM)
DIVIDED = (Strategy.WEIGHTED, Strategy.CAPACITY, Strategy.PACK, Strategy.SPREAD)


def ordered(strategy: Strategy, *, fresh: bool = False) -> Policy:
    return Policy(name="p", division=Division(strategy, groups=GROUPS, fresh=fresh))


def clusters(**room: int) -> FleetSnapshot:
    return fleet(*(cluster(name, copies) for name, copies in (ROOM | room).items()))


def by_group(copies: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sum(copies.get(name, 0) for name in group.names) for group in GROUPS)


@pytest.mark.parametrize("strategy", DIVIDED)
def test_groups_contract_in_the_reverse_of_the_order_in_which_they_overflowed(
    strategy: Strategy,
) -> None:
    snapshot, copies, grown = clusters(), dict[str, int](), {}
    for count in range(1, 17):
        given = held(**copies)
        copies = dict(counts(decide(service(count, policy=ordered(strategy)), snapshot, given)))
        grown[count] = by_group(copies)
    assert {count: grown[count] for count in (5, 11, 16)} == {
        5: (5, 0, 0),
        11: (5, 6, 0),
        16: (5, 6, 5),
    }

    for count in range(15, 0, -1):
        given, before = held(**copies), copies
        copies = dict(counts(decide(service(count, policy=ordered(strategy)), snapshot, given)))
        assert by_group(copies) == grown[count]
        assert all(copies.get(name, 0) <= had for name, had in before.items())


def test_a_job_set_that_runs_fewer_shards_at_once_leaves_later_groups_first() -> None:
    policy, snapshot = ordered(Strategy.CAPACITY), clusters()
    first = decide(jobs(40, 16, policy=policy), snapshot)
    assert slots(first) == (5, 6, 5)
    fewer = decide(jobs(40, 9, policy=policy), snapshot, holdings(first.shares))
    assert slots(fewer) == (5, 4, 0)


def slots(decision: Decision) -> tuple[int, ...]:
    return by_group({share.cluster: share.slots for share in decision.shares})


@pytest.mark.parametrize("strategy", DIVIDED)
@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(16, (5, 6, 5), id="running copies stay"),
        pytest.param(18, (7, 6, 5), id="new copies use the earlier group"),
        pytest.param(13, (5, 6, 2), id="the last group shrinks first"),
        pytest.param(9, (5, 4, 0), id="then the one before it"),
    ],
)
def test_an_earlier_group_with_room_again_keeps_its_copies_and_gets_the_new_ones(
    strategy: Strategy, count: int, expected: tuple[int, ...]
) -> None:
    decision = decide(service(count, policy=ordered(strategy)), clusters(d=30), FULL)
    assert by_group(counts(decision)) == expected


@pytest.mark.parametrize("strategy", DIVIDED)
@pytest.mark.parametrize(
    ("budget", "expected"),
    [(1, (6, 6, 4)), (5, (10, 6, 0)), (8, (13, 3, 0)), (12, (16, 0, 0))],
)
def test_a_rebalance_moves_copies_of_the_last_group_back_first(
    strategy: Strategy, budget: int, expected: tuple[int, ...]
) -> None:
    decision = decide(
        service(16, policy=ordered(strategy, fresh=True)),
        clusters(d=30),
        FULL,
        leave=lambda moving, forced: Allowance(budget),
    )
    assert by_group(counts(decision)) == expected
