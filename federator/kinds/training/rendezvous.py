"""How the pods of a training job find each other: the names of its Jobs and hosts, and the
variables of each framework.

A pod's host name is its Job's name and its index in the Job, below the headless Service. A variable
can hold an index but not reckon with it, so that a pod with a rank that is not its index has a Job
of its own, and the rank is written there; in a JobSet, where all Jobs of a component are made from
one template, the rank is the number that the JobSet controller gives to the Job.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.shared import parts
from federator.kinds.training import ask
from federator.kinds.training.schema import DEFAULT_PORT
from federator.kinds.verbs import Role
from federator.model import names
from federator.model.resources import GPU

LONGEST_HOST: Final = 63
INDEX: Final = "TASK_INDEX"
"""Variable with the pod's index in its Job, for the text of TF_CONFIG."""
_INDEX_FIELD: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_JOB_FIELD: Final = "metadata.annotations['jobset.sigs.k8s.io/job-index']"
"""The number of the pod's Job among those of its component, in a JobSet."""
_RANK_FIELD: Final = "metadata.annotations['jobset.sigs.k8s.io/job-global-index']"
"""The number of the pod's Job among all of a JobSet, components in their order."""
_EVALUATOR: Final = "evaluator"
"""A role that TF_CONFIG does not count to the cluster."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that one Job runs, numbered from 0."""

    job: str
    role: Role
    component: Obj
    first: int
    """Index of its first pod in the component."""
    size: int
    rank: int
    """Of its first pod, over all components."""


def groups(obj: Obj) -> tuple[Group, ...]:
    """The Jobs of a training job, in order of rank."""
    made: list[Group] = []
    rank = 0
    pairs = zip(raw.objects(obj, "spec", "components"), ask.roles(obj), strict=True)
    for component, role in pairs:
        for number, first in enumerate(
            range(0, role.count, size := _size(obj, component, role, rank))
        ):
            job = _job_name(parts.name_of(obj), role.name, number, size)
            here = min(size, role.count - first)
            made.append(Group(job, role, component, first, here, rank + first))
        rank += role.count
    return tuple(made)


def _size(obj: Obj, component: Obj, role: Role, rank: int) -> int:
    """Pods of one Job."""
    if ask.framework(obj) == "PyTorch" and (rank or _ranked_by_job(obj)):
        return 1
    size = raw.integer(component, "podsPerJob", default=role.count)
    return min(max(size, 1), max(role.count, 1))


def _ranked_by_job(obj: Obj) -> bool:
    """Whether ranks are numbers of Jobs: then each pod has one, also in the first component."""
    return bool(ask.carrier(obj)) and len(raw.objects(obj, "spec", "components")) > 1


def _job_name(name: str, role: str, number: int, size: int) -> str:
    """`NAME-COMPONENT-NUMBER`, or a shortened name with a hash where hosts' names are too long."""
    room = LONGEST_HOST - 1 - len(str(max(size - 1, 0)))
    plain = f"{name}-{role}-{number}"
    if len(plain) <= room:
        return plain
    digest = names.short_hash(name, role, str(number))
    return f"{plain[: room - 1 - len(digest)].rstrip('-')}-{digest}"


def subdomain(obj: Obj) -> str:
    """Name of the headless Service."""
    return raw.text(obj, "spec", "subdomain") or parts.name_of(obj)


def _host(obj: Obj, group: Group, index: int) -> str:
    namespace = raw.text(obj, "metadata", "namespace")
    return f"{group.job}-{index}.{subdomain(obj)}.{namespace}.svc"


def variables(obj: Obj, group: Group, every: Sequence[Group]) -> list[dict[str, Any]]:
    """What the pods of one Job are told of the others."""
    if ask.framework(obj) == "PyTorch":
        return _pytorch(obj, group, every)
    if ask.framework(obj) == "TensorFlow":
        return _tensorflow(obj, group, every)
    return []


def _port(obj: Obj) -> int:
    return raw.integer(obj, "spec", "port", default=DEFAULT_PORT)


def _pytorch(obj: Obj, group: Group, every: Sequence[Group]) -> list[dict[str, Any]]:
    master, port = _host(obj, every[0], 0), str(_port(obj))
    world = sum(each_group.size for each_group in every)
    if group.size > 1:
        rank = _of_field(_INDEX_FIELD)
    elif _alike(obj, group, every):
        rank = _of_field(_RANK_FIELD)
    else:
        rank = {"value": str(group.rank)}
    least, elastic = _least(obj)
    nodes = f"{least}:{world}" if elastic else str(world)
    env = [
        _value("MASTER_ADDR", master),
        _value("MASTER_PORT", port),
        _value("WORLD_SIZE", str(world)),
        {"name": "RANK", **rank},
        _value("PET_NNODES", nodes),
        _value("PET_NPROC_PER_NODE", str(_processes(obj, group.role))),
    ]
    if elastic:
        return [
            *env,
            _value("PET_RDZV_BACKEND", "c10d"),
            _value("PET_RDZV_ENDPOINT", f"{master}:{port}"),
            _value("PET_RDZV_ID", parts.name_of(obj)),
        ]
    return [
        *env,
        {"name": "PET_NODE_RANK", **rank},
        _value("PET_MASTER_ADDR", master),
        _value("PET_MASTER_PORT", port),
    ]


def _least(obj: Obj) -> tuple[int, bool]:
    """(the fewest pods that may train, whether that is fewer than are wanted)."""
    least = wanted = 0
    for component in raw.objects(obj, "spec", "components"):
        replicas = max(raw.integer(component, "replicas", default=1), 1)
        wanted += replicas
        least += min(max(raw.integer(component, "minReplicas", default=replicas), 1), replicas)
    return least, least < wanted


def _processes(obj: Obj, role: Role) -> int:
    """Processes that torchrun begins in a pod: one for each GPU."""
    said = raw.integer(obj, "spec", "processesPerPod")
    if said > 0:
        return said
    gpus = 0
    for container in raw.objects(role.template, "spec", "containers"):
        for field in ("limits", "requests"):
            text = raw.at(container, "resources", field, GPU)
            if isinstance(text, str | int) and str(text).isdecimal() and len(str(text)) < 5:
                gpus += int(text)
                break
    return max(gpus, 1)


def _tensorflow(obj: Obj, group: Group, every: Sequence[Group]) -> list[dict[str, Any]]:
    cluster: dict[str, list[str]] = {}
    port = _port(obj)
    for each_group in every:
        if each_group.role.name != _EVALUATOR:
            hosts = [f"{_host(obj, each_group, index)}:{port}" for index in range(each_group.size)]
            cluster.setdefault(each_group.role.name, []).extend(hosts)
    placeholder, numbered = "@index@", _alike(obj, group, every)
    by_field = numbered or group.size > 1
    task = {"type": group.role.name, "index": placeholder if by_field else group.first}
    config = {"cluster": cluster, "task": task, "environment": "cloud"}
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    text = text.replace(f'"{placeholder}"', f"$({INDEX})")
    index = _of_field(_JOB_FIELD if numbered else _INDEX_FIELD)
    return [{"name": INDEX, **index}, _value("TF_CONFIG", text)]


def _alike(obj: Obj, group: Group, every: Sequence[Group]) -> bool:
    """Whether this Job and others of its component are made from one template."""
    return bool(ask.carrier(obj)) and sum(other.role.name == group.role.name for other in every) > 1


def _value(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value}


def _of_field(path: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
