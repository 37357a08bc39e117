"""The sidecar as a process with the roles traffic, logs and metrics, and a real ZooKeeper."""

import asyncio
import contextlib
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.running.ports import free_port
from tests.traffic import real, registries, zookeeper
from tests.traffic.registries import Real

pytestmark = pytest.mark.e2e
MEMORY_MAX_MIB = 40
WAIT_S = 60.0


@contextlib.asynccontextmanager
async def sidecar(
    folder: Path, hosts: str, app: real.Listening, port: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    (folder / "logs").mkdir()
    (folder / "state").mkdir()
    probe = {"httpGet": {"port": app.port, "path": "/"}, "periodSeconds": 1}
    environ = {
        "POD_UID": registries.member(1).uid,
        "POD_IP": app.ip,
        "POD_NAME": "web-1",
        "PINTEREST_WORKLOAD_NAME": "search",
        "PINTEREST_CLUSTER": "use1-a",
        "PINTEREST_LOG_DIR": str(folder / "logs"),
        "FEDERATOR_ZOOKEEPER": hosts,
        "FEDERATOR_STATE_DIR": str(folder / "state"),
        "FEDERATOR_TRAFFIC_DRAIN_SECONDS": "1",
        "FEDERATOR_METRICS_APPLICATION": f"{app.port}/metrics",
        "FEDERATOR_METRICS_PORT": str(free_port()),
        "FEDERATOR_APPLICATION": json.dumps({"port": app.port, "probes": {"web": probe}}),
    }
    command = ("runtime", "--roles", "traffic,logs,metrics", "--host", "127.0.0.1")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "federator", *command, "--port", str(port)),
        env={**os.environ, **environ},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def resident_mib(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


async def answer(port: int, path: str) -> str:
    """The body of an answer, whatever its status; "" before the sidecar listens."""

    def ask() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=WAIT_S) as got:
                return str(got.read().decode()).strip()
        except urllib.error.HTTPError as bad:
            with bad:
                return bad.read().decode().strip()
        except OSError:
            return ""

    return await asyncio.to_thread(ask)


async def until_answered(port: int, path: str, part: str) -> str:
    """The first answer with this text."""
    async with asyncio.timeout(WAIT_S):
        while part not in (got := await answer(port, path)):  # noqa: ASYNC110 - a process
            await asyncio.sleep(0.02)
        return got


def test_a_sidecar_registers_prints_and_drains_in_less_than_its_memory(tmp_path: Path) -> None:
    async def main() -> None:
        port, app = free_port(), real.application(1, free_port())
        async with (
            zookeeper.serving(tmp_path) as server,
            sidecar(tmp_path, server.hosts, app, port) as process,
        ):
            world = Real(server)
            try:
                await until_answered(port, "/readyz", "traffic: The application is not ready")
                (tmp_path / "logs" / "app.log").write_text("started\n", encoding="utf-8")
                await app.start()
                await until_answered(port, "/readyz", "ok")
                nodes = await world.nodes(registries.FOLDER)
                assert [each.ip for each in registries.read(nodes)] == [app.ip]
                assert process.stdout is not None
                line = json.loads(await asyncio.wait_for(process.stdout.readline(), WAIT_S))
                assert (line["workload"], line["message"]) == ("search", "started")
                assert resident_mib(process.pid) < MEMORY_MAX_MIB
                began_s = time.monotonic()
                assert await answer(port, "/drain") == "drained"
                assert time.monotonic() - began_s >= 1.0
                assert await world.nodes(registries.FOLDER) == {}
                assert "is not in /discovery/search/prod" in await answer(port, "/readyz")
                process.terminate()
                assert await asyncio.wait_for(process.wait(), WAIT_S) == 0
            finally:
                await app.end()
                await world.close()

    asyncio.run(main())
