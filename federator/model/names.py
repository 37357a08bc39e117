"""Names and keys of objects.

A `WorkloadKey` is the key of queues, stores and ledgers. Names derived from it are deterministic,
injective and valid for Kubernetes.
"""

import hashlib
from typing import NamedTuple, NewType, TypeAlias

from federator.model import interning

ClusterName = NewType("ClusterName", str)
ObjectName: TypeAlias = tuple[str, str]
"""(namespace, name) of one object of a known kind; the namespace is "" for cluster-scoped kinds."""

FEDERATION = "federation.pinterest.com"
FLEET_LABEL = f"{FEDERATION}/fleet"
"""On every object that a hub of this federation wrote in a member; its value is the owner id."""
WORKLOAD_UID_LABEL = f"{FEDERATION}/workload-uid"
SLICE_ANNOTATION = f"{FEDERATION}/slice"
"""The slice block of kinds without `spec.slice` (plain Deployments), as JSON."""
FORCE_FORGET_ANNOTATION = f"{FEDERATION}/force-forget"
"""On a PlacementDecision that is being deleted: clusters, separated by commas, that it shall not
wait for."""
CONVERTED_FROM = f"{FEDERATION}/converted-from"
"""Annotation: the name of what it was converted from, where that is no name of an object."""
REBALANCE_ANNOTATION = f"{FEDERATION}/rebalance"
"""On a PlacementDecision: the time of the request for a rebalance, and the user that asked."""
OWNED_LABEL = f"{FEDERATION}/owned"
"""On a PlacementDecision that was given an owner reference to its workload. If the reference is
gone, the workload was deleted with the policy Orphan."""
SHORTAGE_ANNOTATION = f"{FEDERATION}/own-shortage"
"""On the hubs' Lease: what the leading hub is short of, as JSON (`holder`, `since`, `why`), or
nothing."""
SIGHT_ANNOTATION = f"{FEDERATION}/sees"
"""On the Lease of a standby hub: which members it does not hear, as JSON."""
HUB_ACCOUNT = "federator-hub"
"""The hub's service account and its roles, on the host and in every member."""
MEMBER_LEASE = "federator-member"
"""Lease with the heartbeat of the member process."""
DECISION_FINALIZER = f"{FEDERATION}/members-emptied"
CLUSTER_FINALIZER = f"{FEDERATION}/cluster-emptied"
"""On every MemberCluster: removed when the cluster was emptied of this federation's objects, or
released."""
REMOVAL_ANNOTATION = f"{FEDERATION}/removal"
"""On a MemberCluster that is being deleted: `Orphan` or `Lost` when it is not to be emptied first.
"""
TRUST_ANNOTATION = f"{FEDERATION}/trust-again"
"""On a MemberCluster: the lastTransitionTime of the condition Untrustworthy that an operator ends
with it."""
PROBE_ANNOTATION = f"{FEDERATION}/probe-requested"
"""On a MemberCluster: a text that is another one with every request for a probe."""
PROBE_LABEL = f"{FEDERATION}/probe"
"""On the workloads of a probe: the cluster that they probe."""
PROBES = "federator-probes"
"""Namespace of the host in which the hub makes probes, and their project."""
CATCHING_UP = f"{FEDERATION}/catching-up"
"""Annotation of a member process's lease until it has read everything once since it started."""
VERSION_ANNOTATION = f"{FEDERATION}/version"
"""Annotation of a member process's lease: the version of federator that renews it."""


class WorkloadKey(NamedTuple):
    """Names one workload on the host: `kind` in CamelCase, then namespace and name.

    A tuple, because nearly every table of the hub is asked by it: a dataclass would be hashed and
    compared by Python code, five times as slow.
    """

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


def namespace_of(key: WorkloadKey) -> str:
    """Fairness group of a key: its namespace."""
    return key.namespace


def key(kind: str, namespace: str, name: str) -> WorkloadKey:
    """An interned key for rows that are kept: all rows of one object share it, and its texts are
    those of `object_name`."""
    space, own = interning.key((interning.text(namespace), name))
    return interning.key(WorkloadKey(interning.text(kind), space, own))


def object_name(namespace: str, name: str) -> ObjectName:
    """An interned key for rows of one kind."""
    return interning.key((interning.text(namespace), name))


def is_system_namespace(namespace: str) -> bool:
    """Whether a namespace belongs to the cluster or to the federation: no workload is placed
    there."""
    return namespace.startswith("kube-") or namespace in ("federator-system", "federator-clusters")


def is_probe(key: WorkloadKey) -> bool:
    """Whether the workload is a probe of the hub's: nobody else may write in its namespace."""
    return key.namespace == PROBES


def short_hash(*parts: str, length: int = 8) -> str:
    """A stable lower-case hexadecimal hash of the parts; the same in every process."""
    return _hashed(*parts).hexdigest()[:length]


def _hashed(*parts: str) -> "hashlib.blake2b":
    data = "\x00".join((*parts, "")).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16)


def stable_order(*parts: str) -> int:
    """A stable 64-bit number that breaks ties without favouring the alphabet."""
    return int.from_bytes(_hashed(*parts).digest()[:8])  # as short_hash of 16 digits


def decision_name(short_kind: str, name: str, uid: str) -> str:
    """Name of a workload's PlacementDecision: short kind, name and a hash of its uid, so that a
    workload created again gets a new one."""
    return f"{short_kind}-{name}-{short_hash(uid)}"
