"""Objects in a workload's namespace on the host that are not carried to any member. Their owner
would wait in vain, so `explain` names them.

They are read with the caller's own rights; what the caller may not read is left out. Secrets and
ConfigMaps are read by name, only those that the workload's template names.
Secrets are never listed.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.model.steps import ObjectRef

LISTED: Final = (
    ("v1", "services", "Service"),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("apps/v1", "statefulsets", "StatefulSet"),
    ("apps/v1", "daemonsets", "DaemonSet"),
    ("batch/v1", "jobs", "Job"),
    ("batch/v1", "cronjobs", "CronJob"),
    ("networking.k8s.io/v1", "ingresses", "Ingress"),
)
"""Kinds often applied together with a Deployment that the federation does not carry."""
CONVERTED: Final = frozenset({"Service", "Job", "Ingress", "ConfigMap"})
"""Kinds that `federator convert` can turn into a part of the workload they belong to."""
SHOWN: Final = 8


async def beside(client: Client, obj: Mapping[str, Any], kind: str) -> list[str]:
    """`Kind/name` of the objects in the workload's namespace on the host that are carried to no
    member, sorted. Objects with an owner reference are left out: a controller of the host made
    them."""
    namespace = obj["metadata"]["namespace"]
    listed = await asyncio.gather(*(_listed(client, *row, namespace) for row in LISTED))
    named = await asyncio.gather(*(_there(client, *row, namespace) for row in _named(obj, kind)))
    return sorted({name for titles in (*listed, *named) for name in titles})


def sentence(titles: list[str], namespace: str) -> str:
    """One line that names the objects (the first `SHOWN`) and what to do about them."""
    shown = ", ".join(titles[:SHOWN]) + (
        f" and {len(titles) - SHOWN} more" if len(titles) > SHOWN else ""
    )
    converted = [title for title in titles if title.partition("/")[0] in CONVERTED]
    help_ = "apply them in the members"
    if len(converted) == len(titles):
        help_ = f"convert them (federator convert) or {help_}"
    elif converted:
        help_ = f"{help_}; federator convert takes {', '.join(converted[:SHOWN])}"
    return f"on the host in namespace {namespace}, and carried to no member: {shown}; {help_}"


async def _listed(
    client: Client, api_version: str, plural: str, kind: str, namespace: str
) -> list[str]:
    try:
        listing = await client.list(api_version, plural, namespace)
    except errors.ApiError:  # not served, or not allowed for this caller
        return []
    return [
        f"{kind}/{obj['metadata']['name']}"
        for obj in listing.items
        if not obj["metadata"].get("ownerReferences")
        and (namespace, kind, obj["metadata"]["name"]) != _API_SERVICE
    ]


_API_SERVICE: Final = ("default", "Service", "kubernetes")
"""Every API server creates this Service for itself."""


async def _there(client: Client, plural: str, kind: str, name: str, namespace: str) -> list[str]:
    try:
        await client.get(ObjectRef("v1", plural, namespace, name, kind))
    except errors.ApiError:
        return []
    return [f"{kind}/{name}"]


def _named(obj: Mapping[str, Any], kind: str) -> list[tuple[str, str, str]]:
    """(plural, kind, name) of the Secrets and ConfigMaps that the workload's template refers to."""
    verbs = registry.verbs_of(kind)
    pod = raw.mapping(verbs.pod_template(obj), "spec")
    references: set[tuple[str, str, str]] = set()
    for volume in raw.objects(pod, "volumes"):
        for source in (volume, *raw.objects(volume, "projected", "sources")):
            secret = raw.mapping(source, "secret")
            references.add(
                ("secrets", "Secret", raw.text(secret, "secretName") or raw.text(secret, "name"))
            )
            references.add(("configmaps", "ConfigMap", raw.text(source, "configMap", "name")))
    for container in (*raw.objects(pod, "initContainers"), *raw.objects(pod, "containers")):
        sources = [*raw.objects(container, "envFrom")]
        sources += [raw.mapping(entry, "valueFrom") for entry in raw.objects(container, "env")]
        for source in sources:
            for field in ("secretRef", "secretKeyRef"):
                references.add(("secrets", "Secret", raw.text(source, field, "name")))
            for field in ("configMapRef", "configMapKeyRef"):
                references.add(("configmaps", "ConfigMap", raw.text(source, field, "name")))
    for pull in raw.objects(pod, "imagePullSecrets"):
        references.add(("secrets", "Secret", raw.text(pull, "name")))
    return sorted(row for row in references if row[2])
