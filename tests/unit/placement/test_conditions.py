"""Properties, alternatives and preferences of a policy: which clusters are open, which copies stay,
and which clusters are chosen."""

from dataclasses import replace
from typing import Any

import pytest

from federator.api import placementfields
from federator.api.placement import placementpolicy
from federator.model.decision import Decision, Reason
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, NodeRow
from federator.model.policy import Division, Policy, Strategy
from federator.model.resources import Resources
from federator.model.terms import Stated
from federator.placement.policy import enforcing
from federator.placement.room.commitments import Commitments
from federator.scheduling.queueing_hints import Hint, HintKind, may_help, waits
from tests.unit.placement.fleets import cluster, counts, decide, fleet, held, jobs, service
from tests.unit.placement.ways import decided_alike, in_columns


def policy(division: Division | None = None, **clusters: Any) -> Policy:
    fields = placementfields.to_policy_fields({"clusters": clusters})
    return Policy(**{**fields, "division": division or Division()})


def priced(name: str, price: str, copies: int = 10, **more: Any) -> ClusterView:
    stated = Stated(more.pop("version", "v1.36.0"), more.pop("properties", {}), price)
    return cluster(name, copies, stated=stated, **more)


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"key": key, "operator": operator}
    return {**entry, "value": values[0]} if values else entry


def message(decision: Decision, name: str) -> str:
    return next(each.message for each in decision.verdicts if each.cluster == name)


CHEAP: dict[str, Any] = {"properties": [term("price", "Lt", "2")]}


def test_a_term_over_stated_facts_keeps_new_copies_away_and_moves_running_ones() -> None:
    snapshot = fleet(priced("a", "1"), priced("b", "3"))
    ask = service(4, policy=policy(**CHEAP))
    made = decide(ask, snapshot)
    assert counts(made) == {"a": 4}
    assert message(made, "b").startswith("cluster b: its price is 3, wanted is price < 2 (")
    assert counts(decide(ask, snapshot, held(b=4))) == {"a": 4}
    full = fleet(priced("a", "1", 1), priced("b", "3"))
    stays = decide(ask, full, held(b=4))
    assert counts(stays) == {"a": 1, "b": 3}


def test_a_cluster_without_the_property_is_refused_and_named() -> None:
    made = decide(service(2, policy=policy(**CHEAP)), fleet(priced("a", ""), priced("b", "3")))
    assert counts(made) == {}
    assert "its price is not known" in message(made, "a")
    assert made.reason is Reason.NO_MATCHING_CLUSTER
    assert "asks for price < 2, and of a its price is not known" in made.message


def test_a_term_over_the_report_keeps_new_copies_away_and_moves_none() -> None:
    snapshot = fleet(cluster("a", 9), cluster("b", 3))
    ask = service(4, policy=policy(properties=[term("cpu.free", "Gt", "5")]))
    made = decide(ask, snapshot)
    assert counts(made) == {"a": 4}
    assert "its cpu.free is 3, wanted is cpu.free > 5" in message(made, "b")
    assert counts(decide(ask, snapshot, held(b=2))) == {"a": 2, "b": 2}


def test_a_report_admits_a_cluster_that_the_last_one_did_not() -> None:
    ask = service(2, policy=policy(properties=[term("cpu.free", "Gt", "5")]))
    commitments = Commitments()
    small, large = fleet(cluster("a", 3)), fleet(cluster("a", 9))
    for snapshot, copies in ((small, 0), (large, 2), (small, 0)):
        ledger = commitments.open(snapshot)
        made = decide(ask, snapshot, ledger=ledger)
        assert sum(counts(made).values()) == copies
        waiting = waits(ask, made)
        if not copies:
            assert made.reason is Reason.INSUFFICIENT_CAPACITY
            assert waiting is not None
            assert may_help(Hint(HintKind.ROOM, "a"), waiting)


def test_an_expression_that_fails_for_one_cluster_refuses_that_one_and_moves_nothing() -> None:
    snapshot = fleet(priced("a", "1"), priced("b", ""), priced("c", "9"))
    ask = service(3, policy=policy(properties=[{"cel": "cluster.price < 4.0"}]))
    made = decide(ask, snapshot)
    assert counts(made) == {"a": 3}
    assert "make the expression fail (the cluster has no price)" in message(made, "b")
    assert "make the expression false" in message(made, "c")
    assert counts(decide(ask, snapshot, held(b=2, c=1))) == {"a": 1, "b": 2}


def test_alternatives_are_an_or_and_the_fields_beside_them_an_and() -> None:
    def named(name: str, zone: str, price: str) -> ClusterView:
        return priced(name, price, labels={"zone": zone})

    snapshot = fleet(named("a", "x", "1"), named("b", "y", "1"), named("c", "y", "9"))
    either = [
        {"selector": {"matchLabels": {"zone": "x"}}},
        {"names": ["c"], "properties": [term("price", "Gt", "5")]},
    ]
    assert counts(decide(service(4, policy=policy(anyOf=either)), snapshot)) == {"a": 2, "c": 2}
    both = policy(anyOf=either, names=["a", "b"])
    made = decide(service(4, policy=both), snapshot)
    assert counts(made) == {"a": 4}
    assert "match no alternative: [0] its labels are others, wanted is zone=x; [1]" in message(
        made, "b"
    )


def test_a_policy_that_cannot_be_read_places_nothing_and_moves_nothing() -> None:
    spec = {"clusters": {"properties": [{"cel": "cluster.prize < 4.0"}]}}
    bad = placementpolicy.to_policy({"metadata": {"name": "p"}, "spec": spec}, "match")
    snapshot = fleet(priced("a", "1"), priced("b", "9"))
    made = decide(service(4, policy=bad), snapshot, held(b=2))
    assert counts(made) == {"b": 2}
    assert made.reason is Reason.MISCONFIGURED
    assert "spec.clusters.properties[0].cel: column 9: unknown name prize" in made.message


def required(**clusters: Any) -> Policy:
    spec = {"enforcement": "Required", "clusters": clusters}
    obj = {"kind": "ClusterPlacementPolicy", "metadata": {"name": "org"}, "spec": spec}
    demand = placementpolicy.to_demand(obj)
    assert demand is not None
    return enforcing.combined(Policy(), [demand])


def test_a_required_policy_adds_its_conditions() -> None:
    snapshot = fleet(priced("a", "1", 9), priced("b", "9", 9), priced("c", "1", 3))
    terms = [term("price", "Lt", "2"), term("cpu.free", "Gt", "5")]
    made = decide(service(4, policy=required(properties=terms)), snapshot, held(b=1, c=1))
    assert counts(made) == {"a": 3, "c": 1}
    assert "ClusterPlacementPolicy org (Required)" in message(made, "b")


def test_a_required_policy_that_cannot_be_read_stops_growth_and_moves_nothing() -> None:
    snapshot = fleet(priced("a", "1"), priced("b", "9"))
    bad = required(properties=[{"cel": "cluster.prize < 2.0"}], names=["a"])
    made = decide(service(4, policy=bad), snapshot, held(a=1))
    assert counts(made) == {"a": 1}
    assert made.reason is Reason.MISCONFIGURED
    assert "Required policy org: spec.clusters.properties[0].cel: column 9" in made.message


BY_PRICE = {"weight": 3, "property": "price", "order": "Ascending"}
ONE, TWO = Division(max_clusters=1), Division(max_clusters=2)


def shop() -> FleetSnapshot:
    return fleet(
        priced("a", "4", 20, labels={"pool": "reserved"}),
        priced("b", "1", 8, labels={"pool": "spot"}),
        priced("c", "2", 12, labels={"pool": "reserved"}),
        priced("d", "", 40, labels={"pool": "reserved"}),
    )


@pytest.mark.parametrize(
    ("preferences", "best"),
    [
        ([BY_PRICE], "b"),
        ([{**BY_PRICE, "order": "Descending"}], "a"),
        ([{"weight": 1, "selector": {"matchLabels": {"pool": "spot"}}}], "b"),
        ([{"weight": 1, "scorer": "Price"}], "b"),
        ([{"weight": 1, "scorer": "FreeCapacity"}], "d"),
        ([{"weight": 1, "scorer": "Fit"}], "b"),
        ([{"weight": 1, "scorer": "Fragmentation"}], "b"),
        ([{"weight": 1, "property": "cpu.free", "order": "Descending"}], "d"),
        ([{**BY_PRICE, "weight": 1}, {"weight": 9, "scorer": "FreeCapacity"}], "d"),
    ],
)
def test_the_preferred_cluster_is_chosen_by_every_way(
    preferences: list[dict[str, Any]], best: str
) -> None:
    for ask in (
        service(5, policy=policy(ONE, preferences=preferences)),
        jobs(5, 5, policy=policy(ONE, preferences=preferences)),
    ):
        ledger = Commitments().open(shop())
        assert in_columns(ask, shop(), ledger, seq=1, by_name=True)
        made = decided_alike(ask, (), shop(), ledger, seq=1, by_name=True)
        assert [share.cluster for share in made.shares] == [best]


def test_points_are_recorded_by_preference_and_divide_by_weight() -> None:
    wishes = [BY_PRICE, {"weight": 1, "selector": {"matchLabels": {"pool": "reserved"}}}]
    made = decide(service(5, policy=policy(TWO, preferences=wishes)), shop())
    terms = {each.cluster: dict(each.terms) for each in made.verdicts if each.got}
    assert sorted(terms) == ["b", "c"]
    # (4 - 2) / (4 - 1) of three quarters of 10,000
    assert terms["c"]["price Ascending"] == 10_000 * 3 * 666 // 4000
    assert terms["b"] == {
        "home": 0,
        "preference": 2000,
        "price Ascending": 7500,
        "pool=reserved": 0,
        "room": 200,
    }


def test_pack_opens_the_cheapest_cluster_and_then_the_next() -> None:
    cheapest = policy(Division(Strategy.PACK), preferences=[BY_PRICE])
    assert counts(decide(service(8, policy=cheapest), shop())) == {"b": 8}
    assert counts(decide(service(18, policy=cheapest), shop())) == {"b": 7, "c": 11}


def test_copies_stay_where_they_are_whatever_is_preferred() -> None:
    ask = service(5, policy=policy(ONE, preferences=[BY_PRICE]))
    assert counts(decide(ask, shop(), held(a=5))) == {"a": 5}


def gpus(name: str, count: int) -> ClusterView:
    node = Resources({"cpu": 64_000, "pods": 100, "nvidia.com/gpu": count})
    return ClusterView(name, capacity=Capacity((NodeRow(4, node, node),)))


def test_clusters_with_gpus_are_spared_unless_gpus_are_requested() -> None:
    snapshot = fleet(gpus("a", 8), gpus("b", 0))
    ask = service(3, policy=policy(ONE, preferences=[{"weight": 1, "scorer": "SpareGPUs"}]))
    assert counts(decide(ask, snapshot)) == {"b": 3}
    wants = replace(ask.shape, requests=Resources({"cpu": 1000, "nvidia.com/gpu": 1}))
    assert counts(decide(replace(ask, shape=wants), snapshot)) == {"a": 3}


def test_balance_prefers_the_emptiest_cluster() -> None:
    full = Resources({"cpu": 10_000, "memory": 64 << 30, "pods": 100})

    def filled(name: str, cpu: int, memory: int) -> ClusterView:
        free = Resources({"cpu": cpu, "memory": memory << 30, "pods": 100})
        return ClusterView(name, capacity=Capacity((NodeRow(1, full, free),)))

    snapshot = fleet(filled("a", 9000, 8), filled("b", 5000, 40))
    ask = service(3, policy=policy(ONE, preferences=[{"weight": 1, "scorer": "Balance"}]))
    assert counts(decide(ask, snapshot)) == {"b": 3}


def test_an_edited_condition_is_another_input_and_its_order_is_none() -> None:
    snapshot = fleet(priced("a", "1"))
    terms = [term("price", "Lt", "2"), term("version", "Gt", "1.30")]

    def hashed(**clusters: Any) -> str:
        return decide(service(1, policy=policy(**clusters)), snapshot).inputs_hash

    assert hashed(properties=terms) == hashed(properties=terms[::-1])
    made = [
        hashed(),
        hashed(properties=terms),
        hashed(properties=terms[:1]),
        hashed(anyOf=[{"properties": terms}]),
        hashed(preferences=[BY_PRICE]),
    ]
    assert len({*made}) == len(made)
