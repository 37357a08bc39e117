"""What the rows about deletions and limits promise: nothing is left behind, nothing that runs is
killed by a limit.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.faults.episodes import guests
from tests.simulation import solo
from tests.simulation.invariants import Obj, all_of
from tests.simulation.world import World

pytestmark = pytest.mark.long


def _held(world: World) -> dict[str, int]:
    """Copies of the row's own service by member."""
    return dict(solo.shares(world).get("guest", {}))


def _decisions(world: World) -> list[Obj]:
    found = all_of(world.federation.host, "PlacementDecision")
    return [obj for obj in found if obj["metadata"]["namespace"].startswith("guest-")]


def test_a_deletion_names_the_member_it_waits_for_and_ends_when_that_is_back() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "deleted-while-unreachable"):
            await asyncio.sleep(60)
            (decision,) = _decisions(world)
            blocked = decision["spec"]["deletion"]
            assert blocked["reason"] == "DeletionBlocked"
            assert list(_held(world)) == blocked["waitingFor"]
        await asyncio.sleep(30)
        assert (_held(world), _decisions(world)) == ({}, [])

    solo.tell(story)


def test_what_was_deleted_while_no_hub_ran_is_removed_by_the_next_one() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "deleted-while-hubs-are-down", draw=1):
            held = _held(world)
            await asyncio.sleep(20)
            assert _held(world) == held
        await asyncio.sleep(45)
        assert (_held(world), _decisions(world)) == ({}, [])

    solo.tell(story)


def test_nothing_is_made_in_a_namespace_that_is_ending_and_nobody_fights_for_it() -> None:
    tried: list[str] = []

    async def story(world: World) -> None:
        space = guests.namespace_of("namespace-terminating")
        async with solo.happening(world, "namespace-terminating", draw=2):
            world.listeners.append(
                lambda sent: (
                    tried.append(sent.text())
                    if sent.writes
                    and f"/namespaces/{space}/" in sent.request.path
                    and sent.status == 403
                    else None
                )
            )
            await asyncio.sleep(60)
            assert len(tried) < 20, tried[:20]
        await asyncio.sleep(30)
        assert _held(world) == {}

    solo.tell(story)


def test_a_quota_below_its_use_or_gone_kills_nothing_and_a_lowered_one_admits_no_more() -> None:
    def look(row: str, more: bool) -> Callable[[World], Awaitable[None]]:
        async def story(world: World) -> None:
            async with solo.happening(world, row):
                before = sum(_held(world).values())
                await asyncio.sleep(30)
                now = sum(_held(world).values())
                assert now > before if more else now == before
                (decision,) = _decisions(world)
                assert (
                    decision["spec"].get("shortfall", 0) == 0
                    if more
                    else decision["spec"]["shortfall"] > 0
                )

        return story

    solo.tell(look("quota-lowered", more=False))
    solo.tell(look("quota-deleted", more=True))
