"""ResourceQuotas and LimitRanges of members: what they leave bounds copies, what they refuse filters
clusters, and nothing is charged twice."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import (
    Admitted,
    Ask,
    Component,
    Container,
    Ordinals,
    PodShape,
    StatedPod,
)
from federator.model.decision import Decision, Reason
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, NodeRow, copies_of
from federator.model.policy import Division, Policy, Strategy
from federator.model.resources import ZERO, Resources
from federator.model.rules import namespaces
from federator.model.rules.namespaces import Amounts, Bounded, LimitRange, QuotaLeft, Rules
from federator.placement import explain
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle, editing
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from tests.examples import examples
from tests.unit.placement.fleets import (
    POD,
    commitment,
    commitments_with,
    counts,
    decide,
    fleet,
    held,
    jobs,
    service,
)

NAMESPACE = "feed"


def cluster(
    name: str,
    copies: int,
    *quotas: QuotaLeft,
    ranges: Iterable[LimitRange] = (),
    includes_seq: int = 0,
    **more: Any,
) -> ClusterView:
    """As `fleets.cluster`, with these in namespace `feed`."""
    room = Resources({"cpu": 1000 * copies, "memory": copies << 30, "pods": 10_000})
    entries = tuple(ranges)
    rules = {NAMESPACE: Rules(entries, tuple(quota.bounded for quota in quotas))}
    capacity = Capacity(
        rows=(NodeRow(1, room, room),),
        includes_seq=includes_seq,
        rules=rules if quotas or entries else {},
        quotas={NAMESPACE: quotas} if quotas else {},
    )
    return ClusterView(name, capacity=capacity, **more)


def left(name: str = "compute", /, *, limits: Amounts = (), **requests: int) -> QuotaLeft:
    return QuotaLeft(name, tuple(sorted(requests.items())), limits)


def pod(*containers: Container) -> StatedPod:
    total = ZERO
    for each in containers:
        total = total + each.requests
    return StatedPod(containers, total + Resources({"pods": 1}))


def container(
    requests: Mapping[str, int], limits: Mapping[str, int] = {}, **more: Any
) -> Container:
    return Container(Resources({**limits, **requests}), Resources(limits), **more)


def batch(
    snapshot: FleetSnapshot, *asks: Ask, commitments: Commitments | None = None
) -> dict[str, Decision]:
    commitments = commitments or Commitments()
    entries = [
        Entry(
            ask=ask,
            standing=Standing(held=tuple(own.holdings) if own is not None else ()),  # type: ignore[arg-type]
        )
        for ask in asks
        for own in (commitments.commitment(ask.uid),)
    ]
    made = cycle.run(entries, Queue(), snapshot, commitments, seq=iter(range(100, 9000)).__next__)
    assert not made.failed, made.failed
    return {each.key.name: each.decision for each in made.decided}


class TestQuota:
    def test_a_quota_caps_the_copies_of_its_namespace_in_its_cluster(self) -> None:
        snapshot = fleet(cluster("a", 50, left(pods=3)), cluster("b", 4))
        made = decide(service(20), snapshot)

        assert counts(made) == {"a": 3, "b": 4}
        assert (made.reason, made.shortfall) == (Reason.NAMESPACE_LIMITS, 13)
        assert (
            "ResourceQuota compute of namespace feed there leaves pods 3, and a copy needs 1"
            in made.message
        )

    def test_a_cluster_without_anything_left_is_refused_with_that_reason(self) -> None:
        made = decide(service(2), fleet(cluster("a", 50, left(cpu=500)), cluster("b", 4)))

        assert counts(made) == {"b": 2}
        verdict = next(each for each in made.verdicts if each.cluster == "a")
        assert verdict.reason is Reason.NAMESPACE_LIMITS
        assert verdict.message == (
            "cluster a may take none: ResourceQuota compute of namespace feed there leaves cpu"
            " 500m, and a copy needs 1"
        )

    def test_other_namespaces_are_not_bounded(self) -> None:
        snapshot = fleet(cluster("a", 50, left(pods=0)))
        assert counts(decide(service(20, namespace="ads"), snapshot)) == {"a": 20}

    def test_held_copies_stay_and_only_growth_is_bounded(self) -> None:
        snapshot = fleet(cluster("a", 50, left(pods=2), includes_seq=1))
        assert counts(decide(service(5), snapshot, held(a=5))) == {"a": 5}
        assert counts(decide(service(9), snapshot, held(a=5))) == {"a": 7}
        assert counts(decide(service(5), fleet(cluster("a", 50, left(pods=0))), held(a=5))) == {
            "a": 5
        }

    def test_several_workloads_of_a_batch_share_what_is_left(self) -> None:
        snapshot = fleet(cluster("a", 50, left(pods=5)), cluster("b", 2))
        made = batch(snapshot, *(service(3, name=name) for name in ("x", "y", "z")))

        given_ = [counts(each).get("a", 0) for each in made.values()]
        assert sum(given_) == 5
        assert sum(counts(each).get("b", 0) for each in made.values()) == 2

    def test_decisions_that_a_report_does_not_include_are_charged_once(self) -> None:
        other = commitment(service(4, name="other"), held(a=4))  # seq 1
        for includes_seq, expected in ((0, 2), (1, 6)):
            snapshot = fleet(cluster("a", 50, left(pods=6), includes_seq=includes_seq))
            ledger = commitments_with(other).open(snapshot)
            assert counts(decide(service(20), snapshot, ledger=ledger)) == {"a": expected}

    def test_own_copies_that_a_report_does_not_include_are_charged_once(self) -> None:
        """5 are held, 6 were left before these: 1 more has room."""
        snapshot = fleet(cluster("a", 50, left(pods=6)))
        assert counts(decide(service(20), snapshot, held(a=5))) == {"a": 6}

    def test_a_copy_for_one_workload_charges_what_others_hold(self) -> None:
        others = commitments_with(
            commitment(service(4, name="other"), held(a=4)),
            commitment(service(9, name="else", namespace="ads"), held(a=9)),
        )
        snapshot = fleet(cluster("a", 50, left(pods=6)))
        alone = others.as_now("uid-web", {"a": 0})
        assert counts(decide(service(20), snapshot, ledger=alone.open(snapshot))) == {"a": 2}

    def test_charges_are_taken_back_with_the_decision(self) -> None:
        snapshot = fleet(cluster("a", 50, left(pods=6)))
        ledger = Commitments().open(snapshot)
        mark = ledger.mark()
        decide(service(6, name="first"), snapshot, ledger=ledger)
        assert counts(decide(service(1, name="none"), snapshot, ledger=ledger)) == {}
        ledger.rollback(mark)
        assert counts(decide(service(6), snapshot, ledger=ledger)) == {"a": 6}

    def test_limits_count_as_the_pods_state_them(self) -> None:
        stated = (pod(container({"cpu": 1000}, {"cpu": 4000})),)
        snapshot = fleet(cluster("a", 50, left(limits=(("cpu", 10_000),))))
        assert counts(decide(service(20, stated=stated), snapshot)) == {"a": 2}

    @pytest.mark.parametrize("require_all", [False, True])
    def test_jobs_get_as_many_slots_as_are_left(self, require_all: bool) -> None:
        snapshot = fleet(cluster("a", 50, left(pods=3)))
        ask = jobs(8, 8, policy=Policy(require_all=require_all))
        made = decide(ask, snapshot)
        assert sum(share.slots for share in made.shares) == (0 if require_all else 3)

    def test_a_daemon_goes_where_its_nodes_are_within_the_quota(self) -> None:
        shape = replace(POD, one_per_node=True, every_node=True)
        room = Resources({"cpu": 9000, "pods": 100})
        views = [
            replace(view, capacity=replace(view.capacity, rows=(NodeRow(3, room, room),)))
            for view in (cluster("a", 1, left(pods=2)), cluster("b", 1, left(pods=3)))
            if view.capacity is not None
        ]
        made = decide(service(1, shape=shape), fleet(*views))
        assert counts(made) == {"b": 1}
        assert made.reason is Reason.NAMESPACE_LIMITS

    def test_numbered_copies_and_gangs_keep_to_it(self) -> None:
        snapshot = fleet(cluster("a", 50, left(pods=3)), cluster("b", 1))
        made = decide(service(9, ordinals=Ordinals()), snapshot)
        assert counts(made) == {"a": 3, "b": 1}
        gang = PodShape.together((Component("worker", POD, 4, 4),))
        assert counts(decide(jobs(1, 1, shape=gang), snapshot)) == {}
        roomy = fleet(cluster("a", 50, left(pods=4)))
        assert counts(decide(jobs(1, 1, shape=gang), roomy)) == {"a": 1}

    def test_requests_of_running_copies_grow_only_within_it(self) -> None:
        """4 copies of one CPU run, 2 CPU are left: 6 in all are enough for 4 of 1.5 and no more."""
        admitted = Admitted(1, POD, "feed", service(1).tier, 0, 4)
        snapshot = fleet(cluster("a", 50, left(cpu=2000), includes_seq=1))
        for milli, grows in ((1500, True), (2000, False)):
            shape = PodShape(Resources({"cpu": milli, "pods": 1}))
            ask = replace(service(4, shape=shape), generation=2)
            commitments = commitments_with(commitment(service(4), held(a=4)))
            judged = editing.judge(ask, admitted, held(a=4), commitments.open(snapshot))
            assert (judged.why == "") is grows, (milli, judged.why)

    def test_an_explanation_names_what_bounds_the_cluster(self) -> None:
        snapshot = fleet(cluster("a", 50, left(pods=3)))
        made = decide(service(20), snapshot)
        row = explain.explain(service(20), (), snapshot, Commitments(), made).rows[0]
        assert (row.cap, row.bound) == (3, "ResourceQuota")

    def test_the_fewest_of_all_quotas_count(self) -> None:
        quotas = (left("a", pods=9), left("b", cpu=2500), left("c", memory=1))
        snapshot = fleet(cluster("a", 50, *quotas))
        made = decide(service(20), snapshot)
        assert counts(made) == {"a": 2}
        assert "ResourceQuota b" in made.message

    @examples(60)
    @given(
        st.lists(st.integers(0, 9), min_size=1, max_size=4),
        st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.booleans()), max_size=6),
        st.sampled_from(list(Strategy)),
        st.integers(0, 3),
    )
    def test_no_batch_exceeds_what_is_left(
        self,
        pods: list[int],
        wanted: list[tuple[int, bool, bool]],
        strategy: Strategy,
        running: int,
    ) -> None:
        """Of any strategy, with services and jobs of two namespaces, some of which hold copies."""
        views = [cluster(f"c{at}", 6, left(pods=most)) for at, most in enumerate(pods)]
        snapshot = fleet(*views)
        policy = Policy(division=Division(strategy))

        def ask_of(at: int, count: int, *, is_service: bool, here: bool) -> Ask:
            more: dict[str, Any] = {"name": f"w{at}", "policy": policy}
            more["namespace"] = NAMESPACE if here else "x"
            return service(count, **more) if is_service else jobs(count, count, **more)

        asks = [
            ask_of(at, count, is_service=is_service, here=here)
            for at, (count, is_service, here) in enumerate(wanted)
        ]
        commitments = commitments_with(
            *(
                commitment(ask, held(c0=min(running, ask.count)))
                for ask in asks[:1]
                if running and ask.unit == "replicas"
            )
        )
        made = batch(snapshot, *asks, commitments=commitments)
        for at, most in enumerate(pods):
            given_ = grew = 0
            for ask in asks:
                if ask.key.namespace != NAMESPACE:
                    continue
                here = [s for s in made[ask.key.name].shares if s.cluster == f"c{at}"]
                own = commitments.commitment(ask.uid)
                had = sum(copies_of(h) for h in own.holdings) if own and at == 0 else 0
                given_ += sum(map(copies_of, here))
                grew += max(sum(map(copies_of, here)) - had, 0)
            # what is held is not in the report either
            assert grew == 0 or given_ <= most, (at, most, given_)


class TestLimitRange:
    STATED = (pod(container({"cpu": 1000}, {"cpu": 2000})),)

    def refused(self, *ranges: LimitRange, stated: tuple[StatedPod, ...] = STATED) -> str:
        return namespaces.refusal(NAMESPACE, Rules(ranges), stated)

    def test_a_cluster_that_would_refuse_the_pod_is_filtered(self) -> None:
        tight = LimitRange("small", most=(("cpu", 1500),))
        snapshot = fleet(cluster("a", 50, ranges=[tight]), cluster("b", 4))
        made = decide(service(2, stated=self.STATED), snapshot)

        assert counts(made) == {"b": 2}
        verdict = next(each for each in made.verdicts if each.cluster == "a")
        assert verdict.reason is Reason.NAMESPACE_LIMITS
        assert verdict.message == (
            "cluster a: its LimitRange small of namespace feed allows at most cpu 1500m for a"
            " container, and it has cpu 2"
        )
        assert counts(decide(service(9, stated=self.STATED, namespace="ads"), snapshot))["a"] > 0

    def test_two_workloads_of_one_policy_are_judged_apart(self) -> None:
        tight = LimitRange("small", most=(("cpu", 1500),))
        snapshot = fleet(cluster("a", 50, ranges=[tight]))
        fits = (pod(container({"cpu": 1000}, {"cpu": 1500})),)
        made = batch(
            snapshot, service(2, name="x", stated=self.STATED), service(2, name="y", stated=fits)
        )
        assert [counts(made["x"]), counts(made["y"])] == [{}, {"a": 2}]

    def test_held_copies_stay_where_a_new_limit_range_would_refuse_them(self) -> None:
        tight = LimitRange("small", most=(("cpu", 1500),))
        made = decide(
            service(4, stated=self.STATED), fleet(cluster("a", 50, ranges=[tight])), held(a=3)
        )
        assert counts(made) == {"a": 3}

    @pytest.mark.parametrize(
        ("rule", "why"),
        [
            (LimitRange("l", least=(("cpu", 1000),)), ""),
            (LimitRange("l", least=(("cpu", 1001),)), "asks for at least cpu 1001m"),
            (LimitRange("l", least=(("memory", 1),)), "asks for at least memory 1"),
            (LimitRange("l", most=(("cpu", 2000),)), ""),
            (LimitRange("l", most=(("memory", 1 << 30),)), "it states no limit of memory"),
            (LimitRange("l", most=(("memory", 1),), default_limits=(("memory", 1),)), ""),
            (LimitRange("l", ratio=(("cpu", 2000),)), ""),
            (LimitRange("l", ratio=(("cpu", 1999),)), "at most 1.999 times the request"),
            (LimitRange("l", ratio=(("memory", 9000),)), "it states no such"),
            (LimitRange("l", of_pod=True, most=(("cpu", 2000),)), ""),
        ],
    )
    def test_containers_are_checked_as_an_api_server_checks_them(
        self, rule: LimitRange, why: str
    ) -> None:
        refused = self.refused(rule)
        assert (why in refused) if why else not refused, refused

    def test_a_pod_is_all_its_containers_or_its_widest_init_container(self) -> None:
        one_cpu = container({"cpu": 1000}, {"cpu": 1000})
        init = container({"cpu": 3000}, {"cpu": 3000}, ends=True)
        rule = LimitRange("l", of_pod=True, most=(("cpu", 2000),))
        assert not self.refused(rule, stated=(pod(one_cpu, one_cpu),))
        assert "cpu 3" in self.refused(rule, stated=(pod(one_cpu, one_cpu, one_cpu),))
        assert "cpu 3" in self.refused(rule, stated=(pod(init, one_cpu),))

    def test_a_quota_wants_each_container_to_state_what_it_bounds(self) -> None:
        bounded = Rules(quotas=(Bounded("compute", ("cpu", "pods"), ("memory",)),))
        refused = namespaces.refusal(NAMESPACE, bounded, self.STATED)
        assert refused == (
            "its ResourceQuota compute of namespace feed bounds limits.memory, and a container"
            " states no limits.memory"
        )
        defaults = replace(
            bounded, limit_ranges=(LimitRange("l", default_limits=(("memory", 1 << 20),)),)
        )
        assert not namespaces.refusal(NAMESPACE, defaults, self.STATED)

    def test_defaults_of_a_limit_range_count_in_its_quotas(self) -> None:
        stated = (pod(container({})),)
        defaults = LimitRange("l", default_requests=(("cpu", 2000),))
        snapshot = fleet(cluster("a", 50, left(cpu=5000), ranges=[defaults]))
        ask = service(9, stated=stated, shape=PodShape(Resources({"pods": 1})))
        assert counts(decide(ask, snapshot)) == {"a": 2}
