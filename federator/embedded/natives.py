"""What a real API server does to an object between decoding and storing: the create and update strategies, and
admission.

All functions write into a fresh object. Status cannot be set on create, nor through the main resource; spec cannot be
set through the status sub-resource. Builtins get what their strategy generates: a Job's selector, a Pod's phase and
tolerations, and so on.
"""

from collections.abc import Callable
from typing import Any, Final

from federator.embedded import crds, defaults, pod_admission
from federator.embedded.pruning import copy_json
from federator.embedded.resources import ResourceInfo
from federator.embedded.schema import Node

Object = dict[str, Any]

_KEEPS_STATUS: Final = frozenset({("", "nodes")})
"""Kinds whose status may be set on create (kubelets register themselves with one)."""

_SERVER_FIELDS: Final = ("apiVersion", "kind", "metadata")
GENERATED_SERVICE_FIELDS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


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
    """Shapes a changed object: its status is the old one, generated values stay when the update leaves them out."""
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

    Of metadata only what a status write may change survives: nothing for custom resources, and for builtins labels and
    annotations of pods and nodes.
    """
    for key in [key for key in obj if key not in ("status", *_SERVER_FIELDS)]:
        if key not in old:
            del obj[key]
    for key, value in old.items():
        if key not in ("status", *_SERVER_FIELDS):
            obj[key] = value
    sent = obj.get("metadata") or {}
    kept = dict(old.get("metadata") or {})
    if "managedFields" in sent:
        kept["managedFields"] = sent["managedFields"]
    if info.key in _STATUS_MAY_LABEL:
        for name in ("labels", "annotations"):
            kept.pop(name, None)
            if name in sent:
                kept[name] = sent[name]
    if "resourceVersion" in sent:
        kept["resourceVersion"] = sent["resourceVersion"]
    obj["metadata"] = kept


_STATUS_MAY_LABEL: Final = frozenset({("", "pods"), ("", "nodes")})


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
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata.get("name", "")}


def _daemon_set(ds: Object, uid: str) -> None:
    ds["metadata"].setdefault("annotations", {})["deprecated.daemonset.template.generation"] = "1"


def _pod(pod: Object, uid: str) -> None:
    pod_admission.admit(pod)
    pod["status"] = {"phase": "Pending", "qosClass": pod_admission.quality(pod)}


def _priority_class(priority: Object, uid: str) -> None:
    if not priority.get("globalDefault"):
        priority.pop("globalDefault", None)


def _definition(crd: Object, uid: str) -> None:
    crds.share_schemas(crd)
    crd["status"] = crds.initial_status(crd)


def _updated_definition(crd: Object, old: Object) -> None:
    crds.share_schemas(crd)


def _updated_service(service: Object, old: Object) -> None:
    """Addresses and node ports stay when an update leaves them out."""
    spec, before = service["spec"], old.get("spec", {})
    if spec.get("type") == "ExternalName" or before.get("type") == "ExternalName":
        return
    _follow_cluster_ip(spec, before)
    if not spec.get("clusterIP") and "clusterIPs" not in spec:
        for key in GENERATED_SERVICE_FIELDS:
            if key in before and key not in spec:
                spec[key] = copy_json(before[key])
    elif spec.get("clusterIP") == before.get("clusterIP"):
        for key in GENERATED_SERVICE_FIELDS[1:]:
            if key in before and key not in spec:
                spec[key] = copy_json(before[key])
    _keep_node_ports(spec, before)


def _follow_cluster_ip(spec: Object, before: Object) -> None:
    """`clusterIP` and `clusterIPs` say the same; an update of one of them moves the other along."""
    one, many = spec.get("clusterIP", ""), spec.get("clusterIPs")
    if one and one != before.get("clusterIP", "") and many == before.get("clusterIPs"):
        spec["clusterIPs"] = [one]
    elif many and many != before.get("clusterIPs") and one == before.get("clusterIP", ""):
        spec["clusterIP"] = many[0]


def _keep_node_ports(spec: Object, before: Object) -> None:
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        ports = {(port.get("port"), port.get("protocol")): port for port in before.get("ports", ())}
        for port in spec.get("ports", ()):
            known = ports.get((port.get("port"), port.get("protocol")))
            if known is not None and "nodePort" in known:
                port.setdefault("nodePort", known["nodePort"])
    elif before.get("type") in ("NodePort", "LoadBalancer"):
        # Going back to an internal service gives the node ports up.
        old_ports = {port.get("nodePort") for port in before.get("ports", ())}
        for port in spec.get("ports", ()):
            if port.get("nodePort") in old_ports:
                port.pop("nodePort", None)


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
    ("", "services"): _updated_service,
    ("apps", "daemonsets"): _updated_daemon_set,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _updated_definition,
}


def allocate_service_addresses(
    service: Object, ip: Callable[[], str], port: Callable[[], int], old: Object | None = None
) -> None:
    """Fills in the addresses and node ports of a Service. `ip` and `port` give free ones, once per value needed."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = (spec.get("clusterIPs") or [None])[0] or ip()
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    # A headless service without a selector may point anywhere, so it is given both families.
    anywhere = spec["clusterIP"] == "None" and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if anywhere else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anywhere else "SingleStack")
    wants_ports = spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    )
    if wants_ports:
        for item in spec.get("ports", ()):
            if not item.get("nodePort"):
                item["nodePort"] = port()


def status_node(info: ResourceInfo) -> Node | None:
    """The schema of the status, or None."""
    return info.node.fields.get("status")
