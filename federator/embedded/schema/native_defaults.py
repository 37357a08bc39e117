"""What a real API server fills into builtin objects, one rule per type, called by `defaults` on
every struct of that type.

Values that do not depend on others are data (`facts`). Rules write into the dict they get;
struct-valued fields are already there. Facts of the Kubernetes 1.37 API, feature gates at their
defaults. Zero values that the wire form leaves out (`false`, `0`, empty lists) are absent here too.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from federator.embedded.schema import facts

Struct = dict[str, Any]


def _image_pull_policy(image: str) -> str:
    """Always for `:latest` or neither tag nor digest; IfNotPresent otherwise, also where the name
    cannot be read."""
    name, _, digest = image.partition("@")
    repository, _, tag = name.rpartition(":")
    if not repository or "/" in tag:
        repository, tag = name, ""
    host, slash, path = repository.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost" or host != host.lower()):
        path = repository
    if not path or path != path.lower() or image != image.strip():
        return "IfNotPresent"
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def _container(c: Struct) -> None:
    if not c.get("imagePullPolicy"):
        c["imagePullPolicy"] = _image_pull_policy(c.get("image", ""))


def _pod_spec(spec: Struct) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # The old name of the field mirrors the new one on the wire.
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _pod(pod: Struct) -> None:
    spec = pod["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for c in containers:
        resources = c.get("resources")
        limits = resources.get("limits") if resources else None
        if limits:
            requests = resources.setdefault("requests", {})
            for name, value in limits.items():
                requests.setdefault(name, value)
    if spec.get("hostNetwork"):
        _host_network_ports(containers)


def _host_network_ports(containers: list[Struct]) -> None:
    for c in containers:
        for port in c.get("ports", ()):
            if not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort", 0)


def _volume(volume: Struct) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = _image_pull_policy(image.get("reference", ""))


def _strategy(field: str, unavailable: int | str, surge: int | str) -> Callable[[Struct], None]:
    def fill(workload: Struct) -> None:
        strategy = workload["spec"].setdefault(field, {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", unavailable)
            rolling.setdefault("maxSurge", surge)

    return fill


def _stateful_set(ss: Struct) -> None:
    spec = ss["spec"]
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
        strategy["rollingUpdate"].setdefault("maxUnavailable", 1)
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"


def _job(job: Struct) -> None:
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)
    spec.setdefault(
        "podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    )


def _service(service: Struct) -> None:
    spec = service["spec"]
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    external = kind in ("NodePort", "LoadBalancer") or (
        kind == "ClusterIP" and spec.get("externalIPs")
    )
    if external and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in (service.get("status", {}).get("loadBalancer") or {}).get("ingress", ()):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _endpoint_slice(endpoints: Struct) -> None:
    for port in endpoints.get("ports") or ():
        port.setdefault("name", "")


def _secret(secret: Struct) -> None:
    """`stringData` is write-only: it ends up encoded in `data`."""
    for key, value in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def _namespace(namespace: Struct) -> None:
    name = namespace["metadata"].get("name")
    if name:
        namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _limit_range_item(item: Struct) -> None:
    if item.get("type") != "Container":
        return
    default = item.setdefault("default", {})
    for key, value in item.get("max", {}).items():
        default.setdefault(key, value)
    requests = item.setdefault("defaultRequest", {})
    for source in (default, item.get("min", {})):
        for key, value in source.items():
            requests.setdefault(key, value)
    for key in ("default", "defaultRequest"):
        if not item[key]:
            del item[key]


def _node_status(status: Struct) -> None:
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = dict(status["capacity"])


_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": (
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ),
}
_SCALE_DOWN: Final = {
    "selectPolicy": "Max",
    "policies": ({"type": "Percent", "value": 100, "periodSeconds": 15},),
}


def _autoscaler(hpa: Struct) -> None:
    spec = hpa["spec"]
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for direction, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            policies = [dict(policy) for policy in rules["policies"]]  # type: ignore[attr-defined]
            behavior[direction] = {**rules, "policies": policies, **(behavior.get(direction) or {})}


def _network_policy(policy: Struct) -> None:
    spec = policy["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _role_binding(binding: Struct) -> None:
    if not binding["roleRef"].get("apiGroup"):
        binding["roleRef"]["apiGroup"] = "rbac.authorization.k8s.io"


def _subject(subject: Struct) -> None:
    if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
        subject["apiGroup"] = "rbac.authorization.k8s.io"


def _definition(crd: Struct) -> None:
    spec, names = crd["spec"], crd["spec"].setdefault("names", {})
    kind = names.get("kind", "")
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = kind + "List"
    spec.setdefault("conversion", {"strategy": "None"})


_RULES: Final[Mapping[str, Callable[[Struct], None]]] = {
    "Container": _container,
    "EphemeralContainer": _container,
    "PodSpec": _pod_spec,
    "Pod": _pod,
    "Volume": _volume,
    "Deployment": _strategy("strategy", "25%", "25%"),
    "DaemonSet": _strategy("updateStrategy", 1, 0),
    "StatefulSet": _stateful_set,
    "Job": _job,
    "Service": _service,
    "EndpointSlice": _endpoint_slice,
    "Namespace": _namespace,
    "Secret": _secret,
    "LimitRangeItem": _limit_range_item,
    "NodeStatus": _node_status,
    "HorizontalPodAutoscaler": _autoscaler,
    "NetworkPolicy": _network_policy,
    "RoleBinding": _role_binding,
    "ClusterRoleBinding": _role_binding,
    "Subject": _subject,
    "CustomResourceDefinition": _definition,
}

_VALUES: Final[Mapping[str, Struct]] = facts.of("defaults")


def rule_of(name: str) -> Callable[[Struct], None] | None:
    """What fills in a struct of this type: its rule, then the values of `facts` for what is absent.
    None for a type without either. Types of one name in two groups (`EndpointPort`,
    `ServiceReference`) share theirs."""
    rule, values = _RULES.get(name), _VALUES.get(name)
    if values is None:
        return rule

    def fill(struct: Struct) -> None:
        if rule is not None:
            rule(struct)
        _add(values, struct)

    return fill


def _add(values: Struct, struct: Struct) -> None:
    for key, value in values.items():
        if type(value) is dict:
            _add(value, struct.setdefault(key, {}))
        elif key not in struct:
            struct[key] = value
