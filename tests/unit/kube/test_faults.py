"""The fault decorator: each row does what it says, a dead life stays dead, and one seed is one
story.
"""

import asyncio
import random
import re
from typing import Any

import pytest

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.wire.transport import Request
from federator.model.steps import ObjectRef
from tests.faults import table
from tests.faults.lives import Life
from tests.faults.rows import Sending
from tests.faults.schedules import Exactly, Schedule, Seeded
from tests.faults.transport import FaultTransport
from tests.unit.kube.scripted import (
    FOREVER,
    Script,
    bookmark,
    line,
    on_virtual_time,
    reply,
    stream,
    thing,
)

REF = ObjectRef("v1", "configmaps", "ns", "web", "ConfigMap")


def world(
    script: Script, schedule: Schedule, **options: Any
) -> tuple[Client, FaultTransport, Life]:
    life = Life("hub", options.pop("on_death", None))
    transport = FaultTransport(script, schedule, life, rng=random.Random(1), **options)
    return Client(transport, "host"), transport, life


async def hangs(call: Any) -> None:
    task = asyncio.create_task(call)
    await asyncio.sleep(1)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(("name", "reached"), [("crash-before-write", 0), ("crash-after-write", 1)])
def test_a_crash_ends_the_life_before_or_after_the_write(name: str, reached: int) -> None:
    deaths: list[str] = []

    async def main() -> None:
        script = Script(after=reply(thing("web", 1)))
        client, transport, life = world(
            script, Exactly(name, 0), on_death=lambda life: deaths.append(life.name)
        )
        await client.get(REF)
        await hangs(client.create(REF, {}))
        assert len(script.requests) == 1 + reached
        assert life.dead
        await hangs(client.get(REF))
        await hangs(client.create(REF, {}))
        assert len(script.requests) == 1 + reached
        assert transport.fired == {name: 1}

    on_virtual_time(main)()
    assert deaths == ["hub"]


@on_virtual_time
async def test_what_a_dead_life_was_waiting_for_never_arrives() -> None:
    slow = reply(thing("web", 1))
    slow.parts = (2.0, *slow.parts)
    client, _, life = world(
        Script(stream(line("ADDED", thing("a", 1)), 5.0, bookmark(2)), slow), Exactly("conflict", 9)
    )
    watch = await client.open_watch("v1", "things")
    assert await watch.batch()
    reading = asyncio.create_task(client.get(REF))
    hearing = asyncio.create_task(watch.batch())
    await asyncio.sleep(1)
    life.die()
    await asyncio.sleep(10)
    assert not reading.done()
    assert not hearing.done()
    for task in (reading, hearing):
        task.cancel()
    await asyncio.wait([reading, hearing])


@on_virtual_time
async def test_a_lost_reply_is_a_write_that_took_effect() -> None:
    script = Script(reply(thing("web", 1)))
    client, _, life = world(script, Exactly("lost-reply", 0))
    with pytest.raises(errors.Unreachable):
        await client.create(REF, {})
    assert len(script.requests) == 1
    assert not life.dead


@on_virtual_time
async def test_a_conflict_befalls_changes_only_and_reaches_nobody() -> None:
    script = Script(reply(thing("web", 1)))
    client, _, _ = world(script, Exactly("conflict", 0))
    await client.create(REF, {})
    with pytest.raises(errors.Conflict):
        await client.patch(REF, {})
    assert len(script.requests) == 1


@on_virtual_time
async def test_a_reset_watch_breaks_within_a_line() -> None:
    for seed in range(8):
        script = Script(
            stream(*[line("ADDED", thing("a", number)) for number in range(9)], FOREVER)
        )
        life = Life("hub")
        transport = FaultTransport(script, Exactly("watch-reset", 0), life, rng=random.Random(seed))
        watch = await Client(transport, "host").open_watch("v1", "things")
        heard = 0

        async def hear(watch: Any = watch) -> None:
            nonlocal heard
            while True:
                heard += len(await watch.batch() or [])

        with pytest.raises(errors.Unreachable):
            await hear()
        assert heard < 4
        await watch.close()


def drawn(seed: int) -> list[str]:
    schedule = Seeded(random.Random(seed), dict.fromkeys(table.REQUEST_FAULTS, 100))
    sendings = [
        Sending(
            process,
            cluster,
            Request(method, "/x", (("watch", "true"),) if method == "WATCH" else ()),
        )
        for method in ("POST", "PATCH", "GET", "WATCH") * 100
        for process, cluster in (("hub-0", "host"), ("hub-1", "a"), ("member-a", "a"))
    ]
    picks = [schedule.pick(sending) for sending in sendings]
    schedule.stop()
    assert not any(schedule.pick(sending) for sending in sendings)
    assert all(
        pick is None or pick.befalls(sending) for pick, sending in zip(picks, sendings, strict=True)
    )
    return [pick.name if pick else "" for pick in picks]


def test_one_seed_is_one_story_and_draws_differ_between_seeds() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_the_table_names_its_scenarios_and_unknown_names_are_refused() -> None:
    assert all(re.fullmatch(r"F\d+", fault.number) for fault in table.FAULTS.values())
    with pytest.raises(ValueError, match="no fault 'earthquake'"):
        Seeded(random.Random(1), {"earthquake": 1})
