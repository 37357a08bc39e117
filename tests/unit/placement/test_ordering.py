"""Order of a batch, which policy speaks, who is woken by what, and the hash under which decisions
stay valid.
"""

import dataclasses
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, PodShape, Tier
from federator.model.decision import Reason, Verdicts
from federator.model.errors import FieldError
from federator.model.fleet import Capacity, FleetSnapshot, NodeRow
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from federator.model.resources import Resources
from federator.placement import inputs
from federator.placement.policy.policies import Policies, Rule, Subject
from federator.placement.room.commitments import Commitments
from federator.placement.selection import candidates
from federator.scheduling import ordering, queueing_hints
from federator.scheduling.queueing_hints import Hint, HintKind
from tests.unit.placement import worlds
from tests.unit.placement.fleets import (
    POD,
    cluster,
    commitment,
    counts,
    decide,
    fleet,
    held,
    service,
)


def names(asks: list[Ask]) -> list[str]:
    return [ask.key.name for ask in asks]


def test_tier_then_priority_then_age_then_name() -> None:
    asks = [
        service(1, name="spare", tier=Tier.PREEMPTIBLE, priority=99),
        service(1, name="young", created_s=9.0),
        service(1, name="old", created_s=1.0),
        service(1, name="urgent", created_s=9.5, priority=5),
        service(1, name="kept", tier=Tier.RESERVED, created_s=20.0),
        service(1, name="aged", created_s=1.0),
    ]
    assert names(ordering.order(asks)) == ["kept", "urgent", "aged", "old", "young", "spare"]


def test_a_project_with_many_asks_does_not_go_before_one_with_few() -> None:
    many = [service(5, name=f"m{i}", project="many", created_s=float(i)) for i in range(6)]
    few = [service(5, name=f"f{i}", project="few", created_s=100.0 + i) for i in range(2)]
    assert names(ordering.order([*many, *few])) == ["m0", "f0", "m1", "f1", "m2", "m3", "m4", "m5"]


def test_a_project_that_holds_much_waits_behind_one_that_holds_nothing() -> None:
    commitments = Commitments()
    commitments.record(commitment(service(1, name="big", project="rich"), held(a=50)))
    asks = [
        service(1, name="r", project="rich", created_s=1.0),
        service(1, name="p", project="poor", created_s=2.0),
    ]
    assert names(ordering.order(asks, commitments)) == ["p", "r"]


@given(st.lists(worlds.asks(), max_size=8), st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_how_the_batch_was_collected(
    asks: list[Ask], random: object
) -> None:
    apart = [dataclasses.replace(ask, uid=f"uid-{i}") for i, ask in enumerate(asks)]
    assert ordering.order(apart) == ordering.order(apart[::-1])


amounts = st.builds(
    lambda cpu, memory: PodShape(Resources({"cpu": cpu, "memory": memory, "pods": 1})),
    st.integers(0, 5000),
    st.integers(0, 1 << 34),
)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), amounts), max_size=10),
    st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(1, 9), amounts)),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 4)),
)
def test_shares_are_compared_as_exact_fractions(
    wanted: list[tuple[str, int, PodShape]],
    holds: dict[str, tuple[int, PodShape]],
    weights: dict[str, int],
) -> None:
    asks = [
        service(copies, name=f"w{at}", project=project, created_s=float(at), shape=shape)
        for at, (project, copies, shape) in enumerate(wanted)
    ]
    commitments = Commitments()
    for project, (copies, shape) in holds.items():
        holder = service(copies, name=f"held-{project}", project=project, shape=shape)
        commitments.record(commitment(holder, held(a=copies)))
    quotas = [
        QuotaAccount(project, projects=frozenset({project}), weight=weight)
        for project, weight in weights.items()
    ]

    ordered = ordering.order(asks, commitments, commitments.open(fleet(quotas=quotas)))

    used = dict(commitments.usage_by_project())
    total: dict[str, int] = {}
    for each in (*used.values(), *(ask.shape.requests * ask.count for ask in asks)):
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount

    def share(project: str) -> Fraction:
        mine = used.get(project, Resources())
        parts = [Fraction(amount, total[name]) for name, amount in mine.items()]
        weight = Fraction(weights.get(project, 1)) or Fraction(1, 1_000_000)
        return max(parts, default=Fraction(0)) / weight

    left = list(asks)
    for ask in ordered:
        assert ask is min(left, key=lambda one: (share(one.project), one.created_s))
        left.remove(ask)
        mine = used.get(ask.project, Resources())
        used[ask.project] = mine + ask.shape.requests * ask.count


WIDE = Policy()
NARROW = Policy(names=("a",))


def test_fewest_places_goes_before_share_and_age_and_after_priority() -> None:
    fleet_ = fleet(cluster("a", 5, nodes=2), cluster("b", 5, nodes=3))
    commitments = Commitments()
    commitments.record(commitment(service(1, name="big", project="rich"), held(a=2)))
    asks = [
        service(1, name="wide", project="poor", created_s=1.0, policy=WIDE),
        service(1, name="narrow", project="rich", created_s=9.0, policy=NARROW),
        service(1, name="urgent", created_s=9.0, policy=WIDE, priority=1),
        service(1, name="kept", created_s=9.0, policy=WIDE, tier=Tier.RESERVED),
    ]
    assert names(ordering.order(asks, commitments, commitments.open(fleet_))) == [
        "kept",
        "urgent",
        "narrow",
        "wide",
    ]
    assert names(ordering.order(asks, commitments)) == ["kept", "urgent", "wide", "narrow"]


def test_places_are_nodes_on_which_one_copy_fits_now() -> None:
    large = PodShape(Resources({"cpu": 6000, "pods": 1}))
    fleet_ = fleet(
        cluster("a", 5, nodes=4), cluster("b", 8, nodes=2), cluster("c", 9, cordoned=True)
    )
    commitments = Commitments()
    ledger = commitments.open(fleet_)
    small = service(1, name="small", created_s=1.0)
    assert candidates.nodes_with_room(small, ledger) == 6
    asks = [small, service(1, name="large", created_s=2.0, shape=large)]
    assert candidates.nodes_with_room(asks[1], ledger) == 2
    assert names(ordering.order(asks, commitments, ledger)) == ["large", "small"]
    ledger.charge("b", large, 1)
    assert candidates.nodes_with_room(asks[1], ledger) == 1
    assert candidates.nodes_with_room(service(1, policy=Policy(names=("c",))), ledger) == 0


def test_places_of_a_shape_that_only_a_member_can_judge_are_at_most_the_copies_it_tells() -> None:
    chosen_nodes = PodShape(POD.requests, node_selector='{"disk":"ssd"}')
    room = Resources({"cpu": 5000, "pods": 100})
    told = Capacity(rows=(NodeRow(7, room, room),), copies={chosen_nodes.id: 3})
    ask = service(1, shape=chosen_nodes)
    assert (
        candidates.nodes_with_room(ask, Commitments().open(fleet(cluster("a", 0, capacity=told))))
        == 3
    )
    assert candidates.nodes_with_room(ask, Commitments().open(fleet(cluster("a", 5, nodes=7)))) == 7


def test_the_ask_with_few_places_is_placed_though_one_with_many_is_older() -> None:
    fleet_ = fleet(cluster("a", 4), cluster("b", 4))
    asks = [
        service(6, name="wide", created_s=1.0),
        service(3, name="narrow", created_s=2.0, policy=NARROW),
    ]
    commitments = Commitments()
    ledger = commitments.open(fleet_)
    got = {
        ask.key.name: decide(ask, fleet_, ledger=ledger).shortfall
        for ask in ordering.order(asks, commitments, ledger)
    }
    assert got == {"narrow": 0, "wide": 1}


@given(st.lists(worlds.asks(), max_size=8), worlds.snapshots(), st.randoms(use_true_random=False))
def test_the_order_by_places_does_not_depend_on_how_the_batch_was_collected(
    asks: list[Ask], snapshot: FleetSnapshot, random: Random
) -> None:
    apart = [dataclasses.replace(ask, uid=f"uid-{i}") for i, ask in enumerate(asks)]
    mixed_up = random.sample(apart, len(apart))
    commitments = Commitments()
    first = ordering.order(apart, commitments, commitments.open(snapshot))
    assert first == ordering.order(mixed_up, commitments, commitments.open(snapshot))
    assert sorted(ask.uid for ask in first) == sorted(ask.uid for ask in apart)
    standing = [(list(Tier).index(ask.tier), -ask.priority) for ask in first]
    assert standing == sorted(standing)


def rule(name: str, *, namespace: str = "feed", **more: object) -> Rule:
    return Rule(Policy(name=name, namespace=namespace), **more)  # type: ignore[arg-type]


def chosen(*rules: Rule, ref: str = "") -> tuple[str, str]:
    policy = Policies(rules).choose(
        Subject("PinterestService", "feed", {"app": "web"}, "feed"), ref
    )
    return policy.name, policy.origin


def test_a_namespaced_policy_wins_over_a_cluster_wide_one_then_priority_then_name() -> None:
    wide = rule("wide", namespace="", cluster_wide=True, priority=99)
    assert chosen(wide, rule("b"), rule("a")) == ("a", "match")
    assert chosen(wide, rule("b", priority=1), rule("a")) == ("b", "match")
    assert chosen(wide) == ("wide", "match")
    assert chosen() == ("default", "default")


def test_of_equal_priorities_a_policy_that_names_the_workload_goes_first() -> None:
    named = rule("z", names=frozenset({"web", "api"}))

    def policy(*rules: Rule, name: str = "web") -> str:
        subject = Subject("PinterestService", "feed", {"app": "web"}, "feed", name=name)
        return Policies(rules).choose(subject, "").name

    assert policy(rule("a"), rule("b", match_labels={"app": "web"}), named) == "z"
    assert policy(rule("a"), named, name="other") == "a"
    assert policy(rule("a", priority=1), named) == "a"
    wide = rule("w", namespace="", cluster_wide=True, names=frozenset({"web"}))
    assert policy(rule("a"), wide) == "a"
    matching = Policies((rule("a"), named, wide)).matching(
        Subject("PinterestService", "feed", {}, "feed", name="web")
    )
    assert [each.policy.name for each in matching] == ["z", "a", "w"]


@pytest.mark.parametrize(
    "other",
    [
        rule("x", namespace="ads"),
        rule("x", names=frozenset({"other"})),
        rule("x", kinds=frozenset({"Deployment"})),
        rule("x", match_labels={"app": "api"}),
        rule("x", projects=frozenset({"ads"})),
    ],
)
def test_a_policy_for_others_does_not_speak(other: Rule) -> None:
    assert chosen(other) == ("default", "default")


def test_a_named_policy_is_taken_whatever_it_matches_and_the_nearer_one_first() -> None:
    near = rule("p", kinds=frozenset({"Deployment"}))
    far = rule("p", namespace="", cluster_wide=True)
    assert chosen(far, near, ref="p") == ("p", "policyRef")
    assert Policies((far, near)).choose(Subject("X", "feed", {}, ""), "p").namespace == "feed"
    assert Policies((far, near)).choose(Subject("X", "ads", {}, ""), "p").namespace == ""


def test_an_unknown_policy_is_an_error_at_its_field() -> None:
    with pytest.raises(FieldError) as caught:
        chosen(rule("other"), ref="missing")
    assert caught.value.path == "spec.placement.policyRef"
    assert "missing" in caught.value.message


SNAPSHOT = fleet(cluster("a", 5, labels={"zone": "z1"}), cluster("b", 5))


def waiting(ask: Ask, snapshot: FleetSnapshot) -> queueing_hints.Waiting:
    found = queueing_hints.waits(ask, decide(ask, snapshot))
    assert found is not None
    return found


def test_a_placed_workload_waits_for_nothing() -> None:
    assert queueing_hints.waits(service(3), decide(service(3), SNAPSHOT)) is None
    assert queueing_hints.waits(service(3), decide(service(3, suspended=True), SNAPSHOT)) is None


def test_room_wakes_only_those_who_could_use_that_cluster() -> None:
    narrow = service(9, name="narrow", policy=Policy(names=("a",)))
    wide = service(50, name="wide")
    both = [waiting(narrow, SNAPSHOT), waiting(wide, SNAPSHOT)]
    assert [key.name for key in queueing_hints.requeued([Hint(HintKind.ROOM, "b")], both)] == [
        "wide"
    ]
    assert [key.name for key in queueing_hints.requeued([Hint(HintKind.ROOM, "a")], both)] == [
        "narrow",
        "wide",
    ]
    assert [key.name for key in queueing_hints.requeued([Hint(HintKind.CLUSTER, "c")], both)] == [
        "narrow",
        "wide",
    ]
    assert queueing_hints.requeued([Hint(HintKind.QUOTA, projects=frozenset({"feed"}))], both) == []


def test_quota_wakes_only_those_of_its_projects_who_lack_it() -> None:
    short = dataclasses.replace(waiting(service(50), SNAPSHOT), reason=Reason.QUOTA_EXCEEDED)
    assert queueing_hints.may_help(Hint(HintKind.QUOTA), short)
    assert queueing_hints.may_help(Hint(HintKind.QUOTA, projects=frozenset({"feed"})), short)
    assert not queueing_hints.may_help(Hint(HintKind.QUOTA, projects=frozenset({"ads"})), short)
    assert not queueing_hints.may_help(Hint(HintKind.ROOM, "a"), short)


def test_who_waits_for_quota_waits_for_no_cluster_and_none_is_asked() -> None:
    limit = TierQuota(maximum=Resources({"cpu": 1000}))
    account = QuotaAccount("q", projects=frozenset({"feed"}), tiers={Tier.ON_DEMAND: limit})
    made = decide(service(9), fleet(*SNAPSHOT.clusters.values(), quotas=[account]))

    def worded() -> Any:
        raise AssertionError("a sentence for every cluster")

    made = dataclasses.replace(made, verdicts=Verdicts(2, worded, worded))
    entry = queueing_hints.waits(service(9), made)
    assert entry is not None
    assert (entry.reason, entry.clusters) == (Reason.EXCEEDS_MAX_QUOTA, None)


def test_what_a_refused_workload_waits_for_is_known_without_a_sentence() -> None:
    made = decide(service(50), SNAPSHOT)
    assert isinstance(made.verdicts, Verdicts)

    def worded() -> Any:
        raise AssertionError("a sentence for every cluster")

    silent = Verdicts(2, worded, worded, made.verdicts.reasons)
    entry = queueing_hints.waits(service(50), dataclasses.replace(made, verdicts=silent))
    assert entry == queueing_hints.waits(service(50), made)
    assert entry is not None
    assert entry.clusters == frozenset(SNAPSHOT.clusters)


def test_retries_without_news_back_off_to_a_ceiling() -> None:
    assert [queueing_hints.retry_after_s(n) for n in (0, 1, 2, 3, 50)] == [
        5.0,
        10.0,
        20.0,
        40.0,
        300.0,
    ]


def hashed(ask: Ask, *clusters: object) -> str:
    return inputs.inputs_hash(ask, fleet(*clusters))  # type: ignore[arg-type]


def test_the_hash_follows_what_decides_and_not_room_or_health() -> None:
    one = cluster("a", 5, labels={"zone": "z1"})
    base = hashed(service(3), one)
    assert base == hashed(service(3, labels={"x": "y"}), one)
    for calm in (
        cluster("a", 9, labels={"zone": "z1"}),
        cluster("a", 5, labels={"zone": "z1"}, ready=False),
        cluster("a", 5, labels={"zone": "z2"}),
        cluster("a", 5, cordoned=True),
    ):
        assert hashed(service(3), calm) == base
    spread = service(3, policy=Policy(spread=(SpreadRule("zone"),)))
    assert hashed(spread, one) != hashed(spread, cluster("a", 5, labels={"zone": "z2"}))
    for changed in (
        service(4),
        service(3, priority=1),
        service(3, policy=Policy(division=Division(Strategy.PACK))),
    ):
        assert hashed(changed, one) != base
    assert hashed(service(3), one, cluster("b", 1)) != base
    assert hashed(service(3), cluster("a", 5, taints=(Taint("t", "", "NoExecute"),))) != base


def test_the_hash_is_the_same_with_and_without_a_memo() -> None:
    memo: dict[object, object] = {}
    assert inputs.inputs_hash(service(3), SNAPSHOT, memo) == inputs.inputs_hash(
        service(3), SNAPSHOT
    )
    assert decide(service(3), SNAPSHOT).inputs_hash == inputs.inputs_hash(service(3), SNAPSHOT)


def test_the_order_of_lists_that_have_none_is_not_hashed() -> None:
    taints = (Toleration("a", "Exists"), Toleration("b", "Exists"))
    weights = (Weight(1, ("a", "b")), Weight(2, ("c",)))
    groups = (Group("g", ("a", "b")), Group("h", ("c",)))
    first = Policy(
        names=("a", "b"),
        exclude=("x", "y"),
        tolerations=taints,
        division=Division(weights=weights, groups=groups),
    )
    turned = (Weight(2, ("c",)), Weight(1, ("b", "a")))
    for other in (
        dataclasses.replace(first, names=("b", "a")),
        dataclasses.replace(first, exclude=("y", "x")),
        dataclasses.replace(first, tolerations=taints[::-1]),
        dataclasses.replace(first, division=Division(weights=turned, groups=groups)),
        dataclasses.replace(
            first, division=Division(weights=weights, groups=(Group("g", ("b", "a")), groups[1]))
        ),
    ):
        assert hashed(service(3, policy=other), *SNAPSHOT.clusters.values()) == hashed(
            service(3, policy=first), *SNAPSHOT.clusters.values()
        )
    ordered = dataclasses.replace(first, division=Division(weights=weights, groups=groups[::-1]))
    assert hashed(service(3, policy=ordered), *SNAPSHOT.clusters.values()) != hashed(
        service(3, policy=first), *SNAPSHOT.clusters.values()
    )


def test_a_decision_that_an_older_release_hashed_is_not_made_anew() -> None:
    """With mode Fresh an upgrade must move nobody."""
    policy = Policy(names=("b", "a"), division=Division(fresh=True))
    ask = service(4, policy=policy)
    before = inputs.formerly(ask, SNAPSHOT)
    assert len({*before, inputs.inputs_hash(ask, SNAPSHOT)}) == 3
    held_ = held(a=1, b=3)
    for hashed in before:
        assert counts(decide(ask, SNAPSHOT, held_, previous_hash=hashed)) == {"a": 1, "b": 3}
    assert counts(decide(ask, SNAPSHOT, held_, previous_hash="another")) == {"a": 2, "b": 2}
