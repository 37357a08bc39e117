"""What a lying member says of the slices that it holds. What it was not given is no word of its own."""

import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from federator.model import shards
from tests.simulation.acts import Act, Actor, Obj, lying
from tests.simulation.tenants import ESCAPES

if TYPE_CHECKING:
    from tests.simulation.world import World

MANY = 1_000_000
JOBSET, SERVICE = "PinterestJobSet", "PinterestService"


def _as_many_as_it_likes(kind: str, obj: Obj) -> Mapping[str, Any] | None:
    if kind == JOBSET:
        return None
    named = {"Deployment": ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")}
    return dict.fromkeys(named.get(kind, ("ready", "updated", "actual")), MANY)


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


ROWS = (
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
