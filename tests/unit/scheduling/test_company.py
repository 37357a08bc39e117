"""Affinity between workloads together with preemption and with kept room: copies begin only in the
right company, and nobody leaves for a workload that may begin nowhere.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from federator.model.accounts import Preemption, QuotaAccount, Take, TakesRoom
from federator.model.ask import Ask, Tier
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.names import WorkloadKey
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle
from federator.scheduling.admission.following import Following
from federator.scheduling.admission.holders import Holder, Victim, Why
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from tests.examples import examples
from tests.unit.placement.company import company
from tests.unit.placement.fleets import cluster, counts, fleet, held, service
from tests.unit.placement.test_neighbours import away, near, under, with_peers
from tests.unit.scheduling import quotaworlds
from tests.unit.scheduling.quotaworlds import World, account, ask_of
from tests.unit.scheduling.test_failover_buffers import Held, commitments_of, view, work

TAKES = Preemption(reclaim=Take.ANY)
Copies = dict[str, dict[str, int]]
"""Uid -> cluster -> copies."""


class Play:
    """One cycle for each batch, with those that wait; workloads know each other."""

    def __init__(self, accounts: Sequence[QuotaAccount], clusters: Sequence[ClusterView]) -> None:
        self.snapshot = fleet(*clusters, quotas=accounts)
        self.asks: dict[WorkloadKey, Ask] = {}
        self.copies: Copies = {}
        self._queue, self._commitments = Queue(), Commitments()
        self._numbers = itertools.count(100)

    def entry(self, key: WorkloadKey) -> Entry:
        ask = self.asks[key]
        return Entry(ask=ask, standing=Standing(held=held(**self.copies.get(ask.uid, {}))))

    def run(self, *batch: Ask) -> Cycle:
        waiting = [ask for ask in self.asks.values() if ask.key in self._queue]
        return self.run_only(*waiting, *batch)

    def run_only(self, *batch: Ask) -> Cycle:
        self.asks |= {ask.key: ask for ask in batch}
        made = cycle.run(
            [self.entry(key) for key in dict.fromkeys(ask.key for ask in batch)],
            self._queue,
            with_peers(self.snapshot, self.asks.values()),
            self._commitments,
            seq=self._numbers.__next__,
            find=self.entry,
        )
        assert not made.failed, made.failed
        for decided in made.decided:
            self.copies[decided.decision.uid] = dict(counts(decided.decision))
            self._commitments.record(decided.after)
        self._queue.settle(
            made.keys, made.inadmissible, made.reservations, made.claims, made.room_claims
        )
        return made

    def allowed(self, ask: Ask, copies: Mapping[str, Mapping[str, int]]) -> dict[str, bool]:
        return company(ask, list(self.asks.values()), copies, self.snapshot.clusters)


def of_project(project: str, name: str, count: int, **more: object) -> Ask:
    asked = service(count, name=name, project=project, namespace="x", **more)  # type: ignore[arg-type]
    return replace(asked, created_s=float(len(name)))


def _accounts() -> list[QuotaAccount]:
    """4 cpus are guaranteed to a, 4 to b; each may borrow, and takes back what is its own."""
    leaves = [account(name, "company", 4, preemption=TAKES) for name in "ab"]
    return [*leaves, account("company", "", 8)]


def test_copies_leave_for_a_workload_that_follows_a_third_one() -> None:
    play = Play(_accounts(), [cluster("x", 10), cluster("y", 10)])
    cache = of_project("a", "cache", 1, labels={"app": "cache"}, policy=under(names=("y",)))
    play.run(cache)
    play.run(of_project("b", "borrows", 7, policy=under(names=("x",))))
    assert play.copies["uid-borrows"] == {"x": 7}

    made = play.run(of_project("a", "front", 3, policy=under(near(app="cache"))))

    assert {each.key.name for each in made.decided} == {"front", "borrows"}
    play.run()
    assert play.copies["uid-front"] == {"y": 3}
    assert play.copies["uid-borrows"] == {"x": 4}


@pytest.mark.parametrize("apart", [True, False], ids=["kept away", "let in"])
def test_nobody_leaves_for_a_workload_that_others_keep_away_everywhere(apart: bool) -> None:
    """Its quota is guaranteed to it, and taken by borrowed copies, which leave only if it can
    begin anywhere."""
    play = Play(_accounts(), [cluster("x", 10), cluster("y", 10)])
    for name in "xy":
        policy = under(names=(name,))
        play.run(of_project("a", f"loud-{name}", 1, labels={"app": "loud"}, policy=policy))
    play.run(of_project("b", "borrows", 6))

    terms = [away(app="loud")] if apart else []
    made = play.run(of_project("a", "shy", 2, policy=under(*terms)))

    assert {each.key.name for each in made.decided} == {"shy", *([] if apart else ["borrows"])}
    assert sum(play.copies["uid-borrows"].values()) == (6 if apart else 4)


def test_a_workload_that_the_preemptor_follows_leaves_last() -> None:
    """The newest borrowed copy would leave first; without it the preemptor could begin nowhere."""
    play = Play(_accounts(), [cluster("x", 10), cluster("y", 10)])
    play.run(of_project("b", "borrows", 7))
    play.run(of_project("b", "front", 1, labels={"app": "front"}))
    play.run(of_project("a", "follows", 2, policy=under(near(app="front"))))
    assert (sum(play.copies["uid-borrows"].values()), play.copies["uid-front"]) == (5, {"y": 1})

    play.run()
    assert play.copies["uid-follows"] == {"y": 2}


@pytest.mark.parametrize("whole", [True, False], ids=["as a whole", "copy by copy"])
def test_one_copy_stays_near_which_the_preemptor_can_begin(whole: bool) -> None:
    """The workload that it follows is the only one that has borrowed."""
    guaranteed = (("a", 4), ("b", 1))
    accounts = [account(name, "company", cpus, preemption=TAKES) for name, cpus in guaranteed]
    play = Play([*accounts, account("company", "", 5)], [cluster("x", 5), cluster("y", 20)])
    policy = replace(under(names=("x", "y")), require_all=whole)
    play.run(of_project("b", "front", 5, labels={"app": "front"}, policy=policy))
    assert play.copies["uid-front"] == {"x": 1, "y": 4}

    play.run(of_project("a", "follows", 4, policy=under(near(app="front"), names=("x",))))

    assert play.copies["uid-front"] == ({"x": 1, "y": 4} if whole else {"x": 1})
    play.run()
    assert play.copies["uid-follows"] == ({} if whole else {"x": 4})


def test_nobody_leaves_if_the_preemptor_would_follow_nothing_then() -> None:
    """All four copies that it follows have borrowed what is guaranteed to it."""
    guaranteed = (("a", 4), ("b", 0))
    accounts = [account(name, "company", cpus, preemption=TAKES) for name, cpus in guaranteed]
    play = Play([*accounts, account("company", "", 4)], [cluster("x", 10)])
    play.run(of_project("b", "front", 4, labels={"app": "front"}))
    made = play.run(
        replace(of_project("a", "follows", 4, policy=under(near(app="front"))), whole=True)
    )
    assert {each.key.name for each in made.decided} == {"follows"}
    assert play.copies == {"uid-front": {"x": 4}, "uid-follows": {}}


@pytest.mark.parametrize("whole", [True, False], ids=["as a whole", "copy by copy"])
def test_room_is_not_made_by_the_copies_that_the_preemptor_follows(whole: bool) -> None:
    """Its account takes room from work of tier Preemptible. The newer of the two leaves first, but
    for the one copy near which it can begin."""
    takes = Preemption(room=TakesRoom.PREEMPTIBLE)
    accounts = [account("a", "", 9, preemption=takes), account("b", "", 9)]
    play = Play(accounts, [cluster("x", 6), cluster("y", 6)])
    only_x, tier = under(names=("x",)), Tier.PREEMPTIBLE
    play.run(of_project("b", "batch", 3, tier=tier, policy=only_x))
    policy = replace(only_x, require_all=whole)
    play.run(of_project("b", "front", 3, tier=tier, labels={"app": "front"}, policy=policy))

    play.run(of_project("a", "follows", 3, policy=under(near(app="front"))))

    assert play.copies["uid-front"] == ({"x": 3} if whole else {"x": 1})
    assert play.copies["uid-batch"] == ({} if whole else {"x": 2})


def test_the_copy_that_stays_is_where_copies_are() -> None:
    """The preemptor can begin in y alone, where the workload that it follows holds none."""
    leaves = replace(work("front", Tier.PREEMPTIBLE, 6), priority=0)
    commitments = commitments_of([(leaves, held(x=4, y=0, z=2))])
    snapshot = fleet(cluster("x", 4), cluster("y", 20), cluster("z", 2))
    follows = work("follows", Tier.ON_DEMAND, 4, policy=under(names=("y",)))
    following = Following(follows, frozenset([leaves.uid]), commitments, commitments.open(snapshot))
    holder = Holder(leaves.uid, leaves.key, "", 0, 0.0, 1, {})
    [(_, there)] = following.whence([Victim(holder, 5, Why.RECLAIM)])

    assert there == {"x": 3, "z": 2}


APPS = ("cache", "front", "loud")


def victim_that_is_followed() -> tuple[World, dict[str, Ask]]:
    """w1 takes back what the newest of a borrowed, which is the only one that w1 may follow."""
    guaranteed = zip(quotaworlds.LEAVES, (0, 1, 4), strict=True)
    leaves = [account(name, "company", cpus, preemption=TAKES) for name, cpus in guaranteed]
    given = [
        (("a", 1), "cache", "front"),
        (("b", 1), "cache", "front"),
        (("a", 1), "loud", "cache"),
        (("a", 1), "cache", "loud"),
        (("a", 1), "front", "cache"),
        (("a", 5), "cache", "cache"),
    ]
    asks = [
        replace(ask_of(at, *wants), labels={"app": app}, policy=under(near(app=other)))
        for at, (wants, app, other) in enumerate(given)
    ]
    world = World((*leaves, account("company", "", 8)), (tuple(asks),))
    return world, {ask.uid: ask for ask in asks}


def victims_that_two_follow() -> tuple[World, dict[str, Ask]]:
    """Two take back what is guaranteed to them, and may begin only near one of both victims."""
    guaranteed = zip(quotaworlds.LEAVES, (0, 0, 2), strict=True)
    leaves = [account(name, "company", cpus, preemption=TAKES) for name, cpus in guaranteed]
    asks = [
        replace(ask_of(at, project, 1), labels={"app": app}, policy=under(near(app="cache")))
        for at, (project, app) in enumerate(
            (("c", "front"), ("c", "front"), ("a", "cache"), ("a", "cache"))
        )
    ]
    world = World((*leaves, account("company", "", 2)), (tuple(asks),))
    return world, {ask.uid: ask for ask in asks}


@st.composite
def companies(draw: st.DrawFn) -> tuple[World, dict[str, Ask]]:
    """A world of quotas in which workloads have labels, and terms about each other."""
    world: World = draw(quotaworlds.worlds(reclaim=st.just(Take.ANY)))
    asks = {}
    for ask in itertools.chain.from_iterable(world.batches):
        make = draw(st.sampled_from((near, away, None)))
        key = draw(st.sampled_from(("", "zone")))
        terms = () if make is None else (make(key, app=draw(st.sampled_from(APPS))),)
        own = {"app": draw(st.sampled_from(APPS))}
        policy = replace(ask.policy, name="near", origin="match", workloads=terms)
        asks[ask.uid] = replace(ask, labels=own, policy=policy)
    return world, asks


@example(victim_that_is_followed(), 3)
@example(victims_that_two_follow(), 2)
@examples(60)
@given(companies(), st.integers(2, 6))
def test_copies_begin_in_the_right_company_while_quotas_are_taken_back(
    given_: tuple[World, dict[str, Ask]], cpus: int
) -> None:
    world, asks = given_
    clusters = [
        cluster(name, cpus, labels={"zone": f"z{at // 2}"}) for at, name in enumerate("xyz")
    ]
    play = Play(world.accounts, clusters)
    for batch in [*world.batches, (), ()]:
        before = {uid: dict(copies) for uid, copies in play.copies.items()}
        made = play.run(*(asks[ask.uid] for ask in batch))
        # whoever leaves is gone before others begin
        order = sorted(made.decided, key=lambda each: each.beneficiary == each.key)
        for decided in order:
            now = dict(counts(decided.decision))
            allowed = play.allowed(decided.entry.ask, before)
            mine = before.get(decided.decision.uid, {})
            for name, copies in now.items():
                if copies > mine.get(name, 0):
                    assert allowed[name], (name, decided.entry.ask)
            before[decided.decision.uid] = now
        for decided in order:
            if decided.beneficiary != decided.key:
                winner = play.asks[decided.beneficiary]
                held_ = play.copies.get(winner.uid, {})
                assert any(play.allowed(winner, play.copies).values()) or any(held_.values())


def test_room_that_is_kept_for_what_is_lost_is_given_in_the_right_company() -> None:
    """Two clusters keep room; the one where another workload repels it gives none of it."""
    api = work("api", Tier.RESERVED, 3, policy=under(away(app="loud")))
    loud = work("loud", Tier.ON_DEMAND, 1, labels={"app": "loud"})
    works: list[Held] = [
        (api, held(a=3)),
        (loud, held(b=1)),
        (work("ordinary", Tier.ON_DEMAND, 5), held(b=5)),
        (work("others", Tier.ON_DEMAND, 6), held(c=6)),
    ]
    gone = view("a", works, dead=True, ready=False)
    kept = [view(name, works, buffer_permille=400) for name in "bc"]
    snapshot = with_peers(fleet(gone, *kept), [ask for ask, _ in works])

    made = cycle.run(
        [Entry(ask=api, standing=Standing(held=held(a=3)))],
        Queue(),
        snapshot,
        commitments_of(works),
        seq=itertools.count(10).__next__,
        find={ask.key: Entry(ask=ask, standing=Standing(held=mine)) for ask, mine in works}.get,
    )

    assert not made.failed
    assert counts(made.decided[0].decision) == {"c": 3}


def test_lent_room_is_not_taken_back_where_others_keep_the_workload_away() -> None:
    api = work("api", Tier.RESERVED, 3, policy=under(away(app="loud")))
    loud = work("loud", Tier.ON_DEMAND, 6, labels={"app": "loud"})
    lent = work("batch", Tier.PREEMPTIBLE, 4)
    works: list[Held] = [(api, held(a=3)), (loud, held(b=6)), (lent, held(b=4))]
    gone = view("a", works, dead=True, ready=False)
    snapshot = fleet(gone, view("b", works, buffer_permille=400))

    def decided(snapshot: FleetSnapshot) -> set[str]:
        made = cycle.run(
            [Entry(ask=api, standing=Standing(held=held(a=3)))],
            Queue(),
            snapshot,
            commitments_of(works),
            seq=itertools.count(10).__next__,
            find={ask.key: Entry(ask=ask, standing=Standing(held=mine)) for ask, mine in works}.get,
        )
        return {each.key.name for each in made.decided}

    others = [replace(ask, labels={}) for ask, _ in works]
    assert decided(with_peers(snapshot, others)) == {"api", "batch"}
    assert decided(with_peers(snapshot, [ask for ask, _ in works])) == {"api"}
