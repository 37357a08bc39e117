"""`federator` as processes against a federation in this one: the host is served over HTTPS, all
else is in memory.

Used by the command line's end-to-end tests that reach into the federation (cut a link, write as
another host).
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from federator.embedded import http
from federator.kinds import registry
from federator.sandbox.federation import Federation
from tests.forkserver import starting

DEADLINE_S = 60.0


@dataclass
class Shell:
    """Runs commands with the host's kubeconfig."""

    federation: Federation
    kubeconfig: Path

    async def start(self, *args: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            starting.server().program() / "federator",
            *args,
            "--kubeconfig",
            str(self.kubeconfig),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *args: str, code: int = 0) -> tuple[str, str]:
        process = await self.start(*args)
        out, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        assert process.returncode == code, err.decode()
        return out.decode(), err.decode()

    async def json(self, *args: str) -> Any:
        return json.loads((await self.run(*args, "-o", "json"))[0])

    async def create(self, obj: dict[str, Any]) -> None:
        await self.federation.client("host").create(registry.KINDS[obj["kind"]].ref_of(obj), obj)

    async def settle(self) -> None:
        await self.federation.until_settled(DEADLINE_S)

    async def joined(self) -> None:
        """Until the host has every member's figures, which come some seconds after it has joined:
        what is created earlier may be placed on the members that have joined by then.
        """
        kind = registry.KINDS["MemberCluster"]
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found = await self.federation.client("host").list(kind.api_version, kind.plural)
                if all("capacity" in one.get("status", {}) for one in found.items):
                    return
                await asyncio.sleep(0.2)


def psvc(name: str, replicas: int, cpu: str = "1", **meta: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": name, "namespace": "default", **meta},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
    }


@contextlib.asynccontextmanager
async def running(federation: Federation, home: Path) -> AsyncIterator[Shell]:
    """Starts the federation, waits until all members have joined, and ends it whatever happens."""
    starting.server()  # before the federation, whose clock would stand still meanwhile
    server = await http.serve(federation.host)
    try:
        path = home / "host.kubeconfig"
        http.write_kubeconfig(path, {"host": server}, "host")
        await federation.start()
        shell = Shell(federation, path)
        await shell.joined()
        yield shell
    finally:
        await federation.stop()
        await server.close()
