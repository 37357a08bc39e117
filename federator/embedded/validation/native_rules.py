"""Validation of the other builtins (ConfigMap, Secret, claims, RBAC, ...), and the table of all
rules by kind.

A kind without a row is stored as its schema lets it through.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from federator.embedded.apply.patches import same
from federator.embedded.storage.field_errors import (
    FieldError,
    GoStruct,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.validation import (
    claim_rules,
    cron_rules,
    event_rules,
    pod_rules,
    service_rules,
    status_rules,
    workload_rules,
)
from federator.embedded.validation.pod_rules import nonnegative

Struct = Mapping[str, Any]
Rule = Callable[[Struct, Struct | None], Iterator[FieldError]]

_MAX_DATA_BYTES: Final = 1024 * 1024
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',"
    "  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_EVICTION: Final = ("AlwaysAllow", "IfHealthyBudget")
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_HIGHEST_PRIORITY: Final = 1_000_000_000


def check(
    obj: Struct, old: Struct | None, info: ResourceInfo, subresource: str
) -> list[FieldError]:
    """Complaints about a builtin beyond its metadata. A status write is not held against the rules
    of the spec."""
    if subresource == "status":
        return list(status_rules.check(obj, info.key))
    rule = _RULES.get(info.key)
    if rule is None or subresource:
        return []
    return list(rule(obj, old))


def _node(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
        yield from pod_rules.taint(taint, f"metadata.taints[{index}]")


def _pod(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    if old is not None and same(spec, old.get("spec")):
        return
    yield from pod_rules.spec(spec, "spec")
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            image = container.get("image", "")
            # In templates a real server lets it pass.
            if image != image.strip():
                yield invalid(
                    f"spec.{kind}[{index}].image",
                    image,
                    "must not have leading or trailing whitespace",
                )
    if old is not None:
        yield from _pod_update(spec, old.get("spec") or {})


_POD_FIXED_TEXT: Final = (
    "pod updates may not change fields other than"
    " `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _pod_update(spec: Struct, before: Struct) -> Iterator[FieldError]:
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(before.get(kind) or ()):
            yield forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
            return
    if any(
        toleration not in (spec.get("tolerations") or ())
        for toleration in before.get("tolerations") or ()
    ):
        yield forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )
    gates_before = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in gates_before:
            text = (
                f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            )
            yield forbidden(f"spec.schedulingGates[{index}].name", text)
    if not same(_fixed_pod(spec), _fixed_pod(before)):
        yield forbidden("spec", _POD_FIXED_TEXT)


def _fixed_pod(spec: Struct) -> dict[str, Any]:
    fixed = {
        k: v
        for k, v in spec.items()
        if k not in ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    }
    for kind in ("containers", "initContainers"):
        if kind in fixed:
            fixed[kind] = [
                {k: v for k, v in container.items() if k != "image"} for container in fixed[kind]
            ]
    return fixed


def _pod_template(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    yield from pod_rules.template(obj.get("template") or {}, "template")


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
    needed = _SECRET_NEEDS.get(obj.get("type", ""), ())
    # One of the two is enough for a password.
    if obj.get("type") != "kubernetes.io/basic-auth" or not any(
        key in (obj.get("data") or {}) for key in needed
    ):
        for key in needed:
            if key not in (obj.get("data") or {}):
                yield required(f"data[{key}]")


_SECRET_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/basic-auth": ("username", "password"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


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
        elif key in spec:
            yield from workload_rules.percentage(spec[key], f"spec.{key}")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION:
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION)
    yield from workload_rules.selector(spec.get("selector"), "spec.selector")


def _autoscaler(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for key in ("kind", "name"):
        if not target.get(key):
            yield required(f"spec.scaleTargetRef.{key}")
    version = target.get("apiVersion", "")
    if "/" not in version:
        yield invalid(
            "spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group"
        )
    kinds = [metric.get("type") for metric in spec.get("metrics") or ()]
    if least == 0 and "Object" not in kinds and "External" not in kinds:
        text = (
            "must specify at least one Object or External metric to support scaling to zero"
            " replicas"
        )
        yield forbidden("spec.metrics", text)
    if least is not None and least < 0:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 0")
    if most == 0:
        yield required("spec.maxReplicas")
    elif most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")


def _claim(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    yield from claim_rules.claim(obj.get("spec") or {}, "spec")


def _lease(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from nonnegative(spec.get("leaseTransitions"), "spec.leaseTransitions")


def _priority_class(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    name, value = (obj.get("metadata") or {}).get("name", ""), obj.get("value", 0)
    if name.startswith("system-") and old is None:
        text = (
            "priority class names with 'system-' prefix are reserved for system use only. error: "
        )
        yield forbidden("metadata.name", f"{text}{name} is not a known system priority class")
    if value > _HIGHEST_PRIORITY and old is None:
        yield forbidden(
            "value", f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        )
    if old is not None and value != old.get("value", 0):
        yield forbidden("value", "may not be changed in an update.")
    policy = obj.get("preemptionPolicy")
    if old is not None and policy != old.get("preemptionPolicy"):
        yield invalid("preemptionPolicy", policy, "field is immutable")
    elif policy is not None and policy not in _PREEMPTION:
        yield not_supported("preemptionPolicy", policy, _PREEMPTION)


def _role_binding(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    reference, namespaced = obj.get("roleRef") or {}, obj.get("kind") == "RoleBinding"
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        yield not_supported("roleRef.kind", reference.get("kind"), kinds)
    subjects = list(enumerate(obj.get("subjects") or ()))
    for index, subject in subjects:
        at = f"subjects[{index}]"
        if subject.get("kind") not in ("ServiceAccount", "User", "Group"):
            yield not_supported(
                f"{at}.kind", subject.get("kind"), ("ServiceAccount", "User", "Group")
            )
        elif (
            subject["kind"] == "ServiceAccount" and not namespaced and not subject.get("namespace")
        ):
            yield required(f"{at}.namespace")
    yield from (
        required(f"subjects[{index}].name") for index, each in subjects if not each.get("name")
    )
    if not reference.get("name"):
        yield required("roleRef.name")
    if old is not None and not same(reference, old.get("roleRef")):
        shown = GoStruct(
            APIGroup=reference.get("apiGroup", ""),
            Kind=reference.get("kind", ""),
            Name=reference.get("name", ""),
        )
        yield invalid("roleRef", shown, "field is immutable")


def _role(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    for index, rule in enumerate(obj.get("rules") or ()):
        at = f"rules[{index}]"
        if rule.get("nonResourceURLs"):
            if obj.get("kind") == "Role":
                text = "namespaced rules cannot apply to non-resource URLs"
                yield invalid(f"{at}.nonResourceURLs", rule["nonResourceURLs"], text)
            if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid(f"{at}.nonResourceURLs", rule["nonResourceURLs"], text)
            continue
        if not rule.get("apiGroups"):
            yield required(f"{at}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{at}.resources", "resource rules must supply at least one resource")
    for index, rule in enumerate(obj.get("rules") or ()):
        if not rule.get("verbs"):
            yield required(f"rules[{index}].verbs")


def _network_policy(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            for position, peer in enumerate(rule.get(peers) or ()):
                block = peer.get("ipBlock")
                if block is not None:
                    at = f"spec.{direction}[{index}].{peers}[{position}].ipBlock.cidr"
                    yield from service_rules.cidr(block.get("cidr", ""), at)
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        if kind not in ("Ingress", "Egress"):
            yield not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _slice(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    if obj.get("addressType") not in _ADDRESS_TYPES:
        yield not_supported("addressType", obj.get("addressType"), _ADDRESS_TYPES)
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        at, addresses = f"endpoints[{index}].addresses", endpoint.get("addresses") or []
        for position, address in enumerate(addresses):
            if obj.get("addressType") in ("IPv4", "IPv6"):
                yield from service_rules.ip_of(address, obj["addressType"], f"{at}[{position}]")
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            yield required(f"endpoints[{index}].addresses")
    if old is not None and obj.get("addressType") != old.get("addressType"):
        yield invalid("addressType", obj.get("addressType"), "field is immutable")


_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")


_RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "nodes"): _node,
    ("", "pods"): _pod,
    ("", "podtemplates"): _pod_template,
    ("", "services"): service_rules.service,
    ("", "configmaps"): _config_map,
    ("", "secrets"): _secret,
    ("", "events"): event_rules.core,
    ("events.k8s.io", "events"): event_rules.later,
    ("", "persistentvolumeclaims"): _claim,
    ("apps", "deployments"): workload_rules.deployment,
    ("apps", "replicasets"): workload_rules.replica_set,
    ("apps", "daemonsets"): workload_rules.daemon_set,
    ("apps", "controllerrevisions"): workload_rules.controller_revision,
    ("apps", "statefulsets"): workload_rules.stateful_set,
    ("batch", "jobs"): workload_rules.job,
    ("batch", "cronjobs"): cron_rules.cron_job,
    ("networking.k8s.io", "ingresses"): service_rules.ingress,
    ("discovery.k8s.io", "endpointslices"): _slice,
    ("networking.k8s.io", "networkpolicies"): _network_policy,
    ("policy", "poddisruptionbudgets"): _budget,
    ("autoscaling", "horizontalpodautoscalers"): _autoscaler,
    ("coordination.k8s.io", "leases"): _lease,
    ("scheduling.k8s.io", "priorityclasses"): _priority_class,
    ("rbac.authorization.k8s.io", "rolebindings"): _role_binding,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _role_binding,
    ("rbac.authorization.k8s.io", "roles"): _role,
    ("rbac.authorization.k8s.io", "clusterroles"): _role,
}
