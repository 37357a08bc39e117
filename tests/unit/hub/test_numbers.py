"""Numbers that others write: whoever raises one uses up its own, and nobody else's."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from federator.hub.cache import restored
from federator.hub.cache.state import TERM_LEAP, TERMS_WITHOUT_LEASE, HubState
from federator.hub.options import HubOptions
from federator.hub.records.decisions import Record, summarise
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.model import names
from federator.model import seq as seqs
from federator.model.ask import Unit
from federator.scheduling.rollout import Action, ActionKind
from tests.unit.hub.test_leadership import LEASE, Pair
from tests.unit.hub.test_leadership import play as play_pair
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
PD = registry.KINDS["PlacementDecision"]
TWO = {"clusters": {"names": ["a", "b"]}}


async def raise_seq(world: World, cluster: str, seq: int, **spec: Any) -> None:
    """Somebody in a member writes this number, and whatever else, into the slice there."""
    await world.patch(PSVC, "feed", "web", {"spec": {"slice": {"seq": seq}, **spec}}, at=cluster)


async def seq_in(world: World, cluster: str) -> int:
    found = await world.get(PSVC, "feed", "web", at=cluster)
    assert found is not None
    seq: int = found["spec"]["slice"]["seq"]
    return seq


async def untrustworthy(world: World, cluster: str) -> dict[str, Any]:
    return await world.condition("MemberCluster", "", cluster, "Untrustworthy")


async def summary(world: World, cluster: str) -> str:
    """What the column STATUS of `kubectl get memberclusters` shows."""
    found = await world.get("MemberCluster", "", cluster)
    assert found is not None
    return str(found["status"]["summary"])


async def check_others_are_decided(world: World, name: str) -> None:
    """A workload of somebody else is placed, in all clusters, and what the host has issued
    says so.
    """
    await world.create(PSVC, "other", name, service(6))
    await asyncio.sleep(15)
    found = await world.get(PSVC, "other", name)
    assert found is not None
    assert found["status"]["ready"] == 6
    state = world.federation.hub.state
    assert seqs.term(state.issued) <= 4
    assert all(obj["spec"]["seq"] <= state.issued for obj in await world.decisions())


@pytest.mark.long
@pytest.mark.parametrize("pause_s", [0.0, 1.0], ids=["a burst", "paced"])
@pytest.mark.parametrize("more", [{}, {"replicas": 40}], ids=["number", "and replicas"])
def test_a_member_that_raises_a_number_again_and_again_uses_up_its_own(
    more: dict[str, int], pause_s: float
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6, placement=TWO))
        await world.settle()
        issued, seq = world.federation.hub.state.issued, await seq_in(world, "a")
        leap = (seqs.MAX - seq) // 300
        for turn in range(300):
            await raise_seq(world, "a", seq + (turn + 1) * leap, **more)
            await asyncio.sleep(pause_s)
        await asyncio.sleep(30)
        await check_others_are_decided(world, "before")
        await world.federation.kill("hub")
        world.federation.start_hub()
        await check_others_are_decided(world, "after")

        state = world.federation.hub.state
        assert seqs.term(state.issued) == seqs.term(issued) + 1  # by the restart
        assert seqs.counter(state.issued) < 40
        assert sum((await world.shares("feed", "web")).values()) == 6
        assert world.writes["hub", "host", "PATCH", "placementdecisions"] < 50
        if more:
            assert (await untrustworthy(world, "a"))["reason"] == "SeqNotIssued"
        await raise_seq(world, "a", seqs.MAX)
        await asyncio.sleep(30)
        assert (await untrustworthy(world, "a"))["status"] == "True"
        assert not await untrustworthy(world, "b")
        assert await summary(world, "a") == "Untrustworthy (SeqNotIssued)"
        assert await summary(world, "b") == "Ready"
        await world.create(PSVC, "other", "later", service(6))
        await asyncio.sleep(10)
        await world.settle()
        assert sorted(await world.shares("other", "later")) == ["b", "c"]

    play(scenario)


def test_a_slice_with_a_raised_number_goes_on_being_served() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6, placement=TWO))
        await world.settle()
        for raised, replicas in ((1 << 50, 12), (seqs.MAX - 1, 10), (seqs.MAX, 9)):
            before = world.writes["hub", "host", "PATCH", "placementdecisions"]
            await raise_seq(world, "a", raised)
            await asyncio.sleep(10)
            assert (
                world.writes["hub", "host", "PATCH", "placementdecisions"] == before
            )  # it says what it should
            await world.patch(PSVC, "feed", "web", {"spec": {"replicas": replicas}})
            await asyncio.sleep(10)
            await world.settle()
            assert await seq_in(world, "a") == min(raised + 1, seqs.MAX)
            found = await world.get(PSVC, "feed", "web", at="a")
            assert found is not None
            assert found["spec"]["replicas"] == (await world.shares("feed", "web"))["a"] <= 6
        await world.patch(PSVC, "feed", "web", {"spec": {"config": {"app.properties": "x"}}})
        await asyncio.sleep(10)
        await world.settle()
        found = await world.get(PSVC, "feed", "web", at="a")
        assert found is not None
        assert found["spec"]["config"] == {"app.properties": "x"}
        assert seqs.term(world.federation.hub.state.issued) == 1

    play(scenario)


@pytest.mark.long
def test_a_member_that_was_not_believed_is_believed_again_and_put_right() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6, placement=TWO))
        await world.settle()
        seq = await seq_in(world, "a")
        for turn in range(15):
            await raise_seq(world, "a", seq + (turn + 1) * 1000, replicas=40)
            await asyncio.sleep(2)
        member = world.federation.hub.state.members["a"]
        assert member.seqs.disbelieved
        assert (await untrustworthy(world, "a"))["reason"] == "SeqNotIssued"
        await check_others_are_decided(world, "beside")
        await asyncio.sleep(330)
        await world.settle()
        assert not member.seqs.disbelieved
        found = await world.get(PSVC, "feed", "web", at="a")
        shares = await world.shares("feed", "web")
        assert (found or {"spec": {"replicas": 0}})["spec"]["replicas"] == shares.get("a", 0)
        assert sum(shares.values()) == 6
        await asyncio.sleep(700)
        assert (await untrustworthy(world, "a")).get("status") != "True"

    play(scenario)


def test_a_seq_that_a_decision_answered_does_not_count_as_a_lost_decision() -> None:
    """The slice of b is still on its way there. A seq that somebody raised in a, and that the
    decision in force exceeds, is no reason to take b's share for moved, and so to give it to a.
    """

    async def scenario(world: World) -> None:
        await world.settle()
        world.meanwhile("b", "POST", "pinterestservices", lambda: asyncio.sleep(600))
        await world.create(PSVC, "feed", "web", service(6, placement=TWO))
        await asyncio.sleep(5)
        await raise_seq(world, "a", 1 << 50)
        await asyncio.sleep(1)
        world.meanwhile("a", "PATCH", "pinterestservices", lambda: asyncio.sleep(600))
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(5)
        state = world.federation.hub.state
        key = names.key(PSVC, "feed", "web")
        workload = state.workloads[key]
        record = state.record_of(workload)
        assert record is not None
        assert record.mark("a") > 1 << 50
        # as a turn says that began before the decision
        state.members["a"].seqs.to_number.add(key)
        held = {share.cluster: share.count for share in restored.shares(state, workload, record)}
        assert held == {"a": 2, "b": 2}

    play(scenario)


def test_a_turn_of_an_earlier_decision_asks_for_no_higher_seq() -> None:
    """The decision that replaced it has a seq above the raised one already."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6, placement=TWO))
        await world.settle()
        hub = world.federation.hub
        state, key = hub.state, names.key(PSVC, "feed", "web")
        before = state.record_of(state.workloads[key])
        assert before is not None
        await raise_seq(world, "a", 1 << 50)
        world.meanwhile("a", "PATCH", "pinterestservices", lambda: asyncio.sleep(600))
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(5)
        member, workload = state.members["a"], state.workloads[key]
        seen = member.contents.slice_of(key)
        assert seen is not None
        action = Action("a", ActionKind.UPDATE, count=2)
        assert hub.controllers.dispatching._is_numbered_higher(
            member, workload, before, action, seen
        )
        assert key not in member.seqs.to_number

    play(scenario)


def test_an_operator_puts_right_a_number_at_its_end() -> None:
    """As docs/operating/untrustworthy.md says."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6, placement=TWO))
        await world.settle()
        await raise_seq(world, "a", seqs.MAX)
        await asyncio.sleep(30)
        told = await untrustworthy(world, "a")
        assert told["status"] == "True"
        await world.federation.kill("member a")
        found = await world.get(PSVC, "feed", "web", at="a")
        assert found is not None
        await world.member("a").delete(
            registry.KINDS[PSVC].ref("feed", "web"), uid=found["metadata"]["uid"]
        )
        capacity = registry.KINDS["ClusterCapacity"].ref("", "cluster")
        mended = {"highest": {found["spec"]["slice"]["workloadUID"]: None}, "includesSeq": 0}
        await world.member("a").patch(capacity, {"status": mended}, subresource="status")
        world.federation.start_member("a")
        await asyncio.sleep(60)
        assert await seq_in(world, "a") < seqs.make(2, 0)
        word = {names.TRUST_ANNOTATION: told["lastTransitionTime"]}
        await world.patch("MemberCluster", "", "a", {"metadata": {"annotations": word}})
        await asyncio.sleep(30)
        assert (await untrustworthy(world, "a")).get("status") != "True"
        await world.create(PSVC, "feed", "page", service(6))
        await asyncio.sleep(10)
        await world.settle()
        assert sorted(await world.shares("feed", "page")) == ["a", "b", "c"]

    play(scenario)


@pytest.mark.long
def test_neither_hub_ends_for_a_burst_of_numbers() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        ruler, kind = pair.leader(), registry.KINDS[PSVC]
        member = Client(pair.federation.members["a"].transport(), "a")
        found = await member.get(kind.ref("feed", "web"))
        seq = found["spec"]["slice"]["seq"]
        leap = (seqs.MAX - seq) // 400
        for turn in range(400):
            await member.patch(
                kind.ref("feed", "web"), {"spec": {"slice": {"seq": seq + (turn + 1) * leap}}}
            )
            await asyncio.sleep(0.05)
        await asyncio.sleep(30)
        await pair.serve("later")
        await pair.settle()
        assert pair.leader() == ruler
        assert not pair.federation.lost[ruler]
        assert seqs.term((await pair.seqs())["later"]) == 1
        assert (await pair.host.get(LEASE))["spec"]["leaseTransitions"] == 1

    play_pair(scenario)


def test_what_is_moved_out_of_a_cluster_with_a_raised_number_does_not_come_back() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6, placement=TWO))
        await world.settle()
        await raise_seq(world, "a", 1 << 50)
        await asyncio.sleep(5)
        await world.patch(
            PSVC, "feed", "web", {"spec": {"placement": {"clusters": {"names": ["b", "c"]}}}}
        )
        await asyncio.sleep(30)
        await world.settle()
        assert await world.get(PSVC, "feed", "web", at="a") is None
        assert sorted(await world.shares("feed", "web")) == ["b", "c"]
        # Nor does a write of the past, which is heard of only now, count as a later decision.
        late = await world.get(PSVC, "feed", "web", at="b")
        assert late is not None
        meta = {"name": "web", "namespace": "feed", "labels": late["metadata"]["labels"]}
        block = late["spec"]["slice"] | {"cluster": "a", "seq": 1 << 50}
        body = {
            "apiVersion": late["apiVersion"],
            "kind": PSVC,
            "metadata": meta,
            "spec": late["spec"],
        }
        await world.member("a").create(
            registry.KINDS[PSVC].ref("feed", "web"),
            {**body, "spec": {**late["spec"], "slice": block}},
        )
        await asyncio.sleep(30)
        await world.settle()
        assert await world.get(PSVC, "feed", "web", at="a") is None
        assert sorted(await world.shares("feed", "web")) == ["b", "c"]

    play(scenario)


async def forge(world: World, seq: int, **spec: Any) -> None:
    """Somebody writes this number, and whatever else, into the decision."""
    name = next(
        o["metadata"]["name"]
        for o in await world.decisions()
        if o["spec"]["workload"]["name"] == "web"
    )
    await world.host.patch(PD.ref("feed", name), {"spec": {"seq": seq, **spec}})


@pytest.mark.parametrize("restarted", [False, True])
def test_a_decision_that_was_never_issued_is_not_obeyed_and_is_written_anew(
    restarted: bool,
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        before = await world.shares("feed", "web")
        uids = {
            name: (await world.get(PSVC, "feed", "web", at=name) or {})["metadata"]["uid"]
            for name in before
        }
        with pytest.raises(errors.Invalid):
            await forge(world, 2**63 - 1)
        for seq in (seqs.MAX, seqs.make(seqs.TERM_MAX, 7)):
            if restarted:
                await world.federation.kill("hub")
            await forge(world, seq, shares=[{"cluster": "c", "seq": seq, "replicas": 6}])
            if restarted:
                world.federation.start_hub()
            await asyncio.sleep(20)
            await world.settle()
            await check_others_are_decided(world, f"after-{seq}")

        assert await world.shares("feed", "web") == before
        for name, uid in uids.items():
            assert (await world.get(PSVC, "feed", "web", at=name) or {})["metadata"]["uid"] == uid
        found = await world.host.list("v1", "events", "feed")
        assert any(event.get("reason") == "ForeignDecision" for event in found.items)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await asyncio.sleep(5)
        await world.settle()
        assert sum((await world.shares("feed", "web")).values()) == 9

    play(scenario)


def test_a_decision_of_nobody_with_a_number_of_nobody_is_removed() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        (mine,) = await world.decisions()
        meta = {"name": "mine", "namespace": "feed", "finalizers": mine["metadata"]["finalizers"]}
        spec = mine["spec"] | {
            "seq": seqs.MAX,
            "workload": {"kind": PSVC, "name": "ghost", "uid": "none"},
        }
        await world.host.create(PD.ref("feed", "mine"), {**mine, "metadata": meta, "spec": spec})
        await asyncio.sleep(20)
        await world.settle()

        assert [one["metadata"]["name"] for one in await world.decisions()] == [
            mine["metadata"]["name"]
        ]
        await check_others_are_decided(world, "after")

    play(scenario)


def test_a_term_without_numbers_is_followed_by_another() -> None:
    async def alone(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        state = world.federation.hub.state
        state._counter = seqs.COUNTER_MAX - seqs.SPARE - 1
        for replicas in (7, 8, 9):
            await world.patch(PSVC, "feed", "web", {"spec": {"replicas": replicas}})
            await asyncio.sleep(5)
            await world.settle()
        assert world.federation.hub.state is state
        assert state.term == 2
        assert sum((await world.shares("feed", "web")).values()) == 9

    async def elected(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        ruler = pair.leader()
        pair.federation.processes[ruler].state._counter = seqs.COUNTER_MAX - seqs.SPARE - 1
        await pair.scale("web", 9)
        await asyncio.sleep(30)
        await pair.scale("web", 4)
        await pair.settle()
        assert not pair.federation.lost[ruler]
        assert seqs.term((await pair.seqs())["web"]) == 2
        assert (await pair.host.get(LEASE))["spec"]["leaseTransitions"] == 2

    play(alone)
    play_pair(elected)


@pytest.mark.parametrize("count", [2**31 - 1, seqs.TERM_MAX - 1, seqs.TERM_MAX])
def test_a_count_of_elections_that_a_hand_wrote_ends_nobody(count: int) -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        for replicas in (7, 8, 9):
            ruler = pair.leader()
            await pair.host.patch(
                LEASE, {"spec": {"leaseTransitions": count, "holderIdentity": "somebody"}}
            )
            await asyncio.sleep(40)
            assert pair.federation.lost[ruler] >= 1  # it had to go: the Lease named another
            assert pair.leader()
            await pair.scale("web", replicas)
            await pair.settle()
            assert (
                sum(s["replicas"] for s in (await pair.decided())["web"]["spec"]["shares"])
                == replicas
            )
        lease = await pair.host.get(LEASE)
        assert lease["spec"]["leaseTransitions"] <= seqs.TERM_MAX

    play_pair(scenario)


def recorded(seq: int, name: str = "d") -> Record:
    spec = {
        "workload": {"kind": PSVC, "name": name, "uid": name},
        "seq": seq,
        "unit": str(Unit.REPLICAS),
    }
    meta = {"name": name, "namespace": "feed", "uid": name, "resourceVersion": "1"}
    return summarise(
        {"apiVersion": PD.api_version, "kind": PD.kind, "metadata": meta, "spec": spec}
    )


@pytest.mark.parametrize(
    ("terms", "transitions", "term"),
    [
        ((), 0, 1),
        ((), 7, 7),
        ((5,), 1, 6),
        ((5, 9, 2), 3, 10),
        ((5,), 40, 40),
        ((TERMS_WITHOUT_LEASE + 1,), 1, 1),
        ((3, TERMS_WITHOUT_LEASE + 1), 1, 4),
        ((3, 9 + TERM_LEAP), 9, 10 + TERM_LEAP),
        ((3, 10 + TERM_LEAP), 9, 9),
        ((3, seqs.TERM_MAX), 9, 9),
        ((seqs.TERM_MAX,), seqs.TERM_MAX, seqs.TERM_MAX),
    ],
)
def test_a_term_is_above_the_lease_and_those_decisions_that_an_election_can_have_led_to(
    terms: tuple[int, ...], transitions: int, term: int
) -> None:
    state = HubState(HubOptions())
    for one in terms:
        state.observe_decision("feed", recorded(seqs.make(one, 3), f"d{one}"))

    assert state.begin_term(transitions) == term
    assert seqs.term(state.next_seq()) == term
    assert all(record.seq < state.issued for record in state.records.values())
    assert len(state.records) + len(state.refused) == len(terms)


def test_what_a_leader_has_not_issued_is_refused_while_it_leads() -> None:
    state = HubState(HubOptions())
    state.begin_term(3)
    assert state.observe_decision("feed", recorded(seqs.make(9, 1), "of-a-later-leader"))
    state.ready = True
    mine = state.next_seq()
    assert state.observe_decision("feed", recorded(mine))
    assert not state.observe_decision("feed", recorded(mine + 1))
    assert state.records["feed", "d"].seq == mine
    assert list(state.refused) == [("feed", "d")]
    state.drop_refused("feed", "d", "another uid")
    state.drop_refused("feed", "d", "d")
    assert not state.refused
    assert state.records["feed", "d"].lost  # until it is finalized: no workload of it lives


def test_the_numbers_of_a_term_end_with_an_error_and_not_in_the_next_term() -> None:
    state = HubState(HubOptions())
    state.begin_term(seqs.TERM_MAX)
    told: list[bool] = []
    state.signals.used_up.append(lambda: told.append(True))
    state._counter = seqs.COUNTER_MAX - seqs.SPARE - 1
    state.next_seq()
    state.next_seq()
    assert told == [True]
    state._counter = seqs.COUNTER_MAX
    with pytest.raises(ValueError, match="counter"):
        state.next_seq()
    assert state.issued == seqs.make(seqs.TERM_MAX, seqs.COUNTER_MAX) < seqs.MAX


def test_a_decision_tells_how_far_the_numbers_of_each_cluster_go() -> None:
    record = recorded(40)
    shares = (
        {"cluster": "a", "seq": 1000, "replicas": 3},
        {"cluster": "b", "seq": 30, "replicas": 3},
    )
    spec = {"seq": 40, "shares": list(shares), "marks": {"c": 2**63, "d": 7}}
    record = replace(
        record, facts=summarise({"metadata": {}, "spec": spec}).facts.in_object("u", "")
    )
    assert [record.mark(name) for name in "abcde"] == [1000, 30, seqs.MAX, 40, 40]
    assert not record.lost
    assert record.as_lost().lost
