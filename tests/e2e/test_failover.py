"""A cluster falls silent under a federation that people look at with `federator`: its work runs
elsewhere, comes home, and every command tells it.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube.clock import RealClock
from federator.member.options import MemberOptions
from federator.sandbox.federation import Federation
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.e2e import shells
from tests.e2e.shells import DEADLINE_S, Shell, psvc
from tests.faults.links import Cut, Links, LinkTransport

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

LINKS = Links()
COPIES = 12
SOON = {"afterSeconds": 4, "cooldownSeconds": 1, "failbackAfterSeconds": 8}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    nodes = [Pool(count=4, cpu="16", memory="64Gi")]
    federation = Federation(
        fleet=FleetSpec(members=[MemberSpec(name=name, nodes=nodes) for name in "abc"]),
        clock=RealClock(),
        rng=random.Random(3),
        hub_options=HubOptions(probe_interval_s=0.5, probe_timeout_s=1.0, unready_after_s=4.0),
        member_options=MemberOptions(heartbeat_s=0.5),
        wrap=lambda process, cluster, inner: LinkTransport(inner, LINKS, process, cluster),
    )
    async with shells.running(federation, tmp_path_factory.mktemp("failover")) as made:
        yield made


async def until(condition: Callable[[], Awaitable[bool]], told: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():  # noqa: ASYNC110 - real time, and nothing to wait for
            await asyncio.sleep(0.1)


async def decision(shell: Shell, name: str) -> Any:
    kind = registry.KINDS["PlacementDecision"]
    found = await shell.federation.client("host").list(kind.api_version, kind.plural)
    return next(one for one in found.items if one["spec"]["workload"]["name"] == name)


async def shares(shell: Shell, name: str) -> dict[str, int]:
    spec = (await decision(shell, name))["spec"]
    return {share["cluster"]: share["replicas"] for share in spec["shares"]}


async def deployment(shell: Shell, cluster: str, name: str) -> Any:
    ref = registry.KINDS["Deployment"].ref("default", name)
    return await shell.federation.client(cluster).get(ref)


async def test_what_a_lost_cluster_ran_runs_elsewhere_and_comes_home_and_is_told(
    shell: Shell,
) -> None:
    moves, stays = psvc("moves", COPIES), psvc("stays", 2)
    moves["spec"]["placement"] = {"failover": SOON, "division": {"strategy": "Spread"}}
    stays["spec"]["placement"] = {"failover": SOON, "clusters": {"names": ["a"]}}
    await shell.create(moves)
    await shell.create(stays)
    await shell.settle()
    at_first = await shares(shell, "moves")
    assert at_first["a"] > 0
    uid = (await deployment(shell, "a", "stays"))["metadata"]["uid"]

    await LINKS.sever("hub", "a", Cut.SILENT)

    async def gone() -> bool:
        return "a" not in await shares(shell, "moves")

    await until(gone, "it stays")
    out, _ = await shell.run("explain", "psvc/stays")
    assert "2 are still in a (FailingOver): " in out
    out, _ = await shell.run("get", "clusters")
    assert "Unreachable" in out or "Lost" in out

    LINKS.heal("hub", "a", Cut.SILENT)

    async def home() -> bool:
        return "a" in await shares(shell, "moves")

    await until(home, "it does not come home")
    assert (await deployment(shell, "a", "stays"))["metadata"]["uid"] == uid
    out, _ = await shell.run("explain", "psvc/moves")
    assert "left a at 20" in out
    assert "; went back at 20" in out
    causes = " | ".join((await decision(shell, "moves"))["spec"]["causes"])
    assert "failover from a, not heard since 20" in causes
    assert "failback to a" in causes
    told, _ = await shell.run("get", "clusters")
    assert "Unreachable" not in told
