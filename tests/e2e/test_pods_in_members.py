"""Pod Security on a real member: what its API server refuses is what we refuse before; and neither
account of the federation makes pods there that a tenant of the host may not.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from federator.kinds.deployment.ask import PROJECT_ANNOTATION
from federator.kinds.pods import priorities
from federator.model import names
from federator.model.kubernetes import accountlists, pod_security
from federator.model.kubernetes.pod_security import Level
from tests import hostilepods
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, federations, looking, workloads
from tests.e2e.deployed import HUB, MEMBER
from tests.e2e.test_slices_are_the_hubs import BLOCK, Guarded, refused
from tests.e2e.trying import Tries
from tests.hostilepods import Row
from tests.unit.deploy import manifests

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]

SPACE = "pods"
ACCOUNTS = (HUB, MEMBER)
NEVER_VALID = frozenset(
    {
        "spec.securityContext.windowsOptions.hostProcess",
        "spec.containers[0].securityContext.windowsOptions.hostProcess",
        "spec.containers[0].securityContext.procMount",
        f"metadata.annotations[{hostilepods.APPARMOR}]",
    }
)
"""Fields of pods that this server takes at no level, for want of something else."""


@pytest.fixture(scope="module")
def member(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    cluster = deployed.member_alone(control_plane)
    shell = federations.kubectl(tmp_path_factory.mktemp("pods"), cluster.kubeconfig())
    shell("create", "ns", SPACE)
    for level in ("baseline", "restricted", "privileged"):
        shell("create", "ns", level)
        labels = pod_security.Enforced(Level(level)).labels
        shell("label", "ns", level, *(f"{name}={value}" for name, value in labels.items()))
    shell("create", "sa", "boss", "-n", SPACE)
    shell(
        "create",
        "clusterrolebinding",
        "boss",
        "--clusterrole=cluster-admin",
        f"--serviceaccount={SPACE}:boss",
    )
    yield Guarded(cluster, shell, Tries(looking.server(shell.kubeconfig), SPACE))
    # Other tests find the list as it is shipped.
    shell("apply", "--server-side", "--force-conflicts", "-k", str(manifests.DEPLOY / "member"))


def deployment(
    spec: dict[str, Any], space: str = SPACE, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    labels = {"app": "web"}
    meta = {"labels": labels} | ({"annotations": annotations} if annotations else {})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": space, "labels": {names.FLEET_LABEL: "federator"}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": meta, "spec": copy.deepcopy(spec)},
        },
    }


def job(spec: dict[str, Any]) -> dict[str, Any]:
    made = deployment({**spec, "restartPolicy": "Never"})
    return {
        **made,
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"template": made["spec"]["template"]},
    }


def said(answer: Any) -> str:
    return json.dumps(answer)


@pytest.mark.parametrize(
    "row", [*hostilepods.EVERY, *hostilepods.ALLOWED], ids=lambda row: row.path
)
def test_a_real_server_refuses_the_pods_that_we_refuse(member: Guarded, row: Row) -> None:
    for level in (Level.BASELINE, Level.RESTRICTED):
        pod = {"apiVersion": "v1", "kind": "Pod", **row.template}
        pod["metadata"] = {**pod["metadata"], "name": "web", "namespace": str(level)}
        status, answer = member.cluster.ask(
            f"/api/v1/namespaces/{level}/pods?dryRun=All", "POST", pod
        )
        if status == 422:
            assert row.path in NEVER_VALID, said(answer)
            continue
        ours = list(pod_security.violations(row.template, level))
        assert (status == 403 and "violates PodSecurity" in said(answer)) == bool(ours), said(
            answer
        )


@pytest.mark.parametrize("account", ACCOUNTS)
def test_our_accounts_make_no_deployment_that_a_tenant_may_not(
    member: Guarded, account: str
) -> None:
    """In a namespace that somebody else made, so that nothing but the policy holds."""
    act = f"--as={deployed.user(account)}"
    taken = []
    for row in hostilepods.BASELINE:
        ran = member.tries.create(deployment(row.spec, annotations=row.annotations), act)
        if "federator-pods" not in ran.err and "is invalid" not in ran.err:
            taken.append(f"{row.path}: {ran.out}{ran.err}")
    assert not taken, "\n".join(taken)
    for row in (*hostilepods.RESTRICTED, *hostilepods.ALLOWED):
        ran = member.tries.create(deployment(row.spec), act)
        assert ran.code == 0 or "is invalid" in ran.err, ran.err


def test_jobs_are_held_alike(member: Guarded) -> None:
    act = f"--as={deployed.user(MEMBER)}"
    refused(
        member.tries.create(job({**hostilepods.GOOD, "hostPID": True}), act),
        "in namespaces of their node",
    )
    assert member.tries.create(job(hostilepods.GOOD), act).code == 0


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"nodeName": "node-1"}, "chooses no nodes"),
        ({"priorityClassName": "system-node-critical"}, "before the nodes' own pods"),
        ({"serviceAccountName": "boss"}, "may do everything in the cluster"),
    ],
)
def test_nodes_priorities_and_mighty_accounts_are_not_ours(
    member: Guarded, fields: dict[str, Any], why: str
) -> None:
    for account in ACCOUNTS:
        act = f"--as={deployed.user(account)}"
        refused(member.tries.create(deployment({**hostilepods.GOOD, **fields}), act), why)
        assert (
            member.tries.create(deployment({**hostilepods.GOOD, **fields}, "privileged"), act).code
            == 0
        )


@pytest.mark.parametrize("space", ["kube-system", "kube-public", "federator-system"])
def test_nothing_of_ours_goes_into_a_namespace_of_the_cluster(member: Guarded, space: str) -> None:
    for account in ACCOUNTS:
        act = f"--as={deployed.user(account)}"
        refused(
            member.tries.create(deployment(hostilepods.GOOD, space), act),
            "nothing in namespaces of the cluster",
        )


def test_what_has_no_namespace_is_the_hubs_to_write(member: Guarded) -> None:
    profile = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "RuntimeProfile",
        "metadata": {"name": "default-1", "labels": {names.FLEET_LABEL: "federator"}},
        "spec": {"version": "1"},
    }
    ran = member.tries.create(profile, f"--as={deployed.user(HUB)}")
    assert (ran.code, ran.err) == (0, "")


def test_what_was_there_before_is_scaled_and_people_are_not_held(member: Guarded) -> None:
    old = deployment({**hostilepods.GOOD, "hostPID": True})
    old["metadata"]["name"] = "old"
    member.shell("create", "-f", "-", input=yaml.safe_dump(old))
    act = f"--as={deployed.user(HUB)}"
    assert member.tries.patch("deploy/old", {"spec": {"replicas": 3}}, act).code == 0
    change = {"spec": {"template": {"metadata": {"labels": {"tier": "new"}}}}}
    refused(member.tries.patch("deploy/old", change, act), "in namespaces of their node")


def test_the_hub_gives_its_namespaces_a_level_but_opens_none(member: Guarded) -> None:
    act = f"--as={deployed.user(HUB)}"

    def space(level: str, name: str = "ours") -> dict[str, Any]:
        labels = {names.FLEET_LABEL: "federator", pod_security.ENFORCE: level}
        return {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }

    refused(
        member.tries.create(space("privileged"), act),
        "makes no namespace privileged that is not in the list",
    )
    refused(
        member.tries.create(space("baseline", "kube-own"), act),
        "nothing in namespaces of the cluster",
    )
    assert member.tries.create(space("restricted"), act).code == 0
    member.shell("create", "-f", "-", act, input=yaml.safe_dump(space("baseline")))
    for level, code in (("restricted", 0), ("privileged", 1)):
        change = {"metadata": {"labels": {pod_security.ENFORCE: level}}}
        ran = member.tries.patch("ns/ours", change, act)
        assert ran.code == code, ran.err
    change = {"metadata": {"labels": {pod_security.ENFORCE: "restricted"}}}
    foreign = member.tries.patch(f"ns/{SPACE}", change, act)
    refused(foreign, "changes and deletes only what carries its label")
    change = {"metadata": {"labels": {pod_security.ENFORCE: "privileged"}}}
    names_it = [{"op": "replace", "path": "/spec/variables/0/expression", "value": '["ours"]'}]
    member.shell(
        "patch",
        "validatingadmissionpolicy/federator-levels",
        "--type=json",
        "-p",
        json.dumps(names_it),
    )
    federations.until(
        lambda: member.tries.patch("ns/ours", change, act).code == 0,
        lambda: "the list is not heeded",
        30,
    )


def test_our_accounts_make_the_priority_classes_of_the_tiers_and_no_others(member: Guarded) -> None:
    """`globalDefault` or a large value would put the federation before everybody's pods."""
    act = f"--as={deployed.user(MEMBER)}"
    made = priorities.PRIORITY_CLASSES
    for obj in made:
        done = member.tries.create(obj, act)
        assert (done.code, done.err) == (0, ""), done.err
    why = "makes the PriorityClasses of its tiers"
    refused(member.tries.create({**made[0], "value": 1_000_000_000}, act), why)
    refused(member.tries.create({**made[0], "globalDefault": True}, act), why)
    refused(member.tries.create({**made[0], "metadata": {"name": "first"}}, act), why)


def test_pods_of_ours_run_under_service_accounts_that_their_namespace_lists(
    member: Guarded,
) -> None:
    """Decision 0166, in the language and within the cost limits of a real server."""
    why = "The namespace does not list this service account for the project"
    space = "accounts"
    member.shell("create", "ns", space)
    lists = {"ads": "ads-*,run.ner;*-batch,run.ner", "web": ",".join(f"a-{i}" for i in range(500))}
    said = [f"{accountlists.PREFIX}{project}={text}" for project, text in lists.items()]
    member.shell("annotate", "ns", space, *said)

    def made(kind: str, project: str, account: str) -> dict[str, Any]:
        if kind == "Deployment":
            obj = deployment({**hostilepods.GOOD, "serviceAccountName": account}, space)
            obj["metadata"]["annotations"] = {PROJECT_ANNOTATION: project}
            return obj
        obj = workloads.service("web", space, 1)
        obj["metadata"]["labels"] |= {names.FLEET_LABEL: "federator"}
        obj["spec"] |= {"project": project, "slice": dict(BLOCK)}
        obj["spec"]["template"]["spec"]["serviceAccountName"] = account
        return obj

    as_hub, as_member = (f"--as={deployed.user(account)}" for account in ACCOUNTS)
    for kind in ("Deployment", "PinterestService"):
        for project, account, allowed in (
            ("ads", "ads-nightly-batch", True),
            ("ads", "run.ner", True),
            ("ads", "runxner", False),
            ("ads", "a-499", False),
            ("web", "a-499", True),
            ("web", "default", True),
            ("other", "a-1", False),
        ):
            ran = member.tries.create(made(kind, project, account), as_hub)
            assert (ran.code == 0) is allowed, (kind, project, account, ran.err)
            if not allowed:
                refused(ran, why)
    assert member.tries.create(made("Deployment", "", "a-499"), as_member).code == 0
    refused(member.tries.create(made("Deployment", "", "boss"), as_member), why)
