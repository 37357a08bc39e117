"""The guard as a process of its own, beside API servers that are killed: it answers the kubelet by
the lease alone, and goes bad when nobody can renew it.
"""

import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.cli.running import runtime
from federator.runtime import fencing, guard
from tests.controlplane import processes
from tests.controlplane.plane import ControlPlane
from tests.e2e import federations
from tests.running.ports import free_port

pytestmark = pytest.mark.e2e

SERVES = """
import asyncio, json, random, sys
from federator.embedded import http
from federator.embedded.server import EmbeddedCluster
from federator.kube.clock import RealClock

async def main():
    made = EmbeddedCluster("m", clock=RealClock(), rng=random.Random(1), controllers=False)
    server = await http.serve(made)
    print(json.dumps([server.url, server.ca_pem.decode(), made.token]), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
LEASE_S = 20
DEPLOY = Path(__file__).parents[2] / "deploy"
SPACE = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/federator-system/leases"

TOLD = {
    "bad": "the containers of this pod may not run: ",
    "good": "the lease is good for ",
    "unread": "the lease cannot be read: ",
    "read": "the lease is read again, after: ",
}
"""The lines of a guard's log, each for one turn."""
OVER = re.compile(
    r"no renewal of the lease for \d+ s$|the lease ran out \d+ s ago by this node's clock$"
)
"""Which of the two it tells depends on when it asked beside the hub's renewal."""


@dataclass(slots=True)
class Api:
    """An API server of the member, and a hub's hand on the lease there."""

    url: str
    ca: str
    token: str

    def send(self, method: str, path: str, body: Any = None) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        request = urllib.request.Request(
            f"{self.url}{path}",
            None if body is None else json.dumps(body).encode(),
            headers,
            method=method,
        )
        context = ssl.create_default_context(cadata=self.ca)
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return json.load(answer)

    def make_lease(self) -> None:
        """As the member process does."""
        space = {"metadata": {"name": "federator-system"}}
        self.send("POST", SPACE, {"apiVersion": "v1", "kind": "Namespace", **space})
        meta = {"name": fencing.LEASE, "namespace": "federator-system"}
        head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        self.send("POST", LEASES, {**head, "metadata": meta, "spec": {}})

    def may_read(self) -> bool:
        """As the guard does."""
        try:
            self.send("GET", f"{LEASES}/{fencing.LEASE}")
        except urllib.error.HTTPError as said:
            if said.code != 403:
                raise
            return False
        return True

    def renew(self) -> None:
        """As the hub does."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"renewTime": stamp, "leaseDurationSeconds": LEASE_S}
        self.send("PATCH", f"{LEASES}/{fencing.LEASE}", {"spec": spec})


@contextlib.contextmanager
def embedded() -> Iterator[tuple[Api, subprocess.Popen[str]]]:
    with processes.popen((sys.executable, "-c", SERVES), stdout=subprocess.PIPE) as served:
        assert served.stdout is not None
        yield Api(*json.loads(served.stdout.readline())), served


@dataclass(slots=True)
class Pod:
    """What a pod gives its guard: a port, the access to the API server, and a folder."""

    home: Path
    api: Api
    probes: dict[str, Any] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        (self.home / "access").mkdir()
        (self.home / "state").mkdir()
        (self.home / "access" / "token").write_text(f"{self.api.token}\n")
        (self.home / "access" / "ca.crt").write_text(self.api.ca)

    def command(self) -> tuple[str, ...]:
        return (
            *(sys.executable, "-m", "federator", "runtime", "guard", f"--port={self.port}"),
            *("--host=127.0.0.1", f"--server={self.api.url}", f"--access={self.home}/access"),
            f"--state={self.home}/state",
        )

    @contextlib.contextmanager
    def guard(self, log: str = "log") -> Iterator[subprocess.Popen[str]]:
        with (self.home / log).open("w") as stderr:
            environment = {**os.environ, runtime.PROBES: json.dumps(self.probes)}
            with processes.popen(self.command(), stderr=stderr, env=environment) as started:
                yield started

    def ask(self, path: str = "/healthz") -> tuple[int, str]:
        """Status and text, as a kubelet asks; (0, why) where nobody answers."""
        try:
            url = f"http://127.0.0.1:{self.port}{path}"
            with urllib.request.urlopen(url, timeout=3) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as said:
            return said.code, said.read().decode()
        except OSError as nobody:
            return 0, str(nobody)

    def health(self, path: str = "/healthz") -> int:
        return self.ask(path)[0]

    def first(self) -> int:
        """Status of its first answer."""
        statuses = [0]

        def answers() -> bool:
            statuses.append(self.health())
            return statuses[-1] != 0

        federations.until(answers, lambda: f"{self.ask()}")
        return statuses[-1]

    def until(self, status: int, path: str = "/healthz", text: str = "") -> None:
        """Until it answers so."""

        def so() -> bool:
            code, said = self.ask(path)
            return code == status and text in said

        federations.until(so, lambda: f"{self.ask(path)}: {self.log()}")

    def until_read(self) -> None:
        """Until it has read a lease. Of a renewal that is in the first one it cannot tell the age,
        so none is made before.
        """
        self.until(503, text="no renewal of the lease has been seen yet")

    def until_unread(self) -> None:
        """Until it tells that the lease cannot be read."""
        federations.until(lambda: self.told("unread", "read")[-1:] == ["unread"], self.log)

    def until_told(self, *runs: str) -> None:
        federations.until(lambda: self.told("bad", "good") == list(runs), self.log)

    def until_over(self) -> None:
        """Until it says that nothing may run any more. It must say so from the moment on at which
        the lease that it has read is over, by its own clock or by the hub's.
        """
        good_s = 0.0

        def bad() -> bool:
            nonlocal good_s
            asked_s, status = guard.elapsed(), self.health()
            good_s = asked_s if status == 200 else good_s
            return status == 503

        federations.until(bad, lambda: f"{self.ask()}: {self.log()}")
        read = json.loads((self.home / "state" / guard.STATE).read_text())
        over_s = min(read["until_s"], read["ends_s"] - time.time() + guard.elapsed())
        assert 0 < good_s < over_s <= guard.elapsed()

    def lines(self, log: str = "log") -> list[str]:
        return (self.home / log).read_text().splitlines()

    def log(self) -> str:
        return "\n".join(self.lines())

    def told(self, *kinds: str) -> list[str]:
        """What it tells of these kinds of `TOLD`, line by line."""
        return [kind for line in self.lines() for kind in kinds if TOLD[kind] in line]


MEMORY_MAX = 48 * 2**20
"""What its container requests (`kinds.jobset.guards.RESOURCES`)."""


def resident(pid: int) -> int:
    """Bytes that a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_guard_turns_bad_when_the_api_server_it_reads_from_is_killed(tmp_path: Path) -> None:
    with embedded() as (api, server):
        api.make_lease()
        pod, waits = Pod(tmp_path, api), tmp_path / "waits"
        wait = (*pod.command()[:6], "--wait")
        with (
            waits.open("w") as stderr,
            pod.guard() as running,
            processes.popen(wait, stderr=stderr) as it,
        ):
            pod.until_read()
            federations.until(lambda: "waits until" in waits.read_text(), waits.read_text)
            assert it.poll() is None  # nothing starts before the lease is good
            api.renew()
            pod.until(200)
            assert it.wait(federations.COMMAND_S) == 0
            assert resident(running.pid) < MEMORY_MAX
            server.kill()
            pod.until_unread()
            assert pod.health() == 200  # it goes on by what it has read, for a while
            pod.until_over()
            pod.until_told("bad", "good", "bad")
        # Nothing but turns is told, whatever else is asked and read meanwhile.
        assert len(pod.told(*TOLD)) == len(pod.lines())
        reads = pod.told("unread", "read")
        assert reads == ["unread", *["read", "unread"] * (len(reads) // 2)]
        assert OVER.search([line for line in pod.lines() if TOLD["bad"] in line][-1])


def test_a_guard_that_is_started_again_goes_on_and_reports_itself_bad_in_time(
    tmp_path: Path,
) -> None:
    with embedded() as (api, server):
        api.make_lease()
        pod = Pod(tmp_path, api)
        with pod.guard():
            pod.until_read()
            api.renew()
            pod.until(200)
        server.kill()
        with pod.guard("second"):
            pod.until(200)  # without any API server, by what the first has left
            pod.until_over()
        assert "goes on from what an earlier guard" in pod.lines("second")[0]
        with pod.guard("third"):
            assert pod.first() == 503


def test_the_probe_of_a_container_is_asked_through_the_guard(tmp_path: Path) -> None:
    with embedded() as (api, _), socket.create_server(("127.0.0.1", 0)) as service:
        api.make_lease()
        port = service.getsockname()[1]
        alive = {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 2}
        pod = Pod(tmp_path, api, {"shard": {"livenessProbe": alive}})
        with pod.guard():
            pod.until_read()
            api.renew()
            pod.until(200, "/healthz/shard")
            assert pod.health("/healthz/other") == 404
            closed_s = time.monotonic()
            service.close()
            pod.until(503, "/healthz/shard", "its probe failed: ")
            assert time.monotonic() - closed_s > 1  # two failures, a period apart
            assert pod.health() == 200  # the lease itself is good


def test_a_guard_without_a_pod_or_a_port_says_so(tmp_path: Path) -> None:
    with embedded() as (api, _):
        pod = Pod(tmp_path, api)
        command = [word for word in pod.command() if not word.startswith("--server")]
        clean = {name: text for name, text in os.environ.items() if "KUBERNETES" not in name}
        ran = subprocess.run(command, capture_output=True, text=True, env=clean, check=False)
        assert (ran.returncode, "this is no pod" in ran.stderr) == (1, True)
        with socket.create_server(("127.0.0.1", pod.port)):
            ran = subprocess.run(pod.command(), capture_output=True, text=True, check=False)
        assert (ran.returncode, "cannot listen on port" in ran.stderr) == (1, True)


@pytest.mark.real
@pytest.mark.xdist_group("real servers with nodes")
def test_a_guard_reads_a_real_api_server_with_the_rights_of_deploy_and_turns_bad_when_it_ends(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    """Under an account that has nothing but what every pod's account has."""
    cluster = control_plane.cluster("guarded")
    api = Api(cluster.url, cluster.ca_file.read_text(), cluster.token)
    api.make_lease()
    for obj in yaml.safe_load_all((DEPLOY / "member" / "guard-access.yaml").read_text()):
        space, kind = obj["metadata"]["namespace"], f"{obj['kind'].lower()}s"
        api.send("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/{kind}", obj)
    accounts = f"{SPACE}/default/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "shard"}}
    api.send("POST", accounts, account)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    given = api.send("POST", f"{accounts}/shard/token", asked)["status"]["token"]
    pod = Pod(tmp_path, Api(api.url, api.ca, given))
    # Its authorizer hears of new rights from a watch.
    federations.until(pod.api.may_read, lambda: "its account may not read the lease")
    with pod.guard():
        pod.until_read()
        api.renew()
        pod.until(200)
        control_plane.end(cluster.name)
        pod.until_unread()
        assert pod.health() == 200
        pod.until_over()
    assert not [line for line in pod.lines() if "answers 403" in line]
