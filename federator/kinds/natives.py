"""The native kinds that expanders make. A kind that makes others adds a row here.

The member keeps a cache of each, and looks for the pods of a slice under those that run pods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw


@dataclass(frozen=True, slots=True)
class NativeKind:
    """How one native kind is spelt, and what hangs under it."""

    api_version: str
    plural: str
    runs_pods: bool = False
    """It has a pod template at spec.template, and pods below it."""
    optional: bool = False
    """Served only where its operator is installed or servers are started so, or shown only to a
    member process that has the rights of this release."""
    carries: bool = False
    """Its controller makes natives below it, which run the pods."""
    changes: tuple[str, ...] | None = None
    """The fields of spec that change once it is there; None for all."""

    outlives: str = ""
    """A kind: its object of the same workload has to be gone before this one goes. The garbage
    collector would not wait, so it has no owner, and the member process removes it."""

    where_served: bool = False
    """Where it is not served it is left out, and the workload does without."""
    instead_of: str = ""
    """The kind that a slice does not become where it becomes this one."""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


_JOB_CHANGES: Final = ("parallelism", "suspend", "activeDeadlineSeconds")
NATIVES: Final[Mapping[str, NativeKind]] = {
    "Deployment": NativeKind("apps/v1", "deployments", runs_pods=True),
    "DaemonSet": NativeKind("apps/v1", "daemonsets", runs_pods=True),
    "StatefulSet": NativeKind("apps/v1", "statefulsets", runs_pods=True),
    "Job": NativeKind("batch/v1", "jobs", runs_pods=True, changes=_JOB_CHANGES),
    "CronJob": NativeKind("batch/v1", "cronjobs", optional=True, carries=True),
    "Service": NativeKind("v1", "services"),
    "Ingress": NativeKind("networking.k8s.io/v1", "ingresses"),
    "HTTPRoute": NativeKind(
        "gateway.networking.k8s.io/v1",
        "httproutes",
        optional=True,
        where_served=True,
        instead_of="Ingress",
    ),
    "ServiceExport": NativeKind(
        "multicluster.x-k8s.io/v1alpha1", "serviceexports", optional=True, where_served=True
    ),
    "PodDisruptionBudget": NativeKind("policy/v1", "poddisruptionbudgets"),
    "ConfigMap": NativeKind("v1", "configmaps"),
    "ServiceAccount": NativeKind("v1", "serviceaccounts"),
    "HorizontalPodAutoscaler": NativeKind("autoscaling/v2", "horizontalpodautoscalers"),
    "PersistentVolumeClaim": NativeKind("v1", "persistentvolumeclaims"),
    "JobSet": NativeKind(
        "jobset.x-k8s.io/v1alpha2", "jobsets", optional=True, carries=True, changes=("suspend",)
    ),
    "TrainJob": NativeKind(
        "trainer.kubeflow.org/v1alpha1",
        "trainjobs",
        optional=True,
        carries=True,
        changes=("suspend",),
    ),
    "TrainingRuntime": NativeKind(
        "trainer.kubeflow.org/v1alpha1",
        "trainingruntimes",
        optional=True,
        changes=(),
        outlives="TrainJob",
    ),
    "PodGroup": NativeKind(
        "scheduling.k8s.io/v1beta1",
        "podgroups",
        optional=True,
        where_served=True,
        changes=("schedulingPolicy",),
    ),
}
RUNS_PODS: Final = tuple(kind for kind, row in NATIVES.items() if row.runs_pods)
CARRIES: Final = tuple(kind for kind, row in NATIVES.items() if row.carries)
OF_OPERATORS: Final = tuple(kind for kind in CARRIES if "." in NATIVES[kind].group)
POD_GROUP: Final = "PodGroup"
"""Binds the pods of a gang all at once or not at all (KEP-4671): a gang is made with it where it is
served."""
OPTIONAL: Final = tuple(kind for kind, row in NATIVES.items() if row.optional)


def made(kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """An object of one of these kinds."""
    version = NATIVES[kind].api_version
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def qualified(kind: str) -> str:
    """`JobSet.jobset.x-k8s.io`, as discovery facts name it."""
    return f"{kind}.{NATIVES[kind].group}"


def as_served(
    made: Iterable[dict[str, Any]], offers: Callable[[str], bool]
) -> tuple[dict[str, Any], ...]:
    """Of all that a slice may become, what it becomes in a cluster that offers these kinds.

    HTTPRoute and Ingress -> the HTTPRoute where that is served, else the Ingress
    """
    kept = [body for body in made if not NATIVES[body["kind"]].where_served or offers(body["kind"])]
    replaced = {NATIVES[body["kind"]].instead_of for body in kept}
    return tuple(body for body in kept if body["kind"] not in replaced)


def pod_templates(native: Mapping[str, Any]) -> Iterator[raw.Obj]:
    """The pod templates of a native object as it is written, in their order."""
    match raw.text(native, "kind"):
        case "CronJob":
            yield raw.mapping(native, "spec", "jobTemplate", "spec", "template")
        case "JobSet":
            yield from _of_job_set(raw.mapping(native, "spec"))
        case "TrainingRuntime":
            yield from _of_job_set(raw.mapping(native, "spec", "template", "spec"))
        case kind if kind in RUNS_PODS:
            yield raw.mapping(native, "spec", "template")


def _of_job_set(spec: raw.Obj) -> Iterator[raw.Obj]:
    for replicated in raw.objects(spec, "replicatedJobs"):
        yield raw.mapping(replicated, "template", "spec", "template")
