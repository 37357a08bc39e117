"""Rules that need a memory of their own can fail, and have something to judge: whose names are
whose, who answers.
"""

import asyncio
import dataclasses
import json
import math
import random
from collections import Counter
from typing import Any

import pytest

from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.embedded.server import EmbeddedCluster
from federator.kube.clock import Clock
from federator.kube.wire.transport import Request
from federator.model import names
from federator.model.decision import Reason
from federator.model.policy import Division, Policy, Strategy
from federator.placement.room.kept import KeptWorld
from federator.placement.selection import filters
from tests import virtual_time
from tests.faults.lives import Life
from tests.faults.rows import Sending
from tests.simulation import (
    booked,
    bulkhead,
    departures,
    feasibility,
    lifetimes,
    mutations,
    promises,
    running,
    script,
    solo,
)
from tests.simulation.feasibility import Knowledge
from tests.simulation.forgotten import Forgotten
from tests.simulation.invariants import Obj, Step, all_of
from tests.simulation.oddities import Oddities
from tests.simulation.reach import SLOW_S, STILL_S, Reach
from tests.simulation.removals import Removals
from tests.simulation.respect import Respect
from tests.simulation.world import World
from tests.worlds import EPOCH_S

JOBSET = "PinterestJobSet"
SILENT_S = 60.0


def seen(writer: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Step:
    """A write to a Deployment in a."""
    old, new = (
        {"metadata": {"uid": "u", "name": "web", **one}} if one is not None else None
        for one in (old, new)
    )
    return Step({}, "a", writer, "Deployment", old, new)


def test_what_others_put_on_an_object_is_theirs_until_they_take_it_off() -> None:
    rule, theirs, ours = Respect(), {"labels": {"who": "they"}}, {"annotations": {"ours": "1"}}
    assert not list(rule.breaches(seen("hub#1", None, ours)))
    assert not list(
        rule.breaches(seen("", ours, {**ours, **theirs, "finalizers": ["example.com/theirs"]}))
    )
    assert not list(
        rule.breaches(seen("", {**ours, **theirs}, {"annotations": {"ours": "2"}, **theirs}))
    )
    assert not list(
        rule.breaches(seen("hub#1", {"annotations": {"ours": "2"}, **theirs}, {**ours, **theirs}))
    )

    (lost,) = rule.breaches(seen("hub#1", {**ours, **theirs}, ours))
    (changed,) = rule.breaches(seen("member-a#1", theirs, {"labels": {"who": "we"}}))
    (final,) = rule.breaches(seen("member-a#1", {"finalizers": ["example.com/theirs"]}, {}))
    assert lost == "18 field respect: Deployment /web in a: hub#1 lost label who=they"
    assert changed == "18 field respect: Deployment /web in a: member-a#1 changed label who=they"
    assert "lost finalizer example.com/theirs" in final
    assert not list(rule.breaches(seen("", theirs, {})))


KNOWN = Knowledge(
    members={},
    policy=None,
    workload=None,
    everywhere=(),
    project="",
    unheard=frozenset(),
    better_known=False,
    limits={},
    wanted=3,
    done=(),
)


def test_a_cluster_that_is_not_listed_keeps_its_share_until_it_is_confirmed_gone() -> None:
    facts, gone = decision_facts({}), dataclasses.replace(KNOWN, confirmed_gone=frozenset("b"))
    assert not list(feasibility.closed("b", KNOWN, facts, grows=False))
    assert list(feasibility.closed("b", KNOWN, facts, grows=True)) == ["it is no member"]
    assert list(feasibility.closed("b", gone, facts, grows=False)) == ["it is no member"]


@pytest.mark.parametrize(
    ("cause", "allowed"), [("a cluster could not run its share", True), ("", False)]
)
def test_copies_of_a_duplicate_policy_that_no_machine_takes_may_begin_elsewhere(
    cause: str, *, allowed: bool
) -> None:
    """Quota lets five of eight run, and of four in b one does."""
    before = {"b": 4, "c": 1}
    after = {"b": 2, "c": 3}

    def decided(counts: dict[str, int]) -> DecisionFacts:
        shares = [{"cluster": name, "replicas": count} for name, count in counts.items()]
        return decision_facts(
            {"spec": {"unit": "replicas", "shortfall": 3, "causes": [cause], "shares": shares}}
        )

    policy = Policy(division=Division(strategy=Strategy.DUPLICATE))
    members = {name: {"metadata": {"name": name}} for name in before}
    found = list(
        departures.breaches(decided(after), decided(before), policy, members, wanted=4, done=())
    )
    assert found == ([] if allowed else ["b goes from 4 to 2, 5 of 4 are to run"])


def test_what_puts_a_resized_workload_right_asks_for_the_least() -> None:
    """Its account may be full: then an edit that asks for more is held back, and the cure of what
    is in force with it.
    """
    page, least = ("Deployment", "ads", "page"), script.container("app:2", script.LEAST_CPU)
    odd = Oddities(random.Random(1))
    while not dict(odd.cures({page})):
        template = {"spec": {"containers": [script.container("app:1")]}}
        odd.made(page, {"spec": {"selector": {}, "template": template}})
    before = dict(odd.cures({page}))[page]["spec"]["template"]
    odd.resized(page, least)
    after = dict(odd.cures({page}))[page]["spec"]["template"]
    assert after == {**before, "spec": {**before.get("spec", {}), "containers": [least]}}


@pytest.mark.parametrize(("waiting", "stays"), [(2, True), (1, False), (0, False)])
def test_copies_that_wait_for_their_turn_stay_in_a_cluster_that_leaves_the_fleet(
    waiting: int, *, stays: bool
) -> None:
    leaving = {"metadata": {"name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    known = dataclasses.replace(KNOWN, members={"b": leaving}, policy=Policy())
    facts = decision_facts(
        {"spec": {"shares": [{"cluster": "b", "replicas": 2}], "toMove": waiting}}
    )
    found = list(feasibility.closed("b", known, facts, grows=False))
    assert found == ([] if stays else ["it leaves the fleet"])
    assert list(feasibility.closed("b", known, facts, grows=True)) == ["it leaves the fleet"]


@pytest.mark.parametrize(("how", "given_up"), [("Orphan", True), ("Lost", True), ("", False)])
def test_what_an_operator_takes_out_by_hand_is_given_up_once_he_has_said_how(
    how: str, *, given_up: bool
) -> None:
    async def scenario() -> None:
        rule = Removals()
        member = EmbeddedCluster("c", clock=Clock(EPOCH_S), rng=random.Random(1))
        clusters = {"c": member}
        slice_ = {"metadata": {"uid": "s", "name": "index"}}
        list(rule.breaches(Step(clusters, "c", "hub#1", JOBSET, None, slice_), 1.0))
        meta: dict[str, Any] = {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}
        meta |= {"annotations": {names.REMOVAL_ANNOTATION: how}}
        joined = {"metadata": meta, "status": {"clusterUID": member.uid}}
        list(rule.breaches(Step(clusters, "host", "", "MemberCluster", joined, None), 2.0))
        assert rule.given_up(Step(clusters, "c", "hub#2", JOBSET, slice_, None)) is given_up

    virtual_time.run(scenario())


def test_a_cluster_is_well_while_every_answer_is_good_and_in_time() -> None:
    reach = Reach()
    reach.ends("hub#1", "a", reach.asks("hub#1", "a", 1.0), 1.5, well=True)
    assert reach.well_since_s("hub#1", "a", 2.0) == -math.inf
    reach.ends("hub#1", "a", reach.asks("hub#1", "a", 2.0), 2.5, well=False)
    assert reach.well_since_s("hub#1", "a", 9.0) == 2.5
    assert reach.well_since_s("hub#1", "b", 9.0) == -math.inf
    waiting = reach.asks("hub#1", "b", 9.0)
    assert reach.well_since_s("hub#1", "b", 9.5 + SLOW_S) == 9.5 + SLOW_S
    reach.ends("hub#1", "b", waiting, 9.5 + SLOW_S, well=True)
    assert reach.well_since_s("hub#1", "b", 20.0) == 9.5 + SLOW_S
    assert reach.awake_since_s("hub#1", 20.0) == 1.0
    assert reach.awake_since_s("hub#1", 9.1 + STILL_S) == 9.1 + STILL_S


async def work_beside_a_slow_member(world: World) -> None:
    async with solo.happening(world, "slow-member"):
        for name in ("one", "two", "three"):
            await script.perform(solo.service(name, 4), world.host)
        for replicas in (6, 8, 10):
            await asyncio.sleep(8.0)
            await script.perform(solo.scaled("one", replicas), world.host)
        await asyncio.sleep(8.0)


async def silence_that_is_noticed(world: World) -> None:
    async with solo.happening(world, "member-down-long"):
        await asyncio.sleep(SILENT_S)


def test_shares_beside_a_slow_member_are_judged_and_come_in_time() -> None:
    report = solo.tell(work_beside_a_slow_member)

    assert report.judged["shares_beside"] >= 3
    assert report.judged["decisions"] >= 6


@pytest.mark.parametrize(
    ("what", "story"),
    [
        ("all members share one lane", work_beside_a_slow_member),
        ("a member that is back is believed a minute later", silence_that_is_noticed),
    ],
)
def test_a_mutation_is_caught_beside_the_fault_that_it_makes_worse(
    what: str, story: solo.Story
) -> None:
    rule, plant = mutations.MUTATIONS[what]

    async def settled_first(world: World) -> None:
        await solo.settled(world)
        await story(world)

    with pytest.raises(running.Broken) as caught:
        running.simulate(solo.world(), plant, running.Course(solo.BEGINNING, story=settled_first))

    assert rule in caught.value.rules, caught.value.breaches[:5]


def test_a_hub_that_gives_copies_to_a_member_it_has_lost_is_caught_at_its_decision() -> None:
    async def growth_meanwhile(world: World) -> None:
        await solo.settled(world)
        async with solo.happening(world, "member-down-long"):
            await asyncio.sleep(2 * SILENT_S)
            await script.perform(solo.service("late", 12), world.host)
            await asyncio.sleep(SILENT_S)

    course = running.Course(solo.BEGINNING, story=growth_meanwhile)
    overlooked = mutations.overlooks(Reason.CLUSTER_UNHEALTHY, Reason.CLUSTER_STALE)
    with pytest.raises(running.Broken) as caught:
        running.simulate(solo.world(), mutations.instead(filters, "refusal", overlooked), course)

    assert any(text.endswith("it has not been heard for long") for text in caught.value.breaches)
    running.simulate(solo.world(), course=course)


@pytest.mark.parametrize(
    "what",
    [
        "a cordon keeps nobody away",
        "a policy's choice of clusters is not looked at",
        "every cluster runs all shards",
    ],
)
def test_what_is_placed_or_made_where_it_must_not_be_is_caught(what: str) -> None:
    rule, plant = mutations.MUTATIONS[what]
    with pytest.raises(running.Broken) as caught:
        running.simulate(lifetimes.WORLD, plant, running.Course(lifetimes.write()))

    assert rule in caught.value.rules, caught.value.breaches[:5]


def test_a_hub_that_does_not_count_what_is_on_its_way_is_caught_where_a_cluster_is_full() -> None:
    """Three services of five cpus each in a fleet with eight, the later two before the member has
    told of the one before, and not in one batch with it: drawn worlds are seldom so full.
    """
    parameters = solo.world(members=1, nodes=1)
    pauses_s = {"one": 30.0, "two": 0.1, "three": 0.1}
    actions = (
        dataclasses.replace(solo.service(name, 10), pause_s=pause_s)
        for name, pause_s in pauses_s.items()
    )
    course = running.Course(tuple(actions), brief=True)
    plant = mutations.instead(KeptWorld, "_charge", lambda original: lambda *_, **more: None)
    with pytest.raises(running.Broken) as caught:
        running.simulate(parameters, plant, course)

    assert {booked.ROOM, "2 feasibility"} <= caught.value.rules, caught.value.breaches[:5]
    running.simulate(parameters, course=course)


def test_a_status_is_judged_by_the_shares_of_which_its_hub_had_heard() -> None:
    """Seed 12153: a status that was on its way to a slow host was overtaken by the decision that gave
    a cluster back.
    """

    async def story(world: World) -> None:
        web = solo.one_of(world, script.SERVICE, "web")
        decision = next(
            obj
            for obj in all_of(world.federation.host, "PlacementDecision")
            if decision_facts(obj).workload_uid == web["metadata"]["uid"]
        )
        path = "/apis/pinterest.com/v1beta1/namespaces/feed/pinterestservices/web/status"
        version = {"metadata": {"resourceVersion": web["metadata"]["resourceVersion"]}}
        body = json.dumps({**version, "status": {}}).encode()
        sending = Sending("hub-0", "host", Request("PATCH", path, body=body))
        rows = [row for row in web["status"]["clusterStatuses"] if row["cluster"] != "b"]
        without = {**web, "status": {**web["status"], "clusterStatuses": rows}}
        heard = False
        rule = Forgotten(lambda life, obj: heard)

        def broken(kind: str, old: Obj | None, new: Obj) -> list[str]:
            return list(rule.breaches(Step(world.clusters, "host", "hub-0#1", kind, old, new)))

        assert not broken("PlacementDecision", None, decision)
        rule.sending(Life("hub-0#1"), sending)
        assert not broken(script.SERVICE, web, without), "the share came when it was on its way"
        heard = True
        rule.sending(Life("hub-0#1"), sending)
        (breach,) = broken(script.SERVICE, web, without)
        assert breach.startswith("19 nobody is forgotten: PinterestService feed/web in host: ")
        assert not broken(
            "PlacementDecision", None, {**decision, "spec": {**decision["spec"], "shares": []}}
        )
        assert not broken(script.SERVICE, web, without), "it has no share any more"

    solo.tell(story)


def test_a_shard_that_a_drain_fails_for_good_is_no_other_end() -> None:
    """Seed 12125: the pod of a shard that may not be tried again was on a node that was drained."""
    action = solo.jobset("index", 4, 60)
    action.body["spec"]["backoffLimitPerShard"] = 0

    async def drained(world: World) -> None:
        await asyncio.sleep(10.0)
        async with solo.happening(world, "node-drained"):
            await asyncio.sleep(10.0)

    small, actions = solo.world(members=1, nodes=1), (action,)
    faulty = running.simulate(small, course=running.Course(actions, story=drained))
    calm = running.simulate(small, course=running.Course(actions, brief=True))

    ends = [
        report.end_state["PinterestJobSet feed/index"]["status"]["done"]  # type: ignore[index]
        for report in (faulty, calm)
    ]
    assert ends == [0, 4]
    running.compare(faulty, calm)
    with pytest.raises(running.Broken, match="10 reference"):
        running.compare(dataclasses.replace(faulty, fired=Counter()), calm)


def decided(seq: int, **copies: tuple[int, int]) -> DecisionFacts:
    """A decision; `copies`: seq and copies of its share in each cluster."""
    shares = [
        {"cluster": name, "seq": share_seq, "replicas": count}
        for name, (share_seq, count) in copies.items()
    ]
    spec = {
        "workload": {"kind": "PinterestService", "name": "web", "uid": "w"},
        "seq": seq,
        "unit": "replicas",
        "wanted": 9,
        "shares": shares,
    }
    meta = {"name": "psvc-web", "namespace": "feed", "uid": "d"}
    return decision_facts({"metadata": meta, "spec": spec})


def test_a_share_below_what_its_slice_asks_for_is_a_shrink() -> None:
    """Of a slice of 3 that was to shrink to 1, two are decided on before it has shrunk."""
    now = decided(7, a=(7, 2))
    mark = {"fleet": "f", "workloadUID": "w", "originGeneration": 1, "cluster": "a", "seq": 5}

    def in_a(replicas: int, uid: str = "w") -> list[Obj]:
        return [{"spec": {"replicas": replicas, "slice": {**mark, "workloadUID": uid}}}]

    (share,) = now.shares
    assert not bulkhead.grows(now, share, 1, in_a(3))
    assert bulkhead.grows(now, share, 1, in_a(1))
    assert bulkhead.grows(now, share, 1, in_a(3, uid="of another"))
    assert bulkhead.grows(now, share, 0, [])
    assert not bulkhead.grows(now, share, 2, in_a(1)), "it was given that much before"


def test_a_slice_whose_number_was_raised_counts_as_held_and_nothing_beside_it() -> None:
    before = decided(5, a=(3, 1))

    def held(now: DecisionFacts, **slices: tuple[int, int]) -> dict[str, int]:
        shares = promises.with_raised(before, now, slices)
        return {share.cluster: share.slots for share in shares}

    assert held(decided(6, a=(3, 1), b=(90, 1)), a=(3, 1), b=(90, 1)) == {"a": 1, "b": 1}
    assert held(decided(6, a=(3, 1), b=(6, 1)), a=(3, 1)) == {"a": 1}, "b is new"
    assert held(decided(6, a=(3, 1), b=(6, 1)), a=(3, 1), b=(4, 1)) == {"a": 1}, "of the past"
    assert held(decided(6, a=(3, 1), b=(91, 2)), a=(3, 1), b=(90, 1)) == {"a": 1}, "b grows"
