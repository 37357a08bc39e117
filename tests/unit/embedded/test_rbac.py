"""RBAC evaluated on plain objects: which rules match which requests."""

import asyncio
import random
from typing import Any

import pytest

from federator.embedded.auth import bootstrap
from federator.embedded.auth.rbac import GROUP, Attributes, Rbac
from federator.embedded.catalogue.registry import Registry
from federator.embedded.server import EmbeddedCluster
from federator.embedded.storage.messages import ADMIN, Caller
from federator.embedded.storage.store import Store
from federator.kube.clock import Clock
from tests.unit.embedded.inprocess import EPOCH_S, on_virtual_time

ANN = Caller("ann", ("devs", "system:authenticated"))
ROBOT = Caller(
    "system:serviceaccount:team:robot", ("system:serviceaccounts", "system:authenticated")
)


class Bench:
    """A store with what a new server has, and room for roles."""

    def __init__(self) -> None:
        self.store = Store(Clock(EPOCH_S), random.Random(1))
        self.registry = Registry(self.store)
        bootstrap.furnish(self.store, self.registry)
        self.rbac = Rbac(self.store, self.registry)

    def put(self, kind: str, name: str, namespace: str = "", **fields: Any) -> None:
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, **fields}
        self.store.create(self.registry.get(GROUP, kind.lower() + "s"), body)

    def bind(self, subject: dict[str, str], rule: dict[str, Any], namespace: str = "") -> None:
        scope = "" if namespace else "Cluster"
        reference = {"apiGroup": GROUP, "kind": f"{scope}Role", "name": "r"}
        self.put(f"{scope}Role", "r", namespace, rules=[rule])
        self.put(f"{scope}RoleBinding", "b", namespace, roleRef=reference, subjects=[subject])

    def allows(self, caller: Caller, **wanted: str) -> bool:
        return self.rbac.decide(caller, Attributes(**wanted)).allowed


@on_virtual_time
async def test_an_administrator_may_do_everything_and_others_nothing_but_ask() -> None:
    bench = Bench()
    assert bench.allows(ADMIN, verb="delete", resource="nodes")
    assert not bench.allows(ANN, verb="get", resource="configmaps", namespace="team")
    assert bench.allows(
        ANN, verb="create", group="authorization.k8s.io", resource="selfsubjectaccessreviews"
    )
    assert bench.allows(ANN, verb="get", path="/apis/apps/v1")
    assert not bench.allows(ANN, verb="get", path="/metrics")
    assert not bench.allows(
        Caller("system:anonymous", ("system:unauthenticated",)), verb="get", path="/apis"
    )
    assert bench.allows(
        Caller("system:anonymous", ("system:unauthenticated",)), verb="get", path="/version"
    )


@pytest.mark.parametrize(
    ("subject", "caller", "holds"),
    [
        ({"kind": "User", "name": "ann"}, ANN, True),
        ({"kind": "User", "name": "bob"}, ANN, False),
        ({"kind": "Group", "name": "devs"}, ANN, True),
        ({"kind": "Group", "name": "ann"}, ANN, False),
        ({"kind": "ServiceAccount", "name": "robot"}, ROBOT, True),
        ({"kind": "ServiceAccount", "name": "robot", "namespace": "other"}, ROBOT, False),
        ({"kind": "User", "name": "system:serviceaccount:team:robot"}, ROBOT, True),
    ],
)
@on_virtual_time
async def test_bindings_hold_for_their_subjects(
    subject: dict[str, str], caller: Caller, holds: bool
) -> None:
    bench = Bench()
    bench.bind(subject, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, "team")
    assert bench.allows(caller, verb="get", resource="pods", namespace="team") is holds
    assert not bench.allows(caller, verb="get", resource="pods", namespace="other")
    assert not bench.allows(caller, verb="get", resource="pods")


@pytest.mark.parametrize(
    ("rule", "wanted", "holds"),
    [
        ({"resources": ["pods"]}, {"resource": "pods", "subresource": "log"}, False),
        ({"resources": ["pods/log"]}, {"resource": "pods", "subresource": "log"}, True),
        ({"resources": ["*/log"]}, {"resource": "pods", "subresource": "log"}, True),
        ({"resources": ["*/scale"]}, {"resource": "pods", "subresource": "log"}, False),
        ({"resources": ["*"]}, {"resource": "pods", "subresource": "log"}, True),
        ({"resources": ["pods"], "apiGroups": ["apps"]}, {"resource": "pods"}, False),
        ({"resources": ["pods"], "apiGroups": ["*"]}, {"resource": "pods", "group": "x"}, True),
        ({"resources": ["pods"], "verbs": ["list"]}, {"resource": "pods"}, False),
        ({"resources": ["pods"], "verbs": ["*"]}, {"resource": "pods"}, True),
        ({"resources": ["pods"], "resourceNames": ["a"]}, {"resource": "pods", "name": "a"}, True),
        ({"resources": ["pods"], "resourceNames": ["a"]}, {"resource": "pods", "name": "b"}, False),
        ({"resources": ["pods"], "resourceNames": ["a"]}, {"resource": "pods"}, False),
        ({"nonResourceURLs": ["/logs/*"]}, {"path": "/logs/a/b"}, True),
        ({"nonResourceURLs": ["/logs"]}, {"path": "/logs/a"}, False),
        ({"nonResourceURLs": ["*"]}, {"path": "/anything"}, True),
        ({"resources": ["*"], "apiGroups": ["*"]}, {"path": "/anything"}, False),
    ],
)
@on_virtual_time
async def test_rules_match(rule: dict[str, Any], wanted: dict[str, str], holds: bool) -> None:
    bench = Bench()
    bench.bind({"kind": "User", "name": "ann"}, {"apiGroups": [""], "verbs": ["get"], **rule})
    assert bench.allows(ANN, verb="get", **wanted) is holds


# -- roles that are added up -----------------------------------------------------------------------


@on_virtual_time
async def test_a_role_is_added_to_view_edit_and_admin_by_its_labels() -> None:
    cluster = EmbeddedCluster("host", clock=Clock(EPOCH_S), rng=random.Random(1), workloads=False)
    resource = cluster.registry.get(GROUP, "clusterroles")

    def rules(name: str) -> list[dict[str, Any]]:
        found = cluster.store.get(resource, "", name)
        assert found is not None
        return list(found.obj["rules"])

    before = {name: rules(name) for name in ("view", "edit", "admin")}
    assert [len(before[name]) for name in ("view", "edit", "admin")] == [12, 27, 29]
    assert before["edit"] == before["admin"][:27]
    own = {"apiGroups": ["pinterest.com"], "resources": ["pinterestservices"], "verbs": ["create"]}
    labels = {f"{GROUP}/aggregate-to-edit": "true"}
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "a", "labels": labels},
    }
    cluster.store.create(resource, {**body, "rules": [own, own]})
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rules("edit") == [own, *before["edit"]]
    assert own in rules("admin")
    assert rules("view") == before["view"]
    found = cluster.store.get(resource, "", "edit")
    assert found is not None
    cluster.store.update(resource, {**found.obj, "rules": []})
    await asyncio.sleep(1)
    assert rules("edit") == [own, *before["edit"]]
    cluster.store.delete(resource, "", "a")
    await asyncio.sleep(1)
    assert {name: rules(name) for name in before} == before


@on_virtual_time
async def test_roles_in_a_ring_keep_nobody_busy() -> None:
    cluster = EmbeddedCluster("host", clock=Clock(EPOCH_S), rng=random.Random(1), workloads=False)
    resource = cluster.registry.get(GROUP, "clusterroles")
    for index in range(3):
        labels, chosen = {"part-of": str(index)}, {"matchLabels": {"part-of": str((index + 1) % 3)}}
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": [f"v{index}"]}
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"r{index}", "labels": labels},
        }
        cluster.store.create(
            resource,
            {**body, "rules": [rule], "aggregationRule": {"clusterRoleSelectors": [chosen]}},
        )
    await asyncio.sleep(1)
    version = cluster.store.get(resource, "", "r0")
    await asyncio.sleep(10)
    assert cluster.store.get(resource, "", "r0") == version
