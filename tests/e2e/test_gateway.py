"""The gateway behind TLS with exactly the rights of deploy/gateway, a real OpenID provider, and
`federator submit` as processes without a kubeconfig; then requests drawn from its document.
"""

import asyncio
import contextlib
import json
import os
import random
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from federator.cli.running import sandbox
from federator.embedded import http
from federator.embedded.storage.messages import Caller
from federator.gateway import server
from federator.gateway.artifacts import artifacts
from federator.gateway.audit import verify
from federator.gateway.options import GatewayOptions
from federator.gateway.platforms.leader import Leader, Ways
from federator.gateway.server import Gateway
from federator.hub.query.announcing import Announcement
from federator.kinds import registry
from federator.kube import errors, selfsigned
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.login import connect, tls
from federator.kube.tlsserver import Listen
from federator.kube.wire.http import Endpoint, HttpTransport, StaticToken
from federator.kube.wire.transport import Transport
from federator.model.steps import ObjectRef
from federator.process.oidc import issuer
from federator.process.oidc.issuer import Issuer, Issuers
from federator.process.oidc.tokens import Trust
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from tests.artifacts import made, repository
from tests.artifacts.repository import ArtifactRepository
from tests.house.sources import ROOT
from tests.npm import provider
from tests.unit.deploy import manifests
from tests.unit.gateway.authorities import Authority, write
from tests.unit.gateway.disks import Disk

pytestmark = [pytest.mark.e2e]
ACCOUNT = "federator-gateway"
OWN = "of-the-gateway"
CI = ROOT / "config" / "examples" / "submission" / "ci"
DEADLINE_S = 180.0
EXAMPLES = "15"
"""Requests that are drawn for each operation, in each of several ways."""
RBAC = "rbac.authorization.k8s.io"
Wrap = Callable[[Transport], Transport]
DEPLOYER = [
    {
        "apiGroups": ["pinterest.com", "apps"],
        "resources": ["*"],
        "verbs": ["get", "list", "create", "update", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
]


@dataclass
class Grounds:
    """What a test stands on."""

    federation: Federation
    base: str
    home: Path
    token: str
    source: str
    gateway: Gateway
    files: ArtifactRepository

    @property
    def environment(self) -> dict[str, str]:
        """What commands find: no kubeconfig, and no token."""
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.home),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "FEDERATOR_GATEWAY": self.base,
            "FEDERATOR_CA_FILE": str(self.home / "ca"),
            "FEDERATOR_NAMESPACE": "ads",
        }

    async def run(self, *arguments: str, code: int = 0, **more: str) -> tuple[str, str]:
        """A command, with the token of the CI system where `more` names no certificate."""
        (self.home / "token").write_text(self.token)
        own = more or {"FEDERATOR_TOKEN_FILE": str(self.home / "token")}
        environment = self.environment | own
        return await _run(
            sys.executable, "-m", "federator", *arguments, code=code, environment=environment
        )


async def _run(*command: str, code: int, environment: dict[str, str]) -> tuple[str, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=environment["HOME"],
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == code, out.decode() + err.decode()
    return out.decode(), err.decode()


@contextlib.asynccontextmanager
async def grounds(
    home: Path, *, wrap: Wrap = lambda own: own, **options: Any
) -> AsyncIterator[Grounds]:
    """A federation, a provider, a repository with a workflow, and a gateway between them. `wrap`:
    the gateway's own connection to the host."""
    federation = Federation(
        fleet=fleetfile.generated(2), clock=RealClock(), rng=random.Random(5), election=True
    )
    leader = await sandbox.query_port(federation)
    files = ArtifactRepository()
    files.files["/artifactory/ads/serving/v1/workflow.yaml"] = made.WORKFLOW
    claims = {"ci": {"groups": ["ads-deploy"]}}
    async with contextlib.AsyncExitStack() as opened:
        issued = await opened.enter_async_context(
            provider.running(provider.machine("ci", "of-tests"), machines=claims)
        )
        host = await opened.enter_async_context(repository.listening(files.handle))
        source = f"http://{host}/artifactory/ads/serving"
        opened.push_async_callback(leader.close)
        served = await http.serve(federation.host)
        opened.push_async_callback(served.close)
        await federation.start()
        opened.push_async_callback(federation.stop)
        await prepare(federation, source)
        http.write_kubeconfig(home / "kubeconfig", {"host": served}, "host")
        own = await connect.from_kubeconfig(str(home / "kubeconfig"))
        own = HttpTransport(_as(own.endpoint, OWN))
        opened.push_async_callback(own.close)
        gateway = await _gateway(opened, own, issued, home, options, wrapped=wrap(own))
        signed = selfsigned.made("gateway", dns=(), addresses=("127.0.0.1",), now_s=time.time())
        for name, pem in (("cert", signed.cert_pem), ("key", signed.key_pem)):
            (home / name).write_bytes(pem)
        (home / "ca").write_bytes(signed.ca_pem)
        listen = Listen(cert_file=str(home / "cert"), key_file=str(home / "key"))
        base, _ = await opened.enter_async_context(server.running(gateway, listen))
        await gateway.policies.read()
        yield Grounds(federation, base, home, await _token(issued), source, gateway, files)


def _as(endpoint: Endpoint, token: str) -> Endpoint:
    """The same server, with another token."""
    return Endpoint(endpoint.server, tls=endpoint.tls, credentials=StaticToken(token))


async def _gateway(
    opened: contextlib.AsyncExitStack,
    own: HttpTransport,
    issued: provider.Provider,
    home: Path,
    options: dict[str, Any],
    *,
    wrapped: Transport,
) -> Gateway:
    clock = RealClock()
    client = Client(wrapped, "host", field_manager=ACCOUNT)
    trust = Trust(
        issued.issuer,
        frozenset({"urn:federator"}),
        user_prefix="ci:",
        groups_prefix="ci:",
    )
    ways = issuer.connecting(ca_pem=issued.ca_pem, allow_loopback=True)
    issuers = Issuers([Issuer(trust, ways, clock=clock)])
    opened.push_async_callback(issuers.close)
    bare = server.bare(own.endpoint)
    opened.push_async_callback(bare.close)
    versions = artifacts.of_host(
        client, ACCOUNT, home / "cache", clock.monotonic, allow_loopback=True
    )
    opened.push_async_callback(versions.close)

    async def to_leader(known: Announcement) -> Ways:
        context = tls.client_context(ca_pem=known.ca_pem.encode())
        endpoint = Endpoint(
            f"https://{known.address}",
            tls=context,
            credentials=StaticToken(OWN),
            tls_server_name=known.server_name,
        )
        return server.ways(HttpTransport(endpoint))

    judge = Leader(client, to_leader, rng=random.Random(1))
    opened.push_async_callback(judge.close)
    return Gateway(
        client,
        bare,
        issuers=issuers,
        versions=versions,
        judge=judge,
        options=GatewayOptions(audit_directory=str(home / "audit"), **options),
        clock=clock,
        draw=lambda: secrets.token_hex(16),
    )


async def _token(issued: provider.Provider) -> str:
    """The token of a job of the CI system."""
    form = {"grant_type": "client_credentials", "scope": "submit"}
    headers = {"Authorization": aiohttp.encode_basic_auth("ci", "of-tests")}
    context = tls.client_context(ca_pem=issued.ca_pem)
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{issued.issuer}/token", data=form, headers=headers, ssl=context) as answer,
    ):
        return str((await answer.json())["access_token"])


async def prepare(federation: Federation, source: str) -> None:
    """The gateway's account as deploy/ has it, a namespace, a policy, and a right of the CI."""
    name = f"system:serviceaccount:federator-system:{ACCOUNT}"
    groups = ("system:serviceaccounts", "system:authenticated")
    federation.host.add_token(OWN, Caller(name, groups))
    host = federation.client("host")
    for space in (ACCOUNT, "ads"):
        await host.create(
            ObjectRef("v1", "namespaces", "", space, "Namespace"),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}},
        )
    account = manifests.load((manifests.DEPLOY / "gateway" / "account.yaml").read_text())
    for obj in manifests.of_kind(
        account, "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"
    ):
        meta = obj["metadata"]
        plural = f"{obj['kind'].lower()}s"
        ref = ObjectRef(
            obj["apiVersion"], plural, meta.get("namespace", ""), meta["name"], obj["kind"]
        )
        await host.create(ref, dict(obj))
    row = registry.KINDS["SubmissionPolicy"]
    policy = made.policy_object(
        sources=[source], provenance={"mode": "Off"}, groups=["ci:ads-deploy"]
    )
    await host.create(row.ref("", "ads"), policy)
    await _bind(host, "ci:ads-deploy")


async def _bind(host: Client, group: str) -> None:
    """Gives a group the right to deploy in the namespace `ads`."""
    meta = {"name": "deployers", "namespace": "ads"}
    role: dict[str, Any] = {"rules": DEPLOYER}
    bound = {
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "deployers"},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
    }
    for kind, rest in (("Role", role), ("RoleBinding", bound)):
        version = f"{RBAC}/v1"
        obj = {"apiVersion": version, "kind": kind, "metadata": meta, **rest}
        await host.create(ObjectRef(version, f"{kind.lower()}s", "ads", "deployers", kind), obj)


async def test_a_ci_job_submits_with_its_own_token_and_no_kubeconfig(tmp_path: Path) -> None:
    async with grounds(tmp_path) as found:
        artifact = f"{found.source}@v1"
        out, _ = await found.run("submit", artifact, "--param", "replicas=3", "--dry-run")
        assert out.startswith("placed: PinterestService serving: 3 of 3 copies: ")
        out, _ = await found.run(
            "submit", artifact, "--param", "replicas=3", "--key", "job-7", "--wait"
        )
        identity = out.splitlines()[-1].split()[1]
        shown = json.loads(
            (await found.run("submissions", "get", "serving", identity, "-o", "json"))[0]
        )
        assert (shown["state"], shown["submittedBy"]) == ("Running", "ci:ci")
        out, _ = await found.run("submit", artifact, "--param", "replicas=3", "--key", "job-7")
        assert out.splitlines() == ["submitted before", f"submission {identity} of serving"]
        _, err = await found.run("submit", artifact, "--param", "replicas=501", code=1)
        assert "parameters.replicas: is 501" in err
        _, err = await found.run("submit", f"{found.source}@v9", code=1)
        assert "v9" in err
        out, _ = await found.run("submissions", "list", "serving")
        assert [line.split()[0] for line in out.splitlines()] == ["ID", identity]
        assert await _logs_of(found, identity) == 3
        _, err = await found.run("submissions", "logs", "other", code=1)
        assert "the workflow other has no submissions" in err
        out, _ = await found.run("submissions", "cancel", "serving", identity)
        assert "Deleted" in out
        good, found.token = found.token, f"{found.token[:-4]}AAAA"
        _, err = await found.run("submissions", "list", "serving", code=3)
        assert "signature" in err
        assert found.token not in err
        (written,) = (tmp_path / "audit").iterdir()
        with written.open("rb") as file:
            checked = verify(file)
        text = written.read_text()
        assert checked.lines > 6
        assert good not in text
        assert good.split(".")[2] not in text
        what = [json.loads(line)["what"] for line in text.splitlines()]
        assert what[0] == "start"
        assert what[-1] == "cancelled"
        out, _ = await found.run("audit", "verify", str(tmp_path / "audit"))
        assert "whole" in out
        written.write_text(text.replace('"ci:ci"', '"ci:me"', 1))
        _, err = await found.run("audit", "verify", str(written), code=1)
        assert "line 2" in err
        written.write_text(text)
        host = found.federation.client("host")
        events = await host.list("events.k8s.io/v1", "events", "ads")
        assert {"Submitted", "Cancelled"} <= {each["reason"] for each in events.items}


async def test_the_example_of_a_ci_job_runs_as_it_is(tmp_path: Path) -> None:
    """The lines of config/examples/submission/ci/gitlab-ci.yml, in a shell with the variables that
    GitLab sets."""
    job = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["submit"]
    program = tmp_path / "bin" / "federator"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m federator "$@"\n')
    program.chmod(0o755)
    async with grounds(tmp_path) as found:
        given = {
            "CI_COMMIT_SHA": "v1",
            "CI_JOB_ID": "1841",
            "FEDERATOR_TOKEN": found.token,
            "WORKFLOW": found.source,
        }
        environment = {**job["variables"], **found.environment, **given}
        environment["PATH"] = f"{program.parent}:{environment['PATH']}"
        script = "\n".join(["set -e", *job["script"]])
        for said in ("submission ", "submitted before"):  # a retry of the job
            out, _ = await _run("bash", "-c", script, code=0, environment=environment)
            assert out.startswith("placed: PinterestService serving: 6 of 6 copies: ")
            assert said in out
        assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
        after = "\n".join(job["after_script"])
        await _run("bash", "-c", after, code=0, environment=environment)
        assert not (tmp_path / "token").exists()
        out, _ = await found.run("submissions", "list", "serving")
        assert [line.split()[3] for line in out.splitlines()[1:]] == ["ci:ci"]


async def test_a_client_certificate_stands_in_for_a_token(tmp_path: Path) -> None:
    people = Authority()
    (tmp_path / "clients").write_bytes(people.pem)
    clients = str(tmp_path / "clients")
    async with grounds(tmp_path, clients_ca_file=clients, clients_groups_prefix="ci:") as found:
        artifact = f"{found.source}@v1"

        async def run(pair: tuple[bytes, bytes], *arguments: str, code: int) -> tuple[str, str]:
            cert, key = write(tmp_path, pair)
            files = {"FEDERATOR_CERT_FILE": cert, "FEDERATOR_KEY_FILE": key}
            return await found.run(*arguments, code=code, **files)

        ana = people.signed("ana", groups=["ads-deploy"])
        out, _ = await run(ana, "submit", artifact, "--key", "by-ana", code=0)
        assert out.startswith("placed: ")
        out, _ = await run(ana, "submissions", "list", "serving", code=0)
        assert out.splitlines()[1].split()[3] == "x509:ana"
        ben = people.signed("ben", groups=["feed"])
        _, err = await run(ben, "submit", artifact, code=3)
        assert "may not create workloads in the namespace ads" in err
        # Tokens count as before, and no certificate is asked of them.
        await found.run("submissions", "list", "serving")
        _, err = await found.run("submit", artifact, code=2, FEDERATOR_CERT_FILE="x")
        assert "--cert-file and --key-file are needed together" in err


async def test_nothing_is_acknowledged_without_its_line_in_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with grounds(tmp_path) as found:
        disk = Disk(monkeypatch)
        path = f"{found.base}/v1/workflows/ads/serving/submissions"
        body = {"artifact": found.source, "version": "v1", "idempotencyKey": "full"}
        host = found.federation.client("host")
        ref = registry.KINDS["PinterestService"].ref("ads", "serving")
        headers = {"Authorization": f"Bearer {found.token}"}
        secure = tls.client_context(ca_pem=(tmp_path / "ca").read_bytes())

        async def ask(method: str, at: str, **more: Any) -> tuple[int, str]:
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.request(method, at, ssl=secure, **more) as answer,
            ):
                document = await answer.json(content_type=None)
                return answer.status, document.get("title") or document["id"]

        # The disk is full before anything is written: nothing is stored.
        disk.failing("part", "part")
        assert await ask("POST", path, json=body) == (503, "AuditUnavailable")
        with pytest.raises(errors.NotFound):
            await host.get(ref)
        # It becomes full after that line: the object is stored, and not acknowledged.
        # The third line: the first one of another file is before it.
        disk.failing_at(3, "fdatasync")
        assert await ask("POST", path, json=body) == (503, "AuditUnavailable")
        assert await host.get(ref)
        status, identity = await ask("POST", path, json=body)
        assert status == 200
        # The same of a cancel.
        disk.failing("write", "write")
        assert await ask("DELETE", f"{path}/{identity}") == (503, "AuditUnavailable")
        assert await host.get(ref)
        assert (await ask("DELETE", f"{path}/{identity}"))[0] == 200
    out, _ = await found.run("audit", "verify", str(tmp_path / "audit"))
    assert "; ended; " in out
    lines = [
        json.loads(line)["what"]
        for file in sorted((tmp_path / "audit").iterdir())
        for line in file.read_text().splitlines()
    ]
    acknowledged = [each for each in lines if each in ("created", "repeated", "cancelled")]
    assert acknowledged == ["repeated", "cancelled"]


async def _logs_of(found: Grounds, identity: str) -> int:
    """The number of pods with a log, all of the newest submission; and the same of one pod."""
    out, _ = await found.run("submissions", "logs", "serving", "--tail", "1", "--prefix")
    named = [line.partition("]")[0].strip("[") for line in out.splitlines()]
    pod = named[0].split("/")[1]
    out, _ = await found.run(
        "submissions",
        "logs",
        "serving",
        identity,
        "--pod",
        pod,
        "--object",
        "PinterestService/serving",
    )
    assert pod in out
    return len({each.split("/")[1] for each in named})


@pytest.mark.long
async def test_requests_drawn_from_the_document_get_documented_answers(tmp_path: Path) -> None:
    async with grounds(tmp_path, requests_a_second=1000.0, burst=100_000) as found:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(tmp_path),
            "REQUESTS_CA_BUNDLE": str(tmp_path / "ca"),
            "SSL_CERT_FILE": str(tmp_path / "ca"),
        }
        out, _ = await _run(
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            f"{found.base}/openapi.json",
            "--header",
            f"Authorization: Bearer {found.token}",
            "--tls-verify",
            str(tmp_path / "ca"),
            "--checks",
            "all",
            "--max-examples",
            EXAMPLES,
            "--seed",
            "1",
            "--no-color",
            code=0,
            environment=environment,
        )
        assert "6 selected / 6 total" in out
