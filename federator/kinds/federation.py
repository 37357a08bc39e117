"""The rows of the federation's own kinds: clusters, policies, decisions, quotas and profiles.

Their models are in `api`.
"""

from typing import Final

from federator.api import (
    clustercapacity,
    clusterstandard,
    federatedquota,
    membercluster,
    runtimeprofile,
    submissionpolicy,
)
from federator.api.common import Model
from federator.api.placement import placementdecision, placementinvariant, placementpolicy
from federator.kinds.kind import AGE, STATUS, WORKLOAD_GROUP, Column, Kind
from federator.model import names


def _federation(
    plural: str,
    short: str,
    model: type[Model],
    columns: tuple[Column, ...],
    *,
    namespaced: bool = False,
    has_status: bool = True,
    in_members: bool = False,
) -> Kind:
    kind = model.__name__
    return Kind(
        kind,
        names.FEDERATION,
        "v1alpha1",
        plural,
        kind.lower(),
        (short,),
        namespaced,
        model,
        columns,
        has_status=has_status,
        in_members=in_members,
    )


_POLICY_COLUMNS = (
    Column("Priority", ".spec.priority", "integer"),
    Column("Strategy", ".spec.division.strategy"),
    Column("Matched", ".status.matched", "integer"),
    Column("Partial", ".spec.partial", wide=True),
    AGE,
)

KINDS: Final = (
    Kind(
        runtimeprofile.KIND,
        WORKLOAD_GROUP,
        "v1beta1",
        "runtimeprofiles",
        "runtimeprofile",
        ("rp",),
        False,
        runtimeprofile.RuntimeProfile,
        (
            Column("Version", ".spec.version"),
            Column("HeldBack", ".status.heldBack", "integer"),
            AGE,
            Column("Message", '.status.conditions[?(@.type=="Admitted")].message', wide=True),
        ),
        in_members=True,
    ),
    _federation(
        "memberclusters",
        "mc",
        membercluster.MemberCluster,
        (
            STATUS,
            Column("Version", ".status.version"),
            Column("Nodes", ".status.capacity.nodeCount", "integer"),
            Column("Capacity", ".status.capacity.summary"),
            Column("Slices", ".status.slices", "integer"),
            Column("Cordoned", ".spec.cordoned", "boolean"),
            AGE,
            Column("Usable", ".spec.usable", wide=True),
            Column("UID", ".status.clusterUID", wide=True),
        ),
    ),
    _federation(
        "placementpolicies",
        "pp",
        placementpolicy.PlacementPolicy,
        _POLICY_COLUMNS,
        namespaced=True,
    ),
    _federation(
        "clusterplacementpolicies",
        "cpp",
        placementpolicy.ClusterPlacementPolicy,
        _POLICY_COLUMNS,
    ),
    _federation(
        "placementdecisions",
        "pd",
        placementdecision.PlacementDecision,
        (
            Column("Kind", ".spec.workload.kind"),
            Column("Workload", ".spec.workload.name"),
            Column("Wanted", ".spec.wanted", "integer"),
            Column("Placed", ".spec.placed", "integer"),
            Column("Clusters", ".spec.clusters", "integer"),
            Column("Reason", ".spec.reason"),
            AGE,
            Column("Policy", ".spec.policy.name", wide=True),
            Column("Deletion", ".spec.deletion.reason", wide=True),
            Column("Message", ".spec.message", wide=True),
        ),
        namespaced=True,
        has_status=False,
    ),
    _federation(
        "federatedquotas",
        "fq",
        federatedquota.FederatedQuota,
        (
            Column("Parent", ".spec.parent"),
            Column("Workloads", ".status.workloads", "integer"),
            Column("Valid", '.status.conditions[?(@.type=="Valid")].status'),
            STATUS,
            AGE,
            Column("Reason", '.status.conditions[?(@.type=="Valid")].reason', wide=True),
            Column("Message", '.status.conditions[?(@.type=="Valid")].message', wide=True),
        ),
    ),
    _federation(
        "placementinvariants",
        "pi",
        placementinvariant.PlacementInvariant,
        (
            Column("Enforcement", ".spec.enforcement"),
            Column("Workloads", ".status.workloads", "integer"),
            Column("Breached", ".status.breached", "integer"),
            Column("Holds", '.status.conditions[?(@.type=="Holds")].status'),
            AGE,
            Column("Message", ".status.message", wide=True),
        ),
    ),
    _federation(
        "clusterstandards",
        "cstd",
        clusterstandard.ClusterStandard,
        (AGE,),
        has_status=False,
    ),
    _federation(
        "submissionpolicies",
        "sp",
        submissionpolicy.SubmissionPolicy,
        (
            Column("Provenance", ".spec.provenance.mode"),
            Column("Branch", ".spec.provenance.branch"),
            Column("Reviewers", ".spec.provenance.reviewers", "integer"),
            AGE,
        ),
        has_status=False,
    ),
    _federation(
        "clustercapacities",
        "ccap",
        clustercapacity.ClusterCapacity,
        (
            Column("Nodes", ".status.nodeCount", "integer"),
            Column("Capacity", ".status.summary"),
            Column("Exact", ".status.exact", "boolean"),
            AGE,
        ),
        in_members=True,
    ),
)
