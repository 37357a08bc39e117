"""Names and keys: who is meant, without carrying the object.

A `WorkloadKey` is what queues, stores and ledgers are keyed by. Names derived from it are deterministic, injective
and valid for Kubernetes; nothing here draws randomness.
"""

import hashlib
from dataclasses import dataclass
from typing import NewType

from federator.model import interning

ClusterName = NewType("ClusterName", str)
Generation = NewType("Generation", int)

FEDERATION = "federation.pinterest.com"
FLEET_LABEL = f"{FEDERATION}/fleet"
"""Marks every object that a hub of this fleet wrote in a member; its value is the fleet's id."""
WORKLOAD_UID_LABEL = f"{FEDERATION}/workload-uid"
SLICE_ANNOTATION = f"{FEDERATION}/slice"
"""Carries the slice block of kinds that have no `spec.slice` (plain Deployments), as JSON."""
FORCE_FORGET_ANNOTATION = f"{FEDERATION}/force-forget"
"""On a PlacementDecision that is being deleted: clusters, by name and comma, that it shall not wait for."""
REBALANCE_ANNOTATION = f"{FEDERATION}/rebalance"
"""On a PlacementDecision: when, and by whom, it was asked that running copies go where their policy wants them now."""
SHORTAGE_ANNOTATION = f"{FEDERATION}/own-shortage"
"""On the Lease of hubs: what the one that leads lacks of its own, as JSON (`holder`, `since`, `why`), or nothing."""
DECISION_FINALIZER = f"{FEDERATION}/members-emptied"
CLUSTER_FINALIZER = f"{FEDERATION}/cluster-emptied"
"""On every MemberCluster: it goes when the cluster was emptied of what this federation made there, or was let go."""
REMOVAL_ANNOTATION = f"{FEDERATION}/removal"
"""On a MemberCluster that is being deleted: `Orphan` or `Lost` where it is not to be emptied first."""
TRUST_ANNOTATION = f"{FEDERATION}/trust-again"
"""On a MemberCluster: the lastTransitionTime of the condition Untrustworthy that an operator ends with it."""
CATCHING_UP = f"{FEDERATION}/catching-up"
"""Annotation of a member process's lease while it has not looked at everything yet since it started."""


@dataclass(frozen=True, slots=True, order=True)
class WorkloadKey:
    """Names one workload on the host: `kind` in CamelCase, then namespace and name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


def namespace_of(key: WorkloadKey) -> str:
    """By what the work of one user is told from that of others."""
    return key.namespace


def key(kind: str, namespace: str, name: str) -> WorkloadKey:
    """A key for rows that are kept: one for all rows of the same object that are read at about the same time; else it
    has its texts in common with the others."""
    return interning.listed(WorkloadKey(interning.text(kind), interning.text(namespace), interning.text(name)))


def is_system_namespace(namespace: str) -> bool:
    """Whether a namespace is a cluster's own, or the federation's: no workload is carried there."""
    return namespace.startswith("kube-") or namespace in ("federator-system", "federator-clusters")


def short_hash(*parts: str, length: int = 8) -> str:
    """A stable lower-case hexadecimal hash of the parts; the same in every process."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\x00")
    return digest.hexdigest()[:length]


def stable_order(*parts: str) -> int:
    """A stable 64-bit number for breaking ties without favouring the alphabet."""
    return int(short_hash(*parts, length=16), 16)


def decision_name(short_kind: str, name: str, uid: str) -> str:
    """The name of a workload's PlacementDecision: short kind, name and a hash of its uid, so a re-creation gets its
    own."""
    return f"{short_kind}-{name}-{short_hash(uid)}"
