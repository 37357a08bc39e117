"""RT1, RT1k and RT2: what the runtime of a pod takes, and how quickly a signer certifies.

RT1 is the memory of a sidecar with all roles that are there, as a process of its own, after it has
renewed its certificate; RT1k the most that the child with the key had. RT2 issues certificates
through the port of the signer: a review of the pod's token by an embedded API server, and a real
OpenBao that signs. The requests are made before, because pods make theirs themselves.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization

from federator.embedded.server import EmbeddedCluster
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.tlsserver import Incoming, Listen
from federator.model.steps import ObjectRef
from federator.runtime import web
from federator.runtime.roles import PARTS
from federator.signer.authorities import CertificateAuthority, FilesAuthority
from federator.signer.openbao import OpenBaoAuthority, connected
from federator.signer.options import SignerOptions
from federator.signer.server import Signer
from tests.bench.harness import Result
from tests.openbao import program, server
from tests.openbao.server import OpenBao
from tests.running.ports import free_port
from tests.unit.signer import cas

CERTIFICATES = 10_000
AT_ONCE = 64
DOMAIN = "bench.example"
SIDECAR = (
    "import importlib, sys\n"
    "from federator.cli.running.runtime import runtime\n"
    "from federator.runtime import roles\n"
    "for module in (*roles.PARTS.values(), 'federator.runtime.traffic.zookeeper'):\n"
    "    importlib.import_module(module)\n"
    "runtime(sys.argv[1:])\n"
)
"""The sidecar with the modules of all roles, and the client of ZooKeeper. Only identity runs: the
others have no backend here."""
READY_S = 60.0


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    if wanted & {"RT1", "RT1k"}:
        yield from (each for each in asyncio.run(_memory()) if each.id in wanted)
    if "RT2" in wanted:
        if program.find() is None:
            yield Result("RT2", failed="there is no OpenBao: run `make openbao`")
            return
        with server.serving() as running:
            yield asyncio.run(_certified(running, max(200, round(CERTIFICATES * scale))))


async def _member() -> EmbeddedCluster:
    """With a pod `web-0` of the account `web`."""
    made = EmbeddedCluster("m", clock=RealClock(), rng=random.Random(1), controllers=False)
    admin = Client(made.transport())
    pod = {"serviceAccountName": "web", "containers": [{"name": "main", "image": "none"}]}
    for plural, space, name, spec in (
        ("namespaces", "", "ads", None),
        ("serviceaccounts", "ads", "web", None),
        ("pods", "ads", "web-0", pod),
    ):
        body: dict[str, Any] = {"metadata": {"name": name}}
        if spec is not None:
            body["spec"] = spec
        await admin.create(ObjectRef("v1", plural, space, name), body)
    return made


async def _token(member: EmbeddedCluster) -> str:
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web-0"}
    spec = {"audiences": ["federator-signer"], "boundObjectRef": bound}
    ref = ObjectRef("v1", "serviceaccounts", "ads", "web")
    answer = await Client(member.transport()).create_at(ref, "token", {"spec": spec})
    return str(answer["status"]["token"])


def _signer(member: EmbeddedCluster, authority: CertificateAuthority, **more: float) -> Signer:
    options = SignerOptions(trust_domain=DOMAIN, pod_certificate_requests=False, **more)  # type: ignore[arg-type]
    return Signer(
        Client(member.transport()),
        authority,
        options,
        clock=member.clock,
        rng=random.Random(1),
        dns=("localhost",),
    )


# -- memory -------------------------------------------------------------------


async def _memory() -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="federator-bench-") as room:
        home = Path(room)
        member = await _member()
        root = cas.authority("root", time.time())
        cas.lay_out(home / "ca", cas.authority("signing", time.time(), above=root), root)
        signer = _signer(member, FilesAuthority(home / "ca", time.time, time.monotonic))
        base = await signer.start(Listen("127.0.0.1", 0))
        (home / "token").write_text(await _token(member))
        env = {
            "FEDERATOR_IDENTITY_DIR": str(home / "identity"),
            "FEDERATOR_TRUST_DOMAIN": DOMAIN,
            "FEDERATOR_SIGNER_URL": base.replace("127.0.0.1", "localhost"),
            "FEDERATOR_SIGNER_TOKEN": str(home / "token"),
            "FEDERATOR_TRUST_BUNDLE": root.pem.decode(),
            "POD_NAMESPACE": "ads",
            "POD_SERVICE_ACCOUNT": "web",
        }
        port = free_port()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", SIDECAR, "--roles=identity", "--host=127.0.0.1", f"--port={port}"),
            env={**os.environ, **env},
        )
        try:
            end = time.monotonic() + READY_S
            while not await _ready(port):
                assert time.monotonic() < end, "the sidecar is not ready"
                await asyncio.sleep(0.1)
            figures = _status(process.pid)
        finally:
            process.terminate()
            await process.wait()
            await signer.close()
        child = await _child(home)
    notes = {"roles": ",".join(PARTS), "own_mb": round(figures["RssAnon"], 1)}
    return [
        Result("RT1", ours=figures["VmRSS"], notes=notes),
        Result("RT1k", ours=child["VmHWM"], notes={"own_mb": round(child["RssAnon"], 1)}),
    ]


async def _ready(port: int) -> bool:
    try:
        answer = await web.ask("GET", f"http://127.0.0.1:{port}/readyz", within_s=2.0)
    except web.Unreached:
        return False
    return answer.status == 200


async def _child(home: Path) -> dict[str, float]:
    """Of the child, when it has made its key and waits for the certificate."""
    pipe = asyncio.subprocess.PIPE
    module = "federator.runtime.identity.keymaker"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, stdin=pipe, stdout=pipe
    )
    assert process.stdin is not None
    assert process.stdout is not None
    order = {"id": f"spiffe://{DOMAIN}/ns/ads/sa/web", "folder": str(home / "x"), "mode": "0600"}
    process.stdin.write(json.dumps(order).encode() + b"\n")
    await process.stdin.drain()
    assert b"CERTIFICATE REQUEST" in await process.stdout.readline()
    figures = _status(process.pid)
    process.kill()
    await process.wait()
    return figures


def _status(pid: int) -> dict[str, float]:
    """Figures of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    words = [line.split() for line in lines if line.endswith(" kB")]
    return {name.rstrip(":"): int(size) / 1000 for name, size, _ in words}


# -- certificates -------------------------------------------------------------


async def _certified(running: OpenBao, count: int) -> Result:
    running.issues("pods", server.signer_role(DOMAIN))
    with tempfile.TemporaryDirectory(prefix="federator-bench-") as room:
        file = Path(room) / "token"
        file.write_text(running.token)
        options = SignerOptions(
            openbao_address=running.address,
            openbao_ca_file=str(running.ca_file),
            openbao_token_file=str(file),
        )
        member = await _member()
        authority = OpenBaoAuthority(connected(options), options, time.monotonic)
        signer = _signer(member, authority, requests_a_second=1e6, burst=10**6)
        token = await _token(member)
        begun = time.monotonic()
        bodies = [_body() for _ in range(count)]
        made_s = time.monotonic() - begun
        rest = iter(bodies)

        async def ask() -> None:
            for body in rest:
                answer = await signer.answer(_incoming(token, body))
                assert answer.status == 200, answer.body

        own_s, bao_s = time.process_time(), _processor_s(running)
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(ask())
        took_s = time.monotonic() - begun
        notes = {
            "certificates": count,
            "signer_cpu_s": round(time.process_time() - own_s, 1),
            "openbao_cpu_s": round(_processor_s(running) - bao_s, 1),
            "keys_s": round(made_s, 1),
        }
        await authority.close()
    return Result("RT2", ours=took_s * CERTIFICATES / count, notes=notes)


def _body() -> bytes:
    _, csr = cas.request(f"spiffe://{DOMAIN}/ns/ads/sa/web")
    pem = csr.public_bytes(serialization.Encoding.PEM).decode()
    return json.dumps({"csr": pem}).encode()


def _incoming(token: str, body: bytes) -> Incoming:
    async def read(_most: int) -> bytes:
        return body

    shown = f"Bearer {token}"
    return Incoming("POST", "/v1/certificates", authorization=shown, has_body=True, read_body=read)


def _processor_s(running: OpenBao) -> float:
    """Processor seconds of the server so far."""
    stat = Path(f"/proc/{running.child.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
