"""A hub that lacks file descriptors of its own judges nobody by that: members are not asked, and
not silent (F67).
"""

import asyncio
import json
from typing import Any

from federator.api import raw
from federator.app import readiness as page
from federator.hub.members.reachability import Reachability
from federator.hub.query import banner
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.shortage import LASTS_S, Shortage
from federator.kube.watch.reflector import HEALTHY_S
from federator.model.steps import ObjectRef
from tests import virtual_time
from tests.faults import boxes
from tests.faults.links import Cut
from tests.unit.hub.test_probing import readiness, restart
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
LEASE = ObjectRef("coordination.k8s.io/v1", "leases", "federator-system", "federator-hub", "Lease")


async def lack(world: World, *members: str) -> None:
    """No request to these members can be sent any more, and what was open is closed."""
    await world.cut(*members, how=Cut.SHORT)


async def folded(world: World) -> dict[str, Any]:
    found = await world.get(PSVC, "feed", "web")
    assert found is not None
    return {entry["cluster"]: entry for entry in found["status"]["clusterStatuses"]}


def test_a_hub_short_of_descriptors_calls_nobody_unreachable_and_moves_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        shares = await world.shares("feed", "web")
        hub = world.federation.hub
        await lack(world, "b", "c")
        await asyncio.sleep(30)
        assert (await readiness(world, "b"))[:2] == ("True", "Ready"), "a blip flips nothing"
        await asyncio.sleep(300)

        for name in ("b", "c"):
            assert (await readiness(world, name))[:2] == ("Unknown", "NotAsked")
            assert hub.state.members[name].link.reachability.state is Reachability.LIVE
            assert not hub.state.members[name].vitals.watch_trouble
        assert (await readiness(world, "a"))[:2] == ("True", "Ready")
        assert await world.shares("feed", "web") == shares
        found = await folded(world)
        assert (found["a"].get("known", True), found["b"]["known"]) == (True, False), (
            "nobody guesses what is unheard"
        )
        assert "short of file descriptors" in page(hub)["descriptors"]

        world.heal()
        await world.settle()
        await asyncio.sleep(LASTS_S)
        assert (await readiness(world, "b"))[:2] == ("True", "Ready")
        assert await world.shares("feed", "web") == shares
        assert page(hub)["descriptors"] == ""

    play(scenario)


def test_a_member_is_known_as_soon_as_its_watches_stand_after_a_shortage() -> None:
    """Simulation, seed 12202: a member was Live all the time, so no transition hurried its watches.
    They waited out their back-off, and only the probe after that ended the doubt: 30 s in all.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        members, clock = world.federation.hub.state.members, world.federation.clock

        async def heard_again() -> float:
            healed_s = clock.monotonic()
            world.heal()
            while (members["b"].link.reachability.heard_at_s or 0.0) < healed_s:  # noqa: ASYNC110 - of virtual time
                await asyncio.sleep(0.1)
            return clock.monotonic()

        await lack(world, "b")
        await asyncio.sleep(60)
        await heard_again()  # one probe finds a descriptor, and its watches find none for long
        await lack(world, "b")
        await asyncio.sleep(120)
        assert (await readiness(world, "b"))[:2] == ("Unknown", "NotAsked")
        heard_s = await heard_again()
        assert (await readiness(world, "b"))[:2] == ("Unknown", "NotAsked"), "nothing is listed yet"
        await asyncio.sleep(heard_s + HEALTHY_S + 1.0 - clock.monotonic())
        assert (await readiness(world, "b"))[:2] == ("True", "Ready")

    play(scenario)


def test_a_probe_that_finds_a_descriptor_and_no_answer_makes_nobody_known_again() -> None:
    """Simulation, seed 4071: a member that had not been asked for two minutes refused one probe for
    want of time (429), was told Ready by that, and was given work.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        shares = await world.shares("feed", "web")
        await lack(world, "b")
        await asyncio.sleep(120)
        assert (await readiness(world, "b"))[:2] == ("Unknown", "NotAsked")
        world.answer("b", "/readyz", 429, b"{}")
        world.heal()
        while not world.answered["/readyz"]:  # noqa: ASYNC110 - of virtual time
            await asyncio.sleep(0.1)
        await world.cut("b", how=Cut.SHORT)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 15}})
        for _ in range(20):
            await asyncio.sleep(1)
            assert (await readiness(world, "b"))[:2] == ("Unknown", "NotAsked")
        assert (await world.shares("feed", "web"))["b"] == shares["b"]

        world.heal()
        await asyncio.sleep(120)
        assert (await readiness(world, "b"))[:2] == ("Unknown", "Unreachable"), (
            "silence that is its own counts"
        )

    play(scenario)


def test_what_grows_meanwhile_grows_where_the_hub_can_ask() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        shares = await world.shares("feed", "web")
        await lack(world, "b")
        await asyncio.sleep(120)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 15}})
        await asyncio.sleep(60)
        grown = await world.shares("feed", "web")
        assert grown["b"] == shares["b"]
        assert sum(grown.values()) == 15

    play(scenario)


def test_a_hub_that_starts_short_of_descriptors_leads_with_those_that_it_can_ask() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        shares = await world.shares("feed", "web")
        await lack(world, "c")
        await restart(world)
        await asyncio.sleep(120)
        assert world.federation.hub.state.ready
        assert (await readiness(world, "c"))[:2] == ("Unknown", "NotAsked")
        assert await world.shares("feed", "web") == shares
        world.heal()
        await world.settle()
        assert (await readiness(world, "c"))[:2] == ("True", "Ready")

    play(scenario)


def test_a_member_that_answers_and_is_not_watched_for_want_of_descriptors_is_not_blamed() -> None:
    """It has a connection for probes, kept open, and none for its lists."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        shares = await world.shares("feed", "web")
        world.put(
            boxes.failing(
                lambda sending: sending.cluster == "b" and bool(sending.request.query),
                lambda sending: errors.OwnShortage("b: not asked, the hub has no descriptor left"),
            )
        )
        await restart(world)
        await asyncio.sleep(120)
        assert world.federation.hub.state.ready
        assert (await readiness(world, "b"))[:2] == ("Unknown", "NotAsked")
        since = (await readiness(world, "b"))[2]
        await asyncio.sleep(120)
        assert (await readiness(world, "b"))[2] == since, "it is told once"
        assert await world.shares("feed", "web") == shares
        world.clear()
        await world.settle()
        await asyncio.sleep(45)
        assert (await readiness(world, "b"))[:2] == ("True", "Ready")

    play(scenario)


def test_the_lease_says_so_and_so_does_every_command() -> None:
    def lease(holder: str, facts: object) -> dict[str, Any]:
        noted = {
            "federation.pinterest.com/own-shortage": facts
            if isinstance(facts, str)
            else json.dumps(facts)
        }
        return {"metadata": {"annotations": noted}, "spec": {"holderIdentity": holder}}

    facts = {
        "holder": "hub-0",
        "since": "2026-11-24T12:00:00Z",
        "why": "m1: not asked, short (limit 256)",
    }
    assert banner.short(lease("hub-0", facts)) == (
        "The hub cannot ask every cluster since 2026-11-24T12:00:00Z, which says nothing about them"
        " (m1: not asked, short (limit 256))."
    )
    assert banner.short(lease("hub-1", facts)) == "", "the word of an earlier leader"
    assert (
        banner.short(lease("hub-0", ""))
        == banner.short(lease("hub-0", "{"))
        == banner.short(None)
        == ""
    )
    assert banner.short(lease("hub-0", ["a", "list"])) == ""


def test_a_leader_writes_it_into_the_lease_and_takes_it_back() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await lack(world, "a")
        await asyncio.sleep(30)
        assert "descriptor" in banner.short(await world.host.get(LEASE))
        world.heal()
        await asyncio.sleep(LASTS_S * 2)
        found = await world.host.get(LEASE)
        assert (
            raw.text_map(found["metadata"], "annotations")["federation.pinterest.com/own-shortage"]
            == ""
        )

    play(scenario, election=True)


def test_a_shortage_ends_whenever_it_was_met_last_and_never_spins() -> None:
    """A rest that is only a rounding error long would begin again and again at the same moment."""

    async def scenario() -> None:
        shortage = Shortage(Clock(0.0))
        for number in range(200):
            await asyncio.sleep(number / 7)
            shortage.meet("m1: not asked")
            shortage.meet("m1: not asked")
            began_s = asyncio.get_running_loop().time()
            assert await shortage.over() == "m1: not asked"
            assert LASTS_S <= asyncio.get_running_loop().time() - began_s + 1e-6 <= LASTS_S + 2

    virtual_time.run(scenario())
