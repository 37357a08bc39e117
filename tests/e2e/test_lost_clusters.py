"""What an operator types when a cluster is lost or the host was replaced, and what the federation
then does.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from federator.api import clustercapacity
from federator.hub.members import claims
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube import errors
from federator.kube.clock import RealClock
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from tests.e2e import shells
from tests.e2e.shells import DEADLINE_S, Shell, psvc
from tests.faults.links import Cut, Links, LinkTransport

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

OPTIONS = HubOptions(probe_interval_s=0.5, probe_timeout_s=1.0, unready_after_s=2.0)
LINKS = Links()
OTHER_HOST = "5a0c6d0e-0f5e-4b64-9d52-000000000001"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    federation = Federation(
        fleet=fleetfile.generated(2),
        clock=RealClock(),
        rng=random.Random(3),
        hub_options=OPTIONS,
        wrap=lambda process, cluster, inner: LinkTransport(inner, LINKS, process, cluster),
    )
    async with shells.running(federation, tmp_path_factory.mktemp("lost")) as made:
        yield made


async def until(condition: Callable[[], Awaitable[bool]], told: str) -> None:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + DEADLINE_S
    while not await condition():
        assert loop.time() < deadline_s, told
        await asyncio.sleep(0.1)


async def ready(shell: Shell, name: str) -> Any:
    """The Ready condition of a member."""
    obj = await shell.federation.client("host").get(registry.KINDS["MemberCluster"].ref("", name))
    return next(row for row in obj["status"]["conditions"] if row["type"] == "Ready")


async def exists(shell: Shell, cluster: str, name: str) -> bool:
    try:
        await shell.federation.client(cluster).get(
            registry.KINDS["PinterestService"].ref("default", name)
        )
    except errors.NotFound:
        return False
    return True


async def test_a_deletion_waits_for_a_silent_cluster_until_it_is_forgotten(shell: Shell) -> None:
    lost, host = shell.federation.fleet.members[-1].name, shell.federation.client("host")
    ref = registry.KINDS["PinterestService"].ref("default", "left")
    left = psvc("left", 8)
    # A federation that has just started knows one member before the other, and would give all
    # copies to that one.
    left["spec"]["placement"] = {"clusters": {"names": [lost]}}
    await shell.create(left)
    await until(lambda: exists(shell, lost, "left"), f"nothing is placed in {lost}")
    await shell.settle()
    assert (await shell.run("cluster", "forget", lost))[0] == f"No deletion waits for {lost}.\n"
    assert '"nosuch" not found' in (await shell.run("cluster", "forget", "nosuch", code=1))[1]

    await LINKS.sever("hub", lost, Cut.REFUSED)

    async def told() -> bool:
        return bool((await ready(shell, lost))["status"] != "True")

    await until(told, f"{lost} is called well")
    await host.delete(ref, uid=(await host.get(ref))["metadata"]["uid"])

    async def forgotten() -> bool:
        return "no longer waits" in (await shell.run("cluster", "forget", lost))[0]

    await until(forgotten, "no deletion waits for the lost cluster")

    async def gone() -> bool:
        kind = registry.KINDS["PlacementDecision"]
        found = (await host.list(kind.api_version, kind.plural)).items
        return all(obj["spec"]["workload"]["name"] != "left" for obj in found)

    await until(gone, "the decision still waits")
    assert await exists(shell, lost, "left")  # nobody could reach it
    member = await host.get(registry.KINDS["MemberCluster"].ref("", lost))
    assert "left" in str(member["status"]["forgotten"])

    LINKS.heal("hub", lost, Cut.REFUSED)

    async def cleaned() -> bool:
        return not await exists(shell, lost, "left")

    await until(cleaned, f"what was forgotten is still in {lost}")


async def test_a_member_of_another_host_is_left_alone_until_it_is_taken_over(shell: Shell) -> None:
    name, host = shell.federation.fleet.members[0].name, shell.federation.client("host")
    assert (await shell.run("cluster", "take-over", name, code=1))[1].count("--from") == 1
    capacity = registry.KINDS["ClusterCapacity"].ref("", clustercapacity.NAME)
    mark = {claims.annotation(OPTIONS.fleet): OTHER_HOST}
    await shell.federation.client(name).patch(capacity, {"metadata": {"annotations": mark}})

    async def told() -> bool:
        return bool((await ready(shell, name))["reason"] == claims.REASON)

    await until(told, "another host's claim is not seen")
    condition = await ready(shell, name)
    assert OTHER_HOST in condition["message"]
    assert f"federator cluster take-over {name}" in condition["message"]
    await shell.create(psvc("elsewhere", 8))

    async def placed() -> bool:
        found = await host.get(registry.KINDS["PinterestService"].ref("default", "elsewhere"))
        return bool((found.get("status") or {}).get("ready") == 8)

    await until(placed, "nothing is placed beside the member that is not ours")
    assert not await exists(shell, name, "elsewhere")

    out, _ = await shell.run("cluster", "take-over", name)
    assert (
        out
        == f"membercluster.federation.pinterest.com/{name} is taken over from host {OTHER_HOST}\n"
    )

    async def ours() -> bool:
        return bool((await ready(shell, name))["status"] == "True")

    await until(ours, "the member is not taken over")
