"""The federation with nothing but the rights that deploy/ gives it, on real API servers with RBAC
and admission policies: everything works, nothing is refused, no grant is idle, and nobody but the
hub writes slices.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from federator.kinds import registry
from tests.controlplane import build
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, deployed_story
from tests.e2e.deployed import HUB, MEMBER, Deployed
from tests.unit.deploy import manifests

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
    pytest.mark.timeout(
        900
    ),  # three servers and two processes are started, beside whatever else the machine does
]

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
OVERLAYS = sorted(path.parent for path in manifests.DEPLOY.rglob("kustomization.yaml"))
_KINDS = [
    (kind.api_version.rpartition("/")[0], kind.plural)
    for kind in (*registry.WORKLOADS.values(), *registry.RECURRING.values())
]
ELSEWHERE = {
    ("", "apps", "statefulsets", "delete", ""),
    *(("", group, plural, "patch", "") for group, plural in _KINDS),
    *(("", group, f"{plural}/finalizers", "update", "") for group, plural in _KINDS),
    *(
        ("", group, plural, "patch", "")
        for group, plural in (
            ("", "persistentvolumeclaims"),
            ("", "services"),
            ("jobset.x-k8s.io", "jobsets"),
            ("multicluster.x-k8s.io", "serviceexports"),
            ("networking.k8s.io", "ingresses"),
            ("scheduling.k8s.io", "podgroups"),
            ("trainer.kubeflow.org", "trainingruntimes"),
            ("trainer.kubeflow.org", "trainjobs"),
        )
    ),
}
"""Deleted where a cluster has two blocks of one stateful set and gives one up, for which a fleet of
two clusters is too small: tests/unit/hub/test_statefulsets.py. Workloads are patched where the host
has no garbage collector: test_cascades_real.py. Native objects are created, and patched only when they
change, which these never do here: tests/contract/test_contract_handing_over.py. Nobody asks for
`finalizers`: admission asks whether
the account may, which sets blockOwnerDeletion.
"""
LONG = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/run-seconds": "600"}


@pytest.fixture(scope="module")
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    with deployed.deployed(
        tmp_path_factory.mktemp("deployed"), request.getfixturevalue("control_plane")
    ) as found:
        yield found


@pytest.mark.parametrize(
    "directory", OVERLAYS, ids=lambda path: str(path.relative_to(manifests.DEPLOY))
)
def test_every_kustomization_renders_to_manifests_without_a_fault(
    directory: Path, tmp_path: Path
) -> None:
    program = build.kubectl()
    if program is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    found = deployed.rendered(directory)
    assert found
    assert manifests.all_faults(found) == []
    # kustomize takes resourceNames for references: a generated name there would be a grant on
    # nothing.
    for account in (HUB, MEMBER):
        assert manifests.grants(found, account) <= manifests.grants(manifests.written(), account)
    assert list(manifests.settings_faults(found, tmp_path)) == []


def test_the_servers_take_every_manifest_as_it_is(control_plane: ControlPlane) -> None:
    """Strict: an unknown or misspelt field is an error; pods must pass the `restricted` standard of
    their namespace.
    """
    host, member = deployed.host_alone(control_plane), deployed.member_alone(control_plane)
    for cluster, bases in ((host, ("host",)), (member, ("member", "overlays/example-member"))):
        for base in bases:
            done = cluster.kubectl(
                "apply",
                "--server-side",
                "--force-conflicts",
                "--dry-run=server",
                "--validate=strict",
                "-k",
                str(manifests.DEPLOY / base),
            )
            assert (done.returncode, done.stderr) == (0, "")
    for cluster, base in ((host, "host/access"), (member, "member")):
        status, found = cluster.ask(POLICIES)
        assert status == 200, found
        policies = found["items"]
        made = manifests.of_kind(
            deployed.rendered(manifests.DEPLOY / base), "ValidatingAdmissionPolicy"
        )
        assert {policy["metadata"]["name"] for policy in policies} == {
            policy["metadata"]["name"] for policy in made
        }
        # Expressions on the host, and of the policy of pods, name fields that only some kinds of
        # their policy have, behind a test of the kind, which the type checker does not follow.
        for policy in policies if cluster is member else []:
            name = policy["metadata"]["name"]
            if name != "federator-pods":
                assert (policy.get("status") or {}).get("typeChecking", {}) == {}, name


@pytest.mark.long
def test_a_federation_lives_on_the_rights_of_the_manifests_and_uses_all_of_them(
    fleet: Deployed,
) -> None:
    deployed_story.tell(fleet)
    faults = fleet.refused()
    for clusters, base, account in (
        (("host",), "host/access", HUB),
        (("a", "b"), "member", HUB),
        (("a", "b"), "member", MEMBER),
    ):
        rows = {row for cluster in clusters for row in fleet.asked(cluster, account)}
        given = manifests.grants(deployed.rendered(manifests.DEPLOY / base), account)
        faults += [
            f"{base}: {account} never used {grant}"
            for grant in sorted(given)
            if not deployed.used(rows, grant) and grant not in ELSEWHERE
        ]
        assert len(given) > 10
    assert not faults, "\n".join(faults)
