"""Embedded clusters served over HTTPS by this process, and a hub in a process of its own that
speaks to them.

For what can only be told from outside: how much memory a hub takes, and how long one takes to
start.
"""

import asyncio
import contextlib
import math
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from federator.embedded import http
from federator.sandbox.federation import Federation
from tests.bench import fleets
from tests.bench.proc import children_s, processor_s, resident_mb

ROOT = Path(__file__).parents[2]
ANSWER_S = 10.0
"""A hub that starts reads a hundred thousand objects and answers late."""


@contextlib.asynccontextmanager
async def serving(federation: Federation, room: Path) -> AsyncIterator[dict[str, str]]:
    """Serves host and members; gives the kubeconfigs by name and writes the host's to `room`."""
    servers = await http.serve_all([federation.host, *federation.members.values()])
    http.write_kubeconfig(room / "host.kubeconfig", {"host": servers["host"]}, "host")
    try:
        yield {name: http.kubeconfig({name: server}, name) for name, server in servers.items()}
    finally:
        for server in servers.values():
            await server.close()


class Hub:
    """A hub process on a served federation."""

    def __init__(self, room: Path, options: Mapping[str, Any]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._room = room
        settings = {"hub": dict(options), "serve": {"port": self._port}}
        (room / "settings.yaml").write_text(yaml.safe_dump(settings))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts the process; it is not ready yet."""
        where = [
            "--kubeconfig",
            str(self._room / "host.kubeconfig"),
            "--config",
            str(self._room / "settings.yaml"),
        ]
        command = [sys.executable, "-m", "federator", "hub", "--allow-loopback", *where]
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self._room),
            "PYTHONPATH": str(ROOT),
        }
        with (self._room / "hub.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, env=environment, cwd=self._room, stdout=log, stderr=log
            )

    async def until(
        self, holds: Callable[[], Awaitable[bool]], *, within_s: float, said: str
    ) -> None:
        """Until `holds`. Raises TimeoutError with `said` and the end of the log, at once when the
        process has ended.
        """
        deadline = time.monotonic() + within_s
        while (ended := self._ended) or not await holds():
            if ended or time.monotonic() > deadline:
                lines = (self._room / "hub.log").read_text(errors="replace").splitlines()
                when = "ended before it was" if ended else f"was not within {within_s:.0f} s"
                raise TimeoutError(f"the hub {when} {said}: {' | '.join(lines[-4:])}")
            await asyncio.sleep(0.05)

    @property
    def _ended(self) -> bool:
        return self._process is None or self._process.returncode is not None

    async def until_ready(self, within_s: float) -> None:
        """Until its readiness probe is answered with 200; raises as `until` does."""
        await self.until(self._probe, within_s=within_s, said="ready")

    async def _probe(self) -> bool:
        try:
            return (await self._get("/readyz"))[0] == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _get(self, path: str) -> tuple[int, str]:
        """Status and text of what it answers."""
        url = f"http://127.0.0.1:{self._port}{path}"
        patience = aiohttp.ClientTimeout(total=ANSWER_S)
        async with aiohttp.ClientSession(timeout=patience) as session, session.get(url) as answer:
            return answer.status, await answer.text()

    async def histogram(self, name: str) -> Mapping[float, float]:
        """A histogram of its metrics, which must have no labels: how many were at most so much, so
        far.
        """
        _, text = await self._get("/metrics")
        family = next(found for found in text_string_to_metric_families(text) if found.name == name)
        return {
            float(one.labels["le"]): one.value
            for one in family.samples
            if one.name == f"{name}_bucket"
        }

    @property
    def cpu_s(self) -> float:
        """Processor time that it has taken so far, in seconds."""
        assert self._process is not None
        return processor_s(self._process.pid)

    @property
    def worker_cpu_s(self) -> float:
        """Processor time that its snapshot worker and the worker's answers have taken so far, in
        seconds."""
        assert self._process is not None
        return children_s(self._process.pid)

    @property
    def moved_bytes(self) -> int:
        """What it has read and written so far, on connections for the most part."""
        assert self._process is not None
        counted = Path(f"/proc/{self._process.pid}/io").read_text()
        figures = dict(line.split(": ") for line in counted.splitlines())
        return int(figures["rchar"]) + int(figures["wchar"])

    @property
    def memory_mb(self) -> float:
        assert self._process is not None
        return resident_mb(self._process.pid)

    async def stop(self) -> None:
        """Ends it, politely first."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), 10.0)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def quantile(after: Mapping[float, float], before: Mapping[float, float], percent: float) -> float:
    """Of what a histogram counted between two looks at it; within a bucket evenly, as Prometheus'
    histogram_quantile has it, and the last finite bound where the value is above it. Raises
    ValueError when nothing was counted.
    """
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    wanted = counts[math.inf] * percent / 100
    if not counts[math.inf]:
        raise ValueError("a quantile of nothing")
    lower, below = 0.0, 0.0
    for bound, count in counts.items():
        if count >= wanted and bound < math.inf:
            return lower + (bound - lower) * (wanted - below) / (count - below)
        if bound < math.inf:
            lower, below = bound, count
    return lower


UNCOUNTED = ("leases", "events", "selfsubject", "subjectaccessreviews", "tokenreviews")


def writes(federation: Federation) -> Counter[str]:
    """Writes that the servers took so far, by "cluster verb resource"; leases and Events are left
    out, and access reviews, which store nothing.
    """
    found: Counter[str] = Counter()
    for name, cluster in (("host", federation.host), *federation.members.items()):
        for (verb, resource), count in cluster.api.requests.items():
            if verb.upper() in fleets.WRITES | {"CREATE", "UPDATE"} and not resource.startswith(
                UNCOUNTED
            ):
                found[f"{name} {verb} {resource}"] += count
    return found
