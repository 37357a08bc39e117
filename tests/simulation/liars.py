"""What a lying member says of the slices that it holds. What it was not given is no word of its
own.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from federator.kinds import registry
from federator.kube import errors
from federator.model import seq as seqs
from federator.model import shards
from tests.faults.episodes.objects import going_on, ours
from tests.faults.rows import is_hub
from tests.simulation.acts import Act, Actor, Obj, lying
from tests.simulation.tenants import ESCAPES

if TYPE_CHECKING:
    from tests.simulation.world import World

REPORTED_S = 4.0
"""Within so long a member process has written down what it has obeyed."""
MANY = 1_000_000
JOBSET, SERVICE = "PinterestJobSet", "PinterestService"


def _as_many_as_it_likes(kind: str, obj: Obj) -> Mapping[str, Any] | None:
    if kind == JOBSET:
        return None
    named = {"Deployment": ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")}
    return dict.fromkeys(named.get(kind, ("ready", "replicas", "updatedReplicas")), MANY)


def _all_shards(kind: str, obj: Obj) -> Mapping[str, Any] | None:
    if kind != JOBSET:
        return None
    return {"completedIndexes": shards.text(((0, int(obj["spec"]["shards"]) - 1),))}


def _escapes(kind: str, obj: Obj) -> Mapping[str, Any] | None:
    told = f"all is well{ESCAPES}"
    condition = {"type": "Ready", "status": "False", "reason": "Progressing", "message": told}
    when = obj["metadata"].get("creationTimestamp", "")
    return {"conditions": [{**condition, "lastTransitionTime": when}]}


@contextlib.asynccontextmanager
async def ready_by_the_million(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """It says that a million copies are ready of everything that it was given a few of."""
    async with lying(world, rng, "ready-by-the-million", _as_many_as_it_likes):
        yield


@contextlib.asynccontextmanager
async def others_shards_done(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """It says that every shard of a job set is completed, whoever was given it."""
    async with lying(world, rng, "others-shards-done", _all_shards):
        yield


@contextlib.asynccontextmanager
async def escapes_in_conditions(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """It writes escape sequences into what it says is wrong."""
    async with lying(world, rng, "escapes-in-conditions", _escapes):
        yield


def _any_number(obj: Obj, rng: random.Random) -> int:
    """One above that of the slice: by a little, or by as much as no fleet ever decides."""
    seq = int(obj["spec"]["slice"]["seq"])
    return min(seq + (1 << rng.randrange(48)), seqs.MAX // 2)


@contextlib.asynccontextmanager
async def numbers_raised(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """Its administrator raises the numbers of slices, again and again."""
    cluster = rng.choice(list(world.members))
    world.say(f"{cluster:12} lies: numbers-raised")
    world.liars.add(cluster)
    async with going_on(world, "numbers-raised", _raising(world, cluster, rng)):
        yield


async def _raising(world: "World", cluster: str, rng: random.Random) -> None:
    client = world.user(cluster)
    while True:
        found = [(ref, obj) for ref, obj in ours(world, cluster) if "slice" in obj.get("spec", ())]
        for ref, obj in rng.sample(found, min(len(found), 3)):
            with contextlib.suppress(errors.NotFound, errors.Invalid):
                await client.patch(ref, {"spec": {"slice": {"seq": _any_number(obj, rng)}}})
                world.happened("numbers-raised")
        await asyncio.sleep(rng.uniform(0.2, 4.0))


@contextlib.asynccontextmanager
async def write_of_the_past(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """A slice is removed while nobody looks, and the write of a decision before the last makes it
    anew: it was on its way for long. The member process that finds it has just been started; no hub
    is there to help it.
    """
    held: list[str] = []
    try:
        async with going_on(world, "write-of-the-past", _from_the_past(world, rng, held)):
            yield
    finally:
        for process in held:
            world.let_up(process)


async def _from_the_past(world: "World", rng: random.Random, held: list[str]) -> None:
    cluster = rng.choice(list(world.members))
    client = world.user(cluster)
    world.liars.add(cluster)
    found = [(ref, obj) for ref, obj in ours(world, cluster) if "slice" in obj.get("spec", ())]
    if not found:
        return
    ref, before = rng.choice(found)
    with contextlib.suppress(errors.NotFound, errors.Invalid, errors.AlreadyExists):
        await client.patch(ref, {"spec": {"slice": {"seq": before["spec"]["slice"]["seq"] + 1}}})
        await asyncio.sleep(REPORTED_S)
        held += [*filter(is_hub, sorted(world.lives)), f"member-{cluster}"]
        for process in held:
            world.hold_down(process)
        live = await client.get(ref)
        if live["spec"]["slice"]["seq"] <= before["spec"]["slice"]["seq"]:
            return
        await client.delete(ref, uid=live["metadata"]["uid"])
        await asyncio.sleep(REPORTED_S)
        meta = {
            name: before["metadata"].get(name, {})
            for name in ("name", "namespace", "labels", "annotations")
        }
        kind = registry.KINDS[ref.kind]
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": meta,
            "spec": before["spec"],
        }
        await client.create(ref, body)
        world.let_up(held.pop())
        world.happened("write-of-the-past")


ROWS = (
    Act(
        "write-of-the-past",
        Actor.MEMBER,
        "4",
        (
            "a slice as an earlier decision wrote it, after it was removed and the member "
            "process restarted"
        ),
        "the hubs are there again and write it as it is decided",
        write_of_the_past,
        lasts_s=(20.0, 30.0),
    ),
    Act(
        "numbers-raised",
        Actor.MEMBER,
        "4",
        "higher numbers of decisions in the slices that it holds",
        "nobody raises them any more; they stay as high as they are",
        numbers_raised,
    ),
    Act(
        "ready-by-the-million",
        Actor.MEMBER,
        "15",
        "a million ready copies of what it was given a few of",
        "its own process begins anew and tells what is true",
        ready_by_the_million,
    ),
    Act(
        "others-shards-done",
        Actor.MEMBER,
        "1",
        "shards completed that others were given",
        "its own process begins anew; of its own shards, what it said stays said",
        others_shards_done,
    ),
    Act(
        "escapes-in-conditions",
        Actor.MEMBER,
        "27",
        "escape sequences in the messages of its conditions",
        "its own process begins anew and tells what is true",
        escapes_in_conditions,
    ),
)
