"""Small manifests and readers of conversions, for the tests of converting beside it."""

from typing import Any

from federator.convert import convert
from federator.convert.convert import Conversion
from federator.convert.drafts import Fate
from federator.kinds import read


def deployment(
    name: str = "web", labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """A Deployment of one container; `pod` and `container` fields go where they belong."""
    chosen = {"app": name} if labels is None else labels
    container = {"name": "main", "image": "registry/app:1", **spec.pop("container", {})}
    pod = {"containers": [container], **spec.pop("pod", {})}
    meta = {"name": name, **spec.pop("metadata", {})}
    template = {"metadata": {"labels": chosen}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {"selector": {"matchLabels": chosen}, "template": template, **spec},
    }


def service(
    name: str = "web", app: str = "web", port: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    meta = {"name": name, **spec.pop("metadata", {})}
    ports = [{"name": "http", "port": 80, "targetPort": 8080} if port is None else port]
    body = {"selector": {"app": app}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": body}


def ingress(
    name: str = "web", host: str = "web.example", backend: str = "web", port: Any = 80, **spec: Any
) -> dict[str, Any]:
    path = {"path": "/", "pathType": spec.pop("path_type", "Prefix")}
    number = {"number": port} if isinstance(port, int) else {"name": port}
    path["backend"] = {"service": {"name": backend, "port": number}}
    meta = {"name": name, **spec.pop("metadata", {})}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": meta,
        "spec": {"rules": [{"host": host, "http": {"paths": [path]}}], **spec},
    }


def job(name: str = "work", script: str = "", **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "main",
        "image": "registry/job:1",
        **spec.pop("container", {}),
    }
    if script:
        container["command"] = ["/bin/sh", "-c", script]
    pod = {"containers": [container], "restartPolicy": "Never", **spec.pop("pod", {})}
    meta = {"name": name, **spec.pop("metadata", {})}
    body = {"template": {"spec": pod}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


def jobset(*replicated: dict[str, Any], name: str = "set", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, **spec.pop("metadata", {})}
    body = {"replicatedJobs": list(replicated) or [replicated_job()], **spec}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": body,
    }


def replicated_job(name: str = "workers", replicas: int = 1, **spec: Any) -> dict[str, Any]:
    inner = job(**{"completions": 4, "parallelism": 4, "backoffLimit": 0, **spec})["spec"]
    return {"name": name, "replicas": replicas, "template": {"spec": inner}}


def native(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """A core object such as a ConfigMap."""
    meta = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **fields}


def converted(*objs: dict[str, Any]) -> Conversion:
    """Converts the objects; whatever comes out passes the strict models, and every object is
    accounted for.
    """
    done = convert.convert([("", obj) for obj in objs])
    for obj in done.objects:
        if obj["kind"] != "Namespace":
            read.load(obj)
    assert len(done.accounts) == len(objs)
    assert all(account.reason for account in done.accounts if account.fate is Fate.LEFT)
    assert all(account.into for account in done.accounts if account.fate is not Fate.LEFT)
    return done


def left(done: Conversion) -> dict[str, str]:
    """Title -> reason of what was left alone."""
    return {account.title: account.reason for account in done.accounts if account.fate is Fate.LEFT}


def only(done: Conversion) -> dict[str, Any]:
    """The one workload that was made."""
    (obj,) = done.objects
    return obj


def notes(done: Conversion) -> str:
    return "\n".join(f"{note.title}: {note.text}" for note in done.notes)


def using(name: str) -> dict[str, Any]:
    """Pod fields that mount a ConfigMap."""
    return {"volumes": [{"name": "conf", "configMap": {"name": name}}]}


def container(obj: dict[str, Any]) -> dict[str, Any]:
    """The first container of a workload."""
    found: dict[str, Any] = obj["spec"]["template"]["spec"]["containers"][0]
    return found
