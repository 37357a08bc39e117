"""The table of every kind the federation knows: names, scope, columns, model and verbs. A new kind is one row here.

Read by the CRD generator, the command line, hub and member. `WORKLOADS` are the rows with verbs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.api import clustercapacity, federatedquota, membercluster, raw, runtimeprofile
from federator.api.common import Model
from federator.api.placement import placementdecision, placementpolicy
from federator.kinds.deployment import deployment
from federator.kinds.jobset import pinterestjobset
from federator.kinds.service import pinterestservice
from federator.kinds.verbs import WorkloadVerbs
from federator.model import names
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef

CATEGORY: Final = "federator"
WORKLOAD_GROUP: Final = "pinterest.com"


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column over a scalar; `wide` ones are shown with -o wide only."""

    name: str
    json_path: str
    type: str = "string"
    wide: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `model` is None for kinds whose schema is not ours."""

    kind: str
    group: str
    version: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool
    model: type[Model] | None = None
    columns: tuple[Column, ...] = ()
    has_status: bool = True
    scale: bool = False
    verbs: WorkloadVerbs | None = None
    categories: tuple[str, ...] = (CATEGORY,)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`Deployment.apps`, as discovery facts name it."""
        return f"{self.kind}.{self.group}"

    def ref(self, namespace: str, name: str) -> ObjectRef:
        return ObjectRef(self.api_version, self.plural, namespace if self.namespaced else "", name, self.kind)

    def ref_of(self, obj: Mapping[str, Any]) -> ObjectRef:
        return self.ref(raw.text(obj, "metadata", "namespace"), raw.text(obj, "metadata", "name"))


def _workload(
    plural: str, short: str, model: type[Model], verbs: WorkloadVerbs, columns: tuple[Column, ...], *, scale: bool
) -> Kind:
    kind = model.__name__
    names_of = (plural, kind.lower(), (short,))
    return Kind(kind, WORKLOAD_GROUP, "v1beta1", *names_of, True, model, columns, scale=scale, verbs=verbs)


def _federation(
    plural: str,
    short: str,
    model: type[Model],
    columns: tuple[Column, ...],
    *,
    namespaced: bool = False,
    has_status: bool = True,
) -> Kind:
    kind = model.__name__
    names_of = (plural, kind.lower(), (short,))
    return Kind(kind, names.FEDERATION, "v1alpha1", *names_of, namespaced, model, columns, has_status=has_status)


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_STATUS = Column("Status", ".status.summary", description="One line on how it stands.")
_WIDE = (
    Column("Policy", ".status.policy", wide=True, description="The placement policy in force."),
    Column("Message", ".status.message", wide=True, description="Why it is not ready."),
)
_POLICY_COLUMNS = (
    Column("Priority", ".spec.priority", "integer"),
    Column("Strategy", ".spec.division.strategy"),
    Column("Partial", ".spec.partial", wide=True),
    _AGE,
)

_ROWS: Final = (
    _workload(
        "pinterestservices",
        "psvc",
        pinterestservice.PinterestService,
        pinterestservice.VERBS,
        (
            Column("Desired", ".spec.replicas", "integer", description="Copies asked for."),
            Column("Ready", ".status.ready", "integer", description="Copies that are certainly ready."),
            Column("Clusters", ".status.clusters", "integer", description="Clusters with a share."),
            Column("Placed", ".status.placed", "integer", description="Copies that clusters are given."),
            _STATUS,
            _AGE,
            *_WIDE,
        ),
        scale=True,
    ),
    _workload(
        "pinterestjobsets",
        "pjs",
        pinterestjobset.PinterestJobSet,
        pinterestjobset.VERBS,
        (
            Column("Shards", ".spec.shards", "integer", description="Shards in all."),
            Column("Running", ".status.running", "integer", description="Shards that run."),
            Column("Done", ".status.done", "integer", description="Shards that are completed."),
            Column("Failed", ".status.failed", "integer", description="Shards that have failed for good."),
            Column("Clusters", ".status.clusters", "integer", description="Clusters with a share."),
            _STATUS,
            _AGE,
            *_WIDE,
        ),
        scale=False,
    ),
    Kind(
        "Deployment",
        "apps",
        "v1",
        "deployments",
        "deployment",
        ("deploy",),
        True,
        verbs=deployment.VERBS,
        categories=(),
    ),
    Kind(
        runtimeprofile.KIND,
        WORKLOAD_GROUP,
        "v1beta1",
        "runtimeprofiles",
        "runtimeprofile",
        ("rp",),
        False,
        runtimeprofile.RuntimeProfile,
        (Column("Version", ".spec.version"), _AGE),
        has_status=False,
    ),
    _federation(
        "memberclusters",
        "mc",
        membercluster.MemberCluster,
        (
            _STATUS,
            Column("Version", ".status.version"),
            Column("Nodes", ".status.capacity.nodeCount", "integer"),
            Column("Capacity", ".status.capacity.summary"),
            Column("Slices", ".status.slices", "integer"),
            Column("Cordoned", ".spec.cordoned", "boolean"),
            _AGE,
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
        has_status=False,
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
            _AGE,
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
            _STATUS,
            _AGE,
            Column("Reason", '.status.conditions[?(@.type=="Valid")].reason', wide=True),
            Column("Message", '.status.conditions[?(@.type=="Valid")].message', wide=True),
        ),
    ),
    _federation(
        "clustercapacities",
        "ccap",
        clustercapacity.ClusterCapacity,
        (
            Column("Nodes", ".status.nodeCount", "integer"),
            Column("Capacity", ".status.summary"),
            Column("Exact", ".status.exact", "boolean"),
            _AGE,
        ),
    ),
)

KINDS: Final[Mapping[str, Kind]] = {row.kind: row for row in _ROWS}
WORKLOADS: Final[Mapping[str, Kind]] = {row.kind: row for row in _ROWS if row.verbs is not None}


def kind_of(obj: Mapping[str, Any]) -> Kind | None:
    """The row of this object, by its apiVersion and kind; None for a kind we do not know."""
    row = KINDS.get(raw.text(obj, "kind"))
    return row if row is not None and row.api_version == raw.text(obj, "apiVersion") else None


def verbs_of(kind: str) -> WorkloadVerbs:
    """The verbs of a workload kind. KeyError for any other."""
    verbs = KINDS[kind].verbs
    if verbs is None:
        raise KeyError(f"{kind} is not a workload kind")
    return verbs


def key_of(obj: Mapping[str, Any]) -> WorkloadKey:
    return names.key(raw.text(obj, "kind"), raw.text(obj, "metadata", "namespace"), raw.text(obj, "metadata", "name"))
