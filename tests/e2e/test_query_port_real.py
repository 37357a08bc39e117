"""The query port beside a real API server: TokenReview, SubjectAccessReview and the authority of
client certificates are the server's, and the hub has the rights that deploy/ gives it.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.kinds import crds
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, federations, workloads
from tests.e2e.federations import FEDERATOR, SETTINGS, Ran, Shell, until
from tests.unit.deploy import manifests

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]

READER = "system:serviceaccount:shop:reader"


@dataclass
class Host:
    """A real host with a hub, and no member."""

    cluster: Cluster
    plane: ControlPlane
    home: Path

    def kubeconfig(self, name: str, user: dict[str, Any]) -> Path:
        content = self.cluster.kubeconfig_dict()
        content["users"][0]["user"] = user
        path = self.home / f"{name}.kubeconfig"
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content))
        return path

    def token(self, namespace: str, account: str, **spec: Any) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        status, answer = self.cluster.ask(path, "POST", body)
        assert status == 201, answer
        return str(answer["status"]["token"])

    def run(self, name: str, user: dict[str, Any], *arguments: str) -> Ran:
        return Shell(FEDERATOR, self.home, self.kubeconfig(name, user)).run(*arguments)

    def pods(self, name: str, user: dict[str, Any], *arguments: str) -> Ran:
        return self.run(name, user, "pods", "psvc/web", "-n", "shop", *arguments)

    def certificate(self, user: str, *groups: str) -> dict[str, Any]:
        cert, key = (
            base64.b64encode(pem).decode() for pem in self.plane.client_certificate(user, *groups)
        )
        return {"client-certificate-data": cert, "client-key-data": key}


@pytest.fixture(scope="module")
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    plane: ControlPlane = request.getfixturevalue("control_plane")
    cluster = plane.cluster("query-host", kinds=crds.all_crds())
    home = tmp_path_factory.mktemp("query-real")
    found = Host(cluster, plane, home)
    role = ("--verb=get", "--resource=pinterestservices.pinterest.com")
    for command in (
        ("apply", "--server-side", "-k", str(manifests.DEPLOY / "host" / "access")),
        ("create", "namespace", "shop"),
        ("create", "serviceaccount", "reader", "-n", "shop"),
        ("create", "serviceaccount", "stranger", "-n", "shop"),
        ("create", "role", "workloads", *role, "-n", "shop"),
        ("create", "role", "pods", "--verb=list", "--resource=pods", "-n", "shop"),
    ):
        done = cluster.kubectl(*command)
        assert done.returncode == 0, done.stderr
    for name in ("workloads", "pods"):
        subjects = (
            f"--serviceaccount={READER.removeprefix('system:serviceaccount:')}",
            "--group=shop-readers",
        )
        done = cluster.kubectl(
            "create", "rolebinding", name, f"--role={name}", *subjects, "-n", "shop"
        )
        assert done.returncode == 0, done.stderr
    made = cluster.kubectl(
        "apply", "-f", "-", input=yaml.safe_dump(workloads.service("web", "shop", 3))
    )
    assert made.returncode == 0, made.stderr
    with federations.family(home) as programs:
        settings = deployed.settings_file(home / "settings.yaml", SETTINGS)
        kubeconfig = found.kubeconfig(
            "hub", {"token": found.token("federator-system", "federator-hub")}
        )
        programs.start(
            "hub", [*FEDERATOR, "hub", "--kubeconfig", str(kubeconfig), "--config", str(settings)]
        )
        admin = {"token": cluster.token}
        until(lambda: found.pods("admin", admin).code == 0, lambda: found.pods("admin", admin).err)
        yield found
        programs.check()
    plane.end(cluster.name)


USERS: dict[str, tuple[Callable[[Host], dict[str, Any]], int, str]] = {
    "a service account with rights": (
        lambda host: {"token": host.token("shop", "reader")},
        0,
        "No pods of pinterestservice shop/web found.",
    ),
    "a service account without": (
        lambda host: {"token": host.token("shop", "stranger")},
        1,
        (
            'user "system:serviceaccount:shop:stranger" cannot get '
            "pinterestservices.pinterest.com and list pods"
        ),
    ),
    "a client certificate of a group with rights": (
        lambda host: host.certificate("anna", "shop-readers"),
        0,
        "No pods of pinterestservice shop/web found.",
    ),
    "a client certificate without": (
        lambda host: host.certificate("bert", "ads-readers"),
        1,
        (
            'user "bert" cannot get pinterestservices.pinterest.com and list pods in the '
            'namespace "shop" of the host'
        ),
    ),
}


@pytest.mark.parametrize("who", USERS)
def test_the_host_s_own_word_on_a_caller_decides(host: Host, who: str) -> None:
    user, code, told = USERS[who]
    # The hub reads the authority of client certificates once it has started.
    until(
        lambda: told in host.pods("user", user(host)).err,
        lambda: host.pods("user", user(host)).err,
        30,
    )
    assert host.pods("user", user(host)).code == code


def test_who_may_only_get_his_workload_has_it_explained_and_with_create_tries_a_manifest(
    host: Host, tmp_path: Path
) -> None:
    """Neither can list clusters, quotas or cluster-wide policies, nor anything outside the
    namespace.
    """
    made = ("--verb=get,create", "--resource=pinterestservices.pinterest.com", "-n", "shop")
    for command in (
        ("create", "serviceaccount", "owner", "-n", "shop"),
        ("create", "role", "owner", *made),
        (
            "create",
            "rolebinding",
            "owner",
            "--role=owner",
            "--serviceaccount=shop:owner",
            "-n",
            "shop",
        ),
    ):
        done = host.cluster.kubectl(*command)
        assert done.returncode == 0, done.stderr
    reader, owner = ({"token": host.token("shop", name)} for name in ("reader", "owner"))
    spec = {"clusters": {"names": ["a"]}, "workloads": {"kinds": ["PinterestService"]}}
    policy = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementPolicy",
        "spec": spec,
    }
    policy["metadata"] = {"name": "own", "namespace": "shop"}
    made_policy = host.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(policy))
    assert made_policy.returncode == 0, made_policy.stderr

    def explained() -> Ran:
        return host.run("reader", reader, "explain", "psvc/web", "-n", "shop")

    until(
        lambda: "policy shop/own (match)" in explained().out,
        lambda: explained().out + explained().err,
    )
    found = explained()
    assert found.code == 0
    assert found.out.startswith("PinterestService/web  desired 3  placed 0")
    assert "the fleet has no clusters" in found.out
    elsewhere = host.run("reader", reader, "explain", "psvc/web", "-n", "default")
    assert elsewhere.code == 1
    assert "pinterestservices" in elsewhere.err

    path = tmp_path / "new.yaml"
    path.write_text(yaml.safe_dump(workloads.service("new", "shop", 2)))
    tried = host.run("owner", owner, "place", "--live", "-f", str(path))
    assert (tried.code, "NoMatchingCluster" in tried.out) == (3, True), tried.out + tried.err
    refused = host.run("reader", reader, "place", "--live", "-f", str(path))
    assert refused.code == 1
    assert "cannot create pinterestservices.pinterest.com" in refused.err
    assert host.cluster.kubectl("get", "pinterestservice", "new", "-n", "shop").returncode == 1


def test_a_right_that_is_taken_away_is_gone_with_the_next_request(host: Host) -> None:
    user = {"token": host.token("shop", "reader")}
    assert host.pods("user", user).code == 0
    role = host.cluster.kubectl("get", "rolebinding", "pods", "-n", "shop", "-o", "yaml").stdout
    assert host.cluster.kubectl("delete", "rolebinding", "pods", "-n", "shop").returncode == 0
    try:
        until(
            lambda: "cannot list pods in" in host.pods("user", user).err,
            lambda: host.pods("user", user).err,
            30,
        )
    finally:
        host.cluster.kubectl("apply", "-f", "-", input=role)
