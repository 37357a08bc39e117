"""`federator gateway` with nothing but the rights of deploy/gateway, before a real API server and a
real hub: TokenReview, SubjectAccessReview, creates as the caller, and Events are the server's.
"""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from federator.kinds import crds
from federator.kube.login import tls
from tests.artifacts import made, repository
from tests.artifacts.repository import ArtifactRepository
from tests.controlplane import audit
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, federations
from tests.e2e.federations import SETTINGS
from tests.e2e.served import serving
from tests.forkserver.starting import FEDERATOR
from tests.npm import provider
from tests.unit.deploy import manifests

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]
ACCOUNT = "federator-gateway"
START_S = 180.0
IDLE = {
    ("", "federation.pinterest.com", "verdicts", "create", ""),
    ("", "federation.pinterest.com", "readers", "ask", ""),
}
"""The hub asks the server for these, about the gateway."""
RULES = [
    {
        "apiGroups": ["pinterest.com"],
        "resources": ["pinterestservices"],
        "verbs": ["get", "list", "create", "update", "delete"],
    }
]
SUBMISSIONS = "/v1/workflows/ads/serving/submissions"
WORKFLOW = made.WORKFLOW.replace(b"minimum: 1,", b"minimum: 0,")
"""Without copies it is placed where there is no cluster."""


@dataclass
class Grounds:
    """A gateway process with a host, a hub, an issuer and a repository."""

    cluster: Cluster
    base: str
    source: str
    issued: provider.Provider
    home: Path

    async def ask(
        self, token: str, method: str = "POST", path: str = SUBMISSIONS, **body: Any
    ) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {token}"}
        sent = {"artifact": self.source, "version": "v1", **body} if method == "POST" else None
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, f"{self.base}{path}", json=sent) as answer,
        ):
            return answer.status, await answer.json()

    async def ci_token(self) -> str:
        form = {"grant_type": "client_credentials", "scope": "submit"}
        headers = {"Authorization": aiohttp.encode_basic_auth("ci", "of-tests")}
        context = tls.client_context(ca_pem=self.issued.ca_pem)
        url = f"{self.issued.issuer}/token"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=form, headers=headers, ssl=context) as answer,
        ):
            return str((await answer.json())["access_token"])


def token(cluster: Cluster, namespace: str, account: str) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    status, answer = cluster.ask(path, "POST", body)
    assert status == 201, answer
    return str(answer["status"]["token"])


@pytest.fixture(scope="module")
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A real host with the manifests, a hub without members, a namespace and its rights."""
    plane: ControlPlane = request.getfixturevalue("control_plane")
    cluster = plane.cluster("gateway-host", audited=True, kinds=crds.all_crds())
    home = tmp_path_factory.mktemp("gateway-real")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ads"}}
    meta = {"name": "deployers", "namespace": "ads"}
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": RULES}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "deployers"},
        "subjects": [
            {"apiGroup": rbac, "kind": "Group", "name": "ci:ads-deploy"},
            {"kind": "ServiceAccount", "name": "ci", "namespace": "ads"},
        ],
    }
    accounts = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": "ads"},
        }
        for name in ("ci", "stranger")
    ]
    objects = yaml.safe_dump_all([space, *accounts, role, binding])
    for command, text in (
        (("apply", "--server-side", "-k", str(manifests.DEPLOY / "host" / "access")), None),
        (("apply", "-f", str(manifests.DEPLOY / "gateway" / "account.yaml")), None),
        (("apply", "-f", "-"), objects),
    ):
        done = cluster.kubectl(*command, input=text)
        assert done.returncode == 0, done.stderr
    with federations.family(home) as programs:
        settings = deployed.settings_file(home / "settings.yaml", SETTINGS)
        kubeconfig = _kubeconfig(cluster, home, "federator-hub")
        programs.start(
            "hub", [*FEDERATOR, "hub", "--kubeconfig", str(kubeconfig), "--config", str(settings)]
        )
        yield cluster
        programs.check()
    plane.end(cluster.name)


def _kubeconfig(cluster: Cluster, home: Path, account: str) -> Path:
    content = cluster.kubeconfig_dict()
    content["users"][0]["user"] = {"token": token(cluster, deployed.SYSTEM, account)}
    file = home / f"{account}.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(content))
    return file


@contextlib.asynccontextmanager
async def grounds(cluster: Cluster, home: Path) -> AsyncIterator[Grounds]:
    login = base64.b64encode(b"gateway:of-tests").decode()
    files = ArtifactRepository(f"Basic {login}")
    files.files["/artifactory/ads/serving/v1/workflow.yaml"] = WORKFLOW
    async with contextlib.AsyncExitStack() as opened:
        issued = await opened.enter_async_context(
            provider.running(
                provider.machine("ci", "of-tests"), machines={"ci": {"groups": ["ads-deploy"]}}
            )
        )
        where = await opened.enter_async_context(repository.listening(files.handle))
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "store", "namespace": ACCOUNT},
            "type": "kubernetes.io/basic-auth",
            "stringData": {"username": "gateway", "password": "of-tests"},
        }
        source = f"http://{where}/artifactory/ads/serving"
        policy = made.policy_object(
            sources=[source],
            provenance={"mode": "Off"},
            registries=[{"host": where, "secretRef": {"name": "store"}}],
        )
        objects = yaml.safe_dump_all([secret, policy])
        done = await asyncio.to_thread(cluster.kubectl, "apply", "-f", "-", input=objects)
        assert done.returncode == 0, done.stderr
        base = await opened.enter_async_context(_running(cluster, home, issued))
        yield Grounds(cluster, base, source, issued, home)


@contextlib.asynccontextmanager
async def _running(cluster: Cluster, home: Path, issued: provider.Provider) -> AsyncIterator[str]:
    """The address of a gateway process with the token of its account and the shipped settings."""
    (home / "issuer-ca.pem").write_bytes(issued.ca_pem)
    trusted = {
        "issuer": issued.issuer,
        "audiences": ["urn:federator"],
        "usernamePrefix": "ci:",
        "groupsClaim": "groups",
        "groupsPrefix": "ci:",
        "caFile": str(home / "issuer-ca.pem"),
    }
    (home / "issuers.yaml").write_text(yaml.safe_dump([trusted]))
    shipped = yaml.safe_load((manifests.DEPLOY / "gateway" / "federator.yaml").read_text())
    shipped["serve"] |= {"host": "127.0.0.1", "port": 0}
    shipped["gateway"] |= {
        "audit_directory": str(home / "audit"),
        "cache_directory": str(home / "cache"),
        "issuers_file": str(home / "issuers.yaml"),
    }
    settings = home / "gateway.yaml"
    settings.write_text(yaml.safe_dump(shipped))
    kubeconfig = await asyncio.to_thread(_kubeconfig, cluster, home, ACCOUNT)
    options = ("--kubeconfig", str(kubeconfig), "--config", str(settings), "--allow-loopback")
    async with serving("gateway", *options, within_s=START_S) as base:
        yield base


async def test_the_hosts_own_word_and_the_rights_of_deploy_carry_a_submission(
    host: Cluster, tmp_path: Path
) -> None:
    none: dict[str, Any] = {"parameters": {"replicas": 0}}
    async with grounds(host, tmp_path) as found:
        ci = await found.ci_token()
        begun_s = time.monotonic()
        while True:
            status, shown = await found.ask(ci, idempotencyKey="one", **none)
            if status != 503 or time.monotonic() - begun_s > START_S:  # the hub does not lead yet
                break
            await asyncio.sleep(0.5)
        assert status == 201, shown
        assert shown["verdict"]["verdict"] == "placed"
        assert shown["submittedBy"] == "ci:ci"
        assert (await found.ask(ci, idempotencyKey="one", **none))[0] == 200
        # No cluster admits a copy: refused by the hub, and nothing changes.
        refused, problem = await found.ask(ci, parameters={"replicas": 3})
        assert (refused, problem["title"]) == (422, "VerdictRefused"), problem

        account = await asyncio.to_thread(token, host, "ads", "ci")
        status, other = await found.ask(account, idempotencyKey="two", **none)
        assert (status, other["submittedBy"]) == (201, "system:serviceaccount:ads:ci"), other
        stranger = await asyncio.to_thread(token, host, "ads", "stranger")
        assert (await found.ask(stranger, **none))[0] == 403
        assert (await found.ask(f"{account[:-6]}AAAAAA", **none))[0] == 401
        assert (await found.ask(f"{ci[:-6]}AAAAAA", **none))[0] == 401
        listed = await found.ask(ci, "GET")
        assert [each["id"] for each in listed[1]["items"]] == [other["id"], shown["id"]]
        logs = await found.ask(ci, "GET", f"{SUBMISSIONS}/{other['id']}/logs")
        assert logs[0] == 403, logs  # no right to pods/log
        gone = await found.ask(ci, "DELETE", f"{SUBMISSIONS}/{other['id']}")
        assert gone[0] == 409, gone  # an earlier submission made the service

        rows = await _asked(host)
        ours = {row for row in rows if row.user == deployed.user(ACCOUNT)}
        # What the server refuses to the user as whom the gateway asks is not the gateway's right.
        assert [row for row in ours if row.refused and 'User "ci:ci"' not in row.refused] == []
        account_file = (manifests.DEPLOY / "gateway" / "account.yaml").read_text()
        given = manifests.grants(manifests.load(account_file), ACCOUNT)
        idle = {grant for grant in given if not deployed.used(ours, grant)}
        assert idle == IDLE | {
            ("", "", "users", "impersonate", ""),
            ("", "", "groups", "impersonate", ""),
        }
        status, events = await asyncio.to_thread(
            host.ask, "/apis/events.k8s.io/v1/namespaces/ads/events"
        )
        noted = [each["note"] for each in events["items"] if each["reason"] == "Submitted"]
        assert any(shown["id"] in note and "ci:ci" in note for note in noted)
        await _both_names(host)


async def _asked(host: Cluster) -> set[audit.Asked]:
    return await asyncio.to_thread(audit.read, audit.log_of(host.directory, host.name))


async def _both_names(host: Cluster) -> None:
    """The server's audit has the caller and the gateway for what was created by impersonation."""
    lines = await asyncio.to_thread(audit.lines, audit.log_of(host.directory, host.name))
    acted = [each for each in map(json.loads, lines) if "impersonatedUser" in each]
    names = {(each["user"]["username"], each["impersonatedUser"]["username"]) for each in acted}
    assert names == {(deployed.user(ACCOUNT), "ci:ci")}
    assert any(each["verb"] == "create" for each in acted)
