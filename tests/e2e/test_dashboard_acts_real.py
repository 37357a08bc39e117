"""Actions of the dashboard on a real API server: its audit names the account of the dashboard and
the person, and its RBAC decides as whom the account may act.
"""

import contextlib
import json
import random
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import yaml

from federator.dashboard.options import DashboardOptions
from federator.dashboard.server import Dashboard, Options
from federator.kinds import crds
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.login import tls
from federator.kube.wire import http
from tests.controlplane import audit
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import workloads
from tests.unit.dashboard.asking import Browser
from tests.unit.dashboard.test_actions import confirmed, csrf

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]

ACCOUNT = "system:serviceaccount:federator-system:federator-dashboard"
WEB = "/workloads/PinterestService/shop/web"
GROUPS = ("shop-owners", "shop-readers")
RBAC: tuple[tuple[str, ...], ...] = (
    ("create", "namespace", "federator-system"),
    ("create", "namespace", "shop"),
    ("create", "serviceaccount", "federator-dashboard", "-n", "federator-system"),
    ("create", "clusterrole", "sees", "--verb=get,list,watch", "--resource=*.*"),
    (
        "create",
        "clusterrole",
        "reviews",
        "--verb=create",
        "--resource=tokenreviews.authentication.k8s.io,subjectaccessreviews.authorization.k8s.io",
    ),
    ("create", "clusterrole", "acts", "--verb=impersonate", "--resource=users"),
    (
        "create",
        "clusterrole",
        "acts-of-groups",
        "--verb=impersonate",
        "--resource=groups",
        *(f"--resource-name={group}" for group in GROUPS),
    ),
    *(
        (
            "create",
            "clusterrolebinding",
            f"dashboard-{role}",
            f"--clusterrole={role}",
            "--serviceaccount=federator-system:federator-dashboard",
        )
        for role in ("sees", "reviews", "acts", "acts-of-groups")
    ),
    (
        "create",
        "role",
        "reads",
        "--verb=get,list",
        "--resource=pinterestservices.pinterest.com",
        "-n",
        "shop",
    ),
    (
        "create",
        "role",
        "writes",
        "--verb=patch,update",
        "--resource=pinterestservices.pinterest.com",
        "-n",
        "shop",
    ),
    ("create", "rolebinding", "reads", "--role=reads", "--group=shop-readers", "-n", "shop"),
    ("create", "rolebinding", "writes", "--role=writes", "--group=shop-owners", "-n", "shop"),
)


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A host with the account of the dashboard, and a workload."""
    plane: ControlPlane = request.getfixturevalue("control_plane")
    cluster = plane.cluster("acts-host", audited=True, kinds=crds.all_crds())
    for command in RBAC:
        done = cluster.kubectl(*command)
        assert done.returncode == 0, done.stderr
    made = cluster.kubectl(
        "apply", "-f", "-", input=yaml.safe_dump(workloads.service("web", "shop", 3))
    )
    assert made.returncode == 0, made.stderr
    yield cluster
    plane.end(cluster.name)


def token(cluster: Cluster) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = "/api/v1/namespaces/federator-system/serviceaccounts/federator-dashboard/token"
    status, answer = cluster.ask(path, "POST", body)
    assert status == 201, answer
    return str(answer["status"]["token"])


@contextlib.asynccontextmanager
async def dashboard_of(cluster: Cluster, *act_as: str) -> AsyncIterator[Dashboard]:
    """The dashboard with its own account; its pages are asked without a socket."""
    context = tls.client_context(ca_pem=cluster.ca_file.read_bytes())
    credentials = http.StaticToken(token(cluster))
    transport = http.HttpTransport(http.Endpoint(cluster.url, tls=context, credentials=credentials))
    made = Dashboard(
        Client(transport, "host"),
        options=Options(),
        clock=RealClock(),
        rng=random.Random(1),
        draw=lambda: secrets.token_urlsafe(24),
        settings=DashboardOptions(act_as=act_as),
    )
    try:
        yield made
    finally:
        await made.close()
        await transport.close()


async def reader(cluster: Cluster, dashboard: Dashboard, user: str) -> Browser:
    browser = Browser(dashboard)
    answer = await browser.sign_in(cluster.tokens[user])
    assert answer.status == 303, answer.body
    return browser


def writes(cluster: Cluster) -> list[Any]:
    """The audit of patches of workloads."""
    events = map(json.loads, audit.lines(audit.log_of(cluster.directory, cluster.name)))
    return [
        event
        for event in events
        if event["verb"] == "patch" and event["objectRef"]["resource"] == "pinterestservices"
    ]


def replicas(cluster: Cluster) -> int:
    path = "/apis/pinterest.com/v1beta1/namespaces/shop/pinterestservices/web"
    return int(cluster.ask(path)[1]["spec"]["replicas"])


async def test_the_audit_has_the_names_of_the_person_and_of_the_dashboard(host: Cluster) -> None:
    async with dashboard_of(host, *(f"group:{group}" for group in GROUPS)) as dashboard:
        owner = await reader(host, dashboard, "owner")
        assert f"{WEB}/act/scale" in (await owner.get(WEB)).body.decode()
        assert (await confirmed(owner, f"{WEB}/act/scale?given=5")).status == 303
        assert replicas(host) == 5
        (event,) = writes(host)
        assert event["user"]["username"] == ACCOUNT
        acted = event["impersonatedUser"]
        assert acted["username"] == "owner"
        assert set(acted["groups"]) == {*GROUPS, "system:authenticated"}, "company is not admitted"
        other = await reader(host, dashboard, "reader")
        assert b"/act/" not in (await other.get(WEB)).body
        fields = {"csrf": csrf(await other.get(WEB)), "given": "0", "mark": "x"}
        assert (await other.post(f"{WEB}/act/scale", fields)).status == 403
        admin = await reader(host, dashboard, "admin")
        assert b"/act/" not in (await admin.get(WEB)).body, "system:masters is not impersonated"
        assert replicas(host) == 5
        assert len(writes(host)) == 1


async def test_the_host_refuses_a_group_that_its_rbac_does_not_admit(host: Cluster) -> None:
    """The setting admits more than the role of the dashboard's account."""
    before = replicas(host)
    async with dashboard_of(host, "group:shop-owners", "group:company") as dashboard:
        owner = await reader(host, dashboard, "owner")
        answer = await confirmed(owner, f"{WEB}/act/scale?given=9")
        assert answer.status == 403
        assert b"The host refused. Nothing was changed." in answer.body
        assert replicas(host) == before
