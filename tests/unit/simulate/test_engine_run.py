"""The event engine: who starts when and where, what events do, and that everything adds up."""

import dataclasses
import random
import re

import pytest

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Tier
from federator.model.fleet import ClusterView
from federator.model.policy import Division, Policy, Strategy
from federator.model.resources import CPU, PODS, Resources
from federator.model.rules.namespaces import QuotaLeft, Rules
from federator.placement.policy.policies import Rule
from federator.simulate.engine import run
from federator.simulate.inputs import Event, EventKind
from federator.simulate.outcome import End, Stay
from federator.simulate.report import figures, forms, page
from federator.simulate.report.measures import measure
from tests.unit.simulate import conservation
from tests.unit.simulate.fleets import cluster, inputs_of, job, lives, nodes, service, simulate


def test_a_job_waits_for_room_and_starts_at_the_second_at_which_it_comes_free() -> None:
    found = lives(
        simulate(inputs_of([cluster("a")], [job("first", 0, 10, 4), job("second", 3, 5, 2)]))
    )

    assert (found["first"].start_s, found["first"].end_s) == (0, 10)
    assert (found["second"].start_s, found["second"].end_s, found["second"].wait_s) == (10, 15, 7)
    (wait,) = found["second"].waits
    assert (wait.start_s, wait.end_s, wait.copies, wait.reason) == (
        3,
        10,
        2,
        "InsufficientCapacity",
    )


def test_a_gang_stands_whole_in_one_cluster_or_waits() -> None:
    fleet = [cluster("a", nodes(1)), cluster("b", nodes(1))]

    found = lives(
        simulate(
            inputs_of(fleet, [job("small", 0, 10, 1), job("gang", 1, 5, 4), job("wide", 2, 5, 5)])
        )
    )

    (other,) = {"a", "b"} - {found["small"].stays[0].cluster}
    assert found["gang"].stays == (Stay(other, 4, 1, 6),)
    assert (found["wide"].end, found["wide"].start_s) == (End.UNPLACEABLE, None)


def test_a_service_takes_what_there_is_over_clusters_and_grows_when_room_comes() -> None:
    fleet = [cluster("a", nodes(1)), cluster("b", nodes(1))]

    found = lives(simulate(inputs_of(fleet, [job("batch", 0, 100, 3), service("web", 5, 7)])))

    assert (found["web"].start_s, found["web"].end) == (100, End.RUNNING)
    assert {(stay.cluster, stay.copies) for stay in found["web"].stays if stay.end_s is None} == {
        ("a", 3),
        ("b", 4),
    }


def test_a_quota_of_a_member_bounds_its_namespace_until_copies_end() -> None:
    """Two of four places are left to team-a in the only cluster, and all to team-b."""
    left = QuotaLeft("compute", ((PODS, 2),))
    view = cluster("a")
    assert view.capacity is not None
    rules, quotas = {"team-a": Rules(quotas=(left.bounded,))}, {"team-a": (left,)}
    capacity = dataclasses.replace(view.capacity, rules=rules, quotas=quotas)
    view = dataclasses.replace(view, capacity=capacity)
    works = [job("first", 0, 10, 2), job("second", 3, 5, 2)]
    works.append(job("other", 4, 5, 2, namespace="team-b"))

    found = lives(simulate(inputs_of([view], works)))

    assert (found["first"].start_s, found["second"].start_s, found["other"].start_s) == (0, 10, 4)
    (wait,) = found["second"].waits
    assert wait.reason == "NamespaceLimits"


def test_the_higher_tier_and_then_the_higher_priority_gets_the_room_first() -> None:
    works = [
        job("full", 0, 10, 4),
        job("low", 1, 10, 4, priority=1),
        job("high", 2, 10, 4, priority=5),
        job("reserved", 3, 10, 4, tier=Tier.RESERVED),
    ]

    found = lives(simulate(inputs_of([cluster("a")], works)))

    assert [found[name].start_s for name in ("reserved", "high", "low")] == [10, 20, 30]


def test_a_job_that_loses_its_cluster_begins_again_elsewhere_from_its_last_check_point() -> None:
    works = [job("saved", 0, 100, checkpoint_s=30), job("bare", 0, 100)]
    fleet = [cluster("a", nodes(1)), cluster("b", nodes(1), cordoned=True)]
    lost = [Event(70, EventKind.LOST, "a"), Event(80, EventKind.RETURNED, "b")]

    outcome = simulate(inputs_of(fleet, works, *lost))
    found = lives(outcome)

    assert [
        (life.end_s, life.restarts, life.lost_s) for life in (found["saved"], found["bare"])
    ] == [
        (80 + 40, 1, 10),
        (80 + 100, 1, 70),
    ]
    measures = measure(outcome)
    assert (measures.moves, measures.displaced) == (0, 2)
    assert [(each.kind, each.subject, each.copies) for each in outcome.happened] == [
        ("lost", "a", 2),
        ("returned", "b", 0),
    ]


def test_a_drained_cluster_takes_nothing_until_it_is_back() -> None:
    events = [Event(10, EventKind.DRAINED, "a"), Event(50, EventKind.RETURNED, "a")]

    found = lives(
        simulate(inputs_of([cluster("a")], [job("late", 20, 5), job("early", 0, 15)], *events))
    )

    assert (found["late"].start_s, found["early"].end_s, found["early"].lost_s) == (50, 15, 0)


def test_services_leave_a_drained_cluster_at_a_pace_and_lose_no_copy() -> None:
    fleet = [
        cluster("a", nodes(40)),
        cluster(
            "b",
            nodes(
                40,
            ),
            cordoned=True,
        ),
    ]
    events = [Event(5, EventKind.RETURNED, "b"), Event(10, EventKind.DRAINED, "a")]

    outcome = simulate(inputs_of(fleet, [service("web", 0, 100)], *events, end_s=100))

    stays = [stay for stay in lives(outcome)["web"].stays if stay.end_s is None]
    assert [(stay.cluster, stay.copies) for stay in stays] == [("b", 100)]
    there = dict.fromkeys(range(10, 40), 0)
    for stay in lives(outcome)["web"].stays:
        for second in there:
            there[second] += stay.copies if stay.start_s <= second < (stay.end_s or 100) else 0
    assert set(there.values()) == {100}
    left = [stay.end_s for stay in lives(outcome)["web"].stays if stay.cluster == "a"]
    assert left == [10, 15, 20, 25]  # 25 in five seconds: 300 a minute


def test_a_job_may_run_on_for_an_hour_in_a_drained_cluster_and_begins_again_elsewhere() -> None:
    fleet = [cluster("a"), cluster("b", cordoned=True)]
    events = [Event(5, EventKind.RETURNED, "b"), Event(10, EventKind.DRAINED, "a")]

    found = lives(
        simulate(inputs_of(fleet, [job("long", 0, 5000), job("short", 0, 3000)], *events))
    )

    assert (found["short"].end_s, found["short"].restarts) == (3000, 0)
    assert (found["long"].end_s, found["long"].restarts) == (10 + 3600 + 5000, 1)


def test_what_has_no_other_place_stays_in_a_drained_cluster() -> None:
    found = lives(
        simulate(
            inputs_of([cluster("a")], [service("web", 0, 3)], Event(10, EventKind.DRAINED, "a"))
        )
    )

    assert [(stay.cluster, stay.copies, stay.end_s) for stay in found["web"].stays] == [
        ("a", 3, None)
    ]


def test_a_cluster_that_grows_keeps_what_runs_and_takes_what_waits() -> None:
    grown = Event(20, EventKind.GROWN, "a", view=cluster("a", nodes(2)))

    found = lives(
        simulate(inputs_of([cluster("a")], [job("runs", 0, 100, 4), job("waits", 5, 10, 3)], grown))
    )

    assert (found["runs"].restarts, found["runs"].end_s, found["waits"].start_s) == (0, 100, 20)


def test_a_cluster_that_shrinks_keeps_those_that_began_first() -> None:
    shrunk = Event(20, EventKind.GROWN, "a", view=cluster("a", nodes(1)))
    works = [job("old", 0, 100, 4), job("young", 5, 100, 4)]

    found = lives(simulate(inputs_of([cluster("a", nodes(2))], works, shrunk)))

    assert (found["old"].restarts, found["young"].restarts) == (0, 1)
    assert (found["old"].end_s, found["young"].end_s) == (100, 200)


def test_a_quota_holds_jobs_back_until_it_is_raised() -> None:
    def limited(cpu: int) -> tuple[QuotaAccount, ...]:
        tier = TierQuota(maximum=Resources({CPU: cpu}))
        account = QuotaAccount("ads", projects=frozenset({"ads"}), namespaces=frozenset({"team-a"}))
        return (dataclasses.replace(account, tiers=dict.fromkeys(Tier, tier)),)

    raised = Event(30, EventKind.QUOTA_CHANGED, quotas=limited(4000))
    works = [job("one", 0, 100, 2), job("two", 1, 10, 2)]

    found = lives(simulate(inputs_of([cluster("a")], works, raised, quotas=limited(2000))))

    assert (found["one"].start_s, found["two"].start_s) == (0, 30)
    assert [wait.reason for wait in found["two"].waits] == ["QuotaExceeded"]


def test_a_lent_guarantee_comes_back_when_the_job_that_borrowed_it_ends() -> None:
    def below(name: str) -> QuotaAccount:
        tier = TierQuota(guaranteed=Resources({CPU: 2000}))
        return QuotaAccount(
            name, projects=frozenset({name}), parent="company", tiers=dict.fromkeys(Tier, tier)
        )

    borrows = job("one", 0, 30, 4)
    lends = job("two", 1, 10, 2, project="feed")
    quotas = (QuotaAccount("company"), below("ads"), below("feed"))

    found = lives(simulate(inputs_of([cluster("a")], [borrows, lends], quotas=quotas)))

    assert (found["one"].start_s, found["two"].start_s) == (0, 30)
    assert [wait.reason for wait in found["two"].waits] == ["QuotaExceeded"]


def test_a_policy_decides_where_works_may_go_and_its_change_reaches_those_that_wait() -> None:
    only_b = Rule(
        Policy(name="only-b", names=("b",), division=Division(Strategy.PACK)), cluster_wide=True
    )
    change = Event(40, EventKind.POLICY_CHANGED)
    fleet = [cluster("a", nodes(1)), cluster("b", nodes(1))]
    works = [job("one", 0, 100, 4), job("two", 1, 10, 4)]

    found = lives(simulate(inputs_of(fleet, works, change, rules=(only_b,))))

    assert found["one"].stays[0].cluster == "b"
    assert (found["two"].start_s, found["two"].stays[0].cluster) == (40, "a")


def test_gpus_of_another_model_do_not_help() -> None:
    fleet = [cluster("a", nodes(1, gpu=8, model="T4")), cluster("b", nodes(1, gpu=8, model="A100"))]
    works = [
        job("one", 0, 10, gpu=8, gpu_models=("A100",)),
        job("two", 0, 10, gpu=8, gpu_models=("A100",)),
    ]

    found = lives(simulate(inputs_of(fleet, works)))

    assert [(life.stays[0].cluster, life.start_s) for life in found.values()] == [
        ("b", 0),
        ("b", 10),
    ]


def test_room_that_is_scattered_over_nodes_is_told_as_fragmentation() -> None:
    works = [
        *(job(f"small-{i}", 0, 1000, cpu_milli=2500) for i in range(4)),
        job("big", 1, 10, cpu_milli=3000),
    ]

    outcome = simulate(inputs_of([cluster("a", nodes(4))], works, end_s=500))

    assert outcome.samples[-1].fragmented == 1
    assert lives(outcome)["big"].end is End.WAITING


LACKS = {
    "gpu": (job("holds", 0, 1000, 2, gpu=4), job("gang", 1, 10, 3, gpu=4)),
    "cpu": (job("holds", 0, 1000, 2, cpu_milli=7000), job("gang", 1, 10, 4, cpu_milli=6000)),
    "memory": (job("holds", 0, 1000, 1), job("gang", 1, 10, 4, memory_mib=16_000)),
    "one node": (job("holds", 0, 1000, 3, cpu_milli=4500), job("gang", 1, 10, 2, cpu_milli=4000)),
}


@pytest.mark.parametrize("what", LACKS)
def test_what_a_gang_lacks_is_told_for_the_cluster_that_comes_nearest(what: str) -> None:
    """Two clusters; b is the smaller one in everything, and could hold no gang of these."""
    row = nodes(3, cpu=8000, gpu=4)
    fleet = [cluster("a", row), cluster("b", nodes(1, cpu=2000, gpu=1))]

    outcome = simulate(inputs_of(fleet, LACKS[what], end_s=500))
    found = measure(outcome)

    missing = LACKS[what][1].shards
    assert outcome.samples[-1].lacking == {what: missing}
    (scarce,) = found.scarce
    assert (scarce.what, scarce.peak) == (what, missing)
    assert scarce.copy_s == pytest.approx(missing * 499, rel=0.02)
    assert re.search(rf"never started, most for \w+ \({what}\)", figures.verdict(found))
    assert forms.document(found, page.Provenance("", "", "", {}))["lacking"] == [
        {"what": what, "copySeconds": scarce.copy_s, "peakCopies": missing}
    ]


def test_what_a_quota_holds_back_lacks_no_capacity() -> None:
    tier = TierQuota(maximum=Resources({CPU: 1000}))
    account = QuotaAccount("ads", projects=frozenset({"ads"}), tiers={Tier.ON_DEMAND: tier})

    outcome = simulate(
        inputs_of([cluster("a", nodes(4))], [job("gang", 0, 10, 2)], quotas=(account,), end_s=50)
    )

    assert outcome.samples[-1].waiting == 1
    assert outcome.samples[-1].lacking == {}


def test_what_an_hour_of_the_nodes_costs_is_added_up_over_the_changes_of_the_fleet() -> None:
    events = [
        Event(3600, EventKind.PRICE_CHANGED, "a", price_per_hour=4.0),
        Event(7200, EventKind.LOST, "a"),
        Event(9000, EventKind.RETURNED, "a"),
    ]

    outcome = simulate(
        inputs_of([cluster("a", nodes(2))], [], *events, price_per_hour={"a": 3.0}, end_s=10_800)
    )

    assert outcome.costs == {"a": round(100 * (2 * 3.0 + 2 * 4.0 + 0.5 * 2 * 4.0))}


def test_cost_and_means_are_of_the_window_and_not_of_what_happens_to_end_last() -> None:
    """Two fleets of the same machines, one of which makes the last job wait for an hour."""
    works = [job("first", 0, 7200, 8), job("last", 10, 3600, 8)]

    def cost(*clusters: ClusterView) -> tuple[int, int, int]:
        prices = dict.fromkeys(("a", "b"), 3.0)
        outcome = simulate(inputs_of(clusters, works, price_per_hour=prices))
        assert outcome.costs is not None
        return outcome.end_s, outcome.horizon_s, sum(outcome.costs.values())

    wide = cost(cluster("a", nodes(2)), cluster("b", nodes(2)))
    packed = cost(cluster("a", nodes(1)), cluster("b", nodes(3)))

    assert (wide[0], packed[0]) == (7200, 10_800)
    assert wide[1:] == packed[1:] == (7200, 4 * 2 * 300)


def test_the_end_of_the_scenario_leaves_the_rest_running_and_waiting() -> None:
    works = [job("runs", 0, 100, 4), job("waits", 1, 10, 4), job("later", 60, 10)]

    outcome = simulate(inputs_of([cluster("a")], works, end_s=50))

    assert {name: life.end for name, life in lives(outcome).items()} == {
        "runs": End.RUNNING,
        "waits": End.WAITING,
    }
    assert outcome.end_s == 50


def test_inputs_out_of_order_or_with_one_name_twice_are_refused() -> None:
    good = inputs_of([cluster("a")], [job("one", 0, 1), job("two", 5, 1)])

    with pytest.raises(ValueError, match="in the order of their times"):
        run.run(dataclasses.replace(good, works=good.works[::-1]))
    with pytest.raises(ValueError, match="names a work twice"):
        run.run(dataclasses.replace(good, works=(good.works[0], good.works[0])))


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_everything_adds_up_and_comes_out_the_same_again(seed: int) -> None:
    chance = random.Random(seed)
    fleet = [
        cluster(name, nodes(chance.randint(1, 3)), nodes(chance.randint(0, 2), 8000, gpu=4))
        for name in "abc"
    ]
    works = [
        job(
            f"w{number}",
            chance.randrange(300),
            chance.choice([0, 5, 40, 200, None]),
            chance.randint(1, 6),
            cpu_milli=chance.choice([500, 1000, 3000]),
            kind=chance.choice(["job", "service", "trainingjob"]),
            gpu=chance.choice([None, None, 1]),
            priority=chance.randint(0, 2),
            checkpoint_s=chance.choice([None, 10]),
            tier=chance.choice(list(Tier)),
        )
        for number in range(80)
    ]
    events = [
        Event(chance.randrange(60, 90), EventKind.LOST, "a"),
        Event(chance.randrange(90, 120), EventKind.DRAINED, "b"),
        Event(chance.randrange(120, 150), EventKind.RETURNED, "a"),
        Event(chance.randrange(150, 200), EventKind.GROWN, "c", view=cluster("c", nodes(1))),
        Event(chance.randrange(200, 250), EventKind.RETURNED, "b"),
        Event(250, EventKind.ADDED, "d", view=cluster("d", nodes(2))),
    ]
    inputs = inputs_of(fleet, works, *events, end_s=2000)

    assert simulate(inputs) == run.run(inputs)


def test_the_check_finds_a_cluster_that_holds_more_than_it_has_and_a_work_that_is_lost() -> None:
    inputs = inputs_of([cluster("a")], [job("one", 0, 10, 4), job("two", 20, 10, 4)])
    outcome = simulate(inputs)
    first, second = outcome.lives
    early = dataclasses.replace(second, start_s=20, stays=(Stay("a", 4, 5, 15),))

    crowded = dataclasses.replace(outcome, lives=(first, early))
    assert "holds (8000, 8192, 0) of (4000, 16384, 0)" in conservation.broken(inputs, crowded)[0]
    assert (
        "missing: ['two']"
        in conservation.broken(inputs, dataclasses.replace(outcome, lives=(first,)))[0]
    )
    short = dataclasses.replace(first, stays=(Stay("a", 4, 0, 9),))
    assert (
        "one ran 9 s"
        in conservation.broken(inputs, dataclasses.replace(outcome, lives=(short, second)))[0]
    )


def test_the_peak_is_exact_however_short_it_is_and_however_long_the_simulation() -> None:
    short = job("short", 500_000, 1500, 99, gpu=1)
    small = job("small", 0, 600_000, 1, gpu=1)
    for end_s in (864_000, 8_640_000):
        outcome = simulate(
            inputs_of([cluster("a", nodes(1, 200_000, 400_000, 100))], [small, short], end_s=end_s)
        )

        gpu = next(held for held in outcome.held if (held.cluster, held.resource) == ("", "gpu"))
        assert (gpu.peak, gpu.peak_share, gpu.peak_since_s) == (100, 1.0, 500_000)


def test_what_stands_in_the_warm_up_only_is_no_peak() -> None:
    first = job("first", 0, 50, 4)
    later = job("later", 60, 50, 1)

    outcome = simulate(inputs_of([cluster("a")], [first, later], end_s=200, warm_up_s=50))

    cpu = next(held for held in outcome.held if (held.cluster, held.resource) == ("a", "cpu"))
    assert (cpu.peak, cpu.peak_since_s, cpu.used_s) == (1000, 60, 50_000)
