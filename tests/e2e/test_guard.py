"""The guard as a process of its own, beside API servers that are killed: it answers the kubelet by
the lease alone, and goes bad when nobody can renew it.
"""

import contextlib
import json
import os
import signal
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
from federator.runtime import fencing
from tests.controlplane.plane import ControlPlane

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
LEASE_S = 14
DEPLOY = Path(__file__).parents[2] / "deploy"
SPACE = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/federator-system/leases"


@dataclass(slots=True)
class Api:
    """An API server of the member, and a hub's hand on the lease there."""

    url: str
    ca: str
    token: str

    def send(self, method: str, path: str, body: Any) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        request = urllib.request.Request(
            f"{self.url}{path}", json.dumps(body).encode(), headers, method=method
        )
        context = ssl.create_default_context(cadata=self.ca)
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return json.load(answer)

    def make_lease(self) -> None:
        """As the member process does."""
        space = {"metadata": {"name": "federator-system"}}
        self.send("POST", SPACE, {"apiVersion": "v1", "kind": "Namespace", **space})
        meta = {"name": fencing.LEASE, "namespace": "federator-system"}
        head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        self.send("POST", LEASES, {**head, "metadata": meta, "spec": {}})

    def renew(self) -> None:
        """As the hub does."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"renewTime": stamp, "leaseDurationSeconds": LEASE_S}
        self.send("PATCH", f"{LEASES}/{fencing.LEASE}", {"spec": spec})


@contextlib.contextmanager
def process(*command: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, text=True, **more) as started:
        try:
            yield started
        finally:
            started.kill()


@contextlib.contextmanager
def embedded() -> Iterator[tuple[Api, subprocess.Popen[str]]]:
    with process(sys.executable, "-c", SERVES, stdout=subprocess.PIPE) as served:
        assert served.stdout is not None
        yield Api(*json.loads(served.stdout.readline())), served


@dataclass(slots=True)
class Pod:
    """What a pod gives its guard: a port, the access to the API server, and a folder."""

    home: Path
    api: Api
    probes: dict[str, Any] = field(default_factory=dict)
    port: int = 0

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
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
            with process(*self.command(), stderr=stderr, env=environment) as started:
                yield started

    def health(self, path: str = "/healthz") -> int:
        """As a kubelet asks; 0 where nobody answers."""
        try:
            url = f"http://127.0.0.1:{self.port}{path}"
            with urllib.request.urlopen(url, timeout=3) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as said:
            return said.code
        except OSError:
            return 0

    def until(self, status: int, within_s: float, path: str = "/healthz") -> float:
        """Seconds until it answers so."""
        began = time.monotonic()
        while (said := self.health(path)) != status:
            assert time.monotonic() < began + within_s, f"{said} after {within_s} s"
            time.sleep(0.1)
        return time.monotonic() - began

    def lines(self, log: str = "log") -> list[str]:
        return (self.home / log).read_text().splitlines()


MEMORY_MAX = 48 * 2**20
"""What its container requests (`kinds.jobset.guards.RESOURCES`)."""


def resident(pid: int) -> int:
    """Bytes that a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


READ_S = fencing.POLL_S + fencing.READ_S
"""Within this a guard has read."""


def test_a_guard_turns_bad_when_the_api_server_it_reads_from_is_killed(tmp_path: Path) -> None:
    with embedded() as (api, server):
        api.make_lease()
        pod = Pod(tmp_path, api)
        wait = (*pod.command()[:6], "--wait")
        with pod.guard() as guard, process(*wait, stderr=subprocess.DEVNULL) as waiting:
            pod.until(503, 10)
            time.sleep(1)
            assert waiting.poll() is None  # nothing starts before the lease is good
            api.renew()
            pod.until(200, READ_S)
            assert waiting.wait(5) == 0
            assert resident(guard.pid) < MEMORY_MAX
            server.send_signal(signal.SIGKILL)
            assert pod.until(503, LEASE_S + 1) > 1  # it goes on by what it has read, for a while
        lines = pod.lines()
        assert sum("may run" in line for line in lines) == 1
        assert sum("the lease cannot be read: " in line for line in lines) == 1
        assert [line for line in lines if "may not run: no renewal of the lease for 14 s" in line]
        assert len(lines) <= 5


def test_a_guard_that_is_started_again_goes_on_and_reports_itself_bad_in_time(
    tmp_path: Path,
) -> None:
    with embedded() as (api, server):
        api.make_lease()
        pod = Pod(tmp_path, api)
        with pod.guard():
            pod.until(503, 10)
            time.sleep(1)
            api.renew()
            pod.until(200, READ_S)
        server.send_signal(signal.SIGKILL)
        with pod.guard("second"):
            pod.until(200, 5)  # without any API server, by what the first has left
            pod.until(503, LEASE_S + 1)
        assert "goes on from what an earlier guard" in pod.lines("second")[0]
        with pod.guard("third"):
            time.sleep(2)
            assert pod.health() == 503


def test_the_probe_of_a_container_is_asked_through_the_guard(tmp_path: Path) -> None:
    with embedded() as (api, _), socket.create_server(("127.0.0.1", 0)) as service:
        api.make_lease()
        port = service.getsockname()[1]
        alive = {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 2}
        pod = Pod(tmp_path, api, {"shard": {"livenessProbe": alive}})
        with pod.guard():
            pod.until(503, 10)
            time.sleep(1)
            api.renew()
            pod.until(200, READ_S, "/healthz/shard")
            assert pod.health("/healthz/other") == 404
            service.close()
            assert 1 < pod.until(503, 8, "/healthz/shard") < 8
            assert pod.health() == 200  # the lease itself is good
            api.renew()


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
    with pod.guard():
        pod.until(503, 10)
        time.sleep(1)
        api.renew()
        pod.until(200, READ_S)
        control_plane.end(cluster.name)
        assert pod.until(503, LEASE_S + 1) > 1
    assert not [line for line in pod.lines() if "answers 403" in line]
