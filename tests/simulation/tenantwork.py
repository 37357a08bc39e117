"""Workloads of every kind that a hostile tenant makes, and edits of each field that is charged.

An edit is a merge patch. Whether an API server takes it is a part of what the act looks at: the
plain Deployment says in annotations what the others say in spec, and some fields are fixed.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from federator.kinds import registry
from federator.kinds.deployment import ask as deployment
from federator.model.steps import ObjectRef
from tests.simulation.acts import TENANT

SERVICE, JOBSET, CRON = "PinterestService", "PinterestJobSet", "PinterestCronJob"
DAEMON, TRAINING, STATEFUL = "PinterestDaemon", "PinterestTrainingJob", "PinterestStatefulSet"
DEPLOYMENT = deployment.KIND
KINDS: Final = (SERVICE, JOBSET, CRON, DAEMON, TRAINING, STATEFUL, DEPLOYMENT)
BATCH: Final = frozenset({JOBSET, CRON, TRAINING})
RUN_S = "20"
REQUESTS: Final = {"cpu": "100m", "memory": "16Mi"}
ANNOTATIONS: Final = {
    "project": deployment.PROJECT_ANNOTATION,
    "tier": deployment.TIER_ANNOTATION,
    "priority": deployment.PRIORITY_ANNOTATION,
    "suspend": deployment.SUSPEND_ANNOTATION,
}
"""Where a plain Deployment says it."""

Obj = dict[str, Any]


def made(kind: str, name: str, count: int, **pod: Any) -> tuple[ObjectRef, Obj]:
    """A workload of `count` pods, to be created. `pod`: fields of its pods' spec."""
    info = registry.KINDS[kind]
    meta = {"name": name, "namespace": TENANT}
    spec = _work(kind, name, count, pod)
    if kind == CRON:
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}
    body = {"apiVersion": info.api_version, "kind": kind, "metadata": meta, "spec": spec}
    return info.ref(TENANT, name), body


def _work(kind: str, name: str, count: int, pod: Mapping[str, Any]) -> Obj:
    template = {"spec": pods(kind, **pod)}
    if kind in BATCH:
        template["metadata"] = {"annotations": {"embedded.federator/run-seconds": RUN_S}}
    if kind == DEPLOYMENT:
        labels = {"app": name}
        template["metadata"] = {"labels": labels}
        return {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    if kind == DAEMON:
        return {"template": template}
    if kind == TRAINING:
        return {**counted(kind, count), "gangTimeoutSeconds": 30, "template": template}
    shards = {"shards": count} if kind in (JOBSET, CRON) else {}
    return {**counted(kind, count), **shards, "template": template}


def counted(kind: str, count: int) -> Obj:
    """The fields of the spec by which an edit changes how many pods there are; shards are fixed."""
    match kind:
        case "PinterestJobSet" | "PinterestCronJob":
            return {"parallelism": count}
        case "PinterestTrainingJob":
            return {"components": [{"name": "master"}, {"name": "worker", "replicas": count}]}
        case "PinterestDaemon":
            return {}
    return {"replicas": count}


def pods(kind: str, *, requests: Mapping[str, str] | None = REQUESTS, **more: Any) -> Obj:
    """The spec of the pods. `requests`: None for a container that asks for nothing."""
    container: Obj = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    if requests is None:
        container.pop("resources")
    restarts = {"restartPolicy": "Never"} if kind in (JOBSET, CRON) else {}
    return {**restarts, "containers": [container], **more}


def patch(kind: str, spec: Mapping[str, Any]) -> Obj:
    """The merge patch that changes these fields of the workload's spec, wherever the kind has
    them.
    """
    if kind == CRON:
        return {"spec": {"jobTemplate": {"spec": dict(spec)}}}
    if kind != DEPLOYMENT:
        return {"spec": dict(spec)}
    notes = {
        ANNOTATIONS[name]: None
        if value is None
        else str(value).lower()
        if name != "tier"
        else value
        for name, value in spec.items()
        if name in ANNOTATIONS
    }
    rest = {name: value for name, value in spec.items() if name in ("replicas", "template")}
    return {"metadata": {"annotations": notes}, **({"spec": rest} if rest else {})}


Edit = Callable[[str, random.Random], Mapping[str, Any]]
"""(kind, chance) -> fields of the spec that are changed."""


def _requests(kind: str, rng: random.Random) -> Obj:
    asked: Obj = {
        "cpu": rng.choice(("50m", "100m", "400m", "2")),
        "memory": rng.choice(("16Mi", "2Gi")),
    }
    return {"template": {"spec": pods(kind, requests=asked)}}


EDITS: Final[Mapping[str, Edit]] = {
    "project": lambda kind, rng: {
        "project": rng.choice(("feed", "batch", "nobodys", TENANT, None))
    },
    "tier": lambda kind, rng: {"tier": rng.choice(("Reserved", "OnDemand", "Preemptible"))},
    "priority": lambda kind, rng: {"priority": rng.randint(0, 1000)},
    "count": lambda kind, rng: counted(kind, rng.randint(0 if kind == SERVICE else 1, 8)),
    "requests": _requests,
    "suspend": lambda kind, rng: {"suspend": rng.random() < 0.5},
    "profile": lambda kind, rng: {"runtimeProfile": rng.choice(("heavy", "light", None))},
    "sidecars": lambda kind, rng: {
        "sidecars": rng.choice(({"proxy": {}}, {"proxy": {"level": "9"}}, None))
    },
    "machines": lambda kind, rng: {
        "template": {"spec": {"nodeSelector": rng.choice(({"kind": "nowhere"}, None))}}
    },
}
"""Every field that what a workload is charged depends on, and how it is drawn."""
CHARGED: Final = tuple(EDITS)


def profile(cpu: str) -> Obj:
    """The spec of a RuntimeProfile: a sidecar for all, and one that asks for more on request."""
    small = {"image": "logs:1", "resources": {"requests": {"cpu": "10m"}}}
    large = {"image": "proxy:1", "resources": {"requests": {"cpu": cpu}}}
    level = {"name": "level", "env": "LEVEL"}
    return {
        "sidecars": [
            {"name": "logs", "container": small},
            {
                "name": "proxy",
                "inject": "OnRequest",
                "container": large,
                "parameters": [level],
            },
        ]
    }


PROFILES: Final = {"heavy": "500m", "light": "20m"}
"""RuntimeProfiles of these worlds -> what their sidecar on request asks for."""
