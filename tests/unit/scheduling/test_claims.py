"""What others give up for a workload stays for it until its own next turn, whoever is due first."""

import itertools
from dataclasses import replace

import pytest

from federator.model.accounts import Ordering, Preemption, QuotaAccount, Take, TakesRoom, TierQuota
from federator.model.ask import Ask, PodShape, Tier
from federator.model.decision import Reason
from federator.model.fleet import Capacity, Commitment, FleetSnapshot, NodeRow
from federator.model.names import WorkloadKey
from federator.model.policy import Division, Policy, Strategy
from federator.model.resources import Resources
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle
from federator.scheduling.admission.preempting import MOMENT_S
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from federator.scheduling.queueing_hints import Hint, HintKind
from federator.scheduling.waiting.room_claims import WAITS_S
from tests.unit.placement.fleets import cluster, fleet, held, jobs, service


def account(name: str, cpus: int, **more: object) -> QuotaAccount:
    tiers = {Tier.ON_DEMAND: TierQuota(Resources({"cpu": cpus * 1000}))}
    projects = frozenset({name}) if more.get("parent") else frozenset()
    return QuotaAccount(name, projects=projects, tiers=tiers, generation=1, **more)  # type: ignore[arg-type]


ACCOUNTS = (
    account("studio", 20),
    account("clips", 10, parent="studio"),
    account("search", 5, parent="studio", preemption=Preemption(reclaim=Take.ANY)),
    account("maps", 5, parent="studio"),
)
ROOMY = fleet(cluster("a", 100), quotas=ACCOUNTS)


class Federation:
    """Cycles one after the other, each with the workloads that are due in it."""

    def __init__(self, *asks: Ask, snapshot: FleetSnapshot = ROOMY) -> None:
        self.asks = {ask.key: ask for ask in asks}
        self.queue, self.commitments = Queue(), Commitments()
        self.snapshot, self.numbers = snapshot, itertools.count(100)

    def entry(self, key: WorkloadKey) -> Entry:
        ask = self.asks[key]
        before = self.commitments.commitment(ask.uid)
        shares = before.holdings if before is not None else ()
        return Entry(ask=ask, standing=Standing(held=held(**{s.cluster: s.count for s in shares})))

    def turn(self, *due: Ask) -> Cycle:
        made = cycle.run(
            [self.entry(ask.key) for ask in due],
            self.queue,
            self.snapshot,
            self.commitments,
            seq=self.numbers.__next__,
            find=self.entry,
        )
        assert not made.failed
        for decided in made.decided:
            self.commitments.assume(decided.after)
        self.queue.settle(
            made.keys, made.inadmissible, made.reservations, made.claims, made.room_claims
        )
        return made

    def copies(self, ask: Ask) -> int:
        holds: Commitment | None = self.commitments.commitment(ask.uid)
        return holds.copies if holds is not None else 0


WEB = service(20, name="web", project="clips")
API = service(5, name="api", project="search")
TILES = service(8, name="tiles", project="maps")


@pytest.mark.parametrize("first", [WEB, TILES], ids=["who left", "who never had it"])
def test_who_is_due_before_the_winner_does_not_take_what_was_freed(first: Ask) -> None:
    federation = Federation(WEB, API, TILES)
    federation.turn(WEB)
    federation.turn(API)
    assert [federation.copies(ask) for ask in (WEB, API)] == [15, 0], (
        "room is taken when it is free"
    )

    made = federation.turn(first)

    assert federation.copies(first) == {WEB.key: 15, TILES.key: 0}[first.key]
    (decided,) = made.decided
    assert decided.decision.reason in (Reason.PREEMPTED, Reason.QUOTA_EXCEEDED)
    assert decided.decision.message, "it is told why"
    federation.turn(API)
    assert federation.copies(API) == 5


@pytest.mark.parametrize("ordering", [*Ordering, None])
@pytest.mark.parametrize("priority", [0, 100])
def test_who_left_does_not_have_it_back_by_the_order(
    ordering: Ordering | None, priority: int
) -> None:
    """Both are due, and who left is older, and of a higher priority: it would leave again."""
    accounts = (replace(ACCOUNTS[0], ordering=ordering), *ACCOUNTS[1:])
    web = replace(WEB, priority=priority, created_s=1.0)
    api = replace(API, created_s=9.0)
    federation = Federation(web, api, snapshot=replace(ROOMY, quotas=accounts))
    federation.turn(web)
    federation.turn(api)
    assert [federation.copies(ask) for ask in (web, api)] == [15, 0]

    federation.turn(web, api)

    assert [federation.copies(ask) for ask in (web, api)] == [15, 5]


def test_who_left_does_not_have_it_back_while_one_of_the_winners_account_waits_before_it() -> None:
    """What is before the winner in the order of its account, and finds too little, is judged in the
    round in which who left is."""
    wide = service(30, name="wide", project="search", priority=100, whole=True)
    federation = Federation(WEB, API, wide)
    federation.turn(WEB)
    federation.turn(API)

    federation.turn(WEB, wide, API)

    assert [federation.copies(ask) for ask in (WEB, wide, API)] == [15, 0, 5]


def test_of_what_is_in_every_cluster_no_more_leaves_than_that_and_it_waits_for_the_winner() -> None:
    """Of 8 in each of two clusters one copy is too much."""
    both = fleet(cluster("a", 50), cluster("b", 50), quotas=ACCOUNTS)
    web = replace(WEB, count=8, slots=8, policy=Policy(division=Division(Strategy.DUPLICATE)))
    federation = Federation(web, API, snapshot=both)
    federation.turn(web)
    assert federation.copies(web) == 16

    made = federation.turn(API)

    told = next(one.decision for one in made.decided if one.key == web.key)
    assert sorted(share.count for share in told.shares) == [7, 8]
    assert (told.wanted, told.shortfall, told.reason) == (16, 1, Reason.PREEMPTED)
    assert told.message.startswith("1 copy left for PinterestService/feed/api of project search")
    (again,) = federation.turn(web).decided
    assert (federation.copies(web), again.decision.shortfall) == (15, 1)
    assert "after what others before it in the order got or take back" in again.decision.message
    federation.turn(API)
    federation.turn(web)
    assert [federation.copies(ask) for ask in (web, API)] == [15, 5], "as where quota is short"


@pytest.mark.parametrize("bound", [{"max_concurrent": 1}, {"max_priority": 5}])
def test_nobody_leaves_for_who_gets_nothing_by_another_rule_of_its_account(
    bound: dict[str, int],
) -> None:
    """They would come back in the next cycle, and leave again, for ever."""
    search = replace(ACCOUNTS[2], **bound)  # type: ignore[arg-type]
    first = service(1, name="first", project="search")
    api = replace(API, priority=9)
    federation = Federation(
        WEB, first, api, snapshot=replace(ROOMY, quotas=(*ACCOUNTS[:2], search, ACCOUNTS[3]))
    )
    federation.turn(first)
    federation.turn(WEB)
    assert [federation.copies(ask) for ask in (first, WEB)] == [1, 19]

    made = federation.turn(api)

    assert [federation.copies(ask) for ask in (api, WEB)] == [0, 19]
    (decided,) = made.decided
    assert "FederatedQuota search allows " in decided.decision.message


@pytest.mark.parametrize(
    "api",
    [
        replace(API, policy=Policy(division=Division(min_per_cluster=5, max_per_cluster=2))),
        jobs(
            9, 5, name="api", project="search", policy=Policy(division=Division(Strategy.DUPLICATE))
        ),
    ],
    ids=["bounds", "shards"],
)
def test_nobody_leaves_for_who_gets_nothing_by_its_own_policy(api: Ask) -> None:
    federation = Federation(WEB, api)
    federation.turn(WEB)

    made = federation.turn(api)

    assert federation.copies(WEB) == 20
    assert [decided.decision.reason for decided in made.decided] == [Reason.MISCONFIGURED]


def test_the_place_of_who_leaves_is_not_taken_in_the_same_cycle() -> None:
    """An account with one workload at a time: the next one would have taken the quota that was
    freed for another, and left in the next cycle, when the first would have come back."""
    clips = replace(ACCOUNTS[1], max_concurrent=1)
    web = replace(WEB, policy=replace(WEB.policy, require_all=True))
    then = service(20, name="then", project="clips")
    federation = Federation(
        web, then, API, snapshot=replace(ROOMY, quotas=(ACCOUNTS[0], clips, *ACCOUNTS[2:]))
    )
    federation.turn(web)
    made = federation.turn(then, API)
    assert [federation.copies(ask) for ask in (web, then, API)] == [0, 0, 0]
    assert made.requeues[then.key] <= MOMENT_S

    federation.turn(then, API)

    assert [federation.copies(ask) for ask in (web, then, API)] == [0, 15, 5]


def test_what_is_given_in_a_cycle_makes_nobody_lose_what_runs_of_its_guarantee() -> None:
    """batch is given a copy that its account borrows; in the same cycle page asks for what is
    guaranteed to another account."""
    reclaims = Preemption(reclaim=Take.ANY)
    accounts = (
        account("studio", 6, ordering=Ordering.PRIORITY),
        account("north", 3, parent="studio"),
        account("south", 3, parent="studio", preemption=reclaims),
    )
    urgent = service(2, name="urgent", project="north", priority=100)
    batch = service(1, name="batch", project="north")
    squad = service(2, name="squad", project="south", created_s=1.0)
    page = service(1, name="page", project="south", created_s=2.0)
    federation = Federation(urgent, batch, squad, page, snapshot=replace(ROOMY, quotas=accounts))
    federation.turn(urgent, batch)
    batch = replace(batch, count=2, slots=2)
    federation.asks[batch.key] = batch

    made = federation.turn(squad, batch, page)

    assert [federation.copies(ask) for ask in (urgent, batch, squad, page)] == [2, 2, 2, 0]
    assert made.requeues[page.key] == MOMENT_S
    federation.turn(page)
    federation.turn(page)
    assert [federation.copies(ask) for ask in (urgent, batch, squad, page)] == [2, 1, 2, 1]


def test_who_finds_its_guarantee_taken_in_this_very_cycle_is_looked_at_in_a_moment() -> None:
    accounts = (replace(ACCOUNTS[0], ordering=Ordering.PRIORITY), *ACCOUNTS[1:])
    web = replace(WEB, priority=100)
    federation = Federation(web, API, snapshot=replace(ROOMY, quotas=accounts))
    made = federation.turn(web, API)
    assert [federation.copies(ask) for ask in (web, API)] == [20, 0]
    assert made.requeues[API.key] == MOMENT_S
    federation.turn(API)
    federation.turn(API)
    assert [federation.copies(ask) for ask in (web, API)] == [15, 5]


def test_nobody_leaves_a_second_time_for_a_claim() -> None:
    federation = Federation(WEB, API, TILES)
    federation.turn(WEB)
    federation.turn(API)
    assert [decided.key for decided in federation.turn(TILES).decided] == [TILES.key]
    assert federation.copies(WEB) == 15


def test_a_claim_ends_with_its_workload_and_with_its_next_turn() -> None:
    federation = Federation(WEB, API)
    federation.turn(WEB)
    federation.turn(API)
    assert set(federation.queue.claims) == {API.key}
    assert federation.queue.forget(API.key) == (Hint(HintKind.QUOTA),)
    federation.turn(WEB)
    assert federation.copies(WEB) == 20

    federation.turn(API)
    assert set(federation.queue.claims) == {API.key}
    federation.turn(API)
    assert not federation.queue.claims
    assert federation.copies(API) == 5


# -- room --------------------------------------------------------------------------------------


def room_accounts(room: TakesRoom, **guaranteed: int) -> tuple[QuotaAccount, ...]:
    """api is guaranteed 8 cpus in tier Reserved; bulk, and what is named, in tier OnDemand."""
    mine = {Tier.RESERVED: TierQuota(Resources({"cpu": 8_000}))}
    winner = QuotaAccount(
        "api",
        projects=frozenset({"api"}),
        tiers=mine,
        generation=1,
        preemption=Preemption(room=room),
    )
    tiers = {
        name: {
            Tier.ON_DEMAND: TierQuota(Resources({"cpu": cpus * 1000}), Resources({"cpu": 99_000}))
        }
        for name, cpus in guaranteed.items()
    }
    others = QuotaAccount("others", projects=frozenset({"idle", "small"}), generation=1)
    return (
        winner,
        others,
        *(
            QuotaAccount(name, projects=frozenset({name}), tiers=of, generation=1)
            for name, of in tiers.items()
        ),
    )


WIDE = service(
    1,
    name="wide",
    project="api",
    tier=Tier.RESERVED,
    shape=PodShape(Resources({"cpu": 4000, "pods": 1})),
)
IDLE = service(8, name="idle", project="idle", tier=Tier.PREEMPTIBLE)
SMALL = service(1, name="small", project="small")


class Crowd(Federation):
    """One cluster of 8 cpus, and what its member says of them."""

    def __init__(self, *asks: Ask, quotas: tuple[QuotaAccount, ...]) -> None:
        super().__init__(*asks, snapshot=fleet(cluster("a", 8), quotas=quotas))

    def see(self, free: int, now_s: float) -> None:
        """A report that includes all decisions so far, with so many cpus free."""
        has, left = (Resources({"cpu": 1000 * cpus, "pods": 10_000}) for cpus in (8, free))
        for charged in list(self.commitments):
            self.commitments.confirm("a", charged.uid, 1 << 40)
        self.commitments.reported("a", 1 << 40)
        capacity = Capacity(rows=(NodeRow(1, has, left),), includes_seq=1 << 40)
        view = replace(self.snapshot.clusters["a"], capacity=capacity)
        self.snapshot = replace(self.snapshot, clusters={"a": view}, as_of=now_s)


def crowd() -> Crowd:
    """idle fills the cluster, and four of its copies have just left for wide."""
    made = Crowd(IDLE, WIDE, SMALL, quotas=room_accounts(TakesRoom.PREEMPTIBLE))
    made.turn(IDLE)
    made.see(0, 1_001.0)
    made.turn(WIDE)
    assert (made.copies(IDLE), made.copies(WIDE)) == (4, 0)
    return made


@pytest.mark.parametrize("first", [IDLE, SMALL], ids=["who left", "who was never there"])
def test_room_that_others_left_is_not_taken_piece_by_piece(first: Ask) -> None:
    federation = crowd()
    federation.see(2, 1_010.0)

    (decided,) = federation.turn(first).decided

    assert federation.copies(first) == {IDLE.key: 4, SMALL.key: 0}[first.key]
    assert "in a others have left for what is before it" in decided.decision.message
    federation.see(4, 1_020.0)
    federation.turn(first, WIDE)
    assert (federation.copies(WIDE), federation.copies(IDLE)) == (1, 4)
    assert not federation.queue.room_claims, "it has what it claimed"


def test_beside_a_claim_room_is_anybody_s() -> None:
    federation = crowd()
    federation.see(5, 1_010.0)
    federation.turn(SMALL)
    assert federation.copies(SMALL) == 1


def test_a_claim_does_not_hold_against_a_higher_tier_nor_for_ever() -> None:
    federation = crowd()
    urgent = service(1, name="urgent", project="small", tier=Tier.RESERVED)
    federation.asks[urgent.key] = urgent
    federation.see(1, 1_010.0)
    federation.turn(urgent)
    assert federation.copies(urgent) == 0, "of the same tier"
    federation.see(1, 1_001.0 + WAITS_S)
    federation.turn(SMALL)
    assert federation.copies(SMALL) == 1, "it was waited for long enough"


def test_nobody_leaves_a_second_time_while_room_is_claimed() -> None:
    federation = crowd()
    federation.see(2, 1_010.0)
    made = federation.turn(WIDE)
    assert [decided.key for decided in made.decided] == [WIDE.key]
    assert federation.copies(IDLE) == 4
    assert set(federation.queue.room_claims) == {WIDE.key}


@pytest.mark.parametrize(
    "winner",
    [
        service(4, name="all", project="search", policy=Policy(require_all=True)),
        service(
            1,
            name="wide",
            project="search",
            shape=PodShape(Resources({"cpu": 4000, "pods": 1})),
        ),
    ],
    ids=["all or nothing", "a large copy"],
)
def test_who_left_does_not_have_it_back_while_the_winner_waits_for_room(winner: Ask) -> None:
    """The room of those who leave is seen free piece by piece, and too little of it is of no use to
    the winner: who left would take it, and leave again, for ever."""
    accounts = (
        account("studio", 8),
        account("clips", 4, parent="studio"),
        account("search", 4, parent="studio", preemption=Preemption(reclaim=Take.ANY)),
    )
    web = service(8, name="web", project="clips")
    federation = Crowd(web, winner, quotas=accounts)
    federation.turn(web)
    federation.see(0, 1_001.0)
    federation.turn(winner)
    assert federation.copies(web) == 4
    federation.turn(winner)

    for free, now_s in ((1, 1_005.0), (3, 1_010.0)):
        federation.see(free, now_s)
        federation.turn(web, winner)
        federation.turn(web)
        assert [federation.copies(ask) for ask in (web, winner)] == [4, 0]

    federation.see(4, 1_020.0)
    federation.turn(web, winner)
    assert [federation.copies(ask) for ask in (web, winner)] == [4, winner.count]


def test_what_others_left_is_kept_for_a_while_only() -> None:
    accounts = (
        account("studio", 8),
        account("clips", 4, parent="studio"),
        account("search", 4, parent="studio", preemption=Preemption(reclaim=Take.ANY)),
    )
    web = service(8, name="web", project="clips")
    squad = service(4, name="squad", project="search", policy=Policy(require_all=True))
    federation = Crowd(web, squad, quotas=accounts)
    federation.turn(web)
    federation.see(0, 1_001.0)
    federation.turn(squad)
    federation.see(3, 1_001.0 + WAITS_S)

    federation.turn(squad)
    federation.turn(web)

    assert [federation.copies(ask) for ask in (web, squad)] == [7, 0]


BULK = service(8, name="bulk", project="bulk")


@pytest.mark.parametrize(
    ("room", "guaranteed", "left"),
    [
        (TakesRoom.BORROWED, 4, 4),
        (TakesRoom.BORROWED, 5, 8),
        (TakesRoom.BORROWED, 0, 4),
        (TakesRoom.PREEMPTIBLE, 0, 8),
    ],
    ids=["what is borrowed", "what is guaranteed to others", "no guarantee", "not said"],
)
def test_a_guarantee_that_finds_no_room_gets_that_of_borrowers(
    room: TakesRoom, guaranteed: int, left: int
) -> None:
    """One copy of four cpus: those of tier OnDemand leave only beyond what is guaranteed to them,
    and where fewer than it needs may leave, nobody does."""
    federation = Crowd(BULK, WIDE, quotas=room_accounts(room, bulk=guaranteed))
    federation.turn(BULK)
    federation.see(0, 1_001.0)

    federation.turn(WIDE)

    assert federation.copies(BULK) == left
    if left < 8:
        federation.see(4, 1_010.0)
        federation.turn(BULK, WIDE)
        assert (federation.copies(WIDE), federation.copies(BULK)) == (1, 4)


def test_beyond_its_guarantee_it_takes_the_room_of_idle_work_only() -> None:
    many = replace(WIDE, count=3, slots=3)
    federation = Crowd(BULK, many, quotas=room_accounts(TakesRoom.BORROWED, bulk=0))
    federation.turn(BULK)
    federation.see(0, 1_001.0)
    federation.snapshot = replace(
        federation.snapshot,
        quotas=(
            replace(
                federation.snapshot.quotas[0],
                tiers={
                    Tier.RESERVED: TierQuota(Resources({"cpu": 4_000}), Resources({"cpu": 12_000}))
                },
            ),
            *federation.snapshot.quotas[1:],
        ),
    )
    federation.turn(many)
    assert federation.copies(BULK) == 4, "for the one copy that is guaranteed"


def test_who_has_just_been_scaled_down_does_not_leave_twice() -> None:
    """It holds 20 and asks for 17 by now: 5 leave for another, and 3 of them leave anyway."""
    fewer = replace(WEB, count=17, slots=17, generation=2)
    federation = Federation(WEB, API)
    federation.turn(WEB)
    federation.asks[WEB.key] = fewer

    federation.turn(API)

    assert federation.copies(WEB) == 15


NARROW = fleet(cluster("small", 1, nodes=3), cluster("large", 17), quotas=ACCOUNTS)
IN_SMALL = Policy(names=("small",))
TWO_CPUS = PodShape(requests=Resources({"cpu": 2000, "pods": 1}))
FROM_SEARCH = {"name": "api", "project": "search"}


@pytest.mark.parametrize(
    "api",
    [
        service(4, policy=Policy(names=("nowhere",)), **FROM_SEARCH),
        service(1, policy=IN_SMALL, shape=TWO_CPUS, **FROM_SEARCH),
        service(4, policy=replace(IN_SMALL, require_all=True), **FROM_SEARCH),
        jobs(4, 4, policy=replace(IN_SMALL, division=Division(max_clusters=1)), **FROM_SEARCH),
    ],
    ids=["no cluster admits it", "no node is so large", "no room for all", "not in one cluster"],
)
def test_nobody_leaves_for_one_that_could_not_begin_in_empty_clusters(api: Ask) -> None:
    """They would come back, and leave again, for ever."""
    federation = Federation(WEB, api, snapshot=NARROW)
    federation.turn(WEB)
    assert federation.copies(WEB) == 20

    for _ in range(3):
        federation.turn(api)
        assert federation.copies(WEB) == 20
        federation.turn(WEB)


def test_for_one_that_could_others_leave_although_its_cluster_is_full() -> None:
    api = service(3, policy=replace(IN_SMALL, require_all=True), **FROM_SEARCH)
    federation = Federation(WEB, api, snapshot=NARROW)
    federation.turn(WEB)
    federation.turn(api)
    assert federation.copies(WEB) == 17
