"""The workloads that the end-to-end stories apply, as plain objects; small enough for a real API
server.
"""

from collections.abc import Mapping
from typing import Any

START = {"embedded.federator/start-delay-seconds": "0"}
"""Stand-in kubelets have the pods up at once ..."""
RUN = {**START, "embedded.federator/run-seconds": "0.5"}
"""... and those of jobs done soon."""


def _template(
    name: str, image: str, annotations: Mapping[str, str] = START, **spec: Any
) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": image,
        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
        "ports": [
            {"containerPort": 8080, "protocol": "TCP"}
        ],  # a default in a list makes `apply` say "configured"
    }
    return {
        "metadata": {"labels": {"app": name}, "annotations": dict(annotations)},
        "spec": {"containers": [container], **spec},
    }


def service(name: str, namespace: str, replicas: int, **spec: Any) -> dict[str, Any]:
    """A PinterestService with everything it expands to but a load balancer."""
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "iamRole": f"role-{name}",
            "service": {
                "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
            },
            "config": {"app.properties": "a=1\n"},
            "template": _template(name, "registry.example/app:1"),
            **spec,
        },
    }


def account(name: str, **spec: Any) -> dict[str, Any]:
    """A FederatedQuota."""
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "FederatedQuota",
        "metadata": {"name": name},
        "spec": spec,
    }


def jobset(name: str, namespace: str, shards: int, parallelism: int) -> dict[str, Any]:
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestJobSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "shards": shards,
            "parallelism": parallelism,
            "backoffLimitPerShard": 3,
            "template": _template(name, "registry.example/job:1", RUN, restartPolicy="Never"),
        },
    }


def daemon(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A PinterestDaemon for every node."""
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestDaemon",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "config": {"agent.conf": "interval=10s\n"},
            "template": _template(name, "registry.example/agent:1"),
            **spec,
        },
    }


def training(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A PinterestTrainingJob of a master and two workers with a claim for checkpoints; its pods run
    for an hour.
    """
    lasting = _template(name, "registry.example/train:1")
    lasting["metadata"]["annotations"]["embedded.federator/run-seconds"] = "3600"
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestTrainingJob",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "components": [{"name": "master"}, {"name": "worker", "replicas": 2}],
            "checkpoint": {"storage": "1Gi", "accessMode": "ReadWriteOnce"},
            "template": lasting,
            **spec,
        },
    }


def stateful(name: str, namespace: str, replicas: int, **spec: Any) -> dict[str, Any]:
    """A PinterestStatefulSet with a claim for each ordinal."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestStatefulSet",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "volumeClaimTemplates": [claim],
            "template": _template(name, "registry.example/kv:1"),
            **spec,
        },
    }


def cronjob(
    name: str, namespace: str, schedule: str, run: Mapping[str, Any], **spec: Any
) -> dict[str, Any]:
    """A PinterestCronJob; `run` is the spec of a PinterestJobSet."""
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestCronJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": run}, **spec},
    }


def volumes(count: int) -> list[dict[str, Any]]:
    """PersistentVolumes for the claims of pods where nothing provisions any: a real scheduler waits
    until claims are bound.
    """
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"volume-{number}"},
            "spec": {
                "capacity": {"storage": "1Ti"},
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "storageClassName": "",
                "hostPath": {"path": "/unused"},
            },
        }
        for number in range(count)
    ]


def deployment(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": _template(name, "registry.example/page:1"),
        },
    }


def policy(name: str, namespace: str, app: str, **spec: Any) -> dict[str, Any]:
    """A PlacementPolicy for the PinterestServices with that label."""
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"workloads": {"kinds": ["PinterestService"], "matchLabels": {"app": app}}, **spec},
    }
