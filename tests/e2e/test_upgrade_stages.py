"""The scripts of docs/operating/upgrades.md for hubs and RuntimeProfiles, run as they are written
there: real commands, two real hubs and members in this process.

Only what kubectl says to the Deployment of the hubs is answered by the test: these hubs are no
pods.
"""

import asyncio
import os
import random
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.kinds import registry
from federator.kube.clock import RealClock
from federator.model.steps import ObjectRef
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from tests.controlplane import build
from tests.e2e import shells
from tests.e2e.shells import DEADLINE_S, Shell, psvc
from tests.forkserver import starting
from tests.house.sources import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]
PAGE = ROOT / "docs/operating/upgrades.md"
PROBES = "federator-probes"
KUBECTL = f"""#!{sys.executable} -SE
import os, socket, sys
said = sys.argv[1:]
if "deployment/federator-hub" not in said:
    os.execv(os.environ["KUBECTL"], ["kubectl", *said])
with socket.socket(socket.AF_UNIX) as door:
    door.connect(os.environ["DEPLOYMENT"])
    door.sendall(" ".join(said).encode() + b"\\n")
    sys.exit(int(door.makefile().readline()))
"""


def script(name: str) -> str:
    """The script of that name, as the page shows it."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"\$ cat {name}\n(#!/bin/sh -e\n.*?)\$ \./{name}", text, re.DOTALL)
    assert found is not None
    return found[1]


class Stage:
    """One federation with two hubs, and what was said to their Deployment."""

    def __init__(self, shell: Shell, home: Path) -> None:
        self.shell, self.home = shell, home
        self.federation = shell.federation
        self.said: list[str] = []

    def leader(self) -> str:
        hubs = self.federation.processes.items()
        return next((name for name, hub in hubs if hub.state.ready), "")

    async def _upgrade(self, name: str) -> None:
        """A pod ends in order, and another one comes."""
        await self.federation.kill(name)
        self.federation.start_hub(name)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What the Deployment of the hubs makes of a command."""
        said = (await reader.readline()).decode().strip()
        self.said.append(said.partition(" --")[0].replace("-n federator-system ", ""))
        leader = self.leader()
        if said.startswith("set image"):
            await self._upgrade(next(n for n in self.federation.hub_names if n != leader))
        elif said.startswith("rollout resume"):
            await self._upgrade(leader)
            while not self.leader():  # noqa: ASYNC110 - once a test
                await asyncio.sleep(0.1)
            assert self.leader() != leader
        writer.write(b"0\n")
        writer.close()

    async def run(self, name: str, *arguments: str) -> tuple[int, str]:
        """(exit code, output) of a script of the page."""
        kubectl = build.kubectl()
        if kubectl is None:
            pytest.skip("there is no kubectl")
        bin_ = self.home / "bin"
        bin_.mkdir(exist_ok=True)
        for each, content in ((name, script(name)), ("kubectl", KUBECTL)):
            (bin_ / each).write_text(content, encoding="utf-8")
            (bin_ / each).chmod(0o755)
        door = await asyncio.start_unix_server(self.answer, self.home / "deployment")
        path = (str(bin_), str(starting.server().program()), os.environ["PATH"])
        process = await asyncio.create_subprocess_exec(
            bin_ / name,
            *arguments,
            env={
                "PATH": os.pathsep.join(path),
                "HOME": str(self.home),
                "KUBECONFIG": str(self.shell.kubeconfig),
                "KUBECTL": str(kubectl),
                "DEPLOYMENT": str(self.home / "deployment"),
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with door:
            out, _ = await asyncio.wait_for(process.communicate(), 2 * DEADLINE_S)
        return process.returncode or 0, out.decode()


@asynccontextmanager
async def staged(home: Path, *, probed: bool = True) -> AsyncIterator[Stage]:
    """`probed` False: the namespace of probes is gone, so that none is run."""
    federation = Federation(
        fleet=fleetfile.generated(2), clock=RealClock(), rng=random.Random(3), hubs=2
    )
    async with shells.running(federation, home) as shell:
        if not probed:
            ref, host = ObjectRef("v1", "namespaces", "", PROBES), federation.client("host")
            await host.delete(ref, uid=(await host.get(ref))["metadata"]["uid"])
        yield Stage(shell, home)


def profile(home: Path, name: str, version: str) -> str:
    """A file with a RuntimeProfile."""
    obj: dict[str, Any] = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "RuntimeProfile",
        "metadata": {"name": name},
        "spec": {"version": version, "env": [{"name": "RUNTIME", "value": version}]},
    }
    path = home / f"{name}-{version}.yaml"
    path.write_text(yaml.safe_dump(obj), encoding="utf-8")
    return str(path)


async def test_hubs_are_upgraded_standby_first_and_probed_after_each_stage(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        former = stage.leader()

        code, out = await stage.run("upgrade-hubs.sh", "image:2")

        assert code == 0, out
        assert out.count("Passed") == 4  # two clusters after each stage
        stages = re.split(r"^== .*\n", out, flags=re.MULTILINE)[1:]
        assert [each.count("Passed") for each in stages] == [2, 2]
        assert stage.leader() not in ("", former)
        assert [each.split(" ")[0] for each in stage.said] == [
            "set",
            "wait",
            "rollout",
            "wait",
            "rollout",
            "rollout",
        ]


async def test_the_leader_is_not_upgraded_after_a_failed_probe(tmp_path: Path) -> None:
    async with staged(tmp_path, probed=False) as stage:
        former = stage.leader()

        code, out = await stage.run("upgrade-hubs.sh", "image:2")

        assert code == 1, out
        assert "NotRun" in out
        assert "== the leader" not in out
        assert not [each for each in stage.said if "resume" in each]
        assert stage.leader() == former


async def test_a_profile_reaches_a_few_services_first_and_default_after_the_probes(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        await stage.shell.create(psvc("web", 2))
        await stage.shell.settle()
        files = profile(tmp_path, "candidate", "2"), profile(tmp_path, "default", "2")

        code, out = await stage.run("upgrade-profile.sh", *files, "default", "web")

        assert code == 0, out
        stages = re.split(r"^== .*\n", out, flags=re.MULTILINE)[1:]
        assert [each.count("Passed") for each in stages] == [2, 2]
        assert "successfully rolled out" in stages[0]
        host = stage.federation.client("host")
        assert await host.get(registry.KINDS["RuntimeProfile"].ref("", "default"))
        web = await host.get(registry.KINDS["PinterestService"].ref("default", "web"))
        assert web["spec"]["runtimeProfile"] == "candidate"


async def test_default_stays_as_it_is_after_a_failed_probe(tmp_path: Path) -> None:
    async with staged(tmp_path, probed=False) as stage:
        await stage.shell.create(psvc("web", 2))
        await stage.shell.settle()
        files = profile(tmp_path, "candidate", "2"), profile(tmp_path, "default", "2")

        code, out = await stage.run("upgrade-profile.sh", *files, "default", "web")

        assert code == 1, out
        assert "== default" not in out
        kind = registry.KINDS["RuntimeProfile"]
        found = await stage.federation.client("host").list(kind.api_version, kind.plural)
        assert [obj["metadata"]["name"] for obj in found.items] == ["candidate"]
