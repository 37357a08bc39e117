"""The built-in resources that the stand-in controllers read and write, looked up once per process.

Used by every module of this package; knows nothing but `builtins`.
"""

# ruff: noqa: RUF009 - `_of` makes a field, not a value
import functools
from dataclasses import dataclass, field
from typing import Any

from federator.embedded.schema import builtins
from federator.embedded.storage.resources import ResourceInfo


def _of(group: str, plural: str) -> Any:
    return field(default_factory=functools.partial(builtins.info, group, plural))


@dataclass(frozen=True, slots=True)
class Kinds:
    """`ResourceInfo`s by plural."""

    namespaces: ResourceInfo = _of("", "namespaces")
    nodes: ResourceInfo = _of("", "nodes")
    pods: ResourceInfo = _of("", "pods")
    services: ResourceInfo = _of("", "services")
    configmaps: ResourceInfo = _of("", "configmaps")
    secrets: ResourceInfo = _of("", "secrets")
    serviceaccounts: ResourceInfo = _of("", "serviceaccounts")
    events: ResourceInfo = _of("", "events")
    deployments: ResourceInfo = _of("apps", "deployments")
    replicasets: ResourceInfo = _of("apps", "replicasets")
    statefulsets: ResourceInfo = _of("apps", "statefulsets")
    daemonsets: ResourceInfo = _of("apps", "daemonsets")
    jobs: ResourceInfo = _of("batch", "jobs")
    cronjobs: ResourceInfo = _of("batch", "cronjobs")
    ingresses: ResourceInfo = _of("networking.k8s.io", "ingresses")
    endpointslices: ResourceInfo = _of("discovery.k8s.io", "endpointslices")
    priorityclasses: ResourceInfo = _of("scheduling.k8s.io", "priorityclasses")
    claims: ResourceInfo = _of("", "persistentvolumeclaims")
    autoscalers: ResourceInfo = _of("autoscaling", "horizontalpodautoscalers")


@functools.cache
def load() -> Kinds:
    """The one table of this process; the first call reads the builtin API data."""
    return Kinds()
