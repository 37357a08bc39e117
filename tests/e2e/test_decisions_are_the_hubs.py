"""Admission on a real host: a tenant with every right in its namespace, and an administrator, write
neither decisions nor statuses nor marks of the federation; nobody has the garbage collector take a
decision along.
"""

import copy
import json
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from federator.model import names
from federator.model.kubernetes import pod_security
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, federations, looking, workloads
from tests.e2e.deployed import HUB
from tests.e2e.federations import Ran, Shell
from tests.e2e.trying import Tries

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("federation of real servers"),
]

SPACE = "tenant-space"
AS_TENANT, AS_OPERATOR = "--as=tenant", "--as=operator"
AS_HUB = f"--as={deployed.user(HUB)}"
DECISION = "placementdecision/psvc-shop-1"
COLLECTED_S = 60.0
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
    shell: Shell
    tries: Tries

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
def host(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    """A host with the policies in force, a tenant with every right in one namespace, an operator,
    one decision.
    """
    cluster = deployed.host_alone(control_plane)
    shell = federations.kubectl(tmp_path_factory.mktemp("decided"), cluster.kubeconfig())
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
    found = Guarded(shell, Tries(looking.server(shell.kubeconfig), SPACE))
    federations.until(
        lambda: found.tries.create(decision("probe")).code == 1,
        lambda: "the admission policies do not act",
        30,
    )
    return found


@pytest.mark.parametrize("who", [AS_TENANT, "--as=admin --as-group=system:masters"])
def test_neither_tenant_nor_administrator_makes_changes_or_deletes_a_decision(
    host: Guarded, who: str
) -> None:
    flags = who.split()
    refused(
        host.tries.create(decision("psvc-shop-2"), *flags),
        "Only the hub makes and deletes placement decisions",
    )
    refused(
        host.tries.delete(DECISION, *flags), "Only the hub makes and deletes placement decisions"
    )
    refused(
        host.tries.delete("placementdecisions", *flags),
        "Only the hub makes and deletes",
    )
    for spec in ({"seq": FAR}, {"shares": [{"cluster": "a", "seq": 6, "replicas": 500}]}):
        refused(
            host.tries.patch(DECISION, {"spec": spec}, *flags),
            "Only the hub changes a placement decision",
        )
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "0"}
    for meta in (
        {"ownerReferences": [owner]},
        {"finalizers": ["example.com/mine"]},
        {"labels": {"team": "shop"}},
    ):
        refused(
            host.tries.patch(DECISION, {"metadata": meta}, *flags),
            "Only the hub changes a placement decision",
        )


def test_two_annotations_of_a_decision_are_for_people_and_one_of_them_for_operators(
    host: Guarded,
) -> None:
    taken(
        host.tries.patch(DECISION, note(rebalance="now")),
        host.tries.patch(DECISION, note(rebalance="now"), AS_TENANT),
    )
    refused(
        host.tries.patch(DECISION, note(slice="{}"), AS_TENANT),
        "Of a placement decision's annotations only",
    )
    forget = note(**{"force-forget": "a"})
    refused(
        host.tries.patch(DECISION, forget, AS_TENANT), "must be allowed to patch memberclusters"
    )
    taken(host.tries.patch(DECISION, forget, AS_OPERATOR))


def test_the_hub_makes_changes_and_deletes_decisions(host: Guarded) -> None:
    taken(
        host.tries.create(decision("psvc-shop-2"), AS_HUB),
        host.tries.patch(DECISION, {"spec": {"seq": 6}}, AS_HUB),
        host.tries.patch(
            DECISION, {"metadata": {"finalizers": [names.DECISION_FINALIZER]}}, AS_HUB
        ),
        host.tries.delete(DECISION, AS_HUB),
    )


@pytest.mark.parametrize("who", [AS_TENANT, ""])
def test_what_is_recorded_as_done_is_the_hubs(host: Guarded, who: str) -> None:
    for what, status in (
        ("pjs/crawl", {"completedIndexes": "0-9"}),
        ("psvc/shop", {"summary": "fine"}),
    ):
        ran = host.tries.patch(what, {"status": status}, "--subresource=status", *who.split())
        refused(ran, "Only the hub writes the status")
    heard = host.tries.patch("mc/a", {"status": {"summary": "Ready"}}, "--subresource=status")
    refused(heard, "Only the hub writes the status")
    taken(
        host.tries.patch(
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
    refused(host.tries.create(marked, AS_TENANT), "The federation writes spec.slice")
    refused(
        host.tries.patch("psvc/shop", {"spec": {"slice": block}}, AS_TENANT),
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
            refused(host.tries.create(obj, AS_TENANT), why)
    plain = workloads.deployment("new", SPACE, 1)
    plain["metadata"] |= {
        "annotations": {f"{names.FEDERATION}/tier": "Preemptible"},
        "finalizers": ["example.com/own"],
    }
    taken(
        host.tries.create(plain, AS_TENANT),
        host.tries.create(workloads.service("new", SPACE, 1), AS_TENANT),
        host.tries.patch("psvc/shop", {"spec": {"replicas": 7}}, AS_TENANT),
        host.tries.delete("psvc/shop", AS_TENANT),
    )


def test_the_hub_alone_lets_go_of_a_cluster(host: Guarded) -> None:
    freed = {"metadata": {"finalizers": None}}
    refused(host.tries.patch("mc/a", freed, AS_OPERATOR), "The hub takes this finalizer away")
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "0"}
    refused(
        host.tries.patch("mc/a", {"metadata": {"ownerReferences": [owner]}}, AS_OPERATOR),
        "has no owner",
    )
    taken(
        host.tries.patch("mc/a", {"spec": {"cordoned": True}}, AS_OPERATOR),
        host.tries.patch("mc/a", note(removal="Orphan"), AS_OPERATOR),
        host.tries.patch("mc/a", freed, AS_HUB),
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


@pytest.mark.parametrize(
    ("kind", "finalizer"), [("psvc", "orphan"), ("deploy", "foregroundDeletion")]
)
def test_the_hub_takes_nothing_of_a_workload_but_what_the_collector_holds(
    host: Guarded, kind: str, finalizer: str
) -> None:
    """It ends deletions for a garbage collector that is not there (decision 0182)."""
    make = workloads.service if kind == "psvc" else workloads.deployment
    obj = copy.deepcopy(make("held", SPACE, 1))
    held = ["example.com/own", finalizer]
    named = {"name": "kube-root-ca.crt", "uid": host.uid("configmap/kube-root-ca.crt")}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", **named}
    run = workloads.jobset("run", SPACE, 10, 2)["spec"]
    cron = workloads.cronjob(f"yearly-{kind}", SPACE, "0 0 1 1 *", run)
    host.shell("create", "-f", "-", input=yaml.safe_dump(cron))
    head = {"apiVersion": cron["apiVersion"], "kind": cron["kind"]}
    maker = {**head, "name": f"yearly-{kind}", "uid": host.uid(f"pcj/yearly-{kind}")}
    obj["metadata"] |= {"finalizers": held, "ownerReferences": [owner, maker]}
    host.shell("create", "-f", "-", input=yaml.safe_dump(obj))
    freed = {"finalizers": ["example.com/own"]}
    for metadata in (freed, {"ownerReferences": [owner]}):
        taken(host.tries.patch(f"{kind}/held", {"metadata": metadata}, AS_HUB))
    for change in (
        {"metadata": {"finalizers": [finalizer]}},
        {"metadata": {"finalizers": [*held, "example.com/more"]}},
        {"metadata": {"ownerReferences": [maker]}},
        {"metadata": {"ownerReferences": [owner, maker, {**owner, "name": "b", "uid": "2"}]}},
        {"metadata": {"labels": {"tier": "other"}}},
        {"metadata": {"annotations": {"note": "other"}}},
        {"metadata": freed, "spec": {"replicas": 0}},
    ):
        refused(
            host.tries.patch(f"{kind}/held", change, AS_HUB),
            "nothing of a workload but its status and the finalizers of the garbage collector",
        )
    host.shell(
        "patch", f"{kind}/held", "-n", SPACE, "--type=merge", "-p", '{"metadata":{"finalizers":[]}}'
    )
    host.shell("delete", f"{kind}/held", "-n", SPACE, "--cascade=background")


def test_the_garbage_collector_takes_only_references_from_a_decision(host: Guarded) -> None:
    collector = "--as=system:serviceaccount:kube-system:generic-garbage-collector"
    workload = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "name": "shop",
        "uid": host.uid("psvc/shop"),
    }
    owned = decision("psvc-shop-3", ownerReferences=[workload])
    host.shell("create", "-f", "-", AS_HUB, input=yaml.safe_dump(owned))
    which = "placementdecision/psvc-shop-3"
    orphaned: dict[str, Any] = {"metadata": {"ownerReferences": []}}
    taken(host.tries.patch(which, orphaned, collector))
    why = "Only the hub changes a placement decision, its labels, finalizers and owners"
    for who in (AS_TENANT, AS_OPERATOR):
        refused(host.tries.patch(which, orphaned, who), why)
    other = {**workload, "name": "other", "uid": "2"}
    for change in (
        {"metadata": {"ownerReferences": [other]}},
        {"metadata": {"ownerReferences": [workload, other]}},
        {**orphaned, "spec": {"seq": 9}},
        {"metadata": {"ownerReferences": [], "labels": {f"{names.FEDERATION}/owned": "no"}}},
    ):
        refused(host.tries.patch(which, change, collector), why)


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
    taken(host.tries.patch(f"ns/{SPACE}", note, AS_TENANT), host.tries.patch(f"ns/{SPACE}", level))
    refused(host.tries.patch(f"ns/{SPACE}", level, AS_TENANT), why)
    refused(host.tries.patch(f"ns/{SPACE}", level, AS_TENANT, "--subresource=status"), why)
    host.shell("label", "ns", SPACE, f"{pod_security.ENFORCE}=restricted")
    refused(
        host.tries.patch(
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
            host.tries.patch("mc/a", change, AS_HUB),
            "nothing of a MemberCluster but its finalizers and status",
        )
    taken(host.tries.patch("mc/a", {"metadata": {"finalizers": []}}, AS_HUB))
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {}}
    meta = {"name": "web-1", "namespace": SPACE}
    refused(
        host.tries.create({**revision, "metadata": meta}, AS_HUB),
        "only ControllerRevisions that carry its label",
    )
    taken(
        host.tries.create(
            {**revision, "metadata": {**meta, "labels": {names.FLEET_LABEL: "federator"}}}, AS_HUB
        )
    )
    host.shell("create", "-f", "-", input=yaml.safe_dump({**revision, "metadata": meta}))
    refused(
        host.tries.delete("controllerrevision/web-1", AS_HUB),
        "only ControllerRevisions that carry its label",
    )
    host.shell("delete", "controllerrevision/web-1", "-n", SPACE)


def test_a_cluster_that_holds_slices_is_deleted_by_a_drain_or_an_annotation(host: Guarded) -> None:
    """`kubectl delete mc` cannot be cancelled. The fix that the refusal names is tried."""
    cluster = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "full"},
        "spec": {},
    }
    host.shell("create", "-f", "-", AS_OPERATOR, input=yaml.safe_dump(cluster))
    taken(host.tries.delete("mc/full", AS_OPERATOR))
    # kubectl reads the status before it patches it, which the hub itself never does.
    resource = "--resource=memberclusters.federation.pinterest.com/status"
    host.shell("create", "clusterrole", "statuses", "--verb=get", resource)
    reader = AS_HUB.removeprefix("--as=system:serviceaccount:")
    host.shell(
        "create",
        "clusterrolebinding",
        "statuses",
        "--clusterrole=statuses",
        f"--serviceaccount={reader}",
    )

    def patch(body: dict[str, Any], *flags: str) -> None:
        host.shell("patch", "mc/full", "--type=merge", "-p", json.dumps(body), *flags)

    why = "MemberCluster full holds slices of workloads (status.slices: 3), and a deletion cannot"
    patch({"status": {"slices": 3}}, "--subresource=status", AS_HUB)
    refused(host.tries.delete("mc/full", AS_OPERATOR), why)
    refused(host.tries.delete("mc"), why)
    condition = {
        "type": "Draining",
        "status": "True",
        "reason": "Emptying",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 2,
    }
    patch({"spec": {"drain": {}}}, AS_OPERATOR)
    patch({"status": {"conditions": [condition]}}, "--subresource=status", AS_HUB)
    taken(host.tries.delete("mc/full", AS_OPERATOR))
    stays = [{"workload": "PinterestService/feed/web", "copies": 1, "why": "no room"}]
    drain = {"since": "2026-01-01T00:00:00Z", "stays": stays}
    patch({"status": {"drain": drain}}, "--subresource=status", AS_HUB)
    refused(host.tries.delete("mc/full", AS_OPERATOR), why)
    for how in ("Empty", "Orphan", "Lost"):
        host.shell("annotate", "mc/full", f"{names.REMOVAL_ANNOTATION}={how}", "--overwrite")
        taken(host.tries.delete("mc/full", AS_OPERATOR))
    host.shell("delete", "mc/full")
