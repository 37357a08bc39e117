"""A cluster that the hub has tainted because it is silent: who may leave it, how many, and who never does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from federator.model.ask import Ask
from federator.model.decision import Reason
from federator.model.kubernetes.taints import UNREACHABLE_TAINT, Toleration
from federator.model.policy import Failover, FailoverWhen, Policy
from federator.placement import inputs
from federator.placement.selection import filters
from federator.placement.selection.leaving import EVACUATION, Allowance
from tests.unit.placement.fleets import cluster, counts, decide, fleet, held, service

SILENT: Mapping[str, Any] = {
    "ready": False,
    "unready_reason": "it is Unreachable: no answer",
    "unreachable": True,
}
FOR_EVER = Toleration(UNREACHABLE_TAINT.key, "Exists", "", "NoExecute")


def ask(count: int, *, overlaps: bool = True, **policy: Any) -> Ask:
    return replace(service(count), overlaps=overlaps, policy=Policy(**policy))


def allowing(copies: int, seen: list[tuple[int, Mapping[str, int]]]) -> Any:
    def leave(moving: int, forced: Mapping[str, int]) -> Allowance:
        seen.append((moving, dict(forced)))
        return Allowance(copies, ", in turn")

    return leave


@pytest.mark.parametrize("copies", [0, 2, 5])
def test_copies_leave_within_their_turn_and_stay_otherwise(copies: int) -> None:
    seen: list[tuple[int, Mapping[str, int]]] = []
    snapshot = fleet(cluster("a", 10, **SILENT), cluster("b", 10))
    decision = decide(ask(8), snapshot, held(a=5, b=3), leave=allowing(copies, seen))
    assert seen == [(5, {EVACUATION: 5})]
    assert counts(decision) == {name: n for name, n in (("a", 5 - copies), ("b", 3 + copies)) if n}
    assert (decision.moved, decision.to_move) == (copies, 5 - copies)


def test_who_scales_meanwhile_keeps_what_is_there_and_gets_the_new_copies_elsewhere() -> None:
    """karmada #1640: scaled up while a cluster is silent for a minute, and its copies were removed."""
    snapshot = fleet(cluster("a", 10, **SILENT), cluster("b", 10))
    decision = decide(ask(10), snapshot, held(a=5), leave=allowing(0, []))
    assert counts(decision) == {"a": 5, "b": 5}


def test_copies_without_another_place_stay_where_they_are() -> None:
    """karmada #5150: taken out of the only cluster they may be in, and deleted there when it came back."""
    snapshot = fleet(cluster("a", 10, **SILENT), cluster("b", 10))
    decision = decide(ask(5, names=("a",)), snapshot, held(a=5), leave=allowing(5, []))
    assert counts(decision) == {"a": 5}


@pytest.mark.parametrize(
    ("policy", "overlaps"),
    [
        ({"failover": Failover(when=FailoverWhen.NEVER)}, True),
        ({"failover": Failover(when=FailoverWhen.DEAD)}, True),
        ({"tolerations": (FOR_EVER,)}, True),
        ({}, False),
    ],
)
def test_who_never_leaves_a_silent_cluster_is_not_asked_to(policy: Any, overlaps: bool) -> None:
    seen: list[tuple[int, Mapping[str, int]]] = []
    snapshot = fleet(cluster("a", 10, **SILENT), cluster("b", 10))
    decision = decide(
        ask(8, overlaps=overlaps, **policy), snapshot, held(a=5, b=3), leave=allowing(99, seen)
    )
    assert counts(decision) == {"a": 5, "b": 3}
    assert seen == []
    refusal = filters.refusal(ask(8, overlaps=overlaps, **policy), snapshot.clusters["a"])
    assert refusal is not None
    assert (refusal.reason, refusal.moves) == (Reason.CLUSTER_UNHEALTHY, False)


def test_a_policy_that_never_fails_over_stays_even_on_a_dead_cluster_and_others_leave_it() -> None:
    dead = fleet(
        cluster("a", 10, **{**SILENT, "unreachable": False, "dead": True}), cluster("b", 10)
    )
    for when, stays in (
        (FailoverWhen.NEVER, 5),
        (FailoverWhen.DEAD, 0),
        (FailoverWhen.UNREACHABLE, 0),
    ):
        decision = decide(
            ask(5, failover=Failover(when=when)), dead, held(a=5), leave=allowing(5, [])
        )
        assert counts(decision).get("a", 0) == stays


def test_the_inputs_are_the_same_while_a_cluster_is_silent() -> None:
    """Silence passes: no decision is made anew because of it alone."""
    well, silent = fleet(cluster("a", 10)), fleet(cluster("a", 10, **SILENT))
    assert inputs.inputs_hash(ask(5), well) == inputs.inputs_hash(ask(5), silent)
