"""Edits that ask for more where accounts have limits in parts of the fleet: what runs stays in its
part, and what it asks for more is had there or not at all."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import Domain, Preemption, QuotaAccount, Take, TierQuota
from federator.model.ask import Ask, Tier
from federator.model.decision import TAKES, Reason
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, NodeRow, copies_of
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.policy import Division, Policy, Strategy
from federator.model.resources import Resources, cell
from federator.scheduling.admission.preempting import MOMENT_S
from tests.examples import examples
from tests.unit.placement.fleets import cluster, commitment, fleet, held, jobs, service
from tests.unit.scheduling.test_growing_edits import Editing, sized

TIER = Tier.ON_DEMAND
ZONES = ("east", "west")


def domain(zone: str, *resources: str) -> Domain:
    selector = LabelSelector(match_labels=(("zone", zone),))
    return Domain(zone, selector, {TIER: frozenset(resources or ("cpu",))})


def account(
    name: str, cpus: tuple[int, int], most: tuple[int, int] | None = None, **more: Any
) -> QuotaAccount:
    """With so many cpus guaranteed in east and in west, and at most `most`."""
    amounts = [
        None
        if of is None
        else Resources({cell("cpu", z): cpu * 1000 for z, cpu in zip(ZONES, of, strict=True)})
        for of in (cpus, most)
    ]
    tiers = {TIER: TierQuota(amounts[0] or Resources(), amounts[1])}
    projects = frozenset({name}) if more.get("parent") else frozenset()
    more.setdefault("domains", tuple(map(domain, ZONES)))
    return QuotaAccount(name, projects=projects, tiers=tiers, generation=1, **more)


STUDIO = account("studio", (10, 10))
CLIPS = account("clips", (5, 5), parent="studio")
SEARCH = account("search", (5, 5), parent="studio", preemption=Preemption(reclaim=Take.ANY))
ACCOUNTS = (STUDIO, CLIPS, SEARCH)
API = service(1, name="api", project="search", created_s=5.0)
WEB = service(9, name="web", project="clips")


def zoned(*views: ClusterView, accounts: Iterable[QuotaAccount] = ACCOUNTS) -> FleetSnapshot:
    """Clusters whose names begin with their zone; of another name they are in none."""
    labelled = (
        replace(view, labels={"zone": zone} if (zone := view.name.rstrip("12")) in ZONES else {})
        for view in views
    )
    return fleet(*labelled, quotas=accounts)


ROOMY = zoned(cluster("east", 100), cluster("west", 100))


def full(*names: str) -> tuple[ClusterView, ...]:
    """Clusters of one large node, of which nothing is free."""
    room, none = Resources({"cpu": 30_000, "pods": 100}), Resources({"pods": 50})
    return tuple(
        cluster(name, 0, capacity=Capacity(rows=(NodeRow(1, room, none),))) for name in names
    )


def lent(snapshot: FleetSnapshot = ROOMY, *, web: Ask = WEB) -> Editing:
    """search has 1 of the 5 cpus that it is guaranteed in east; clips has borrowed the others."""
    federation = Editing(web, API, snapshot=snapshot)
    federation.turn(API)
    federation.turn(web)
    assert federation.cpus(API) == 1000
    return federation


def where(federation: Editing, ask: Ask) -> dict[str, int]:
    holds = federation.commitments.commitment(ask.uid)
    return {one.cluster: copies_of(one) for one in holds.holdings} if holds is not None else {}


def test_what_is_guaranteed_in_its_part_comes_back_for_an_edit_that_grows_within_it() -> None:
    federation = lent()
    wish = sized(API, 4000)
    told = federation.edit(wish)

    assert (told.reason, told.held_back) == (Reason.QUOTA_EXCEEDED, 2)
    assert f"FederatedQuota search{TAKES} for it from others: 1 workload leaves" in told.message
    assert where(federation, WEB) == {"east": 6}
    after = federation.edit(wish)
    assert (after.reason, after.held_back) == (Reason.CHOSEN, 0)
    assert federation.cpus(API) == 4000
    federation.turn(WEB)
    assert where(federation, WEB) == {"east": 6}


@pytest.mark.parametrize("cpu", [6000, 11_000])
def test_beyond_the_guarantee_in_its_part_the_old_stays_in_force_whatever_is_free_elsewhere(
    cpu: int,
) -> None:
    """Nobody uses anything in west."""
    federation = lent()
    told = federation.edit(sized(API, cpu))
    assert (told.reason, told.held_back) == (Reason.QUOTA_EXCEEDED, 2)
    lacks = cpu // 1000 - 1
    assert f"FederatedQuota search has less than {lacks} cpu for it in east (spec.domains)" in (
        told.message
    )
    assert federation.cpus(API) == 1000
    assert where(federation, WEB) == {"east": 9}


def test_what_is_free_in_its_part_is_borrowed_for_it() -> None:
    federation = lent(web=replace(WEB, count=3, slots=3))
    told = federation.edit(sized(API, 7000))
    assert (told.reason, told.held_back) == (Reason.CHOSEN, 0)
    assert federation.cpus(API) == 7000


def test_an_edit_that_asks_for_more_copies_as_well_gets_them_after_it_and_in_its_part() -> None:
    federation = Editing(API, snapshot=ROOMY)
    federation.turn(API)
    wish = replace(sized(API, 2000), count=9, slots=9)
    federation.asks[API.key] = wish
    made = federation.turn(wish)
    told = federation.decision(made, wish)
    assert (told.reason, told.held_back, told.shortfall) == (Reason.QUOTA_EXCEEDED, 0, 8)
    assert "its edit goes before further copies" in told.message
    assert made.requeues[API.key] <= MOMENT_S
    federation.turn(wish)
    assert where(federation, API) == {"east": 5}


def test_who_has_copies_in_several_parts_leaves_where_that_helps() -> None:
    web = replace(WEB, count=18, slots=18)
    federation = Editing(web, API, snapshot=ROOMY)
    federation.turn(API)
    federation.commitments.assume(replace(commitment(web, held(east=9, west=9)), whole=False))
    federation.edit(sized(API, 4000))
    assert where(federation, WEB) == {"east": 6, "west": 9}


@pytest.mark.parametrize("most", [4, 10])
def test_a_limit_in_one_part_takes_no_guarantee_over_all_parts_away(most: int) -> None:
    """Nobody is guaranteed anything in east, where search may have so much at most. Its copies lack
    room in both parts, and clips has borrowed of both."""
    everywhere = Domain("all", LabelSelector(), {TIER: frozenset({"cpu"})})
    limits = Resources({cell("cpu", "east"): most * 1000})

    def both(name: str, cpus: int, **more: Any) -> QuotaAccount:
        amounts = Resources({"cpu": cpus * 1000, cell("cpu", "all"): cpus * 1000})
        quota = TierQuota(amounts, limits if name == "search" else None)
        made = account(name, (0, 0), domains=(everywhere, domain("east")), **more)
        return replace(made, tiers={TIER: quota})

    accounts = (
        both("studio", 20),
        both("clips", 10, parent="studio"),
        both("search", 10, parent="studio", preemption=Preemption(reclaim=Take.ANY)),
    )
    web, api = replace(WEB, count=16, slots=16), replace(API, count=4, slots=4)
    federation = Editing(web, api, snapshot=zoned(*full("east", "west"), accounts=accounts))
    for ask, there in ((api, held(east=2, west=2)), (web, held(east=8, west=8))):
        federation.commitments.assume(replace(commitment(ask, there), whole=False))
        federation.admitted[ask.key] = ask

    told = federation.edit(sized(api, 2000))

    assert f"FederatedQuota search{TAKES} for it from others: 2 workloads leave" in told.message
    assert where(federation, web) == {"east": 6, "west": 6}


@pytest.mark.parametrize(
    ("most", "admitted"), [(None, True), ((10, 10), True), ((9, 10), False), ((5, 5), False)]
)
def test_an_edit_to_another_account_of_the_tree_is_judged_without_what_it_has(
    most: tuple[int, int] | None, admitted: bool
) -> None:
    """All of studio's cpus in east are used before, and after: 5 by clips, and 5 that come to it.
    Nobody leaves for it."""
    clips = account("clips", (5, 5), most, parent="studio", preemption=Preemption(Take.ANY))
    snapshot = replace(ROOMY, quotas=(STUDIO, clips, SEARCH))
    web, api = replace(WEB, count=5, slots=5), replace(API, count=5, slots=5)
    federation = Editing(web, api, snapshot=snapshot)
    federation.turn(web)
    federation.turn(api)
    told = federation.edit(replace(api, project="clips", generation=2))
    assert (told.held_back == 0) == admitted
    assert [federation.copies(one) for one in (web, api)] == [5, 5]
    if not admitted:
        assert "FederatedQuota clips has less than 5 cpu for it in east" in told.message


def test_copies_outside_all_parts_ask_for_no_more() -> None:
    federation = Editing(API, snapshot=zoned(cluster("east", 100), cluster("north", 100)))
    federation.commitments.assume(commitment(API, held(north=1)))
    federation.admitted[API.key] = API
    told = federation.edit(sized(API, 2000))
    assert (told.reason, told.held_back) == (Reason.QUOTA_EXCEEDED, 2)
    assert "FederatedQuota search has no domain of clusters for what it requests" in told.message


def test_what_another_account_limits_in_the_same_part_counts_too() -> None:
    """maps limits cpu and memory in east, clips, whose name comes first, cpu alone."""
    both = Resources({cell("cpu", "east"): 9000, cell("memory", "east"): 4000})
    tiers = {TIER: TierQuota(both)}
    east = (domain("east", "cpu", "memory"),)
    maps = replace(account("maps", (0, 0), parent="studio", domains=east), tiers=tiers)
    studio = replace(account("studio", (0, 0), domains=east), tiers=tiers)
    clips = account("aaa", (1, 0), parent="studio", domains=(domain("east"),))
    tiles = service(1, name="tiles", project="maps")
    shape = replace(tiles.shape, requests=Resources({"cpu": 1000, "memory": 3000, "pods": 1}))
    tiles = replace(tiles, shape=shape)
    room = {"cpu": 50_000, "memory": 50_000, "pods": 100}
    view = cluster("east", 100)
    assert view.capacity is not None
    (row,) = view.capacity.rows
    row = replace(row, allocatable=Resources(room), free=Resources(room))
    view = replace(view, capacity=replace(view.capacity, rows=(row,)))
    federation = Editing(tiles, snapshot=zoned(view, accounts=(studio, maps, clips)))
    federation.turn(tiles)
    assert federation.copies(tiles) == 1
    more = Resources({"cpu": 1000, "memory": 5000, "pods": 1})
    told = federation.edit(replace(tiles, shape=replace(shape, requests=more), generation=2))
    assert told.held_back == 2
    assert "less than 2000 memory for it in east" in told.message


def test_what_one_cycle_gives_in_two_rounds_is_in_one_part() -> None:
    """One cpu is free in each part: the guarantee of clips has it in east, and it could borrow the
    other in west."""
    accounts = (
        account("studio", (3, 2)),
        account("clips", (1, 1), parent="studio"),
        account("search", (2, 1), parent="studio"),
    )
    api, tiles = replace(API, count=2, slots=2), service(1, name="tiles", project="clips")
    web = replace(WEB, count=2, slots=2)
    federation = Editing(tiles, api, web, snapshot=replace(ROOMY, quotas=accounts))
    federation.commitments.assume(commitment(api, held(east=2)))
    federation.commitments.assume(commitment(tiles, held(west=1)))
    federation.turn(web)
    assert where(federation, web) == {"east": 1}


@pytest.mark.parametrize("strategy", [Strategy.CAPACITY, Strategy.DUPLICATE])
def test_an_edit_of_shards_breaks_no_limit_whatever_its_policy_says(strategy: Strategy) -> None:
    """Each cluster has a part of a job set, also where its policy says Duplicate, which it cannot
    follow."""
    accounts = (
        account("studio", (10, 2)),
        account("clips", (5, 1), parent="studio"),
        account("search", (5, 1), (5, 1), parent="studio"),
    )
    shop = sized(jobs(20, 4, name="shop", project="clips", whole=False), 2000)
    federation = Editing(shop, snapshot=replace(ROOMY, quotas=accounts))
    federation.turn(shop)
    assert where(federation, shop) == {"east": 4}
    policy = Policy(division=Division(strategy))

    told = federation.edit(replace(shop, project="search", policy=policy, generation=3))

    assert (told.reason, told.held_back) == (Reason.QUOTA_EXCEEDED, 3)
    assert used(federation, "east", ("search",)) == 0
    assert used(federation, "east", ("clips",)) == 8000


def test_an_edit_of_one_that_leaves_is_judged_after_it_has_left() -> None:
    """shop goes to search, which has 5 cpus in east at most, and waits with its 8 in clips. Then
    a copy of it leaves for an edit of api, and the others stay in clips."""
    takes_back = Preemption(reclaim=Take.ANY)
    accounts = (
        account("studio", (10, 2)),
        account("clips", (5, 1), parent="studio"),
        account("search", (5, 1), (5, 1), parent="studio", preemption=takes_back),
    )
    shop = service(2, name="shop", project="clips")
    api = replace(API, count=2, slots=2)
    federation = Editing(shop, api, snapshot=replace(ROOMY, quotas=accounts))
    federation.turn(shop, api)
    shop = sized(replace(shop, count=4, slots=4), 2000)
    assert federation.edit(shop).held_back == 0
    federation.turn(shop)
    assert federation.cpus(shop) == 8000
    shop = replace(shop, project="search", generation=3)
    assert federation.edit(shop).held_back == 3

    federation.edit(sized(api, 2000))

    assert (where(federation, api), federation.cpus(api)) == ({"east": 2}, 2000)
    assert used(federation, "east", ("search",)) == 2000
    assert used(federation, "east", ("clips",)) == 6000


# -- any edits -------------------------------------------------------------------------------------

PROJECTS = ("clips", "search")
NAMES = ("one", "two", "three")
CHANGES = st.one_of(
    st.fixed_dictionaries({"cpu": st.sampled_from((500, 1000, 2000, 3000, 9000))}),
    st.fixed_dictionaries({"count": st.integers(0, 8)}),
    st.fixed_dictionaries({"project": st.sampled_from(PROJECTS)}),
    st.fixed_dictionaries({"cpu": st.sampled_from((500, 2000)), "count": st.integers(0, 8)}),
    st.fixed_dictionaries(
        {"cpu": st.sampled_from((500, 2000)), "project": st.sampled_from(PROJECTS)}
    ),
)
STEPS = st.lists(st.tuples(st.sampled_from(NAMES), CHANGES), min_size=1, max_size=8)
CPUS = st.tuples(st.integers(1, 6), st.integers(1, 6))
TAKES_BACK = st.sampled_from((Take.NEVER, Take.ANY, Take.LOWER_PRIORITY))


def used(federation: Editing, zone: str, projects: Iterable[str]) -> int:
    """What they hold in clusters of the zone, summed by somebody who has never seen the tree."""
    total = 0
    for one in federation.commitments:
        if one.project in projects:
            there = sum(copies_of(share) for share in one.holdings if share.cluster == zone)
            total += there * one.shape.requests["cpu"]
    return total


@examples(150)
@given(CPUS, CPUS, st.one_of(st.none(), CPUS), TAKES_BACK, STEPS)
def test_for_any_edits_no_account_uses_more_in_a_part_than_it_may_and_what_runs_stays(
    clips: tuple[int, int],
    search: tuple[int, int],
    most: tuple[int, int] | None,
    reclaim: Take,
    steps: list[tuple[str, dict[str, Any]]],
) -> None:
    whole = tuple(sum(both) for both in zip(clips, search, strict=True))
    rules = Preemption(reclaim=reclaim)
    bound = None if most is None else tuple(map(max, zip(most, search, strict=True)))
    accounts = (
        account("studio", (whole[0], whole[1])),
        account("clips", clips, parent="studio", preemption=rules),
        account(
            "search",
            search,
            None if bound is None else (bound[0], bound[1]),
            parent="studio",
            preemption=rules,
        ),
    )
    asks = [
        service(2, name=name, project=PROJECTS[at % 2], created_s=float(at), priority=at)
        for at, name in enumerate(NAMES)
    ]
    federation = Editing(*asks, snapshot=replace(ROOMY, quotas=accounts))
    keys = {ask.key.name: ask.key for ask in asks}
    federation.turn(*asks)
    for name, change in steps:
        key = keys[name]
        now = federation.asks[key]
        ran, admitted = federation.copies(now), federation.cpus(now)
        count = change.get("count", now.count)
        shape = replace(
            now.shape,
            requests=Resources({"cpu": change.get("cpu", now.shape.requests["cpu"]), "pods": 1}),
        )
        wish = replace(
            now,
            shape=shape,
            count=count,
            slots=count,
            project=change.get("project", now.project),
            generation=now.generation + 1,
        )
        federation.asks[key] = wish
        told = federation.decision(federation.turn(wish), wish)
        if told.reason is not Reason.PREEMPTED:
            assert federation.copies(wish) >= min(ran, count)
        if told.held_back:
            assert federation.cpus(wish) <= admitted
        for each in (federation.asks.values(), [wish]):
            federation.turn(*each)
        for at, zone in enumerate(ZONES):
            assert used(federation, zone, PROJECTS) <= whole[at] * 1000
            if bound is not None:
                assert used(federation, zone, ("search",)) <= bound[at] * 1000
