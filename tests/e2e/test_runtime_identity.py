"""The identity of pods by real processes: `federator signer` next to an API server, and `federator
runtime` as the init run and the sidecar of two pods.
"""

import contextlib
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from federator.runtime.identity.spiffe import SpiffeId
from tests.bench.proc import resident_mb
from tests.running.ports import free_port
from tests.unit.signer import cas
from tests.unit.signer.cas import Ca

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("identity of pods")]

DOMAIN = "test.example"
WAIT_S = 60.0
MEMBER = """
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


def until(condition: Any, what: str, within_s: float = WAIT_S) -> Any:
    """What the condition gives as soon as it is true."""
    end = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)
    return found


@dataclass
class World:
    """A member's API server, an authority in files, and the processes that are started."""

    home: Path
    url: str
    ca: str
    admin: str
    root: Ca
    port: int
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def authority(self) -> Path:
        return self.home / "authority"

    def ask(self, method: str, path: str, body: Any) -> dict[str, Any]:
        asked = urllib.request.Request(
            self.url + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self.admin}", "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cadata=self.ca)
        with urllib.request.urlopen(asked, context=context, timeout=60) as answer:
            return dict(json.load(answer))

    def start(self, name: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
        log = (self.home / f"{name}.log").open("a")
        process = subprocess.Popen(
            [sys.executable, "-m", "federator", *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **env},
        )
        log.close()
        self.processes.append(process)
        return process

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text()

    def signer(self) -> subprocess.Popen[str]:
        kubeconfig = self.home / "kubeconfig"
        ca = self.home / "api-ca.crt"
        ca.write_text(self.ca)
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "m",
                    "contexts": [{"name": "m", "context": {"cluster": "m", "user": "u"}}],
                    "clusters": [
                        {
                            "name": "m",
                            "cluster": {"server": self.url, "certificate-authority": str(ca)},
                        }
                    ],
                    "users": [{"name": "u", "user": {"token": self.admin}}],
                }
            )
        )
        kubeconfig.chmod(0o600)
        process = self.start(
            "signer",
            "signer",
            f"--kubeconfig={kubeconfig}",
            f"--listen=127.0.0.1:{self.port}",
            "--dns=localhost",
            FEDERATOR_SIGNER__TRUST_DOMAIN=DOMAIN,
            FEDERATOR_SIGNER__CLUSTER="m1",
            FEDERATOR_SIGNER__AUTHORITY_DIRECTORY=str(self.authority),
            FEDERATOR_SERVE__ENABLED="false",
        )
        until(lambda: _listens(self.port), "the signer listens")
        return process


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@dataclass
class Pod:
    """One pod: its folders, variables and port."""

    world: World
    account: str
    port: int
    env: dict[str, str]

    @property
    def identity(self) -> Path:
        return Path(self.env["FEDERATOR_IDENTITY_DIR"])

    @property
    def state(self) -> Path:
        return self.identity.parent / "state"

    def init(self, within_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "federator", "runtime", "--roles=identity", "--init"]
        return subprocess.run(
            [*command, f"--state={self.state}", f"--within={within_s:g}"],
            capture_output=True,
            text=True,
            timeout=WAIT_S * 2,
            check=False,
            env={**os.environ, **self.env},
        )

    def sidecar(self, roles: str = "identity") -> subprocess.Popen[str]:
        arguments = ["runtime", f"--roles={roles}", "--host=127.0.0.1", f"--port={self.port}"]
        name = f"sidecar-{self.account}"
        return self.world.start(name, *arguments, f"--state={self.state}", **self.env)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as got:
                return got.status, got.read().decode()
        except urllib.error.HTTPError as bad:
            with bad:
                return bad.code, bad.read().decode()
        except OSError as bad:
            return 0, str(bad)

    def check(self) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "federator", "runtime", "check", f"--port={self.port}"]
        return subprocess.run(
            [*command, f"--state={self.state}"],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    member = subprocess.Popen(
        [sys.executable, "-c", MEMBER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert member.stdout is not None
    url, ca, token = json.loads(member.stdout.readline())
    root = cas.authority("root", time.time())
    made = World(tmp_path, url, ca, token, root, free_port(), [member])
    cas.lay_out(made.authority, cas.authority("signing", time.time(), above=root), root)
    labels = {"pinterest.com/project": "homefeed"}
    made.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "ads", "labels": labels}})
    try:
        yield made
    finally:
        for process in made.processes:
            process.terminate()
        for process in made.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
        member.stdout.close()


def pod(world: World, account: str, **env: str) -> Pod:
    """A pod of its own account, with a token bound to it, as a kubelet projects it."""
    space = "/api/v1/namespaces/ads"
    world.ask("POST", f"{space}/serviceaccounts", {"metadata": {"name": account}})
    spec = {"serviceAccountName": account, "containers": [{"name": "main", "image": "none"}]}
    world.ask("POST", f"{space}/pods", {"metadata": {"name": f"{account}-0"}, "spec": spec})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": f"{account}-0"}
    asked = {"spec": {"audiences": ["federator-signer"], "boundObjectRef": bound}}
    answer = world.ask("POST", f"{space}/serviceaccounts/{account}/token", asked)
    home = world.home / account
    (home / "state").mkdir(parents=True)
    token = home / "token"
    token.write_text(answer["status"]["token"])
    return Pod(
        world,
        account,
        free_port(),
        {
            "FEDERATOR_IDENTITY_DIR": str(home / "identity"),
            "FEDERATOR_TRUST_DOMAIN": DOMAIN,
            "FEDERATOR_SIGNER_URL": f"https://localhost:{world.port}",
            "FEDERATOR_SIGNER_TOKEN": str(token),
            "FEDERATOR_TRUST_BUNDLE": world.root.pem.decode(),
            "FEDERATOR_TERMINATION_LOG": str(home / "termination"),
            "POD_NAMESPACE": "ads",
            "POD_SERVICE_ACCOUNT": account,
            **env,
        },
    )


def test_two_pods_get_certificates_and_shake_hands(world: World) -> None:
    world.signer()
    web, db = pod(world, "web"), pod(world, "db")
    for each in (web, db):
        done = each.init()
        assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((web.identity / "tls.key").stat().st_mode) == 0o600
    command = ["openssl", "verify", "-x509_strict", "-CAfile", str(web.identity / "ca.crt")]
    command += ["-untrusted", str(web.identity / "tls.crt"), str(web.identity / "tls.crt")]
    verified = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert verified.stdout.endswith(": OK\n"), verified.stderr
    with served(web) as port:
        shown = shaken(db, port)

    assert shown == str(SpiffeId(DOMAIN, "ads", "web"))
    facts = json.loads((web.identity / "identity.json").read_text())
    assert facts["claims"] == ["cluster=m1", "project=homefeed"]


@contextlib.contextmanager
def served(server: Pod) -> Iterator[int]:
    """A TLS server that shows the pod's files, and wants a client certificate."""
    listening = socket.create_server(("127.0.0.1", 0))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(server.identity / "tls.crt", server.identity / "tls.key")
    context.load_verify_locations(server.identity / "ca.crt")

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            with context.wrap_socket(connection, server_side=True) as wrapped:
                wrapped.sendall(b"hello")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        listening.close()
        thread.join(10)


def shaken(client: Pod, port: int) -> str:
    """The SPIFFE id that the server shows to the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # SPIFFE peers compare the URI
    context.load_cert_chain(client.identity / "tls.crt", client.identity / "tls.key")
    context.load_verify_locations(client.identity / "ca.crt")
    with (
        socket.create_connection(("127.0.0.1", port), 10) as raw,
        context.wrap_socket(raw) as wrapped,
    ):
        assert wrapped.recv(5) == b"hello"
        certificate = wrapped.getpeercert()
    assert certificate is not None
    return str(certificate["subjectAltName"][0][1])


def test_a_pod_waits_with_the_reason_while_the_signer_is_away(world: World) -> None:
    web = pod(world, "web")
    done = web.init(within_s=3)

    assert done.returncode == 1
    left = (web.identity.parent / "termination").read_text()
    assert left.startswith("identity: the signer does not answer: https://localhost:")
    checked = web.check()
    assert checked.returncode == 1
    assert "SignerAway" in checked.stdout
    world.signer()
    assert web.init().returncode == 0  # it goes on as soon as the signer is there


def test_running_pods_go_on_without_the_signer_and_renew_when_it_is_back(world: World) -> None:
    signer = world.signer()
    web = pod(world, "web")
    assert web.init().returncode == 0
    sidecar = web.sidecar()
    until(lambda: web.get("/readyz")[0] == 200, "the sidecar is ready")
    signer.terminate()
    signer.wait(15)
    before = (web.identity / "tls.crt").read_bytes()
    sidecar.kill()  # a node that restarts the container
    sidecar.wait(5)
    web.sidecar()
    until(lambda: web.get("/readyz")[0] == 200, "the sidecar goes on with the files")
    assert (web.identity / "tls.crt").read_bytes() == before
    checked = web.check()
    assert (checked.returncode, "Issued" in checked.stdout) == (0, True)


def test_a_foreign_account_is_refused_with_its_reason(world: World) -> None:
    world.signer()
    pod(world, "admin")
    web = pod(world, "web")
    web.env["POD_SERVICE_ACCOUNT"] = "admin"  # it says so, and its token does not
    done = web.init(within_s=5)

    assert done.returncode == 1
    left = (web.identity.parent / "termination").read_text()
    wanted = f"spiffe://{DOMAIN}/ns/ads/sa"
    assert left == (
        f"identity: the request asks for SAN URI:{wanted}/admin, and its token is that of"
        f" {wanted}/web"
    )
    assert not (web.identity / "tls.key").exists()


def test_all_roles_run_in_one_sidecar_and_it_ends_in_order(world: World) -> None:
    """With a registry in memory, and an application that listens: each part says how it is."""
    world.signer()
    logs = world.home / "logs"
    logs.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as application:
        web = pod(
            world,
            "web",
            FEDERATOR_ZOOKEEPER="embedded",
            FEDERATOR_TRAFFIC_SERVICE="web",
            FEDERATOR_TRAFFIC_PORT=str(application.getsockname()[1]),
            FEDERATOR_TRAFFIC_DRAIN_SECONDS="0",
            FEDERATOR_METRICS_PORT=str(free_port()),
            FEDERATOR_SECRETS_DIR=str(world.home / "secrets"),
            FEDERATOR_CONFIG_DIR=str(world.home / "config"),
            PINTEREST_LOG_DIR=str(logs),
            POD_NAME="web-0",
            POD_UID="1" * 32,
            POD_IP="127.0.0.1",
        )
        sidecar = web.sidecar("identity,secrets,config,traffic,logs,metrics")
        until(lambda: web.get("/readyz")[0] == 200, f"ready: {web.get('/state')[1]}")
        parts = [line.split()[:2] for line in web.check().stdout.splitlines()[1:]]
        roles = ["identity", "secrets", "config", "traffic", "logs", "metrics"]
        assert parts == [[role, "yes"] for role in roles]
        assert resident_mb(sidecar.pid) < 40
        assert web.get("/drain") == (200, "drained\n")
        assert json.loads(web.get("/state")[1])["drained"] is True
        sidecar.terminate()
        assert sidecar.wait(20) == 0


def test_neither_keys_nor_tokens_are_in_logs_and_states(world: World) -> None:
    world.signer()
    web = pod(world, "web")
    done = web.init()
    web.sidecar()
    until(lambda: web.get("/readyz")[0] == 200, "the sidecar is ready")
    texts = {
        "init": done.stdout + done.stderr,
        "sidecar": world.log("sidecar-web"),
        "signer": world.log("signer"),
        "state": web.get("/state")[1] + (web.state / "runtime.json").read_text(),
        "check": web.check().stdout,
        "facts": (web.identity / "identity.json").read_text(),
    }
    token = Path(web.env["FEDERATOR_SIGNER_TOKEN"]).read_text()
    key = (web.identity / "tls.key").read_text().splitlines()[1]
    for where, text in texts.items():
        assert text, where
        for secret in (token, token.rpartition(".")[2], key, world.admin):
            assert secret not in text, where
