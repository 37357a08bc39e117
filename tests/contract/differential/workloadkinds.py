"""Workloads for the random sequences: pods and what makes them."""

import random
from typing import Any

from tests.contract.differential.kinds import DROP, Kind, Object, some

_REQUESTS = [{"cpu": "100m"}, {"cpu": 1, "memory": "64Mi"}, {"memory": "1.5Gi"}, {"cpu": "0.1"}]


def container(rng: random.Random, name: str = "app") -> Object:
    found: Object = {
        "name": name,
        "image": rng.choice(["reg/app:1", "reg/app:2", "reg/app", "reg/app:latest"]),
    }
    if rng.random() < 0.4:
        found["env"] = [{"name": each, "value": rng.choice("12")} for each in some(rng, "ABC")]
    if rng.random() < 0.4:
        numbers = rng.sample([80, 81, 8080], rng.randint(1, 2))
        found["ports"] = [{"containerPort": number, "name": f"p{number}"} for number in numbers]
    if rng.random() < 0.4:
        found["resources"] = {rng.choice(["requests", "limits"]): rng.choice(_REQUESTS)}
    if rng.random() < 0.2:
        found["readinessProbe"] = rng.choice(
            [
                {"httpGet": {"path": "/", "port": 80}},
                {"tcpSocket": {"port": "http"}},
                {"exec": {"command": ["true"]}},
            ]
        )
    if rng.random() < 0.2:
        found["command"] = ["sh", "-c", "sleep 1"]
    return found


def pod_spec(rng: random.Random, restart: str = "") -> Object:
    spec: Object = {"containers": [container(rng, name) for name in some(rng, ["app", "log"], 1)]}
    if restart:
        spec["restartPolicy"] = restart
    if rng.random() < 0.2:
        spec["nodeSelector"] = dict.fromkeys(some(rng, "xy"), "v")
    if rng.random() < 0.2:
        spec["tolerations"] = [
            {"key": "gpu", "operator": rng.choice(["Exists", "Equal"]), "effect": "NoSchedule"}
        ]
    if rng.random() < 0.2:
        spec["volumes"] = [{"name": name, "emptyDir": {}} for name in some(rng, "vw", 1)]
    if rng.random() < 0.15:
        spec["initContainers"] = [{"name": "init", "image": "reg/init:1"}]
    if rng.random() < 0.15:
        spec["terminationGracePeriodSeconds"] = rng.choice([0, 5, 60])
    return spec


def template(rng: random.Random, restart: str = "") -> Object:
    return {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec(rng, restart)}


POD_TWEAKS: dict[str, list[object]] = {
    "containers": [[], DROP],
    "containers.0.image": ["reg/app:3", "", " x", 5],
    "containers.0.name": ["App", "", "app", "log"],
    "containers.0.imagePullPolicy": ["Always", "Sometimes"],
    "containers.0.env": [
        [{"name": "A"}],
        [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        [{"name": ""}],
    ],
    "containers.0.env.0.valueFrom": [{"fieldRef": {"fieldPath": "metadata.name"}}, {}],
    "containers.0.ports": [
        [{"containerPort": 0}],
        [{"containerPort": 70000}],
        [{"containerPort": 80, "protocol": "X"}],
    ],
    "containers.0.resources": [
        {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        {"requests": {"cpu": "-1"}},
        {"requests": {"cpu": "one"}},
        {"limits": {"nvidia.com/gpu": 1}},
        {"requests": {"nvidia.com/gpu": 1}},
    ],
    "containers.0.volumeMounts": [
        [{"name": "v", "mountPath": "/v"}],
        [{"name": "none", "mountPath": "/n"}],
    ],
    "containers.0.livenessProbe": [
        {},
        {"httpGet": {"port": 0}},
        {"tcpSocket": {"port": 80}, "periodSeconds": -1},
    ],
    "containers.0.securityContext": [{"runAsUser": 5}, {"runAsUser": -1}, {"privileged": True}],
    "restartPolicy": ["Always", "Never", "OnFailure", "Maybe"],
    "dnsPolicy": ["Default", "Other"],
    "nodeSelector": [{"a b": "c"}, {"disk": "ssd"}, None],
    "terminationGracePeriodSeconds": [-1, 10, "x"],
    "activeDeadlineSeconds": [0, 10],
    "tolerations": [
        [{"operator": "Exists"}],
        [{"key": "", "operator": "Equal", "value": "x"}],
        [{"effect": "Bad"}],
    ],
    "volumes": [
        [{"name": "v", "configMap": {"name": "c"}}],
        [{"name": "v"}],
        [{"name": "v", "emptyDir": {}}] * 2,
    ],
    "serviceAccountName": ["sa", "Bad Name"],
    "priorityClassName": ["system-node-critical"],
    "hostNetwork": [True, "yes"],
    "securityContext": [{"runAsNonRoot": True}, {"fsGroup": -5}],
    "affinity": [
        {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]
            }
        },
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
            }
        },
    ],
    "topologySpreadConstraints": [
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "X"}],
    ],
    "unknownField": [1],
}
_TEMPLATE_TWEAKS = {f"spec.template.spec.{path}": values for path, values in POD_TWEAKS.items()} | {
    "spec.template.metadata.labels": [
        {"app": "b"},
        {},
        {"app": "a", "x": "y"},
        {"app": "bad value"},
    ],
    "spec.template.metadata.annotations": [{"note": "1"}, {"a b": "1"}],
    "spec.template": [DROP, None],
}
_SELECTOR = {
    "spec.selector": [
        {"matchLabels": {"app": "b"}},
        {},
        DROP,
        {"matchLabels": {"app": "a", "x": "y"}},
    ]
}
_REPLICAS = {"spec.replicas": [0, 1, 5, -1, "3", None, DROP]}
_CONDITION: Object = {"type": "Available", "status": "True", "reason": "R", "message": "m"}
_REPLICA_STATUS: dict[str, list[Any]] = {
    "status.replicas": [0, 3, -1],
    "status.readyReplicas": [0, 2, 4],
    "status.observedGeneration": [1, 2, -1],
    "status.availableReplicas": [0, 1],
    "status.conditions": [
        [_CONDITION],
        [],
        [{**_CONDITION, "lastTransitionTime": "2001-02-03T04:05:06Z"}],
    ],
}


def _selecting(rng: random.Random) -> Object:
    return {"selector": {"matchLabels": {"app": "a"}}, "template": template(rng)}


def _deployment(rng: random.Random) -> Object:
    spec = _selecting(rng)
    if rng.random() < 0.7:
        spec["replicas"] = rng.randint(0, 4)
    if rng.random() < 0.4:
        spec["strategy"] = rng.choice(
            [
                {"type": "Recreate"},
                {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                {"rollingUpdate": {"maxSurge": "50%"}},
            ]
        )
    return {"spec": spec}


def _stateful_set(rng: random.Random) -> Object:
    spec = _selecting(rng) | {"serviceName": "s"}
    if rng.random() < 0.3:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return {"spec": spec}


def _job(rng: random.Random) -> Object:
    spec: Object = {"template": template(rng, rng.choice(["Never", "OnFailure"]))}
    if rng.random() < 0.5:
        spec |= {"completions": rng.randint(1, 5), "parallelism": rng.randint(0, 3)}
    if rng.random() < 0.3:
        spec |= {"completionMode": "Indexed", "completions": 3}
    if rng.random() < 0.3:
        spec["backoffLimit"] = rng.randint(0, 9)
    return {"spec": spec}


def _cron_job(rng: random.Random) -> Object:
    schedule = rng.choice(["*/5 * * * *", "@daily", "0 0 1 * *"])
    return {
        "spec": {
            "schedule": schedule,
            "jobTemplate": {"spec": {"template": template(rng, "Never")}},
        }
    }


WORKLOADS = (
    Kind(
        "deployments",
        "Deployment",
        "apps/v1",
        _deployment,
        _TEMPLATE_TWEAKS
        | _SELECTOR
        | _REPLICAS
        | {
            "spec.strategy": [{"type": "Recreate", "rollingUpdate": {}}, {"type": "Other"}, DROP],
            "spec.strategy.rollingUpdate": [
                {"maxSurge": 0, "maxUnavailable": 0},
                {"maxSurge": "x"},
                {"maxSurge": -1},
            ],
            "spec.minReadySeconds": [5, -1],
            "spec.revisionHistoryLimit": [0, -1],
            "spec.progressDeadlineSeconds": [10, 0],
            "spec.paused": [True, "no"],
        },
        status=_REPLICA_STATUS | {"status.unavailableReplicas": [1], "status.collisionCount": [1]},
        scale=True,
    ),
    Kind(
        "replicasets",
        "ReplicaSet",
        "apps/v1",
        lambda rng: {"spec": _selecting(rng) | {"replicas": rng.randint(0, 3)}},
        _TEMPLATE_TWEAKS | _SELECTOR | _REPLICAS | {"spec.minReadySeconds": [5, -1]},
        status=_REPLICA_STATUS | {"status.fullyLabeledReplicas": [1, 9]},
        scale=True,
    ),
    Kind(
        "statefulsets",
        "StatefulSet",
        "apps/v1",
        _stateful_set,
        _TEMPLATE_TWEAKS
        | _SELECTOR
        | _REPLICAS
        | {
            "spec.serviceName": ["other", ""],
            "spec.podManagementPolicy": ["Parallel", "Other"],
            "spec.updateStrategy": [{"type": "OnDelete"}, {"type": "X"}],
            "spec.volumeClaimTemplates": [[], [{"metadata": {"name": "data"}, "spec": {}}]],
            "spec.minReadySeconds": [5, -1],
        },
        status=_REPLICA_STATUS | {"status.currentReplicas": [1], "status.currentRevision": ["r-1"]},
        scale=True,
    ),
    Kind(
        "daemonsets",
        "DaemonSet",
        "apps/v1",
        lambda rng: {"spec": _selecting(rng)},
        _TEMPLATE_TWEAKS
        | _SELECTOR
        | {
            "spec.updateStrategy": [
                {"type": "OnDelete"},
                {"type": "X"},
                {"rollingUpdate": {"maxUnavailable": "10%"}},
            ],
            "spec.minReadySeconds": [5, -1],
        },
        status={
            "status.numberReady": [1, -1],
            "status.desiredNumberScheduled": [2],
            "status.observedGeneration": [1],
        },
    ),
    Kind(
        "jobs",
        "Job",
        "batch/v1",
        _job,
        _TEMPLATE_TWEAKS
        | {
            "spec.completions": [3, 0, -1, DROP],
            "spec.parallelism": [0, 2, -1],
            "spec.backoffLimit": [0, -1],
            "spec.completionMode": ["Indexed", "Other"],
            "spec.suspend": [True, False],
            "spec.activeDeadlineSeconds": [5, -1],
            "spec.ttlSecondsAfterFinished": [5, -1],
            "spec.backoffLimitPerIndex": [1, -1],
            "spec.podReplacementPolicy": ["Failed", "X"],
            "spec.selector": [{"matchLabels": {"app": "a"}}],
            "spec.manualSelector": [True],
        },
        status={
            "status.active": [1, -1],
            "status.succeeded": [1],
            "status.failed": [2],
            "status.startTime": ["2001-02-03T04:05:06Z"],
            "status.conditions": [[{"type": "Suspended", "status": "True"}]],
        },
    ),
    Kind(
        "cronjobs",
        "CronJob",
        "batch/v1",
        _cron_job,
        {
            "spec.schedule": ["* * * * *", "bad", "", "61 * * * *", "TZ=UTC * * * * *"],
            "spec.suspend": [True],
            "spec.timeZone": ["UTC", "Nowhere/Land"],
            "spec.concurrencyPolicy": ["Forbid", "X"],
            "spec.startingDeadlineSeconds": [10, -1],
            "spec.successfulJobsHistoryLimit": [0, -1],
            "spec.jobTemplate.spec.completions": [2, -1],
            "spec.jobTemplate.spec.template.spec.restartPolicy": ["Always", "OnFailure"],
            "spec.jobTemplate.spec.template.spec.containers.0.image": ["reg/app:3", ""],
        },
        status={"status.lastScheduleTime": ["2001-02-03T04:05:06Z"]},
    ),
    Kind(
        "pods",
        "Pod",
        "v1",
        lambda rng: {"spec": pod_spec(rng)},
        {f"spec.{path}": values for path, values in POD_TWEAKS.items()}
        | {"spec.nodeName": ["node-1"], "spec.schedulingGates": [[{"name": "example.com/gate"}]]},
        status={
            "status.phase": ["Running", "Pending", "Succeeded"],
            "status.conditions": [
                [{"type": "Ready", "status": "True"}],
                [{"type": "Ready", "status": "Maybe"}],
            ],
            "status.reason": ["Why"],
            "status.message": ["because"],
        },
    ),
)
