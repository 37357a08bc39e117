"""What is in every cluster takes back what is guaranteed to its account, as what is divided does:
services with strategy Duplicate, and daemons."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import Preemption, QuotaAccount, Take, TakesRoom
from federator.model.ask import Ask, Tier
from federator.model.decision import TAKES, Reason
from federator.model.fleet import Capacity, FleetSnapshot, NodeRow
from federator.model.policy import Division, Policy, Strategy
from federator.model.resources import Resources
from federator.scheduling import cycle
from federator.scheduling.admission.notice import Pace
from federator.scheduling.cycle import Cycle
from tests.examples import examples
from tests.unit.placement.fleets import cluster, commitment, fleet, held, service
from tests.unit.scheduling.test_claims import ACCOUNTS, account, room_accounts
from tests.unit.scheduling.test_domain_edits import account as by_zone
from tests.unit.scheduling.test_domain_edits import zoned
from tests.unit.scheduling.test_domain_moves import DUPLICATE, Moving, daemon
from tests.unit.scheduling.test_growing_edits import sized

WEB = service(20, name="web", project="clips")
ALL = replace(DUPLICATE, require_all=True)
ROOMY = fleet(cluster("a", 50, nodes=2), cluster("b", 50, nodes=3), quotas=ACCOUNTS)


def both(count: int, policy: Policy = DUPLICATE, **more: Any) -> Ask:
    return service(count, name="api", project="search", policy=policy, **more)


def agent(policy: Policy = DUPLICATE, **more: Any) -> Ask:
    return replace(daemon("api"), project="search", policy=policy, **more)


class Claiming(Moving):
    def all(self, *asks: Ask) -> list[int]:
        return [self.copies(ask) for ask in asks]


def lent(api: Ask, *others: Ask, snapshot: FleetSnapshot = ROOMY, web: Ask = WEB) -> Claiming:
    """clips has borrowed what is guaranteed to search, and all else."""
    federation = Claiming(web, api, *others, snapshot=snapshot)
    federation.turn(web)
    assert federation.copies(web) == 20
    return federation


@pytest.mark.parametrize(
    ("api", "gets"),
    [
        (both(2), {"a": 2, "b": 2}),
        (both(2, ALL), {"a": 2, "b": 2}),
        (agent(), {"a": 2, "b": 3}),
        (agent(ALL), {"a": 2, "b": 3}),
    ],
    ids=["service", "service, all of it", "daemon", "daemon, all of it"],
)
def test_what_is_guaranteed_comes_back_and_both_sides_are_told(
    api: Ask, gets: Mapping[str, int]
) -> None:
    federation, count = lent(api), sum(gets.values())

    made = federation.turn(api)

    told, gone = federation.decision(made, api), federation.decision(made, WEB)
    assert federation.all(WEB, api) == [20 - count, 0], "it takes the quota when it is free"
    assert told.reason is Reason.QUOTA_EXCEEDED
    assert f"FederatedQuota search{TAKES} for it from others: 1 workload leaves" in told.message
    assert (gone.reason, gone.shortfall) == (Reason.PREEMPTED, count)
    assert f"{count} copies left for PinterestService/feed/api of project search" in gone.message
    federation.turn(WEB)
    assert federation.copies(WEB) == 20 - count, "who left does not have it back"
    federation.turn(api, WEB)
    assert (federation.where(api), federation.copies(WEB)) == (gets, 20 - count)


@pytest.mark.parametrize(
    ("api", "left", "gets"),
    [
        (both(3), 15, 5),
        (both(3, ALL), 20, 0),
        (both(9, Policy(division=Division(Strategy.DUPLICATE, max_per_cluster=1))), 18, 2),
        (both(3, Policy(division=Division(Strategy.DUPLICATE, max_clusters=1))), 17, 3),
    ],
    ids=["a part", "all or nothing", "as many as a cluster may have", "in one cluster"],
)
def test_of_a_service_as_many_copies_as_are_guaranteed_and_of_use_come_back(
    api: Ask, left: int, gets: int
) -> None:
    federation = lent(api)
    federation.turn(api)
    assert federation.all(WEB, api) == [left, 0]
    federation.turn(api, WEB)
    assert federation.all(WEB, api) == [left, gets]


@pytest.mark.parametrize(("policy", "left"), [(DUPLICATE, 18), (ALL, 20)])
def test_for_a_daemon_as_much_leaves_as_the_nodes_of_whole_clusters_need(
    policy: Policy, left: int
) -> None:
    """Of 2 and 4 nodes 5 are guaranteed: 3 more copies would leave for nothing."""
    api = agent(policy)
    nodes = fleet(cluster("a", 50, nodes=2), cluster("b", 50, nodes=4), quotas=ACCOUNTS)
    federation = lent(api, snapshot=nodes)
    federation.turn(api)
    assert federation.copies(WEB) == left
    federation.turn(WEB, api)
    assert federation.all(WEB, api) == [left, 20 - left]
    federation.turn(WEB, api)
    assert federation.all(WEB, api) == [left, 20 - left], "and that is all"


@pytest.mark.parametrize("api", [both(2), agent()], ids=["service", "daemon"])
def test_no_guarantee_is_taken(api: Ask) -> None:
    """clips and maps hold what is theirs, and search what it is guaranteed but for one copy."""
    tiles, more = (
        service(5, name="tiles", project="maps"),
        service(4, name="more", project="search"),
    )
    web = replace(WEB, count=10, slots=10)
    others = service(1, name="others", project="maps")
    federation = Claiming(web, tiles, more, others, api, snapshot=ROOMY)
    for ask in (web, tiles, more, others):
        federation.turn(ask)
    assert federation.all(web, tiles, more, others) == [10, 5, 4, 1]

    for _ in range(3):
        federation.turn(api)

    least = 1 if api.shape.every_node else 0
    assert federation.all(web, tiles, more) == [10, 5, 4]
    assert federation.copies(others) == least, "a daemon has no use for a single node"
    assert federation.copies(api) == 1 - least


@pytest.mark.parametrize("api", [both(2), agent()], ids=["service", "daemon"])
def test_nobody_leaves_where_the_account_does_not_say_so(api: Ask) -> None:
    quotas = tuple(replace(one, preemption=Preemption()) for one in ACCOUNTS)
    other = account("other", 0, parent="studio", preemption=Preemption(Take.ANY))
    federation = lent(api, snapshot=replace(ROOMY, quotas=(*quotas, other)))
    federation.turn(api)
    assert federation.copies(WEB) == 20


@pytest.mark.parametrize("api", [both(2), agent()], ids=["service", "daemon"])
def test_it_does_not_go_before_the_first_of_a_strict_account(api: Ask) -> None:
    search = replace(account("search", 5, parent="studio"), strict=True)
    first = service(
        30, name="first", project="search", priority=9, policy=replace(ALL, division=Division())
    )
    quotas = (ACCOUNTS[0], ACCOUNTS[1], search, ACCOUNTS[3])
    federation = Claiming(first, api, snapshot=replace(ROOMY, quotas=quotas))
    told = federation.decision(federation.turn(api, first), api)
    assert federation.copies(api) == 0
    assert "search is strict (spec.queueing: StrictFIFO)" in told.message


def paced(federation: Claiming, ask: Ask, pace: Pace) -> Cycle:
    return cycle.run(
        [federation.entry(ask.key)],
        federation.queue,
        federation.snapshot,
        federation.commitments,
        seq=federation.numbers.__next__,
        find=federation.entry,
        pace=pace,
    )


@pytest.mark.parametrize("api", [both(2), agent()], ids=["service", "daemon"])
def test_it_waits_for_its_turn_where_too_many_left_in_this_minute(api: Ask) -> None:
    federation, need = lent(api), 5 if api.shape.every_node else 4
    slow = Pace(need - 1, next_s=20.0)
    made = paced(federation, api, slow)
    assert [decided.key for decided in made.decided] == [api.key]
    assert (
        "as the pace of preemption allows (hub.preempted_copies_a_minute)"
        in made.decided[0].decision.message
    )
    assert made.requeues[api.key] <= 20.0
    assert len(paced(federation, api, replace(slow, copies=need)).decided) == 2


# -- where room is lacking -------------------------------------------------------------------------


def crowded(
    *there: tuple[Ask, dict[str, int]],
    api: Ask,
    free: Mapping[str, int],
    quotas: tuple[QuotaAccount, ...] = ACCOUNTS,
) -> Claiming:
    """What is where, and the cpus that are free there."""
    federation = Claiming(api, *(ask for ask, _ in there), snapshot=ROOMY)
    for ask, counts in there:
        federation.commitments.assume(replace(commitment(ask, held(**counts)), whole=False))
    for name in free:  # their members have reported it
        for ask, _ in there:
            federation.commitments.confirm(name, ask.uid, 1 << 40)
        federation.commitments.reported(name, 1 << 40)
    has = Resources({"cpu": 30_000, "pods": 100})
    views = {
        name: cluster(
            name, 0, capacity=Capacity(rows=(NodeRow(1, has, left),), includes_seq=1 << 40)
        )
        for name, cpus in free.items()
        if (left := Resources({"cpu": cpus * 1000, "pods": 50}))
    }
    federation.snapshot = fleet(*views.values(), quotas=quotas)
    return federation


@pytest.mark.parametrize(
    ("free", "stays"),
    [
        ({"a": 0, "b": 0}, {"a": 12, "b": 4}),
        ({"a": 0, "b": 2}, {"a": 10, "b": 6}),
        ({"a": 2, "b": 0}, {"a": 12, "b": 4}),
    ],
)
def test_others_leave_in_the_clusters_in_which_its_copies_lack_room(
    free: Mapping[str, int], stays: Mapping[str, int]
) -> None:
    """Where quota is short, and room is."""
    federation = crowded((WEB, {"a": 14, "b": 6}), api=both(2), free=free)
    federation.turn(both(2))
    assert federation.where(WEB) == stays


@pytest.mark.parametrize(
    ("free", "stays"), [({"a": 0, "b": 0}, {"a": 7, "b": 8}), ({"a": 0, "b": 9}, {"a": 5, "b": 10})]
)
def test_one_that_is_everywhere_too_leaves_there_and_keeps_what_is_guaranteed_to_it(
    free: Mapping[str, int], stays: Mapping[str, int]
) -> None:
    """clips has 20 and is guaranteed 15: as many less in each cluster would be 14."""
    web, api = replace(WEB, count=10, slots=10, policy=DUPLICATE), both(3)
    federation = crowded((web, {"a": 10, "b": 10}), api=api, free=free)
    told = federation.decision(federation.turn(api), web)
    assert federation.where(web) == stays
    assert (told.wanted, told.shortfall, told.reason) == (20, 5, Reason.PREEMPTED)
    assert told.message.startswith("5 copies left for PinterestService/feed/api of project search")
    federation.turn(web)
    assert federation.where(web) == stays


def test_others_leave_than_by_the_order_where_these_make_no_room() -> None:
    """The first by the order are in another cluster."""
    far, web = service(8, name="far", project="clips", priority=-1), replace(WEB, count=12)
    api = both(2, replace(DUPLICATE, names=("a", "b")))
    federation = crowded(
        (far, {"c": 8}), (web, {"a": 9, "b": 3}), api=api, free={"a": 0, "b": 0, "c": 0}
    )
    federation.turn(api)
    assert federation.where(far) == {"c": 8}
    assert federation.where(web) == {"a": 7, "b": 1}


@pytest.mark.parametrize(("policy", "left"), [(DUPLICATE, 18), (ALL, 20)])
def test_nobody_leaves_for_copies_for_which_that_makes_no_room(policy: Policy, left: int) -> None:
    """Borrowers are in a alone, and b is full of what does not leave."""
    federation = crowded((WEB, {"a": 20}), api=both(2, policy), free={"a": 0, "b": 0})
    federation.turn(both(2, policy))
    assert federation.copies(WEB) == left


API = service(2, name="api", project="api", tier=Tier.RESERVED, policy=DUPLICATE)
IDLE = service(9, name="idle", project="idle", tier=Tier.PREEMPTIBLE)
BULK = service(8, name="bulk", project="bulk")


@pytest.mark.parametrize(
    ("idle", "policy", "gone"),
    [
        ({"a": 7, "b": 2}, DUPLICATE, {"a": 2, "b": 2}),
        ({"a": 7, "b": 2}, ALL, {"a": 2, "b": 2}),
        ({"a": 8, "b": 1}, DUPLICATE, {"a": 2, "b": 1}),
        ({"a": 8, "b": 1}, ALL, {}),
        ({"a": 9}, DUPLICATE, {"a": 2}),
    ],
)
def test_room_is_made_in_each_cluster_that_lacks_it_and_no_more_than_that(
    idle: dict[str, int], policy: Policy, gone: Mapping[str, int]
) -> None:
    api = replace(API, policy=policy)
    quotas = room_accounts(TakesRoom.PREEMPTIBLE)
    federation = crowded((IDLE, idle), api=api, free={"a": 0, "b": 0}, quotas=quotas)

    made = federation.turn(api)

    stays = {name: copies - gone.get(name, 0) for name, copies in idle.items()}
    assert federation.where(IDLE) == {name: copies for name, copies in stays.items() if copies}
    assert {name: c for claim in made.room_claims.values() for name, c in claim.copies.items()} == (
        gone
    )
    again = federation.turn(api)
    assert [decided.key for decided in again.decided] == [api.key], "nobody leaves a second time"


def test_what_has_room_already_needs_nobody_to_leave() -> None:
    """All or nothing: a has room for both copies, b for one of them."""
    api, quotas = replace(API, policy=ALL), room_accounts(TakesRoom.PREEMPTIBLE)
    federation = crowded((IDLE, {"a": 5, "b": 4}), api=api, free={"a": 2, "b": 1}, quotas=quotas)
    federation.turn(api)
    assert federation.where(IDLE) == {"a": 5, "b": 3}


def test_so_it_is_for_what_is_divided_and_begins_as_a_whole() -> None:
    """3 of 6 have room: for 3 others leave, and for none a second time."""
    api = service(6, policy=Policy(require_all=True), name="api", project="api", tier=Tier.RESERVED)
    quotas = room_accounts(TakesRoom.PREEMPTIBLE)
    federation = crowded((IDLE, {"a": 5, "b": 4}), api=api, free={"a": 2, "b": 1}, quotas=quotas)
    made = federation.turn(api)
    assert federation.copies(IDLE) == 6
    assert sum(made.room_claims[api.key].copies.values()) == 6, "the room that it has is kept, too"
    federation.turn(api)
    assert federation.copies(IDLE) == 6


@pytest.mark.parametrize(("guaranteed", "left"), [(4, 4), (6, 6), (8, 8)])
def test_its_guarantee_gets_the_room_of_borrowers_but_no_guarantee(
    guaranteed: int, left: int
) -> None:
    quotas = room_accounts(TakesRoom.BORROWED, bulk=guaranteed)
    federation = crowded((BULK, {"a": 4, "b": 4}), api=API, free={"a": 0, "b": 0}, quotas=quotas)
    federation.turn(API)
    assert federation.copies(BULK) == left


def test_a_daemon_needs_no_room() -> None:
    """Its pods go to nodes whether they have room or not."""
    mine = replace(agent(), project="api", tier=Tier.RESERVED)
    quotas = room_accounts(TakesRoom.BORROWED, bulk=0)
    federation = crowded(
        (BULK, {"a": 4, "b": 4}), (IDLE, {"a": 5}), api=mine, free={"a": 0, "b": 0}, quotas=quotas
    )
    assert federation.decide(mine).reason is Reason.CHOSEN
    assert (federation.copies(BULK), federation.copies(IDLE)) == (8, 5)


# -- edits -----------------------------------------------------------------------------------------


def test_an_edit_of_a_service_takes_back_what_is_guaranteed_where_its_copies_are() -> None:
    api = both(1)
    federation = Claiming(
        WEB, api, snapshot=fleet(cluster("a", 30), cluster("b", 30), quotas=ACCOUNTS)
    )
    federation.turn(api)
    federation.turn(WEB)
    assert federation.all(WEB, api) == [18, 2]

    told = federation.edit(sized(api, 2000))

    assert told.held_back == 2
    assert f"FederatedQuota search{TAKES} for it from others" in told.message
    assert (federation.copies(WEB), federation.cpus(api)) == (16, 2000)
    federation.turn(WEB, sized(api, 2000))
    assert (federation.copies(WEB), federation.cpus(api)) == (16, 4000)


# -- parts of the fleet ----------------------------------------------------------------------------

ZONED = (
    by_zone("studio", (10, 10)),
    by_zone("clips", (6, 7), parent="studio"),
    by_zone("search", (4, 3), parent="studio", preemption=Preemption(reclaim=Take.ANY)),
)


@pytest.mark.parametrize(
    ("policy", "gets"), [(DUPLICATE, {"east": 4, "west": 3}), (ALL, {})], ids=["a part", "all"]
)
def test_what_is_guaranteed_in_each_part_comes_back_there(
    policy: Policy, gets: Mapping[str, int]
) -> None:
    """clips has borrowed all of east and of west."""
    webs = [
        service(10, name=f"web-{zone}", project="clips", policy=Policy(names=(zone,)))
        for zone in ("east", "west")
    ]
    api = both(4, policy)
    roomy = zoned(cluster("east", 50), cluster("west", 50), accounts=ZONED)
    federation = Claiming(*webs, api, snapshot=roomy)
    federation.turn(*webs)
    assert federation.all(*webs) == [10, 10]
    left = [10 - gets.get(zone, 0) for zone in ("east", "west")]

    for _ in range(3):
        federation.turn(api)
        assert federation.all(*webs) == left
        federation.turn(*webs)
        assert federation.all(*webs) == left

    assert federation.where(api) == gets


def test_a_part_of_which_nothing_is_free_keeps_nothing_from_it_in_another() -> None:
    """In west everything is guaranteed to others and used."""
    accounts = (*ZONED[:2], replace(by_zone("search", (4, 0), parent="studio")))
    webs = [
        service(count, name=f"web-{zone}", project="clips", policy=Policy(names=(zone,)))
        for zone, count in (("east", 6), ("west", 10))
    ]
    api = both(3)
    roomy = zoned(cluster("east", 50), cluster("west", 50), accounts=accounts)
    federation = Claiming(*webs, api, snapshot=roomy)
    federation.turn(*webs)
    federation.turn(api)
    assert federation.all(*webs) == [6, 10]
    assert federation.where(api) == {"east": 3}


# -- any guarantees, sizes and turns ---------------------------------------------------------------


POSITIVE = st.integers(1, 8)
CLAIMANTS = st.tuples(st.sampled_from((DUPLICATE, ALL)), st.booleans(), st.integers(1, 4))


@examples(150)
@given(
    st.tuples(POSITIVE, POSITIVE),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    CLAIMANTS,
    st.sampled_from((Policy(), DUPLICATE)),
    st.lists(st.sampled_from(("web", "api")), max_size=6),
)
def test_what_is_guaranteed_is_had_in_the_end_and_no_guarantee_is_lost_meanwhile(
    guaranteed: tuple[int, int],
    nodes: tuple[int, int],
    claimant: tuple[Policy, bool, int],
    lends: Policy,
    turns: list[str],
) -> None:
    """clips would use all that there is, whatever is guaranteed to it, and search has one workload
    that is everywhere."""
    (clips, search), (policy, every_node, count) = guaranteed, claimant
    quotas = (
        account("studio", clips + search),
        account("clips", clips, parent="studio"),
        account("search", search, parent="studio", preemption=Preemption(reclaim=Take.ANY)),
    )
    views = [cluster(name, 50, nodes=many) for name, many in zip("ab", nodes, strict=True)]
    web = replace(WEB, count=20, policy=lends)
    api = agent(policy) if every_node else both(count, policy)
    federation = Claiming(web, api, snapshot=fleet(*views, quotas=quotas))
    federation.turn(web)
    before = federation.copies(web)
    assert before == clips + search
    for name in (*turns, *(["api", "web"] * 3)):
        federation.turn(web if name == "web" else api)
        assert sum(federation.all(web, api)) <= clips + search
        assert federation.copies(web) >= clips
    wanted = sorted(nodes) if every_node else [1] * (2 * count)
    fits = [sum(wanted[:some]) for some in range(len(wanted) + 1)]
    gets = max(fit for fit in fits if fit <= search)
    gets = gets if policy == DUPLICATE or gets == sum(wanted) else 0
    assert federation.all(web, api) == [clips + search - gets, gets]
