"""`federator cluster drain` and `undrain` as processes, against an embedded federation over HTTPS,
watched from outside: copies leave a cluster while as many stay ready as their services promise.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from federator.hub.options import HubOptions
from federator.kube.clock import RealClock
from federator.sandbox.federation import Federation
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.e2e import shells
from tests.e2e.shells import Shell, psvc

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SERVICES, COPIES = 4, 40


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    fleet = FleetSpec(
        members=[
            MemberSpec(
                name=name,
                labels={"zone": f"zone-{name}"},
                nodes=[Pool(count=8, cpu="64", memory="256Gi", pods=110)],
            )
            for name in ("a", "b", "c", "d")
        ]
    )
    federation = Federation(
        fleet=fleet,
        clock=RealClock(),
        rng=random.Random(3),
        hub_options=HubOptions(evacuated_copies_a_minute=120),
    )
    async with shells.running(federation, tmp_path_factory.mktemp("shell")) as made:
        for number in range(SERVICES):
            made_of = psvc(f"web-{number:02}", COPIES, cpu="100m")
            made_of["spec"]["placement"] = {"division": {"strategy": "Spread"}}
            await made.create(made_of)
        await made.settle()
        yield made


def ready(shell: Shell) -> dict[str, int]:
    """Ready copies of each of these services, by what the members hold themselves."""
    counts: dict[str, int] = {}
    for member in shell.federation.members.values():
        for stored in member.store.items(member.registry.get("apps", "deployments")):
            status = stored.obj.get("status") or {}
            name = stored.key[1]
            if name.startswith("web-"):
                counts[name] = counts.get(name, 0) + status.get("readyReplicas", 0)
    return counts


def copies_in(shell: Shell, member: str) -> int:
    served = shell.federation.members[member]
    found = served.store.items(served.registry.get("apps", "deployments"))
    return sum((stored.obj.get("status") or {}).get("replicas", 0) for stored in found)


async def rehearsed(shell: Shell) -> None:
    """A rehearsal says where everything would go and changes nothing."""
    before = copies_in(shell, "a")
    out, _ = await shell.run("cluster", "drain", "a", "--dry-run")
    assert re.match(rf"{before} copies of {SERVICES} workloads have another place\.", out), out
    assert "PinterestService/default/web-00" in out
    out, _ = await shell.run(
        "cluster", "drain", "--selector", "zone in (zone-a,zone-b)", "--dry-run", code=0
    )
    assert "have another place" in out
    assert copies_in(shell, "a") == before
    cluster = await shell.json("get", "mc/a")
    assert "drain" not in cluster["spec"]


async def drained(shell: Shell) -> None:
    """Copies leave with what was promised ready all the time, and the command tells how far they
    are.
    """
    before = copies_in(shell, "a")
    assert before == 40
    lowest = dict.fromkeys(ready(shell), COPIES)
    process = await shell.start("cluster", "drain", "a", "--timeout", "50s")
    ended = asyncio.create_task(process.communicate())
    while not ended.done():
        for name, count in ready(shell).items():
            lowest[name] = min(lowest[name], count)
        await asyncio.sleep(0.02)
    out, err = ended.result()
    assert process.returncode == 0, err.decode() + out.decode()
    assert min(lowest.values()) >= COPIES - COPIES // 4  # maxUnavailable is 25 %
    assert copies_in(shell, "a") == 0
    assert f"a: Emptied: Nothing of {before} copies is left" in out.decode()
    assert "a: Emptying: " in out.decode()
    table, _ = await shell.run("get", "clusters")
    assert "Emptied" in table
    told, _ = await shell.run("explain", "psvc/web-00", "--cluster", "a")
    assert "is being drained (spec.drain)" in told
    history = await shell.json("get", "psvc/web-00")
    assert history["status"]["ready"] == COPIES


async def filled(shell: Shell) -> None:
    """New work is welcome again."""
    out, _ = await shell.run("cluster", "undrain", "a")
    assert out == "membercluster.federation.pinterest.com/a is drained no more\n"
    assert (await shell.run("cluster", "undrain", "a"))[0] == "a is not being drained.\n"
    newer = psvc("newer", 40, cpu="100m")
    newer["spec"]["placement"] = {"division": {"strategy": "Spread"}}
    await shell.create(newer)
    await shell.settle()
    assert copies_in(shell, "a") == 10


async def test_a_cluster_is_rehearsed_drained_and_filled_again(shell: Shell) -> None:
    await rehearsed(shell)
    await drained(shell)
    await filled(shell)


async def test_a_drain_that_leaves_somebody_without_a_place_is_refused_and_forgotten(
    shell: Shell,
) -> None:
    alone = psvc("alone", 3)
    alone["spec"]["placement"] = {"clusters": {"names": ["d"]}}
    await shell.create(alone)
    await shell.settle()
    out, err = await shell.run("cluster", "drain", "d", "--dry-run", code=1)
    assert "3 copies of 1 workload have none:" in out
    out, err = await shell.run("cluster", "drain", "d", "--timeout", "40s", code=1)
    assert (
        "d: Refused: 3 copies of 1 workload would have no other place: "
        "PinterestService/default/alone 3 of 3"
    ) in out
    assert "--force" in out
    assert "Traceback" not in err
    assert "drain" not in (await shell.json("get", "mc/d"))["spec"]


async def test_a_cluster_that_is_heard_is_not_declared_dead(shell: Shell) -> None:
    _, err = await shell.run("cluster", "declare-dead", "b", code=1)
    assert "to move its workloads, run: federator cluster drain b" in err
    _, err = await shell.run("cluster", "declare-dead", "nosuch", code=1)
    assert "there is no member nosuch" in err
    out, _ = await shell.run("cluster", "declare-dead", "b", "--undo")
    assert out == "membercluster.federation.pinterest.com/b is no longer declared dead\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "name the clusters, or select them with --selector (not both)"),
        (
            ("a", "--selector", "zone=zone-a"),
            "name the clusters, or select them with --selector (not both)",
        ),
        (("nosuch",), "there is no member nosuch; the members are a, b, c, d"),
        (("--selector", "zone=nosuch"), "no member has the labels zone=nosuch"),
        (("a", "--dry-run", "--no-wait"), "--dry-run changes nothing"),
    ],
)
async def test_what_cannot_be_meant_is_said(
    shell: Shell, args: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    _, err = await shell.run("cluster", "drain", *args, code=1)
    assert message in err
