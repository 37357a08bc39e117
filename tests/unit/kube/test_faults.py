"""The fault decorator: each row does what it says, a dead life stays dead, and one seed is one story."""

import asyncio
import collections
import random
from typing import Any

import pytest

from federator.embedded import faults
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.transport import Request
from federator.model.steps import ObjectRef
from tests.unit.kube.scripted import FOREVER, Script, bookmark, line, on_virtual_time, reply, stream, thing

REF = ObjectRef("v1", "configmaps", "ns", "web", "ConfigMap")


def world(
    script: Script, schedule: faults.Schedule, **options: Any
) -> tuple[Client, faults.FaultTransport, faults.Life]:
    life = faults.Life("hub", options.pop("on_death", None))
    transport = faults.FaultTransport(script, schedule, life, rng=random.Random(1), **options)
    return Client(transport, "host"), transport, life


async def hangs(call: Any) -> None:
    task = asyncio.create_task(call)
    await asyncio.sleep(1)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(("name", "reached"), [("crash-before-write", 0), ("crash-after-write", 1)])
def test_a_crash_ends_the_life_before_or_after_the_write(name, reached):
    deaths: list[str] = []

    async def main() -> None:
        script = Script(after=reply(thing("web", 1)))
        client, transport, life = world(script, faults.Exactly(name, 0), on_death=lambda life: deaths.append(life.name))
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
async def test_what_a_dead_life_was_waiting_for_never_arrives():
    slow = reply(thing("web", 1))
    slow.parts = (2.0, *slow.parts)
    client, _, life = world(
        Script(stream(line("ADDED", thing("a", 1)), 5.0, bookmark(2)), slow), faults.Exactly("conflict", 9)
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
async def test_a_lost_reply_is_a_write_that_took_effect():
    script = Script(reply(thing("web", 1)))
    client, _, life = world(script, faults.Exactly("lost-reply", 0))
    with pytest.raises(errors.Unreachable):
        await client.create(REF, {})
    assert len(script.requests) == 1
    assert not life.dead


@on_virtual_time
async def test_a_conflict_befalls_changes_only_and_reaches_nobody():
    script = Script(reply(thing("web", 1)))
    client, _, _ = world(script, faults.Exactly("conflict", 0))
    await client.create(REF, {})
    with pytest.raises(errors.Conflict):
        await client.patch(REF, {})
    assert len(script.requests) == 1


@on_virtual_time
async def test_a_reset_watch_breaks_within_a_line():
    for seed in range(8):
        script = Script(stream(*[line("ADDED", thing("a", number)) for number in range(9)], FOREVER))
        life = faults.Life("hub")
        transport = faults.FaultTransport(script, faults.Exactly("watch-reset", 0), life, rng=random.Random(seed))
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
    schedule = faults.Seeded(random.Random(seed), dict.fromkeys(faults.FAULTS, 100))
    requests = [
        Request(method, "/x", (("watch", "true"),) if method == "WATCH" else ())
        for method in ("POST", "PATCH", "GET", "WATCH") * 100
    ]
    picks = [schedule.pick("host", request) for request in requests]
    schedule.stop()
    assert not any(schedule.pick("host", request) for request in requests)
    assert all(pick is None or faults.befalls(pick, request) for pick, request in zip(picks, requests, strict=True))
    return [pick.name if pick else "" for pick in picks]


def test_one_seed_is_one_story_and_every_fault_happens():
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    seen = collections.Counter(name for seed in range(5) for name in drawn(seed))
    assert set(seen) == {"", *faults.FAULTS}


def test_the_table_names_its_scenarios_and_unknown_names_are_refused():
    assert len(faults.FAULTS) >= 5
    assert all(fault.number.startswith("F") for fault in faults.FAULTS.values())
    with pytest.raises(ValueError, match="no fault 'meteor'"):
        faults.Seeded(random.Random(1), {"meteor": 1})
