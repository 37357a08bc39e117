"""Daemons: one in every cluster that admits it and in no other, charged a pod on each node."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, PodShape, Tier
from federator.model.decision import Decision, Reason
from federator.model.fleet import Capacity, Holding, NodeRow
from federator.model.kubernetes import selectors
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.policy import Demand, Policy
from federator.model.resources import Resources
from federator.placement import everynode
from federator.placement.selection import filters
from tests.unit.placement.fleets import (
    cluster,
    commitment,
    commitments_with,
    counts,
    decide,
    fleet,
    service,
)

POD = PodShape(Resources({"cpu": 1000, "pods": 1}), one_per_node=True, every_node=True)
PINNED = replace(POD, node_selector='{"nodeSelector":{"pool":"gpu"}}')


def daemon(policy: Policy | None = None, shape: PodShape = POD, **more: Any) -> Ask:
    return service(1, policy=everynode.policy_of(policy or Policy()), shape=shape, **more)


def has(**nodes: int) -> tuple[Holding, ...]:
    return tuple(Holding(name, 1, 1, 7, nodes=count) for name, count in nodes.items())


def nodes_of(decision: Decision) -> Mapping[str, int | None]:
    return {share.cluster: share.nodes for share in decision.shares}


def quota(cpu: int) -> QuotaAccount:
    return QuotaAccount(
        "feed",
        projects=frozenset({"feed"}),
        tiers={Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": cpu}))},
    )


def selecting(**labels: str) -> Policy:
    return Policy(name="p", selector=selectors.from_dict({"matchLabels": labels}, "x"))


def test_every_cluster_gets_it_room_or_not_and_is_charged_a_pod_on_each_node() -> None:
    made = decide(
        daemon(),
        fleet(cluster("a", 5, nodes=3), cluster("b", 0, nodes=2), cluster("c", 1, nodes=0)),
    )
    assert nodes_of(made) == {"a": 3, "b": 2, "c": 0}
    assert (made.wanted, made.shortfall, made.reason) == (3, 0, Reason.CHOSEN)
    assert {share.seq for share in made.shares} == {100}


def test_its_charge_is_what_services_of_the_same_batch_lack() -> None:
    snapshot = fleet(cluster("a", 2, nodes=4))
    ledger = commitments_with().open(snapshot)
    decide(daemon(), snapshot, ledger=ledger)
    assert counts(decide(service(9, name="web2"), snapshot, ledger=ledger)) == {"a": 4}


def test_a_share_keeps_its_seq_while_nodes_come_and_go_and_the_charge_follows_them() -> None:
    made = decide(daemon(), fleet(cluster("a", 5, nodes=6), cluster("b", 5, nodes=2)), has(a=3))
    assert nodes_of(made) == {"a": 6, "b": 2}
    assert {share.cluster: share.seq for share in made.shares} == {"a": 7, "b": 100}


def test_nodes_with_taints_that_the_pods_do_not_tolerate_are_not_counted() -> None:
    room = Resources({"cpu": 8000, "pods": 100})
    taint = Taint("gpu", "", "NoSchedule")
    rows = (NodeRow(4, room, room), NodeRow(3, room, room, taints=(taint,)))
    snapshot = fleet(cluster("a", 1, capacity=Capacity(rows=rows)))
    assert nodes_of(decide(daemon(), snapshot)) == {"a": 4}
    tolerant = replace(POD, tolerations=(Toleration("gpu", "Exists"),))
    assert nodes_of(decide(daemon(shape=tolerant), snapshot)) == {"a": 7}


def test_nodes_that_only_the_member_can_tell_are_waited_for_unless_it_is_there_already() -> None:
    room = Resources({"cpu": 8000, "pods": 100})
    answered = Capacity(rows=(NodeRow(9, room, room),), copies={PINNED.id: 2})
    snapshot = fleet(
        cluster("a", 1, capacity=answered), cluster("b", 1, nodes=9), cluster("c", 1, nodes=9)
    )
    made = decide(daemon(shape=PINNED), snapshot, has(c=5))
    assert nodes_of(made) == {"a": 2, "c": 5}
    assert (made.reason, made.shortfall) == (Reason.PENDING_EVALUATION, 1)
    assert made.message.startswith("2 of 3 clusters have it, on 7 nodes: b has not answered yet")


LEAVES = {
    "other labels": {},
    "a person's taint": {"labels": {"x": "y"}, "taints": (Taint("maintenance", "", "NoExecute"),)},
    "being removed": {"removing": True, "labels": {"x": "y"}},
}
STAYS = {
    "cordoned": {"cordoned": True},
    "not ready": {"ready": False},
    "stale": {"stale": True},
    "closed to new work": {"taints": (Taint("full", "", "NoSchedule"),)},
    "not heard": {"taints": (Taint("federation.pinterest.com/unreachable", "", "NoExecute"),)},
}


@pytest.mark.parametrize("more", LEAVES.values(), ids=LEAVES)
def test_a_cluster_that_no_longer_admits_it_loses_it_at_once(more: dict[str, Any]) -> None:
    snapshot = fleet(cluster("a", 5, **more), cluster("b", 5, labels={"x": "y"}))
    made = decide(daemon(selecting(x="y")), snapshot, has(a=1, b=1))
    assert nodes_of(made) == {"b": 1}
    assert made.reason is Reason.CHOSEN


@pytest.mark.parametrize("state", STAYS.values(), ids=STAYS)
def test_a_cluster_that_only_takes_nothing_new_keeps_it_and_does_not_get_it(
    state: dict[str, Any],
) -> None:
    snapshot = fleet(cluster("a", 5, nodes=2, **state), cluster("b", 5))
    assert nodes_of(decide(daemon(), snapshot, has(a=2))) == {"a": 2, "b": 1}
    assert nodes_of(decide(daemon(), snapshot)) == {"b": 1}


def test_its_charge_follows_the_nodes_of_clusters_that_only_keep_it_or_stand_against_a_slip() -> (
    None
):
    snapshot = fleet(cluster("a", 5, nodes=6, cordoned=True), cluster("b", 5, nodes=1, stale=True))
    assert nodes_of(decide(daemon(), snapshot, has(a=2, b=4))) == {"a": 6, "b": 4}
    slip = decide(daemon(selecting(x="typo")), fleet(cluster("a", 5, nodes=3)), has(a=5))
    assert (nodes_of(slip), slip.held) == ({"a": 3}, 1)
    asleep = decide(daemon(suspended=True), fleet(cluster("a", 5, nodes=3)), has(a=5))
    assert nodes_of(asleep) == {"a": 3}


def test_a_selector_that_admits_nobody_takes_nothing_down_but_removal_and_policies_do() -> None:
    ask = daemon(selecting(x="typo"))
    made = decide(ask, fleet(cluster("a", 5, labels={"x": "y"}), cluster("b", 5)), has(a=1))
    assert nodes_of(made) == {"a": 1}
    assert (made.reason, made.held, made.shortfall) == (Reason.NO_CLUSTER_ADMITTED, 1, 0)
    assert "it stays in a until one is admitted" in made.message
    assert nodes_of(decide(ask, fleet(cluster("a", 5, removing=True)), has(a=1))) == {}
    forced = daemon(replace(selecting(x="typo"), required=(Demand(name="eu", names=("z",)),)))
    assert nodes_of(decide(forced, fleet(cluster("a", 5)), has(a=1))) == {}


def test_where_nothing_matches_the_decision_says_why() -> None:
    made = decide(daemon(selecting(x="y")), fleet(cluster("a", 5), cluster("b", 5)))
    assert (made.shares, made.wanted, made.shortfall, made.reason) == (
        (),
        1,
        1,
        Reason.NO_MATCHING_CLUSTER,
    )
    assert decide(daemon(), fleet()).reason is Reason.NO_MATCHING_CLUSTER
    cordoned = decide(daemon(), fleet(cluster("a", 5, cordoned=True)))
    assert (cordoned.shortfall, cordoned.reason) == (1, Reason.CORDONED)


def test_quota_is_asked_for_a_pod_on_each_node() -> None:
    snapshot = fleet(cluster("a", 5, nodes=3), cluster("b", 5, nodes=3), quotas=[quota(4000)])
    made = decide(daemon(), snapshot)
    assert sorted(nodes_of(made).values()) == [3]  # type: ignore[type-var]
    assert (made.shortfall, made.reason) == (1, Reason.EXCEEDS_MAX_QUOTA)
    assert (
        decide(daemon(), fleet(cluster("a", 5, nodes=3), quotas=[quota(3000)])).reason
        is Reason.CHOSEN
    )
    grown = decide(
        daemon(),
        fleet(cluster("a", 5, nodes=9), cluster("b", 5, nodes=1), quotas=[quota(4000)]),
        has(a=3),
    )
    assert nodes_of(grown) == {"a": 9}  # they run whether the account has room for them or not
    whole = decide(daemon(Policy(require_all=True)), snapshot)
    assert nodes_of(whole) == {}


def test_its_commitment_is_a_pod_on_each_node() -> None:
    made = commitment(daemon(), has(a=3, b=4))
    assert (made.copies, made.usage["cpu"]) == (7, 7000)


def test_a_policy_that_cannot_be_read_and_a_suspended_daemon_change_nothing_that_runs() -> None:
    snapshot = fleet(cluster("a", 5), cluster("b", 5))
    broken = decide(daemon(Policy(problem="policy p: spec.x is bad")), snapshot, has(a=1))
    assert (nodes_of(broken), broken.reason) == ({"a": 1}, Reason.MISCONFIGURED)
    asleep = decide(daemon(suspended=True), snapshot, has(a=1))
    assert (nodes_of(asleep), asleep.reason) == ({"a": 1}, Reason.SUSPENDED)


WORLDS = st.lists(
    st.fixed_dictionaries(
        {
            "nodes": st.integers(0, 4),
            "labels": st.sampled_from([{"x": "y"}, {}]),
            "cordoned": st.booleans(),
            "ready": st.booleans(),
            "removing": st.booleans(),
            "taints": st.sampled_from(
                [(), (Taint("t", "", "NoExecute"),), (Taint("t", "", "NoSchedule"),)]
            ),
        }
    ),
    max_size=5,
)


@given(
    WORLDS, st.sets(st.sampled_from("abcde")), st.sampled_from([None, 0, 3000, 6000]), st.booleans()
)
def test_open_clusters_have_it_and_those_that_leave_do_not_whatever_the_fleet(
    worlds: list[dict[str, Any]], holders: Iterable[str], limit: int | None, chosen: bool
) -> None:
    quotas = [] if limit is None else [quota(limit)]
    snapshot = fleet(
        *(cluster(name, 2, **one) for name, one in zip("abcde", worlds, strict=False)),
        quotas=quotas,
    )
    ask = daemon(selecting(x="y") if chosen else None)
    mine = has(**dict.fromkeys(sorted(holders), 1))
    made = decide(ask, snapshot, mine)
    got, names = counts(made), {verdict.cluster for verdict in made.verdicts}
    assert names == snapshot.clusters.keys()
    assert made.wanted == sum(got.values()) + made.shortfall
    assert set(got.values()) <= {1}
    admits = {
        name for name, view in snapshot.clusters.items() if filters.refusal(ask, view) is None
    }
    assert made.held or {name for name in got if name not in holders} <= admits
    if limit is None:
        assert admits <= got.keys()
    gone = {
        name
        for name, view in snapshot.clusters.items()
        if view.removing or any(t.effect == "NoExecute" for t in view.taints)
    }
    assert not gone & got.keys()
    again = decide(
        ask,
        snapshot,
        tuple(Holding(one.cluster, 1, 1, one.seq, nodes=one.nodes) for one in made.shares),
    )
    assert (again.shares, again.reason) == (made.shares, made.reason) or limit is not None
