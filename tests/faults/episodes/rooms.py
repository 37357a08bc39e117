"""Episodes of room that goes: what the hub had counted on in a member is taken by others, drained
or lost.

The member says so a moment later, and what was decided before that finds no machine. Nothing is
moved by a failover: copies that cannot be bound for a while are given elsewhere, and what runs
stays.
"""

import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.faults.episodes import guests
from tests.faults.episodes.guests import Obj
from tests.faults.rows import Episode, Stage

NAMESPACE = "default"
POD_CPU = "1"
BOUND_S = 10.0
"""How long an episode waits for the first of its pods to find a machine, in virtual seconds."""


@contextlib.asynccontextmanager
async def room_taken(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Another client starts pods of its own in one member, enough to take every free cpu of its
    machines."""
    member = rng.choice(list(stage.members))
    client = stage.user(member)
    refs = [_pod(f"taker-{number:02}") for number in range(_cpus(stage, member))]
    for ref in refs:
        await client.create(ref, _body(ref))
    if await guests.until(lambda: any(_node_of(stage, member, ref) for ref in refs), BOUND_S):
        stage.happened("room-taken")
    try:
        yield
    finally:
        for ref in refs:
            await guests.drop(stage, member, ref)


@contextlib.asynccontextmanager
async def node_drained(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A machine of one member is cordoned and all its pods are thrown out; in the end it is open
    again."""
    member = rng.choice(list(stage.members))
    name = rng.choice(nodes(stage, member))
    if await drain(stage, member, name):
        stage.happened("node-drained")
    try:
        yield
    finally:
        await uncordon(stage, member, name)


async def drain(stage: Stage, member: str, name: str) -> int:
    """Cordons a machine and deletes its pods; returns how many."""
    client, gone = stage.user(member), 0
    await client.patch(_node(name), {"spec": {"unschedulable": True}})
    for pod in _pods_on(stage, member, name):
        meta = pod["metadata"]
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await client.delete(_pod(meta["name"], meta["namespace"]), uid=meta["uid"])
            gone += 1
    return gone


async def uncordon(stage: Stage, member: str, name: str) -> None:
    """Opens a machine again, if it is there: the cluster may have been made anew meanwhile."""
    with contextlib.suppress(errors.NotFound):
        await stage.user(member).patch(_node(name), {"spec": {"unschedulable": None}})


@contextlib.asynccontextmanager
async def node_lost(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A machine of one member falls silent: its pods are not ready, and later are given up."""
    member = rng.choice(list(stage.members))
    name = rng.choice(nodes(stage, member))
    if _pods_on(stage, member, name):
        stage.happened("node-lost")
    await _say_ready(stage, member, name, "Unknown")
    try:
        yield
    finally:
        await _say_ready(stage, member, name, "True")


async def _say_ready(stage: Stage, member: str, name: str, truth: str) -> None:
    stored = guests.stored(stage.federation.members[member], _node(name))
    if stored is None:
        return
    others = [
        condition for condition in stored["status"]["conditions"] if condition["type"] != "Ready"
    ]
    ready = [
        {**condition, "status": truth}
        for condition in stored["status"]["conditions"]
        if condition["type"] == "Ready"
    ]
    await stage.user(member).patch(
        _node(name), {"status": {"conditions": [*others, *ready]}}, subresource="status"
    )


def nodes(stage: Stage, member: str) -> list[str]:
    """The names of a member's machines."""
    served = stage.federation.members[member]
    return sorted(stored.key[1] for stored in served.store.items(served.registry.get("", "nodes")))


def _cpus(stage: Stage, member: str) -> int:
    served = stage.federation.members[member]
    stored = served.store.items(served.registry.get("", "nodes"))
    return sum(int(node.obj["status"]["allocatable"]["cpu"]) for node in stored)


def _pods_on(stage: Stage, member: str, node: str) -> list[Obj]:
    served = stage.federation.members[member]
    pods = served.store.items(served.registry.get("", "pods"))
    return [pod.obj for pod in pods if pod.obj["spec"].get("nodeName") == node]


def _node_of(stage: Stage, member: str, ref: ObjectRef) -> str:
    stored = guests.stored(stage.federation.members[member], ref)
    return "" if stored is None else str(stored["spec"].get("nodeName") or "")


def _node(name: str) -> ObjectRef:
    return ObjectRef("v1", "nodes", "", name, "Node")


def _pod(name: str, namespace: str = NAMESPACE) -> ObjectRef:
    return ObjectRef("v1", "pods", namespace, name, "Pod")


def _body(ref: ObjectRef) -> dict[str, Any]:
    container = {"name": "app", "image": "theirs:1", "resources": {"requests": {"cpu": POD_CPU}}}
    meta = {"name": ref.name, "namespace": ref.namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container]},
    }


ROWS = (
    Episode(
        "room-taken", "F38", "one member", "when somebody's pods go", room_taken, (20.0, 150.0)
    ),
    Episode(
        "node-drained",
        "F38",
        "a machine of one member",
        "when it is open again",
        node_drained,
        (5.0, 150.0),
    ),
    Episode(
        "node-lost",
        "F38",
        "a machine of one member",
        "when it is heard of again",
        node_lost,
        (5.0, 150.0),
    ),
)
