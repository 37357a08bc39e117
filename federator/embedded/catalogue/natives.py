"""What a real API server does to an object between decoding and storing: the create and update
strategies, and admission.

All functions write into a fresh object. Status cannot be set on create, nor through the main
resource; spec cannot be set through the status sub-resource. Builtins get what their strategy
generates: a Job's selector, a Pod's phase and tolerations, and so on.
"""

from collections.abc import Callable
from typing import Any, Final

from federator.embedded.admission import pods
from federator.embedded.catalogue import crds
from federator.embedded.schema import builtins, defaults
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.validation import service_addresses

Object = dict[str, Any]

_KEEPS_STATUS: Final = frozenset({("", "nodes")})
"""Kinds for which a create request may set the status (kubelets register themselves with one)."""

_SERVER_FIELDS: Final = ("apiVersion", "kind", "metadata")


def prepare_create(obj: Object, info: ResourceInfo, *, uid: str) -> None:
    """Shapes a new object, after defaults and before validation. `uid` is the one it will have."""
    if "status" in info.subresources and info.key not in _KEEPS_STATUS:
        if info.is_builtin:
            obj["status"] = _zero_status(info)
        else:
            obj.pop("status", None)
    shape = _ON_CREATE.get(info.key) if info.is_builtin else None
    if shape is not None:
        shape(obj, uid)


def prepare_update(obj: Object, old: Object, info: ResourceInfo) -> None:
    """Shapes a changed object: its status is the old one, generated values stay when the update
    leaves them out."""
    if "status" in info.subresources:
        if "status" in old:
            obj["status"] = old["status"]
        else:
            obj.pop("status", None)
    shape = _ON_UPDATE.get(info.key) if info.is_builtin else None
    if shape is not None:
        shape(obj, old)


def prepare_status(obj: Object, old: Object, info: ResourceInfo) -> None:
    """Shapes a write to the status sub-resource: everything but the status is the old object's.

    Of metadata only what a status write may change survives: nothing for custom resources, most for
    builtins.
    """
    for key in [key for key in obj if key not in ("status", *_SERVER_FIELDS)]:
        if key not in old:
            del obj[key]
    for key, value in old.items():
        if key not in ("status", *_SERVER_FIELDS):
            obj[key] = value
    sent, before = obj.get("metadata") or {}, old.get("metadata") or {}
    if info.is_builtin:
        resets = builtins.STATUS_RESETS.get(info.key, ())
        kept = {name: value for name, value in sent.items() if name not in resets}
        kept |= {name: before[name] for name in resets if name in before}
    else:
        kept = dict(before)
        kept |= {name: sent[name] for name in ("managedFields", "resourceVersion") if name in sent}
    obj["metadata"] = kept


def _zero_status(info: ResourceInfo) -> Any:
    """The status of a new builtin: the zero value of its type, as its wire form shows it."""
    status: Object = {}
    node = info.node.fields.get("status")
    if node is not None:
        defaults.fill_native(status, node)
    return status


def _job(job: Object, uid: str) -> None:
    spec = job["spec"]
    template = spec.setdefault("template", {})
    meta = job["metadata"]
    if not spec.get("manualSelector"):
        generated = {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": meta.get("name", ""),
            "controller-uid": uid,
            "job-name": meta.get("name", ""),
        }
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        copied = meta.get("labels") == labels
        for key, value in generated.items():
            labels.setdefault(key, value)
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector.setdefault("batch.kubernetes.io/controller-uid", uid)
        if copied or not meta.get("labels"):
            # The labels of a job without its own are its template's, generated ones included.
            meta["labels"] = dict(labels)


def _namespace(namespace: Object, uid: str) -> None:
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    namespace["status"] = {"phase": "Active"}
    metadata = namespace["metadata"]
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        "kubernetes.io/metadata.name": metadata.get("name", ""),
    }


def _daemon_set(ds: Object, uid: str) -> None:
    ds["metadata"].setdefault("annotations", {})["deprecated.daemonset.template.generation"] = "1"


def _updated_pod(pod: Object, old: Object) -> None:
    _patient(pod)
    pods.tolerate(pod["spec"])


def _patient(pod: Object) -> None:
    """What is decoded as a pod, though not its template, has at least a second to end."""
    if pod["spec"].get("terminationGracePeriodSeconds", 0) < 0:
        pod["spec"]["terminationGracePeriodSeconds"] = 1


def _pod(pod: Object, uid: str) -> None:
    _patient(pod)
    pods.admit(pod)
    pod["status"] = {"phase": "Pending", "qosClass": pods.quality(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _priority_class(priority: Object, uid: str) -> None:
    if not priority.get("globalDefault"):
        priority.pop("globalDefault", None)


def _definition(crd: Object, uid: str) -> None:
    crds.share_schemas(crd)
    crd["status"] = crds.initial_status(crd)


def _updated_definition(crd: Object, old: Object) -> None:
    crds.share_schemas(crd)


def _updated_daemon_set(ds: Object, old: Object) -> None:
    annotation = "deprecated.daemonset.template.generation"
    before = int(((old.get("metadata") or {}).get("annotations") or {}).get(annotation, "1"))
    changed = ds["spec"].get("template") != old.get("spec", {}).get("template")
    ds["metadata"].setdefault("annotations", {})[annotation] = str(before + changed)


def _updated_namespace(namespace: Object, old: Object) -> None:
    namespace["spec"] = old.get("spec", {})
    namespace["status"] = old.get("status", {})


_ON_CREATE: Final[dict[tuple[str, str], Callable[[Object, str], None]]] = {
    ("", "namespaces"): _namespace,
    ("", "pods"): _pod,
    ("apps", "daemonsets"): _daemon_set,
    ("batch", "jobs"): _job,
    ("scheduling.k8s.io", "priorityclasses"): _priority_class,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _definition,
}

_ON_UPDATE: Final[dict[tuple[str, str], Callable[[Object, Object], None]]] = {
    ("", "namespaces"): _updated_namespace,
    ("", "pods"): _updated_pod,
    ("", "services"): service_addresses.keep,
    ("apps", "daemonsets"): _updated_daemon_set,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _updated_definition,
}
