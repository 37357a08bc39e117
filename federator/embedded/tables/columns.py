"""The Table columns of builtin resources, as the printers of Kubernetes 1.37 define them.

`LAYOUTS` maps (group, plural) to its columns and to the function that makes one row's cells; pods
have their own module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import cluster_rows, pod_rows, workload_rows

Cells = Callable[[JsonObject, float], list[Any]]
"""(object, epoch seconds now) -> the cells of its row."""


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


_TYPES = {"#": "integer", "?": "boolean", "@": "date"}


def _columns(text: str) -> tuple[Column, ...]:
    """`Name Ready Age#` ...: `|` separates, a trailing `+` means wide only, `#` an integer, `?` a
    boolean, `@` a date."""
    columns = []
    for part in text.split("|"):
        name = part.rstrip("+#?@")
        marks = part[len(name) :]
        type_ = next((_TYPES[mark] for mark in marks if mark in _TYPES), "string")
        columns.append(
            Column(name, type_, "name" if name == "Name" else "", 1 if "+" in marks else 0)
        )
    return tuple(columns)


_RBAC = "rbac.authorization.k8s.io"


_BINDING_COLUMNS = "Name|Role|Age|Users+|Groups+|ServiceAccounts+"


_EVENT_COLUMNS = "Last Seen|Type|Reason|Object|Subobject+|Source+|Message|First Seen+|Count+|Name+"


_TEXT_LAYOUTS: Mapping[tuple[str, str], tuple[str, Cells]] = {
    ("", "pods"): (
        "Name|Ready|Status|Restarts|Age|IP+|Node+|Nominated Node+|Readiness Gates+",
        pod_rows.cells,
    ),
    ("", "namespaces"): ("Name|Status|Age", cluster_rows.namespace),
    ("", "nodes"): (
        "Name|Status|Roles|Age|Version|Internal-IP+|External-IP+|OS-Image+|Kernel-Version+"
        "|Container-Runtime+",
        cluster_rows.node,
    ),
    ("", "services"): (
        "Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector+",
        cluster_rows.service,
    ),
    ("", "endpoints"): ("Name|Endpoints|Age", cluster_rows.endpoints),
    ("", "events"): (_EVENT_COLUMNS, cluster_rows.event),
    ("", "configmaps"): ("Name|Data|Age", cluster_rows.config_map),
    ("", "secrets"): ("Name|Type|Data|Age", cluster_rows.secret),
    ("", "serviceaccounts"): ("Name|Age", cluster_rows.name_and_age),
    ("", "persistentvolumeclaims"): (
        "Name|Status|Volume|Capacity|Access"
        " Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode+",
        workload_rows.claim,
    ),
    ("", "resourcequotas"): ("Name|Request|Limit|Age", workload_rows.quota),
    ("apps", "deployments"): (
        "Name|Ready|Up-to-date|Available|Age|Containers+|Images+|Selector+",
        workload_rows.deployment,
    ),
    ("apps", "replicasets"): (
        "Name|Desired#|Current#|Ready#|Age|Containers+|Images+|Selector+",
        workload_rows.replica_set,
    ),
    ("apps", "statefulsets"): ("Name|Ready|Age|Containers+|Images+", workload_rows.stateful_set),
    ("apps", "daemonsets"): (
        "Name|Desired#|Current#|Ready#|Up-to-date#|Available#|Node"
        " Selector|Age|Containers+|Images+|Selector+",
        workload_rows.daemon_set,
    ),
    ("batch", "jobs"): (
        "Name|Status|Completions|Duration|Age|Containers+|Images+|Selector+",
        workload_rows.job,
    ),
    ("batch", "cronjobs"): (
        "Name|Schedule|Timezone|Suspend?|Active#|Last Schedule|Age|Containers+|Images+|Selector+",
        workload_rows.cron_job,
    ),
    ("networking.k8s.io", "ingresses"): (
        "Name|Class|Hosts|Address|Ports|Age",
        cluster_rows.ingress,
    ),
    ("networking.k8s.io", "ingressclasses"): (
        "Name|Controller|Parameters|Age",
        cluster_rows.ingress_class,
    ),
    ("coordination.k8s.io", "leases"): ("Name|Holder|Age", cluster_rows.lease),
    ("discovery.k8s.io", "endpointslices"): (
        "Name|AddressType|Ports|Endpoints|Age",
        cluster_rows.endpoint_slice,
    ),
    ("policy", "poddisruptionbudgets"): (
        "Name|Min Available|Max Unavailable|Allowed Disruptions#|Age",
        workload_rows.disruption_budget,
    ),
    ("autoscaling", "horizontalpodautoscalers"): (
        "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age",
        workload_rows.autoscaler,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        "Name|Value#|Global-Default?|Age|PreemptionPolicy",
        cluster_rows.priority_class,
    ),
    (_RBAC, "rolebindings"): (_BINDING_COLUMNS, cluster_rows.binding),
    (_RBAC, "clusterrolebindings"): (_BINDING_COLUMNS, cluster_rows.binding),
    ("events.k8s.io", "events"): (_EVENT_COLUMNS, cluster_rows.event),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): (
        "Name|Validations#|ParamKind|Age",
        cluster_rows.admission_policy,
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): (
        "Name|PolicyName|ParamRef|Age",
        cluster_rows.admission_binding,
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): (
        "Name|Webhooks#|Age",
        cluster_rows.webhooks,
    ),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): (
        "Name|Webhooks#|Age",
        cluster_rows.webhooks,
    ),
    ("networking.k8s.io", "networkpolicies"): (
        "Name|Pod-Selector|Age",
        cluster_rows.network_policy,
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"): (
        "Name|Scope|Versions|Created At@|Group+|Kind+|ShortNames+|Established?+",
        cluster_rows.definition,
    ),
    ("storage.k8s.io", "storageclasses"): (
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        cluster_rows.storage_class,
    ),
    ("", "persistentvolumes"): (
        "Name|Capacity|Access Modes|Reclaim"
        " Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age"
        "|VolumeMode+",
        cluster_rows.volume,
    ),
    ("apps", "controllerrevisions"): (
        "Name|Controller|Revision|Age",
        cluster_rows.controller_revision,
    ),
    ("", "podtemplates"): ("Name|Containers|Images|Pod Labels", cluster_rows.pod_template),
}


LAYOUTS: Mapping[tuple[str, str], tuple[tuple[Column, ...], Cells]] = {
    key: (_columns(text), cells) for key, (text, cells) in _TEXT_LAYOUTS.items()
}
