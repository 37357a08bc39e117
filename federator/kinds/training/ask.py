"""What a PinterestTrainingJob asks of placement, and the slice of it that a cluster is given.

All its pods together are one shard: placed in one cluster or not at all, moved as a whole, complete
or failed as a whole.
"""

from dataclasses import replace
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import natives
from federator.kinds.pods import podparts
from federator.kinds.shared import workloads
from federator.kinds.training.schema import (
    ENDLESS,
    KIND,
    LONGEST_POD,
    MAX_SINGLE_JOBS,
)
from federator.kinds.verbs import Role, SliceMark
from federator.model.decision import Share
from federator.model.errors import FieldError

DEFAULTS: Final[dict[str, Any]] = {"tier": "OnDemand", "framework": "PyTorch"}
GPU_MODEL_LABEL: Final = "nvidia.com/gpu.product"
_SHARED: Final = ("serviceAccountName", "serviceAccount", "priorityClassName")
"""Fields of a pod that need leave: all templates of a job say the same."""


def count(obj: Obj) -> int:
    return 1


def roles(obj: Obj) -> tuple[Role, ...]:
    """Its components; on a slice with the pods that they were given."""
    mark = workloads.read_mark(obj)
    given = mark.pods if mark is not None else ()
    components = raw.objects(obj, "spec", "components")
    made: list[Role] = []
    for index, component in enumerate(components):
        wanted = max(raw.integer(component, "replicas", default=1), 1)
        least = min(max(raw.integer(component, "minReplicas", default=wanted), 1), wanted)
        if len(given) == len(components):
            wanted = least = given[index]
        own = raw.mapping(component, "template")
        path = f"spec.components[{index}].template" if own else "spec.template"
        template = own or raw.mapping(obj, "spec", "template")
        models = raw.texts(component, "gpuModels")
        if models:
            template = _on_models(template, models)
        made.append(Role(raw.text(component, "name"), template, path, wanted, least))
    return tuple(made)


def pod_template(obj: Obj) -> Obj:
    """Of the first component; `roles` has all of them."""
    every = roles(obj)
    return every[0].template if every else workloads.pod_template(obj)


def pods(obj: Obj) -> dict[str, Any]:
    components = list(raw.items(obj, "spec", "components"))
    return podparts.of(obj) | raw.present({"components": components})


def completes(obj: Obj) -> frozenset[str]:
    named = raw.texts(obj, "spec", "completesWith")
    if named:
        return frozenset(named)
    every = frozenset(role.name for role in roles(obj))
    ending = every - ENDLESS if framework(obj) == "TensorFlow" else every
    return ending or every


def framework(obj: Obj) -> str:
    return raw.text(obj, "spec", "framework", default="PyTorch")


def carrier(obj: Obj) -> str:
    """The kind of the one object that its Jobs are made from in the cluster: JobSet or TrainJob; ""
    where it becomes the Jobs themselves."""
    target = raw.text(obj, "spec", "target")
    return target if target in natives.OF_OPERATORS else ""


def needs(obj: Obj) -> tuple[str, ...]:
    kind = carrier(obj)
    return (natives.qualified(kind),) if kind else ()


def timeout_s(obj: Obj) -> float:
    return float(max(raw.integer(obj, "spec", "gangTimeoutSeconds", default=600), 10))


def refusal(obj: Obj) -> FieldError | None:
    """What the schema cannot say, or what objects may hold that were written past it."""
    components = raw.objects(obj, "spec", "components")
    if not components:
        return FieldError("spec.components", "a training job has at least one component")
    first = 0
    for index, (component, role) in enumerate(zip(components, roles(obj), strict=True)):
        path = f"spec.components[{index}]"
        size = raw.integer(component, "podsPerJob", default=role.count)
        if not role.template:
            return FieldError(f"{path}.template", "is required where spec.template is left out")
        if framework(obj) != "Custom" and 1 < size < role.count:
            return FieldError(f"{path}.podsPerJob", "is 1, or left out, unless framework is Custom")
        if framework(obj) == "PyTorch" and first and role.count > MAX_SINGLE_JOBS:
            return FieldError(
                f"{path}.replicas",
                f"is {role.count}: behind another component, at most {MAX_SINGLE_JOBS} pods are"
                " given ranks, each in a Job of its own; let the first component have all pods,"
                " its pod 0 is the master",
            )
        first += role.count
    return _differing(obj) or (_uncarried(obj, components) if carrier(obj) else None)


def _uncarried(obj: Obj, components: list[Obj]) -> FieldError | None:
    """What a JobSet cannot hold: the Jobs of one component are made from one template there, and
    are named by the JobSet controller."""
    kind = carrier(obj)
    for index, (component, role) in enumerate(zip(components, roles(obj), strict=True)):
        path = f"spec.components[{index}]"
        size = max(raw.integer(component, "podsPerJob", default=role.count), 1)
        if size < role.count and role.count % size:
            return FieldError(
                f"{path}.podsPerJob",
                f"is {size}, and {role.count} pods are no multiple of it: all Jobs of a component"
                f" are alike in a {kind}",
            )
        pod = f"{raw.text(obj, 'metadata', 'name')}-{role.name}-{role.count}-{role.count}-abcde"
        if len(pod) > LONGEST_POD:
            return FieldError(
                f"{path}.name",
                f"makes pods called {pod!r}, {len(pod)} characters; in a {kind} there may be"
                f" {LONGEST_POD}: give the job, or the component, a shorter name",
            )
    return None


def _differing(obj: Obj) -> FieldError | None:
    every = roles(obj)
    for field in _SHARED:
        for role in every[1:]:
            named = [raw.text(compared.template, "spec", field) for compared in (every[0], role)]
            if named[0] != named[1]:
                message = f"is {named[1]!r}, and {named[0]!r} at {every[0].path}: all are alike"
                return FieldError(f"{role.path}.spec.{field}", message)
    return None


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    if not mark.ranges:
        mark = replace(mark, ranges=share.ranges)
    spec = workloads.slice_spec(obj, mark, DEFAULTS)
    return workloads.rendered(KIND, obj, mark, spec)


def _on_models(template: Obj, models: tuple[str, ...]) -> dict[str, Any]:
    """The template on nodes with one of these GPU models, beside what it requires itself."""
    wanted = {"key": GPU_MODEL_LABEL, "operator": "In", "values": list(models)}
    spec = raw.mapping(template, "spec")
    affinity, of_nodes = (
        raw.mapping(spec, "affinity"),
        raw.mapping(spec, "affinity", "nodeAffinity"),
    )
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = raw.objects(of_nodes, field, "nodeSelectorTerms") or [raw.NO_FIELDS]
    narrowed = [
        {**term, "matchExpressions": [*raw.items(term, "matchExpressions"), wanted]}
        for term in terms
    ]
    required = {field: {"nodeSelectorTerms": narrowed}}
    affinity = {**affinity, "nodeAffinity": {**of_nodes, **required}}
    return {**template, "spec": {**spec, "affinity": affinity}}
