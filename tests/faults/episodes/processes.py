"""Episodes and faults of processes: crashes in a row, loops of crashes, frozen machines, a restart
in the dark."""

import asyncio
import contextlib
import contextvars
import random
from collections.abc import AsyncIterator, Coroutine

from federator.kube.wire.transport import Response
from tests.faults.episodes.partitions import (
    Pairs,
    hub_to_member,
    hubs_to_every_member,
    severed,
)
from tests.faults.links import Cut
from tests.faults.rows import Episode, Injection, RequestFault, Sending, Stage, is_hub

LOOP_S = 5.0
"""Between two crashes of one that crashes over and over."""
BLOCKED_S = 20.0
SUSPENDED_S = 60.0


@contextlib.asynccontextmanager
async def meanwhile(what: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """`what` runs while this is entered, and is cancelled when it is left. Raises what it
    raises."""
    task = asyncio.get_running_loop().create_task(what, name="episode")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


def crashed(stage: Stage, process: str) -> bool:
    """Kills a process; False when it was down already."""
    if stage.life(process).dead:
        return False
    stage.kill(process)
    return True


@contextlib.asynccontextmanager
async def crash_twice(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Two crashes within seconds: of one process, or of two."""

    async def second() -> None:
        await asyncio.sleep(pause_s)
        while not crashed(stage, victims[1]):  # noqa: ASYNC110 - it is down, and starts by the clock
            await asyncio.sleep(0.1)
        if first:
            stage.happened("crash-twice")

    pause_s = rng.uniform(0.0, LOOP_S)
    victim, other = rng.choice(list(stage.processes)), rng.choice(list(stage.processes))
    victims = (victim, victim if rng.random() < 0.5 else other)
    first = crashed(stage, victims[0])
    async with meanwhile(second()):
        yield


@contextlib.asynccontextmanager
async def crash_loop(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """One process, or every hub, dies every few seconds."""

    async def over_and_over() -> None:
        while True:
            for victim in victims:
                if crashed(stage, victim):
                    stage.happened("crash-loop")
            await asyncio.sleep(LOOP_S)

    victims = list(stage.hubs) if rng.random() < 0.5 else [rng.choice(list(stage.processes))]
    async with meanwhile(over_and_over()):
        yield


@contextlib.asynccontextmanager
async def member_process_down(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A member's process is gone for longer than the grace, beside an API server that answers."""
    process = f"member-{rng.choice(list(stage.members))}"
    stage.hold_down(process)
    stage.happened("member-process-down")
    try:
        yield
    finally:
        stage.let_up(process)


@contextlib.asynccontextmanager
async def frozen(stage: Stage, name: str, process: str) -> AsyncIterator[None]:
    """A process stands still while this is entered; what it has in hand goes on after that,
    late."""
    life = stage.life(process)
    stands = not life.dead and not life.frozen
    if stands:
        stage.say(f"{life.name} is frozen")
        life.freeze()
    try:
        yield
    finally:
        if stands and not life.dead:
            stage.say(f"{life.name} thaws")
            stage.happened(name)
            life.thaw()


def leader_frozen(stage: Stage, rng: random.Random) -> contextlib.AbstractAsyncContextManager[None]:
    """The hub that leads stands still for so long that another takes its place."""
    return frozen(stage, "leader-frozen", stage.leader() or rng.choice(list(stage.hubs)))


def process_frozen(
    stage: Stage, rng: random.Random
) -> contextlib.AbstractAsyncContextManager[None]:
    """The loop of any process is blocked."""
    return frozen(stage, "process-frozen", rng.choice(list(stage.processes)))


async def _freeze_with_write(at: Injection) -> Response:
    """The machine stops when the process has let go of the write, before the wire has it: it leaves
    when the machine goes on, whatever the process does then."""

    async def leave() -> Response:
        await asyncio.sleep(SUSPENDED_S)
        at.life.thaw()
        at.life.on_its_way -= 1
        return await at.inner.request(at.request)

    at.life.freeze()
    at.life.on_its_way += 1
    # Not in the context of the life: that stands still.
    packet = asyncio.get_running_loop().create_task(
        leave(), name="late write", context=contextvars.Context()
    )
    packet.add_done_callback(_heard)
    return await asyncio.shield(packet)


def _heard(packet: "asyncio.Task[Response]") -> None:
    """What went wrong with it is its sender's to know, if that is still there."""
    if not packet.cancelled():
        packet.exception()


async def _crash_at_list(at: Injection) -> Response:
    if at.rng.random() < 0.5:
        response = await at.inner.request(at.request)
        await response.close()
    at.life.die()
    await at.life.rest()


def a_list(sending: Sending) -> bool:
    """A read of many objects: what caches are filled by when a process starts."""
    return sending.reads and any(name == "limit" for name, _ in sending.request.query)


def a_hub_s_write(sending: Sending) -> bool:
    """A write of work by a hub, not of its own lease."""
    return sending.writes and is_hub(sending.process) and "/leases" not in sending.request.path


@contextlib.asynccontextmanager
async def restart_in_the_dark(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Hubs start again while one member, or all, cannot be reached."""
    chosen: Pairs = (
        hubs_to_every_member(stage, rng) if rng.random() < 0.5 else hub_to_member(stage, rng)
    )
    how = rng.choice((Cut.SILENT, Cut.REFUSED))
    async with (
        severed(stage, "restart-in-the-dark", chosen, how),
        meanwhile(_restart_hubs(stage, rng)),
    ):
        yield


async def _restart_hubs(stage: Stage, rng: random.Random) -> None:
    await asyncio.sleep(rng.uniform(0.0, LOOP_S))
    for hub in stage.hubs:
        crashed(stage, hub)


ROWS = (
    Episode(
        "crash-twice",
        "F3",
        "one process, or two",
        "they start again within the world's time for restarts",
        crash_twice,
        (10.0, 20.0),
    ),
    RequestFault("crash-at-list", "F4", "a list, as at a start", a_list, _crash_at_list, 80, 20),
    Episode(
        "crash-loop",
        "F5",
        "one process, or every hub",
        "after 20 to 90 s",
        crash_loop,
        (20.0, 90.0),
    ),
    Episode(
        "member-process-down",
        "F5",
        "a member's process",
        "starts again after 100 to 200 s",
        member_process_down,
        (100.0, 200.0),
    ),
    Episode(
        "leader-frozen",
        "F6",
        "the leading hub",
        "goes on after 20 to 60 s",
        leader_frozen,
        (20.0, 60.0),
    ),
    RequestFault(
        "freeze-at-write", "F6", "a hub's write of work", a_hub_s_write, _freeze_with_write, 10, 0
    ),
    Episode(
        "process-frozen",
        "F10",
        "any process",
        "goes on after 20 s",
        process_frozen,
        (BLOCKED_S, BLOCKED_S),
    ),
    Episode(
        "restart-in-the-dark",
        "F27",
        "every hub, and one member or all",
        "members answer again after 20 to 90 s",
        restart_in_the_dark,
        (20.0, 90.0),
    ),
)
