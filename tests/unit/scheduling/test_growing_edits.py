"""An edit that asks for more of what runs makes others leave as a new workload of its account would
that asks for as much."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from federator.model.accounts import Preemption, Take
from federator.model.ask import Admitted, Ask, PodShape
from federator.model.decision import TAKES, Decision, Reason
from federator.model.fleet import Capacity, FleetSnapshot, NodeRow
from federator.model.names import WorkloadKey
from federator.model.policy import Policy
from federator.model.resources import Resources
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry
from federator.scheduling.queueing_hints import Hint, HintKind, may_help
from federator.scheduling.waiting.room_claims import WAITS_S
from tests.examples import examples
from tests.unit.placement.fleets import cluster, commitment, fleet, held, service
from tests.unit.scheduling.test_claims import ACCOUNTS, ROOMY, Federation, account

WEB = service(20, name="web", project="clips")
API = service(2, name="api", project="search", created_s=5.0)


def sized(ask: Ask, cpu: int, **more: object) -> Ask:
    """The next generation, each copy of which asks for so many thousandths of a cpu."""
    shape = PodShape(Resources({"cpu": cpu, "pods": 1}))
    return replace(ask, shape=shape, generation=ask.generation + 1, **more)  # type: ignore[arg-type]


class Editing(Federation):
    """Knows what was admitted of each workload."""

    def __init__(self, *asks: Ask, snapshot: FleetSnapshot = ROOMY) -> None:
        super().__init__(*asks, snapshot=snapshot)
        self.admitted: dict[WorkloadKey, Ask] = {}

    def entry(self, key: WorkloadKey) -> Entry:
        found, under = super().entry(key), self.admitted.get(key)
        if under is None:
            return found
        charged = (under.shape, under.project, under.tier, under.priority, under.slots)
        standing = replace(found.standing, admitted=Admitted(under.generation, *charged))
        return replace(found, standing=standing)

    def turn(self, *due: Ask) -> Cycle:
        made = super().turn(*due)
        for decided in made.decided:
            if decided.after.copies and not decided.decision.held_back:
                self.admitted[decided.key] = decided.entry.ask
        return made

    def edit(self, ask: Ask) -> Decision:
        """What is decided on it at once."""
        self.asks[ask.key] = ask
        return self.decision(self.turn(ask), ask)

    @staticmethod
    def decision(made: Cycle, ask: Ask) -> Decision:
        (found,) = (decided.decision for decided in made.decided if decided.key == ask.key)
        return found

    def cpus(self, ask: Ask) -> int:
        """What it is charged, in thousandths."""
        holds = self.commitments.commitment(ask.uid)
        return holds.usage["cpu"] if holds is not None else 0


def lent(snapshot: FleetSnapshot = ROOMY, *, api: Ask = API) -> Editing:
    """search has 2 of the 5 cpus that it is guaranteed; clips has borrowed all the rest."""
    federation = Editing(WEB, api, snapshot=snapshot)
    federation.turn(api)
    federation.turn(WEB)
    assert [federation.cpus(ask) for ask in (WEB, api)] == [18_000, 2000]
    return federation


def test_for_an_edit_within_the_guarantee_just_as_much_leaves_and_both_sides_are_told() -> None:
    federation = lent()
    wish = sized(API, 2000)
    federation.asks[API.key] = wish
    made = federation.turn(wish)
    told, gone = federation.decision(made, API), federation.decision(made, WEB)

    assert federation.cpus(WEB) == 16_000
    assert federation.cpus(API) == 2000, "quota is taken when it is free"
    assert (told.reason, told.held_back) == (Reason.QUOTA_EXCEEDED, 2)
    assert f"FederatedQuota search{TAKES} for it from others: 1 workload leaves" in told.message
    assert "generation 1 stays in force" in told.message
    assert gone.reason is Reason.PREEMPTED
    assert "2 copies left for PinterestService/feed/api" in gone.message

    after = federation.decision(federation.turn(wish), API)
    assert (after.reason, after.held_back) == (Reason.CHOSEN, 0)
    assert federation.cpus(API) == 4000
    federation.turn(WEB)
    assert federation.cpus(WEB) == 16_000


def test_an_edit_that_asks_for_more_copies_makes_others_leave_in_its_own_cycle() -> None:
    """Nor do those who are due with it take what is guaranteed to it, whatever their names."""
    federation = lent()
    more, other = (
        replace(API, count=5, slots=5, generation=2),
        service(20, project="maps", name="a"),
    )
    federation.asks |= {more.key: more, other.key: other}

    told = federation.decision(federation.turn(other, more), more)

    assert f"FederatedQuota search{TAKES} for it from others: 1 workload leaves" in told.message
    assert federation.cpus(WEB) == 15_000
    federation.turn(other, more)
    assert federation.cpus(more) == 5000


@pytest.mark.parametrize("cpu", [3000, 9000])
def test_for_what_is_beyond_the_guarantee_nobody_leaves(cpu: int) -> None:
    federation = lent()
    told = federation.edit(sized(API, cpu))
    assert federation.cpus(WEB) == 18_000
    assert TAKES not in told.message
    assert "generation 1 stays in force" in told.message


def test_nobody_leaves_where_the_account_does_not_say_so() -> None:
    quotas = tuple(
        replace(one, preemption=Preemption()) if one.name == "search" else one for one in ACCOUNTS
    )
    # A tree is judged as a whole where one account of it takes back.
    quotas = (*quotas, account("other", 0, parent="studio", preemption=Preemption(Take.ANY)))
    federation = lent(replace(ROOMY, quotas=quotas))
    federation.edit(sized(API, 2000))
    assert federation.cpus(WEB) == 18_000


def test_who_left_does_not_have_it_back_though_it_is_due_first() -> None:
    federation = lent()
    wish = sized(API, 2000)
    federation.edit(wish)
    federation.turn(WEB)
    assert federation.cpus(WEB) == 16_000
    assert federation.decision(federation.turn(wish, WEB), API).held_back == 0
    assert [federation.cpus(ask) for ask in (WEB, API)] == [16_000, 4000]


def test_its_own_copies_do_not_leave_for_its_own_edit() -> None:
    """It is of a higher priority after the edit, and its account lets that take from lower ones."""
    rules = Preemption(reclaim=Take.NEVER, within=Take.LOWER_PRIORITY)
    quotas = tuple(
        replace(one, preemption=rules) if one.name == "search" else one for one in ACCOUNTS
    )
    federation = lent(replace(ROOMY, quotas=quotas))
    told = federation.edit(sized(API, 2000, priority=9))
    assert [federation.cpus(ask) for ask in (WEB, API)] == [18_000, 2000]
    assert TAKES not in told.message


def test_what_leaves_does_so_where_the_edited_copies_run() -> None:
    a, b = cluster("a", 10), cluster("b", 10)
    only_a = replace(API, policy=Policy(names=("a",)))
    federation = lent(fleet(a, b, quotas=ACCOUNTS), api=only_a)
    before = federation.commitments.commitment(WEB.uid)
    federation.edit(sized(only_a, 2000))
    after = federation.commitments.commitment(WEB.uid)
    assert before is not None
    assert after is not None
    there = [{one.cluster: one.count for one in held.holdings} for held in (before, after)]
    assert there[1] == there[0] | {"a": there[0]["a"] - 2}


def test_what_leaves_does_so_where_each_of_the_edited_copies_lacks_room() -> None:
    """One copy lacks a cpu in a, where most of what may leave is, and three lack one in b."""
    web, api = replace(WEB, count=14, slots=14), replace(API, count=4, slots=4)
    search = account("search", 8, parent="studio", preemption=Preemption(reclaim=Take.ANY))
    quotas = (account("studio", 18), ACCOUNTS[1], search)
    roomy = fleet(cluster("a", 30), cluster("b", 30), quotas=quotas)
    federation = Editing(web, api, snapshot=roomy)
    for ask, there in ((api, held(a=1, b=3)), (web, held(a=10, b=4))):
        federation.commitments.assume(replace(commitment(ask, there), whole=False))
        federation.admitted[ask.key] = ask
    room = Resources({"cpu": 30_000, "pods": 100})
    full = Capacity(rows=(NodeRow(1, room, Resources({"pods": 50})),))
    both = (cluster("a", 0, capacity=full), cluster("b", 0, capacity=full))
    federation.snapshot = fleet(*both, quotas=quotas)
    federation.edit(sized(api, 2000))
    holds = federation.commitments.commitment(web.uid)
    assert holds is not None
    assert {one.cluster: one.count for one in holds.holdings} == {"a": 9, "b": 1}


@pytest.mark.parametrize("whole", [False, True])
def test_who_leaves_is_who_makes_room_for_it_though_others_are_before_them(whole: bool) -> None:
    """Its copies run in a, and what was admitted last is in b."""
    old, new = (service(9, name=name, project="clips") for name in ("old", "new"))
    quotas = tuple(replace(one, strict=False) for one in ACCOUNTS)
    room = Resources({"cpu": 30_000, "pods": 100})
    capacity = Capacity(rows=(NodeRow(1, room, Resources({"pods": 50})),))
    both = (cluster("a", 0, capacity=capacity), cluster("b", 0, capacity=capacity))
    federation = Editing(old, new, API, snapshot=fleet(*both, quotas=quotas))
    for ask, there in ((API, held(a=2)), (old, held(a=9)), (new, held(b=9))):
        holds = commitment(ask, (replace(one, seq=5 if ask is new else 1) for one in there))
        federation.commitments.assume(replace(holds, whole=whole and ask is old))
        federation.admitted[ask.key] = ask

    told = federation.edit(sized(API, 2000))

    assert f"FederatedQuota search{TAKES} for it from others: 1 workload leaves" in told.message
    assert federation.cpus(new) == 9000
    assert federation.cpus(old) == (0 if whole else 7000)


def test_nobody_leaves_where_that_makes_no_room_for_it() -> None:
    """Its copies run in a, which has no room, and who borrows is in b. It is looked at again when
    there is room in a."""
    a, b = cluster("a", 2), cluster("b", 30)
    api = replace(API, policy=Policy(names=("a",)))
    web = replace(WEB, policy=Policy(names=("b",)))
    federation = Editing(web, api, snapshot=fleet(a, b, quotas=ACCOUNTS))
    federation.turn(api)
    federation.turn(web)
    full = cluster("a", 0)
    federation.snapshot = fleet(full, b, quotas=ACCOUNTS)
    wish = sized(api, 2000)
    federation.asks[api.key] = wish
    made = federation.turn(wish)
    assert federation.cpus(web) == 18_000
    waits = made.inadmissible[api.key]
    hints = Hint(HintKind.ROOM, "a"), Hint(HintKind.ROOM, "b"), Hint(HintKind.QUOTA)
    assert [may_help(hint, waits) for hint in hints] == [True, False, True]


def test_what_left_is_kept_for_it_until_its_room_is_seen_free_but_not_for_ever() -> None:
    federation = lent()
    wish = sized(API, 2000)
    federation.edit(wish)
    roomy = federation.snapshot
    # What the others leave is not free yet: their pods run on.
    federation.snapshot = replace(fleet(cluster("a", 0), quotas=ACCOUNTS), as_of=roomy.as_of + 5)
    waits = federation.decision(federation.turn(wish), API)
    assert (waits.reason, waits.held_back) == (Reason.INSUFFICIENT_CAPACITY, 2)
    federation.snapshot = replace(roomy, as_of=roomy.as_of + 6)
    federation.turn(WEB)
    assert federation.cpus(WEB) == 16_000, "it is kept from who left"

    federation.snapshot = replace(
        fleet(cluster("a", 0), quotas=ACCOUNTS), as_of=roomy.as_of + WAITS_S + 7
    )
    federation.turn(wish)
    federation.snapshot = replace(roomy, as_of=roomy.as_of + WAITS_S + 8)
    federation.turn(WEB)
    assert federation.cpus(WEB) == 18_000, "nobody waits for what finds no room"


@pytest.mark.parametrize("together", [True, False], ids=["in one cycle", "one after the other"])
def test_room_of_larger_pods_is_given_to_nobody_else_before_a_report_includes_them(
    *, together: bool
) -> None:
    """a has 10 cpus and reports 8 of them free, beside the 2 of api, which asks for 8 now."""
    rows = (
        NodeRow(1, Resources({"cpu": 10_000, "pods": 99}), Resources({"cpu": 8000, "pods": 97})),
    )
    snapshot = fleet(cluster("a", 10, capacity=Capacity(rows=rows, includes_seq=1)))
    api, web = service(2, name="api", priority=9), service(8, name="web")
    federation = Editing(api, web, snapshot=snapshot)
    federation.commitments.assume(commitment(api, held(a=2)))
    federation.commitments.confirm("a", api.uid, 1)
    federation.commitments.reported("a", 1)
    federation.admitted[api.key] = api
    wish = sized(api, 4000)
    federation.asks[api.key] = wish

    for due in ((wish, web),) if together else ((wish,), (web,)):
        federation.turn(*due)

    assert federation.cpus(wish) == 8000
    assert federation.cpus(web) <= 2000


@examples(300)
@given(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)),
    st.lists(
        st.tuples(
            st.sampled_from(("clips", "maps", "search")), st.integers(1, 9), st.integers(-1, 1)
        ),
        max_size=5,
    ),
    st.tuples(st.integers(1, 3), st.integers(2, 4)),
    st.tuples(st.sampled_from(Take), st.sampled_from((Take.NEVER, Take.LOWER_PRIORITY))),
)
def test_the_same_leaves_for_an_edit_as_for_a_new_workload_that_asks_for_as_much(
    guarantees: tuple[int, int, int],
    holders: list[tuple[str, int, int]],
    grows: tuple[int, int],
    takes: tuple[Take, Take],
) -> None:
    (copies, more), (reclaim, while_borrowing) = grows, takes
    rules = Preemption(reclaim=reclaim, within=Take.LOWER_PRIORITY, while_borrowing=while_borrowing)
    accounts = [account("studio", sum(guarantees) + 2)]
    for name, cpus in zip(("clips", "maps", "search"), guarantees, strict=True):
        accounts.append(account(name, cpus, parent="studio", preemption=rules))
    snapshot = fleet(cluster("a", 500), quotas=tuple(accounts))
    others = [
        service(count, name=f"w{at}", project=project, priority=priority, created_s=float(at))
        for at, (project, count, priority) in enumerate(holders)
    ]
    api = service(copies, name="api", project="search", created_s=50.0)

    def placed(*extra: Ask) -> Editing:
        federation = Editing(api, *others, *extra, snapshot=snapshot)
        federation.turn(api)
        for other in others:
            federation.turn(other)
        return federation

    cpu = 1000 * copies * (more - 1)
    new = sized(service(1, name="new", project="search", created_s=50.0), cpu)
    edited, compared = placed(), placed(new)
    assume(edited.copies(api) == copies)
    wish = sized(api, 1000 * more)
    edited.asks[api.key] = wish
    for _ in range(2):
        left = edited.decision(edited.turn(wish), api)
        fresh = compared.decision(compared.turn(new), new)
        assert [edited.copies(one) for one in others] == [compared.copies(one) for one in others]
        assert edited.copies(api) == compared.copies(api) == copies
        assert bool(left.held_back) == bool(fresh.shortfall)
        assert (TAKES in left.message) == (TAKES in fresh.message)


def test_a_winner_that_has_even_less_room_than_quota_says_that_others_leave_for_it() -> None:
    """It has to go from a and finds no place; further copies of it lack quota as well."""
    full = NodeRow(1, Resources({"cpu": 17_000, "pods": 100}), Resources({"pods": 83}))
    views = cluster("a", 100, draining=True), cluster("b", 0, capacity=Capacity(rows=(full,)))
    web, api = replace(WEB, count=17, slots=17), replace(API, count=5, slots=5)
    federation = Editing(web, api, snapshot=fleet(*views, quotas=ACCOUNTS))
    for ask, there in ((api, held(a=3)), (web, held(b=17))):
        federation.commitments.assume(replace(commitment(ask, there), whole=False))

    told = federation.edit(api)

    assert federation.cpus(web) == 15_000
    assert told.reason is Reason.INSUFFICIENT_CAPACITY
    assert "3 stay where they run" in told.message
    assert f"FederatedQuota search{TAKES} for it from others: 1 workload leaves" in told.message
