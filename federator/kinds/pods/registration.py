"""What a pod needs so that it is in the registry of its service exactly while it can serve. The
sidecar of the profile that has `drain` asks the application's readiness probes. A `preStop` hook of
each of the workload's containers waits until the sidecar has taken the pod out. Pure.

What the sidecar cannot ask or call is refused: it reaches addresses of the pod, and runs nothing in
other containers.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.pods import probing
from federator.model import names
from federator.model.errors import FieldError
from federator.runtime import parts, probes
from federator.runtime.traffic import settings
from federator.runtime.traffic.settings import Unusable

ANNOTATION: Final = f"{names.FEDERATION}/traffic-sidecar"
"""Of a pod: the container that is ready while clients may be sent there."""
GRACE_S: Final = 30
"""What Kubernetes gives a pod to end, where it does not say."""
FIELDS: Final[Mapping[str, str]] = {
    "POD_NAME": "metadata.name",
    "POD_UID": "metadata.uid",
    "POD_IP": "status.podIP",
}
"""Variables of the sidecar, and the fields of the pod that they hold."""
STANDINS: Final[Mapping[str, str]] = {
    "POD_NAME": "pod",
    "POD_UID": "0" * 32,
    "POD_IP": "10.0.0.1",
    "PINTEREST_WORKLOAD_NAME": "workload",
}
_TEMPLATE: Final = "spec.template.spec"
_SIDECARS: Final = "spec.sidecars"
_OFF: Final = "or take no part in the registry (parameter for FEDERATOR_TRAFFIC_REGISTER)"


@dataclass(frozen=True, slots=True)
class Registration:
    """How one template is registered."""

    sidecar: str
    hook: Obj
    """The preStop hook of the workload's containers."""
    variables: tuple[dict[str, Any], ...]
    """Of the sidecar."""


def drain_token(uid: str) -> str:
    """What `/drain` of a sidecar asks for: made of the uid of the slice that a member renders. It
    is the same in each rendering, and another pod cannot work it out. "" without a uid, as on the
    host, where no pod is made from what is rendered."""
    return hashlib.sha256(f"federator drain {uid}".encode()).hexdigest()[:32] if uid else ""


def of(support: Obj, added: Sequence[Obj], pod: Obj, uid: str = "") -> Registration | None:
    """None for a template that is not registered. `added`: the containers of the profile, with the
    workload's parameters. `uid`: of the slice. Raises FieldError."""
    entries = {raw.text(entry, "name"): entry for entry in raw.objects(support, "sidecars")}
    for container in added:
        name = raw.text(container, "name")
        drain = raw.mapping(entries.get(name, raw.NO_FIELDS), "drain")
        if drain and settings.registers(_values(container)):
            return _of(name, drain, container, pod, drain_token(uid))
    return None


def _of(name: str, drain: Obj, sidecar: Obj, pod: Obj, token: str) -> Registration:
    containers = raw.objects(pod, "containers")
    application = raw.present(
        {
            "port": _first_port(containers),
            "probes": dict(_probes(containers)),
            "preStop": dict(_hooks(containers)),
        }
    )
    text = json.dumps(application, sort_keys=True)
    given = _values(sidecar)
    try:
        read = settings.read({**STANDINS, **given, settings.APPLICATION: text})
    except Unusable as bad:
        raise FieldError(f"{_SIDECARS}.{name}", str(bad)) from None
    _check_grace(pod, read)
    asked = {"path": raw.text(drain, "path") or "/drain", "port": drain.get("port")}
    variables: list[dict[str, Any]] = [{"name": settings.APPLICATION, "value": text}]
    variables += [
        {"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in FIELDS.items()
    ]
    # One that the operator has put into the profile is the one that the sidecar asks for.
    if token := given.get(parts.DRAIN_TOKEN, token):
        asked["httpHeaders"] = [{"name": parts.DRAIN_HEADER, "value": token}]
        variables.append({"name": parts.DRAIN_TOKEN, "value": token})
    return Registration(name, {"httpGet": asked}, tuple(variables))


def _values(container: Obj) -> dict[str, str]:
    """The variables of a container that have a value in its spec; for one that gets it from
    elsewhere, a value that can be read."""
    values = {}
    for variable in raw.objects(container, "env"):
        name = raw.text(variable, "name")
        if "valueFrom" in variable:
            if name == "FEDERATOR_ZOOKEEPER":
                values[name] = settings.EMBEDDED
        else:
            values[name] = raw.text(variable, "value")
    return values


def _first_port(containers: Sequence[Obj]) -> int | None:
    ports = (
        raw.integer(port, "containerPort")
        for container in containers
        for port in raw.objects(container, "ports")
        if raw.text(port, "protocol") in ("", "TCP")
    )
    return next((port for port in ports if port), None)


def _probes(containers: Sequence[Obj]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Container -> its readiness probe."""
    for at, container in enumerate(containers):
        probe = raw.mapping(container, "readinessProbe")
        if not probe:
            continue
        path = f"{_TEMPLATE}.containers[{at}].readinessProbe"
        ways = sorted(probes.WAYS & probe.keys())
        if "exec" in probe:
            raise FieldError(
                f"{path}.exec",
                "runs in the container, so the sidecar that registers the pod cannot ask it; use"
                f" httpGet, tcpSocket or grpc, {_OFF}",
            )
        if not ways:
            raise FieldError(path, "has none of httpGet, tcpSocket and grpc")
        ports = raw.objects(container, "ports")
        _check_way(f"{path}.{ways[0]}", raw.mapping(probe, ways[0]), ports)
        yield raw.text(container, "name"), probing.resolved(probe, ports)


def _hooks(containers: Sequence[Obj]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Container -> its own preStop hook, which the sidecar calls after the drain."""
    for at, container in enumerate(containers):
        hook = raw.mapping(container, "lifecycle", "preStop")
        if not hook:
            continue
        path = f"{_TEMPLATE}.containers[{at}].lifecycle.preStop"
        ports = raw.objects(container, "ports")
        if "httpGet" in hook:
            _check_way(f"{path}.httpGet", raw.mapping(hook, "httpGet"), ports)
        elif "sleep" not in hook:
            way = next(iter(hook))
            raise FieldError(
                f"{path}.{way}",
                "a container has one preStop hook, and the one that takes the pod out of the"
                f" registry stands in its place; the sidecar then calls yours if it is httpGet or"
                f" sleep, and cannot call {way}; use one of these, {_OFF}",
            )
        yield raw.text(container, "name"), probing.resolved(hook, ports)


def _check_way(path: str, how: Obj, ports: list[Obj]) -> None:
    if probing.port(how.get("port"), ports) is None:
        raise FieldError(f"{path}.port", "is no port, and no name of a port of this container")
    if raw.text(how, "host"):
        raise FieldError(f"{path}.host", "the sidecar asks its own pod only; leave it out")


def _check_grace(pod: Obj, read: settings.Settings) -> None:
    """The drain is part of the time that a pod has to end."""
    grace_s = raw.integer(pod, "terminationGracePeriodSeconds", default=GRACE_S)
    sleeps_s = read.hooks_s
    if read.drain_s + sleeps_s > parts.DRAIN_MAX_S:
        raise FieldError(
            f"{_TEMPLATE}.containers",
            f"the preStop hooks sleep {sleeps_s:g} s after a drain of {read.drain_s:g} s; the"
            f" sidecar gives up after {parts.DRAIN_MAX_S:g} s",
        )
    if read.drain_s + sleeps_s >= grace_s:
        hooks = f" and its own preStop hooks {sleeps_s:g} s" if sleeps_s else ""
        raise FieldError(
            f"{_TEMPLATE}.terminationGracePeriodSeconds",
            f"is {grace_s} s, of which the drain takes {read.drain_s:g} s{hooks}: the containers"
            " would be killed without time to end; ask for more than"
            f" {read.drain_s + sleeps_s:g} s",
        )


def stopped(container: Obj, registration: Registration) -> dict[str, Any]:
    """One of the workload's containers: it is told to end when the pod is out of the registry."""
    lifecycle = {**raw.mapping(container, "lifecycle"), "preStop": registration.hook}
    return {**container, "lifecycle": lifecycle}
