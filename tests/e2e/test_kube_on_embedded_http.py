"""The floor against the embedded API over TLS, reached as a member is: through a kubeconfig that
was taken in.
"""

import random

import pytest
import uvloop

from federator.embedded import http
from federator.embedded.server import EmbeddedCluster
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.login import connect, kubeconfigs
from tests.unit.kube import embeddedstory

pytestmark = pytest.mark.e2e


async def test_the_same_stories_over_http() -> None:
    await tell_both()


def test_the_same_stories_over_http_on_uvloop() -> None:
    uvloop.run(tell_both())


async def tell_both() -> None:
    clock = RealClock()
    cluster = EmbeddedCluster("m1", clock=clock, rng=random.Random(1), controllers=False)
    server = await http.serve(cluster)
    data = http.kubeconfig({"m1": server}, "m1").encode()
    client = Client(
        connect.for_member(
            kubeconfigs.member_access(data, allow_loopback=True), allow_loopback=True
        ),
        "m1",
    )
    try:
        await embeddedstory.tell(client, clock)
        await embeddedstory.ask(client)
    finally:
        await client.close()
        await server.close()
