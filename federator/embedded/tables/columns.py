"""The Tables of builtin resources, as the printers of Kubernetes 1.37 define them: `LAYOUTS` maps
(group, plural) to the columns and to the function that makes one row's cells.

A layout is a text, `|` between columns. After a name: `+` for wide only, `#` an integer, `?` a
boolean, `@` a date; then, after `=`, the field whose value the cell is, and after `:` what stands
for an absent one (else 0 of an integer, False of a boolean, empty of the rest). Cells of no field
come from the functions of `cluster_rows` and `workload_rows`, by the name of the column; names,
ages, containers and selectors are the same in all.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import cluster_rows, pod_rows, rowcells, workload_rows

Cells = Callable[[JsonObject, float], list[Any]]
"""(object, epoch seconds now) -> the cells of its row."""
Own = Callable[[JsonObject, float], Mapping[str, Any]]
"""(object, epoch seconds now) -> cells by the name of the column."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `priority` 0 is always shown, 1 with `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> JsonObject:
        """As Tables carry it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


_TYPES: Final = {"#": "integer", "?": "boolean", "@": "date"}
_ABSENT: Final[Mapping[str, Any]] = {"integer": 0, "boolean": False, "string": "", "date": None}
_COLUMN: Final = re.compile(
    r"(?P<name>[^=+#?@]+)(?P<marks>[+#?@]*)(=(?P<path>[^:]+)(:(?P<absent>.*))?)?"
)
_Cell = Callable[[JsonObject, float], Any]
_SHARED: Final[Mapping[str, _Cell]] = {
    "Name": lambda obj, now: rowcells.name_of(obj),
    "Age": rowcells.age_of,
    "Containers": lambda obj, now: rowcells.containers_of(obj, "name"),
    "Images": lambda obj, now: rowcells.containers_of(obj, "image"),
    "Selector": lambda obj, now: rowcells.selector_text(rowcells.job_of(obj).get("selector")),
}


def _none(obj: JsonObject, now: float) -> Mapping[str, Any]:
    return {}


def _read(text: str) -> tuple[Column, _Cell | None]:
    """One column of a layout, and how its cell is made, where that takes no function of its own."""
    match = _COLUMN.fullmatch(text)
    assert match is not None, text
    name, marks = match["name"], match["marks"]
    kind = next((_TYPES[mark] for mark in marks if mark in _TYPES), "string")
    column = Column(name, kind, "name" if name == "Name" else "", int("+" in marks))
    if match["path"] is None:
        return column, _SHARED.get(name)
    path, absent = match["path"].split("."), match["absent"] or _ABSENT[kind]
    return column, lambda obj, now: rowcells.at(obj, path, absent)


def _layout(text: str, own: Own = _none) -> tuple[tuple[Column, ...], Cells]:
    columns = [_read(part) for part in text.split("|")]

    def cells(obj: JsonObject, now: float) -> list[Any]:
        given = own(obj, now)
        return [
            cell(obj, now) if cell is not None and column.name not in given else given[column.name]
            for column, cell in columns
        ]

    return tuple(column for column, _ in columns), cells


_RBAC: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"
_BINDING: Final = _layout("Name|Role|Age|Users+|Groups+|ServiceAccounts+", cluster_rows.binding)
_EVENT: Final = _layout(
    "Last Seen|Type=type|Reason=reason|Object|Subobject+|Source+|Message|First Seen+|Count+|Name+",
    cluster_rows.event,
)
_WEBHOOKS: Final = _layout("Name|Webhooks#|Age", cluster_rows.webhooks)

LAYOUTS: Final[Mapping[tuple[str, str], tuple[tuple[Column, ...], Cells]]] = {
    ("", "pods"): _layout(
        "Name|Ready|Status|Restarts|Age|IP+|Node+=spec.nodeName:<none>"
        "|Nominated Node+=status.nominatedNodeName:<none>|Readiness Gates+",
        pod_rows.cells,
    ),
    ("", "namespaces"): _layout("Name|Status=status.phase|Age"),
    ("", "nodes"): _layout(
        "Name|Status|Roles|Age|Version=status.nodeInfo.kubeletVersion|Internal-IP+|External-IP+"
        "|OS-Image+=status.nodeInfo.osImage:<unknown>|Kernel-Version+"
        "|Container-Runtime+=status.nodeInfo.containerRuntimeVersion:<unknown>",
        cluster_rows.node,
    ),
    ("", "services"): _layout(
        "Name|Type=spec.type|Cluster-IP|External-IP|Port(s)|Age|Selector+", cluster_rows.service
    ),
    ("", "endpoints"): _layout("Name|Endpoints|Age", cluster_rows.endpoints),
    ("", "events"): _EVENT,
    ("events.k8s.io", "events"): _EVENT,
    ("", "configmaps"): _layout("Name|Data|Age", cluster_rows.data),
    ("", "secrets"): _layout("Name|Type=type|Data|Age", cluster_rows.data),
    ("", "serviceaccounts"): _layout("Name|Age"),
    ("", "persistentvolumeclaims"): _layout(
        "Name|Status|Volume=spec.volumeName|Capacity|Access Modes"
        "|StorageClass=spec.storageClassName"
        "|VolumeAttributesClass=spec.volumeAttributesClassName:<unset>|Age"
        "|VolumeMode+=spec.volumeMode:<unset>",
        workload_rows.claim,
    ),
    ("", "persistentvolumes"): _layout(
        "Name|Capacity=spec.capacity.storage:0|Access Modes"
        "|Reclaim Policy=spec.persistentVolumeReclaimPolicy|Status|Claim"
        "|StorageClass=spec.storageClassName"
        "|VolumeAttributesClass=spec.volumeAttributesClassName:<unset>|Reason=status.reason|Age"
        "|VolumeMode+=spec.volumeMode:<unset>",
        cluster_rows.volume,
    ),
    ("", "resourcequotas"): _layout("Name|Request|Limit|Age", workload_rows.quota),
    ("", "podtemplates"): _layout("Name|Containers|Images|Pod Labels", cluster_rows.pod_template),
    ("apps", "deployments"): _layout(
        "Name|Ready|Up-to-date|Available|Age|Containers+|Images+|Selector+",
        workload_rows.deployment,
    ),
    ("apps", "replicasets"): _layout(
        "Name|Desired#=spec.replicas|Current#=status.replicas|Ready#=status.readyReplicas|Age"
        "|Containers+|Images+|Selector+"
    ),
    ("apps", "statefulsets"): _layout(
        "Name|Ready|Age|Containers+|Images+", workload_rows.stateful_set
    ),
    ("apps", "daemonsets"): _layout(
        "Name|Desired#=status.desiredNumberScheduled|Current#=status.currentNumberScheduled"
        "|Ready#=status.numberReady|Up-to-date#=status.updatedNumberScheduled"
        "|Available#=status.numberAvailable|Node Selector|Age|Containers+|Images+|Selector+",
        workload_rows.daemon_set,
    ),
    ("apps", "controllerrevisions"): _layout(
        "Name|Controller|Revision|Age", cluster_rows.controller_revision
    ),
    ("batch", "jobs"): _layout(
        "Name|Status|Completions|Duration|Age|Containers+|Images+|Selector+", workload_rows.job
    ),
    ("batch", "cronjobs"): _layout(
        "Name|Schedule=spec.schedule|Timezone=spec.timeZone:<none>|Suspend?|Active#|Last Schedule"
        "|Age|Containers+|Images+|Selector+",
        workload_rows.cron_job,
    ),
    ("networking.k8s.io", "ingresses"): _layout(
        "Name|Class=spec.ingressClassName:<none>|Hosts|Address|Ports|Age", cluster_rows.ingress
    ),
    ("networking.k8s.io", "ingressclasses"): _layout(
        "Name|Controller=spec.controller|Parameters|Age", cluster_rows.ingress_class
    ),
    ("networking.k8s.io", "networkpolicies"): _layout(
        "Name|Pod-Selector|Age", cluster_rows.network_policy
    ),
    ("coordination.k8s.io", "leases"): _layout("Name|Holder=spec.holderIdentity|Age"),
    ("discovery.k8s.io", "endpointslices"): _layout(
        "Name|AddressType=addressType|Ports|Endpoints|Age", cluster_rows.endpoint_slice
    ),
    ("policy", "poddisruptionbudgets"): _layout(
        "Name|Min Available|Max Unavailable|Allowed Disruptions#=status.disruptionsAllowed|Age",
        workload_rows.disruption_budget,
    ),
    ("autoscaling", "horizontalpodautoscalers"): _layout(
        "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age", workload_rows.autoscaler
    ),
    ("scheduling.k8s.io", "priorityclasses"): _layout(
        "Name|Value#=value|Global-Default?=globalDefault|Age|PreemptionPolicy=preemptionPolicy"
    ),
    (_RBAC, "rolebindings"): _BINDING,
    (_RBAC, "clusterrolebindings"): _BINDING,
    (_ADMISSION, "validatingadmissionpolicies"): _layout(
        "Name|Validations#|ParamKind|Age", cluster_rows.admission_policy
    ),
    (_ADMISSION, "validatingadmissionpolicybindings"): _layout(
        "Name|PolicyName=spec.policyName|ParamRef|Age", cluster_rows.admission_binding
    ),
    (_ADMISSION, "mutatingwebhookconfigurations"): _WEBHOOKS,
    (_ADMISSION, "validatingwebhookconfigurations"): _WEBHOOKS,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _layout(
        "Name|Scope=spec.scope|Versions|Created At@=metadata.creationTimestamp|Group+=spec.group"
        "|Kind+=spec.names.kind|ShortNames+|Established?+",
        cluster_rows.definition,
    ),
    ("storage.k8s.io", "storageclasses"): _layout(
        "Name|Provisioner=provisioner|ReclaimPolicy=reclaimPolicy:Delete"
        "|VolumeBindingMode=volumeBindingMode:Immediate|AllowVolumeExpansion|Age",
        cluster_rows.storage_class,
    ),
}
