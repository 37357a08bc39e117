"""Objects in members that belong to somebody else: next to ours, alike by kind and name, and never
to be touched.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from federator.kube.client import Client
from federator.model.steps import ObjectRef

Planted = tuple[str, tuple[str, str, str, str], dict[str, Any]]
NAMESPACES = ("ads", "feed")
_CONTAINER = {"name": "app", "image": "theirs:1"}


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """(plural, object) of everything that is planted in each member."""
    labels = {"app": "theirs"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER]}}
    for space in NAMESPACES:
        meta = {
            "name": "theirs",
            "namespace": space,
            "annotations": {"example.com/owner": "somebody"},
        }
        yield (
            "configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"key": "value"}},
        )
        yield (
            "pinterestservices",
            {
                "apiVersion": "pinterest.com/v1beta1",
                "kind": "PinterestService",
                "metadata": meta,
                "spec": {"replicas": 1, "template": {"spec": {"containers": [_CONTAINER]}}},
            },
        )
        yield (
            "jobs",
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": meta,
                "spec": {
                    "suspend": True,
                    "template": {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}},
                },
            },
        )
        yield (
            "deployments",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {**meta, "annotations": {}},
                "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
            },
        )


def namesake() -> tuple[str, dict[str, Any]]:
    """A service that keeps one of ours away from a member for as long as it stands."""
    return (
        "pinterestservices",
        {
            "apiVersion": "pinterest.com/v1beta1",
            "kind": "PinterestService",
            "metadata": {"name": "api", "namespace": "feed"},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [_CONTAINER]}}},
        },
    )


def ref(plural: str, body: Mapping[str, Any]) -> ObjectRef:
    meta = body["metadata"]
    return ObjectRef(body["apiVersion"], plural, meta["namespace"], meta["name"], body["kind"])


async def create(client: Client, cluster: str, plural: str, body: Mapping[str, Any]) -> Planted:
    """Makes one, and remembers what it was like."""
    made = await client.create(ref(plural, body), body)
    group = body["apiVersion"].rpartition("/")[0]
    return (
        cluster,
        (group, plural, body["metadata"]["namespace"], body["metadata"]["name"]),
        lasting(made),
    )


def lasting(obj: Mapping[str, Any]) -> dict[str, Any]:
    """All of it but what the cluster's own controllers write: status, versions, and a Deployment's
    revision.
    """
    volatile = ("resourceVersion", "managedFields", "annotations", "generation")
    meta = {name: value for name, value in obj["metadata"].items() if name not in volatile}
    notes = obj["metadata"].get("annotations") or {}
    meta["annotations"] = {
        name: text for name, text in notes.items() if "kubernetes.io/" not in name
    }
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": meta}
