"""Validation of the other builtins (Service, Ingress, ConfigMap, ...), and the table of all rules by kind.

A kind without a row is stored as its schema lets it through.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from federator.embedded import cron_rules, pod_rules, scalars, workload_rules
from federator.embedded.fielderrors import (
    FieldError,
    GoStruct,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from federator.embedded.metadata_rules import dns_label, label_value, qualified_name, subdomain
from federator.embedded.patches import same
from federator.embedded.pod_rules import named, nonnegative, one_of, port_number, port_or_name
from federator.embedded.resources import ResourceInfo

Struct = Mapping[str, Any]
Rule = Callable[[Struct, Struct | None], Iterator[FieldError]]

_MAX_DATA_BYTES: Final = 1024 * 1024
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_SERVICE_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_HIGHEST_PRIORITY: Final = 1_000_000_000


def check(obj: Struct, old: Struct | None, info: ResourceInfo, subresource: str) -> list[FieldError]:
    """Complaints about a builtin beyond its metadata. A status write is not held against the rules of the spec."""
    rule = _RULES.get(info.key)
    if rule is None or subresource:
        return []
    return list(rule(obj, old))


def _pod(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    if old is not None and same(spec, old.get("spec")):
        return
    yield from pod_rules.spec(spec, "spec")
    if old is not None:
        yield from _pod_update(spec, old.get("spec") or {})


_POD_FIXED_TEXT: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _pod_update(spec: Struct, before: Struct) -> Iterator[FieldError]:
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(before.get(kind) or ()):
            yield forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
            return
    if any(toleration not in (spec.get("tolerations") or ()) for toleration in before.get("tolerations") or ()):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    if not same(_fixed_pod(spec), _fixed_pod(before)):
        yield forbidden("spec", _POD_FIXED_TEXT)


def _fixed_pod(spec: Struct) -> dict[str, Any]:
    fixed = {k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations", "schedulingGates")}
    for kind in ("containers", "initContainers"):
        if kind in fixed:
            fixed[kind] = [{k: v for k, v in container.items() if k != "image"} for container in fixed[kind]]
    return fixed


def _pod_template(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    yield from pod_rules.template(obj.get("template") or {}, "template")


def _service(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if kind == "ExternalName":
        if not spec.get("externalName"):
            yield required("spec.externalName")
        else:
            yield from named(spec["externalName"].removesuffix("."), subdomain, "spec.externalName")
    elif kind == "LoadBalancer" and headless:
        yield invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for LoadBalancer services")
    elif kind == "NodePort" and headless:
        yield invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for NodePort services")
    names: set[str] = set()
    for index, port in enumerate(ports):
        yield from _service_port(port, f"spec.ports[{index}]", len(ports) > 1, names)
    yield from _service_selector(spec)
    affinity = spec.get("sessionAffinity")
    yield from one_of(affinity, ("ClientIP", "None"), "spec.sessionAffinity")
    yield from one_of(kind, _SERVICE_TYPES, "spec.type")
    yield from _port_uniqueness(ports)
    yield from _addresses(spec)
    if old is not None:
        yield from _service_update(spec, old.get("spec") or {})


def _service_port(port: Struct, at: str, needs_name: bool, names: set[str]) -> Iterator[FieldError]:
    name = port.get("name", "")
    if needs_name and not name:
        yield required(f"{at}.name")
    elif name:
        yield from named(name, dns_label, f"{at}.name")
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
    yield from port_number(port.get("port"), f"{at}.port")
    yield from one_of(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{at}.protocol")
    yield from port_or_name(port.get("targetPort", 0), f"{at}.targetPort")
    if port.get("appProtocol"):
        yield from named(port["appProtocol"], qualified_name, f"{at}.appProtocol")


def _service_selector(spec: Struct) -> Iterator[FieldError]:
    for key, value in sorted((spec.get("selector") or {}).items()):
        for text in qualified_name(key):
            yield invalid("spec.selector", key, text)
        for text in label_value(value):
            yield invalid("spec.selector", value, text)


def _port_uniqueness(ports: list[Struct]) -> Iterator[FieldError]:
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            printed = GoStruct(Name="", Protocol=key[0], AppProtocol=None, Port=key[1], TargetPort=0, NodePort=0)
            yield duplicate(f"spec.ports[{index}]", printed)
        seen.add(key)


def _addresses(spec: Struct) -> Iterator[FieldError]:
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        if address == "None":
            continue
        try:
            ipaddress.ip_address(address)
        except ValueError:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(f"spec.clusterIPs[{index}]", address, text)


def _service_update(spec: Struct, before: Struct) -> Iterator[FieldError]:
    fixed = "ExternalName" not in (spec.get("type"), before.get("type"))
    old = before.get("clusterIPs") or []
    new = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    if fixed and old and new[:1] != old[:1]:
        yield invalid("spec.clusterIPs[0]", new or None, "may not change once set")


def _config_map(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    total = 0
    for kind in ("data", "binaryData"):
        for key, value in sorted((obj.get(kind) or {}).items()):
            yield from _config_key(key, kind)
            if kind == "binaryData" and key in (obj.get("data") or {}):
                yield invalid(f"data[{key}]", key, f"duplicate of key present in {'binaryData'}")
            total += len(value)
    if total > _MAX_DATA_BYTES:
        yield too_long("", _MAX_DATA_BYTES)
    yield from _sealed(obj, old, ("data", "binaryData"))


def _config_key(key: str, kind: str) -> Iterator[FieldError]:
    if len(key) > 253:
        yield invalid(f"{kind}[{key}]", key, "must be no more than 253 bytes")
    if not _CONFIG_KEY.fullmatch(key):
        yield invalid(f"{kind}[{key}]", key, _CONFIG_KEY_TEXT)
    elif key in (".", "..") or key.startswith(".."):
        problem = f"must not be '{key}'" if key in (".", "..") else "must not start with '..'"
        yield invalid(f"{kind}[{key}]", key, problem)


def _sealed(obj: Struct, old: Struct | None, keys: tuple[str, ...]) -> Iterator[FieldError]:
    """What `immutable: true` forbids."""
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield forbidden("immutable", "field is immutable when `immutable` is set")
    for key in keys:
        if not same(obj.get(key), old.get(key)):
            yield forbidden(key, "field is immutable when `immutable` is set")


def _secret(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    if old is not None and obj.get("type") != old.get("type"):
        yield invalid("type", obj.get("type"), "field is immutable")
    yield from _sealed(obj, old, ("data",))
    total = 0
    for key, value in sorted((obj.get("data") or {}).items()):
        yield from _config_key(key, "data")
        total += len(value) * 3 // 4
    if total > _MAX_DATA_BYTES:
        yield too_long("data", _MAX_DATA_BYTES)
    needs = {"kubernetes.io/tls": ("tls.crt", "tls.key"), "kubernetes.io/dockerconfigjson": (".dockerconfigjson",)}
    for key in needs.get(obj.get("type", ""), ()):
        if key not in (obj.get("data") or {}):
            yield required(f"data[{key}]")


def _ingress(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    if not spec.get("rules") and "defaultBackend" not in spec:
        # A real server prints the empty list of rules it looked at.
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if "defaultBackend" in spec:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        at, host = f"spec.rules[{index}]", rule.get("host", "")
        if host:
            try:
                ipaddress.ip_address(host)
                yield invalid(f"{at}.host", host, "must be a DNS name, not an IP address")
            except ValueError:
                yield from named(host.removeprefix("*."), subdomain, f"{at}.host")
        if "http" in rule:
            paths = (rule["http"] or {}).get("paths") or []
            if not paths:
                yield required(f"{at}.http.paths")
            for position, path in enumerate(paths):
                yield from _ingress_path(path, f"{at}.http.paths[{position}]")


def _ingress_path(path: Struct, at: str) -> Iterator[FieldError]:
    kind, where = path.get("pathType"), path.get("path", "")
    if kind is None:
        yield required(f"{at}.pathType", "pathType must be specified")
        return
    if kind in ("Exact", "Prefix"):
        if not where.startswith("/"):
            yield invalid(f"{at}.path", where, "must be an absolute path")
        for part in ("//", "/./", "/../", "%2f", "%2F"):
            if part in where:
                yield invalid(f"{at}.path", where, f"must not contain '{part}'")
    elif kind == "ImplementationSpecific":
        if where and not where.startswith("/"):
            yield invalid(f"{at}.path", where, "must be an absolute path")
    else:
        yield not_supported(f"{at}.pathType", kind, ("Exact", "ImplementationSpecific", "Prefix"))
    yield from _backend(path.get("backend") or {}, f"{at}.backend")


def _backend(backend: Struct, at: str) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        yield invalid(at, "", "resource or service backend is required")
        return
    if service is None:
        return
    if resource is not None:
        yield invalid(at, "", "cannot set both resource and service backends")
        return
    if not service.get("name"):
        yield required(f"{at}.service.name")
    else:
        yield from named(service["name"], dns_label, f"{at}.service.name")
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        yield invalid(at, "", "cannot set both port name & port number")
    elif port.get("name"):
        yield from named(port["name"], pod_rules.port_name, f"{at}.service.port.name")
    elif port.get("number"):
        yield from port_number(port["number"], f"{at}.service.port.number")
    else:
        yield required(at, "port name or number is required")


def _budget(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        printed = GoStruct(
            MinAvailable=spec["minAvailable"],
            Selector=spec.get("selector"),
            MaxUnavailable=spec["maxUnavailable"],
            UnhealthyPodEvictionPolicy=spec.get("unhealthyPodEvictionPolicy"),
        )
        yield invalid("spec", printed, "minAvailable and maxUnavailable cannot be both set")
    for key in ("minAvailable", "maxUnavailable"):
        if isinstance(spec.get(key), int):
            yield from nonnegative(spec[key], f"spec.{key}")
    yield from workload_rules.selector(spec.get("selector"), "spec.selector")


def _autoscaler(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for key in ("kind", "name"):
        if not target.get(key):
            yield required(f"spec.scaleTargetRef.{key}")
    version = target.get("apiVersion", "")
    if "/" not in version:
        yield invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")


def _claim(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in spec.get("accessModes") or ():
        if mode not in _ACCESS_MODES:
            yield not_supported("spec.accessModes", mode, _ACCESS_MODES)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        yield required("spec.resources[storage]")
    elif scalars.amount(storage) <= 0:
        yield invalid("spec.resources[storage]", storage, "must be greater than zero")


def _lease(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from nonnegative(spec.get("leaseTransitions"), "spec.leaseTransitions")


def _priority_class(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    name, value = (obj.get("metadata") or {}).get("name", ""), obj.get("value", 0)
    if name.startswith("system-") and old is None:
        text = "priority class names with 'system-' prefix are reserved for system use only. error: "
        yield forbidden("metadata.name", f"{text}{name} is not a known system priority class")
    if value > _HIGHEST_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}")
    if old is not None and value != old.get("value", 0):
        yield forbidden("value", "may not be changed in an update.")


def _role_binding(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    reference, namespaced = obj.get("roleRef") or {}, obj.get("kind") == "RoleBinding"
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        yield not_supported("roleRef.kind", reference.get("kind"), kinds)
    if not reference.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(obj.get("subjects") or ()):
        at = f"subjects[{index}]"
        if not subject.get("name"):
            yield required(f"{at}.name")
        if subject.get("kind") not in ("ServiceAccount", "User", "Group"):
            yield not_supported(f"{at}.kind", subject.get("kind"), ("ServiceAccount", "User", "Group"))
        elif subject["kind"] == "ServiceAccount" and not namespaced and not subject.get("namespace"):
            yield required(f"{at}.namespace")
    if old is not None and not same(reference, old.get("roleRef")):
        yield invalid("roleRef", reference, "cannot change roleRef")


def _role(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    for index, rule in enumerate(obj.get("rules") or ()):
        at = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{at}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            continue
        if not rule.get("apiGroups"):
            yield required(f"{at}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{at}.resources", "resource rules must supply at least one resource")


_RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "pods"): _pod,
    ("", "podtemplates"): _pod_template,
    ("", "services"): _service,
    ("", "configmaps"): _config_map,
    ("", "secrets"): _secret,
    ("", "persistentvolumeclaims"): _claim,
    ("apps", "deployments"): workload_rules.deployment,
    ("apps", "replicasets"): workload_rules.replica_set,
    ("apps", "daemonsets"): workload_rules.daemon_set,
    ("apps", "statefulsets"): workload_rules.stateful_set,
    ("batch", "jobs"): workload_rules.job,
    ("batch", "cronjobs"): cron_rules.cron_job,
    ("networking.k8s.io", "ingresses"): _ingress,
    ("policy", "poddisruptionbudgets"): _budget,
    ("autoscaling", "horizontalpodautoscalers"): _autoscaler,
    ("coordination.k8s.io", "leases"): _lease,
    ("scheduling.k8s.io", "priorityclasses"): _priority_class,
    ("rbac.authorization.k8s.io", "rolebindings"): _role_binding,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _role_binding,
    ("rbac.authorization.k8s.io", "roles"): _role,
    ("rbac.authorization.k8s.io", "clusterroles"): _role,
}
