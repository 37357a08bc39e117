"""Configuration, network, access and cluster-wide kinds of Kubernetes for the random sequences."""

import random

from tests.contract.differential.kinds import DROP, Kind, Object, some

_BASE64 = ["dmFsdWU=", "", "b3RoZXI="]
_SPOT = "2001-02-03T04:05:06.000007Z"


def _config_map(rng: random.Random) -> Object:
    found: Object = {"data": {name: rng.choice("12") for name in some(rng, "abcd")}}
    if rng.random() < 0.2:
        found["binaryData"] = {"bin": rng.choice(_BASE64)}
    if rng.random() < 0.1:
        found["immutable"] = True
    return found if rng.random() < 0.9 else {}


def _secret(rng: random.Random) -> Object:
    found: Object = {"data": {name: rng.choice(_BASE64) for name in some(rng, "abc")}}
    if rng.random() < 0.4:
        found["stringData"] = {name: rng.choice("12") for name in some(rng, "cd")}
    if rng.random() < 0.3:
        found["type"] = rng.choice(
            ["Opaque", "example.com/own", "kubernetes.io/basic-auth", "kubernetes.io/tls"]
        )
    return found


def _service(rng: random.Random) -> Object:
    ports: list[Object] = [
        {"port": port, "name": f"p{port}"}
        for port in rng.sample([80, 443, 9090], rng.randint(1, 2))
    ]
    if rng.random() < 0.4:
        ports[0]["targetPort"] = rng.choice([8080, "http", "8080"])
    spec: Object = {"ports": ports, "selector": {"app": "a"}}
    if rng.random() < 0.3:
        spec["type"] = rng.choice(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"])
    if rng.random() < 0.2:
        spec["clusterIP"] = "None"
    if rng.random() < 0.2:
        spec["sessionAffinity"] = "ClientIP"
    return {"spec": spec}


def _ingress(rng: random.Random) -> Object:
    backend = {"service": {"name": "s", "port": rng.choice([{"number": 80}, {"name": "http"}])}}
    path = {
        "path": rng.choice(["/", "/a"]),
        "pathType": rng.choice(["Prefix", "Exact"]),
        "backend": backend,
    }
    rules = [
        {"host": host, "http": {"paths": [path]}}
        for host in some(rng, ["a.example", "b.example"], 1)
    ]
    spec: Object = {"rules": rules}
    if rng.random() < 0.3:
        spec["tls"] = [{"hosts": ["a.example"], "secretName": "t"}]
    if rng.random() < 0.2:
        spec["defaultBackend"] = backend
    return {"spec": spec}


def _lease(rng: random.Random) -> Object:
    found: Object = {
        "holderIdentity": rng.choice(["one", "two"]),
        "leaseDurationSeconds": rng.choice([15, 30]),
    }
    if rng.random() < 0.6:
        found |= {"renewTime": _SPOT, "acquireTime": _SPOT, "leaseTransitions": rng.randint(0, 3)}
    return {"spec": found}


def _event(rng: random.Random) -> Object:
    return {
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "namespace": "@ns",
            "uid": "u-1",
        },
        "reason": rng.choice(["Started", "Failed"]),
        "message": rng.choice(["it went", "it failed"]),
        "type": rng.choice(["Normal", "Warning"]),
        "source": {"component": "test"},
        "firstTimestamp": "2001-02-03T04:05:06Z",
        "lastTimestamp": "2001-02-03T04:05:06Z",
        "count": rng.randint(1, 3),
    }


def _slice(rng: random.Random) -> Object:
    points = [
        {"addresses": [f"10.1.0.{number}"], "conditions": {"ready": True}}
        for number in range(rng.randint(1, 2))
    ]
    return {
        "addressType": "IPv4",
        "endpoints": points,
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }


def _budget(rng: random.Random) -> Object:
    limit: Object = rng.choice(
        [{"minAvailable": 1}, {"maxUnavailable": "50%"}, {"minAvailable": "10%"}]
    )
    return {"spec": limit | {"selector": {"matchLabels": {"app": "a"}}}}


def _rules(rng: random.Random) -> list[Object]:
    verbs = some(rng, ["get", "list", "watch"], 1)
    return [{"apiGroups": [rng.choice(["", "apps"])], "resources": ["pods"], "verbs": verbs}]


def _binding(rng: random.Random) -> Object:
    subjects = [
        {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        for name in some(rng, "xy")
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view-some"}
    return {"roleRef": role, "subjects": subjects}


def _node(rng: random.Random) -> Object:
    spec: Object = {}
    if rng.random() < 0.5:
        spec["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    if rng.random() < 0.3:
        spec["unschedulable"] = True
    return {"spec": spec}


def _priority(rng: random.Random) -> Object:
    found: Object = {"value": rng.choice([0, 10, -10])}
    if rng.random() < 0.5:
        found["description"] = "some"
    if rng.random() < 0.3:
        found["preemptionPolicy"] = "Never"
    return found


_RULE_TWEAKS: dict[str, list[object]] = {
    "rules": [[{"verbs": []}], [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]],
    "rules.0.verbs": [["get"], [], ["delete", "get"]],
    "rules.0.resourceNames": [["x"]],
    "rules.0.nonResourceURLs": [["/healthz"]],
}
_BINDING_TWEAKS: dict[str, list[object]] = {
    "subjects": [
        [],
        [{"kind": "Group", "name": "g"}],
        [{"kind": "Odd", "name": "g"}],
        [{"kind": "User", "name": ""}],
    ],
    "roleRef.name": ["other", ""],
    "roleRef.kind": ["Role", "Odd"],
}

CORE = (
    Kind(
        "configmaps",
        "ConfigMap",
        "v1",
        _config_map,
        {
            "data": [{"a": "1"}, {}, None, {"a b": "1"}, {"a": 1}, [], {"x": "1", "bin": "2"}],
            "data.a": ["1", "2", None, 3, True],
            "binaryData": [{"bin": "dmFs"}, {"bin": "not base64!"}],
            "immutable": [True, False, "x"],
            "nonsense": [1],
        },
    ),
    Kind(
        "secrets",
        "Secret",
        "v1",
        _secret,
        {
            "data": [{"a": "dmFsdWU="}, {"a": "not base64!"}, {"a b": ""}, None],
            "stringData": [{"a": "1"}, {"c": "2"}],
            "type": ["Opaque", "other/type", "kubernetes.io/tls"],
            "immutable": [True, False],
        },
    ),
    Kind(
        "serviceaccounts",
        "ServiceAccount",
        "v1",
        lambda rng: {"automountServiceAccountToken": True} if rng.random() < 0.5 else {},
        {
            "automountServiceAccountToken": [True, False, "x"],
            "secrets": [[{"name": "s"}], [{"name": "s"}, {"name": "t"}]],
            "imagePullSecrets": [[{"name": "p"}], [{}]],
        },
    ),
    Kind(
        "services",
        "Service",
        "v1",
        _service,
        {
            "spec.ports": [[], [{"port": 80}, {"port": 81}], [{"port": 80, "name": "x"}] * 2, DROP],
            "spec.ports.0.port": [80, 0, 70000, "x"],
            "spec.ports.0.targetPort": [8080, "http", "Bad_Name", 0],
            "spec.ports.0.protocol": ["UDP", "X"],
            "spec.ports.0.nodePort": [1, 40000],
            "spec.ports.0.name": ["web", "Web", ""],
            "spec.selector": [{"app": "b"}, None, {"a b": "c"}],
            "spec.type": ["NodePort", "ClusterIP", "LoadBalancer", "ExternalName", "Other"],
            "spec.externalName": ["e.example", "bad name"],
            "spec.clusterIP": ["None"],
            "spec.sessionAffinity": ["ClientIP", "None", "X"],
            "spec.externalTrafficPolicy": ["Local", "X"],
            "spec.internalTrafficPolicy": ["Local", "X"],
            "spec.publishNotReadyAddresses": [True],
            "spec.ipFamilyPolicy": ["SingleStack", "X"],
        },
        status={
            "status.loadBalancer": [
                {"ingress": [{"ip": "198.18.0.1"}]},
                {},
                {"ingress": [{"hostname": "h"}]},
            ]
        },
    ),
    Kind(
        "endpointslices",
        "EndpointSlice",
        "discovery.k8s.io/v1",
        _slice,
        {
            "addressType": ["IPv4", "IPv6", "X"],
            "endpoints": [[{"addresses": []}], [{"addresses": ["bad"]}]],
            "ports": [[{"port": 81}], [{"port": 0}]],
        },
    ),
    Kind(
        "ingresses",
        "Ingress",
        "networking.k8s.io/v1",
        _ingress,
        {
            "spec.rules": [[], DROP, [{"host": "a.example"}]],
            "spec.rules.0.host": ["c.example", "Bad Host", "*.example", "1.2.3.4"],
            "spec.rules.0.http.paths": [[]],
            "spec.rules.0.http.paths.0.path": ["x", "/y", ""],
            "spec.rules.0.http.paths.0.pathType": ["Exact", "ImplementationSpecific", "X", DROP],
            "spec.rules.0.http.paths.0.backend": [{}, {"service": {"name": "s"}}],
            "spec.ingressClassName": ["nginx", "Bad Class"],
            "spec.tls": [[{"hosts": ["b.example"]}], [{"hosts": ["bad host"]}]],
        },
        status={"status.loadBalancer": [{"ingress": [{"ip": "198.18.0.1"}]}, {}]},
    ),
    Kind(
        "networkpolicies",
        "NetworkPolicy",
        "networking.k8s.io/v1",
        lambda rng: {"spec": {"podSelector": {"matchLabels": {"app": "a"}}}},
        {
            "spec.policyTypes": [["Ingress"], ["Egress"], ["X"]],
            "spec.ingress": [
                [{}],
                [{"ports": [{"port": 80}]}],
                [{"from": [{"ipBlock": {"cidr": "bad"}}]}],
            ],
        },
    ),
    Kind(
        "leases",
        "Lease",
        "coordination.k8s.io/v1",
        _lease,
        {
            "spec.holderIdentity": ["one", "two", ""],
            "spec.leaseDurationSeconds": [10, 0, -1],
            "spec.renewTime": [_SPOT, "2001-02-03T04:05:06Z", "yesterday", None],
            "spec.leaseTransitions": [1, -1],
        },
    ),
    Kind(
        "events",
        "Event",
        "v1",
        _event,
        {
            "count": [2, 5, "x"],
            "message": ["other"],
            "type": ["Normal", "Odd"],
            "reason": ["Other", ""],
            "involvedObject.namespace": ["elsewhere"],
            "involvedObject.name": ["q"],
            "lastTimestamp": ["2001-02-03T05:05:06Z", None],
        },
    ),
    Kind(
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "policy/v1",
        _budget,
        {
            "spec.minAvailable": [2, "50%", -1, "x", DROP],
            "spec.maxUnavailable": [1, "150%", DROP],
            "spec.selector": [{}, {"matchLabels": {"app": "b"}}, {"matchLabels": {"a b": "c"}}],
            "spec.unhealthyPodEvictionPolicy": ["AlwaysAllow", "X"],
        },
        status={"status.disruptionsAllowed": [1, -1], "status.observedGeneration": [1]},
    ),
    Kind(
        "roles",
        "Role",
        "rbac.authorization.k8s.io/v1",
        lambda rng: {"rules": _rules(rng)},
        _RULE_TWEAKS,
    ),
    Kind("rolebindings", "RoleBinding", "rbac.authorization.k8s.io/v1", _binding, _BINDING_TWEAKS),
    Kind(
        "namespaces",
        "Namespace",
        "v1",
        lambda rng: {},
        {"spec.finalizers": [["kubernetes"], ["example.com/x"], []]},
        namespaced=False,
        status={"status.phase": ["Active", "Terminating", "Odd"]},
    ),
    Kind(
        "nodes",
        "Node",
        "v1",
        _node,
        {
            "spec.taints": [
                [],
                [{"key": "a", "effect": "X"}],
                [{"key": "a", "effect": "NoExecute", "value": "v"}],
            ],
            "spec.unschedulable": [True, False],
        },
        namespaced=False,
        status={
            "status.capacity": [{"cpu": "4", "pods": 110}],
            "status.allocatable": [{"cpu": "3900m"}],
            "status.conditions": [[{"type": "Ready", "status": "True"}]],
            "status.nodeInfo.kubeletVersion": ["v1.37.2"],
        },
    ),
    Kind(
        "priorityclasses",
        "PriorityClass",
        "scheduling.k8s.io/v1",
        _priority,
        {
            "value": [5, 2000000001, "x", DROP],
            "description": ["other"],
            "preemptionPolicy": ["PreemptLowerPriority", "X"],
        },
        namespaced=False,
    ),
    Kind(
        "clusterroles",
        "ClusterRole",
        "rbac.authorization.k8s.io/v1",
        lambda rng: {"rules": _rules(rng)},
        _RULE_TWEAKS
        | {"aggregationRule": [{"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}]},
        namespaced=False,
    ),
    Kind(
        "clusterrolebindings",
        "ClusterRoleBinding",
        "rbac.authorization.k8s.io/v1",
        _binding,
        _BINDING_TWEAKS,
        namespaced=False,
    ),
)
