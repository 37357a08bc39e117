"""The Table columns of builtin resources, as the printers of Kubernetes 1.36 define them.

`LAYOUTS` maps (group, plural) to its columns and to the function that makes one row's cells; pods have their own
module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from federator.embedded import otherrows, podrows, workloadrows
from federator.embedded.revisions import JsonObject

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


def _columns(text: str) -> tuple[Column, ...]:
    """`Name Ready Age#` ...: `|` separates, a trailing `+` means wide only, `#` an integer, `?` a boolean."""
    columns = []
    for part in text.split("|"):
        name = part.rstrip("+#?")
        marks = part[len(name) :]
        type_ = "integer" if "#" in marks else "boolean" if "?" in marks else "string"
        columns.append(Column(name, type_, "name" if name == "Name" else "", 1 if "+" in marks else 0))
    return tuple(columns)


_RBAC = "rbac.authorization.k8s.io"


_BINDING_COLUMNS = "Name|Role|Age|Users+|Groups+|ServiceAccounts+"


_EVENT_COLUMNS = "Last Seen|Type|Reason|Object|Subobject+|Source+|Message|First Seen+|Count+|Name+"


_TEXT_LAYOUTS: Mapping[tuple[str, str], tuple[str, Cells]] = {
    ("", "pods"): ("Name|Ready|Status|Restarts|Age|IP+|Node+|Nominated Node+|Readiness Gates+", podrows.cells),
    ("", "namespaces"): ("Name|Status|Age", otherrows.namespace),
    ("", "nodes"): (
        "Name|Status|Roles|Age|Version|Internal-IP+|External-IP+|OS-Image+|Kernel-Version+|Container-Runtime+",
        otherrows.node,
    ),
    ("", "services"): ("Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector+", otherrows.service),
    ("", "endpoints"): ("Name|Endpoints|Age", otherrows.endpoints),
    ("", "events"): (_EVENT_COLUMNS, otherrows.event),
    ("", "configmaps"): ("Name|Data|Age", otherrows.config_map),
    ("", "secrets"): ("Name|Type|Data|Age", otherrows.secret),
    ("", "serviceaccounts"): ("Name|Age", otherrows.name_and_age),
    ("", "persistentvolumeclaims"): (
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode+",
        workloadrows.claim,
    ),
    ("", "resourcequotas"): ("Name|Request|Limit|Age", workloadrows.quota),
    ("apps", "deployments"): (
        "Name|Ready|Up-to-date|Available|Age|Containers+|Images+|Selector+",
        workloadrows.deployment,
    ),
    ("apps", "replicasets"): (
        "Name|Desired#|Current#|Ready#|Age|Containers+|Images+|Selector+",
        workloadrows.replica_set,
    ),
    ("apps", "statefulsets"): ("Name|Ready|Age|Containers+|Images+", workloadrows.stateful_set),
    ("apps", "daemonsets"): (
        "Name|Desired#|Current#|Ready#|Up-to-date#|Available#|Node Selector|Age|Containers+|Images+|Selector+",
        workloadrows.daemon_set,
    ),
    ("batch", "jobs"): ("Name|Status|Completions|Duration|Age|Containers+|Images+|Selector+", workloadrows.job),
    ("batch", "cronjobs"): (
        "Name|Schedule|Timezone|Suspend?|Active#|Last Schedule|Age|Containers+|Images+|Selector+",
        workloadrows.cron_job,
    ),
    ("networking.k8s.io", "ingresses"): ("Name|Class|Hosts|Address|Ports|Age", otherrows.ingress),
    ("networking.k8s.io", "ingressclasses"): ("Name|Controller|Parameters|Age", otherrows.ingress_class),
    ("coordination.k8s.io", "leases"): ("Name|Holder|Age", otherrows.lease),
    ("discovery.k8s.io", "endpointslices"): ("Name|AddressType|Ports|Endpoints|Age", otherrows.endpoint_slice),
    ("policy", "poddisruptionbudgets"): (
        "Name|Min Available|Max Unavailable|Allowed Disruptions#|Age",
        workloadrows.disruption_budget,
    ),
    ("autoscaling", "horizontalpodautoscalers"): (
        "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age",
        workloadrows.autoscaler,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        "Name|Value#|Global-Default?|Age|PreemptionPolicy",
        otherrows.priority_class,
    ),
    (_RBAC, "rolebindings"): (_BINDING_COLUMNS, otherrows.binding),
    (_RBAC, "clusterrolebindings"): (_BINDING_COLUMNS, otherrows.binding),
    ("events.k8s.io", "events"): (_EVENT_COLUMNS, otherrows.event),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): (
        "Name|Validations#|ParamKind|Age",
        otherrows.admission_policy,
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): (
        "Name|PolicyName|ParamRef|Age",
        otherrows.admission_binding,
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): ("Name|Webhooks#|Age", otherrows.webhooks),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): ("Name|Webhooks#|Age", otherrows.webhooks),
    ("networking.k8s.io", "networkpolicies"): ("Name|Pod-Selector|Age", otherrows.network_policy),
    ("storage.k8s.io", "storageclasses"): (
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        otherrows.storage_class,
    ),
    ("", "persistentvolumes"): (
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age"
        "|VolumeMode+",
        otherrows.volume,
    ),
    ("apps", "controllerrevisions"): ("Name|Controller|Revision|Age", otherrows.controller_revision),
    ("", "podtemplates"): ("Name|Containers|Images|Pod Labels", otherrows.pod_template),
}


LAYOUTS: Mapping[tuple[str, str], tuple[tuple[Column, ...], Cells]] = {
    key: (_columns(text), cells) for key, (text, cells) in _TEXT_LAYOUTS.items()
}
