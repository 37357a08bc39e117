"""Episodes of too much: a member in which objects change far more often than anybody needs to
know."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

from federator.kube import errors
from federator.kube.client import Client
from federator.model import names
from federator.model.steps import ObjectRef
from tests.faults.rows import Episode, Stage

NAMESPACE = "default"
NOTE = "flood.example.com/count"
ROUNDS = 12
"""How often everything changes in an episode of a campaign; a test of its own asks for more."""
_FOREIGN = 20


@contextlib.asynccontextmanager
async def event_flood(
    stage: Stage, rng: random.Random, rounds: int = ROUNDS
) -> AsyncIterator[None]:
    """Foreign objects and slices of ours in one member are noted on over and over, as fast as the
    server takes it."""
    member = rng.choice(list(stage.members))
    user = stage.user(member)
    made = [
        await user.create(
            ref,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": ref.name, "namespace": NAMESPACE},
            },
        )
        for ref in (_foreign(number) for number in range(_FOREIGN))
    ]
    flooding = asyncio.create_task(_flood(stage, user, member, rounds), name="flood")
    try:
        yield
    finally:
        await flooding
        for obj in made:
            await user.delete(_foreign_named(obj["metadata"]["name"]), uid=obj["metadata"]["uid"])
        for ref in _slices(stage, member):
            await _note(user, ref, None)


async def _flood(stage: Stage, user: Client, member: str, rounds: int) -> None:
    for number in range(rounds):
        for ref in (*_slices(stage, member), *(_foreign(index) for index in range(_FOREIGN))):
            await _note(user, ref, str(number))
        await asyncio.sleep(0.01)
    stage.happened("event-flood")


async def _note(user: Client, ref: ObjectRef, text: str | None) -> None:
    with contextlib.suppress(errors.NotFound, errors.Conflict):
        await user.patch(ref, {"metadata": {"annotations": {NOTE: text}}})


def _slices(stage: Stage, member: str) -> list[ObjectRef]:
    served = stage.federation.members[member]
    services = served.registry.get("pinterest.com", "pinterestservices")
    return [
        ObjectRef(stored.obj["apiVersion"], services.plural, *stored.key, services.kind)
        for stored in served.store.items(services)
        if names.FLEET_LABEL in (stored.obj["metadata"].get("labels") or {})
    ]


def _foreign(number: int) -> ObjectRef:
    return _foreign_named(f"flood-{number:02}")


def _foreign_named(name: str) -> ObjectRef:
    return ObjectRef("v1", "configmaps", NAMESPACE, name, "ConfigMap")


ROWS = (
    Episode(
        "event-flood", "F20", "one member", "after a few hundred changes", event_flood, (1.0, 5.0)
    ),
)
