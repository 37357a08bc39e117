"""The history of a workload at the query port: told to whoever may get the workload, and only of the
object that has the name now.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from federator.hub.history import entry as entries
from federator.hub.history.entry import HistoryEntry, Kind
from federator.hub.history.journal import Journal
from federator.hub.history.options import HistoryOptions
from federator.hub.history.segments import Segments
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.asking import PSVC, WEB, grant, port_of, request

KEY = "PinterestService/feed/web"
Ask = Callable[..., Awaitable[dict[str, Any]]]


async def created(world: World) -> str:
    """Creates the service; returns its uid."""
    await world.create("PinterestService", "feed", "web", worlds.service(6))
    await world.settle()
    found = await world.get("PinterestService", "feed", "web")
    assert found is not None
    return str(found["metadata"]["uid"])


def decision(at: float, uid: str = "", key: str = KEY, **after: int) -> HistoryEntry:
    return HistoryEntry(at=at, kind=Kind.DECISION, key=key, uid=uid, after=after, cause="Placed")


def asker(world: World, folder: Path, told: list[HistoryEntry]) -> Ask:
    """Asks a port whose history holds these entries."""
    journal = Journal(HistoryOptions(directory=str(folder)), world.federation.clock)
    Segments(folder, segment_bytes=1 << 20, segments=2).append(
        [entries.line(entry) for entry in told]
    )
    port = port_of(world, journal=journal)

    async def asked(query: str = "", user: str = "owner") -> dict[str, Any]:
        return asking.body(await port.answer(request(f"{WEB}/history", user=user, query=query)))

    return asked


def test_the_history_of_a_workload_is_told_to_who_may_get_it_and_of_no_other(
    tmp_path: Path,
) -> None:
    async def scenario(world: World) -> None:
        uid = await created(world)
        await asyncio.sleep(120)
        await grant(world, "owner", "feed", PSVC)
        await grant(world, "other", "ads", PSVC)
        now = world.federation.clock.now()
        told = [
            HistoryEntry(at=now - 100, kind=Kind.LEADER, after=1, evidence="hub-0_abc"),
            decision(now - 90, uid, a=6),
            decision(now - 80, "another", "PinterestService/feed/web-2", b=1),
            HistoryEntry(at=now - 70, kind=Kind.CLUSTER, key="MemberCluster/a", before="Ready"),
            HistoryEntry(
                at=now - 10, kind=Kind.CONDITION, key=KEY, uid=uid, after="Ready=True Ready"
            ),
        ]
        asked = asker(world, tmp_path, told)

        whole = await asked()
        assert [row["kind"] for row in whole["entries"]] == ["Leader", "Decision", "Condition"]
        assert whole["entries"][1]["to"] == {"a": 6}
        assert "evidence" not in whole["entries"][0], "which hub led is nobody's business here"
        assert whole["begins"] == pytest.approx(now - 100)
        assert [row["kind"] for row in (await asked("since_seconds=50"))["entries"]] == [
            "Condition"
        ]
        assert [row["kind"] for row in (await asked("before_seconds=50"))["entries"]] == [
            "Leader",
            "Decision",
        ]
        newest = await asked("limit=1")
        assert ([row["kind"] for row in newest["entries"]], newest["more"]) == (["Condition"], True)
        assert (await asked(user="other"))["code"] == 403
        assert (await asked("limit=1001"))["code"] == 400
        nothing = await port_of(world).answer(request(f"{WEB}/history", user="owner"))
        assert (nothing.status, asking.body(nothing)["message"]) == (
            404,
            "this hub keeps no history: its setting history.directory is empty",
        )

    worlds.play(scenario)


def test_a_new_owner_of_a_name_does_not_read_the_life_of_its_predecessor(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        before = world.federation.clock.now()
        await asyncio.sleep(60)
        uid = await created(world)
        await grant(world, "owner", "feed", PSVC)
        now = world.federation.clock.now()
        told = [
            decision(before, "a-former-uid", a=1),
            decision(before, a=2),  # written by an earlier version
            decision(now, uid, a=3),
            decision(now, a=4),
            decision(now, "a-former-uid", a=5),
        ]
        asked = asker(world, tmp_path, told)

        assert [row["to"] for row in (await asked())["entries"]] == [{"a": 3}, {"a": 4}]

    worlds.play(scenario)


def test_after_the_deletion_the_last_object_of_a_name_is_told_of_and_no_former_namespace(
    tmp_path: Path,
) -> None:
    async def scenario(world: World) -> None:
        before = world.federation.clock.now()
        await asyncio.sleep(60)
        uid = await created(world)
        await grant(world, "owner", "feed", PSVC)
        now = world.federation.clock.now()
        await world.delete("PinterestService", "feed", "web")
        await world.settle()
        told = [decision(before, uid, a=1), decision(now, "earlier", a=2), decision(now, uid, a=3)]
        asked = asker(world, tmp_path, told)

        assert [row["to"] for row in (await asked())["entries"]] == [{"a": 3}]

    worlds.play(scenario)
