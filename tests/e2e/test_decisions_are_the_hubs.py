"""Admission on a real host: a tenant with every right in its namespace, and an administrator, write
neither decisions nor statuses nor marks of the federation; nobody has the garbage collector take a
decision along.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from federator.model import names
from federator.model.kubernetes import pod_security
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, federations, workloads
from tests.e2e.deployed import HUB
from tests.e2e.federations import Ran, Shell
from tests.unit.deploy import manifests

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]

SPACE = "tenant-space"
AS_TENANT, AS_OPERATOR = "--as=tenant", "--as=operator"
AS_HUB = f"--as={deployed.user(HUB)}"
DECISION = "placementdecision/psvc-shop-1"
COLLECTED_S = 30.0
FAR = 2**61


def decision(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementDecision",
        "metadata": {"name": name, "namespace": SPACE, **metadata},
        "spec": {
            "workload": {"kind": "PinterestService", "name": "shop", "uid": "u-1"},
            "seq": 5,
            "unit": "replicas",
            "wanted": 1,
            "placed": 1,
            "shortfall": 0,
            "clusters": 1,
            "reason": "Chosen",
            "policy": {"name": "default"},
            "asOf": "2026-01-01T00:00:00Z",
            "inputsHash": "0",
            "shares": [{"cluster": "a", "seq": 5, "replicas": 1}],
        },
    }


@dataclass(slots=True)
class Guarded:
    cluster: Cluster
    shell: Shell

    def tries(self, *arguments: str, input: str = "") -> Ran:
        """Whether the server would take it: nothing is changed by any of these."""
        return self.shell.run(*arguments, "-n", SPACE, "--dry-run=server", input=input)

    def create(self, obj: dict[str, Any], *flags: str) -> Ran:
        return self.tries("create", "-f", "-", *flags, input=yaml.safe_dump(obj))

    def patch(self, what: str, body: Any, *flags: str) -> Ran:
        return self.tries("patch", what, "--type=merge", "-p", json.dumps(body), *flags)

    def uid(self, what: str) -> str:
        return self.shell("get", what, "-n", SPACE, "-o", "jsonpath={.metadata.uid}")


def refused(ran: Ran, why: str) -> None:
    assert ran.code == 1, ran.out
    assert "denied request: " in ran.err, ran.err
    assert why in ran.err


def taken(*found: Ran) -> None:
    for ran in found:
        assert (ran.code, ran.err) == (0, "")


def note(**annotations: str | None) -> dict[str, Any]:
    return {
        "metadata": {
            "annotations": {
                f"{names.FEDERATION}/{name}": text for name, text in annotations.items()
            }
        }
    }


@pytest.fixture(scope="module")
def host(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    """A host with the policies in force, a tenant with every right in one namespace, an operator,
    one decision.
    """
    cluster = control_plane.cluster("decided", controllers=True)
    shell = federations.kubectl(tmp_path_factory.mktemp("decided"), cluster.kubeconfig())
    for base in ("crd", "host/access"):
        shell("apply", "--server-side", "-k", str(manifests.DEPLOY / base))
    shell("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    shell("create", "ns", SPACE)
    shell("create", "clusterrole", "everything", "--verb=*", "--resource=*.*")
    shell(
        "create", "rolebinding", "tenant", "--clusterrole=everything", "--user=tenant", "-n", SPACE
    )
    shell(
        "create",
        "clusterrolebinding",
        "operator",
        "--clusterrole=federator-operator",
        "--user=operator",
    )
    # `kubectl patch` reads first, which the hub does by watches.
    read = "memberclusters.federation.pinterest.com,pinterestjobsets.pinterest.com/status"
    shell("create", "clusterrole", "reader", "--verb=get", f"--resource={read}")
    account = f"--serviceaccount={deployed.SYSTEM}:{HUB}"
    shell("create", "clusterrolebinding", "reader", "--clusterrole=reader", account)
    shell(
        "create", "-f", "-", "-n", SPACE, input=yaml.safe_dump(workloads.service("shop", SPACE, 1))
    )
    shell("create", "-f", "-", input=yaml.safe_dump(workloads.jobset("crawl", SPACE, 10, 2)))
    shell("create", "-f", "-", AS_HUB, input=yaml.safe_dump(decision("psvc-shop-1")))
    cluster_obj = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "a", "finalizers": [names.CLUSTER_FINALIZER]},
        "spec": {},
    }
    shell("create", "-f", "-", AS_OPERATOR, input=yaml.safe_dump(cluster_obj))
    found = Guarded(cluster, shell)
    federations.until(
        lambda: found.create(decision("probe")).code == 1,
        lambda: "the admission policies do not act",
        30,
    )
    yield found
    control_plane.end(cluster.name)


@pytest.mark.parametrize("who", [AS_TENANT, "--as=admin --as-group=system:masters"])
def test_neither_tenant_nor_administrator_makes_changes_or_deletes_a_decision(
    host: Guarded, who: str
) -> None:
    flags = who.split()
    refused(
        host.create(decision("psvc-shop-2"), *flags),
        "Only the hub makes and deletes placement decisions",
    )
    refused(
        host.tries("delete", DECISION, *flags), "Only the hub makes and deletes placement decisions"
    )
    refused(
        host.tries("delete", "placementdecisions", "--all", *flags),
        "Only the hub makes and deletes",
    )
    for spec in ({"seq": FAR}, {"shares": [{"cluster": "a", "seq": 6, "replicas": 500}]}):
        refused(
            host.patch(DECISION, {"spec": spec}, *flags),
            "Only the hub changes a placement decision",
        )
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "0"}
    for meta in (
        {"ownerReferences": [owner]},
        {"finalizers": ["example.com/mine"]},
        {"labels": {"team": "shop"}},
    ):
        refused(
            host.patch(DECISION, {"metadata": meta}, *flags),
            "Only the hub changes a placement decision",
        )


def test_two_annotations_of_a_decision_are_for_people_and_one_of_them_for_operators(
    host: Guarded,
) -> None:
    taken(
        host.patch(DECISION, note(rebalance="now")),
        host.patch(DECISION, note(rebalance="now"), AS_TENANT),
    )
    refused(
        host.patch(DECISION, note(slice="{}"), AS_TENANT),
        "Of a placement decision's annotations only",
    )
    forget = note(**{"force-forget": "a"})
    refused(host.patch(DECISION, forget, AS_TENANT), "must be allowed to patch memberclusters")
    taken(host.patch(DECISION, forget, AS_OPERATOR))


def test_the_hub_makes_changes_and_deletes_decisions(host: Guarded) -> None:
    taken(
        host.create(decision("psvc-shop-2"), AS_HUB),
        host.patch(DECISION, {"spec": {"seq": 6}}, AS_HUB),
        host.patch(DECISION, {"metadata": {"finalizers": [names.DECISION_FINALIZER]}}, AS_HUB),
        host.tries("delete", DECISION, AS_HUB),
    )


@pytest.mark.parametrize("who", [AS_TENANT, ""])
def test_what_is_recorded_as_done_is_the_hubs(host: Guarded, who: str) -> None:
    for what, status in (
        ("pjs/crawl", {"completedIndexes": "0-9"}),
        ("psvc/shop", {"summary": "fine"}),
    ):
        ran = host.patch(what, {"status": status}, "--subresource=status", *who.split())
        refused(ran, "Only the hub writes the status")
    heard = host.patch("mc/a", {"status": {"summary": "Ready"}}, "--subresource=status")
    refused(heard, "Only the hub writes the status")
    taken(
        host.patch(
            "pjs/crawl", {"status": {"completedIndexes": "0-1"}}, "--subresource=status", AS_HUB
        )
    )


def test_workloads_on_the_host_carry_no_marks_of_the_federation(host: Guarded) -> None:
    block = {
        "fleet": "federator",
        "workloadUID": "u",
        "originGeneration": 1,
        "cluster": "a",
        "seq": 1,
        "expander": "1",
    }
    marked = workloads.service("new", SPACE, 1)
    marked["spec"]["slice"] = block
    refused(host.create(marked, AS_TENANT), "The federation writes spec.slice")
    refused(
        host.patch("psvc/shop", {"spec": {"slice": block}}, AS_TENANT),
        "The federation writes spec.slice",
    )
    for make in (workloads.service, workloads.deployment):
        for meta, why in (
            ({"labels": {names.FLEET_LABEL: "federator"}}, "Labels that begin with"),
            ({"annotations": {names.SLICE_ANNOTATION: "{}"}}, "are the federation's own"),
            ({"finalizers": [names.DECISION_FINALIZER]}, "Finalizers that begin with"),
        ):
            obj = copy.deepcopy(make("new", SPACE, 1))
            obj["metadata"] |= meta
            refused(host.create(obj, AS_TENANT), why)
    plain = workloads.deployment("new", SPACE, 1)
    plain["metadata"] |= {
        "annotations": {f"{names.FEDERATION}/tier": "Preemptible"},
        "finalizers": ["example.com/own"],
    }
    taken(
        host.create(plain, AS_TENANT),
        host.create(workloads.service("new", SPACE, 1), AS_TENANT),
        host.patch("psvc/shop", {"spec": {"replicas": 7}}, AS_TENANT),
        host.tries("delete", "psvc/shop", AS_TENANT),
    )


def test_the_hub_alone_lets_go_of_a_cluster(host: Guarded) -> None:
    freed = {"metadata": {"finalizers": None}}
    refused(host.patch("mc/a", freed, AS_OPERATOR), "The hub takes this finalizer away")
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "0"}
    refused(
        host.patch("mc/a", {"metadata": {"ownerReferences": [owner]}}, AS_OPERATOR), "has no owner"
    )
    taken(
        host.patch("mc/a", {"spec": {"cordoned": True}}, AS_OPERATOR),
        host.patch("mc/a", note(removal="Orphan"), AS_OPERATOR),
        host.patch("mc/a", freed, AS_HUB),
    )


def test_the_garbage_collector_takes_no_decision_along(host: Guarded) -> None:
    """One that got an owner before the policies were there: the collector goes by what it finds."""
    dangling = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "gone",
            "uid": "00000000-0000-0000-0000-000000000000",
        }
    ]
    control = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "control", "namespace": SPACE, "ownerReferences": dangling},
    }
    host.shell(
        "create",
        "-f",
        "-",
        AS_HUB,
        input=yaml.safe_dump(decision("owned", ownerReferences=dangling)),
    )
    host.shell("create", "-f", "-", input=yaml.safe_dump(control))

    def collected() -> bool:
        return host.shell.run("get", "configmap/control", "-n", SPACE).code != 0

    federations.until(collected, lambda: "the garbage collector does nothing", COLLECTED_S)
    assert host.uid("placementdecision/owned")


def test_a_namespace_that_goes_takes_its_decisions_along(host: Guarded) -> None:
    host.shell("create", "ns", "doomed")
    gone = decision("psvc-shop-1")
    gone["metadata"]["namespace"] = "doomed"
    host.shell("create", "-f", "-", AS_HUB, input=yaml.safe_dump(gone))
    host.shell("delete", "ns", "doomed", "--timeout=60s")


def test_the_level_of_a_namespace_is_for_those_who_may_change_namespaces_everywhere(
    host: Guarded,
) -> None:
    """A tenant with every right in a namespace has, by RBAC, every right on that namespace too."""
    level = {"metadata": {"labels": {pod_security.ENFORCE: "privileged"}}}
    note = {"metadata": {"labels": {"example.com/team": "shop"}}}
    why = "The Pod Security level of a namespace is changed by whoever"
    taken(host.patch(f"ns/{SPACE}", note, AS_TENANT), host.patch(f"ns/{SPACE}", level))
    refused(host.patch(f"ns/{SPACE}", level, AS_TENANT), why)
    refused(host.patch(f"ns/{SPACE}", level, AS_TENANT, "--subresource=status"), why)
    host.shell("label", "ns", SPACE, f"{pod_security.ENFORCE}=restricted")
    refused(
        host.patch(
            f"ns/{SPACE}", {"metadata": {"labels": {pod_security.ENFORCE: None}}}, AS_TENANT
        ),
        why,
    )
    host.shell("label", "ns", SPACE, f"{pod_security.ENFORCE}-")


def test_the_hub_changes_no_cluster_and_takes_no_revision_of_others(host: Guarded) -> None:
    """Whoever has its token sends no work elsewhere by cordoning, labels or credentials of a
    MemberCluster.
    """
    changes: tuple[dict[str, Any], ...] = (
        {"spec": {"cordoned": True}},
        {"spec": {"credentials": {"secretRef": {"name": "other"}}}},
        {"metadata": {"labels": {"region": "elsewhere"}}},
        note(removal="Orphan"),
    )
    for change in changes:
        refused(
            host.patch("mc/a", change, AS_HUB),
            "nothing of a MemberCluster but its finalizers and status",
        )
    taken(host.patch("mc/a", {"metadata": {"finalizers": []}}, AS_HUB))
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {}}
    meta = {"name": "web-1", "namespace": SPACE}
    refused(
        host.create({**revision, "metadata": meta}, AS_HUB),
        "only ControllerRevisions that carry its label",
    )
    taken(
        host.create(
            {**revision, "metadata": {**meta, "labels": {names.FLEET_LABEL: "federator"}}}, AS_HUB
        )
    )
    host.shell("create", "-f", "-", input=yaml.safe_dump({**revision, "metadata": meta}))
    refused(
        host.tries("delete", "controllerrevision/web-1", AS_HUB),
        "only ControllerRevisions that carry its label",
    )
    host.shell("delete", "controllerrevision/web-1", "-n", SPACE)
