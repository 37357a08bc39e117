"""What happened to a cluster, as the port tells it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from federator.cli.leader import history
from federator.hub.history import entry as entries
from federator.hub.history.entry import HistoryEntry, Kind
from federator.hub.history.journal import Journal
from federator.hub.history.options import HistoryOptions
from federator.hub.history.segments import Segments
from federator.hub.options import HubOptions
from tests import virtual_time
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World, small_fleet
from tests.unit.query import asking
from tests.unit.query.asking import PSVC, grant, grant_everywhere, port_of, request

CLUSTER = "MemberCluster"
MEMBERS = {
    "apiGroups": ["federation.pinterest.com"],
    "resources": ["memberclusters"],
    "verbs": ["get"],
}
Row = tuple[str, str, str]
"""FROM, TO, and the reason with which WHY begins."""


def test_what_happened_to_a_cluster_is_told_to_who_may_get_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        journal = Journal(HistoryOptions(directory=str(tmp_path)), world.federation.clock)
        now = world.federation.clock.now()
        told = [
            HistoryEntry(at=now - 90, kind=Kind.CLUSTER, key="MemberCluster/a", cause="Cordoned"),
            HistoryEntry(at=now - 80, kind=Kind.CLUSTER, key="MemberCluster/ab", cause="Draining"),
            HistoryEntry(at=now - 70, kind=Kind.DECISION, key="PinterestService/feed/web"),
        ]
        Segments(tmp_path, segment_bytes=1 << 20, segments=2).append(
            [entries.line(entry) for entry in told]
        )
        await grant(world, "owner", "feed", PSVC)
        port = port_of(world, journal=journal)
        asked = request("/v1/memberclusters/a/history", user="owner")
        refused = asking.body(await port.answer(asked))
        assert refused["code"] == 403
        assert (
            "cannot get memberclusters.federation.pinterest.com on the host" in refused["message"]
        )
        await grant_everywhere(world, "owner", MEMBERS)
        whole = asking.body(await port.answer(asked))
        assert [row["cause"] for row in whole["entries"]] == ["Cordoned"]
        for path in ("/v1/memberclusters/A_b/history", "/v1/memberclusters/a/pods"):
            assert asking.body(await port.answer(request(path, user="owner")))["code"] == 404

    worlds.play(scenario)


async def _at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


@pytest.fixture
def play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[World], Awaitable[None]], int], None]:
    """Runs a scenario on virtual time whose hubs write their history. There are no threads on it,
    so what a hub would write in one is written at once."""
    monkeypatch.setattr(asyncio, "to_thread", _at_once)

    def run(scenario: Callable[[World], Awaitable[None]], hubs: int = 1) -> None:
        async def main() -> None:
            world = World(small_fleet(), HubOptions(), 1, hubs=hubs)
            world.federation.history = HistoryOptions(directory=str(tmp_path))
            try:
                await world.federation.start()
                await grant(world, "owner", "feed", PSVC)
                await grant_everywhere(world, "owner", MEMBERS)
                await world.settle()
                await scenario(world)
                world.federation.check()
            finally:
                await world.federation.stop()

        virtual_time.run(main())

    return run


async def _told(world: World, name: str) -> list[list[str]]:
    """What `federator history mc/NAME` prints, without the times."""
    await asyncio.sleep(1)
    (leader,) = [name for name, hub in world.federation.processes.items() if hub.state.leading]
    port = port_of(world, hub=leader)
    asked = request(f"/v1/memberclusters/{name}/history", user="owner")
    return [history.row(entry)[2:] for entry in asking.body(await port.answer(asked))["entries"]]


def _rows(told: list[list[str]], *reasons: str) -> list[Row]:
    """The rows whose reason is one of these or begins so."""
    found = [(before, after, why.partition(":")[0]) for before, after, why in told]
    return [row for row in found if row[2].startswith(reasons)]


def test_what_a_cluster_was_held_to_be_and_why_is_told_and_no_blip(
    play: Callable[..., None],
) -> None:
    async def scenario(world: World) -> None:
        await world.cut("a")
        await asyncio.sleep(15)
        world.heal()
        await asyncio.sleep(60)
        assert _rows(await _told(world, "a"), "HeldToBe") == []
        await world.cut("a")
        await asyncio.sleep(80)
        found = await world.get(CLUSTER, "", "a")
        assert found is not None
        word = found["status"]["lastHeard"]
        await world.patch(CLUSTER, "", "a", {"spec": {"declaredDead": word}})
        await asyncio.sleep(30)
        world.heal()
        await asyncio.sleep(60)
        told = await _told(world, "a")
        assert _rows(told, "HeldToBe") == [
            ("Live", "Unreachable", "HeldToBeUnreachable"),
            ("Unreachable", "Dead", "HeldToBeDead"),
            ("Dead", "Live", "HeldToBeLive"),
        ]
        (why,) = [why for _, _, why in told if why.startswith("HeldToBeUnreachable")]
        assert "refuse" in why, "the answer to the last probe is the evidence"
        assert _rows(await _told(world, "b"), "HeldToBe") == []

    play(scenario)


def test_cordons_of_a_cluster_are_told_and_not_again_by_the_next_hub(
    play: Callable[..., None],
) -> None:
    async def scenario(world: World) -> None:
        for cordoned in (True, False, True):
            await world.patch(CLUSTER, "", "a", {"spec": {"cordoned": cordoned}})
            await asyncio.sleep(20)
        await world.federation.kill("hub")
        world.federation.start_hub()
        await world.settle()
        await asyncio.sleep(30)
        assert _rows(await _told(world, "a"), "Cordoned", "Uncordoned") == [
            ("Schedulable", "Cordoned", "Cordoned"),
            ("Cordoned", "Schedulable", "Uncordoned"),
            ("Schedulable", "Cordoned", "Cordoned"),
        ]

    play(scenario)
