"""PinterestTrainingJob -> ServiceAccount, ConfigMap, claim for checkpoints, and what runs its pods:
a headless Service and Indexed Jobs for each component, or a JobSet, or a TrainJob.

The Jobs are made suspended. They are released together, once all of them are there, and stopped
together when the job has ended or was rolled back, as the slice's status says of the gang. A JobSet
or TrainJob that has ended is left as its own controller has left it.
"""

import json
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import natives, verbs
from federator.kinds.labels import COMPONENT_LABEL
from federator.kinds.natives import NATIVES
from federator.kinds.shared import environment, parts, workloads
from federator.kinds.training import ask, rendezvous
from federator.kinds.training.rendezvous import Group
from federator.kinds.training.schema import SELECTOR_LABEL
from federator.model import names
from federator.model.observation import Phase

COMPONENT: Final = "training"
CHECKPOINT: Final = "checkpoint"
_RELEASED: Final = frozenset({Phase.RELEASED, Phase.RUNNING})


def expand(obj: Obj, profile: Obj | None) -> tuple[dict[str, Any], ...]:
    """The native objects of one slice, those that others need first. Raises FieldError as injection
    does."""
    if (problem := ask.refusal(obj)) is not None:
        raise problem
    mark = workloads.read_mark(obj)
    every = rendezvous.groups(obj)
    first = _with_template(obj, every[0].role.template)
    shared = (
        *parts.service_account(first, mark, COMPONENT),
        *parts.config_map(obj, mark, COMPONENT),
        *_claim(obj, mark),
    )
    if kind := ask.carrier(obj):
        makes = _train_job if kind == "TrainJob" else _job_set
        return (*shared, *makes(obj, mark, every, profile))
    jobs = (_job(obj, mark, group, every, profile) for group in every)
    return (*shared, _service(obj, mark), *jobs)


def suspended(obj: Obj) -> bool:
    """Whether no pod of the slice may run: before all its Jobs are there, after it was rolled back,
    and when it has ended."""
    status = raw.mapping(obj, "status")
    ended = workloads.indexes(status, "completedIndexes") or workloads.indexes(
        status, "failedIndexes"
    )
    if ended and ask.carrier(obj):
        return False
    return bool(ended) or raw.text(status, "gang", "phase") not in _RELEASED


def claim_name(name: str) -> str:
    return f"{name}-{CHECKPOINT}"


def _with_template(obj: Obj, template: Obj) -> dict[str, Any]:
    return {**obj, "spec": {**raw.mapping(obj, "spec"), "template": template}}


def _service(obj: Obj, mark: verbs.SliceMark | None) -> dict[str, Any]:
    selector = {SELECTOR_LABEL: parts.name_of(obj)}
    meta = parts.metadata(obj, mark, rendezvous.subdomain(obj), COMPONENT)
    meta["labels"] |= selector
    # Pods look each other up before they are ready, which some only are once all have met.
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    return natives.made("Service", meta, spec)


def _claim(obj: Obj, mark: verbs.SliceMark | None) -> list[dict[str, Any]]:
    checkpoint = raw.mapping(obj, "spec", CHECKPOINT)
    if not checkpoint:
        return []
    meta = parts.metadata(obj, mark, claim_name(parts.name_of(obj)), COMPONENT)
    if raw.flag(checkpoint, "retain"):
        del meta["ownerReferences"]  # it stays, and the next job of this name finds it
    storage = {"storage": str(checkpoint.get("storage", ""))}
    spec: dict[str, Any] = {
        "accessModes": [raw.text(checkpoint, "accessMode", default="ReadWriteMany")],
        "resources": {"requests": storage},
    }
    if storage_class := raw.text(checkpoint, "storageClassName"):
        spec["storageClassName"] = storage_class
    return [natives.made("PersistentVolumeClaim", meta, spec)]


def _job(
    obj: Obj,
    mark: verbs.SliceMark | None,
    group: Group,
    every: tuple[Group, ...],
    profile: Obj | None,
) -> dict[str, Any]:
    labels = _labels(obj, group)
    meta = parts.metadata(obj, mark, group.job, COMPONENT)
    meta["labels"] |= labels
    spec = _job_spec(obj, group, every, profile) | {"suspend": suspended(obj)}
    return natives.made("Job", meta, spec)


def _labels(obj: Obj, group: Group) -> dict[str, str]:
    """Of a Job and its pods."""
    return {SELECTOR_LABEL: parts.name_of(obj), COMPONENT_LABEL: group.role.name}


def _job_spec(
    obj: Obj, group: Group, every: tuple[Group, ...], profile: Obj | None
) -> dict[str, Any]:
    limit = max(raw.integer(group.component, "backoffLimit", default=3), 0)
    restart = raw.text(group.component, "restartPolicy", default="Never")
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": group.size,
        "parallelism": group.size,
        "template": _template(obj, group, every, profile, _labels(obj, group), restart),
    }
    if restart == "Never":  # a limit for each index is offered for this policy alone
        spec |= {"backoffLimitPerIndex": limit, "maxFailedIndexes": 0}
    else:
        spec["backoffLimit"] = limit * group.size
    if deadline := raw.integer(obj, "spec", "activeDeadlineSeconds"):
        spec["activeDeadlineSeconds"] = max(deadline, 1)
    return spec


def _job_set(
    obj: Obj, mark: verbs.SliceMark | None, every: tuple[Group, ...], profile: Obj | None
) -> list[dict[str, Any]]:
    spec = _job_set_spec(obj, mark, every, profile) | {"suspend": suspended(obj)}
    return [_carrier(obj, mark, "JobSet", spec)]


def _train_job(
    obj: Obj, mark: verbs.SliceMark | None, every: tuple[Group, ...], profile: Obj | None
) -> list[dict[str, Any]]:
    """A TrainJob, and before it the runtime that says what it runs: a JobSet, with no policy that
    would add variables of its own.

    Trainer's webhook takes no change of a TrainJob after its runtime is gone, not even the garbage
    collector's change that lets it go. So the runtime has no owner, and its name says its content.
    """
    template: dict[str, Any] = {"metadata": {"labels": {SELECTOR_LABEL: parts.name_of(obj)}}}
    template["spec"] = _job_set_spec(obj, mark, every, profile)
    runtime = _carrier(obj, mark, "TrainingRuntime", {"template": template})
    content = json.dumps(runtime["spec"], sort_keys=True)
    uid = mark.workload_uid if mark is not None else raw.text(obj, "metadata", "uid")
    name = f"{parts.name_of(obj)}-{names.short_hash(uid, content)}"
    del runtime["metadata"]["ownerReferences"]
    runtime["metadata"]["name"] = name
    reference = {"apiGroup": NATIVES["TrainJob"].group, "kind": "TrainingRuntime", "name": name}
    spec = {"runtimeRef": reference, "suspend": suspended(obj)}
    return [runtime, _carrier(obj, mark, "TrainJob", spec)]


def _carrier(
    obj: Obj, mark: verbs.SliceMark | None, kind: str, spec: dict[str, Any]
) -> dict[str, Any]:
    """Named as the workload: the names of Jobs and hosts begin with it."""
    meta = parts.metadata(obj, mark, parts.name_of(obj), COMPONENT)
    meta["labels"] |= {SELECTOR_LABEL: parts.name_of(obj)}
    return natives.made(kind, meta, spec)


def _job_set_spec(
    obj: Obj, mark: verbs.SliceMark | None, every: tuple[Group, ...], profile: Obj | None
) -> dict[str, Any]:
    """All fields that webhooks of JobSet would default are written out: the same comes of it where
    they are not served."""
    replicated: list[dict[str, Any]] = []
    for name in dict.fromkeys(group.role.name for group in every):
        own = [group for group in every if group.role.name == name]
        labels = environment.labels(mark) | _labels(obj, own[0])
        job = {"metadata": {"labels": labels}, "spec": _job_spec(obj, own[0], every, profile)}
        replicated.append({"name": name, "replicas": len(own), "template": job})
    targets = [entry["name"] for entry in replicated if entry["name"] in ask.completes(obj)]
    return {
        "network": {
            "enableDNSHostnames": True,
            "publishNotReadyAddresses": True,
            "subdomain": rendezvous.subdomain(obj),
        },
        "replicatedJobs": replicated,
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": targets},
    }


def _template(  # noqa: PLR0917 what a Job's pods are made from
    obj: Obj,
    group: Group,
    every: tuple[Group, ...],
    profile: Obj | None,
    labels: dict[str, str],
    restart: str,
) -> dict[str, Any]:
    whole = _with_template(obj, group.role.template)
    template = parts.pod_template(whole, profile, labels, batch=True, config_hash=False)
    own = parts.own_containers(whole)
    variables = rendezvous.variables(obj, group, every)
    pod = {**template["spec"], "restartPolicy": restart, "subdomain": rendezvous.subdomain(obj)}
    path = raw.text(obj, "spec", CHECKPOINT, "mountPath", default="/checkpoints")
    stored = bool(raw.mapping(obj, "spec", CHECKPOINT))
    if stored:
        claim = {"claimName": claim_name(parts.name_of(obj))}
        checkpoints = {"name": CHECKPOINT, "persistentVolumeClaim": claim}
        volumes = raw.objects(pod, "volumes")
        others = [volume for volume in volumes if volume.get("name") != CHECKPOINT]
        pod["volumes"] = [*others, checkpoints]
    for field in ("initContainers", "containers"):
        if field in pod:
            made = [
                _with_variables(c, variables) if c.get("name") in own else c for c in pod[field]
            ]
            mount = {"name": CHECKPOINT, "mountPath": path}
            pod[field] = [
                parts.mounted(c, mount) if stored and c.get("name") in own else c for c in made
            ]
    return {**template, "spec": pod}


def _with_variables(container: Obj, variables: list[dict[str, Any]]) -> dict[str, Any]:
    """With our variables, which no variable of the same name in the template may hide."""
    ours = {entry["name"] for entry in variables}
    own = [entry for entry in raw.objects(container, "env") if entry.get("name") not in ours]
    env = [*variables, *own]
    return {**container, "env": env} if env else dict(container)
