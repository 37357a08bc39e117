"""What the hardening checks find on real API servers: as they come, with deploy/ applied, and with
rights too many.
"""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from federator.hub.security import hardening
from federator.hub.security.hardening import Asked, Check, Finding, Result
from federator.kube.client import Client
from federator.kube.login import tls
from federator.kube.wire import http
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed
from tests.e2e.deployed import HUB
from tests.e2e.federations import until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]

LASTING = """
apiVersion: v1
kind: Secret
metadata:
  name: federator-hub
  namespace: federator-system
  annotations: {kubernetes.io/service-account.name: federator-hub}
type: kubernetes.io/service-account-token
"""


def found(cluster: Cluster, checks: Sequence[Check], *, token: str = "") -> dict[str, Finding]:
    """The findings by subject: about the hub as the administrator asks, or with the hub's own
    token.
    """

    async def asking() -> list[Finding]:
        transport = cluster.transport()
        if token:
            await transport.close()
            context = tls.client_context(ca_pem=cluster.ca_file.read_bytes())
            transport = http.HttpTransport(
                http.Endpoint(cluster.url, tls=context, credentials=http.StaticToken(token))
            )
        try:
            account = "" if token else hardening.HUB_USER
            return await hardening.examine(Asked(Client(transport, cluster.name), account), checks)
        finally:
            await transport.close()

    return {finding.subject: finding for finding in asyncio.run(asking())}


def warned(findings: dict[str, Finding]) -> set[str]:
    return {subject for subject, finding in findings.items() if finding.result is Result.WARNING}


@pytest.fixture(scope="module")
def bare(control_plane: ControlPlane) -> Iterator[Cluster]:
    """As somebody has it who gave the hub an administrator's rights and applied nothing."""
    cluster = control_plane.cluster("bare")
    for command in (
        ("create", "namespace", "federator-system"),
        ("create", "serviceaccount", HUB, "-n", "federator-system"),
        (
            "create",
            "clusterrolebinding",
            "all",
            "--clusterrole=cluster-admin",
            f"--user={hardening.HUB_USER}",
        ),
    ):
        done = cluster.kubectl(*command)
        assert done.returncode == 0, done.stderr
    yield cluster
    control_plane.end(cluster.name)


@pytest.fixture(scope="module")
def host(control_plane: ControlPlane) -> Cluster:
    """With all of deploy/ that gives and bounds access."""
    return deployed.host_alone(control_plane)


@pytest.fixture(scope="module")
def member(control_plane: ControlPlane) -> Cluster:
    """With all of deploy/ for members, once its policies act."""
    return deployed.member_alone(control_plane)


def token_of_hub(cluster: Cluster) -> str:
    done = cluster.kubectl("create", "token", HUB, "-n", "federator-system")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_host_without_policies_and_a_hub_with_all_rights_are_warned_of(bare: Cluster) -> None:
    findings = found(bare, hardening.HOST_AS_PERSON)
    assert warned(findings) == {
        "admission on the host",
        "rights of the hub on the host",
        "members' Secrets",
        "namespace federator-system",
    }
    assert "do everything" in findings["rights of the hub on the host"].message
    assert "federator-decisions" in findings["admission on the host"].message


def test_a_member_without_policies_is_warned_of_by_the_hub_itself(bare: Cluster) -> None:
    assert warned(found(bare, hardening.MEMBER_AS_HUB, token=token_of_hub(bare))) == {
        "admission in the member",
        "rights of the hub in the member",
    }


def test_a_dry_run_makes_no_namespace(bare: Cluster) -> None:
    found(bare, hardening.MEMBER_AS_HUB, token=token_of_hub(bare))
    assert bare.kubectl("get", "namespace", hardening.PROBE).returncode != 0


def test_a_policy_that_only_warns_is_not_in_force(bare: Cluster) -> None:
    binding = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: federator-slices}
spec: {policyName: federator-slices, validationActions: [Warn]}
"""
    assert bare.kubectl("apply", "-f", "-", input=binding).returncode == 0
    message = found(bare, hardening.MEMBER_AS_PERSON)["admission in the member"].message
    assert "federator-slices (does not deny)" in message


def test_a_host_with_deploy_applied_has_nothing_to_warn_of(host: Cluster) -> None:
    assert not _warnings(found(host, hardening.HOST_AS_PERSON))
    assert not _warnings(found(host, hardening.HOST_AS_HUB, token=token_of_hub(host)))


def test_a_member_with_deploy_applied_has_nothing_to_warn_of(member: Cluster) -> None:
    assert not _warnings(found(member, hardening.MEMBER_AS_PERSON))
    assert not _warnings(found(member, hardening.MEMBER_AS_HUB, token=token_of_hub(member)))


def test_a_token_without_end_as_earlier_versions_made_it_is_warned_of(member: Cluster) -> None:
    assert member.kubectl("apply", "-f", "-", input=LASTING).returncode == 0
    try:
        assert set(_warnings(found(member, hardening.MEMBER_AS_PERSON))) == {"the hub's token"}
    finally:
        assert member.kubectl("delete", "secret", HUB, "-n", "federator-system").returncode == 0


def test_a_hub_that_may_read_every_secret_of_members_is_warned_of(host: Cluster) -> None:
    """The Role of earlier manifests: rights to some Secrets by name are none to all."""
    where = ("-n", "federator-clusters")
    made = ("create", "role", "old", "--verb=get", "--resource=secrets", *where)
    named = (
        "create",
        "role",
        "new",
        "--verb=get,patch",
        "--resource=secrets",
        "--resource-name=a",
        *where,
    )
    for name, command in (("old", made), ("new", named)):
        assert host.kubectl(*command).returncode == 0
        bound = (
            "create",
            "rolebinding",
            name,
            f"--role={name}",
            f"--user={hardening.HUB_USER}",
            *where,
        )
        assert host.kubectl(*bound).returncode == 0
    until(
        lambda: "members' Secrets" in _warnings(found(host, hardening.HOST_AS_PERSON)),
        lambda: "nothing is said",
        30,
    )
    assert (
        "federator cluster grant --all"
        in found(host, hardening.HOST_AS_PERSON)["members' Secrets"].message
    )
    assert host.kubectl("delete", "rolebinding", "old", *where).returncode == 0
    until(
        lambda: not _warnings(found(host, hardening.HOST_AS_PERSON)),
        lambda: "it is warned of still",
        30,
    )


def _warnings(findings: dict[str, Finding]) -> dict[str, str]:
    """Whatever is not as it should be, with what was found."""
    return {
        subject: found.message
        for subject, found in findings.items()
        if found.result is not Result.OK
    }
