"""The floor against the embedded API in process, on virtual time."""

import random

from federator.embedded.server import EmbeddedCluster
from federator.kube.client import Client
from federator.kube.clock import Clock
from tests.unit.kube import embeddedstory
from tests.unit.kube.scripted import on_virtual_time


def cluster(clock: Clock) -> EmbeddedCluster:
    return EmbeddedCluster("m1", clock=clock, rng=random.Random(1), controllers=False)


@on_virtual_time
async def test_the_story_of_one_object() -> None:
    clock = Clock(1_700_000_000.0)
    await embeddedstory.tell(Client(cluster(clock).transport(), "m1"), clock)


@on_virtual_time
async def test_what_is_asked_of_a_cluster() -> None:
    await embeddedstory.ask(Client(cluster(Clock(1_700_000_000.0)).transport(), "m1"))
