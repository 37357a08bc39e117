"""Invariants with enforcement Refuse: new copies never break them, and they cost no workload a copy
that it has."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import Ask, Unit
from federator.model.decision import Decision, Reason
from federator.model.fleet import ClusterView, FleetSnapshot, Holding, copies_of
from federator.model.policy import Division, Policy, Strategy
from federator.model.rules.invariant import Invariant, MaxShare
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from tests.examples import examples
from tests.unit.placement import worlds
from tests.unit.placement.fleets import cluster, commitment, counts, fleet, held, jobs, service


def zone(name: str, copies: int, **more: Any) -> ClusterView:
    return cluster(name, copies, labels={"zone": name[0]}, **more)


def at_most(percent: int, **more: Any) -> Invariant:
    fields = {"name": "zones", "refuses": True, **more}
    return Invariant(rule=MaxShare("zone", percent), **fields)


def decided(
    ask: Ask,
    snapshot: FleetSnapshot,
    *invariants: Invariant,
    held_: tuple[Holding, ...] = (),
    **more: Any,
) -> Decision:
    commitments = Commitments()
    if held_:
        commitments.record(commitment(ask, held_))
    entry = Entry(ask=ask, standing=Standing(held=held_), **more)
    made = cycle.run(
        [entry],
        Queue(),
        replace(snapshot, invariants=invariants),
        commitments,
        seq=iter(range(100, 200)).__next__,
    )
    assert not made.failed, made.failed
    return made.decided[0].decision


THREE = fleet(zone("a1", 50), zone("b1", 8), zone("c1", 8))


def test_no_zone_gets_more_than_its_share_and_the_rest_waits_with_the_invariants_name() -> None:
    made = decided(service(20), THREE, at_most(40))
    assert counts(made) == {"a1": 8, "b1": 6, "c1": 6} or sum(counts(made).values()) == 20
    assert counts(made)["a1"] <= 8

    made = decided(service(40), THREE, at_most(40))
    assert counts(made) == {"a1": 16, "b1": 8, "c1": 8}
    assert (made.reason, made.shortfall) == (Reason.INVARIANT_VIOLATION, 8)
    assert (
        "PlacementInvariant zones allows 16 of 40 copies in zone=a (spec.rule.maxShare, 40 percent)"
        in made.message
    )


def test_clusters_of_one_zone_share_what_it_may_have() -> None:
    snapshot = fleet(zone("a1", 2), zone("a2", 90), zone("b1", 5))
    made = decided(service(20), snapshot, at_most(50))
    given_ = counts(made)
    assert given_.get("a1", 0) + given_["a2"] == 10
    assert given_["b1"] == 5


@pytest.mark.parametrize("strategy", [Strategy.CAPACITY, Strategy.PACK, Strategy.SPREAD])
def test_every_strategy_stays_within_it(strategy: Strategy) -> None:
    snapshot = fleet(zone("a1", 90), zone("b1", 90), zone("c1", 90))
    made = decided(service(10, policy=Policy(division=Division(strategy))), snapshot, at_most(40))
    assert (made.shortfall, max(counts(made).values())) == (0, 4)


def test_a_warning_invariant_and_one_of_other_workloads_refuse_nothing() -> None:
    for other in (at_most(40, refuses=False), at_most(40, match_labels={"tier": "0"})):
        made = decided(service(40), THREE, other)
        assert (made.reason, made.shortfall) == (Reason.CHOSEN, 0)


def test_copies_in_breach_stay_and_no_more_start_there() -> None:
    running = held(a1=9, b1=1)
    made = decided(service(10), THREE, at_most(40), held_=running)
    assert counts(made) == {"a1": 9, "b1": 1}
    made = decided(service(14), THREE, at_most(40), held_=running)
    assert counts(made)["a1"] == 9
    assert sum(counts(made).values()) == 14


def test_a_shrink_is_never_refused() -> None:
    made = decided(service(2), THREE, at_most(40), held_=held(a1=5, b1=1))
    assert sum(counts(made).values()) == 2


def test_a_lost_zone_moves_to_the_others_although_that_breaks_it() -> None:
    snapshot = fleet(zone("a1", 50, dead=True, ready=False), zone("b1", 50), zone("c1", 0))
    made = decided(service(10), snapshot, at_most(40), held_=held(a1=4, b1=4, c1=2), displaced=0)
    assert counts(made)["b1"] == 8


def test_a_lost_zone_goes_where_it_is_allowed_first() -> None:
    views = (zone("b1", 50), zone("c1", 50), zone("d1", 50))
    snapshot = fleet(zone("a1", 50, dead=True, ready=False), *views)
    made = decided(service(10), snapshot, at_most(40), held_=held(a1=4, b1=3, c1=3))
    given_ = counts(made)
    assert sum(given_.get(name, 0) for name in ("b1", "c1", "d1")) == 10
    assert max(given_.get(name, 0) for name in ("b1", "c1", "d1")) <= 4


def test_nothing_grows_beyond_it_while_a_zone_is_lost() -> None:
    snapshot = fleet(zone("a1", 50, dead=True, ready=False), zone("b1", 90))
    made = decided(service(30), snapshot, at_most(40), held_=held(a1=5, b1=5))
    assert counts(made)["b1"] == 12, "12 are 40 percent of 30"
    made = decided(service(12), snapshot, at_most(40), held_=held(a1=5, b1=5))
    assert counts(made)["b1"] == 10, "what it had, and no more"


def test_a_drained_cluster_is_emptied_although_that_breaks_it() -> None:
    snapshot = fleet(zone("a1", 50, draining=True), zone("b1", 50))
    made = decided(service(10), snapshot, at_most(50), held_=held(a1=5, b1=5))
    assert counts(made) == {"b1": 10}


def test_an_edit_of_a_policy_moves_nothing_that_would_break_it() -> None:
    only_b = Policy(names=("b1",), origin="match")
    snapshot = fleet(zone("a1", 50), zone("b1", 50))
    made = decided(service(10, policy=only_b), snapshot, at_most(50), held_=held(a1=5, b1=5))
    assert counts(made) == {"a1": 5, "b1": 5}
    assert made.reason is Reason.INVARIANT_VIOLATION


def test_slots_of_job_sets_are_counted() -> None:
    whole = jobs(40, 10, policy=Policy(division=Division(Strategy.PACK)))
    snapshot = fleet(zone("a1", 50), zone("b1", 50), zone("c1", 50))
    made = decided(whole, snapshot, at_most(40))
    assert sum(share.slots for share in made.shares) == 10
    assert max(share.slots for share in made.shares) <= 4


def test_what_is_in_every_cluster_has_no_share() -> None:
    everywhere = Policy(division=Division(Strategy.DUPLICATE))
    snapshot = fleet(zone("a1", 50), zone("b1", 50))
    made = decided(service(10, policy=everywhere), snapshot, at_most(40))
    assert counts(made) == {"a1": 10, "b1": 10}


# -- any fleet, any policy ----------------------------------------------------

_states: st.SearchStrategy[dict[str, dict[str, Any]]] = st.dictionaries(
    st.sampled_from(worlds.NAMES),
    st.sampled_from(({"dead": True, "ready": False}, {"draining": True}, {"unreachable": True})),
    max_size=2,
)
_rules = st.lists(
    st.tuples(st.sampled_from(("zone", "region", "none")), st.integers(1, 100)),
    min_size=1,
    max_size=2,
)


def independently(
    snapshot: FleetSnapshot, label: str, copies: Mapping[str, int]
) -> Mapping[str | None, int]:
    """Copies by the value of a label, in clusters of which something is known."""
    views = [
        view
        for view in snapshot.clusters.values()
        if not view.dead and not view.unreachable and view.name in copies
    ]
    values = {view.labels.get(label) for view in views}
    return {
        value: sum(copies[view.name] for view in views if view.labels.get(label) == value)
        for value in values
    }


@given(worlds.snapshots(), worlds.asks(), st.data())
@examples(500)
def test_growth_breaks_no_invariant_and_nobody_loses_a_copy_to_one(
    snapshot: FleetSnapshot, ask: Ask, data: st.DataObject
) -> None:
    states, rules = data.draw(_states), data.draw(_rules)
    views = {
        name: replace(view, **states.get(name, {})) for name, view in snapshot.clusters.items()
    }
    snapshot = replace(snapshot, clusters=views)
    running = data.draw(worlds.holdings(ask))
    invariants = [
        Invariant(name=f"rule{at}", rule=MaxShare(label, percent), refuses=True)
        for at, (label, percent) in enumerate(rules)
    ]

    made = decided(ask, snapshot, *invariants, held_=running)
    freely = decided(ask, snapshot, held_=running)

    before = {holding.cluster: copies_of(holding) for holding in running}
    after = {share.cluster: copies_of(share) for share in made.shares}
    lives = {name for name, view in views.items() if not view.empties}
    there = sum(count for name, count in after.items() if name in lives)
    if ask.policy.division.strategy is Strategy.DUPLICATE and ask.unit is Unit.REPLICAS:
        assert made == freely
        return
    had = sum(before.values())
    for label, percent in rules:
        was = independently(snapshot, label, before)
        for value, copies in independently(snapshot, label, after).items():
            allowed = max(ask.at_once * percent // 100, 1, was.get(value, 0))
            if copies > allowed:
                assert there <= had, "only what it had may go beyond"
    # Freely it might get more, and thereby the minimum that a policy sets for each cluster.
    most = min(had, ask.at_once)
    small = replace(ask, slots=most, count=ask.count if ask.unit is Unit.SHARDS else most)
    otherwise = decided(small, snapshot, held_=running)
    could = sum(copies_of(share) for share in otherwise.shares if share.cluster in lives)
    # A copy that it would lose without the invariants too, as to a quota, is not lost to them.
    keeps = sum(copies_of(share) for share in freely.shares if share.cluster in lives)
    if (
        ask.policy.require_all
    ):  # all copies that are wanted or no new one, whatever the shortage comes from
        most = min(most, sum(count for name, count in before.items() if name in lives))
    assert there >= min(could, most, keeps)
