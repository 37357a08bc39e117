"""What the traffic part of a pod is told, in variables of its container. The first three come from
the pod's own fields, `FEDERATOR_APPLICATION` from the injection, the others from the RuntimeProfile
and from `spec.sidecars`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from federator.runtime import probes
from federator.runtime.parts import DRAIN_MAX_S
from federator.runtime.probes import Probe
from federator.runtime.traffic import members
from federator.runtime.traffic.members import Member

APPLICATION: Final = "FEDERATOR_APPLICATION"
"""Readiness probes and port of the workload's containers, as `federator/kinds` writes them."""
DRAIN_S: Final = 15.0
SESSION_S: Final = 10.0
EMBEDDED: Final = "embedded"
"""In place of host:port: a registry in the memory of the process."""
LABELS: Final[Mapping[str, str]] = {
    "cluster": "PINTEREST_CLUSTER",
    "zone": "PINTEREST_ZONE",
    "project": "PINTEREST_PROJECT",
    "workload": "PINTEREST_WORKLOAD_NAME",
    "pod": "POD_NAME",
}
"""Metadata of every entry, and the variables that it comes from."""


class Unusable(ValueError):
    """A variable is missing or wrong; the text names it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How one pod takes part. Times in seconds."""

    member: Member
    probes: Mapping[str, Probe]
    """Container -> its readiness probe."""
    hosts: str
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Container -> its own preStop hook, called after the drain: httpGet or sleep."""
    drain_s: float = DRAIN_S
    session_s: float = SESSION_S
    secret: Path | None = None
    certificates: tuple[Path, Path, Path] | None = None

    @property
    def anonymous(self) -> bool:
        """Whether a registry on the network takes the pod for anybody: entries have open rights."""
        return self.hosts != EMBEDDED and self.secret is None and self.certificates is None

    @property
    def hooks_s(self) -> float:
        """The longest time that a hook sleeps."""
        return max((sleep_s(hook) for hook in self.hooks.values()), default=0.0)


def sleep_s(hook: Mapping[str, Any]) -> float:
    """How long a hook sleeps; 0 for httpGet."""
    how = hook.get("sleep")
    seconds = how.get("seconds") if isinstance(how, Mapping) else 0
    return float(seconds) if type(seconds) is int and seconds > 0 else 0.0


def registers(environ: Mapping[str, str]) -> bool:
    """Whether the pod is to be in a registry at all."""
    return environ.get("FEDERATOR_TRAFFIC_REGISTER", "true").lower() not in ("false", "0", "no")


def read(environ: Mapping[str, str]) -> Settings:
    """Raises Unusable."""
    application = _object(environ, APPLICATION)
    try:
        folder = members.folder(
            _text(environ, "FEDERATOR_TRAFFIC_SERVICE", environ.get("PINTEREST_WORKLOAD_NAME", "")),
            _text(environ, "FEDERATOR_TRAFFIC_ENVIRONMENT", "prod"),
        )
    except Unusable:
        raise
    except ValueError as bad:
        raise Unusable(str(bad)) from None
    metadata = {name: environ[field] for name, field in LABELS.items() if environ.get(field)}
    for name, value in _object(environ, "FEDERATOR_TRAFFIC_METADATA").items():
        if not isinstance(value, str):
            raise Unusable(f"FEDERATOR_TRAFFIC_METADATA: {name} is not a text")
        metadata[name] = value
    first_port = application.get("port")
    if type(first_port) is not int and not environ.get("FEDERATOR_TRAFFIC_PORT", ""):
        raise Unusable(
            "there is no port to register: no container names one, and FEDERATOR_TRAFFIC_PORT is"
            " missing"
        )
    port = _number(
        environ, "FEDERATOR_TRAFFIC_PORT", first_port if type(first_port) is int else 0, 1, 65535
    )
    member = Member(
        folder=folder,
        uid=members.digits(_text(environ, "POD_UID")),
        ip=_text(environ, "POD_IP"),
        port=int(port),
        weight=int(_number(environ, "FEDERATOR_TRAFFIC_WEIGHT", 1, 0, members.WEIGHT_MAX)),
        metadata=metadata,
    )
    secret = environ.get("FEDERATOR_TRAFFIC_SECRET", "")
    identity = environ.get("FEDERATOR_TRAFFIC_TLS", "")
    return Settings(
        member=member,
        probes=_probes(application, member.port),
        hosts=_text(environ, "FEDERATOR_ZOOKEEPER"),
        hooks=_hooks(application),
        drain_s=_number(environ, "FEDERATOR_TRAFFIC_DRAIN_SECONDS", DRAIN_S, 0, DRAIN_MAX_S),
        session_s=_number(environ, "FEDERATOR_ZOOKEEPER_SESSION_SECONDS", SESSION_S, 1, 300),
        secret=Path(secret) if secret else None,
        certificates=certificates(Path(identity)) if identity else None,
    )


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Certificate, key and trust bundle in the folder of a pod's identity."""
    return folder / "tls.crt", folder / "tls.key", folder / "ca.crt"


def _probes(application: Mapping[str, Any], port: int) -> dict[str, Probe]:
    """Container -> probe. A pod without a readiness probe is ready when its port accepts
    connections."""
    given = application.get("probes") or {}
    if not isinstance(given, dict):
        raise Unusable(f"{APPLICATION}: probes is no object")
    read_probes = {}
    for name, written in given.items():
        if not isinstance(written, dict) or not probes.WAYS & written.keys():
            raise Unusable(
                f"{APPLICATION}: the readiness probe of {name} is none that the sidecar can ask:"
                f" {', '.join(sorted(probes.WAYS))}"
            )
        read_probes[name] = Probe.of(written)
    return read_probes or {"application": Probe.of({"tcpSocket": {"port": port}})}


def _hooks(application: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    given = application.get("preStop") or {}
    if not isinstance(given, dict) or not all(isinstance(hook, dict) for hook in given.values()):
        raise Unusable(f"{APPLICATION}: preStop is no object of hooks")
    return given


def _object(environ: Mapping[str, str], name: str) -> dict[str, Any]:
    text = environ.get(name, "")
    try:
        value = json.loads(text) if text else {}
    except ValueError as bad:
        raise Unusable(f"{name} is no JSON: {bad}") from None
    if not isinstance(value, dict):
        raise Unusable(f"{name} is no JSON object")
    return value


def _text(environ: Mapping[str, str], name: str, default: str = "") -> str:
    text = environ.get(name, "").strip() or default
    if not text:
        raise Unusable(f"the variable {name} is missing")
    return text


def _number(
    environ: Mapping[str, str], name: str, default: float, least: float, most: float
) -> float:
    text = environ.get(name, "").strip()
    try:
        value = float(text) if text else float(default)
    except ValueError:
        raise Unusable(f"{name} is {text[:40]!r}, which is no number") from None
    if not least <= value <= most:
        raise Unusable(f"{name} is {value:g}; from {least:g} to {most:g} is accepted")
    return value
