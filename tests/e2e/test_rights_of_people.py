"""Rights of people on a real API server whose controller adds ClusterRoles up: what a RoleBinding
to view, edit or admin is worth for objects of the federation, and what nobody is given.
"""

import json
import time

import pytest

from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]

NAMESPACE = "people"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
WITHIN_S = 60.0
ROLES = ("view", "edit", "admin")
AUTOSCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": NAMESPACE},
    "spec": {
        "maxReplicas": 3,
        "scaleTargetRef": {
            "apiVersion": "pinterest.com/v1beta1",
            "kind": "PinterestService",
            "name": "web",
        },
    },
}


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Cluster:
    """A host with our CRDs and roles, and one user for each of Kubernetes' roles in one
    namespace.
    """
    plane: ControlPlane = request.getfixturevalue("control_plane")
    cluster = deployed.host_alone(plane)
    for command in (
        ("create", "namespace", NAMESPACE),
        *(
            (
                "create",
                "rolebinding",
                role,
                f"--clusterrole={role}",
                f"--user={role}er",
                "-n",
                NAMESPACE,
            )
            for role in ROLES
        ),
        (
            "create",
            "clusterrolebinding",
            "fleet",
            "--clusterrole=federator-fleet-view",
            "--user=looker",
        ),
    ):
        done = cluster.kubectl(*command)
        assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + WITHIN_S
    while not _added_up(cluster):
        assert time.monotonic() < deadline, "the roles were not added up"
        time.sleep(0.1)
    return cluster


def _added_up(cluster: Cluster) -> bool:
    rules = json.loads(cluster.kubectl("get", "clusterroles", *ROLES, "-o", "json").stdout)["items"]
    groups = [
        {group for rule in role["rules"] or () for group in rule.get("apiGroups", ())}
        for role in rules
    ]
    return all("federation.pinterest.com" in found for found in groups)


def _may(cluster: Cluster, user: str, verb: str, what: str) -> bool:
    """What `kubectl auth can-i` asks."""
    resource, _, part = what.partition("/")
    plural, _, group = resource.partition(".")
    attributes = {"namespace": NAMESPACE, "verb": verb, "group": group, "resource": plural}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": {**attributes, "subresource": part}},
    }
    status, answer = cluster.ask(REVIEWS, "POST", review)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize(
    ("what", "verb", "who"),
    [
        ("pinterestservices.pinterest.com", "list", "viewer editer adminer"),
        ("placementdecisions.federation.pinterest.com", "get", "viewer editer adminer"),
        ("pinterestservices.pinterest.com", "create", "editer adminer"),
        ("pinterestjobsets.pinterest.com", "delete", "editer adminer"),
        ("pinterestcronjobs.pinterest.com", "create", "editer adminer"),
        ("pinterestcronjobs.pinterest.com/status", "patch", ""),
        ("pinterestnativecronjobs.pinterest.com", "list", "viewer editer adminer"),
        ("pinterestnativecronjobs.pinterest.com", "patch", ""),
        ("pinterestservices.pinterest.com/scale", "patch", "editer adminer"),
        ("placementpolicies.federation.pinterest.com", "create", "adminer"),
        ("placementdecisions.federation.pinterest.com", "update", ""),
        ("placementdecisions.federation.pinterest.com", "delete", ""),
        ("pinterestservices.pinterest.com/status", "patch", ""),
        ("memberclusters.federation.pinterest.com", "list", ""),
        ("federatedquotas.federation.pinterest.com", "update", ""),
    ],
)
def test_a_role_binding_gives_owners_their_workloads_and_nothing_of_the_hub(
    host: Cluster, what: str, verb: str, who: str
) -> None:
    assert [
        user for user in ("viewer", "editer", "adminer") if _may(host, user, verb, what)
    ] == who.split()


def test_who_may_look_at_the_fleet_may_change_nothing_of_it(host: Cluster) -> None:
    assert _may(host, "looker", "list", "memberclusters.federation.pinterest.com")
    assert not _may(host, "looker", "patch", "memberclusters.federation.pinterest.com")
    assert not _may(host, "looker", "list", "pinterestservices.pinterest.com")


def test_an_autoscaler_of_ours_on_the_host_gets_a_warning(host: Cluster) -> None:
    """And is taken. A policy begins to speak some seconds after it is written."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        done = host.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(AUTOSCALER))
        assert done.returncode == 0, done.stderr
        if "Warning:" in done.stderr:
            break
        assert time.monotonic() < deadline, "no warning came"
        time.sleep(0.2)
    assert "PinterestService/web has no pods on the host" in done.stderr
    assert "spec.autoscaling" in done.stderr
