"""Folding: intervals, conditions, what is settled and what is not."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import Unit
from federator.model.decision import Reason, Share
from federator.model.ending import EndRules
from federator.model.observation import BlockFigures, SliceObservation
from federator.status import fold as folding
from federator.status.conditions import Condition
from federator.status.facts import DecisionInput, Desired, Refusal


def wanted(count: int, **more: Any) -> Desired:
    return Desired(generation=2, unit=Unit.REPLICAS, count=count, **more)


def shares(*counts: int) -> tuple[Share, ...]:
    return tuple(Share(f"c{i}", count, count, seq=7) for i, count in enumerate(counts))


def seen(cluster: str, desired: int, ready: int | None = None, **more: Any) -> SliceObservation:
    copies = desired if ready is None else ready
    return SliceObservation(
        **{
            "cluster": cluster,
            "known": True,
            "exists": True,
            "generation": 3,
            "observed_generation": 3,
            "seq": 7,
            "origin_generation": 2,
            "desired": desired,
            "ready": copies,
            "updated": desired,
            "actual": desired,
            "healthy": copies == desired,
            **more,
        }
    )


def condition(fold: folding.Fold, kind: str) -> Condition:
    return next(c for c in fold.conditions if c.type == kind)


def states(fold: folding.Fold) -> dict[str, str]:
    return {c.type: c.status for c in fold.conditions}


def test_all_ready_everywhere_is_settled() -> None:
    fold = folding.fold(wanted(5), DecisionInput(shares(3, 2)), [seen("c0", 3), seen("c1", 2)])
    assert fold.settled
    assert fold.observed_generation == 2
    assert fold.summary == "5/5 ready in 2 clusters"
    assert states(fold) == {
        "Ready": "True",
        "Available": "True",
        "Placed": "True",
        "Applied": "True",
        "Healthy": "True",
        "Reconciling": "False",
        "Stalled": "False",
    }
    assert {c.observed_generation for c in fold.conditions} == {2}


def test_an_unheard_cluster_widens_the_interval_and_is_never_settled() -> None:
    placing = DecisionInput(shares(3, 2))
    lost = replace(seen("c1", 2), known=False)
    fold = folding.fold(wanted(5, previous_observed_generation=1), placing, [seen("c0", 3), lost])
    assert (fold.ready_lo, fold.ready_hi, fold.unknown) == (3, 5, 2)
    assert condition(fold, "Ready").status == "Unknown"
    assert condition(fold, "Healthy").status == "Unknown"
    assert not fold.settled
    assert "c1" in fold.waiting_for
    assert fold.observed_generation == 1, "no claim while a placed cluster is not heard"


def test_ready_is_false_when_even_the_unknown_cannot_meet_the_need() -> None:
    lost = replace(seen("c1", 2), known=False)
    fold = folding.fold(wanted(5), DecisionInput(shares(3, 2)), [seen("c0", 3, 1), lost])
    assert (fold.ready_lo, fold.ready_hi) == (1, 3)
    assert condition(fold, "Ready").status == "False"


def test_ready_is_true_when_the_known_alone_meet_the_need() -> None:
    fold = folding.fold(
        wanted(3), DecisionInput(shares(3)), [seen("c0", 3), replace(seen("c9", 2), known=False)]
    )
    assert condition(fold, "Ready").status == "True"
    assert not fold.settled


def test_a_share_without_any_observation_counts_as_unknown() -> None:
    fold = folding.fold(wanted(5), DecisionInput(shares(3, 2)), [seen("c0", 3)])
    assert fold.unknown == 2
    assert not fold.settled


def test_a_reasoned_shortfall_is_settled_and_says_why() -> None:
    message = "6 copies fit nowhere: each needs 4 cpu on one node."
    placing = DecisionInput(
        shares(54), shortfall=6, reason=Reason.INSUFFICIENT_CAPACITY, message=message
    )
    fold = folding.fold(wanted(60), placing, [seen("c0", 54)])
    assert fold.settled
    ready = condition(fold, "Ready")
    assert (ready.status, ready.reason) == ("False", "InsufficientCapacity")
    assert condition(fold, "Placed").status == "False"
    assert condition(fold, "Reconciling").status == "False"
    assert condition(fold, "Stalled").status == "False", "room may come by itself"
    assert fold.summary == "placed 54 of 60: InsufficientCapacity"


def test_a_shortfall_s_figures_are_said_once() -> None:
    message = "54 of 60 copies are placed, 6 are missing: maxPerCluster 9 is reached"
    placing = DecisionInput(shares(54), shortfall=6, reason=Reason.AT_MAXIMUM, message=message)
    fold = folding.fold(wanted(60), placing, [seen("c0", 54)])
    assert fold.summary == "placed 54 of 60: AtMaximum"
    assert condition(fold, "Placed").message == message


def test_a_shortfall_that_waiting_cannot_lift_is_stalled() -> None:
    placing = DecisionInput(
        (),
        shortfall=60,
        reason=Reason.PRIORITY_EXCEEDS_MAX,
        message="priority 9 exceeds 5 of team.",
    )
    fold = folding.fold(wanted(60), placing, [])
    assert condition(fold, "Stalled").status == "True"
    assert condition(fold, "Stalled").reason == "PriorityExceedsMax"
    assert fold.settled


def test_a_workload_that_cannot_be_read_is_stalled_and_what_runs_of_it_stays() -> None:
    placing = DecisionInput(
        reason=Reason.MISCONFIGURED, message="spec.execution: Exclusive is not offered yet"
    )
    fold = folding.fold(wanted(0), placing, [seen("c0", 3)])
    assert condition(fold, "Ready").status == "False"
    assert condition(fold, "Stalled").reason == "Misconfigured"
    assert condition(fold, "Applied").reason != "Leaving"
    assert fold.settled
    assert fold.summary == "misconfigured: spec.execution: Exclusive is not offered yet"


def test_before_the_first_decision_everything_is_pending() -> None:
    fold = folding.fold(wanted(5), None, [])
    assert states(fold)["Ready"] == "Unknown"
    assert condition(fold, "Placed").reason == "PendingEvaluation"
    assert states(fold)["Reconciling"] == "True"
    assert not fold.settled
    assert fold.observed_generation == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"observed_generation": 2}, "has not observed"),
        ({"origin_generation": 1}, "has not observed"),
        ({"seq": 6}, "has not observed"),
        ({"deleting": True}, "has not observed"),
        ({"ready": 1}, "ready"),
        ({"actual": 3}, "ready"),
        ({"updated": 1}, "ready"),
    ],
)
def test_a_cluster_that_is_not_there_yet_keeps_it_unsettled(
    change: dict[str, Any], why: str
) -> None:
    fold = folding.fold(wanted(2), DecisionInput(shares(2)), [replace(seen("c0", 2), **change)])
    assert not fold.settled
    assert why in fold.waiting_for
    assert states(fold)["Reconciling"] == "True"


def test_a_cluster_that_is_being_left_still_serves_and_keeps_it_unsettled() -> None:
    fold = folding.fold(wanted(2), DecisionInput(shares(2)), [seen("c0", 2, 0), seen("c8", 2)])
    assert condition(fold, "Ready").status == "True", "the two old copies still serve"
    assert "c8" in fold.waiting_for
    assert condition(fold, "Applied").reason == "Leaving"


def test_the_observed_generation_never_falls_and_never_exceeds_the_generation() -> None:
    fold = folding.fold(
        wanted(2, previous_observed_generation=9), DecisionInput(shares(2)), [seen("c0", 2, seq=1)]
    )
    assert fold.observed_generation == 2


def test_a_stale_decision_is_not_settled_although_all_is_ready() -> None:
    fold = folding.fold(wanted(2), DecisionInput(shares(2), current=False), [seen("c0", 2)])
    assert not fold.settled
    assert condition(fold, "Reconciling").reason == "PendingEvaluation"


def test_the_first_useful_reason_reaches_ready_healthy_and_the_summary() -> None:
    ill = seen(
        "c1",
        2,
        0,
        reason="ImagePullFailed",
        message="2 pods: container app: app:9: not found",
        healthy=False,
    )
    fold = folding.fold(wanted(5), DecisionInput(shares(3, 2)), [seen("c0", 3), ill])
    assert condition(fold, "Ready").reason == "ImagePullFailed"
    assert "c1" in condition(fold, "Ready").message
    assert condition(fold, "Healthy").reason == "ImagePullFailed"
    assert fold.summary == "3/5 ready in 2 clusters (ImagePullFailed)"


def test_a_permanent_refusal_by_one_cluster_is_reported_and_stalls() -> None:
    refusal = Refusal("c1", "Invalid", "spec.template is not allowed by policy x.", permanent=True)
    gone = SliceObservation("c1", known=True)
    fold = folding.fold(
        wanted(5), DecisionInput(shares(3, 2)), [seen("c0", 3), gone], refusals=[refusal]
    )
    assert condition(fold, "Applied").reason == "Invalid"
    assert condition(fold, "Stalled").status == "True"
    assert condition(fold, "Reconciling").status == "False"
    assert not fold.settled


def test_something_in_flight_is_not_settled() -> None:
    fold = folding.fold(
        wanted(2),
        DecisionInput(shares(2)),
        [seen("c0", 2)],
        in_flight={"c0": "an update is on its way"},
    )
    assert fold.waiting_for == "c0: an update is on its way."


def test_no_quota_and_soft_spread_violations_are_said() -> None:
    placing = DecisionInput(
        shares(2),
        unlimited_quota=True,
        project="ads",
        violations=("zone a holds 2 more than zone b.",),
        without_room=("c1", "c2"),
    )
    fold = folding.fold(wanted(2), placing, [seen("c0", 2)])
    assert "leave c1, c2 before their replacements" in condition(fold, "MovesWithoutRoom").message
    assert "ads" in condition(fold, "QuotaUnlimited").message
    assert condition(fold, "SpreadViolated").message.startswith("zone a")
    assert fold.settled


def test_a_suspended_workload_is_left_as_it_is_and_settled() -> None:
    placing = DecisionInput(shares(5), current=False)
    fold = folding.fold(wanted(9, suspended=True), placing, [seen("c0", 5, origin_generation=1)])
    assert fold.settled
    assert fold.observed_generation == 2
    assert states(fold)["Suspended"] == "True"
    assert states(fold)["Reconciling"] == "False"
    assert fold.summary == "suspended; 5/9 ready, 5 of an earlier template in 1 cluster"


def test_a_workload_suspended_before_it_was_placed_says_so() -> None:
    fold = folding.fold(wanted(5, suspended=True), None, [])
    assert fold.settled
    assert condition(fold, "Ready").reason == "Suspended"
    assert fold.summary == "suspended"


def jobs(count: int, **more: Any) -> Desired:
    return Desired(generation=2, unit=Unit.SHARDS, count=count, **more)


def job_share(cluster: str, low: int, high: int, slots: int) -> Share:
    return Share(cluster, high - low + 1, slots, seq=7, ranges=((low, high),))


def test_a_jobset_at_its_parallelism_is_ready_and_settled_while_it_runs() -> None:
    placing = DecisionInput((job_share("c0", 0, 9, 3),))
    fold = folding.fold(jobs(10), placing, [seen("c0", 10, active=3, completed=((0, 3),))])
    assert fold.settled
    assert fold.summary == "4/10 completed, 3 running in 1 cluster"
    assert condition(fold, "Ready").status == "True"
    assert "Complete" not in states(fold)


def test_a_cluster_runs_no_more_shards_than_it_has_slots_whatever_it_tells() -> None:
    jobs = Desired(generation=2, unit=Unit.SHARDS, count=20)
    placing = DecisionInput((job_share("c0", 0, 9, 2), job_share("c1", 10, 19, 3)))
    told = [
        seen(name, 10, active=active, actual=active, updated=0, healthy=True)
        for name, active in (("c0", 9), ("c1", 3))
    ]
    fold = folding.fold(jobs, placing, told)
    assert [(row.active, row.slots) for row in fold.rows] == [(2, 2), (3, 3)]
    assert (fold.active, fold.ready_lo) == (5, 5)


@pytest.mark.parametrize(("active", "at_most"), [(1, 3), (5, 5)])
def test_an_unheard_cluster_may_run_what_it_had_or_as_many_shards_as_it_has_slots(
    active: int, at_most: int
) -> None:
    """Its slots may have been lowered since it was heard."""
    share = job_share("c0", 0, 9, 3) if active < 3 else job_share("c0", 0, 2, 5)
    silent = seen("c0", 10, known=False, active=active)
    fold = folding.fold(jobs(10), DecisionInput((share,)), [silent])
    assert (fold.ready_lo, fold.ready_hi, fold.settled) == (0, at_most, False)


@pytest.mark.parametrize(
    ("figures", "begun"),
    [
        ({}, False),
        ({"active": 1}, True),
        ({"completed": ((0, 0),)}, True),
        ({"failed": ((0, 0),)}, True),
    ],
)
def test_a_deadline_counts_from_the_first_shard_that_runs_or_is_done(
    figures: dict[str, Any], begun: bool
) -> None:
    placing = DecisionInput((job_share("c0", 0, 9, 3),))
    timed = jobs(10, end_rules=EndRules(deadline_s=60), now="2026-01-01T00:00:00Z")
    fold = folding.fold(timed, placing, [seen("c0", 10, **figures)])
    assert fold.start_time == ("2026-01-01T00:00:00Z" if begun else "")
    recorded = replace(timed, start_time="2025-12-31T00:00:00Z")
    assert folding.fold(recorded, placing, []).start_time == "2025-12-31T00:00:00Z"
    without = replace(timed, end_rules=EndRules())
    assert not folding.fold(without, placing, [seen("c0", 10, active=1)]).start_time


def test_shards_that_cannot_be_scheduled_do_not_run() -> None:
    placing = DecisionInput((job_share("c0", 0, 9, 3),))
    stuck = seen(
        "c0",
        10,
        active=3,
        unschedulable=2,
        reason="Unschedulable",
        ready=1,
        message="2 pods: no node",
    )
    fold = folding.fold(jobs(10), placing, [stuck])
    assert fold.ready_hi <= 1
    assert not fold.settled


def test_completed_shards_outlive_the_clusters_that_reported_them() -> None:
    placing = DecisionInput((job_share("c0", 0, 9, 5),))
    now = seen("c0", 10, active=0, completed=((5, 9),))
    fold = folding.fold(jobs(10, previous_completed=((0, 4),)), placing, [now])
    assert fold.completed == ((0, 9),)
    assert fold.finished
    assert fold.settled
    assert states(fold)["Complete"] == "True"
    assert fold.summary == "all 10 shards completed"


def test_a_shard_that_failed_once_and_completed_elsewhere_is_completed() -> None:
    placing = DecisionInput((job_share("c0", 0, 3, 4),))
    fold = folding.fold(
        jobs(4, previous_failed=((1, 1),)), placing, [seen("c0", 4, completed=((0, 3),))]
    )
    assert (fold.completed, fold.failed) == (((0, 3),), ())


def test_failed_shards_end_as_failed_and_stalled() -> None:
    placing = DecisionInput((job_share("c0", 0, 3, 4),))
    fold = folding.fold(
        jobs(4), placing, [seen("c0", 4, completed=((0, 1), (3, 3)), failed=((2, 2),))]
    )
    assert fold.finished
    assert states(fold)["Failed"] == "True"
    assert states(fold)["Stalled"] == "True"
    assert condition(fold, "Ready").reason == "Failed"
    assert fold.summary == "3 of 4 shards completed, 1 failed"


def test_indexes_beyond_the_shards_are_not_believed() -> None:
    placing = DecisionInput((job_share("c0", 0, 3, 4),))
    fold = folding.fold(jobs(4), placing, [seen("c0", 4, active=2, completed=((0, 1), (4, 99)))])
    assert fold.completed == ((0, 1),)
    assert not fold.finished


observation = st.builds(
    lambda cluster, known, exists, ready, desired, seq: SliceObservation(
        cluster,
        known,
        exists=exists,
        ready=ready,
        desired=desired,
        actual=ready,
        updated=ready,
        seq=seq,
    ),
    st.sampled_from([f"c{i}" for i in range(5)]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
)


@given(
    st.lists(observation, unique_by=lambda o: o.cluster),
    st.lists(st.integers(1, 9), max_size=4),
    st.randoms(),
)
def test_folding_is_ordered_honest_and_independent_of_the_order_of_observations(
    observations: list[SliceObservation], counts: list[int], rng: Any
) -> None:
    ask, placing = wanted(sum(counts)), DecisionInput(shares(*counts))
    fold = folding.fold(ask, placing, observations)
    assert 0 <= fold.ready_lo <= fold.ready_hi
    assert fold.unknown == fold.ready_hi - fold.ready_lo
    if fold.settled:
        assert fold.ready_lo == sum(counts)
        assert all(row.known for row in fold.rows)
        assert condition(fold, "Reconciling").status == "False"
    assert not (
        condition(fold, "Reconciling").status == "True"
        and condition(fold, "Stalled").status == "True"
    )
    shuffled = list(observations)
    rng.shuffle(shuffled)
    assert folding.fold(ask, placing, shuffled) == fold


rolling = st.builds(
    lambda cluster, known, figures, origin, outdated: SliceObservation(
        cluster,
        known,
        exists=True,
        generation=3,
        observed_generation=3,
        origin_generation=origin,
        outdated=outdated,
        desired=figures[2],
        actual=figures[2],
        updated=min(figures[1], figures[2]),
        ready=min(figures[0], figures[2]),
        seq=7,
    ),
    st.sampled_from([f"c{i}" for i in range(4)]),
    st.sampled_from([True, True, True, False]),
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)),
    st.sampled_from([2, 2, 1]),
    st.sampled_from([False, False, True]),
)


def fewest_new_and_ready(seen: SliceObservation) -> int:
    """By trying: of how many copies that are ready as few as possible are of the slice's
    template.
    """
    old = seen.actual - seen.updated
    return min(seen.ready - ready_old for ready_old in range(min(old, seen.ready) + 1))


@given(
    st.lists(rolling, unique_by=lambda o: o.cluster),
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
)
def test_ready_is_never_said_of_copies_that_may_be_of_an_earlier_template(
    observations: list[SliceObservation], counts: list[int]
) -> None:
    fold = folding.fold(wanted(sum(counts)), DecisionInput(shares(*counts)), observations)
    held = {row.cluster for row in fold.rows}
    present = [
        o for o in observations if o.cluster in held and o.origin_generation == 2 and not o.outdated
    ]
    ready = condition(fold, "Ready").status
    assert (ready == "True") == (
        sum(fewest_new_and_ready(o) for o in present if o.known) >= sum(counts)
    )
    assert fold.updated == sum(o.updated for o in present)
    if condition(fold, "Stalled").status == "True":
        assert ready != "True"


def test_a_roll_out_that_stopped_at_its_first_cluster_is_observed_and_stalls() -> None:
    late = replace(
        seen("c0", 3),
        stalled=True,
        reason="ImagePullFailed",
        message="1 pod: app:bad",
        updated=1,
        actual=4,
    )
    waits = replace(seen("c1", 2), origin_generation=1)
    fold = folding.fold(wanted(5), DecisionInput(shares(3, 2)), [late, waits], waiting_turns={"c1"})
    assert fold.observed_generation == 2
    assert (condition(fold, "Stalled").status, condition(fold, "Stalled").reason) == (
        "True",
        "ImagePullFailed",
    )
    assert condition(fold, "Ready").status == "False"
    assert fold.updated == 1
    # Where nobody has it yet, nobody has observed it.
    alone = folding.fold(
        wanted(5),
        DecisionInput(shares(3, 2)),
        [waits, replace(waits, cluster="c0")],
        waiting_turns={"c1"},
    )
    assert alone.observed_generation == 0


def test_a_deadline_that_passed_under_the_template_before_stalls_nobody() -> None:
    before = replace(seen("c0", 3), stalled=True, reason="ImagePullFailed", origin_generation=1)
    assert (
        condition(folding.fold(wanted(3), DecisionInput(shares(3)), [before]), "Stalled").status
        == "False"
    )


def test_a_generation_is_observed_only_where_each_cluster_has_it_or_waits_its_turn() -> None:
    placing = DecisionInput(shares(3, 2))
    behind = seen("c1", 2, origin_generation=1, outdated=True)
    asked = wanted(5, previous_observed_generation=1)

    assert folding.fold(asked, placing, [seen("c0", 3), behind]).observed_generation == 1
    waits = folding.fold(asked, placing, [seen("c0", 3), behind], waiting_turns={"c1"})
    assert waits.observed_generation == 2


@pytest.mark.parametrize(("current", "observed"), [(True, 2), (False, 1)])
def test_a_refused_generation_is_observed_once_the_refusal_is_of_its_inputs(
    current: bool, observed: int
) -> None:
    refused = DecisionInput(shares(3), reason=Reason.POD_SECURITY_VIOLATION, current=current)
    before = seen("c0", 3, origin_generation=1)

    fold = folding.fold(wanted(3, previous_observed_generation=1), refused, [before])

    assert fold.observed_generation == observed


def test_a_generation_that_no_cluster_has_yet_is_not_observed() -> None:
    behind = [seen(name, 3, origin_generation=1, outdated=True) for name in ("c0", "c1")]
    asked = wanted(6, previous_observed_generation=1)

    fold = folding.fold(asked, DecisionInput(shares(3, 3)), behind, waiting_turns={"c0", "c1"})

    assert fold.observed_generation == 1
    nowhere = folding.fold(wanted(0, previous_observed_generation=1), DecisionInput(()), [])
    assert nowhere.observed_generation == 2


@pytest.mark.parametrize(
    ("placing", "healthy"),
    [
        (DecisionInput(shares(3)), "False"),
        (DecisionInput(shares(3), reason=Reason.MISCONFIGURED), "False"),
        (DecisionInput(shares(3), reason=Reason.POD_SECURITY_VIOLATION), "True"),
    ],
)
def test_copies_of_the_template_before_are_healthy_only_where_no_rollout_replaces_them(
    placing: DecisionInput, healthy: str
) -> None:
    """A refused edit leaves the running copies unchanged; an admitted one has to replace them."""
    fold = folding.fold(wanted(3), placing, [seen("c0", 3, origin_generation=1)])

    assert condition(fold, "Healthy").status == healthy


def test_what_is_in_force_is_complete_when_all_of_that_runs() -> None:
    """The edit is held back, so that no copy is of the present generation."""
    placing = DecisionInput(shares(3), held_back=True, reason=Reason.QUOTA_EXCEEDED)
    former = seen("c0", 3, origin_generation=1)

    fold = folding.fold(wanted(3, in_force=1), placing, [former])

    assert (fold.updated, fold.settled) == (0, True)


def test_blocks_of_another_content_have_no_updated_ordinals() -> None:
    blocks = (BlockFigures(0, 2, ready=3, updated=2, actual=3),)
    former = seen("c0", 3, origin_generation=1, outdated=True, blocks=blocks)

    [row] = folding.fold(wanted(3), DecisionInput(shares(3)), [former]).rows

    assert [(block.updated, block.ready) for block in row.blocks] == [(0, 3)]
