"""Ways to find the pods of a workload in a member, from which kinds choose theirs
(`verbs.PodLookup`).

Pods carry no mark of the federation: a mark in their template would replace every pod. They are
those that the native object's own selector takes, in the workload's namespace, and that a
ReplicaSet of its Deployment, a Job, its DaemonSet, or a StatefulSet made.
"""

from collections.abc import Callable, Mapping
from typing import Final

from federator.api import raw
from federator.api.raw import Obj
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors

HASH_LABEL: Final = "pod-template-hash"


def by_label(label: str) -> Callable[[Obj], str]:
    """The selector of pods that carry the workload's name in this label."""
    return lambda obj: f"{label}={raw.text(obj, 'metadata', 'name')}"


def by_spec_selector(obj: Obj) -> str:
    """The selector that stands in spec.selector. Raises FieldError for one that selects none."""
    chosen = raw.mapping(obj, "spec", "selector")
    labels = selectors.to_text(selectors.from_dict(chosen, "spec.selector"))
    if not labels:
        raise FieldError("spec.selector", "selects no pods by their labels")
    return labels


def of_replica_set(name: str, owner: Obj, labels: Mapping[str, str]) -> bool:
    """Made by a ReplicaSet of the Deployment of the workload's name."""
    made_by = f"{name}-{labels.get(HASH_LABEL, '')}"
    return owner.get("kind") == "ReplicaSet" and owner.get("name") == made_by


def of_job(name: str, owner: Obj, labels: Mapping[str, str]) -> bool:
    """Made by a Job; the selector has the workload's name."""
    return owner.get("kind") == "Job"


def of_daemon_set(name: str, owner: Obj, labels: Mapping[str, str]) -> bool:
    """Made by the DaemonSet of the workload's name."""
    return owner.get("kind") == "DaemonSet" and owner.get("name") == name


def of_stateful_set(name: str, owner: Obj, labels: Mapping[str, str]) -> bool:
    """Made by a StatefulSet; the selector has the workload's name."""
    return owner.get("kind") == "StatefulSet"
