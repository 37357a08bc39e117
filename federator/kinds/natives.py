"""The native kinds that expanders make. A kind that makes others adds a row here.

The member keeps a cache of each, and looks for the pods of a slice under those that run pods.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NativeKind:
    """How one native kind is spelt, and what hangs under it."""

    api_version: str
    plural: str
    runs_pods: bool = False
    """It has a pod template at spec.template, and pods below it."""


NATIVES: Final[Mapping[str, NativeKind]] = {
    "Deployment": NativeKind("apps/v1", "deployments", runs_pods=True),
    "DaemonSet": NativeKind("apps/v1", "daemonsets", runs_pods=True),
    "StatefulSet": NativeKind("apps/v1", "statefulsets", runs_pods=True),
    "Job": NativeKind("batch/v1", "jobs", runs_pods=True),
    "Service": NativeKind("v1", "services"),
    "Ingress": NativeKind("networking.k8s.io/v1", "ingresses"),
    "PodDisruptionBudget": NativeKind("policy/v1", "poddisruptionbudgets"),
    "ConfigMap": NativeKind("v1", "configmaps"),
    "ServiceAccount": NativeKind("v1", "serviceaccounts"),
    "HorizontalPodAutoscaler": NativeKind("autoscaling/v2", "horizontalpodautoscalers"),
    "PersistentVolumeClaim": NativeKind("v1", "persistentvolumeclaims"),
}
RUNS_PODS: Final = tuple(kind for kind, row in NATIVES.items() if row.runs_pods)
