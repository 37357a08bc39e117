"""L1: commands of a person on a host with 10,000 services: their time, from the start of the process
to its end, and the memory of the one that prints everything.

One service is placed by a real hub; all others are copies of what it wrote, put into the store
directly. Then the hub ends: what `get` and `explain` say comes from the host's objects. The host is
embedded and served over HTTPS by this process, so a part of each figure is the server's.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop

from federator.api import raw
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube.clock import RealClock
from federator.member.options import MemberOptions
from federator.model import names
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation, ensure
from tests.bench import fleets, served
from tests.bench.harness import Result

NAME = "first"
TIMES = 5
LAUNCHER = """
import json, os, resource, subprocess, sys, time
begun = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
took = time.perf_counter() - begun
print(json.dumps([took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, code]))
"""
"""Starts the command from a small process: one that is started from here counts the memory of this
one as its own."""
COMMANDS = {
    "L1a": ("get", "psvc", "-A"),
    "L1n": ("get", "psvc", "w7", "-n", "bench"),
    "L1x": ("explain", "psvc/w7", "-n", "bench"),
    "L1e": ("get", "psvc", "-n", "empty"),
    "L1m": ("get", "psvc", "-A", "-o", "json"),
}


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="federator-bench-") as room,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        yield from runner.run(_run(wanted, max(10, round(10_000 * scale)), Path(room)))


async def placed() -> Federation:
    """A federation with one placed service, whose hub has ended. `copied` adds services."""
    federation = Federation(
        fleet=fleetfile.generated(3),
        clock=RealClock(),
        rng=random.Random(1),
        hub_options=HubOptions(capacity_copy_interval_s=1.0, capacity_copy_permille=0),
        member_options=MemberOptions(capacity_write_s=1.0, capacity_small_write_s=1.0),
    )
    await federation.start()
    host = federation.client("host")
    for name in ("bench", "empty"):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await ensure(host, space, "namespaces")
    await ensure(host, fleets.service(NAME, "bench", 6), "pinterestservices")
    await federation.until_settled(60.0)
    async with asyncio.timeout(60.0):
        while not await _reported(federation):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.2)
    await federation.kill("hub")
    return federation


def copied(federation: Federation, numbers: range) -> None:
    """Adds services like the first one, with a decision each."""
    host, decision = federation.host, registry.KINDS["PlacementDecision"]
    one = host.store.items(host.registry.get(decision.group, decision.plural))[0].obj
    for number in numbers:
        _copy(federation, f"w{number}", one)


async def _run(wanted: frozenset[str], count: int, room: Path) -> list[Result]:
    federation = await placed()
    copied(federation, range(count - 1))
    try:
        async with served.serving(federation, room):
            return [
                await _read(row, command, count, room)
                for row, command in COMMANDS.items()
                if row in wanted
            ]
    finally:
        await federation.stop()


async def _reported(federation: Federation) -> bool:
    """Whether the reports of all members include the first service, as those of a fleet do."""
    host, member = federation.client("host"), registry.KINDS["MemberCluster"]
    listed = (await host.list(member.api_version, member.plural)).items
    decision = registry.KINDS["PlacementDecision"]
    (one,) = (await host.list(decision.api_version, decision.plural)).items
    included = [raw.integer(obj, "status", "capacity", "includesSeq") for obj in listed]
    return min(included) >= raw.integer(one, "spec", "seq")


def _copy(federation: Federation, name: str, one: Mapping[str, Any]) -> None:
    """A service like the first one, with a decision like this."""
    host, service = federation.host, registry.KINDS["PinterestService"]
    decision = registry.KINDS["PlacementDecision"]
    resource = host.registry.get(service.group, service.plural)
    first = host.store.get(resource, "bench", NAME)
    assert first is not None
    head = {"name": name, "namespace": "bench", "generation": 1}
    made = host.store.create(resource, {**first.obj, "metadata": {**head, "labels": {"app": name}}})
    uid = made.obj["metadata"]["uid"]
    decisions = host.registry.get(decision.group, decision.plural)
    workload = {**one["spec"]["workload"], "name": name, "uid": uid}
    labels = {**one["metadata"]["labels"], names.WORKLOAD_UID_LABEL: uid}
    named = {"name": names.decision_name("psvc", name, uid), "namespace": "bench"}
    metadata = {**named, "labels": labels}
    body = {**one, "metadata": metadata, "spec": {**one["spec"], "workload": workload}}
    host.store.create(decisions, body)


async def _read(row: str, command: Sequence[str], count: int, room: Path) -> Result:
    read = [await asyncio.to_thread(_timed, command, room) for _ in range(TIMES + 1)]
    # The server renders its objects once, and what else runs on the machine adds to a time.
    seconds = min(took for took, _ in read[1:])
    memory_mb = max(mb for _, mb in read)
    notes = {"services": count, "seconds": round(seconds, 2), "memory_mb": round(memory_mb)}
    return Result(row, ours=memory_mb if row == "L1m" else seconds, notes=notes)


def _timed(command: Sequence[str], room: Path) -> tuple[float, float]:
    """Seconds and the largest resident memory in MB of one command."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, sys.executable, "-m", "federator", *command],
        cwd=served.ROOT,
        env={**os.environ, "KUBECONFIG": str(room / "host.kubeconfig")},
        stdout=subprocess.PIPE,
        check=True,
    )
    took, kilobytes, code = json.loads(done.stdout)
    assert code == 0, command
    return took, kilobytes / 1024
