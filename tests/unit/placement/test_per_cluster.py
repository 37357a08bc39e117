"""Bounds of single clusters (`division.perCluster`): every strategy and kind keeps them, as many
copies are placed as any allowed division could place, and verdicts name the bound.

What is allowed is judged by `rules`, which shares no code with the product.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import Ask, Component, Ordinals, PodShape
from federator.model.bounds import PerCluster
from federator.model.decision import Reason
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.kubernetes import selectors
from federator.model.policy import Demand, Division, Group, Policy, Strategy
from federator.model.resources import Resources
from federator.placement import inputs
from federator.placement.policy import enforcing
from tests.examples import examples
from tests.unit.placement import rules
from tests.unit.placement.fleets import cluster, counts, decide, fleet, held, jobs, service

SPOT = selectors.from_dict({"matchLabels": {"pool": "spot"}}, "x")
NAMES = "abcde"


def bounded(*entries: PerCluster, **more: Any) -> Policy:
    strategy = more.pop("strategy", Strategy.CAPACITY)
    return Policy(division=Division(strategy, per_cluster=entries, **more))


def of(name: str, **bounds: Any) -> PerCluster:
    return PerCluster("division.perCluster[0]", cluster=name, **bounds)


def spot(**bounds: Any) -> PerCluster:
    return PerCluster("division.perCluster[0]", selector=SPOT, **bounds)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (bounded(of("a", most=3)), {"a": 3, "b": 4, "c": 3}),
        (bounded(of("a", percent=40)), {"a": 4, "b": 3, "c": 3}),
        (bounded(of("a", percent=25)), {"a": 2, "b": 4, "c": 4}),
        (bounded(of("a", percent=5)), {"a": 1, "b": 5, "c": 4}),
        (bounded(of("a", percent=0)), {"b": 5, "c": 5}),
        (bounded(of("a", least=12)), {"b": 5, "c": 5}),
        (bounded(of("b", least=7)), {"a": 2, "b": 7, "c": 1}),
        (bounded(of("b", least=6), of("c", least=6)), {"a": 4, "b": 6}),
        (bounded(spot(most=2)), {"a": 6, "b": 2, "c": 2}),
        (bounded(spot(most=2), of("b", most=1)), {"a": 7, "b": 1, "c": 2}),
        (bounded(of("b", least=4, most=3)), {}),
        (bounded(of("a", most=3), max_per_cluster=4), {"a": 3, "b": 4, "c": 3}),
        (bounded(of("a", most=3), strategy=Strategy.PACK), {"b": 10}),
        (bounded(of("b", most=3), spot(most=4), strategy=Strategy.PACK), {"a": 10}),
        (bounded(of("a", most=3), strategy=Strategy.DUPLICATE), {"a": 3, "b": 10, "c": 10}),
        (bounded(of("a", most=1), strategy=Strategy.SPREAD), {"a": 1, "b": 5, "c": 4}),
    ],
)
def test_bounds_of_single_clusters(policy: Policy, expected: dict[str, int]) -> None:
    views = [cluster("a", 60), cluster("b", 50, labels={"pool": "spot"})]
    snapshot = fleet(*views, cluster("c", 50, labels={"pool": "spot"}))
    decision = decide(service(10, policy=policy), snapshot)
    assert counts(decision) == expected
    if not expected:
        assert decision.reason is Reason.MISCONFIGURED


def test_slots_of_a_job_set_are_bounded_by_its_parallelism() -> None:
    snapshot = fleet(cluster("a", 60), cluster("b", 60))
    decision = decide(jobs(100, 10, policy=bounded(of("a", percent=20))), snapshot)
    assert {share.cluster: share.slots for share in decision.shares} == {"a": 2, "b": 8}


def test_ordinals_and_a_gang_keep_the_maximum() -> None:
    snapshot = fleet(cluster("a", 60), cluster("b", 20))
    store = service(10, policy=bounded(of("a", most=2)), ordinals=Ordinals())
    assert counts(decide(store, snapshot)) == {"a": 2, "b": 8}
    pod = PodShape(Resources({"cpu": 1000, "pods": 1}))
    gang = jobs(
        1,
        1,
        policy=bounded(of("a", most=0)),
        shape=PodShape.together([Component("worker", pod, 4, 4)]),
    )
    assert counts(decide(gang, snapshot)) == {"b": 1}


def test_a_shortfall_names_the_bound_with_its_field() -> None:
    snapshot = fleet(cluster("a", 60), cluster("b", 2))
    decision = decide(service(10, policy=bounded(of("a", percent=40))), snapshot)
    assert (decision.reason, decision.shortfall) == (Reason.AT_MAXIMUM, 4)
    assert "division.perCluster[0].max 40% (4 of 10) is reached" in decision.message
    (verdict,) = (each for each in decision.verdicts if each.cluster == "a")
    assert "at most 4 are possible there (division.perCluster[0].max 40% (4 of 10))" in (
        verdict.message
    )
    decision = decide(
        service(10, policy=bounded(spot(least=11), of("b", least=11))),
        fleet(cluster("a", 9, labels={"pool": "spot"}), cluster("b", 60)),
    )
    assert (decision.reason, decision.shortfall) == (Reason.BELOW_MINIMUM, 10)
    assert "division.perCluster[0].min 11" in decision.message


def test_bounds_that_contradict_move_nothing() -> None:
    policy = replace(bounded(of("a", least=5, most=2)), name="web", origin="match")
    decision = decide(service(9, policy=policy), fleet(cluster("a", 9), cluster("b", 9)), held(a=4))
    assert (decision.reason, counts(decision)) == (Reason.MISCONFIGURED, {"a": 4})
    assert "division.perCluster[0]" in decision.message
    assert "min 5" in decision.message


def test_a_required_policy_bounds_single_clusters_and_is_named() -> None:
    demand = Demand(name="few", per_cluster=(of("a", most=2),))
    policy = enforcing.combined(Policy(), [demand])
    decision = decide(service(10, policy=policy), fleet(cluster("a", 60), cluster("b", 60)))
    assert counts(decision) == {"a": 2, "b": 8}
    assert "of ClusterPlacementPolicy few (Required)" in decision.verdicts[0].message


def test_a_lowered_maximum_moves_running_copies_when_they_have_another_place() -> None:
    policy = bounded(of("a", most=4))
    decision = decide(
        service(12, policy=policy), fleet(cluster("a", 20), cluster("b", 20)), held(a=9, b=3)
    )
    assert counts(decision) == {"a": 4, "b": 8}
    full = decide(
        service(12, policy=policy), fleet(cluster("a", 20), cluster("b", 0)), held(a=9, b=3)
    )
    assert counts(full) == {"a": 9, "b": 3}


def test_a_minimum_draws_no_copies_into_a_later_group_that_is_not_needed() -> None:
    groups = (Group("first", names=("a",)), Group("then", names=("b", "c")))
    policy = bounded(of("b", least=3), of("c", least=5), groups=groups)
    snapshot = fleet(cluster("a", 10), cluster("b", 50), cluster("c", 50))
    assert counts(decide(service(10, policy=policy), snapshot)) == {"a": 10}
    assert counts(decide(service(12, policy=policy), snapshot)) == {"a": 9, "b": 3}
    assert counts(decide(service(13, policy=policy), snapshot)) == {"a": 10, "b": 3}


def test_clusters_with_minimums_that_do_not_fit_together_are_chosen_to_place_most() -> None:
    policy = bounded(of("a", least=8), of("b", least=5), of("c", least=5))
    snapshot = fleet(cluster("a", 8), cluster("b", 5), cluster("c", 5))
    assert counts(decide(service(10, policy=policy), snapshot)) == {"b": 5, "c": 5}
    assert counts(decide(service(9, policy=policy), snapshot)) == {"a": 8}


def test_the_inputs_hash_depends_on_the_bounds_and_is_unchanged_without_them() -> None:
    snapshot = fleet(cluster("a", 9, labels={"pool": "spot"}), cluster("b", 9))
    plain = inputs.inputs_hash(service(9), snapshot)
    assert plain == "d7e8a58733c7502d"
    hashes = {
        inputs.inputs_hash(service(9, policy=bounded(entry)), snapshot)
        for entry in (of("a", most=1), of("a", most=2), of("a", percent=2), of("a", least=2))
    }
    assert len(hashes | {plain}) == 5
    relabelled = fleet(cluster("a", 9), cluster("b", 9))
    ask = service(9, policy=bounded(spot(most=1)))
    assert inputs.inputs_hash(ask, snapshot) != inputs.inputs_hash(ask, relabelled)


# -- by an oracle --------------------------------------------------------------

ENTRIES = st.lists(
    st.builds(
        lambda at, where, least, most: PerCluster(
            f"division.perCluster[{at}]",
            cluster="" if where == "spot" else where,
            selector=SPOT if where == "spot" else None,
            least=least,
            most=most[0],
            percent=most[1],
        ),
        st.integers(0, 3),
        st.sampled_from([*NAMES, "spot", "spot"]),
        st.sampled_from((0, 0, 2, 3, 5)),
        st.sampled_from([(None, None), (0, None), (3, None), (6, None), (None, 30), (None, 60)]),
    ),
    max_size=4,
)
ROOMS = st.lists(st.integers(0, 12), min_size=1, max_size=5)
STRATEGIES = st.sampled_from([Strategy.CAPACITY, Strategy.SPREAD, Strategy.PACK])


def fleet_of(rooms: Sequence[int]) -> FleetSnapshot:
    return fleet(
        *(
            cluster(name, room, labels={"pool": "spot"} if at % 2 else {})
            for at, (name, room) in enumerate(zip(NAMES, rooms, strict=False))
        )
    )


def most_placed(ask: Ask, views: Sequence[ClusterView], rooms: Sequence[int]) -> int:
    """Copies that the best set of clusters can hold, by trying every one."""
    best = 0
    caps, floors = [], []
    for view, room in zip(views, rooms, strict=True):
        most = rules.most_of(ask, view)
        caps.append(room if most is None else min(room, most))
        floors.append(rules.least_of(ask, view))
    most_clusters = ask.policy.division.max_clusters or len(views)
    for size in range(min(most_clusters, len(views)) + 1):
        for chosen in itertools.combinations(range(len(views)), size):
            if any(caps[at] < floors[at] for at in chosen):
                continue
            if sum(floors[at] for at in chosen) <= ask.count:
                best = max(best, min(sum(caps[at] for at in chosen), ask.count))
    return best


def contradicts(entries: Sequence[PerCluster]) -> bool:
    return any(entry.most is not None and entry.least > entry.most for entry in entries)


@given(ENTRIES, ROOMS, st.integers(1, 25), STRATEGIES, st.sampled_from([None, None, 1, 2, 3]))
@examples(400)
def test_every_bound_holds_and_no_set_of_clusters_could_take_more(
    entries: list[PerCluster],
    rooms: list[int],
    count: int,
    strategy: Strategy,
    most_clusters: int | None,
) -> None:
    policy = bounded(*entries, strategy=strategy, max_clusters=most_clusters)
    ask, snapshot = service(count, policy=policy), fleet_of(rooms)
    decision = decide(ask, snapshot)
    got = counts(decision)
    if contradicts(entries):
        assert decision.reason is Reason.MISCONFIGURED
        assert not got
        return
    views = list(snapshot.clusters.values())
    for view in views:
        copies, most = got.get(view.name, 0), rules.most_of(ask, view)
        assert not copies or copies >= rules.least_of(ask, view), (got, view.name)
        assert most is None or copies <= most, (got, view.name)
    assert sum(got.values()) == most_placed(ask, views, rooms)
    if decision.shortfall and sum(rooms) >= count and most_clusters is None:
        assert decision.reason in (Reason.AT_MAXIMUM, Reason.BELOW_MINIMUM)


@given(ENTRIES, ROOMS, st.integers(1, 25), STRATEGIES, st.integers(0, 3))
@examples(400)
def test_a_looser_bound_never_places_less(
    entries: list[PerCluster], rooms: list[int], count: int, strategy: Strategy, at: int
) -> None:
    """Scope: no hard spread rule, nothing held, room for the copies of this workload alone."""
    if at >= len(entries) or contradicts(entries):
        return
    snapshot = fleet_of(rooms)

    def placed(*bounds: PerCluster) -> int:
        ask = service(count, policy=bounded(*bounds, strategy=strategy))
        return sum(counts(decide(ask, snapshot)).values())

    before, entry = placed(*entries), entries[at]
    looser = [replace(entry, least=max(entry.least - 1, 0))]
    if entry.most is not None:
        looser.append(replace(entry, most=entry.most + 2))
    if entry.percent is not None:
        looser.append(replace(entry, percent=min(entry.percent + 20, 100)))
    for loosened in looser:
        assert placed(*entries[:at], loosened, *entries[at + 1 :]) >= before
    assert placed(*entries[:at], *entries[at + 1 :]) >= before


@pytest.mark.parametrize("seed", range(60))
def test_growth_and_moves_keep_the_bounds(seed: int) -> None:
    rng = Random(seed)
    rooms = [rng.randint(0, 9) for _ in NAMES]
    has = {name: rng.randint(1, 5) for name in rng.sample(NAMES, 2)}
    entries = [
        PerCluster(
            f"division.perCluster[{at}]",
            cluster=rng.choice(NAMES),
            least=rng.choice((0, 2, 3)),
            most=rng.choice((None, 3, 6)),
        )
        for at in range(3)
    ]
    ask = service(sum(has.values()) + rng.randint(0, 9), policy=bounded(*entries))
    snapshot = fleet_of(rooms)
    got = counts(decide(ask, snapshot, held(**dict(sorted(has.items())))))
    for view in snapshot.clusters.values():
        copies, before, most = (
            got.get(view.name, 0),
            has.get(view.name, 0),
            rules.most_of(ask, view),
        )
        assert most is None or copies <= max(most, before), (seed, got)
        if copies and not before:
            assert copies >= rules.least_of(ask, view), (seed, got)
    assert sum(got.values()) >= sum(has.values())
