"""G1, G2: submissions through `federator gateway` before a real host, with a hub and members whose
reports and leases are kept fresh; every version is in the gateway's cache.

G1 offers 120 submissions a second for a minute while the federation is paused, whether or not earlier
ones are answered; G1p is the time from the moment when each was due to its acknowledgement, p99.

G2 is the highest steady rate with the federation running. Each step offers a higher rate for ten
seconds. A rate is steady if all submissions are acknowledged, p99 is below `SLOW_MS`, and the hub
decides as many as come: at the end of the step, fewer lack a decision than come in `BEHIND_S`. After
the first step that fails, the rate in the middle is tried. G2p is p99 of the highest steady step,
G2c the gateway's processor time for one submission in it. The notes have all steps, and for one
submission the processor time of each process and the requests at the host. With `--scale 0.1` all
take a tenth of the time.
"""

import asyncio
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
RATES = (10.0, 16.0, 24.0, 36.0, 54.0, 80.0, 120.0)
STEP_S = 10.0
SLOW_MS = 2000.0
BEHIND_S = 3.0
DRAINED_S = 300.0
REST_S = 2.0
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
                    results += await _steady(fleet, load, STEP_S * scale)
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
    asked, spent, begun_s = await fleet.requests(), fleet.spent(), time.monotonic()
    await _offered(load, OFFERED, seconds)
    took_s = time.monotonic() - begun_s
    notes = {
        "seconds": round(took_s, 1),
        "answers": dict(load.answers),
        **_each(load, realfleet.since(fleet.spent(), spent), await fleet.requests() - asked),
    }
    await pausing.switch(fleet.clients["host"], {"paused": "false"})
    rate = len(load.took) / max(took_s, seconds)
    return [Result("G1", ours=rate, notes=notes), Result("G1p", ours=load.p99_ms())]


def _each(load: Load, cpu_s: Mapping[str, float], asked: realfleet.Writes) -> dict[str, Any]:
    """For one submission: processor time of each process, and requests at the host."""
    taken = max(len(load.took), 1)
    return {
        "cpu_ms_each": {name: round(spent * 1e3 / taken, 2) for name, spent in cpu_s.items()}
        | {"all": round(sum(cpu_s.values()) * 1e3 / taken, 2)},
        "requests_each": {
            f"{verb} {resource}": round(count / taken, 2)
            for (resource, verb), count in asked.most_common()
            if count >= taken / 100
        },
    }


async def _offered(load: Load, rate: float, seconds: float) -> None:
    """Submissions at this rate, until all are answered."""
    begun_s, tasks = time.monotonic(), []
    for at in range(max(round(rate * seconds), 1)):
        due_s = begun_s + at / rate
        await asyncio.sleep(due_s - time.monotonic())
        tasks.append(asyncio.create_task(load.submit(due_s)))
    await asyncio.gather(*tasks)


@dataclass(frozen=True, slots=True)
class Step:
    """What one rate came to."""

    rate: float
    p99_ms: float
    undecided: int
    notes: Mapping[str, Any]
    breaks: str
    """Why it is not steady; "" if it is."""


async def _steady(fleet: RealFleet, load: Load, seconds: float) -> list[Result]:
    await _decided(fleet, 0)
    await _at_rest(fleet)
    steps: list[Step] = []
    for rate in RATES:
        steps.append(await _step(fleet, load, rate, seconds))
        if steps[-1].breaks:
            break
    if len(steps) > 1 and steps[-1].breaks:
        await _decided(fleet, 0)
        await _at_rest(fleet)
        middle = (steps[-1].rate + steps[-2].rate) / 2
        steps.append(await _step(fleet, load, middle, seconds))
    told = [
        {
            "rate": each.rate,
            "p99_ms": round(each.p99_ms),
            "undecided": each.undecided,
            "breaks": each.breaks,
            "cpu_ms_each": each.notes["cpu_ms_each"]["all"],
        }
        for each in steps
    ]
    steady = [each for each in steps if not each.breaks]
    if not steady:
        failed = f"no rate is steady: {steps[0].breaks}"
        return [Result(row, failed=failed, notes={"steps": told}) for row in ("G2", "G2p", "G2c")]
    best = max(steady, key=lambda each: each.rate)
    return [
        Result("G2", ours=best.rate, notes={"steps": told, **best.notes}),
        Result("G2p", ours=best.p99_ms),
        Result("G2c", ours=best.notes["cpu_ms_each"]["gateway"]),
    ]


async def _step(fleet: RealFleet, load: Load, rate: float, seconds: float) -> Step:
    load.again()
    asked, spent = await fleet.requests(), fleet.spent()
    await _offered(load, rate, seconds)
    undecided = await _undecided(fleet)
    notes = _each(load, realfleet.since(fleet.spent(), spent), await fleet.requests() - asked)
    refused = sum(load.answers.values()) - len(load.took)
    p99_ms, breaks = load.p99_ms(), ""
    if refused:
        breaks = f"{refused} were not acknowledged: {dict(load.answers)}"
    elif p99_ms > SLOW_MS:
        breaks = f"p99 is above {SLOW_MS:g} ms"
    elif undecided > rate * BEHIND_S:
        breaks = "the hub decides fewer than come"
    return Step(rate, p99_ms, undecided, notes, breaks)


async def _undecided(fleet: RealFleet) -> int:
    made = await fleet.count("host", "pinterest.com/v1beta1", "pinterestjobsets", NAMESPACE)
    return made - await fleet.count(
        "host", "federation.pinterest.com/v1alpha1", "placementdecisions", NAMESPACE
    )


async def _decided(fleet: RealFleet, most: int) -> None:
    """Waits until no more than so many lack a decision. Raises TimeoutError."""
    until_s = time.monotonic() + DRAINED_S
    while (left := await _undecided(fleet)) > most:
        if time.monotonic() > until_s:
            raise TimeoutError(f"{left} submissions are not decided")
        await asyncio.sleep(0.5)


async def _at_rest(fleet: RealFleet) -> None:
    """Waits until slices and statuses are written too: until all processes together take less than
    a tenth of a processor. Raises TimeoutError."""
    until_s, before = time.monotonic() + DRAINED_S, sum(fleet.spent().values())
    while True:
        await asyncio.sleep(REST_S)
        now = sum(fleet.spent().values())
        if now - before < REST_S / 10:
            return
        if time.monotonic() > until_s:
            raise TimeoutError("the federation does not come to rest")
        before = now
