"""The host's copy of what a member has room for, which `federator place` and `plan` read: written
when a plan made from the last copy would be wrong, and not for every small drift.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from federator.hub.status.member_status import moved
from federator.model.fleet import Capacity, NodeRow
from federator.model.kubernetes.taints import Taint
from federator.model.resources import Resources
from federator.model.steps import ObjectRef
from tests.unit.hub.taints import taint_all
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
PERMILLE = 10
ROW = NodeRow(4, Resources({"cpu": 8000}), Resources({"cpu": 6000}), family="m6")
BEFORE = Capacity(rows=(ROW,), copies={"small": 40, "large": 0})
TAINT = Taint("gpu-only", "x")


def split(**other: Any) -> tuple[NodeRow, ...]:
    """The same machines, one of which is otherwise."""
    return (replace(ROW, count=3), replace(ROW, count=1, **other))


@pytest.mark.parametrize(
    ("after", "news"),
    [
        pytest.param(BEFORE, False, id="nothing"),
        pytest.param(replace(BEFORE, rows=split()), False, id="rows cut otherwise"),
        pytest.param(
            replace(BEFORE, rows=split(free=Resources({"cpu": 5900}))),
            False,
            id="a little less room",
        ),
        pytest.param(replace(BEFORE, copies={"small": 39, "large": 0}), False, id="a copy less"),
        pytest.param(
            replace(BEFORE, rows=split(free=Resources({"cpu": 4000}))), True, id="much less room"
        ),
        pytest.param(
            replace(BEFORE, rows=split(taints=(TAINT,))), True, id="a taint on one machine"
        ),
        pytest.param(replace(BEFORE, rows=split(family="c6")), True, id="another machine"),
        pytest.param(replace(BEFORE, includes_seq=7), True, id="later decisions are included"),
        pytest.param(
            replace(BEFORE, copies={"small": 0, "large": 0}), True, id="a shape that fits no more"
        ),
        pytest.param(
            replace(BEFORE, copies={"small": 40, "large": 1}), True, id="a shape that fits again"
        ),
    ],
)
def test_only_what_would_make_a_plan_wrong_is_news(after: Capacity, news: bool) -> None:
    assert moved(BEFORE, after, PERMILLE) is news
    assert moved(after, BEFORE, PERMILLE) is news


def test_the_order_in_which_a_node_lists_its_taints_is_no_news() -> None:
    other = Taint("dedicated")
    one = replace(BEFORE, rows=(replace(ROW, taints=(TAINT, other)),))
    assert not moved(one, replace(BEFORE, rows=(replace(ROW, taints=(other, TAINT)),)), PERMILLE)


async def tainted(world: World, member: str) -> int:
    """Nodes with taints, by the host's copy."""
    found = await world.get("MemberCluster", "", member)
    assert found is not None
    return sum(row["count"] for row in found["status"]["capacity"]["nodes"] if row.get("taints"))


def test_taints_that_come_and_go_reach_the_copy_on_the_host_and_no_more_is_written() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await asyncio.sleep(60)
        await taint_all(world, "a", 4)
        await asyncio.sleep(90)
        assert await tainted(world, "a") == 4
        world.writes.clear()
        await asyncio.sleep(300)
        assert world.writes["hub", "host", "PATCH", "memberclusters/status"] == 0

        for index in range(4):
            ref = ObjectRef("v1", "nodes", "", f"a-0-{index}", "Node")
            await world.member("a").patch(ref, {"spec": {"taints": None}})
        await asyncio.sleep(90)
        assert await tainted(world, "a") == 0

    play(scenario)
