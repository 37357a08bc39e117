"""The federation with nothing but the rights that deploy/ gives it, on real API servers with RBAC
and admission policies: everything works, nothing is refused, no grant is idle, and nobody but the
hub writes slices.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from federator.hub.hardening import PROBE
from tests.controlplane import build
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

OVERLAYS = sorted(path.parent for path in manifests.DEPLOY.rglob("kustomization.yaml"))
ELSEWHERE = {("", "apps", "statefulsets", "delete", "")}
"""Used where a cluster has two blocks of one stateful set and gives one up, for which a fleet of two
clusters is too small: tests/unit/hub/test_statefulsets.py.
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


def test_the_servers_take_every_manifest_as_it_is(fleet: Deployed) -> None:
    """Strict: an unknown or misspelt field is an error; pods must pass the `restricted` standard of
    their namespace.
    """
    for shell, bases in (
        (fleet.fleet.host, ("host",)),
        (fleet.fleet.members["a"], ("member", "overlays/example-member")),
    ):
        for base in bases:
            where = ("-k", str(manifests.DEPLOY / base))
            done = shell.run(
                "apply",
                "--server-side",
                "--force-conflicts",
                "--dry-run=server",
                "--validate=strict",
                *where,
            )
            assert (done.code, done.err) == (0, "")
    for shell, base in ((fleet.fleet.host, "host/access"), (fleet.fleet.members["a"], "member")):
        policies = shell.items("validatingadmissionpolicies")
        made = manifests.of_kind(
            deployed.rendered(manifests.DEPLOY / base), "ValidatingAdmissionPolicy"
        )
        assert {policy["metadata"]["name"] for policy in policies} == {
            policy["metadata"]["name"] for policy in made
        }
        for policy in policies:
            assert (policy.get("status") or {}).get("typeChecking", {}) == {}, policy["metadata"][
                "name"
            ]


def test_a_federation_lives_on_the_rights_of_the_manifests_and_uses_all_of_them(
    fleet: Deployed,
) -> None:
    deployed_story.tell(fleet)
    faults = []
    for clusters, base, account in (
        (("host",), "host/access", HUB),
        (("a", "b"), "member", HUB),
        (("a", "b"), "member", MEMBER),
    ):
        rows = {row for cluster in clusters for row in fleet.asked(cluster, account)}
        given = manifests.grants(deployed.rendered(manifests.DEPLOY / base), account)
        faults += [
            f"{row.user} was refused: {row}"
            for row in sorted(rows)
            if PROBE not in (row.refused or PROBE)
        ]
        faults += [
            f"{base}: {account} never used {grant}"
            for grant in sorted(given)
            if not deployed.used(rows, grant) and grant not in ELSEWHERE
        ]
        assert len(given) > 10
    assert not faults, "\n".join(faults)
