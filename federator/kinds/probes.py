"""The objects of a probe: a service of one copy and a job set of one shard, both in one cluster.

Their names follow from cluster and tier, so that a new leader finds what the former one made. Their
pods have the PriorityClass of tier Preemptible, whatever their tier: they evict no pod.
"""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import labels
from federator.kinds.pods import priorities
from federator.model import names
from federator.model.ask import Tier
from federator.model.names import PROBES, WorkloadKey
from federator.model.steps import ObjectRef

SERVICE: Final = "PinterestService"
JOB_SET: Final = "PinterestJobSet"
PLURALS: Final = {SERVICE: "pinterestservices", JOB_SET: "pinterestjobsets"}
KINDS: Final = tuple(PLURALS)
_API_VERSION: Final = "pinterest.com/v1beta1"
_NAME_MAX: Final = 52
PRIORITY: Final = -1_000_000
"""Below whatever people give."""
PORT: Final = 8080
REVISION: Final = "FEDERATOR_PROBE_REVISION"
REACHES: Final = "embedded.federator/reaches"
"""Read by the stand-in of nodes only, which has no traffic."""
TRIES_S: Final = 60
"""Seconds for which a Job tries: the name and the endpoints of a Service come a little after its
pod."""
_REQUESTS: Final = {"cpu": "20m", "memory": "64Mi"}


def image_of(stated: str, profile: Obj | None) -> str:
    """The image of a probe's pods: as stated, else that of the guard in the RuntimeProfile, else
    federator's own."""
    return stated or raw.text(profile or {}, "spec", "guard", "image") or labels.IMAGE


def name_of(cluster: str, tier: Tier) -> str:
    """The name of both workloads, at most 52 characters."""
    name = f"{tier.lower()}-{cluster}"
    if len(name) <= _NAME_MAX:
        return name
    return f"{name[: _NAME_MAX - 9]}-{names.short_hash(cluster)}"


def key_of(kind: str, cluster: str, tier: Tier) -> WorkloadKey:
    return names.key(kind, PROBES, name_of(cluster, tier))


def ref_of(key: WorkloadKey) -> ObjectRef:
    return ObjectRef(_API_VERSION, PLURALS[key.kind], key.namespace, key.name, key.kind)


def service(cluster: str, tier: Tier, image: str) -> dict[str, Any]:
    """The service. It answers every request with its own name."""
    name = name_of(cluster, tier)
    ready = {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 2}
    container = {
        **_container("answer", image, ["answer", f"--port={PORT}", f"--text={name}"]),
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": ready,
        "env": [{"name": REVISION, "value": "1"}],
    }
    ports = [{"name": "http", "port": 80, "targetPort": PORT}]
    more = {"replicas": 1, "service": {"ports": ports}}
    return _workload(SERVICE, cluster, tier, container, more)


def next_revision(cluster: str, tier: Tier, image: str) -> dict[str, Any]:
    """A merge patch of the service: pods of another revision."""
    container = service(cluster, tier, image)["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": REVISION, "value": "2"}]
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


def jobs(cluster: str, tier: Tier, image: str) -> dict[str, Any]:
    """The job set. Its only shard reaches the service by the name of its Service."""
    name = name_of(cluster, tier)
    words = ["reach", f"http://{name}.{PROBES}.svc", f"--text={name}", f"--within={TRIES_S}"]
    more = {"shards": 1, "parallelism": 1, "backoffLimitPerShard": 1}
    made = _workload(JOB_SET, cluster, tier, _container("reach", image, words), more)
    template = made["spec"]["template"]
    template["metadata"] = {"annotations": {REACHES: name}}
    template["spec"]["restartPolicy"] = "Never"
    return made


def _container(name: str, image: str, words: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "args": ["runtime", *words],
        "resources": {"requests": dict(_REQUESTS), "limits": {"memory": "256Mi"}},
        "securityContext": dict(labels.SECURITY),
    }


def _workload(
    kind: str, cluster: str, tier: Tier, container: dict[str, Any], more: dict[str, Any]
) -> dict[str, Any]:
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": priorities.class_name(Tier.PREEMPTIBLE),
        "containers": [container],
    }
    return {
        "apiVersion": _API_VERSION,
        "kind": kind,
        "metadata": {
            "name": name_of(cluster, tier),
            "namespace": PROBES,
            "labels": {names.PROBE_LABEL: cluster},
        },
        "spec": {
            "project": PROBES,
            "tier": tier.value,
            "priority": PRIORITY,
            "placement": {
                "clusters": {"names": [cluster]},
                "tolerations": [{"operator": "Exists"}],
            },
            **more,
            "template": {"spec": spec},
        },
    }
