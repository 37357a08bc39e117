"""Members in which nothing runs: what their member processes would have said once, and their
controllers as plain writes to the store.

For benchmarks of the hub alone: a lease, and a report of room for everything.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from federator.api import clustercapacity
from federator.embedded.server import EmbeddedCluster
from federator.hub.members.process_watch import LEASE as EXPANDER_LEASE
from federator.model.fleet import Capacity, NodeRow
from federator.model.resources import Resources
from federator.sandbox.federation import Federation, ensure

ROOM = Resources({"cpu": 100_000_000, "memory": 2**50, "pods": 1_000_000})
CAPACITY = Capacity(rows=(NodeRow(count=1, allocatable=ROOM, free=ROOM),))
PATIENT: Mapping[str, Any] = {"unready_after_s": 3600.0, "probe_interval_s": 60.0}
"""Options of a hub that does not mind leases that nobody renews."""


async def say(federation: Federation) -> None:
    """Makes lease and report in every member."""
    system = federation.hub_options.system_namespace
    for name, cluster in federation.members.items():
        client = federation.client(name)
        await ensure(
            client,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": system}},
            "namespaces",
        )
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": EXPANDER_LEASE, "namespace": system},
            "spec": {"renewTime": federation.clock.rfc3339_micro()},
        }
        await ensure(client, lease, "leases")
        report = {
            "apiVersion": "federation.pinterest.com/v1alpha1",
            "kind": "ClusterCapacity",
            "metadata": {"name": clustercapacity.NAME},
            "spec": {"shapes": []},
        }
        await ensure(client, report, "clustercapacities")
        report_room(cluster)


def report_room(cluster: EmbeddedCluster, *, includes_seq: int = 0) -> None:
    """The member's report of room, which includes the decisions up to this one."""
    capacity = replace(CAPACITY, includes_seq=includes_seq)
    status = clustercapacity.from_capacity(capacity, observed_generation=1)
    kind = ("federation.pinterest.com", "clustercapacities")
    write_status(cluster, kind, ("", clustercapacity.NAME), status)


def write_status(
    cluster: EmbeddedCluster, kind: tuple[str, str], key: tuple[str, str], status: Mapping[str, Any]
) -> None:
    """Sets a status through the store, as a controller of the member would through its API."""
    resource = cluster.registry.get(*kind)
    found = cluster.store.get(resource, *key)
    assert found is not None, key
    cluster.store.update(resource, {**found.obj, "status": dict(status)}, same_generation=True)


def ready_members(federation: Federation) -> int:
    """Members that the host's objects say are ready."""
    resource = federation.host.registry.get("federation.pinterest.com", "memberclusters")
    return sum(
        (found.obj.get("status") or {}).get("summary") == "Ready"
        for found in federation.host.store.items(resource)
    )


async def all_ready(federation: Federation) -> bool:
    """Whether the host's objects say of every member that it is ready."""
    return ready_members(federation) == len(federation.members)
