"""The dashboard with nothing but the rights that deploy/dashboard gives it, on a real API server that
logs what it asks for: no page is refused anything, and no grant is idle.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
import yaml

from federator.dashboard import pages
from federator.kinds import crds, registry
from tests.controlplane import audit
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed
from tests.e2e.served import serving
from tests.e2e.shells import psvc
from tests.unit.deploy import manifests

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]
ACCOUNT = "federator-dashboard"
START_S = 60.0
NOT_HERE = {
    ("", group, resource, verb, "")
    for group, resource, verb in (
        ("federation.pinterest.com", "readers", "ask"),
        ("federation.pinterest.com", "placementpolicies", "list"),
        ("federation.pinterest.com", "clusterplacementpolicies", "list"),
        ("pinterest.com", "pinterestcronjobs", "get"),
    )
}
"""Used only where a hub leads, which asks for the first and names the policy in force, and where
there is a cron job.
"""
GIVEN = {"kind": "PinterestService", "namespace": "default", "name": "web", "action": "drain"}


async def test_every_page_needs_the_rights_of_the_manifests_and_no_other(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    cluster = await asyncio.to_thread(_host, control_plane)
    async with _running(cluster, tmp_path) as base:
        await _visit(base, _token(cluster, "default", "operator"))
    log = audit.log_of(cluster.directory, cluster.name)
    asked = {row for row in audit.read(log) if row.user == deployed.user(ACCOUNT)}
    assert [row for row in asked if row.refused] == []
    given = manifests.grants(deployed.rendered(manifests.DEPLOY / "dashboard"), ACCOUNT)
    idle = {grant for grant in given if not deployed.used(asked, grant)}
    assert idle == NOT_HERE
    control_plane.end(cluster.name)


def _host(plane: ControlPlane) -> Cluster:
    """A host with the manifests, a workload, a cluster, an account and somebody who may see
    everything."""
    cluster = plane.cluster("dashboard-host", audited=True, kinds=crds.all_crds())
    for base in ("host/access", "dashboard"):
        done = cluster.kubectl("apply", "--server-side", "-k", str(manifests.DEPLOY / base))
        assert done.returncode == 0, done.stderr
    member = {"credentials": {"secretRef": {"name": "m1"}}}
    quota = {"projects": ["ads"], "tiers": {"OnDemand": {"max": {"cpu": "10"}}}}
    for obj in (
        psvc("web", 4),
        _of("MemberCluster", "m1", member),
        _of("FederatedQuota", "ads", quota),
    ):
        kind = registry.kind_of(obj)
        assert kind is not None
        ref = kind.ref_of(obj)
        space = f"/namespaces/{ref.namespace}" if ref.namespace else ""
        status, answer = cluster.ask(f"/apis/{ref.api_version}{space}/{ref.plural}", "POST", obj)
        assert status == 201, answer
    for command in (
        ("create", "serviceaccount", "operator", "-n", "default"),
        (
            "create",
            "clusterrolebinding",
            "operator",
            "--clusterrole=cluster-admin",
            "--serviceaccount=default:operator",
        ),
    ):
        done = cluster.kubectl(*command)
        assert done.returncode == 0, done.stderr
    return cluster


def _of(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    api_version = registry.KINDS[kind].api_version
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _token(cluster: Cluster, namespace: str, account: str) -> str:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    status, answer = cluster.ask(path, "POST", body)
    assert status == 201, answer
    return str(answer["status"]["token"])


@contextlib.asynccontextmanager
async def _running(cluster: Cluster, home: Path) -> AsyncIterator[str]:
    """The address of a dashboard process with the token of its account and the shipped settings."""
    content = cluster.kubeconfig_dict()
    content["users"][0]["user"] = {"token": _token(cluster, deployed.SYSTEM, ACCOUNT)}
    file = home / "dashboard.kubeconfig"
    file.write_text(yaml.safe_dump(content))
    shipped = manifests.DEPLOY / "dashboard" / "federator.yaml"
    options = ("--kubeconfig", str(file), "--config", str(shipped))
    async with serving("dashboard", *options, within_s=START_S) as base:
        yield base


async def _visit(base: str, token: str) -> None:
    """Opens every page as a reader. Pages that ask the leading hub say that there is none."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(f"{base}/signin") as page:
            csrf = (await page.text()).partition('name="csrf" value="')[2].partition('"')[0]
        form = urlencode({"csrf": csrf, "next": "/", "token": token})
        headers = {"origin": base, "content-type": "application/x-www-form-urlencoded"}
        async with session.post(f"{base}/signin", data=form, headers=headers) as signed_in:
            assert signed_in.status == 200, await signed_in.text()
        for route in pages.ROUTES:
            named = {"clusters": "m1", "quota": "ads", "runbooks": "drain"}
            given = {**GIVEN, "name": named.get(route.path.split("/")[1], GIVEN["name"])}
            async with session.get(base + route.path.format_map(given)) as page:
                # the shipped settings let nobody act; there is no cron job and no simulation
                absent = route.path.startswith(("/cronjobs/", "/simulations", "/act/")) or (
                    "{action}" in route.path or route.path.endswith("/shards")
                )
                accepted = (200, 502, 403, 404) if absent else (200, 502)
                assert page.status in accepted, (route.path, await page.text())
        for kind in registry.WORKLOADS:
            async with session.get(f"{base}/workloads/{kind}/default/web") as page:
                assert page.status in (200, 404), kind
