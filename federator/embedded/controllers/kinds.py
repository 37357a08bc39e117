"""The built-in resources that the stand-in controllers read and write, looked up once per process.

Used by every module of this package; knows nothing but `builtins`.
"""

import functools
from dataclasses import dataclass

from federator.embedded.schema import builtins
from federator.embedded.storage.resources import ResourceInfo


@dataclass(frozen=True, slots=True)
class Kinds:
    """`ResourceInfo`s by plural."""

    namespaces: ResourceInfo
    nodes: ResourceInfo
    pods: ResourceInfo
    services: ResourceInfo
    configmaps: ResourceInfo
    secrets: ResourceInfo
    serviceaccounts: ResourceInfo
    events: ResourceInfo
    deployments: ResourceInfo
    replicasets: ResourceInfo
    statefulsets: ResourceInfo
    daemonsets: ResourceInfo
    jobs: ResourceInfo
    cronjobs: ResourceInfo
    ingresses: ResourceInfo
    endpointslices: ResourceInfo
    priorityclasses: ResourceInfo
    claims: ResourceInfo
    autoscalers: ResourceInfo


@functools.cache
def load() -> Kinds:
    """The one table of this process; the first call reads the builtin API data."""
    info = builtins.info
    return Kinds(
        namespaces=info("", "namespaces"),
        nodes=info("", "nodes"),
        pods=info("", "pods"),
        services=info("", "services"),
        configmaps=info("", "configmaps"),
        secrets=info("", "secrets"),
        serviceaccounts=info("", "serviceaccounts"),
        events=info("", "events"),
        deployments=info("apps", "deployments"),
        replicasets=info("apps", "replicasets"),
        statefulsets=info("apps", "statefulsets"),
        daemonsets=info("apps", "daemonsets"),
        jobs=info("batch", "jobs"),
        cronjobs=info("batch", "cronjobs"),
        ingresses=info("networking.k8s.io", "ingresses"),
        endpointslices=info("discovery.k8s.io", "endpointslices"),
        priorityclasses=info("scheduling.k8s.io", "priorityclasses"),
        claims=info("", "persistentvolumeclaims"),
        autoscalers=info("autoscaling", "horizontalpodautoscalers"),
    )
