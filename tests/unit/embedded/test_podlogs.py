"""Logs of pods that do not really run: the same whenever they are asked for, and bounded as a
kubelet bounds them.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from federator.embedded.controllers import NodePool
from federator.embedded.server import EmbeddedCluster
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.model.steps import ObjectRef
from tests import virtual_time

PATH = "/api/v1/namespaces/default/pods/p/log"
PACE = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/log-every-seconds": "10"}


def on_a_cluster(
    story: Callable[[Client], Awaitable[None]], annotations: dict[str, str], *names: str
) -> None:
    async def main() -> None:
        pools = (NodePool(1, name="n"),)
        cluster = EmbeddedCluster(
            "a", clock=Clock(1_790_000_000.0), rng=random.Random(1), nodes=pools
        )
        assert cluster.controllers is not None
        running = asyncio.get_running_loop().create_task(cluster.controllers.run())
        client = Client(cluster.transport(), "a")
        containers = [{"name": name, "image": "app:1"} for name in names or ("app",)]
        meta = {"name": "p", "namespace": "default", "annotations": annotations}
        pod: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"containers": containers},
        }
        await client.create(ObjectRef("v1", "pods", "default", "p", "Pod"), pod)
        await asyncio.sleep(35)
        try:
            await story(client)
        finally:
            running.cancel()
            await asyncio.wait([running])

    virtual_time.run(main())


async def log(client: Client, **query: str) -> list[str]:
    return (await client.raw("GET", PATH, tuple(query.items()))).decode().splitlines()


def test_lines_come_at_their_pace_and_are_bounded_as_asked() -> None:
    async def story(client: Client) -> None:
        whole = await log(client)
        assert whole[0].startswith("embedded container app of pod p started on n")
        assert [line.split()[0] for line in whole[1:]] == ["1", "2", "3"]
        assert whole == await log(client)
        assert await log(client, tailLines="2") == whole[-2:]
        assert await log(client, tailLines="0") == []
        assert await log(client, sinceSeconds="12") == whole[-1:]
        stamped = await log(client, timestamps="true")
        assert [line.partition(" ")[2] for line in stamped] == whole
        assert stamped == sorted(stamped)
        assert "".join(await log(client, limitBytes="10")) == whole[0][:10]
        await asyncio.sleep(10)
        assert (await log(client))[:-1] == whole

    on_a_cluster(story, PACE)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({}, "a container name must be specified for pod p, choose one of: [app side]"),
        ({"container": "none"}, "container none is not valid for pod p"),
        (
            {"container": "app", "previous": "true"},
            'previous terminated container "app" in pod "p" not found',
        ),
        ({"container": "app", "tailLines": "-1"}, "tailLines -1 is no count"),
        ({"container": "app", "sinceTime": "yesterday"}, "sinceTime yesterday is no time"),
    ],
    ids=str,
)
def test_what_cannot_be_shown_is_refused(query: dict[str, str], told: str) -> None:
    async def story(client: Client) -> None:
        with pytest.raises(errors.Invalid) as refused:
            await log(client, **query)
        assert told in str(refused.value)

    on_a_cluster(story, PACE, "app", "side")


def test_a_container_that_waits_to_start_has_no_log() -> None:
    async def story(client: Client) -> None:
        with pytest.raises(errors.Invalid, match="is waiting to start: "):
            await log(client)

    on_a_cluster(story, {"embedded.federator/image-pull-error": "true"})
