"""Objects that lie on the host beside a workload and reach no member: an owner who applied them there waits in vain.

Looked at with the caller's own rights; what those do not show is left out. Of Secrets and ConfigMaps only those are
looked for that the workload's template names: nobody's Secrets are listed.
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
"""Kinds that people apply beside a Deployment, and that the federation does not carry."""
CONVERTED: Final = frozenset({"Service", "Job", "Ingress", "ConfigMap"})
"""Of these kinds, what belongs to a workload can become a part of it."""
SHOWN: Final = 8


async def beside(client: Client, obj: Mapping[str, Any], kind: str) -> list[str]:
    """`Kind/name` of what lies in the workload's namespace on the host and is carried to no member, sorted. What a
    controller of the host made itself (it has an owner) is not meant."""
    namespace = obj["metadata"]["namespace"]
    listed = await asyncio.gather(*(_listed(client, *row, namespace) for row in LISTED))
    named = await asyncio.gather(*(_there(client, *row, namespace) for row in _named(obj, kind)))
    return sorted({name for found in (*listed, *named) for name in found})


def sentence(found: list[str], namespace: str) -> str:
    """One line for people."""
    shown = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    converted = [one for one in found if one.partition("/")[0] in CONVERTED]
    help_ = "apply them in the members"
    if len(converted) == len(found):
        help_ = f"convert them (federator convert) or {help_}"
    elif converted:
        help_ = f"{help_}; federator convert takes {', '.join(converted[:SHOWN])}"
    return f"on the host in namespace {namespace}, and carried to no member: {shown}; {help_}"


async def _listed(client: Client, api_version: str, plural: str, kind: str, namespace: str) -> list[str]:
    try:
        listing = await client.list(api_version, plural, namespace)
    except errors.ApiError:  # not served there, or not for this caller
        return []
    return [
        f"{kind}/{obj['metadata']['name']}"
        for obj in listing.items
        if not obj["metadata"].get("ownerReferences") and (namespace, kind, obj["metadata"]["name"]) != _API_SERVICE
    ]


_API_SERVICE: Final = ("default", "Service", "kubernetes")
"""Made by every API server for itself."""


async def _there(client: Client, plural: str, kind: str, name: str, namespace: str) -> list[str]:
    try:
        await client.get(ObjectRef("v1", plural, namespace, name, kind))
    except errors.ApiError:
        return []
    return [f"{kind}/{name}"]


def _named(obj: Mapping[str, Any], kind: str) -> list[tuple[str, str, str]]:
    """(plural, kind, name) of the Secrets and ConfigMaps that a workload's template names."""
    verbs = registry.verbs_of(kind)
    pod = raw.mapping(verbs.pod_template(obj), "spec")
    found: set[tuple[str, str, str]] = set()
    for volume in raw.objects(pod, "volumes"):
        for source in (volume, *raw.objects(volume, "projected", "sources")):
            secret = raw.mapping(source, "secret")
            found.add(("secrets", "Secret", raw.text(secret, "secretName") or raw.text(secret, "name")))
            found.add(("configmaps", "ConfigMap", raw.text(source, "configMap", "name")))
    for container in (*raw.objects(pod, "initContainers"), *raw.objects(pod, "containers")):
        sources = [*raw.objects(container, "envFrom")]
        sources += [raw.mapping(entry, "valueFrom") for entry in raw.objects(container, "env")]
        for source in sources:
            for field in ("secretRef", "secretKeyRef"):
                found.add(("secrets", "Secret", raw.text(source, field, "name")))
            for field in ("configMapRef", "configMapKeyRef"):
                found.add(("configmaps", "ConfigMap", raw.text(source, field, "name")))
    for pull in raw.objects(pod, "imagePullSecrets"):
        found.add(("secrets", "Secret", raw.text(pull, "name")))
    return sorted(row for row in found if row[2])
