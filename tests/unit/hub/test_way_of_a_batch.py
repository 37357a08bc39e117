"""The way of a batch from "a key is due" to "its decision is on the host": which modules it passes,
traced as it runs.

A module is passed when it stands on the call stack at one of the two ends of the way: where copies
are divided, and where the request is sent. What is only asked for a value, and returns, is not on
the way. Printed in docs/internals/batch.md.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from tests.house import sources
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
PLACER = "federator.hub.placing.placer"
STARTS = {"turn", "_written"}
"""Functions of placing with which the tasks of a batch begin."""
DIVIDES = ("federator.placement.division.division", "divide")
SENDS = ("federator.kube.leader.leader_gate", "request")
WAY = [
    "federator.kube.control.work_queue",
    "federator.hub.placing.placer",
    "federator.scheduling.cycle",
    "federator.placement.engine",
    "federator.placement.placing",
    "federator.placement.seating",
    "federator.placement.division.spread",
    "federator.placement.division.division",
    "federator.hub.host.decision_writer",
    "federator.kube.client",
    "federator.kube.wire.exchange",
    "federator.kube.leader.leader_gate",
]

ENTERED_MAX = 125
"""Modules with a call while the first batch of a process is decided and written: later ones find
more remembered. It varies with what members report in that second. Eight came with
properties, bounds, tolerations that end, and nodes to be added."""
SERVERS = ("federator.embedded", "federator.sandbox")
"""What stands in for other processes."""


def ours(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    """(module, function) of the frames of this project, the innermost first."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("federator."):
            yield name, frame.f_code.co_name
        frame = frame.f_back


def is_sent_decision(frame: FrameType) -> bool:
    request = frame.f_locals.get("request")
    return (
        request is not None
        and request.method == "POST"
        and request.path.endswith("/placementdecisions")
    )


def passed(stack: list[tuple[str, str]]) -> list[str]:
    """The modules of a stack from placing on, the outermost first; empty for a stack that is not of
    a batch.
    """
    begins = [
        at for at, (module, function) in enumerate(stack) if module == PLACER and function in STARTS
    ]
    if not begins:
        return []
    inside = [module for module, _ in stack[: begins[-1] + 1]]
    outside = [
        module
        for module, _ in stack[begins[-1] + 1 :]
        if module.startswith("federator.kube.control")
    ]
    return list(dict.fromkeys([*reversed(outside), *reversed(inside)]))


def test_a_batch_passes_few_modules_from_due_to_written() -> None:
    """Of a workload without room for all of its copies: others that are new may be divided over
    columns (`placement.columnwise`), a part of this way."""
    ends: dict[tuple[str, str], list[str]] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        end = (str(frame.f_globals.get("__name__", "")), frame.f_code.co_name)
        if end == DIVIDES or (end == SENDS and is_sent_decision(frame)):
            ends.setdefault(end, passed(list(ours(frame))))

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(600))
        gc.collect()
        gc.disable()  # a collection would end coroutines that earlier tests left, on this way
        sys.setprofile(profile)
        try:
            await asyncio.sleep(1)
        finally:
            sys.setprofile(None)
            gc.enable()
        await world.settle()

    play(scenario)
    way = list(dict.fromkeys([*ends[DIVIDES], *ends[SENDS]]))
    assert way == WAY
    assert len(way) <= 12


def test_a_first_placement_enters_few_modules() -> None:
    """Every module with a call on the way, also one that is only asked for a value. A reader who
    follows one decision opens them all.
    """
    entered: set[str] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not str(frame.f_globals.get("__name__", "")).startswith("federator."):
            return
        stack = list(ours(frame))
        if passed(stack) and not any(module.startswith(SERVERS) for module, _ in stack):
            entered.add(stack[0][0])

    async def scenario(world: World) -> None:
        await asyncio.sleep(5)
        await world.create(PSVC, "feed", "web", service(6))
        gc.collect()
        gc.disable()  # a collection would end coroutines that earlier tests left, on this way
        sys.setprofile(profile)
        try:
            await asyncio.sleep(1)
        finally:
            sys.setprofile(None)
            gc.enable()
        await world.settle()
        assert sum((await world.shares("feed", "web")).values()) == 6

    play(scenario)
    assert {PLACER, DIVIDES[0], SENDS[0]} <= entered
    assert len(entered) <= ENTERED_MAX, sorted(entered)


def test_the_page_shows_the_way_as_it_is() -> None:
    page = (sources.ROOT / "docs" / "internals" / "batch.md").read_text(encoding="utf-8")
    shown = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `federator/")]
    assert shown == [f"{module.replace('.', '/')}.py" for module in WAY]
    assert f"at most {ENTERED_MAX} modules" in page
