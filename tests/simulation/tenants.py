"""What a hostile tenant does on the host: with his own rights there, and never as an administrator."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from federator.api import kinds
from federator.model import seq as seqs
from tests.simulation.acts import TENANT, Act, Actor, service, tenant, tried
from tests.simulation.invariants import FORGED

if TYPE_CHECKING:
    from tests.simulation.world import World

ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202e\u2066\x00"[:-1]
"""Clears a terminal, names its window, and turns what follows around."""
EDIT_S = (1.0, 5.0)
"""From one edit to the next."""


@contextlib.asynccontextmanager
async def escapes_in_words(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """He writes escape sequences wherever a text of his may go: annotations, images, policies that are named."""
    async with tenant(world) as client:
        ref, body = service("loud", rng.randint(1, 3), placement={"policyRef": {"name": f"none{ESCAPES}"}})
        if await tried(world, "escapes-in-words", client.create(ref, body)) is None:
            ref, body = service("loud", rng.randint(1, 3))
            await tried(world, "escapes-in-words", client.create(ref, body))
        for patch in (
            {"metadata": {"annotations": {"example.com/note": ESCAPES}}},
            {"metadata": {"labels": {"loud": ESCAPES}}},
            {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": f"app:1{ESCAPES}"}]}}}},
            {"spec": {"project": f"feed{ESCAPES}"}},
        ):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            await tried(world, "escapes-in-words", client.patch(ref, patch))
        yield


@contextlib.asynccontextmanager
async def charge_edited(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """He changes the project, tier and priority of a service that runs, to and fro: to others' projects, and to some
    that nobody knows."""
    async with tenant(world) as client:
        ref, body = service("dodger", rng.randint(2, 6))
        await tried(world, "charge-edited", client.create(ref, body))
        for _ in range(rng.randint(3, 6)):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            edit = rng.choice(
                (
                    {"project": rng.choice(("feed", "batch", "nobodys", None))},
                    {"tier": rng.choice(("Reserved", "OnDemand", "Preemptible"))},
                    {"priority": rng.randint(0, 1000)},
                )
            )
            await tried(world, "charge-edited", client.patch(ref, {"spec": edit}))
        yield


@contextlib.asynccontextmanager
async def decision_forged(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """He writes the decision of a service of his: all copies in one cluster, or none, charged to nobody, now and then
    with the highest seq there is."""
    kind = kinds.KINDS["PlacementDecision"]
    async with tenant(world) as client:
        ref, body = service(FORGED[1], rng.randint(2, 5))
        await tried(world, "decision-forged", client.create(ref, body))
        for _ in range(rng.randint(2, 5)):
            await asyncio.sleep(rng.uniform(*EDIT_S))
            for found in (await client.list(kind.api_version, kind.plural, namespace=TENANT)).items:
                many = rng.choice((0, 1, 400))
                share = {"cluster": rng.choice(list(world.members)), "seq": found["spec"]["seq"] + 1, "replicas": many}
                spec = {"shares": [share], "placed": many, "wanted": many, "charge": None, "shortfall": 0}
                spec |= rng.choice(({}, {"seq": seqs.MAX}))
                forged = kind.ref(TENANT, found["metadata"]["name"])
                await tried(world, "decision-forged", client.patch(forged, {"spec": spec}))
        yield


ROWS = (
    Act(
        "decision-forged",
        Actor.TENANT,
        "27",
        "his service's PlacementDecision written by himself: shares, charge, the highest seq",
        "his service is deleted",
        decision_forged,
    ),
    Act(
        "escapes-in-words",
        Actor.TENANT,
        "27",
        "escape sequences in annotations, labels, images, and names of projects and policies",
        "his service is deleted",
        escapes_in_words,
    ),
    Act(
        "charge-edited",
        Actor.TENANT,
        "6",
        "project, tier and priority of a running service edited to and fro",
        "his service is deleted",
        charge_edited,
    ),
)
