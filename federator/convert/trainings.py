"""JobSet of several templates, and TrainJob with its runtime -> a drafted PinterestTrainingJob.
Pure; rows of `convert.DRAFTERS`.

Jobs, pods and host names stay as they were: a component is a replicated Job, and the pods of each
of its Jobs are numbered from 0. What needs the other controller at run time (an order of starting,
restarts of all Jobs together) is left, with the reason.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.convert import deployments, jobs, templates
from federator.convert.drafts import Draft, Drafts, Item, LeftAlone, only_fields
from federator.kinds.shared import workloads
from federator.kinds.training import schema

_OTHER: Final = "jobset.sigs.k8s.io/"
_SET_FIELDS: Final = frozenset(
    {
        "replicatedJobs",
        "suspend",
        "ttlSecondsAfterFinished",
        "network",
        "successPolicy",
        "startupPolicy",
        "coordinator",
        "failurePolicy",
    }
)
_SET_REASONS: Final[Mapping[str, str]] = {
    "volumeClaimPolicies": "claims of their own names are not offered; see spec.checkpoint",
    "managedBy": "another controller runs it",
}
_JOB_FIELDS: Final = frozenset({"name", "replicas", "template", "groupName"})
_JOB_REASONS: Final[Mapping[str, str]] = {
    "dependsOn": "the components of a training job begin together, none waits for another"
}
_BATCH_FIELDS: Final = frozenset(
    {
        "completions",
        "parallelism",
        "completionMode",
        "backoffLimit",
        "backoffLimitPerIndex",
        "ttlSecondsAfterFinished",
        "activeDeadlineSeconds",
        "suspend",
        "template",
    }
)
_BATCH_REASONS: Final[Mapping[str, str]] = {
    "podFailurePolicy": "a training job has no rules about kinds of failures",
    "successPolicy": "a component is complete when all of its pods are",
    "maxFailedIndexes": "a training job fails when one pod has failed for good",
}
_RUNTIMES: Final = ("ClusterTrainingRuntime", "TrainingRuntime")
_TRAINER_API: Final = "trainer.kubeflow.org/v1alpha1"
JAX_PORT: Final = 6666
_INDEX_FIELD: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAIN_FIELDS: Final = frozenset({"runtimeRef", "trainer", "suspend", "runtimePatches"})
_TRAIN_REASONS: Final[Mapping[str, str]] = {
    "initializer": "the components of a training job begin together, none waits for another",
    "managedBy": "another controller runs it",
}
_TRAINER_FIELDS: Final = frozenset(
    {"numNodes", "image", "command", "args", "env", "resourcesPerNode", "numProcPerNode"}
)
_OWN_CONTROLLERS: Final = frozenset(
    {"jobset.sigs.k8s.io/jobset-controller", "trainer.kubeflow.org/trainjob-controller"}
)
_LISTED_BY_NAME: Final = frozenset({"containers", "initContainers", "volumes", "env"})


def draft_jobset(item: Item, drafts: Drafts) -> Draft:
    """A job set where its pods are independent of each other, else a training job. Raises LeftAlone
    with the reason, BadInput for fields of the wrong type."""
    try:
        return jobs.draft_jobset(item, drafts)
    except jobs.Together:
        return _draft(item, drafts, raw.mapping(item.obj, "spec"), {}, "spec")


def draft_trainjob(item: Item, drafts: Drafts) -> Draft:
    """The draft; the runtime must be among the objects. Raises as `draft_jobset`."""
    spec = raw.mapping(item.obj, "spec")
    given = {k: v for k, v in spec.items() if not (k == "managedBy" and v in _OWN_CONTROLLERS)}
    only_fields(given, _TRAIN_FIELDS, _TRAIN_REASONS, "spec")
    trainer = raw.mapping(spec, "trainer")
    only_fields(trainer, _TRAINER_FIELDS, {}, "spec.trainer")
    runtime = _runtime(item, drafts)
    rule = raw.mapping(runtime.obj, "spec", "mlPolicy")
    fields = _framework(rule, trainer)
    template = copy.deepcopy(dict(raw.mapping(runtime.obj, "spec", "template")))
    for index, patch in enumerate(raw.objects(spec, "runtimePatches")):
        _patched(template, raw.mapping(patch, "trainingRuntimeSpec", "template"), index)
    inner: dict[str, Any] = dict(raw.mapping(template, "spec"))
    job = _trainer_job(inner, runtime)
    nodes = trainer.get("numNodes", rule.get("numNodes", 1))
    if type(nodes) is not int or nodes < 1:
        raise item.bad("spec.trainer.numNodes", "must be an integer, and not below 1")
    variables = _jax(item, raw.text(job, "name"), nodes) if "jax" in rule else []
    _as_trainer(job, trainer, nodes, variables)
    if raw.flag(spec, "suspend"):
        inner["suspend"] = True
    made = _draft(item, drafts, inner, fields, f"{runtime.title}: spec.template.spec")
    drafts.absorb(runtime, made)
    if raw.mapping(runtime.obj, "spec", "podGroupPolicy"):
        drafts.note(made, f"{runtime.title}: spec.podGroupPolicy is not needed: it is a gang here")
    return made


def _runtime(item: Item, drafts: Drafts) -> Item:
    ref = raw.mapping(item.obj, "spec", "runtimeRef")
    kind, name = raw.text(ref, "kind", default=_RUNTIMES[0]), raw.text(ref, "name")
    for other in drafts.distinct:
        if kind not in _RUNTIMES or not other.is_a(_TRAINER_API, kind) or other.name != name:
            continue
        if kind == _RUNTIMES[0] or other.namespace == item.namespace:
            return other
    raise LeftAlone(
        f"spec.runtimeRef: {kind} {name} is not among the objects; give its manifest with it"
    )


def _framework(rule: Obj, trainer: Obj) -> dict[str, Any]:
    """Fields of the training job for a runtime's policy."""
    processes = trainer.get("numProcPerNode")
    if "torch" in rule:
        processes = processes or raw.at(rule, "torch", "numProcPerNode")
        said = processes if type(processes) is int else None
        return {"framework": "PyTorch"} | raw.present({"processesPerPod": said})
    if other := sorted(set(rule) - {"numNodes", "jax"}):
        raise LeftAlone(f"mlPolicy.{other[0]} of its runtime: only torch and jax are converted")
    return {"framework": "Custom"}


def _jax(item: Item, role: str, nodes: int) -> list[dict[str, Any]]:
    """What the pods of a JAX job are told by Trainer's controller."""
    master = f"{item.name}-{role}-0-0.{item.name}:{JAX_PORT}"
    return [
        {"name": "JAX_NUM_PROCESSES", "value": str(nodes)},
        {"name": "JAX_COORDINATOR_ADDRESS", "value": master},
        {"name": "JAX_PROCESS_ID", "valueFrom": {"fieldRef": {"fieldPath": _INDEX_FIELD}}},
    ]


def _trainer_job(inner: dict[str, Any], runtime: Item) -> dict[str, Any]:
    every: list[Any] = list(raw.items(inner, "replicatedJobs"))
    for job in every:
        if raw.text(job, "template", "metadata", "labels", _STEP) == "trainer":
            return dict(job) if not isinstance(job, dict) else job
    raise LeftAlone(f"{runtime.title}: no replicated Job of it is the trainer ({_STEP})")


def _as_trainer(
    job: dict[str, Any], trainer: Obj, nodes: int, variables: list[dict[str, Any]]
) -> None:
    """What the TrainJob says of its nodes, written into the runtime's Job."""
    batch = job.setdefault("template", {}).setdefault("spec", {})
    batch["parallelism"] = batch["completions"] = nodes
    pod = batch.setdefault("template", {}).setdefault("spec", {})
    containers = [entry for entry in raw.items(pod, "containers") if isinstance(entry, dict)]
    main = next((entry for entry in containers if entry.get("name") == "node"), None)
    if main is None:
        raise LeftAlone("spec.trainer: its runtime has no container named node")
    for field in ("image", "command", "args"):
        if field in trainer:
            main[field] = trainer[field]
    if "resourcesPerNode" in trainer:
        main["resources"] = trainer["resourcesPerNode"]
    own = raw.objects(trainer, "env")
    named = {entry.get("name") for entry in own}
    env = [entry for entry in raw.items(main, "env") if raw.text(entry, "name") not in named]
    if env or own or variables:
        main["env"] = [*copy.deepcopy(variables), *env, *own]


def _patched(target: dict[str, Any], patch: Obj, index: int) -> None:
    """A runtime patch: objects are merged, Jobs and containers by name, other lists are joined."""
    for name, value in patch.items():
        there = target.get(name)
        if isinstance(value, Mapping) and isinstance(there, dict):
            _patched(there, value, index)
        elif isinstance(value, list) and isinstance(there, list):
            if name not in _LISTED_BY_NAME | {"replicatedJobs"}:
                there.extend(copy.deepcopy(value))
                continue
            for entry in raw.objects({"list": value}, "list"):
                same = [o for o in there if raw.text(o, "name") == raw.text(entry, "name")]
                if same and isinstance(same[0], dict):
                    _patched(same[0], entry, index)
                elif name == "replicatedJobs":
                    raise LeftAlone(
                        f"spec.runtimePatches[{index}]: its runtime has no replicated Job"
                        f" {raw.text(entry, 'name')}"
                    )
                else:
                    there.append(copy.deepcopy(entry))
        else:
            target[name] = copy.deepcopy(value)


def _draft(item: Item, drafts: Drafts, spec: Obj, fields: Mapping[str, Any], path: str) -> Draft:
    given = {k: v for k, v in spec.items() if not (k == "managedBy" and v in _OWN_CONTROLLERS)}
    only_fields(given, _SET_FIELDS, _SET_REASONS, path)
    every = raw.objects(spec, "replicatedJobs")
    _check_set(item, spec, every, path)
    notes: list[str] = []
    made: list[dict[str, Any]] = []
    deadlines: list[int] = []
    for index, job in enumerate(every):
        here = f"{path}.replicatedJobs[{index}]"
        made.append(_component(item, spec, job, here, notes, deadlines))
    out: dict[str, Any] = deployments.federation_fields(item)
    if raw.flag(spec, "suspend"):
        out["suspend"] = True
    out |= {"framework": "Custom", **fields}
    out["components"] = made
    first = made[0]["template"]
    for component in made:
        if component["template"] == first:
            del component["template"]
    targets = raw.texts(spec, "successPolicy", "targetReplicatedJobs")
    if targets and set(targets) != {component["name"] for component in made}:
        out["completesWith"] = list(targets)
    if subdomain := raw.text(spec, "network", "subdomain"):
        out["subdomain"] = subdomain
    if deadlines:
        out["activeDeadlineSeconds"] = min(deadlines)
    out["template"] = first
    meta = deployments.metadata(item)
    obj = {"apiVersion": workloads.API_VERSION, "kind": schema.KIND, "metadata": meta, "spec": out}
    draft = Draft(item, obj, f"{path}.replicatedJobs[0].template.spec.template")
    if "ttlSecondsAfterFinished" in spec:
        notes.append(
            "ttlSecondsAfterFinished is left out: a finished job stays until it is deleted"
        )
    for text in notes:
        drafts.note(draft, text)
    deployments.note_annotations(draft, drafts)
    return draft


def _check_set(item: Item, spec: Obj, every: list[Obj], path: str) -> None:
    """Raises LeftAlone for what ties Jobs together in a way that is not offered."""
    if not every or len(every) > schema.MAX_COMPONENTS:
        raise LeftAlone(
            f"{path}.replicatedJobs: it has {len(every)}, a training job has 1 to"
            f" {schema.MAX_COMPONENTS} components"
        )
    for name in sorted(raw.mapping(item.obj, "metadata", "annotations")):
        if name.startswith("alpha.jobset.sigs.k8s.io/"):
            raise LeftAlone(
                f"metadata.annotations[{name}]: Jobs that exclude each other by topology are not"
                " offered"
            )
    failure = raw.mapping(spec, "failurePolicy")
    if raw.integer(failure, "maxRestarts") > 0 or raw.objects(failure, "rules"):
        raise LeftAlone(
            f"{path}.failurePolicy: it restarts Jobs together; a training job tries failed pods"
            " again one by one, and fails as a whole"
        )
    if raw.text(spec, "startupPolicy", "startupPolicyOrder") == "InOrder":
        raise LeftAlone(f"{path}.startupPolicy: {_JOB_REASONS['dependsOn']}")
    if raw.at(spec, "network", "enableDNSHostnames") is False and len(every) == 1:
        raise LeftAlone(f"{path}.network.enableDNSHostnames: the pods of a training job have names")
    success = raw.mapping(spec, "successPolicy")
    if (
        raw.text(success, "operator") == "Any"
        and sum(
            raw.integer(job, "replicas", default=1)
            for job in every
            if raw.text(job, "name")
            in (raw.texts(success, "targetReplicatedJobs") or _names(every))
        )
        > 1
    ):
        raise LeftAlone(f"{path}.successPolicy: all Jobs that it names must complete, not any")


def _names(every: list[Obj]) -> tuple[str, ...]:
    return tuple(raw.text(job, "name") for job in every)


def _component(  # noqa: PLR0917 what a component is told from
    item: Item, spec: Obj, job: Obj, here: str, notes: list[str], deadlines: list[int]
) -> dict[str, Any]:
    only_fields(job, _JOB_FIELDS, _JOB_REASONS, here)
    path = f"{here}.template.spec"
    batch = raw.mapping(job, "template", "spec")
    only_fields(batch, _BATCH_FIELDS, _BATCH_REASONS, path)
    name, copies = raw.text(job, "name"), raw.integer(job, "replicas", default=1)
    size = raw.integer(batch, "parallelism", default=1)
    if raw.integer(batch, "completions", default=size) != size:
        raise LeftAlone(f"{path}.completions: all pods of a training job run at once")
    if copies < 1 or size < 1 or copies * size > schema.MAX_PODS:
        raise LeftAlone(
            f"{here}: it has {copies} times {size} pods, a component has 1 to {schema.MAX_PODS}"
        )
    if len(name) > schema.LONGEST_COMPONENT:
        raise LeftAlone(
            f"{here}.name: has {len(name)} characters, a component's name at most"
            f" {schema.LONGEST_COMPONENT}"
        )
    if raw.text(batch, "completionMode", default="Indexed") != "Indexed":
        raise LeftAlone(f"{path}.completionMode: pods without an index have no host names")
    template, _ = templates.tidy(
        raw.mapping(batch, "template"), f"{path}.template", notes.append, live=item.live
    )
    pod = template.get("spec") or {}
    annotated = _with_coordinator(item, spec, template)
    for text in templates.texts(template):
        if _OTHER in text and not text.endswith("coordinator']"):
            raise LeftAlone(f"{path}.template: it reads what the JobSet controller writes ({text})")
    restart = raw.text(pod, "restartPolicy", default="OnFailure")
    if restart not in ("Never", "OnFailure"):
        raise LeftAlone(f"{path}.template.spec.restartPolicy: is {restart}")
    limit = raw.integer(batch, "backoffLimitPerIndex", default=-1)
    if limit < 0:
        limit = raw.integer(batch, "backoffLimit", default=6)
        if limit and size > 1:
            notes.append(
                f"{path}.backoffLimit {limit} counted failures of all its pods; now of each"
            )
    if deadline := raw.integer(batch, "activeDeadlineSeconds"):
        deadlines.append(deadline)
        notes.append(f"{path}.activeDeadlineSeconds is that of the whole job now")
    pod.pop("restartPolicy", None)
    component: dict[str, Any] = {"name": name, "replicas": copies * size}
    if copies > 1:
        component["podsPerJob"] = size
    component |= {"restartPolicy": restart, "backoffLimit": min(limit, jobs.MAX_BACKOFF)}
    return component | {"template": annotated}


def _with_coordinator(item: Item, spec: Obj, template: dict[str, Any]) -> dict[str, Any]:
    """The template with the annotation by which its pods find the coordinator."""
    coordinator = raw.mapping(spec, "coordinator")
    if not coordinator:
        return template
    job, index = raw.text(coordinator, "replicatedJob"), raw.integer(coordinator, "jobIndex")
    subdomain = raw.text(spec, "network", "subdomain") or item.name
    host = f"{item.name}-{job}-{index}-{raw.integer(coordinator, 'podIndex')}.{subdomain}"
    meta = raw.mapping(template, "metadata")
    annotations = {**raw.mapping(meta, "annotations"), f"{_OTHER}coordinator": host}
    return {**template, "metadata": {**meta, "annotations": annotations}}
