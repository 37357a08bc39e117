"""G1, G2: submissions through `federator gateway` before a real host, with a hub and members whose
reports and leases are kept fresh; every version is in the gateway's cache.

G1 offers 120 submissions a second for a minute while the federation is paused, whether or not earlier
ones are answered; G1p is the time from the moment when each was due to its acknowledgement, p99. G2 is
the highest steady rate with the federation running: 16 callers submit for 30 s, each one after the
other; G2p is its p99. G2c is the gateway's processor time for one. With `--scale 0.1` all take a tenth
of the time.
"""

import asyncio
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import uvloop
import yaml

from federator.hub.query import pausing
from federator.sandbox.federation import ensure
from tests.artifacts import made, repository
from tests.artifacts.repository import ArtifactRepository
from tests.bench import realfleet
from tests.bench.harness import Result
from tests.bench.realfleet import NAMESPACE, RealFleet

OFFERED = 120
OFFERED_S = 60.0
CALLERS = 16
RUNNING_S = 30.0
ANSWER_S = 60.0
WORKFLOW = b"""\
apiVersion: federation.pinterest.com/v1alpha1
kind: Workflow
metadata: {name: batch}
objects:
- apiVersion: pinterest.com/v1beta1
  kind: PinterestJobSet
  metadata: {name: batch}
  spec:
    shards: 2
    parallelism: 2
    template:
      spec:
        containers:
        - name: app
          image: registry.example/ads/app@sha256:1111111111111111111111111111111111111111111111111111111111111111
          resources: {requests: {cpu: 100m, memory: 128Mi}}
"""


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="federator-bench-") as room,
        realfleet.started(Path(room)) as fleet,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        for result in runner.run(_measured(fleet, Path(room), wanted, scale)):
            if result.id in wanted:
                yield result


async def _measured(
    fleet: RealFleet, room: Path, wanted: frozenset[str], scale: float
) -> list[Result]:
    fleet.open()
    results: list[Result] = []
    try:
        await fleet.join()
        files = ArtifactRepository()
        files.files["/artifactory/ads/batch/v1/workflow.yaml"] = WORKFLOW
        async with realfleet.beats(fleet), repository.listening(files.handle) as where:
            await fleet.start_hub()
            source = f"http://{where}/artifactory/ads/batch"
            async with await _started(fleet, room, source) as load:
                if wanted & {"G1", "G1p"}:
                    results += await _paused(fleet, load, OFFERED_S * scale)
                if wanted & {"G2", "G2p", "G2c"}:
                    results += await _steady(fleet, load, RUNNING_S * scale)
    finally:
        await fleet.close()
    return results


@dataclass(slots=True)
class Load:
    """What callers send, and how it was answered."""

    session: aiohttp.ClientSession
    url: str
    body: dict[str, str]
    sent: int = 0
    took: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    async def __aenter__(self) -> "Load":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def submit(self, due_s: float) -> None:
        """One submission, under a key of its own; its time counts from when it was due."""
        self.sent += 1
        body = {**self.body, "idempotencyKey": f"job-{self.sent}"}
        try:
            async with self.session.post(self.url, json=body) as answer:
                said = await answer.json()
                self.answers[f"{answer.status} {said.get('title', '')}".strip()] += 1
                if answer.status == 201:
                    self.took.append(time.monotonic() - due_s)
        except (aiohttp.ClientError, TimeoutError) as trouble:
            self.answers[type(trouble).__name__] += 1

    def again(self) -> None:
        """Forgets how it was answered so far."""
        self.took, self.answers = [], Counter()

    def p99_ms(self) -> float:
        return sorted(self.took)[len(self.took) * 99 // 100] * 1e3 if self.took else 0.0


async def _started(fleet: RealFleet, room: Path, source: str) -> Load:
    """A gateway process that has the version in its cache."""
    policy = made.policy_object(projects=[NAMESPACE], sources=[source], provenance={"mode": "Off"})
    await ensure(fleet.clients["host"], policy, "submissionpolicies")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "serve": {"host": "127.0.0.1", "port": 0},
        "gateway": {
            "audit_directory": str(room / "audit"),
            "cache_directory": str(room / "cache"),
            "requests_a_second": 100_000.0,
            "burst": 100_000,
            "submissions_waiting": 20_000,
        },
    }
    file = room / "gateway.yaml"
    file.write_text(yaml.safe_dump(settings))
    fleet.start(
        "gateway",
        "gateway",
        "--allow-loopback",
        "--kubeconfig",
        str(fleet.host.kubeconfig()),
        "--config",
        str(file),
        "--listen",
        f"127.0.0.1:{port}",
    )
    headers = {"Authorization": f"Bearer {fleet.host.token}"}
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    connector = aiohttp.TCPConnector(limit=100)
    session = aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector)
    url = f"http://127.0.0.1:{port}/v1/workflows/{NAMESPACE}/batch/submissions"
    load = Load(session, url, {"artifact": source, "version": "v1"})
    deadline_s = time.monotonic() + realfleet.READY_S
    while not load.took:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"the gateway takes nothing: {load.answers}")
        await asyncio.sleep(0.5)
        await load.submit(time.monotonic())
    return load


async def _paused(fleet: RealFleet, load: Load, seconds: float) -> list[Result]:
    pause = {"paused": "true", "reason": "bench", "by": "bench", "since": "2026-12-01T00:00:00Z"}
    await pausing.switch(fleet.clients["host"], pause)
    await asyncio.sleep(2.0)
    load.again()
    spent, begun_s = fleet.spent(), time.monotonic()
    tasks = []
    for at in range(round(OFFERED * seconds)):
        due_s = begun_s + at / OFFERED
        await asyncio.sleep(due_s - time.monotonic())
        tasks.append(asyncio.create_task(load.submit(due_s)))
    await asyncio.gather(*tasks)
    took_s = time.monotonic() - begun_s
    notes = {
        "seconds": round(took_s, 1),
        "answers": dict(load.answers),
        "cpu_s": realfleet.since(fleet.spent(), spent),
    }
    await pausing.switch(fleet.clients["host"], {"paused": "false"})
    rate = len(load.took) / max(took_s, seconds)
    return [Result("G1", ours=rate, notes=notes), Result("G1p", ours=load.p99_ms())]


async def _steady(fleet: RealFleet, load: Load, seconds: float) -> list[Result]:
    load.again()
    spent, begun_s = fleet.spent(), time.monotonic()

    async def caller() -> None:
        while time.monotonic() - begun_s < seconds:
            await load.submit(time.monotonic())

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    took_s = time.monotonic() - begun_s
    cpu_s = realfleet.since(fleet.spent(), spent)
    notes = {"seconds": round(took_s, 1), "answers": dict(load.answers), "cpu_s": cpu_s}
    each_ms = cpu_s["gateway"] / max(len(load.took), 1) * 1e3
    return [
        Result("G2", ours=len(load.took) / took_s, notes=notes),
        Result("G2p", ours=load.p99_ms()),
        Result("G2c", ours=each_ms),
    ]
