"""The guard of a job set's pods: a native sidecar that reads the lease of its cluster and answers
the liveness probes of the workload's containers, so that the kubelet stops them when the lease is
over (`federator runtime guard`).

A container has one liveness probe, so a guarded one's own is asked by the guard: it reaches
addresses of the pod, and runs nothing in other containers. What it cannot ask, and what a kubelet
does not probe at all, is refused.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.labels import IMAGE, SECURITY
from federator.kinds.pods import probing
from federator.model.errors import FieldError
from federator.runtime import fencing

GUARD: Final = "federator-guard"
"""The sidecar."""
WAIT: Final = "federator-fence"
"""The step that ends when the lease is good."""
NAMES: Final = (GUARD, WAIT)
PORT: Final = 15180
ACCESS: Final = "federator-guard-access"
ACCESS_PATH: Final = "/var/run/federator/access"
STATE: Final = "federator-guard-state"
STATE_PATH: Final = "/var/run/federator/state"
PROBES: Final = "FEDERATOR_GUARD_PROBES"
GRACE_S: Final = 30
"""What Kubernetes gives a pod to end, where it does not say."""
RESOURCES: Final[Mapping[str, Any]] = {
    "requests": {"cpu": "10m", "memory": "48Mi"},
    "limits": {"memory": "128Mi"},
}
_TEMPLATE: Final = "spec.template.spec"


def asked(obj: Obj) -> bool:
    return raw.flag(obj, "spec", "guard") and raw.text(obj, "spec", "execution") == "Exclusive"


def refusal(obj: Obj) -> FieldError | None:
    """Why the pods of this job set cannot be guarded."""
    if not asked(obj):
        return None
    pod = raw.mapping(obj, "spec", "template", "spec")
    if raw.flag(pod, "hostNetwork"):
        return FieldError(f"{_TEMPLATE}.hostNetwork", "a guard needs the pod's own network")
    if _grace_s(pod) > fencing.GRACE_MAX_S:
        path = f"{_TEMPLATE}.terminationGracePeriodSeconds"
        why = f"guarded shards have ended {fencing.GRACE_MAX_S} s after they are told to, at most"
        return FieldError(path, why)
    for field in ("initContainers", "containers"):
        for at, container in enumerate(raw.objects(pod, field)):
            path = f"{_TEMPLATE}.{field}[{at}]"
            if field == "initContainers" and raw.text(container, "restartPolicy") != "Always":
                return FieldError(path, NO_STEPS)
            if (bad := _unfit(container, path)) is not None:
                return bad
    return None


NO_STEPS: Final = (
    "a kubelet probes no init container that ends, so nothing would stop it when the lease of the"
    " cluster is over: do its work in the container itself, or in a native sidecar (restartPolicy"
    " Always)"
)


def _unfit(container: Obj, path: str) -> FieldError | None:
    if raw.text(container, "name") in NAMES:
        return FieldError(f"{path}.name", "is the name of a container that the guard adds")
    ports = raw.objects(container, "ports")
    if any(raw.integer(port, "containerPort") == PORT for port in ports):
        return FieldError(f"{path}.ports", f"{PORT} is the guard's port")
    for name in ("livenessProbe", "startupProbe"):
        probe = raw.mapping(container, name)
        for way in ("exec", "grpc"):
            if way in probe:
                why = "cannot be asked by the guard, which takes its place: use httpGet, tcpSocket"
                return FieldError(f"{path}.{name}.{way}", f"{why}, or spec.guard false")
        for way in ("httpGet", "tcpSocket"):
            if way in probe and probing.port(raw.mapping(probe, way).get("port"), ports) is None:
                why = "is no port, and no name of a port of this container"
                return FieldError(f"{path}.{name}.{way}.port", why)
            if raw.text(probe, way, "host"):
                return FieldError(f"{path}.{name}.{way}.host", "the guard asks its own pod only")
    return None


def _grace_s(pod: Obj) -> int:
    return max(raw.integer(pod, "terminationGracePeriodSeconds", default=GRACE_S), 0)


def counted(template: Obj) -> dict[str, Any]:
    """The template with the guard's requests of a node, for code that counts what a pod needs."""
    pod = raw.mapping(template, "spec")
    guard = {
        "name": GUARD,
        "restartPolicy": "Always",
        "resources": RESOURCES,
        "securityContext": SECURITY,
    }
    # At the end: what is said of the others names them by their place in the template.
    steps = [*raw.objects(pod, "initContainers"), guard]
    return {**template, "spec": {**pod, "initContainers": steps}}


def guarded(pod: Obj, own: frozenset[str], profile: Obj | None) -> dict[str, Any]:
    """The pod with guard and waiting step, and the liveness probes of its `own` containers asked
    through the guard. The guard comes before all others; the step comes after what was injected,
    and before whatever is the workload's own."""
    steps = raw.objects(pod, "initContainers")
    injected = [step for step in steps if step.get("name") not in own]
    mine = [step for step in steps if step.get("name") in own]
    containers = raw.objects(pod, "containers")
    probes = dict(_asked([*mine, *containers], own))
    guard, wait = _containers(raw.text(profile or {}, "spec", "guard", "image") or IMAGE, probes)
    grace_s = _grace_s(pod)
    out = dict(pod)
    out["initContainers"] = [
        guard,
        *injected,
        wait,
        *(_probed(container, grace_s) for container in mine),
    ]
    out["containers"] = [
        _probed(container, grace_s) if container.get("name") in own else container
        for container in containers
    ]
    out["volumes"] = [*raw.objects(pod, "volumes"), *_volumes()]
    return out


def _probed(container: Obj, grace_s: int) -> dict[str, Any]:
    """With the guard's answer as its liveness. It starts under it, too: before a startup probe has
    succeeded, no liveness is asked for."""
    out = {name: value for name, value in container.items() if name != "startupProbe"}
    own_s = raw.integer(container, "livenessProbe", "terminationGracePeriodSeconds", default=0)
    out["livenessProbe"] = {
        "httpGet": {"path": f"/healthz/{raw.text(container, 'name')}", "port": PORT},
        "periodSeconds": fencing.PROBE_PERIOD_S,
        "timeoutSeconds": fencing.PROBE_TIMEOUT_S,
        "failureThreshold": fencing.PROBE_FAILURES,
        "terminationGracePeriodSeconds": min(own_s or grace_s, grace_s) or 1,
    }
    return out


def _asked(containers: list[Obj], own: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Container -> its own probes, as the guard reads them."""
    for container in containers:
        if container.get("name") not in own:
            continue
        ports = raw.objects(container, "ports")
        probes = {
            name: probing.resolved(probe, ports)
            for name in ("livenessProbe", "startupProbe")
            if (probe := raw.mapping(container, name))
        }
        yield raw.text(container, "name"), probes


def _containers(image: str, probes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    mount = {"name": STATE, "mountPath": STATE_PATH}
    both = {"image": image, "resources": RESOURCES, "securityContext": SECURITY}
    guard = {
        "name": GUARD,
        **both,
        "restartPolicy": "Always",
        "args": [
            "runtime",
            "guard",
            f"--port={PORT}",
            f"--access={ACCESS_PATH}",
            f"--state={STATE_PATH}",
        ],
        "env": [{"name": PROBES, "value": json.dumps(probes, sort_keys=True)}],
        "ports": [{"name": "guard", "containerPort": PORT, "protocol": "TCP"}],
        "volumeMounts": [
            mount,
            {"name": ACCESS, "mountPath": ACCESS_PATH, "readOnly": True},
        ],
    }
    wait = {"name": WAIT, **both, "args": ["runtime", "guard", f"--port={PORT}", "--wait"]}
    return guard, wait


def _volumes() -> list[dict[str, Any]]:
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    token = {"path": "token", "expirationSeconds": 3600}
    sources = [{"serviceAccountToken": token}, {"configMap": ca}]
    return [
        {"name": ACCESS, "projected": {"defaultMode": 0o444, "sources": sources}},
        {"name": STATE, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ]
