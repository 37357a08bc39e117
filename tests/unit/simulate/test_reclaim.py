"""Trees of quotas in a simulation: who borrows, who takes back, what that costs whom."""

import random
from typing import Any

import pytest

from federator.model.accounts import Preemption, QuotaAccount, Take, TierQuota
from federator.model.ask import Tier
from federator.model.resources import CPU, Resources
from federator.simulate.inputs import Event, EventKind, Inputs
from federator.simulate.outcome import Life
from federator.simulate.report import figures
from federator.simulate.report.measures import measure
from tests.unit.simulate import quotas
from tests.unit.simulate.fleets import cluster, inputs_of, job, lives, nodes, service, simulate

RECLAIM = Preemption(within=Take.LOWER_PRIORITY, reclaim=Take.ANY)


def account(name: str, cores: int, **fields: Any) -> QuotaAccount:
    """An account below `company` with so many cores guaranteed in every tier."""
    tier = TierQuota(guaranteed=Resources({CPU: cores * 1000}), **fields.pop("limits", {}))
    return QuotaAccount(
        name,
        projects=frozenset({name}),
        parent="company",
        tiers=dict.fromkeys(Tier, tier),
        preemption=RECLAIM,
        **fields,
    )


TREE = (QuotaAccount("company"), account("ads", 2), account("feed", 2))


def played(inputs: Inputs) -> dict[str, Life]:
    return lives(simulate(inputs))


def test_a_guarantee_that_was_lent_is_taken_back_at_once_and_its_job_begins_again_later() -> None:
    works = [
        job("borrows", 0, 100, 2),
        job("own", 0, 100, 2),
        job("lends", 30, 50, 2, project="feed"),
    ]

    by_id = played(inputs_of([cluster("a")], works, quotas=TREE))

    assert (by_id["lends"].start_s, by_id["lends"].end_s) == (30, 80)
    gave = [name for name in ("borrows", "own") if by_id[name].preempted]
    assert len(gave) == 1, "only what is needed is taken back"
    life = by_id[gave[0]]
    assert (life.preempted, life.preempted_s, life.restarts, life.lost_s) == (1, 30, 0, 0)
    assert (life.end_s, [wait.reason for wait in life.waits]) == (80 + 100, ["Preempted"])


def test_a_job_with_check_points_loses_only_what_came_after_the_last() -> None:
    works = [
        job("borrows", 0, 100, 4, checkpoint_s=20),
        job("lends", 30, 50, 2, project="feed"),
    ]

    by_id = played(inputs_of([cluster("a")], works, quotas=TREE))

    assert (by_id["borrows"].preempted_s, by_id["borrows"].end_s) == (10, 80 + 80)


def test_a_service_gives_up_only_what_it_borrows_and_gets_it_back() -> None:
    works = [service("web", 0, 4), job("lends", 30, 50, 1, project="feed")]

    by_id = played(inputs_of([cluster("a")], works, quotas=TREE, end_s=200))

    web = by_id["web"]
    assert [(stay.copies, stay.start_s, stay.end_s) for stay in web.stays] == [
        (4, 0, 30),
        (3, 30, 80),
        (4, 80, None),
    ]
    assert (web.preempted, by_id["lends"].start_s) == (1, 30)


@pytest.mark.parametrize(("run_s", "start_s", "preempted"), [(100, 30, 1), (15, 15, 0)])
def test_who_takes_back_with_notice_waits_for_it_or_for_an_end(
    run_s: int, start_s: int, preempted: int
) -> None:
    tree = (QuotaAccount("company"), account("ads", 2), account("feed", 2, notice_s=20))
    works = [job("borrows", 0, run_s, 4), job("own", 10, 15, 2, project="feed")]

    by_id = played(inputs_of([cluster("a")], works, quotas=tree))

    assert (by_id["own"].start_s, by_id["borrows"].preempted) == (start_s, preempted)


def test_nobody_leaves_where_the_accounts_do_not_say_so() -> None:
    patient = tuple(
        QuotaAccount(one.name, projects=one.projects, parent=one.parent, tiers=one.tiers)
        for one in TREE
    )
    works = [job("borrows", 0, 100, 4), job("lends", 30, 50, 2, project="feed")]

    by_id = played(inputs_of([cluster("a")], works, quotas=patient))

    assert (by_id["lends"].start_s, by_id["borrows"].preempted) == (100, 0)


def test_the_higher_priority_of_an_account_takes_from_the_lower() -> None:
    lone = (QuotaAccount("company"), account("ads", 4))
    works = [job("low", 0, 100, 4), job("high", 10, 20, 4, priority=5)]

    by_id = played(inputs_of([cluster("a", nodes(2))], works, quotas=lone))

    assert (by_id["high"].start_s, by_id["low"].preempted, by_id["low"].end_s) == (10, 1, 130)


def test_nobody_leaves_because_of_quota_that_a_gang_without_room_does_not_use() -> None:
    tree = (QuotaAccount("company"), account("ads", 4), account("search", 5))
    works = [
        *(job(f"borrows-{number}", 0, 100, 3) for number in range(2)),
        job("a-wide", 10, 50, 3, project="search"),
        job("b-narrow", 10, 50, project="search"),
    ]

    by_id = played(inputs_of([cluster("a"), cluster("b")], works, quotas=tree))

    assert [by_id[f"borrows-{number}"].preempted for number in range(2)] == [0, 0]
    assert (by_id["b-narrow"].start_s, by_id["a-wide"].start_s) == (10, 100)


def test_a_job_that_would_leave_and_come_back_for_ever_stays_away_for_a_while() -> None:
    """What it leaves is in one cluster, and the gang that gets the quota needs another."""
    tree = (QuotaAccount("company"), *map(account, ("ads", "search", "feed"), (2, 5, 3)))
    works = [
        job("own", 1, 1000, 2),
        job("borrows", 1, 1000, 2),
        job("wide", 10, 50, 4, project="search"),
    ]
    apart = [cluster("a", nodes(1, cpu=2000)), cluster("b", nodes(1, cpu=2000)), cluster("c")]
    full = job("full", 0, 1000, 3, project="feed")

    by_id = played(inputs_of(apart, [*works, full], quotas=tree, end_s=900))

    assert by_id["wide"].start_s is None
    assert 0 < by_id["borrows"].preempted + by_id["own"].preempted < 20


def test_tiers_are_accounts_of_their_own() -> None:
    works = [
        job("borrows", 0, 100, 4),
        job("reserved", 10, 20, 2, project="feed", tier=Tier.RESERVED),
        job("over", 10, 20, 3, project="feed", tier=Tier.RESERVED),
    ]

    by_id = played(inputs_of([cluster("a", nodes(3))], works, quotas=TREE))

    assert (by_id["borrows"].preempted, by_id["reserved"].start_s) == (0, 10)
    assert by_id["over"].start_s is None, "a reserved guarantee is not exceeded"


def test_what_making_way_costs_is_told() -> None:
    works = [job("borrows", 0, 100, 4), job("lends", 30, 50, 2, project="feed")]

    by_id = measure(simulate(inputs_of([cluster("a")], works, quotas=TREE)))

    values = figures.values(by_id)
    assert (values["preempted"], values["preempted_s"], values["restarts"]) == (1, 30, 0)
    assert "works made way for another's quota once and lost 30 s of run time" in figures.verdict(
        by_id
    )


def test_the_check_of_quotas_finds_what_exceeds_one() -> None:
    inputs = inputs_of([cluster("a")], [job("one", 0, 10, 4)])
    outcome = simulate(inputs)
    lone = (QuotaAccount("company"), account("ads", 2))

    assert quotas.broken(inputs_of([cluster("a")], inputs.works, quotas=lone), outcome) == [
        "at 0 s company comes to 4000 cpu in OnDemand of 2000"
    ]


@pytest.mark.parametrize("seed", range(6))
def test_everything_adds_up_while_many_borrow_and_take_back(seed: int) -> None:
    chance = random.Random(seed)
    projects = {"ads": 6, "feed": 4, "search": 3}
    limits = {"borrowing": {CPU: 4000}} if seed % 3 == 0 else {}
    tree = (
        QuotaAccount("company"),
        *(account(name, cores, limits=limits) for name, cores in projects.items()),
    )
    works = [
        job(
            f"w{number}",
            chance.randint(0, 300),
            chance.randint(20, 200),
            chance.choice((1, 1, 2, 3, 4)),
            project=chance.choice(list(projects)),
            priority=chance.choice((0, 0, 5)),
            tier=chance.choice((Tier.ON_DEMAND, Tier.ON_DEMAND, Tier.PREEMPTIBLE)),
            checkpoint_s=chance.choice((None, 15)),
        )
        for number in range(50)
    ]
    works += [service(f"s{number}", 10 * number, 3, project="feed") for number in range(3)]
    raised = Event(150, EventKind.QUOTA_CHANGED, quotas=(*tree[:2], account("feed", 6), tree[3]))
    fleet = [cluster("a", nodes(2)), cluster("b", nodes(2))]

    by_id = played(inputs_of(fleet, works, raised, quotas=tree, end_s=5000))

    assert sum(life.preempted for life in by_id.values()) > 0
