"""Negative controls: every invariant notices the breach it is there for."""

import dataclasses

import pytest

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Tier
from federator.model.decision import Decision, Reason, Share
from federator.model.policy import Division, Policy
from federator.model.resources import Resources
from tests.unit.placement import invariants
from tests.unit.placement.fleets import (
    cluster,
    commitment,
    commitments_with,
    decide,
    fleet,
    held,
    holdings,
    jobs,
    service,
)
from tests.unit.placement.invariants import INVARIANTS, Case

FLEET = fleet(cluster("a", 10), cluster("b", 10, cordoned=True))
ROOM = {"a": 10, "b": 10}


def case(shares: tuple[Share, ...], **more: object) -> Case:
    """A decision for ten copies, falsified to these shares."""
    ask = more.pop("ask", service(10))
    assert isinstance(ask, type(service(1)))
    changed = {"shares": shares, "shortfall": ask.count - sum(one.count for one in shares), **more}
    decision: Decision = dataclasses.replace(decide(ask, FLEET), **changed)  # type: ignore[arg-type]
    return Case(ask, (), FLEET, decision, ROOM)


def broken(found: Case) -> set[str]:
    return {breach.partition(":")[0] for breach in invariants.check(found)}


def test_a_true_decision_breaks_nothing() -> None:
    assert broken(case((Share("a", 10, 10, 5),))) == set()


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (case((Share("a", 10, 10, 5),), shortfall=1), "conservation"),
        (case((Share("a", 5, 5, 5), Share("a", 5, 5, 5))), "conservation"),
        (case((Share("a", 8, 8, 5), Share("b", 2, 2, 5))), "feasibility"),
        (case((Share("gone", 10, 10, 5),)), "feasibility"),
        (case((Share("a", 11, 11, 5),), ask=service(11)), "feasibility"),
        (
            case(
                (Share("a", 9, 9, 5),),
                ask=service(9, policy=Policy(division=Division(max_per_cluster=3))),
            ),
            "feasibility",
        ),
        (
            case(
                (Share("a", 2, 2, 5),),
                ask=service(9, policy=Policy(require_all=True)),
                reason=Reason.GANG_INCOMPLETE,
            ),
            "gang",
        ),
        (
            case((Share("a", 6, 2, 5, ((0, 5),)), Share("b", 6, 2, 5, ((4, 9),))), ask=jobs(12, 4)),
            "conservation",
        ),
        (case((Share("a", 10, 9, 5, ((0, 9),)),), ask=jobs(10, 4)), "conservation"),
        (case((Share("a", 12, 2, 5, ((0, 11),)),), ask=jobs(10, 4)), "conservation"),
    ],
)
def test_a_falsified_decision_is_noticed(wrong: Case, rule: str) -> None:
    assert rule in broken(wrong)


def test_a_moved_finished_shard_and_a_changed_seq_are_noticed() -> None:
    ask = jobs(10, 4)
    before = decide(ask, FLEET).shares[0]
    moved = dataclasses.replace(
        case((Share("b", 10, 4, 9, before.ranges),), ask=ask),
        held=held(a=1)[:0]
        + tuple(dataclasses.replace(one, ranges=before.ranges) for one in held(a=10)),
        finished=((0, 3),),
    )
    assert "steadiness" in broken(moved)
    renumbered = dataclasses.replace(case((Share("a", 10, 10, 9),)), held=held(a=10))
    assert "steadiness" in broken(renumbered)


def test_copies_that_leave_for_nowhere_are_noticed() -> None:
    gone = dataclasses.replace(case((Share("a", 4, 4, 5),)), held=held(a=10))
    assert "leaving" in broken(gone)
    said = service(10, policy=Policy(exclude=("a",)))
    assert "leaving" not in broken(dataclasses.replace(case((), ask=said), held=held(a=10)))
    fewer = dataclasses.replace(case((Share("a", 4, 4, 5),), ask=service(4)), held=held(a=10))
    assert broken(fewer) == set()
    shards_gone = dataclasses.replace(
        case((Share("a", 10, 2, 5, ((0, 9),)),), ask=jobs(10, 4)),
        held=holdings((Share("a", 10, 4, 1, ((0, 9),)),)),
    )
    assert "leaving" in broken(shards_gone)


def test_copies_that_leave_because_a_policy_duplicates_no_more_are_noticed() -> None:
    before = dataclasses.replace(
        case((Share("a", 4, 4, 1),), ask=service(4)), held=held(a=4, b=4), per_cluster=4
    )
    assert broken(before) == {"duplicated"}
    assert broken(dataclasses.replace(before, per_cluster=5)) == set()
    assert broken(dataclasses.replace(before, per_cluster=0)) == set()


def test_every_invariant_has_a_negative_control() -> None:
    assert set(INVARIANTS) == {
        "conservation",
        "duplicated",
        "feasibility",
        "gang",
        "leaving",
        "steadiness",
    }


def test_books_beyond_a_quota_are_noticed_unless_they_were_so_before_it_was_lowered() -> None:
    tiers = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": 3000}))}
    snapshot = fleet(
        cluster("a", 9), quotas=[QuotaAccount("q", projects=frozenset({"feed"}), tiers=tiers)]
    )
    commitments = commitments_with(commitment(service(5), held(a=5)))
    assert "q holds 5000 cpu" in invariants.check_commitments(commitments, snapshot)[0]
    assert invariants.check_commitments(commitments, snapshot, before=commitments) == []
