"""Where preemptors are nominated to begin, what repels them does not begin before them."""

from dataclasses import replace

from federator.model.ask import Ask, Tier
from federator.model.fleet import ClusterView
from tests.unit.placement.fleets import cluster
from tests.unit.placement.test_neighbours import away, near, under
from tests.unit.scheduling.quotaworlds import account
from tests.unit.scheduling.test_company import TAKES, Play, of_project


def _taken_back(*clusters: ClusterView) -> Play:
    """All that is guaranteed to a is taken by one copy of b. Of d's account much is free."""
    leaves = [account("a", "company", 1, preemption=TAKES), account("b", "company", 0)]
    others = replace(account("d", "", 5), projects=frozenset({"d"}))
    play = Play([*leaves, account("company", "", 1), others], clusters)
    play.run(of_project("b", "cache", 1, labels={"app": "cache"}))
    return play


def _cache(project: str, name: str, **more: object) -> Ask:
    """One that is to be near the others of its own group."""
    policy = under(near(app="cache"), **more)
    return of_project(project, name, 1, labels={"app": "cache"}, policy=policy)


def test_what_repels_a_preemptor_does_not_begin_where_that_is_to_begin() -> None:
    """The only copy near which it can begin leaves for it. Then it is the first of its group, and a
    workload that goes before it in the order has room in the same cluster."""
    play = _taken_back(cluster("x", 10))
    loud = of_project("d", "loud", 1, policy=under(away(app="cache")))
    made = play.run(loud, _cache("a", "caches"))

    assert play.copies == {"uid-cache": {}, "uid-loud": {}, "uid-caches": {}}
    why = {each.key.name: each.decision.message for each in made.decided}["loud"]
    assert "kept apart from PinterestService caches, which is to begin there" in why
    play.run()
    assert play.copies == {"uid-cache": {}, "uid-loud": {}, "uid-caches": {"x": 1}}


def test_what_repels_a_preemptor_begins_in_other_clusters() -> None:
    play = _taken_back(cluster("x", 10), cluster("y", 5))
    play.run(of_project("d", "loud", 1, policy=under(away(app="cache"))), _cache("a", "caches"))
    assert play.copies == {"uid-cache": {}, "uid-loud": {"y": 1}, "uid-caches": {}}
    play.run()
    assert play.copies == {"uid-cache": {}, "uid-loud": {"y": 1}, "uid-caches": {"x": 1}}


def test_work_of_a_higher_tier_begins_before_a_preemptor_that_it_repels() -> None:
    """As with the room that others leave for it."""
    play = _taken_back(cluster("x", 10))
    loud = of_project("d", "loud", 1, tier=Tier.RESERVED, policy=under(away(app="cache")))
    play.run(loud, _cache("a", "caches"))
    assert play.copies["uid-loud"] == {"x": 1}


def test_others_of_its_group_do_not_begin_apart_from_a_preemptor() -> None:
    """It would have to follow them to a cluster in which it cannot be."""
    play = _taken_back(cluster("x", 10), cluster("y", 5))
    other = _cache("d", "other", names=("y",))
    play.run(other, _cache("a", "caches", names=("x",)))
    assert play.copies == {"uid-cache": {}, "uid-other": {}, "uid-caches": {}}
    play.run()
    assert play.copies["uid-caches"] == {"x": 1}


def test_of_two_preemptors_that_repel_each_other_one_preempts() -> None:
    """Neither could begin if both had victims: each would be kept away by the other."""
    accounts = [account("company", "", 1), account("others", "", 1)]
    for name, parent in (("a", "company"), ("b", "company"), ("d", "others"), ("e", "others")):
        leaf = account(name, parent, int(name in "ad"), preemption=TAKES)
        accounts.append(replace(leaf, projects=frozenset({name})))
    play = Play(accounts, [cluster("x", 10)])
    play.run(of_project("b", "borrows", 1), of_project("e", "second", 1))
    calm = of_project("d", "calm", 1, policy=under(away(app="wild")))
    wild = of_project("a", "wild", 1, labels={"app": "wild"})
    made = play.run(calm, wild)

    assert len(made.decided) == 3
    play.run()
    play.run()
    assert [play.copies[uid] for uid in ("uid-calm", "uid-wild")] in (
        [{"x": 1}, {}],
        [{}, {"x": 1}],
    )


def test_a_preemptor_keeps_others_away_until_it_begins() -> None:
    """Its victim has left in an earlier cycle, and is not seen gone yet."""
    play = _taken_back(cluster("x", 10))
    play.run(_cache("a", "caches"))
    assert play.copies == {"uid-cache": {}, "uid-caches": {}}
    play.run_only(of_project("d", "loud", 1, policy=under(away(app="cache"))))
    assert play.copies["uid-loud"] == {}
