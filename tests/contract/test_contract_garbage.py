"""What controllers do after a deletion: owner garbage collection in its three modes, and the end of
a namespace.

Here the servers run with controllers: the stand-ins in process, the controller manager beside the
real one.
"""

import asyncio
import itertools
import os
import random
from collections.abc import AsyncIterator

import pytest

from federator.embedded.server import EmbeddedCluster
from federator.kube.clock import RealClock
from tests.contract.conftest import over_http
from tests.contract.speaking import Object, Speaker
from tests.controlplane.plane import ControlPlane

LIMIT_S = 60.0
_numbers = itertools.count(1)


@pytest.fixture(
    params=[
        "embedded",
        pytest.param(
            "real",
            marks=[
                pytest.mark.real,
                pytest.mark.e2e,
                pytest.mark.xdist_group("real servers with nodes"),
            ],
        ),
    ]
)
async def alive(request: pytest.FixtureRequest) -> AsyncIterator[Speaker]:
    """A speaker with a namespace of its own on a server whose controllers run."""
    name = f"g{os.environ.get('PYTEST_XDIST_WORKER', 'w')}-{next(_numbers)}"
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        real = plane.cluster("garbage", controllers=True)
        transport = over_http(real.url, real.ca_file.read_bytes(), real.token)
        speaker = Speaker(transport, name)
        (await speaker.post("/api/v1/namespaces", {"metadata": {"name": name}})).object(201)
        yield speaker
        await transport.close()
        return
    cluster = EmbeddedCluster("garbage", clock=RealClock(), rng=random.Random(1))
    assert cluster.controllers is not None
    running = asyncio.create_task(cluster.controllers.run())
    speaker = Speaker(cluster.transport(), name)
    (await speaker.post("/api/v1/namespaces", {"metadata": {"name": name}})).object(201)
    yield speaker
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def _family(api: Speaker, *, name: str = "", blocks: bool = False) -> tuple[str, str]:
    """(path of an owner, path of what it owns)."""
    owner, child = f"{name}owner", f"{name}child"
    made = await api.configmap(owner)
    reference: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner,
        "uid": made["metadata"]["uid"],
    }
    if blocks:
        reference["blockOwnerDeletion"] = True
    await api.configmap(child, ownerReferences=[reference])
    return api.url("configmaps", owner), api.url("configmaps", child)


async def _seen(api: Speaker) -> None:
    """Waits until the collector knows all ConfigMaps made so far: one that it has not heard of is
    nobody's child to it. It hears of them in order, so it does when it has removed the child of a
    later family.
    """
    owner, child = await _family(api, name="later-")
    (await api.delete(owner, {"propagationPolicy": "Background"})).object()
    await _until(api, child, 404)


async def _until(api: Speaker, path: str, status: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while (await api.get(path)).status != status:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_in_the_background_the_owner_goes_first(alive: Speaker) -> None:
    owner, child = await _family(alive)
    (await alive.delete(owner, {"propagationPolicy": "Background"})).object()
    assert (await alive.get(owner)).status == 404
    await _until(alive, child, 404)


async def test_in_the_foreground_the_owner_waits_for_what_blocks_it(alive: Speaker) -> None:
    owner, child = await _family(alive, blocks=True)
    held = (await alive.get(child)).object()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    (await alive.put(child, held)).object()
    await _seen(alive)
    answer = (await alive.delete(owner, {"propagationPolicy": "Foreground"})).object()
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    async with asyncio.timeout(LIMIT_S):
        while "deletionTimestamp" not in (await alive.get(child)).object()["metadata"]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert (await alive.get(owner)).status == 200
    (await alive.patch(child, {"metadata": {"finalizers": None}})).object()
    await _until(alive, owner, 404)
    assert (await alive.get(child)).status == 404


async def test_orphans_stay_without_their_owner(alive: Speaker) -> None:
    owner, child = await _family(alive)
    await _seen(alive)
    (await alive.delete(owner, {"propagationPolicy": "Orphan"})).object()
    await _until(alive, owner, 404)
    assert "ownerReferences" not in (await alive.get(child)).object()["metadata"]


async def test_a_child_whose_owner_never_was_goes(alive: Speaker) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "nobody",
        "uid": "00000000-0000-4000-8000-000000000000",
    }
    await alive.configmap("child", ownerReferences=[reference])
    await _until(alive, alive.url("configmaps", "child"), 404)


async def test_a_namespace_ends_with_all_that_is_in_it(alive: Speaker) -> None:
    await alive.configmap("a", finalizers=["example.com/hold"])
    path = f"/api/v1/namespaces/{alive.namespace}"
    ending = (await alive.delete(path)).object()
    assert ending["status"]["phase"] == "Terminating"
    async with asyncio.timeout(LIMIT_S):
        while True:
            found = (await alive.get(path)).object()
            conditions = {each["type"]: each for each in found["status"].get("conditions", [])}
            if conditions.get("NamespaceFinalizersRemaining", {}).get("status") == "True":
                break
            await asyncio.sleep(0.1)
    assert (
        "example.com/hold in 1 resource instances"
        in conditions["NamespaceFinalizersRemaining"]["message"]
    )
    (await alive.patch(alive.url("configmaps", "a"), {"metadata": {"finalizers": None}})).object()
    await _until(alive, path, 404)
