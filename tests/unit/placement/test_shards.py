"""Job sets: slots by capacity, shards by slots, ranges that stay, and finished shards that never
move.
"""

import dataclasses

from federator.model import shards
from federator.model.decision import Decision, Reason
from federator.model.fleet import FleetSnapshot, Holding, copies_of
from federator.model.policy import Policy
from tests.unit.placement.fleets import cluster, decide, fleet, holdings, jobs


def split(decision: Decision) -> dict[str, tuple[str, int]]:
    return {share.cluster: (shards.text(share.ranges), share.slots) for share in decision.shares}


def two(a: int = 30, b: int = 10, **more: bool) -> FleetSnapshot:
    return fleet(cluster("a", a, **more), cluster("b", b))


def test_slots_follow_room_and_shards_follow_slots_in_one_range_each() -> None:
    assert split(decide(jobs(100, 20), two())) == {"a": ("0-74", 15), "b": ("75-99", 5)}


def test_any_slot_at_all_means_that_every_shard_is_assigned() -> None:
    decision = decide(jobs(100, 20), two(a=3, b=1))
    assert split(decision) == {"a": ("0-74", 3), "b": ("75-99", 1)}
    assert (decision.shortfall, decision.reason) == (0, Reason.INSUFFICIENT_CAPACITY)
    assert "4 of 20 slots are placed" in decision.message


def test_without_any_slot_every_shard_is_missing() -> None:
    decision = decide(jobs(100, 20), two(a=0, b=0))
    assert (split(decision), decision.shortfall, decision.reason) == (
        {},
        100,
        Reason.INSUFFICIENT_CAPACITY,
    )


def test_a_cordoned_cluster_works_through_its_own_shards_while_another_is_open() -> None:
    first = decide(jobs(100, 20), two(a=10, b=10), seq=3)
    cordoned = fleet(cluster("a", 20, cordoned=True), cluster("b", 20))
    then = decide(jobs(160, 40), cordoned, holdings(first.shares), seq=9)
    assert split(then) == {"a": ("0-49", 10), "b": ("50-159", 20)}


def test_shards_that_only_a_cordoned_cluster_has_slots_for_run_there() -> None:
    first = decide(jobs(100, 20), two(a=10, b=10), seq=3)
    alone = fleet(cluster("a", 20, cordoned=True))
    then = decide(jobs(100, 20), alone, holdings(first.shares), seq=9)
    assert split(then) == {"a": ("0-99", 10)}


def test_a_cordoned_cluster_that_has_done_its_shards_is_no_place_for_others_and_says_why() -> None:
    first = decide(jobs(13, 6), two(a=10, b=10), seq=3)
    (a, _, _), (b, _, _) = ((one.cluster, one.ranges, one.slots) for one in first.shares)
    mine = next(one for one in first.shares if one.cluster == a)
    cordoned = fleet(cluster(a, 20, cordoned=True), cluster(b, 20, cordoned=True))
    then = decide(jobs(13, 6), cordoned, holdings([mine]), seq=9, finished=mine.ranges)
    assert (then.shares, then.reason) == ((mine,), Reason.CORDONED)
    assert "0 of 6 slots are placed, 6 are missing: cluster a is cordoned" in then.message
    assert [one.reason for one in then.verdicts] == [Reason.CORDONED, Reason.CORDONED]
    assert then.verdicts[0].message == "cluster a is cordoned (spec.cordoned)"


def test_shards_wait_in_a_cluster_that_is_not_heard_rather_than_go_to_a_cordoned_one() -> None:
    first = decide(jobs(12, 6), two(a=10, b=10), seq=3)
    parts = {share.cluster: shards.text(share.ranges) for share in first.shares}
    assert parts == {"a": "0-5", "b": "6-11"}
    unheard = cluster("b", 20, ready=False, unready_reason="it has not been asked for 49 s")
    beside = fleet(cluster("a", 20, cordoned=True), unheard)
    then = decide(jobs(14, 6), beside, holdings(first.shares), seq=9)
    assert split(then) == {"a": ("0-5", 3), "b": ("6-13", 3)}
    both = fleet(cluster("a", 20, cordoned=True), dataclasses.replace(unheard, cordoned=True))
    last = decide(jobs(14, 6), both, holdings(first.shares), seq=9)
    assert split(last) == {"a": ("0-5,12", 3), "b": ("6-11,13", 3)}, (
        "everybody is closed: each works on"
    )


def test_asking_again_moves_nothing() -> None:
    snapshot = two()
    first = decide(jobs(100, 20), snapshot, seq=3)
    again = decide(jobs(100, 20), snapshot, holdings(first.shares), seq=9)
    assert again.shares == first.shares
    assert again.seq == 3


def test_a_lost_cluster_gives_only_its_unfinished_shards_to_the_others() -> None:
    first = decide(jobs(100, 20), two())
    gone = fleet(cluster("a", 30, removing=True), cluster("b", 10), cluster("c", 40))
    done = ((0, 9), (80, 84))
    after = decide(jobs(100, 20), gone, holdings(first.shares), finished=done)
    shares = {share.cluster: share.ranges for share in after.shares}
    assert set(shares) == {"b", "c"}
    assert shards.minus(((75, 99),), shares["b"]) == ()
    assert shards.intersect(shares["c"], ((0, 9),)) == ()
    assert shards.union(shares["b"], shares["c"]) == ((10, 99),)
    assert after.wanted == 90
    assert after.shortfall == 0


def test_finished_shards_stay_in_the_share_of_the_cluster_that_ran_them() -> None:
    snapshot = two()
    first = decide(jobs(100, 20), snapshot)
    after = decide(jobs(100, 20), snapshot, holdings(first.shares), finished=((0, 30), (90, 99)))
    assert split(after) == split(first)


def test_a_drained_cluster_hands_its_slots_to_those_that_have_shards_left() -> None:
    snapshot = fleet(cluster("a", 30), cluster("b", 30))
    first = decide(jobs(40, 10), snapshot)
    assert split(first) == {"a": ("0-19", 5), "b": ("20-39", 5)}
    after = decide(jobs(40, 10), snapshot, holdings(first.shares), finished=((0, 19),), seq=200)
    assert split(after)["b"] == ("20-39", 10)
    running = [
        copies_of(one)
        for one in holdings(after.shares)
        if shards.size(shards.minus(one.ranges, ((0, 19),)))
    ]
    assert sum(running) == 10


def test_a_drained_share_keeps_its_seq_so_that_nothing_is_written_for_it() -> None:
    snapshot = fleet(cluster("a", 30), cluster("b", 30))
    first = decide(jobs(40, 10), snapshot, seq=3)
    after = decide(jobs(40, 10), snapshot, holdings(first.shares), finished=((0, 17),), seq=9)
    assert {share.cluster: share.seq for share in after.shares} == {"a": 3, "b": 9}


def test_more_shards_are_appended_and_fewer_are_cut() -> None:
    snapshot = two()
    first = decide(jobs(100, 20), snapshot)
    more = decide(jobs(120, 20), snapshot, holdings(first.shares))
    by_cluster = {share.cluster: share.ranges for share in more.shares}
    assert all(not shards.minus(share.ranges, by_cluster[share.cluster]) for share in first.shares)
    assert shards.size([one for ranges in by_cluster.values() for one in ranges]) == 120
    fewer = decide(jobs(80, 20), snapshot, holdings(first.shares))
    assert {share.cluster: shards.text(share.ranges) for share in fewer.shares} == {
        "a": "0-74",
        "b": "75-79",
    }


def test_everything_finished_asks_for_no_slots() -> None:
    snapshot = two()
    first = decide(jobs(100, 20), snapshot)
    done = decide(jobs(100, 20), snapshot, holdings(first.shares), finished=((0, 99),))
    assert {share.cluster: shards.text(share.ranges) for share in done.shares} == {
        "a": "0-74",
        "b": "75-99",
    }
    assert (done.shortfall, done.reason) == (0, Reason.CHOSEN)


def test_a_gang_runs_all_slots_or_none() -> None:
    whole = Policy(require_all=True)
    refused = decide(jobs(100, 50, policy=whole), two())
    assert (split(refused), refused.shortfall, refused.reason) == (
        {},
        100,
        Reason.INSUFFICIENT_CAPACITY,
    )
    assert sum(share.slots for share in decide(jobs(100, 40, policy=whole), two()).shares) == 40


def test_a_suspended_job_set_has_no_shares() -> None:
    first = decide(jobs(100, 20), two())
    suspended = decide(
        jobs(100, 20, suspended=True), two(), holdings(first.shares), finished=((0, 4),)
    )
    assert (suspended.shares, suspended.reason) == ((), Reason.SUSPENDED)
    assert suspended.wanted == suspended.shortfall == 95


def test_a_job_set_that_shrinks_keeps_what_it_has_whatever_order_its_ranges_are_in() -> None:
    """Ranges of clusters do not rise with their names once shards have moved."""
    low, high = Holding("b", 5, 5, 3, ((0, 4),)), Holding("a", 5, 5, 3, ((5, 9),))
    for order in ((low, high), (high, low)):
        decision = decide(jobs(5, 5), two(a=10, b=0), order, seq=9)
        assert split(decision) == {"b": ("0-4", 5)}
