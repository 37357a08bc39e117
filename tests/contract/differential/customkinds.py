"""Our own kinds, the widgets of the contract suite, and definitions of further ones, for the random
sequences.
"""

import random
from collections.abc import Callable

from tests.contract import crds
from tests.contract.differential.kinds import DROP, Kind, Object, some
from tests.contract.differential.workloadkinds import POD_TWEAKS, template

SERVICES = "pinterest.com/v1beta1"
FEDERATION = "federation.pinterest.com/v1alpha1"
_CONDITIONS: list[object] = [
    [{"type": "Ready", "status": "True"}],
    [{"type": "Ready", "status": "Maybe"}],
    [
        {"type": "Ready", "status": "True"},
        {"type": "Placed", "status": "False", "reason": "R", "message": "m"},
    ],
    [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}],
    [{"status": "True"}],
]
_PLACEMENT: dict[str, list[object]] = {
    "clusters": [
        {"names": ["c1", "c2"]},
        {"names": ["c1", "c1"]},
        {"names": ["Bad Name"]},
        {"exclude": ["c3"]},
    ],
    "division": [
        {"strategy": "Weighted"},
        {"strategy": "Odd"},
        {"minPerCluster": 3, "maxPerCluster": 2},
        {},
    ],
    "partial": ["Allow", "X"],
    "rollout": [{"maxClustersAtOnce": 1}, {"maxClustersAtOnce": 0}],
    "spread": [
        [{"topologyKey": "zone"}],
        [{"topologyKey": "zone"}] * 2,
        [{"topologyKey": "zone", "maxSkew": -1}],
    ],
    "tolerations": [[{"operator": "Exists"}], [{"effect": "X"}]],
}
_TEMPLATE: dict[str, list[object]] = {
    "spec.template": [DROP, {}],
    "spec.template.spec.containers.0.image": ["reg/app:3", 5],
    "spec.template.spec.containers": [[], [{"image": "x"}], [{"name": "a"}, {"name": "a"}]],
    "spec.template.spec.restartPolicy": POD_TWEAKS["restartPolicy"],
    "spec.template.spec.nodeSelector": [{"disk": "ssd"}, {"a": 1}],
    "spec.template.spec.unknownField": [1],
    "spec.template.metadata.labels": [{"app": "b"}, {"app": None}],
}
_SLICE: list[object] = [
    {"fleet": "f", "workloadUID": "u", "originGeneration": 1, "cluster": "c1", "seq": 1},
    {"fleet": "f", "workloadUID": "other", "originGeneration": 1, "cluster": "c1", "seq": 0},
    {"fleet": "f", "workloadUID": "u", "originGeneration": 2, "cluster": "c1", "seq": 2},
    {"fleet": "f"},
]
_COMMON: dict[str, list[object]] = {
    "spec.tier": ["Reserved", "OnDemand", "Gold", DROP],
    "spec.priority": [5, "x", 2147483648],
    "spec.project": ["search", "-bad"],
    "spec.suspend": [True, "x"],
    "spec.iamRole": ["role", "bad role"],
    "spec.slice": _SLICE,
    "spec.unknown": [1],
    "spec": [DROP, {}, []],
    **_TEMPLATE,
    **{f"spec.placement.{path}": values for path, values in _PLACEMENT.items()},
    "spec.placement": [{"policyRef": "p"}, {"policyRef": "p", "clusters": {"names": ["c1"]}}, None],
}
_STATUS: dict[str, list[object]] = {
    "status.conditions": _CONDITIONS,
    "status.observedGeneration": [1, -1, "x"],
    "status.summary": ["fine"],
    "status.unknown": [1],
}


def _service(rng: random.Random) -> Object:
    spec: Object = {"template": template(rng)}
    if rng.random() < 0.6:
        spec["replicas"] = rng.randint(0, 5)
    if rng.random() < 0.4:
        spec["service"] = {
            "ports": [{"port": port} for port in rng.sample([80, 443], rng.randint(1, 2))]
        }
    if rng.random() < 0.3:
        spec["placement"] = {"clusters": {"names": some(rng, ["c1", "c2"])}}
    return {"spec": spec}


def _job_set(rng: random.Random) -> Object:
    spec: Object = {"template": template(rng, rng.choice(["Never", "OnFailure"]))}
    if rng.random() < 0.6:
        spec["shards"] = rng.choice([1, 4])
    if rng.random() < 0.4:
        spec["parallelism"] = rng.randint(0, 3)
    return {"spec": spec}


def _decision(rng: random.Random) -> Object:
    spec = {
        "workload": {"kind": "PinterestService", "name": "w", "uid": rng.choice("uv")},
        "seq": rng.randint(0, 3),
        "unit": rng.choice(["replicas", "shards"]),
        "wanted": 3,
        "placed": rng.randint(0, 3),
        "shortfall": 0,
        "clusters": 1,
        "reason": "Placed",
        "policy": {"name": "p"},
        "asOf": "2001-02-03T04:05:06Z",
        "inputsHash": "h",
        "shares": [{"cluster": name, "seq": 1, "replicas": 1} for name in some(rng, ["c1", "c2"])],
    }
    return {"spec": spec}


def _policy(rng: random.Random) -> Object:
    spec: Object = {}
    if rng.random() < 0.6:
        spec["clusters"] = {"names": some(rng, ["c1", "c2", "c3"])}
    if rng.random() < 0.6:
        spec["division"] = {"strategy": rng.choice(["Weighted", "Spread", "Capacity"])}
    return {"spec": spec}


def _member(rng: random.Random) -> Object:
    spec: Object = {"clusterUID": rng.choice(["u", "v"])}
    if rng.random() < 0.5:
        spec["taints"] = [{"key": key, "effect": "NoSchedule"} for key in some(rng, "ab")]
    if rng.random() < 0.4:
        spec["credentials"] = {"secretRef": {"name": "s"}}
    return {"spec": spec}


def _quota(rng: random.Random) -> Object:
    return {
        "spec": {
            "projects": some(rng, "pqr"),
            "tiers": {"OnDemand": {"max": {"cpu": rng.choice(["5", 5, "1.5"])}}},
        }
    }


def _invariant(rng: random.Random) -> Object:
    rule: Object = {"maxShare": {"topologyKey": "zone", "percent": rng.choice([40, 100])}}
    if rng.random() < 0.3:
        rule = {"survives": {"topologyKey": "zone", "tiers": some(rng, ["Reserved", "OnDemand"])}}
    spec: Object = {"rule": rule}
    if rng.random() < 0.5:
        spec["workloads"] = {"namespaces": some(rng, ["n", "m"])}
    if rng.random() < 0.4:
        spec["owner"] = {"team": "t", "contact": "c"}
    return {"spec": spec}


def _profile(rng: random.Random) -> Object:
    env = [{"name": name, "value": rng.choice("12")} for name in some(rng, "AB")]
    sidecars = [
        {"name": name, "container": {"name": name, "image": "i:1"}} for name in some(rng, "st")
    ]
    return {"spec": {"version": "1", "env": env, "sidecars": sidecars, "podLabels": {"x": "y"}}}


def _widget(rng: random.Random) -> Object:
    spec: Object = {"color": rng.choice(["red", "green"])}
    choices: Object = {
        "replicas": rng.randint(0, 5),
        "seq": rng.randint(0, 3),
        "ports": [{"name": name, "port": rng.randint(1, 3)} for name in some(rng, "pq")],
        "tags": some(rng, "abc"),
        "texts": {name: rng.choice("12") for name in some(rng, "xy")},
        "free": rng.choice([1, [1, 2], {"k": {"l": 1}}, "s"]),
        "nested": {"deep": rng.choice("xz")},
        "fixed": rng.choice("fg"),
    }
    return {"spec": spec | {name: value for name, value in choices.items() if rng.random() < 0.4}}


def _definition(rng: random.Random) -> Object:
    spec: Object = crds.definition("gadgets", "Gadget", "@ns.example")["spec"]
    if rng.random() < 0.3:
        spec["scope"] = "Cluster"
    if rng.random() < 0.3:
        spec["names"]["categories"] = ["all"]
    return {"spec": spec}


def _ours(
    plural: str,
    kind: str,
    api_version: str,
    body: Callable[[random.Random], Object],
    **more: object,
) -> Kind:
    tweaks = more.pop("tweaks")
    return Kind(plural, kind, api_version, body, tweaks, strategic=False, **more)  # type: ignore[arg-type]


CUSTOM = (
    _ours(
        "pinterestservices",
        "PinterestService",
        SERVICES,
        _service,
        tweaks=_COMMON
        | {
            "spec.replicas": [0, 3, -1, 1000001, "3", 1.5, None, DROP],
            "spec.service": [{"ports": []}, {"ports": [{"port": 80}] * 2}, {"headless": True}],
            "spec.updateStrategy": [
                {"maxSurge": "10%"},
                {"maxSurge": "x"},
                {"maxSurge": 1, "maxUnavailable": 0},
            ],
        },
        status=_STATUS
        | {"status.replicas": [2, -1], "status.selector": ["app=a"], "status.ready": [1]},
        scale=True,
    ),
    _ours(
        "pinterestjobsets",
        "PinterestJobSet",
        SERVICES,
        _job_set,
        tweaks=_COMMON
        | {
            "spec.shards": [1, 4, 0, 100001, DROP],
            "spec.parallelism": [1, -1],
            "spec.execution": ["MayOverlap", "Exclusive"],
            "spec.backoffLimitPerShard": [0, 2000],
            "spec.completion": ["All", "Any"],
        },
        status=_STATUS | {"status.completedIndexes": ["0-3,5", "x"], "status.done": [1, -1]},
    ),
    _ours(
        "placementdecisions",
        "PlacementDecision",
        FEDERATION,
        _decision,
        tweaks={
            "spec.seq": [0, 1, 5, -1],
            "spec.workload.uid": ["w"],
            "spec.unit": ["shards", "pods"],
            "spec.asOf": ["2001-02-03T04:05:06Z", "yesterday", "2001-02-03T04:05:06.5+01:00"],
            "spec.shares": [
                [{"cluster": "c1", "seq": 1}] * 2,
                [{"cluster": "c1"}],
                [{"cluster": "c9", "seq": 1}],
            ],
            "spec.shares.0.replicas": [5, -1],
            "spec.message": ["text", 5],
            "spec.reason": [DROP, "Other"],
            "spec.causes": [["a", "b"], "a"],
            "spec.placed": [1, -1],
        },
    ),
    _ours(
        "placementpolicies",
        "PlacementPolicy",
        FEDERATION,
        _policy,
        tweaks={f"spec.{path}": values for path, values in _PLACEMENT.items()}
        | {"spec": [DROP], "spec.priority": [5, "x"]},
    ),
    _ours(
        "memberclusters",
        "MemberCluster",
        FEDERATION,
        _member,
        tweaks={
            "spec.clusterUID": ["u", "v", DROP],
            "spec.cordoned": [True, "x"],
            "spec.taints": [
                [{"key": "a", "effect": "X"}],
                [{"key": "a", "effect": "NoSchedule"}] * 2,
                [],
            ],
            "spec.tiers": [["OnDemand"], ["OnDemand", "OnDemand"], ["X"]],
            "spec.usable": ["80%", "80", "100.0%", DROP],
            "spec.credentials": [{}, {"secretRef": {"name": "Bad Name"}}],
        },
        namespaced=False,
        status=_STATUS
        | {"status.lastHeard": ["2001-02-03T04:05:06Z", "now"], "status.version": ["v1"]},
    ),
    _ours(
        "federatedquotas",
        "FederatedQuota",
        FEDERATION,
        _quota,
        tweaks={
            "spec.parent": ["p", "Bad"],
            "spec.projects": [["p"], ["p", "p"]],
            "spec.tiers": [{}, {"OnDemand": {"max": {"cpu": "x"}}}, {"Gold": {}}],
            "spec.maxConcurrentWorkloads": [1, -1],
        },
        namespaced=False,
        status=_STATUS
        | {"status.usage": [[{"tier": "OnDemand", "used": {"cpu": "1"}}], [{"tier": "X"}]]},
    ),
    _ours(
        "placementinvariants",
        "PlacementInvariant",
        FEDERATION,
        _invariant,
        tweaks={
            "spec.rule": [
                {},
                {"maxShare": {"percent": 40}},
                {"maxShare": {"topologyKey": "zone", "percent": 0}},
                {"survives": {"topologyKey": "zone", "loss": 4}},
                {"survives": {"topologyKey": "zone", "tiers": ["OnDemand", "OnDemand"]}},
                {
                    "maxShare": {"topologyKey": "zone", "percent": 5},
                    "survives": {"topologyKey": "zone"},
                },
            ],
            "spec.enforcement": ["Warn", "Refuse", "Forbid", DROP],
            "spec.workloads": [{"kinds": ["PinterestService"]}, {"kinds": ["Pod"]}, DROP],
            "spec.unknown": [1],
        },
        namespaced=False,
        status=_STATUS
        | {
            "status.breaches": [
                [{"workload": "w", "domain": "d", "copies": 2, "most": 1}],
                [{"workload": "w", "copies": 2}],
            ],
            "status.breached": [1, -1],
        },
    ),
    _ours(
        "runtimeprofiles",
        "RuntimeProfile",
        SERVICES,
        _profile,
        tweaks={
            "spec.env": [[{"name": "A"}, {"name": "A"}], [{"value": "1"}], []],
            "spec.sidecars.0.container.image": ["i:2", 5],
            "spec.sidecars.0.inject": ["Always", "X"],
            "spec.podLabels": [{"x": "z"}, {"x": 1}],
            "spec.version": ["2", 5],
        },
        namespaced=False,
    ),
    _ours(
        "widgets",
        "Widget",
        "contract.example/v1",
        _widget,
        tweaks={
            "spec.color": ["red", "blue", DROP],
            "spec.replicas": [1, -1, 101, "x", None],
            "spec.seq": [0, 9],
            "spec.note": ["note", "toolongnotes", "UPPER"],
            "spec.when": ["2001-02-03T04:05:06Z", "now"],
            "spec.amount": [5, "5", True],
            "spec.perhaps": [None, "x"],
            "spec.nested": [{}, None, {"deep": "y", "more": 1}],
            "spec.ports": [
                [{"name": "p"}] * 2,
                [{"port": 1}],
                [{"name": str(number)} for number in range(4)],
            ],
            "spec.tags": [["a", "a"], ["b"]],
            "spec.fixed": ["f", "g", DROP],
            "spec.texts": [{"x": 1}, {"x": None}, {}],
            "spec.free": [{"a": None}, None, [None]],
            "spec": [DROP, "x"],
        },
        status={
            "status.replicas": [1, "x"],
            "status.selector": ["a=b"],
            "status.conditions": [[{"type": "Ready", "status": "True"}], [{"type": "Ready"}] * 2],
        },
        scale=True,
    ),
)
DEFINITIONS = _ours(
    "customresourcedefinitions",
    "CustomResourceDefinition",
    "apiextensions.k8s.io/v1",
    _definition,
    tweaks={
        "spec.names.kind": ["Other", "bad kind"],
        "spec.names.shortNames": [["gx"], ["Bad"]],
        "spec.scope": ["Cluster", "X"],
        "spec.versions": [[]],
        "spec.versions.0.storage": [False],
        "spec.versions.0.served": [False],
        "spec.versions.0.schema.openAPIV3Schema.properties.spec.type": ["object", DROP, "odd"],
        "spec.versions.0.schema.openAPIV3Schema.properties.spec.properties.replicas.default": [
            5,
            "x",
        ],
        "spec.versions.0.schema.openAPIV3Schema.properties.more": [{"type": "string"}, {}],
        "spec.conversion": [{"strategy": "None"}, {"strategy": "X"}],
        "spec.group": ["other.example", ""],
    },
    namespaced=False,
    status={},
)
"""Definitions: `generate` only tries what it does with them (dryRun)."""
