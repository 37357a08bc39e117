"""Limits of accounts in parts of the fleet hold for what only moves, and for what is everywhere."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import Preemption, QuotaAccount, Take
from federator.model.ask import Ask, Tier
from federator.model.decision import Decision, Reason
from federator.model.fleet import ClusterView, FleetSnapshot, Holding, copies_of
from federator.model.names import WorkloadKey
from federator.model.policy import Division, Policy, Strategy
from federator.model.resources import cell
from federator.placement.selection.leaving import Allowance
from federator.scheduling import queueing_hints
from federator.scheduling.entry import Entry
from federator.scheduling.queueing_hints import Hint, HintKind
from tests.examples import examples
from tests.unit.placement.fleets import cluster, commitment, held, jobs, service
from tests.unit.scheduling.test_domain_edits import ZONES, account, zoned
from tests.unit.scheduling.test_growing_edits import Editing, sized

DUPLICATE = Policy(division=Division(Strategy.DUPLICATE))
WEB = service(4, name="web", project="clips")
TILES = service(4, name="tiles", project="clips")


def daemon(name: str = "agent", **more: Any) -> Ask:
    ask = service(1, name=name, project="clips", policy=DUPLICATE, **more)
    return replace(ask, shape=replace(ask.shape, one_per_node=True, every_node=True))


class Moving(Editing):
    """Clusters are emptied, and schedulers cap what they bind."""

    def __init__(self, *asks: Ask, snapshot: FleetSnapshot) -> None:
        super().__init__(*asks, snapshot=snapshot)
        self.standing: dict[str, Any] = {}
        self.more: dict[str, Any] = {}

    def entry(self, key: WorkloadKey) -> Entry:
        entry, before = super().entry(key), self.commitments.commitment(self.asks[key].uid)
        holds = before.holdings if before is not None else ()
        mine = tuple(
            Holding(of.cluster, of.count, of.slots, of.seq, of.ranges, nodes=of.nodes)
            for of in holds
        )
        standing = replace(entry.standing, held=mine, **self.standing)
        return replace(entry, standing=standing, **self.more)

    def change(self, name: str, **more: Any) -> None:
        views = self.snapshot.clusters
        self.snapshot = replace(
            self.snapshot, clusters={**views, name: replace(views[name], **more)}
        )

    def decide(self, ask: Ask) -> Decision:
        return self.decision(self.turn(ask), ask)

    def where(self, ask: Ask) -> Mapping[str, int]:
        holds = self.commitments.commitment(ask.uid)
        return {} if holds is None else {of.cluster: copies_of(of) for of in holds.holdings}

    def used(self, zone: str, *projects: str) -> int:
        """What they hold in clusters of a zone, in thousandths of a cpu."""
        return sum(
            copies_of(of) * holds.shape.requests["cpu"]
            for holds in self.commitments
            for of in holds.holdings
            if holds.project in projects and of.cluster.startswith(zone)
        )


def capped(name: str, east: int, west: int) -> QuotaAccount:
    """It may use so many cpus in each zone."""
    made = account(name, (0, 0), (east, west), parent="studio")
    none = {cell("cpu", zone) for zone, most in zip(ZONES, (east, west), strict=True) if not most}
    tier = replace(made.tiers[Tier.ON_DEMAND], barred=frozenset(none))
    return replace(made, tiers={Tier.ON_DEMAND: tier})


def limited(east: int, west: int) -> tuple[QuotaAccount, ...]:
    return (account("studio", (20, 20)), capped("clips", east, west))


def two(east: int = 9, west: int = 9, *, more: tuple[ClusterView, ...] = ()) -> FleetSnapshot:
    views = (cluster("east1", 20), cluster("west1", 20), *more)
    return zoned(*views, accounts=limited(east, west))


def placed(snapshot: FleetSnapshot, *asks: Ask) -> Moving:
    """In the order of their asks, the first zone first."""
    federation = Moving(*asks, snapshot=snapshot)
    for ask in asks:
        federation.turn(ask)
    return federation


def test_what_has_no_quota_in_another_part_stays_in_a_cluster_that_is_emptied() -> None:
    federation = placed(two(east=4, west=2), WEB)
    assert federation.where(WEB) == {"east1": 4}
    federation.change("east1", draining=True)

    told = federation.decide(WEB)

    assert federation.where(WEB) == {"east1": 2, "west1": 2}
    assert (told.reason, told.held) == (Reason.QUOTA_EXCEEDED, 2)
    assert (
        "FederatedQuota clips allows 2 cpu in west (spec.domains), of which this workload uses 0,"
        " and too little is left"
    ) in told.message
    again = federation.decide(WEB)
    assert federation.where(WEB) == {"east1": 2, "west1": 2}
    assert "of which this workload uses 2" in again.message
    (full,) = (verdict for verdict in again.verdicts if verdict.cluster == "west1")
    assert full.message.endswith(
        "at most 2 are possible there (FederatedQuota clips allows 2 cpu in west (spec.domains),"
        " of which this workload uses 2, and too little is left)"
    )


def test_what_moves_inside_a_part_needs_no_more_quota_there() -> None:
    federation = placed(two(east=4, west=0, more=(cluster("east2", 20),)), WEB)
    federation.change("east1", draining=True)
    assert federation.decide(WEB).reason is Reason.CHOSEN
    assert federation.where(WEB) == {"east2": 4}


def test_who_waits_for_a_part_is_looked_at_when_others_leave_it() -> None:
    """Over all clusters they use as much as before."""
    federation = placed(two(east=4, west=4), WEB)
    federation.change("east1", draining=True)
    first, second = federation.turn(WEB), federation.turn(WEB)
    assert first.hints_of(first.decided) == (Hint(HintKind.QUOTA),)
    assert second.hints_of(second.decided) == ()


def test_what_stays_in_a_cluster_that_is_emptied_waits_for_quota_and_for_room() -> None:
    """Another part may have both."""
    federation = placed(two(east=4, west=2), WEB)
    federation.change("east1", draining=True)
    waiting = federation.turn(WEB).inadmissible[WEB.key]
    for kind in (HintKind.QUOTA, HintKind.ROOM):
        assert queueing_hints.may_help(Hint(kind, "west1"), waiting), kind


def test_what_others_of_the_account_give_up_in_a_part_is_had_in_the_next_cycle() -> None:
    """tiles ends in the cycle in which web is to leave: decisions are written one by one."""
    federation = placed(two(east=4, west=4), WEB, TILES)
    assert [federation.where(ask) for ask in (WEB, TILES)] == [{"east1": 4}, {"west1": 4}]
    federation.change("east1", draining=True)
    none = replace(TILES, count=0, slots=0, priority=100)
    federation.asks[TILES.key] = none

    made = federation.turn(none, WEB)
    assert made.hints_of(made.decided) == (Hint(HintKind.QUOTA),)
    assert made.hints_of(()) == ()
    assert [federation.where(ask) for ask in (WEB, TILES)] == [{"east1": 4}, {}]
    federation.turn(WEB)
    assert federation.where(WEB) == {"west1": 4}


@pytest.mark.parametrize(
    ("west", "moved"), [(0, 0), (1, 1), (3, 3), (9, 4)], ids=["none", "one", "three", "all"]
)
def test_what_a_cluster_that_is_lost_still_holds_moves_as_far_as_the_other_part_has_quota(
    west: int, moved: int
) -> None:
    federation = placed(two(east=4, west=west), WEB)
    federation.change("east1", unreachable=True, draining=True)
    federation.decide(WEB)
    expected = {"east1": 4 - moved, "west1": moved}
    assert federation.where(WEB) == {name: copies for name, copies in expected.items() if copies}


def test_what_moved_from_a_lost_cluster_leaves_its_part_to_others() -> None:
    """The copies that may still run there are outside quota, in their part too."""
    federation = placed(two(east=4, west=4), WEB)
    federation.change("east1", unreachable=True, draining=True)
    federation.decide(WEB)
    assert federation.where(WEB) == {"west1": 4}
    views = {**federation.snapshot.clusters, "east2": cluster("east2", 20, labels={"zone": "east"})}
    federation.snapshot = replace(federation.snapshot, clusters=views)
    federation.asks[TILES.key] = TILES
    federation.turn(TILES)
    assert federation.where(TILES) == {"east2": 4}


def test_what_a_scheduler_could_not_bind_stays_where_it_waits() -> None:
    federation = placed(two(east=4, west=1), WEB)
    federation.standing = {"capped": {"east1": 1}}
    told = federation.decide(WEB)
    assert federation.where(WEB) == {"east1": 3, "west1": 1}
    assert told.reason in (Reason.CHOSEN, Reason.QUOTA_EXCEEDED)


@pytest.mark.parametrize("policy", [Policy(), DUPLICATE], ids=["divided", "everywhere"])
def test_what_others_left_in_a_part_is_not_taken_by_what_moves_there(policy: Policy) -> None:
    """One that is due before the winner leaves a cluster that is emptied."""
    accounts = (
        account("studio", (10, 10)),
        account("clips", (5, 4), parent="studio"),
        account("search", (5, 1), parent="studio", preemption=Preemption(reclaim=Take.ANY)),
        account("maps", (0, 5), parent="studio"),
    )
    web = service(10, name="web", project="clips", policy=Policy(names=("east1",)))
    tiles = service(3, name="tiles", project="maps", policy=Policy(names=("west1", "east1")))
    api = service(2, name="api", project="search", policy=replace(policy, names=("east1",)))
    views = (cluster("east1", 20), cluster("west1", 20))
    federation = placed(zoned(*views, accounts=accounts), web, tiles, api)
    assert [federation.copies(ask) for ask in (web, tiles, api)] == [8, 3, 0]
    assert federation.where(tiles) == {"west1": 3}
    federation.change("west1", draining=True)

    told = federation.decide(tiles)

    assert federation.where(tiles) == {"west1": 3}
    assert "FederatedQuota" in told.message
    federation.turn(tiles, api)
    assert federation.where(api) == {"east1": 2}


def test_a_division_anew_moves_no_more_than_a_part_has_quota_for() -> None:
    even = replace(WEB, policy=Policy(division=Division(Strategy.SPREAD)))
    federation = placed(two(east=4, west=1), even)
    assert federation.where(even) == {"east1": 4}
    federation.more = {"anew": True}
    federation.decide(even)
    assert federation.where(even) == {"east1": 3, "west1": 1}


def test_shards_move_no_more_than_a_part_has_quota_for() -> None:
    batch = jobs(8, 4, project="clips")
    federation = placed(two(east=4, west=3), batch)
    assert federation.where(batch) == {"east1": 4}
    federation.change("east1", draining=True)
    federation.decide(batch)
    assert federation.used("west", "clips") <= 3000
    assert sum(federation.where(batch).values()) == 4


def test_the_pace_is_asked_once_and_for_what_has_a_place_alone() -> None:
    federation = placed(two(east=4, west=2), WEB)
    federation.change("east1", draining=True)
    asked: list[int] = []

    def leave(moving: int, _: Mapping[str, int]) -> Allowance:
        asked.append(moving)
        return Allowance(1, "later")

    federation.more = {"leave": leave}
    federation.decide(WEB)
    assert asked == [2]
    assert federation.where(WEB) == {"east1": 3, "west1": 1}


def test_parts_that_only_some_leave_are_not_filled_by_the_others() -> None:
    """Four of web are in each part, both of which are full, and all have to leave their clusters:
    with a turn for two, one leaves each part."""
    views = tuple(cluster(name, 20) for name in ("east1", "east2", "west1", "west2"))
    federation = Moving(WEB, snapshot=zoned(*views, accounts=limited(2, 2)))
    federation.commitments.assume(commitment(WEB, held(east1=2, west1=2)))
    for name in ("east1", "west1"):
        federation.change(name, draining=True)
    for turn in (1, 2, 3):
        federation.more = {"leave": lambda *_, most=turn: Allowance(most, "later")}
        federation.decide(WEB)
        assert [federation.used(zone, "clips") for zone in ZONES] == [2000, 2000]


def test_what_is_in_every_cluster_gets_in_a_part_what_it_has_quota_for_there() -> None:
    web = replace(WEB, count=3, slots=3, policy=DUPLICATE)
    federation = placed(two(east=9, west=2), web)
    told = federation.decide(web)
    assert federation.where(web) == {"east1": 3, "west1": 2}
    assert (told.reason, told.shortfall) == (Reason.QUOTA_EXCEEDED, 1)
    assert "FederatedQuota clips has less than 1 cpu for it in west (spec.domains)" in told.message


def test_what_is_everywhere_or_nowhere_gets_nothing_where_a_part_has_too_little() -> None:
    policy = replace(DUPLICATE, require_all=True)
    web = replace(WEB, count=3, slots=3, policy=policy)
    federation = placed(two(east=9, west=2), web)
    assert federation.where(web) == {}
    assert federation.decide(web).reason is Reason.QUOTA_EXCEEDED


def test_a_daemon_is_not_in_clusters_whose_nodes_a_part_has_no_quota_for() -> None:
    views = (cluster("east1", 9, nodes=2), cluster("west1", 9, nodes=3))
    more = (cluster("west2", 9, nodes=3), cluster("north", 9, nodes=5))
    agent = daemon()
    federation = placed(zoned(*views, *more, accounts=limited(9, 5)), agent)
    told = federation.decide(agent)
    has = federation.where(agent)
    assert federation.used("west", "clips") == 3000, "on all nodes of a cluster, or on none"
    assert {"east1": 2, "north": 5}.items() <= has.items()
    assert (told.reason, told.shortfall) == (Reason.QUOTA_EXCEEDED, 1)
    assert "FederatedQuota clips has less than 3 cpu for it in west (spec.domains)" in told.message
    (other,) = {"west1", "west2"} - has.keys()
    (verdict,) = (verdict for verdict in told.verdicts if verdict.cluster == other)
    assert verdict.reason is Reason.QUOTA_EXCEEDED


def test_a_daemon_that_is_everywhere_or_nowhere_is_nowhere_where_a_part_has_too_little() -> None:
    agent = daemon()
    agent = replace(agent, policy=replace(agent.policy, require_all=True))
    views = (cluster("east1", 9, nodes=2), cluster("west1", 9, nodes=3))
    federation = placed(zoned(*views, accounts=limited(9, 2)), agent)
    assert federation.where(agent) == {}


def test_an_edit_of_what_is_everywhere_is_held_back_where_a_part_has_too_little() -> None:
    web = replace(WEB, count=2, slots=2, policy=DUPLICATE)
    federation = placed(two(east=9, west=3), web)
    told = federation.edit(sized(web, 2000))
    assert (told.reason, told.held_back) == (Reason.QUOTA_EXCEEDED, 2)
    assert "FederatedQuota clips has less than 2 cpu for it in west (spec.domains)" in told.message
    assert "generation 1 stays in force" in told.message
    assert federation.where(web) == {"east1": 2, "west1": 2}
    assert federation.used("west", "clips") == 2000


def test_what_is_above_a_limit_already_stays_and_takes_no_more() -> None:
    federation = placed(two(east=9, west=9, more=(cluster("west2", 20),)), WEB)
    federation.change("east1", draining=True)
    federation.turn(WEB)
    federation.snapshot = replace(federation.snapshot, quotas=limited(9, 2))
    federation.turn(WEB)
    assert federation.used("west", "clips") == 4000
    federation.change("east1", draining=False)
    federation.change("west1", draining=True)
    federation.change("west2", draining=True)
    federation.turn(WEB)
    assert federation.used("west", "clips") == 0


# -- anything that moves ---------------------------------------------------------------------------

NAMES = ("east1", "east2", "west1", "west2", "north")
KINDS = ("service", "even", "packed", "everywhere", "whole", "daemon", "jobs")
CHANGES = st.one_of(
    st.tuples(st.just("draining"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("cordoned"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("count"), st.integers(0, 3), st.integers(0, 6)),
    st.tuples(st.just("cpu"), st.integers(0, 3), st.sampled_from((1000, 2000))),
    st.tuples(st.just("limit"), st.sampled_from(("clips", "search")), st.integers(0, 9)),
    st.tuples(st.just("anew"), st.just(""), st.booleans()),
    st.tuples(st.just("pace"), st.just(""), st.integers(0, 3)),
    st.tuples(st.just("capped"), st.sampled_from(NAMES), st.integers(0, 4)),
)


def made(kind: str, number: int) -> Ask:
    project, name = ("clips", "search")[number % 2], f"{kind}-{number}"
    ask = service(2, name=name, project=project, priority=number, created_s=float(number))
    strategies = {
        "even": Strategy.SPREAD,
        "packed": Strategy.PACK,
        "everywhere": Strategy.DUPLICATE,
        "whole": Strategy.DUPLICATE,
    }
    if kind == "daemon":
        return replace(daemon(name), project=project)
    if kind == "jobs":
        return jobs(6, 2, name=name, project=project)
    if kind in strategies:
        policy = Policy(division=Division(strategies[kind]), require_all=kind == "whole")
        return replace(ask, policy=policy)
    return ask


@examples(150)
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.lists(st.tuples(CHANGES, st.booleans()), min_size=1, max_size=8),
)
def test_no_cycle_takes_an_account_above_its_limit_in_a_part(
    kinds: list[str],
    clips: tuple[int, int],
    search: tuple[int, int],
    steps: list[tuple[tuple[str, Any, Any], bool]],
) -> None:
    """Or further above it."""
    limits = {"clips": list(clips), "search": list(search)}
    views = tuple(
        cluster(name, rooms, nodes=nodes)
        for name, rooms, nodes in zip(NAMES, (4, 9, 3, 9, 2), (2, 1, 3, 1, 1), strict=True)
    )

    def accounts() -> tuple[QuotaAccount, ...]:
        own = [capped(name, *most) for name, most in limits.items()]
        return (account("studio", (9, 9)), *own)

    asks = [made(kind, number) for number, kind in enumerate(kinds)]
    federation = Moving(*asks, snapshot=zoned(*views, accounts=accounts()))
    keys = [ask.key for ask in asks]
    for (what, which, value), together in [(("anew", "", False), True), *steps]:
        match what:
            case "draining" | "cordoned":
                federation.change(which, **{what: value})
            case "count" | "cpu":
                ask = federation.asks[keys[which % len(keys)]]
                if ask.shape.every_node or ask.key.kind == "PinterestJobSet":
                    continue
                wish = replace(ask, count=value, slots=value, generation=ask.generation + 1)
                federation.asks[ask.key] = wish if what == "count" else sized(ask, value)
            case "limit":
                limits[which] = [value, 9 - value]
                federation.snapshot = replace(federation.snapshot, quotas=accounts())
            case "pace":
                federation.more["leave"] = lambda *_, most=value: Allowance(most, "later")
            case "capped":
                federation.standing = {"capped": {which: value}}
            case _:
                federation.more["anew"] = value
        due = [federation.asks[key] for key in keys]
        for batch in [due] if together else [[ask] for ask in due]:
            before = usage(federation)
            federation.turn(*batch)
            after, most = usage(federation), {**limits, "studio": [9, 9]}
            for (name, zone), used in after.items():
                limit = most[name][ZONES.index(zone)] * 1000
                assert used <= max(limit, before[name, zone]), (name, zone, used, limit)


def usage(federation: Moving) -> dict[tuple[str, str], int]:
    projects = {"studio": ("clips", "search"), "clips": ("clips",), "search": ("search",)}
    return {
        (name, zone): federation.used(zone, *below)
        for name, below in projects.items()
        for zone in ZONES
    }
