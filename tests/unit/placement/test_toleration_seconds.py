"""Taints that people set and a workload tolerates for a time: copies stay that long, then leave at
the pace of moves.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from federator.model.ask import Ask
from federator.model.decision import Reason
from federator.model.fleet import ClusterView
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.policy import Demand, Policy
from federator.placement import everynode, inputs
from federator.placement.policy import enforcing, tolerating
from federator.placement.selection.leaving import OVERDUE, Allowance
from tests.unit.placement.fleets import POD, cluster, counts, decide, fleet, held, service

OLD = Taint("old", "", "NoExecute")
NOW_S = 1000.0
"""Of the fleets."""


def tolerating_for(*seconds: int) -> Policy:
    return Policy(
        tolerations=tuple(Toleration("old", "Exists", "", "NoExecute", each) for each in seconds)
    )


def tainted(copies: int = 10, *, added_s: float | None = NOW_S) -> ClusterView:
    times = () if added_s is None else ((OLD, added_s),)
    return cluster("a", copies, taints=(OLD,), tainted_s=times)


def ask(count: int, policy: Policy) -> Ask:
    return service(count, policy=policy)


@pytest.mark.parametrize(
    ("policy", "added_s", "expected"),
    [
        (tolerating_for(60), NOW_S, {"a": 4}),
        (tolerating_for(60), NOW_S - 59, {"a": 4}),
        (tolerating_for(60), NOW_S - 60, {"b": 4}),
        (tolerating_for(60), None, {"a": 4}),
        (tolerating_for(0), None, {"b": 4}),
        (tolerating_for(-1), NOW_S - 9999, {"a": 4}),
        (tolerating_for(-1, 60), NOW_S - 61, {"b": 4}),
        (tolerating_for(60, 30), NOW_S - 31, {"b": 4}),
        (Policy(), NOW_S, {"b": 4}),
    ],
)
def test_copies_stay_for_the_shortest_toleration(
    policy: Policy, added_s: float | None, expected: Mapping[str, int]
) -> None:
    snapshot = fleet(tainted(added_s=added_s), cluster("b", 10))
    assert counts(decide(ask(4, policy), snapshot, held(a=4))) == expected


def test_no_new_copies_begin_on_a_cluster_whose_taint_is_tolerated_for_a_time() -> None:
    decision = decide(ask(6, tolerating_for(60)), fleet(tainted(), cluster("b", 10)), held(a=4))
    assert counts(decision) == {"a": 4, "b": 2}
    decision = decide(ask(6, tolerating_for(60)), fleet(tainted()))
    assert (counts(decision), decision.reason) == ({}, Reason.TAINTED)
    assert "tolerated for 60 s only (tolerationSeconds)" in decision.message
    assert counts(decide(ask(6, tolerating_for(-1)), fleet(tainted()))) == {"a": 6}


def test_copies_leave_within_the_move_budget_and_stay_without_another_place() -> None:
    seen: list[tuple[int, Mapping[str, int]]] = []

    def leave(moving: int, forced: Mapping[str, int]) -> Allowance:
        seen.append((moving, dict(forced)))
        return Allowance(2, ", in turn")

    late = tainted(added_s=NOW_S - 60)
    decision = decide(
        ask(6, tolerating_for(60)), fleet(late, cluster("b", 10)), held(a=6), leave=leave
    )
    assert seen == [(6, {OVERDUE: 6})]
    assert counts(decision) == {"a": 4, "b": 2}
    assert (decision.moved, decision.to_move) == (2, 4)
    assert counts(decide(ask(6, tolerating_for(60)), fleet(late), held(a=6))) == {"a": 6}


def test_a_required_policy_may_tolerate_for_a_shorter_time() -> None:
    demand = Demand(name="strict", tolerations=tolerating_for(10).tolerations)
    policy = enforcing.combined(tolerating_for(-1), [demand])
    snapshot = fleet(tainted(added_s=NOW_S - 11), cluster("b", 10))
    assert counts(decide(ask(4, policy), snapshot, held(a=4))) == {"b": 4}


def test_a_daemon_leaves_when_its_toleration_ends() -> None:
    shape = replace(POD, one_per_node=True, every_node=True)
    daemon = replace(ask(1, everynode.policy_of(tolerating_for(60))), shape=shape)
    for added_s, there in ((NOW_S - 59, ["a", "b"]), (NOW_S - 60, ["b"])):
        snapshot = fleet(tainted(added_s=added_s), cluster("b", 10))
        assert sorted(counts(decide(daemon, snapshot, held(a=1, b=1)))) == there


def test_the_inputs_hash_changes_when_a_toleration_ends_and_at_no_other_time() -> None:
    def hashed(added_s: float, **more: Any) -> str:
        wants = ask(4, tolerating_for(60))
        return inputs.inputs_hash(wants, fleet(tainted(added_s=added_s), cluster("b", 9)), **more)

    assert hashed(NOW_S) == hashed(NOW_S - 59) != hashed(NOW_S - 60) == hashed(NOW_S - 900)
    memo: dict[Any, Any] = {}
    assert hashed(NOW_S, memo=memo) != hashed(NOW_S - 60, memo=memo)


def test_the_next_end_of_a_toleration_is_known() -> None:
    snapshot = fleet(tainted(added_s=NOW_S - 20), cluster("b", 9))
    assert tolerating.ends_in_s(ask(4, tolerating_for(60)), snapshot) == 40.0
    assert tolerating.ends_in_s(ask(4, tolerating_for(10)), snapshot) is None
    assert tolerating.ends_in_s(ask(4, tolerating_for(-1)), snapshot) is None
