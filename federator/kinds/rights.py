"""What our accounts may do in a member, one table for both.

`make docs` makes from it the rules of the roles and the resources of the admission policies in
`deploy/member`. `federator cluster add` and `check` read the hub's part. The tests try a forbidden
pod through every row that has pods. A row that writes says where the pod templates of its objects
are, or that they have none, so a kind that is added here is held by `federator-pods` too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from federator.kinds import registry
from federator.kinds.natives import NATIVES
from federator.model import names
from federator.runtime import fencing

_TEMPLATE: Final = "[OBJ.spec.template]"
_JOBS: Final = "replicatedJobs.map(job, job.template.spec.template)"
NO_PODS: Final = ""
"""Value of `Right.pods` for objects without pod templates."""
WRITES: Final = ("create", "patch", "update")


@dataclass(frozen=True, slots=True)
class Right:
    """What an account may do with one resource. Raises ValueError for one that writes objects and
    does not say whether these have pods."""

    group: str
    version: str
    resource: str
    """Plural, with `/subresource` if it is one."""
    verbs: tuple[str, ...]
    pods: str | None = None
    """CEL: the list of the pod templates of OBJ. NO_PODS if its objects run no pods; None if
    nothing is written."""
    name: str = ""
    """The only object that it covers; "" for all."""
    labelled: bool = True
    """Admission (`federator-accounts`) holds the account to objects with the fleet's label."""

    def __post_init__(self) -> None:
        if self.writes and "/" not in self.resource and self.pods is None:
            raise ValueError(
                f"Right.pods of {self.resource}: none given, but the account may"
                f" {', '.join(self.verbs)}; give the CEL of its pod templates, or NO_PODS"
            )

    @property
    def writes(self) -> bool:
        """Whether objects are made or changed by it."""
        return any(verb in WRITES for verb in self.verbs)

    @property
    def changes(self) -> bool:
        """Whether objects are made, changed or deleted by it."""
        return self.writes or "delete" in self.verbs


@dataclass(frozen=True, slots=True)
class Section:
    """Rights with one reason, which stands above them in the manifest; "" for none."""

    why: str
    rights: tuple[Right, ...]


_ALL: Final = ("get", "list", "watch", "create", "patch", "delete")
_KEPT: Final = ("list", "watch", "create", "patch")
_READ: Final = ("list", "watch")
_FEDERATION: Final = (registry.KINDS["ClusterCapacity"].group, "v1alpha1")
_LEASES: Final = ("coordination.k8s.io", "v1", "leases")
_TEMPLATES: Final = {
    "Deployment": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": "[OBJ.spec.jobTemplate.spec.template]",
    "JobSet": f"OBJ.spec.{_JOBS}",
    "TrainingRuntime": f"OBJ.spec.template.spec.{_JOBS}",
    # What its runtime says; `PATCHES` are refused.
    "TrainJob": "[]",
}
"""Where natives that run pods have their pod templates."""
PATCHES: Final = (
    "podSpecOverrides",
    "podTemplateOverrides",
    "runtimePatches",
    "trainer",
    "initializer",
)
"""Fields of TrainJobs, of all versions, that change the pods of their runtime. We write none."""


def _native(kind: str, *more: str, verbs: tuple[str, ...] = _KEPT) -> Right:
    group, _, version = NATIVES[kind].api_version.rpartition("/")
    return Right(
        group, version, NATIVES[kind].plural, (*verbs, *more), _TEMPLATES.get(kind, NO_PODS)
    )


def _slices(verbs: tuple[str, ...], part: str = "") -> tuple[Right, ...]:
    """One right for each kind of slice; `part` is a subresource."""
    return tuple(
        Right(
            row.group,
            row.version,
            f"{row.plural}{part}",
            verbs,
            _slice_pods(row.kind),
            labelled=not part,
        )
        for row in registry.EXPANDED
    )


def _slice_pods(kind: str) -> str:
    verbs = registry.verbs_of(kind)
    own = "(has(OBJ.spec.template) ? [OBJ.spec.template] : [])"
    if verbs.gang is not None:
        own += " + OBJ.spec.components.filter(part, has(part.template)).map(part, part.template)"
    return own


HUB: Final = (
    Section(
        "",
        (
            *_slices(_ALL),
            _native("Deployment", verbs=_ALL),
            Right(
                "pinterest.com", "v1beta1", "runtimeprofiles", ("list", "create", "delete"), NO_PODS
            ),
            Right(*_FEDERATION, "clustercapacities", _KEPT, NO_PODS, labelled=False),
            Right("", "v1", "namespaces", ("get", "list", "create", "patch", "delete"), NO_PODS),
        ),
    ),
    Section(
        "`federator pods` and `logs` through the leader's query port: read on demand, never"
        " watched.",
        (Right("", "v1", "pods", ("list",)), Right("", "v1", "pods/log", ("get",))),
    ),
    Section(
        "The hub counts other objects in a namespace that it made before it deletes it. It may not"
        " list Secrets: those of a namespace of the federation are deleted with it.",
        tuple(
            _native(kind, verbs=("list",))
            for kind in (
                "Service",
                "ConfigMap",
                "ServiceAccount",
                "PersistentVolumeClaim",
                "StatefulSet",
                "DaemonSet",
                "Job",
                "CronJob",
                "Ingress",
            )
        ),
    ),
)
"""The hub's ClusterRole."""
HUB_OWN: Final = (
    Section(
        "Its own token and that of no other account, and the heartbeat of the member process.",
        (
            Right(
                "",
                "v1",
                "serviceaccounts/token",
                ("create",),
                name=names.HUB_ACCOUNT,
                labelled=False,
            ),
            Right(*_LEASES, ("get",), name=names.MEMBER_LEASE),
        ),
    ),
    Section(
        "The lease by which guarded shards run: the member process creates it, the hub renews it.",
        (Right(*_LEASES, ("get", "patch"), NO_PODS, fencing.LEASE, labelled=False),),
    ),
)
"""The hub's Role in the federation's namespace."""
MEMBER: Final = (
    Section(
        "Slices: read, and answered in the status.",
        (
            *_slices(_READ),
            Right("pinterest.com", "v1beta1", "runtimeprofiles", _READ),
            *_slices(("patch",), "/status"),
        ),
    ),
    Section(
        "Natives, by server-side apply (`create` and `patch`). Only marked ones: admission.yaml.",
        (_native("Deployment"), _native("DaemonSet")),
    ),
    Section(
        "A block of ordinals that is scaled away goes with its StatefulSet.",
        (_native("StatefulSet", "delete"),),
    ),
    Section("", (_native("Job", "delete"),)),
    Section(
        "Cron jobs that their clusters run themselves. None is deleted: it goes with its slice. The"
        " status says from which time on a CronJob that takes over from the hub runs.",
        (_native("CronJob"), Right("batch", "v1", "cronjobs/status", ("patch",))),
    ),
    Section(
        "",
        (
            _native("Service", "delete"),
            _native("ConfigMap", "delete"),
            _native("Ingress", "delete"),
        ),
    ),
    Section(
        "Instead of Ingresses, and so that other clusters find a Service, where the cluster serves"
        " those kinds.",
        (_native("HTTPRoute", "delete"), _native("ServiceExport", "delete")),
    ),
    Section("", (_native("PodDisruptionBudget", "delete"),)),
    Section(
        "Autoscalers of services that say `autoscaling`.",
        (_native("HorizontalPodAutoscaler", "delete"),),
    ),
    Section("", (_native("ServiceAccount"),)),
    Section(
        "Training jobs that say `target: JobSet` or `target: TrainJob`, where the cluster serves"
        " those kinds.",
        (_native("JobSet"), _native("TrainJob"), _native("TrainingRuntime", "delete")),
    ),
    Section(
        "The pods of a training job are bound together where the cluster serves this kind. A group"
        " goes with its slice.",
        (_native("PodGroup"),),
    ),
    Section(
        "Claims for checkpoints. The federation deletes none: they go with their slice, or stay.",
        (_native("PersistentVolumeClaim"),),
    ),
    Section(
        "PriorityClasses of the tiers.",
        (
            Right(
                "scheduling.k8s.io",
                "v1",
                "priorityclasses",
                ("list", "watch", "create"),
                NO_PODS,
                labelled=False,
            ),
        ),
    ),
    Section(
        "Capacity and reasons are read from these.",
        (Right("", "v1", "nodes", _READ), Right("", "v1", "pods", _READ)),
    ),
    Section(
        "What namespaces allow: a cluster that would refuse pods reports that instead.",
        (Right("", "v1", "resourcequotas", _READ), Right("", "v1", "limitranges", _READ)),
    ),
    Section(
        "Which service accounts a project may use, by annotations of its namespaces.",
        (Right("", "v1", "namespaces", _READ),),
    ),
    Section(
        "Start-up taints of daemons are removed. Nothing else of a node is changed:"
        " admission.yaml.",
        (Right("", "v1", "nodes", ("patch",), NO_PODS, labelled=False),),
    ),
    Section(
        "FailedMount and FailedCreate: nothing else reports that a Secret of a volume is missing,"
        " or that no pod of a Job is accepted.",
        (Right("", "v1", "events", _READ),),
    ),
    Section(
        "Events about slices, which `kubectl describe` prints.",
        (Right("events.k8s.io", "v1", "events", ("create",), NO_PODS, labelled=False),),
    ),
    Section("", (Right("apps", "v1", "replicasets", _READ),)),
    Section(
        "The capacity report.",
        (
            Right(
                *_FEDERATION,
                "clustercapacities",
                ("list", "watch", "create"),
                NO_PODS,
                labelled=False,
            ),
            Right(*_FEDERATION, "clustercapacities/status", ("patch",), labelled=False),
        ),
    ),
)
"""The member process's ClusterRole."""
MEMBER_OWN: Final = (
    Section(
        "Its heartbeat. A name cannot limit `create`.",
        (
            Right(*_LEASES, ("create",), NO_PODS, labelled=False),
            Right(*_LEASES, ("patch",), NO_PODS, names.MEMBER_LEASE, labelled=False),
        ),
    ),
    Section(
        "Whether the lease by which guarded shards run is there; the hub renews it.",
        (Right(*_LEASES, ("get",), name=fencing.LEASE),),
    ),
)
"""The member process's Role in the federation's namespace."""


def of(*roles: Iterable[Section]) -> Iterator[Right]:
    """The rights of these roles, in their order."""
    for role in roles:
        for section in role:
            yield from section.rights


def _pod_writers() -> Iterator[Right]:
    seen: set[tuple[str, str]] = set()
    for right in of(MEMBER, HUB):
        place = (right.group, right.resource)
        if right.writes and right.pods and "/" not in right.resource and place not in seen:
            seen.add(place)
            yield right


POD_WRITERS: Final = tuple(_pod_writers())
"""One right for each resource with pods that one of our accounts may write."""


def templates_of(obj: str) -> str:
    """CEL: the pod templates of the request's `object` or `oldObject`."""
    expression = _TEMPLATE
    by_templates: dict[str, list[str]] = {}
    for right in POD_WRITERS:
        by_templates.setdefault(right.pods or "", []).append(right.resource)
    for templates, plurals in reversed(by_templates.items()):
        if templates != _TEMPLATE:
            named = ", ".join(f'"{plural}"' for plural in plurals)
            expression = f"request.resource.resource in [{named}] ? {templates} :\n{expression}"
    return expression.replace("OBJ", obj)
