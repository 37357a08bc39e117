"""Affinity and anti-affinity between workloads (`workloadAffinity`), against rules written down a
second time.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import Ask
from federator.model.decision import Decision, Reason
from federator.model.fleet import ClusterView, FleetSnapshot, Holding
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.neighbours import Peer, WorkloadTerm, repelling
from federator.model.policy import DEFAULT_POLICY, Division, Policy
from federator.model.terms import WORKLOADS, Preference, Stated
from federator.placement import engine, inputs
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle, queueing_hints
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from federator.scheduling.queueing_hints import Hint, HintKind
from tests.examples import examples
from tests.unit.placement.company import company
from tests.unit.placement.fleets import (
    cluster,
    commitment,
    commitments_with,
    counts,
    fleet,
    held,
    jobs,
    service,
)
from tests.unit.placement.ways import decided_alike, in_columns


def labels(**wanted: str) -> LabelSelector:
    return LabelSelector(tuple(sorted(wanted.items())))


def near(key: str = "", same: tuple[str, ...] = (), **wanted: str) -> WorkloadTerm:
    selector = labels(**wanted) if wanted else None
    return WorkloadTerm("workloadAffinity.affinity[0]", selector, same, key)


def away(key: str = "", same: tuple[str, ...] = (), **wanted: str) -> WorkloadTerm:
    term = near(key, same, **wanted)
    return replace(term, path="workloadAffinity.antiAffinity[0]", away=True)


def under(*terms: WorkloadTerm, **more: Any) -> Policy:
    wishes = tuple(
        Preference(term.weight, WORKLOADS, term.path, name=term.path)
        for term in terms
        if term.weight
    )
    return replace(
        DEFAULT_POLICY, name="near", origin="match", workloads=terms, preferences=wishes, **more
    )


def with_peers(snapshot: FleetSnapshot, asks: Iterable[Ask]) -> FleetSnapshot:
    every = [
        Peer(ask.uid, ask.key, ask.labels, repelling(ask.policy.workloads), ask.policy.name)
        for ask in asks
    ]

    def peers(namespace: str) -> list[Peer]:
        return [peer for peer in every if peer.key.namespace == namespace]

    return replace(snapshot, peers=peers)


def run(snapshot: FleetSnapshot, *asks: Ask, commitments: Commitments | None = None) -> cycle.Cycle:
    """One cycle over new workloads that know each other."""
    entries, numbers = [Entry(ask=ask) for ask in asks], itertools.count(100)
    return cycle.run(
        entries,
        Queue(),
        with_peers(snapshot, asks),
        commitments or Commitments(),
        seq=numbers.__next__,
    )


def placed(made: cycle.Cycle) -> Mapping[str, Mapping[str, int]]:
    assert not made.failed
    return {each.key.name: counts(each.decision) for each in made.decided}


ZONES = fleet(
    cluster("a", 20, labels={"zone": "z1"}),
    cluster("b", 20, labels={"zone": "z1"}),
    cluster("c", 20, labels={"zone": "z2"}),
)


def test_copies_go_to_domains_with_the_selected_workload() -> None:
    cache = service(5, name="cache", labels={"app": "cache"}, policy=Policy(names=("a",)))
    front = service(30, name="front", policy=under(near("zone", app="cache")))
    made = run(ZONES, front, cache)
    assert placed(made) == {"cache": {"a": 5}, "front": {"a": 13, "b": 17}}
    (said,) = [each.decision for each in made.decided if each.key.name == "front"]
    (refused,) = [verdict for verdict in said.verdicts if verdict.cluster == "c"]
    assert refused.reason is Reason.WORKLOAD_AFFINITY
    assert refused.message == (
        "cluster c has no workload of the namespace that matches app=cache with copies in zone z2 "
        "(spec.workloadAffinity.affinity[0] of policy near)"
    )


def test_workloads_that_repel_each_other_are_apart_in_one_cycle() -> None:
    apart = under(away("zone", same=("group",)), division=Division(max_clusters=1))
    asks = [service(2, name=f"w{at}", labels={"group": "g"}, policy=apart) for at in range(3)]
    made = placed(run(ZONES, *asks))
    zones = [{ZONES.clusters[name].labels["zone"] for name in got} for got in made.values()]
    assert sorted(map(len, zones)) == [0, 1, 1]
    assert zones[0] | zones[1] | zones[2] == {"z1", "z2"}


def test_required_anti_affinity_keeps_others_away_too() -> None:
    shy = service(2, name="shy", policy=under(away("zone", app="loud"), names=("c",)))
    loud = service(60, name="loud", labels={"app": "loud"})
    snapshot = with_peers(ZONES, (shy, loud))
    there = commitments_with(commitment(shy, held(c=2)))
    made = decided_alike(loud, (), snapshot, there.open(snapshot), seq=9, by_name=True)
    assert counts(made) == {"a": 20, "b": 20}
    (refused,) = [each for each in made.verdicts if each.cluster == "c"]
    assert refused.message == (
        "cluster c is kept apart from PinterestService shy, which has copies in zone z2 "
        "(spec.workloadAffinity.antiAffinity[0] of policy near, which holds for it)"
    )


def test_the_first_of_a_group_goes_anywhere_and_others_follow() -> None:
    together = under(near("zone", same=("group",)), division=Division(max_clusters=1))
    asks = [service(3, name=f"w{at}", labels={"group": "g"}, policy=together) for at in range(3)]
    made = placed(run(ZONES, *asks))
    zones = {ZONES.clusters[name].labels["zone"] for got in made.values() for name in got}
    assert [sum(got.values()) for got in made.values()] == [3, 3, 3]
    assert len(zones) == 1


def test_a_workload_alone_is_not_held_to_where_it_is() -> None:
    ask = service(30, labels={"group": "g"}, policy=under(near("", same=("group",))))
    snapshot = with_peers(ZONES, (ask,))
    ledger = commitments_with(commitment(ask, held(a=10))).open(snapshot)
    made = decided_alike(ask, held(a=10), snapshot, ledger, seq=9, by_name=True)
    assert sum(counts(made).values()) == 30


def test_nothing_is_placed_while_no_selected_workload_has_copies() -> None:
    front = service(3, name="front", policy=under(near("zone", app="cache")))
    made = run(ZONES, front)
    (decided,) = made.decided
    assert decided.decision.reason is Reason.WORKLOAD_AFFINITY
    waiting = made.inadmissible[front.key]
    assert queueing_hints.may_help(Hint(HintKind.WORKLOADS, namespace="feed"), waiting)
    assert not queueing_hints.may_help(Hint(HintKind.WORKLOADS, namespace="ads"), waiting)
    assert not queueing_hints.may_help(Hint(HintKind.ROOM, "a"), waiting)


def test_workloads_of_other_namespaces_do_not_count() -> None:
    cache = service(5, name="cache", namespace="ads", labels={"app": "cache"})
    front = service(3, name="front", policy=under(near("zone", app="cache")))
    assert placed(run(ZONES, cache, front))["front"] == {}
    shy = service(2, name="shy", namespace="ads", policy=under(away(app="loud")))
    loud = service(60, name="loud", labels={"app": "loud"})
    assert sum(placed(run(ZONES, shy, loud))["loud"].values()) == 58


def test_held_copies_stay_and_new_ones_follow_the_terms() -> None:
    policy = under(away("zone", app="loud"))
    shy = service(6, name="shy", policy=policy)
    loud = service(5, name="loud", labels={"app": "loud"})
    snapshot = with_peers(ZONES, (shy, loud))
    there = commitments_with(commitment(shy, held(a=2)), commitment(loud, held(a=5)))
    made = decided_alike(shy, held(a=2), snapshot, there.open(snapshot), seq=9, by_name=True)
    assert counts(made) == {"a": 2, "c": 4}


def test_a_group_leaves_a_cluster_that_is_emptied() -> None:
    """Each of two workloads that go together would otherwise wait for the other one."""
    together = under(near("zone", same=("group",)), division=Division(max_clusters=1))
    asks = [service(3, name=f"w{at}", labels={"group": "g"}, policy=together) for at in range(2)]
    views = {**ZONES.clusters, "a": replace(ZONES.clusters["a"], draining=True)}
    snapshot = replace(ZONES, clusters=views)
    there = commitments_with(*(commitment(ask, held(a=3)) for ask in asks))
    numbers = itertools.count(100)
    made = cycle.run(
        [Entry(ask=ask, standing=Standing(held=held(a=3))) for ask in asks],
        Queue(),
        with_peers(snapshot, asks),
        there,
        seq=numbers.__next__,
    )
    got = placed(made)
    zones = {views[name].labels["zone"] for each in got.values() for name in each}
    assert all("a" not in each and sum(each.values()) == 3 for each in got.values())
    assert len(zones) == 1


def test_a_cluster_without_the_label_takes_nothing_under_affinity() -> None:
    odd = fleet(*ZONES.clusters.values(), cluster("d", 20))
    ask = service(70, labels={"group": "g"}, policy=under(near("zone", same=("group",))))
    assert placed(run(odd, ask)) == {"web": {"a": 20, "b": 20, "c": 20}}


def test_a_cluster_in_several_zones_is_near_to_each() -> None:
    both = Stated(topology={"zone": ("z1", "z2")})
    wide = fleet(*ZONES.clusters.values(), cluster("d", 20, stated=both))
    cache = service(5, name="cache", labels={"app": "cache"}, policy=Policy(names=("c",)))
    front = service(60, name="front", policy=under(near("zone", app="cache")))
    assert placed(run(wide, cache, front))["front"] == {"c": 15, "d": 20}
    shy = service(60, name="shy", policy=under(away("zone", app="cache")))
    assert placed(run(wide, cache, shy))["shy"] == {"a": 20, "b": 20}


@pytest.mark.parametrize(("term", "expected"), [(near, {"c"}), (away, {"a", "b"})])
def test_a_term_with_a_weight_is_a_preference(term: object, expected: set[str]) -> None:
    wish = replace((near if term is near else away)("zone", app="cache"), weight=10)
    cache = service(5, name="cache", labels={"app": "cache"}, policy=Policy(names=("c",)))
    policy = under(wish, division=Division(max_clusters=1))
    front = service(3, name="front", policy=policy)
    got = placed(run(ZONES, cache, front))["front"]
    assert got.keys() <= expected
    assert sum(got.values()) == 3
    full = service(3, name="front", policy=replace(policy, names=("a", "b", "c")))
    only = fleet(
        *(replace(view, cordoned=view.name not in "ab") for view in ZONES.clusters.values())
    )
    assert sum(placed(run(only, full))["front"].values()) == 3


def test_job_sets_and_columns_follow_the_terms() -> None:
    policy = under(away("zone", app="loud"), division=Division(max_clusters=1))
    job = jobs(4, 4, policy=policy)
    loud = service(5, name="loud", labels={"app": "loud"})
    snapshot = with_peers(ZONES, (job, loud))
    ledger = commitments_with(commitment(loud, held(a=5))).open(snapshot)
    assert in_columns(job, snapshot, ledger, seq=9)
    assert counts(decided_alike(job, (), snapshot, ledger, seq=9)) == {"c": 4}


def test_terms_are_inputs_of_a_decision_and_where_others_are_is_none() -> None:
    ask = service(3, policy=under(away("zone", app="loud")))
    loud = service(5, name="loud", labels={"app": "loud"})
    plain = inputs.inputs_hash(service(3, policy=under()), ZONES)
    bare = inputs.inputs_hash(ask, ZONES)
    snapshot = with_peers(ZONES, (ask, loud))
    assert inputs.inputs_hash(ask, snapshot) == bare != plain
    assert inputs.inputs_hash(replace(ask, policy=under(away("", app="loud"))), ZONES) != bare


def test_ask_without_terms_is_not_looked_at_where_no_policy_has_any() -> None:
    """The same object is decided on: nothing is compared, and nothing is kept."""
    ask, ledger = service(3), Commitments().open(ZONES)
    engine.decide(ask, (), ZONES, ledger, seq=1)
    assert not ledger.resolved


_GROUPS = st.sampled_from(("g", "h"))
_APPS = st.sampled_from(("x", "y"))
_KEYS = st.sampled_from(("", "zone", "region"))


@st.composite
def _terms(draw: st.DrawFn) -> tuple[WorkloadTerm, ...]:
    made = []
    for at in range(draw(st.sampled_from((0, 1, 1, 2)))):
        keeps_away = draw(st.booleans())
        make = away if keeps_away else near
        same = draw(st.sampled_from(((), ("group",))))
        wanted = {"app": draw(_APPS)} if not same or draw(st.booleans()) else {}
        term = make(draw(_KEYS), same, **wanted)
        weight = draw(st.sampled_from((0, 0, 0, 5)))
        path = term.path.replace("[0]", f"[{at}]")
        made.append(replace(term, path=path, weight=weight))
    return tuple(made)


@st.composite
def _lying(draw: st.DrawFn, name: str) -> ClusterView:
    zone = draw(st.sampled_from(("z1", "z2", "z3", "")))
    given_labels = {"region": draw(st.sampled_from(("r1", "r2")))}
    several = draw(st.sampled_from((False, False, True)))
    stated = Stated(topology={"zone": ("z1", "z2")} if several else {})
    return cluster(
        name,
        draw(st.integers(2, 12)),
        labels=given_labels | ({"zone": zone} if zone else {}),
        stated=stated,
        draining=draw(st.sampled_from((False, False, False, True))),
    )


@st.composite
def _asks(draw: st.DrawFn, at: int) -> Ask:
    own = draw(st.fixed_dictionaries({"app": _APPS}, optional={"group": _GROUPS}))
    most = draw(st.sampled_from((None, None, 1)))
    policy = under(*draw(_terms()), division=Division(max_clusters=most))
    namespace = draw(st.sampled_from(("feed", "feed", "feed", "ads")))
    return service(
        draw(st.integers(1, 8)), name=f"w{at}", namespace=namespace, labels=own, policy=policy
    )


@examples(80)
@given(st.data())
def test_new_copies_begin_only_in_the_right_company(data: st.DataObject) -> None:
    """In each of three cycles, one decision after the other: copies grow exactly in clusters that
    rules written down a second time allow, and refusals name those that they do not."""
    views = {name: data.draw(_lying(name)) for name in "abcd"[: data.draw(st.integers(1, 4))]}
    asks: list[Ask] = [data.draw(_asks(at)) for at in range(data.draw(st.integers(1, 5)))]
    commitments, numbers = Commitments(), itertools.count(100)
    copies: dict[str, dict[str, int]] = {}
    for _ in range(3):
        turn = [ask for ask in asks if data.draw(st.booleans())]
        snapshot = with_peers(replace(ZONES, clusters=views), asks)
        made = cycle.run(
            [Entry(ask=ask, standing=_standing(copies, ask)) for ask in turn],
            Queue(),
            snapshot,
            commitments,
            seq=numbers.__next__,
        )
        assert not made.failed
        for decided in made.decided:
            _judged(decided.entry.ask, decided.decision, asks, copies, views)
            copies[decided.decision.uid] = dict(counts(decided.decision))
        for decided in made.decided:
            commitments.record(decided.after)
        asks = [replace(ask, count=grown, slots=grown) for ask in asks for grown in [ask.count + 2]]


def _standing(copies: Mapping[str, Mapping[str, int]], ask: Ask) -> Standing:
    mine = {name: count for name, count in copies.get(ask.uid, {}).items() if count}
    return Standing(held=tuple(Holding(name, count, count, 1) for name, count in mine.items()))


def _judged(
    ask: Ask,
    decision: Decision,
    asks: Sequence[Ask],
    copies: Mapping[str, Mapping[str, int]],
    views: Mapping[str, ClusterView],
) -> None:
    allowed = company(ask, asks, copies, views)
    before = copies.get(ask.uid, {})
    for share in decision.shares:
        if share.count > before.get(share.cluster, 0):
            assert allowed[share.cluster], (share, ask)
    for verdict in decision.verdicts:
        refused = verdict.reason is Reason.WORKLOAD_AFFINITY
        if refused:
            assert not allowed[verdict.cluster], verdict
        elif not allowed[verdict.cluster] and not before.get(verdict.cluster):
            assert verdict.reason in (Reason.CORDONED, Reason.SUSPENDED), verdict
