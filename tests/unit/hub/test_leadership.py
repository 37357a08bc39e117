"""Two hubs over one federation: one acts, the other keeps warm and takes over; nothing is done
twice or sent late.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.hub.records.tombstones import ANNOTATION
from federator.kinds import registry
from federator.kube import errors
from federator.kube.leader.elector import LeaseLost
from federator.kube.wire.transport import Request
from federator.model import seq as seqs
from federator.model.steps import ObjectRef
from tests import virtual_time
from tests.faults.links import Cut
from tests.faults.rows import Sending, is_hub
from tests.unit.hub.world import World, service, small_fleet
from tests.worlds import spoken

LEASE = ObjectRef("coordination.k8s.io/v1", "leases", "federator-system", "federator-hub", "Lease")
LONGEST_S = 17.0


class Pair(World):
    """A federation with two hubs."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(small_fleet(), HubOptions(), seed, hubs=2)
        self.written: list[tuple[float, str, str, str, str, int]] = []
        """What hubs have written besides leases: (time, hub, cluster, method, resource, status)."""
        self.listed: Counter[str] = Counter()
        """How often each hub has listed the decisions."""

    def heard(self, process: str, cluster: str, request: Request, status: int) -> None:
        super().heard(process, cluster, request, status)
        sending = Sending(process, cluster, request)
        if request.path.endswith("/placementdecisions") and request.method == "GET":
            self.listed[process] += "watch" not in dict(request.query)
        if sending.writes and is_hub(process) and "/leases" not in request.path:
            now = asyncio.get_running_loop().time()
            self.written.append((now, *spoken(sending), status))

    async def cut_off(self, *names: str, how: Cut = Cut.REFUSED, late: bool = False) -> None:
        """Nothing of these hubs reaches a cluster until `heal`."""
        for name in names:
            clusters = ("host", *self.federation.members)
            await self.cut(*clusters, process=name, how=how, late=late)

    def leader(self) -> str:
        found = [name for name, hub in self.federation.processes.items() if hub.state.leading]
        assert len(found) <= 1, found
        return found[0] if found else ""

    def standby(self) -> str:
        return next(name for name in self.federation.hub_names if name != self.leader())

    async def until(self, name: str, within_s: float = 20.0) -> float:
        begun = asyncio.get_running_loop().time()
        while self.leader() != name or not self.federation.processes[name].state.ready:
            if asyncio.get_running_loop().time() > begun + within_s:
                raise AssertionError(
                    f"{name} does not lead after {within_s} s, but {self.leader() or 'nobody'}"
                )
            await asyncio.sleep(0.05)
        return asyncio.get_running_loop().time() - begun

    async def serve(self, name: str, replicas: int = 6) -> None:
        await self.create("PinterestService", "feed", name, service(replicas))

    async def scale(self, name: str, replicas: int) -> None:
        await self.host.patch(
            registry.KINDS["PinterestService"].ref("feed", name), {"spec": {"replicas": replicas}}
        )

    async def decided(self) -> dict[str, Any]:
        return {obj["spec"]["workload"]["name"]: obj for obj in await self.decisions()}

    async def crash(self, name: str) -> None:
        """No farewell: what it says on its way out is not heard."""
        await self.cut_off(name)
        await self.federation.kill(name)
        self.heal()

    async def seqs(self) -> dict[str, int]:
        return {
            name: max(s["seq"] for s in obj["spec"]["shares"])
            for name, obj in (await self.decided()).items()
        }

    def accepted(self, method: str, resource: str) -> int:
        return sum(
            1
            for _, _, _, how, what, code in self.written
            if (how, what) == (method, resource) and code < 300
        )


def play(scenario: Callable[[Pair], Awaitable[None]], *, seed: int = 1) -> None:
    async def main() -> None:
        pair = Pair(seed)
        try:
            await pair.federation.start()
            await scenario(pair)
            pair.federation.check()
        finally:
            await pair.federation.stop()

    virtual_time.run(main())


def test_a_first_start_leads_without_waiting_and_only_one_hub_writes() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        assert asyncio.get_running_loop().time() < 10
        assert {process for _, process, *_ in pair.written} == {pair.leader()}
        assert (await pair.host.get(LEASE))["spec"]["leaseTransitions"] == 1

    play(scenario)


def test_what_was_buried_is_on_the_lease_before_its_decision_goes() -> None:
    """A leader may die in the next moment, and a slice may still be on its way: its successor must
    know (seed 623).
    """

    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        ref = registry.KINDS["PinterestService"].ref("feed", "web")
        uid = (await pair.host.get(ref))["metadata"]["uid"]
        await pair.host.delete(ref, uid=uid)
        while await pair.decided():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert uid in (await pair.host.get(LEASE))["metadata"].get("annotations", {}).get(
            ANNOTATION, ""
        )

    play(scenario)


def test_a_standby_holds_warm_caches_and_no_reins() -> None:
    async def scenario(pair: Pair) -> None:
        for number in range(4):
            await pair.serve(f"web-{number}")
        await pair.settle()
        await asyncio.sleep(15)
        leader, standby = (
            pair.federation.processes[name] for name in (pair.leader(), pair.standby())
        )

        assert standby.warm
        assert not standby.state.leading
        assert not standby.state.ready
        assert standby.state.workloads == leader.state.workloads
        assert standby.state.records == leader.state.records
        assert all(member.heard for member in standby.state.members.values())
        for key in leader.state.workloads:
            assert list(standby.state.slices_of(key)) == list(leader.state.slices_of(key))
        for record in leader.state.records.values():
            commitment = standby.state.commitments.commitment(record.workload_uid)
            assert commitment == leader.state.commitments.commitment(record.workload_uid)
        with pytest.raises(errors.NotLeading):
            await standby.host.patch(registry.KINDS["PinterestService"].ref("feed", "web-0"), {})
        for member in standby.state.members.values():
            assert member.link.client is not None
            with pytest.raises(errors.NotLeading):
                await member.link.client.delete(
                    registry.KINDS["PinterestService"].ref("feed", "web-0"), uid="u"
                )

    play(scenario)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_leader_that_dies_under_load_is_replaced_and_nothing_is_done_twice(seed: int) -> None:
    async def scenario(pair: Pair) -> None:
        chance = random.Random(seed)
        for number in range(6):
            await pair.serve(f"web-{number}", replicas=3)
        await asyncio.sleep(2 + chance.random() * 2)
        for number in range(6, 12):
            await pair.serve(f"web-{number}", replicas=3)
        await asyncio.sleep(chance.random() / 4)
        dead, heir = pair.leader(), pair.standby()
        await pair.crash(dead)
        died_s = asyncio.get_running_loop().time()
        for number in range(3):
            await pair.scale(f"web-{number}", 5)
        took_s = await pair.until(heir)
        await pair.settle()

        assert took_s <= LONGEST_S
        late = [write for write in pair.written if write[0] > died_s]
        assert {process for _, process, *_ in late} == {heir}
        assert min(at for at, *_ in late) >= died_s + took_s - 0.1
        assert pair.accepted("POST", "placementdecisions") == 12
        slices = sum(len(obj["spec"]["shares"]) for obj in (await pair.decided()).values())
        assert pair.accepted("POST", "pinterestservices") == slices
        assert not [write for write in pair.written if write[3] == "DELETE"]
        await asyncio.sleep(35)  # figures of members are copied half a minute later
        before = len(pair.written)
        await asyncio.sleep(90)
        assert pair.written[before:] == []

    play(scenario, seed=seed)


def test_a_stop_hands_over_within_a_retry_period_and_writes_nothing_that_was_settled() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        await asyncio.sleep(35)
        before, heir = len(pair.written), pair.standby()
        await pair.federation.kill(pair.leader())

        assert await pair.until(heir) <= 2.5
        await asyncio.sleep(90)
        assert pair.written[before:] == []
        await pair.scale("web", 7)
        await pair.settle()
        assert seqs.term((await pair.seqs())["web"]) == 2

    play(scenario)


def test_a_frozen_leader_resumes_to_refusals_and_its_late_writes_change_nothing() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        old, heir = pair.leader(), pair.standby()
        frozen = pair.federation.processes[old]
        await pair.cut_off(old, how=Cut.MUTE, late=True)
        await pair.scale("web", 9)
        await asyncio.sleep(1)
        assert pair.links.touched[Cut.MUTE]
        await pair.until(heir)
        await pair.settle()
        assert not frozen.state.leading
        assert pair.federation.lost[old] == 1
        settled, objects = await pair.seqs(), await pair.decided()
        await pair.scale("web", 4)
        await pair.settle()
        latest, objects = await pair.seqs(), await pair.decided()
        assert latest["web"] > settled["web"]

        pair.heal()
        await asyncio.sleep(5)
        late = Counter(code for _, process, *_, code in pair.written if process == old)
        assert late[409] + late[422] >= 1
        assert (await pair.decided())["web"]["spec"] == objects["web"]["spec"]
        assert (await pair.host.get(LEASE))["spec"]["holderIdentity"].startswith(heir)
        await pair.settle()
        assert await pair.seqs() == latest

    play(scenario)


def test_a_lease_that_is_deleted_costs_a_hand_over_and_terms_go_on_rising() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        for reign in range(3):
            before = (await pair.seqs())["web"]
            ruler = pair.leader()
            live = await pair.host.get(LEASE)
            await pair.host.delete(LEASE, uid=live["metadata"]["uid"])
            await asyncio.sleep(25)
            assert pair.federation.lost[ruler] >= 1
            assert pair.leader()
            await pair.scale("web", 7 + reign)
            await pair.settle()
            assert seqs.term((await pair.seqs())["web"]) > seqs.term(before)
        lease = await pair.host.get(LEASE)
        await asyncio.sleep(3)
        assert lease["spec"]["leaseTransitions"] == seqs.term((await pair.seqs())["web"])

    play(scenario)


def test_leases_that_cannot_be_reached_end_the_process_and_the_next_life_leads() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        await pair.cut_off(*pair.federation.hub_names)
        ruler = pair.leader()
        await asyncio.sleep(30)
        assert not pair.leader()
        assert pair.federation.lost[ruler] == 1
        pair.heal()
        await asyncio.sleep(LONGEST_S + 40)
        assert pair.leader()
        await pair.scale("web", 8)
        await pair.settle()

    play(scenario)


def test_a_hub_that_lost_the_lease_ends_with_that_error() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        process = pair.federation.processes[pair.leader()]
        spare = pair.federation._new_hub("hub-2")
        task = asyncio.create_task(spare.run())
        await pair.cut_off(*pair.federation.hub_names)
        await asyncio.sleep(60)
        assert spare.state.leading
        assert not process.state.leading
        await pair.cut_off("hub-2")
        with pytest.raises(LeaseLost, match="10 s"):
            await task
        pair.heal()

    play(scenario)


def test_a_hub_that_takes_over_forgets_decisions_that_are_gone_and_none_newer_than_it() -> None:
    """Its watch may have been silent while the leader before it deleted them: no member may hear of
    them again.
    """

    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        hub = pair.federation.processes[pair.leader()]
        (there,) = hub.state.records
        known = hub.state.records[there]

        def alike(name: str, version: str) -> tuple[str, str]:
            facts = replace(known.facts.in_object(name, version), name=name)
            hub.state.observe_decision("feed", replace(known, facts=facts))
            return ("feed", name)

        alike("gone", "1")
        newer = alike("newer", "1000000")
        await hub.controllers.hosting.rereading.run()
        assert set(hub.state.records) == {there, newer}

    play(scenario)
