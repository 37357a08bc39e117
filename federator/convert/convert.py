"""Kubernetes manifests -> Pinterest workloads: implements `federator convert`. Pure.

Deployment, Service, Ingress, ConfigMap and ServiceAccount become PinterestServices; StatefulSets
become PinterestStatefulSets, DaemonSets PinterestDaemons, CronJobs PinterestCronJobs; Jobs, and
JobSets of one template, become PinterestJobSets; other JobSets and TrainJobs become
PinterestTrainingJobs; queues of Kueue become FederatedQuotas. Every object is converted, absorbed
or left with a reason, and the results pass the strict models.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.convert import (
    autoscalers,
    configmaps,
    deployments,
    ingresses,
    jobs,
    kueue,
    services,
    statefulsets,
    trainings,
)
from federator.convert.drafts import (
    Account,
    BadInput,
    Draft,
    Drafts,
    Item,
    LeftAlone,
    Note,
    item_of,
)
from federator.kinds import read, registry
from federator.model.errors import FieldError

DRAFTERS: Final[Mapping[tuple[str, str], Callable[[Item, Drafts], Draft]]] = {
    ("apps/v1", "Deployment"): deployments.draft,
    ("apps/v1", "StatefulSet"): statefulsets.draft,
    ("apps/v1", "DaemonSet"): deployments.draft_daemonset,
    ("batch/v1", "CronJob"): jobs.draft_cronjob,
    ("batch/v1", "Job"): jobs.draft_job,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): trainings.draft_jobset,
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): trainings.draft_trainjob,
}
"""Kinds that become workloads."""
_PARTS: Final = (
    ("v1", "Service"),
    ("networking.k8s.io/v1", "Ingress"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    (autoscalers.API_VERSION, autoscalers.KIND),
)

_OTHER_KINDS: Final[Mapping[str, str]] = {
    "ResourceFlavor": "flavors are domains of queues, and no queue is given",
    "WorkloadPriorityClass": "a workload says its priority itself (spec.priority)",
    "ClusterTrainingRuntime": "TrainJobs that are given with it take their pods from it",
    "TrainingRuntime": "TrainJobs that are given with it take their pods from it",
    "Workload": "Kueue makes it of a job; convert the job, or give its ClusterQueue",
    "Pod": "a pod alone is restarted by nobody; write a Deployment or Job",
    "Secret": "secrets are kept in each cluster; apply it in the members",
    "PersistentVolumeClaim": "storage belongs to one cluster; apply it there",
    "PodDisruptionBudget": "apply it in the members: the pods there keep their labels",
    "NetworkPolicy": "apply it in the members: the pods there keep their labels",
}


@dataclass(frozen=True, slots=True)
class Conversion:
    """The objects for the host, the fate of every input object, and notes."""

    objects: tuple[dict[str, Any], ...]
    accounts: tuple[Account, ...]
    notes: tuple[Note, ...]


def convert(objs: Iterable[tuple[str, Mapping[str, Any]]]) -> Conversion:
    """Converts (origin, object) pairs together. Raises BadInput with origin and fields for an
    object that no API server would accept."""
    drafts = Drafts([item_of(obj, origin) for origin, obj in objs])
    _leave_repeated(drafts)
    _keep(drafts)
    kueue.absorb(drafts)
    _check_parents(drafts)
    _draft_all(drafts)
    kueue.assign(drafts)
    autoscalers.absorb(drafts)
    services.absorb(drafts)
    ingresses.absorb(drafts)
    ingresses.place(drafts)
    configmaps.absorb_configs(drafts)
    configmaps.absorb_accounts(drafts)
    configmaps.note_needs(drafts)
    for item in drafts.undecided():
        drafts.leave(item, _why_not(item))
    for draft in drafts.made:
        _check(draft)
    ingresses.note_taken_hosts(drafts)
    made = (
        *(item.obj for item in drafts.kept),
        *drafts.quotas,
        *(_ordered(draft.obj) for draft in drafts.made),
    )
    return Conversion(made, drafts.accounts(), drafts.notes())


def _check_parents(drafts: Drafts) -> None:
    """Raises BadInput for a FederatedQuota that is given below one that is neither given nor
    made."""
    quotas = [item for item in drafts.kept if item.kind == "FederatedQuota"]
    names = {item.name for item in quotas}
    names |= {raw.text(quota, "metadata", "name") for quota in drafts.quotas}
    for item in quotas:
        if (above := raw.text(item.obj, "spec", "parent")) and above not in names:
            message = (
                f"is {above}, and no FederatedQuota of that name is given; add it or correct it"
            )
            raise item.bad("spec.parent", message)


def _leave_repeated(drafts: Drafts) -> None:
    """Of several objects with one kind and name the first counts; the others are left. Unsupported
    kinds are left as unsupported."""
    seen: dict[tuple[str, str, str], Item] = {}
    for item in drafts.items:
        key = (item.kind, item.namespace, item.name)
        read_here = (item.api_version, item.kind) in (
            *DRAFTERS,
            *_PARTS,
            *kueue.KINDS,
        ) or _as_it_is(item)
        if not item.name or not read_here:
            continue
        if key in seen:
            drafts.leave_repeated(item, seen[key])
        seen.setdefault(key, item)


def _as_it_is(item: Item) -> bool:
    """Whether the host takes the object unchanged: a namespace, or a kind of the federation
    itself."""
    return item.is_a("v1", "Namespace") or (
        registry.kind_of(item.obj) is not None and item.kind != "Deployment"
    )


def _keep(drafts: Drafts) -> None:
    for item in drafts.undecided():
        if _as_it_is(item):
            if item.live and item.kind == "Namespace":
                item.obj.pop("spec", None)  # its finalizer belongs to the API server
            drafts.keep(item)


def _draft_all(drafts: Drafts) -> None:
    taken = {(item.kind, item.namespace, item.name): item for item in drafts.kept}
    for item in drafts.undecided():
        drafter = DRAFTERS.get((item.api_version, item.kind))
        if drafter is None:
            continue
        try:
            draft = drafter(item, drafts)
        except LeftAlone as why:
            drafts.leave(item, str(why))
            continue
        drafts.draft(draft)
        key = (draft.obj["kind"], draft.namespace, draft.name)
        problem = read.name_problem(draft.obj)
        if problem:
            drafts.drop(draft, f"metadata.name: {problem}")
        elif draft.name and key in taken:
            becomes = "is given" if taken[key].title == draft.title else f"becomes {draft.title}"
            drafts.drop(draft, f"metadata.name: {taken[key].title} {becomes} already")
        else:
            taken[key] = item


def _why_not(item: Item) -> str:
    for version, kind in (*DRAFTERS, *_PARTS):
        if item.kind == kind and item.api_version != version:
            return f"apiVersion {item.api_version} is not read here, only {version}"
    reason = _OTHER_KINDS.get(item.kind)
    return f"kind {item.kind} ({item.api_version}) is not converted" + (
        f": {reason}" if reason else ""
    )


def _check(draft: Draft) -> None:
    """Validates the results; problems are reported with the input object and field they came
    from."""
    try:
        read.load(draft.obj)
    except read.InvalidObject as bad:
        errors = [(*_source(error.path, draft), error.message) for error in bad.errors]
        guilty = errors[0][0]
        problems = [FieldError(path, message) for item, path, message in errors if item is guilty]
        raise BadInput(guilty.origin, guilty.title, problems) from None


_SOURCES: Final = (
    ("spec.service", "Service", "spec"),
    ("spec.config", "ConfigMap", "data"),
    ("spec.loadBalancers", "Ingress", "spec.rules"),
    ("spec.iamRole", "ServiceAccount", "metadata.annotations"),
    ("spec.autoscaling", autoscalers.KIND, "spec"),
)
"""Field of a workload -> the part it was made from, and its path there."""


def _source(path: str, draft: Draft) -> tuple[Item, str]:
    """The input object that a field was made from, and its path there."""
    if path.startswith("spec.template"):
        return draft.item, draft.path + path.removeprefix("spec.template")
    if path.startswith("spec.updateStrategy.max"):
        return draft.item, path.replace("updateStrategy", "strategy.rollingUpdate")
    for prefix, kind, origin in _SOURCES:
        if path.startswith(prefix):
            rest = path.removeprefix(prefix) if kind not in ("Ingress", autoscalers.KIND) else ""
            for item in draft.parts:
                if item.kind == kind:
                    return item, origin + rest
    return draft.item, path


_ORDER: Final = ("project", "tier", "priority", "suspend", "replicas", "shards", "parallelism")
_LAST: Final = ("placement", "template")


def _ordered(obj: dict[str, Any]) -> dict[str, Any]:
    """Fields in reading order: numbers first, the template last."""
    spec = obj["spec"]
    middle = [name for name in spec if name not in (*_ORDER, *_LAST)]
    names = [name for name in (*_ORDER, *middle, *_LAST) if name in spec]
    ordered = {name: spec[name] for name in names}
    if run := ordered.get("jobTemplate"):
        ordered["jobTemplate"] = {**run, **_ordered({"spec": run["spec"]})}
    return {**obj, "spec": ordered}
