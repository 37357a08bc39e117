"""PinterestService -> ServiceAccount, ConfigMap, PodDisruptionBudget, Deployment,
HorizontalPodAutoscaler, Service, ServiceExport, HTTPRoutes or Ingress.

Both of the last are given where a Gateway is named: which of them a cluster gets depends on what it
serves (`natives.as_served`).
"""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import natives, verbs
from federator.kinds.labels import AUTOSCALED_ANNOTATION
from federator.kinds.natives import NATIVES
from federator.kinds.service import ask, scaling
from federator.kinds.service.schema import SELECTOR_LABEL
from federator.kinds.shared import parts, ports, workloads
from federator.model import names

COMPONENT: Final = "service"
REVISIONS_KEPT: Final = 3
_CARRIED: Final = ("sessionAffinity", "publishNotReadyAddresses")
"""Fields of `spec.service` that a Service has under the same name."""


def expand(obj: Obj, profile: Obj | None) -> tuple[dict[str, Any], ...]:
    """The native objects of one slice, those that others need first. Raises FieldError as injection
    does.
    """
    mark = workloads.read_mark(obj)
    return (
        *parts.service_account(obj, mark, COMPONENT),
        *parts.config_map(obj, mark, COMPONENT),
        *_disruption_budget(obj, mark),
        _deployment(obj, mark, profile),
        *_autoscaler(obj, mark),
        *(_service(obj, mark, name, fields) for name, fields in _asked(obj)),
        *_exports(obj, mark),
        *_routes(obj, mark, profile),
        *_ingress(obj, mark, profile),
    )


def _selector(obj: Obj) -> dict[str, str]:
    return {SELECTOR_LABEL: parts.name_of(obj)}


def _metadata(obj: Obj, mark: verbs.SliceMark | None) -> dict[str, Any]:
    meta = parts.metadata(obj, mark, parts.name_of(obj), COMPONENT)
    meta["labels"] |= _selector(obj)
    return meta


def _disruption_budget(obj: Obj, mark: verbs.SliceMark | None) -> list[dict[str, Any]]:
    """What drains of this cluster's nodes leave running. Pods that are not ready anyway may always
    be evicted: a service that crashes must not keep its nodes from being emptied."""
    allowed = ask.budget(obj)
    if allowed is None:
        return []
    spec = {
        "maxUnavailable": allowed,
        "selector": {"matchLabels": _selector(obj)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return [natives.made("PodDisruptionBudget", _metadata(obj, mark), spec)]


def _deployment(obj: Obj, mark: verbs.SliceMark | None, profile: Obj | None) -> dict[str, Any]:
    strategy = raw.mapping(obj, "spec", "updateStrategy")
    spec: dict[str, Any] = {
        "replicas": ask.count(obj),
        "revisionHistoryLimit": REVISIONS_KEPT,
        "selector": {"matchLabels": _selector(obj)},
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {
                "maxSurge": strategy.get("maxSurge", "25%"),
                "maxUnavailable": strategy.get(
                    "maxUnavailable", f"{ask.DEFAULT_MAX_UNAVAILABLE_PERCENT}%"
                ),
            },
        },
        "template": parts.pod_template(obj, profile, _selector(obj), batch=False, config_hash=True),
    }
    for field in ("minReadySeconds", "progressDeadlineSeconds"):
        if field in strategy:
            spec[field] = raw.integer(strategy, field)
    meta = _metadata(obj, mark)
    if (bounds := ask.bounds(obj)) is not None:
        spec["replicas"] = scaling.bounds(scaling.of(obj), ask.count(obj))[0]
        meta["annotations"] = {AUTOSCALED_ANNOTATION: f"{bounds[0]}-{bounds[1]}"}
    return natives.made("Deployment", meta, spec)


def _autoscaler(obj: Obj, mark: verbs.SliceMark | None) -> list[dict[str, Any]]:
    scaled = scaling.of(obj)
    if not scaled or scaling.by_member(scaled):
        return []
    spec = scaling.spec_of(scaled, ask.count(obj), parts.name_of(obj))
    return [natives.made("HorizontalPodAutoscaler", _metadata(obj, mark), spec)]


def _asked(obj: Obj) -> list[tuple[str, Obj]]:
    """Name and fields of the Service of the workload's name, and of the further ones over the same
    pods.
    """
    asked = [
        (parts.name_of(obj), raw.mapping(obj, "spec", "service")),
        *(
            (raw.text(service, "name"), service)
            for service in raw.objects(obj, "spec", "additionalServices")
        ),
    ]
    return [(name, fields) for name, fields in asked if raw.items(fields, "ports")]


def _exports(obj: Obj, mark: verbs.SliceMark | None) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": NATIVES["ServiceExport"].api_version,
            "kind": "ServiceExport",
            "metadata": {**_metadata(obj, mark), "name": name},
        }
        for name, fields in _asked(obj)
        if raw.flag(fields, "export")
    ]


def _service(obj: Obj, mark: verbs.SliceMark | None, name: str, asked: Obj) -> dict[str, Any]:
    listed = raw.objects(asked, "ports")
    spec: dict[str, Any] = {
        "type": raw.text(asked, "type", default="ClusterIP"),
        "selector": _selector(obj),
        "ports": [_port(port, alone=len(listed) == 1) for port in listed],
    }
    if raw.flag(asked, "headless"):
        spec["clusterIP"] = "None"
    spec |= {field: asked[field] for field in _CARRIED if field in asked}
    meta = {**_metadata(obj, mark), "name": name}
    annotations = raw.text_map(asked, "annotations")
    if annotations:
        meta["annotations"] = annotations
    return natives.made("Service", meta, spec)


def _port(port: Obj, *, alone: bool) -> dict[str, Any]:
    written = ports.written(port, alone=alone)
    if "nodePort" in port:
        written["nodePort"] = raw.integer(port, "nodePort")
    return written


def _doors(obj: Obj) -> dict[str, list[tuple[str, int]]]:
    """host -> (prefix of the path, port) of its doors, in the order in which the hosts are first
    named; "" speaks for every host.
    """
    hosts: dict[str, list[tuple[str, int]]] = {}
    if raw.objects(obj, "spec", "service", "ports"):
        for door in raw.objects(obj, "spec", "loadBalancers"):
            path = raw.text(door, "path", default="/"), raw.integer(door, "port")
            hosts.setdefault(raw.text(door, "host"), []).append(path)
    return hosts


def _routes(obj: Obj, mark: verbs.SliceMark | None, profile: Obj | None) -> list[dict[str, Any]]:
    """One HTTPRoute per host, as an API server completes it: host names of a route hold for all of
    its rules. The first has the workload's name.
    """
    gateway = raw.mapping(obj, "spec", "gateway") or raw.mapping(profile, "spec", "gateway")
    if not gateway:
        return []
    parent = {"group": "gateway.networking.k8s.io", "kind": "Gateway", **gateway}
    name = parts.name_of(obj)
    made: list[dict[str, Any]] = []
    for host, doors in _doors(obj).items():
        rules = [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": path}}],
                "backendRefs": [
                    {"group": "", "kind": "Service", "name": name, "port": port, "weight": 1}
                ],
            }
            for path, port in doors
        ]
        spec: dict[str, Any] = {"parentRefs": [parent], "rules": rules}
        if host:
            spec["hostnames"] = [host]
        meta = _metadata(obj, mark)
        if made:
            meta["name"] = f"{name}-{names.short_hash(host)}"
        made.append(natives.made("HTTPRoute", meta, spec))
    return made


def _ingress(obj: Obj, mark: verbs.SliceMark | None, profile: Obj | None) -> list[dict[str, Any]]:
    """One rule per host."""
    hosts = _doors(obj)
    if not hosts:
        return []
    rules = [
        {
            **({"host": host} if host else {}),
            "http": {"paths": [_path(obj, path, port) for path, port in doors]},
        }
        for host, doors in hosts.items()
    ]
    spec: dict[str, Any] = {"rules": rules}
    class_name = raw.text(profile, "spec", "ingressClassName")
    if class_name:
        spec["ingressClassName"] = class_name
    return [natives.made("Ingress", _metadata(obj, mark), spec)]


def _path(obj: Obj, path: str, port: int) -> dict[str, Any]:
    backend = {"service": {"name": parts.name_of(obj), "port": {"number": port}}}
    return {"path": path, "pathType": "Prefix", "backend": backend}
