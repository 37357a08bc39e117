"""The Pod Security Standards of Kubernetes: which fields of a pod violate the levels `baseline` and
`restricted`.

One row per control, as of Kubernetes 1.36; what newer versions also allow (fewer checks for pods
with user namespaces) is refused. Pure and total: any JSON gets an answer, and a value that is not
understood is a violation. Used before placing, and by the embedded API for admission.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

VERSION: Final = "v1.36"
"""Version of the standards implemented here, in the format of the label `ENFORCE_VERSION`."""
ENFORCE: Final = "pod-security.kubernetes.io/enforce"
ENFORCE_VERSION: Final = "pod-security.kubernetes.io/enforce-version"
_VERSION: Final = re.compile(r"latest|v1\.(0|[1-9]\d{0,3})", re.ASCII)
CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"

Where = Iterator[tuple[str, str]]
"""(path below the pod, what is wrong there as the end of a sentence)."""


class Level(StrEnum):
    """From the most permissive to the strictest."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


DEFAULT: Final = Level.BASELINE
"""Level of a namespace without a label."""


@dataclass(frozen=True, slots=True)
class Enforced:
    """The level that a namespace enforces. `explicit`: set by its labels, not by default."""

    level: Level = DEFAULT
    version: str = VERSION
    explicit: bool = False
    ending: bool = False
    """The namespace is being deleted."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels by which API servers enforce it."""
        return {ENFORCE: str(self.level), ENFORCE_VERSION: self.version}


@dataclass(frozen=True, slots=True)
class Violation:
    """One field that violates the standards. `path` begins with `spec` or `metadata`; `level` is
    the most permissive level that forbids it."""

    control: str
    level: Level
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Control:
    """One control of the standards, under its name in the Kubernetes documentation."""

    name: str
    level: Level
    check: Callable[["Pod"], Where]


def enforced(labels: Mapping[str, Any]) -> Enforced:
    """The level and version in a namespace's labels. An unknown level is `restricted`, as API
    servers treat it; an invalid version is replaced by `VERSION`."""
    written, version = labels.get(ENFORCE), labels.get(ENFORCE_VERSION)
    readable = isinstance(version, str) and _VERSION.fullmatch(version) is not None
    kept = version if readable and isinstance(version, str) else VERSION
    if written is None or written == "":
        return Enforced(DEFAULT, kept)
    return Enforced(
        Level(written) if written in tuple(Level) else Level.RESTRICTED, kept, explicit=True
    )


def violations(pod: Mapping[str, Any], level: Level) -> Iterator[Violation]:
    """What the level forbids in a pod or pod template, in the order of the controls."""
    if level is Level.PRIVILEGED:
        return
    seen = Pod(pod)
    for control in CONTROLS:
        if control.level is Level.BASELINE or level is Level.RESTRICTED:
            for path, message in control.check(seen):
                yield Violation(control.name, control.level, path, message)


def _at(value: Any, *path: str) -> Any:
    for name in path:
        if type(value) is not dict and not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _entries(value: Any, *path: str) -> Iterator[tuple[int, Any]]:
    entries = _at(value, *path)
    if entries is None:
        return enumerate(())
    return enumerate(entries if isinstance(entries, list) else (entries,))


class Pod:
    """A pod as the controls look at it: its containers and security contexts are found once."""

    __slots__ = ("containers", "contexts", "metadata", "own", "spec")

    def __init__(self, pod: Mapping[str, Any]) -> None:
        self.metadata = _at(pod, "metadata")
        self.spec = _at(pod, "spec")
        self.containers = [
            (f"spec.{field}[{index}]", container)
            for field in CONTAINERS
            for index, container in _entries(self.spec, field)
        ]
        """(path, container) of each."""
        self.own = [
            (path, _at(container, "securityContext")) for path, container in self.containers
        ]
        """(path, security context) of each container."""
        every = [("spec", _at(self.spec, "securityContext")), *self.own]
        self.contexts = [(f"{path}.securityContext", context) for path, context in every if context]
        """The security contexts that say something: the pod's, then each container's."""


def _unless(pod: Pod, field: tuple[str, ...], allowed: tuple[Any, ...], words: str) -> Where:
    """Every security context that sets `field` to something else than `allowed`."""
    for path, context in pod.contexts:
        value = _at(context, *field)
        if value is not None and value not in allowed:
            yield ".".join((path, *field)), f"is {_shown(value)}; {words}"


def _shown(value: Any) -> str:
    text = "true" if value is True else "false" if value is False else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _is_windows(pod: Pod) -> bool:
    return bool(_at(pod.spec, "os", "name") == "windows")


def _host_process(pod: Pod) -> Where:
    return _unless(
        pod, ("windowsOptions", "hostProcess"), (False,), "no Windows container may be the host's"
    )


def _host_namespaces(pod: Pod) -> Where:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if _at(pod.spec, field) not in (None, False):
            yield f"spec.{field}", "is true; a pod may not share a namespace of its node"


def _privileged(pod: Pod) -> Where:
    for path, context in pod.own:
        if _at(context, "privileged") not in (None, False):
            yield f"{path}.securityContext.privileged", "is true; a container may not be privileged"


BASELINE_CAPABILITIES: Final = (
    *(
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
    ),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)


def _capabilities(pod: Pod) -> Where:
    return _added(pod, BASELINE_CAPABILITIES)


def _added(pod: Pod, allowed: tuple[str, ...]) -> Where:
    for path, context in pod.own:
        for index, name in _entries(context, "capabilities", "add"):
            if name not in allowed:
                yield (
                    f"{path}.securityContext.capabilities.add[{index}]",
                    f"is {_shown(name)}; only {', '.join(allowed)} may be added",
                )


def _host_paths(pod: Pod) -> Where:
    for index, volume in _entries(pod.spec, "volumes"):
        if _at(volume, "hostPath") is not None:
            yield (
                f"spec.volumes[{index}].hostPath",
                "is set; a volume may not be a path of its node",
            )


def _host_ports(pod: Pod) -> Where:
    for path, container in pod.containers:
        for index, port in _entries(container, "ports"):
            if _at(port, "hostPort") not in (None, 0):
                yield (
                    f"{path}.ports[{index}].hostPort",
                    "is set; a container may not take a port of its node",
                )


_WAYS: Final = ("httpGet", "tcpSocket")
_ASKED: Final = (
    *(
        (probe, way)
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for way in _WAYS
    ),
    *(("lifecycle", moment, way) for moment in ("postStart", "preStop") for way in _WAYS),
)


def _probed_hosts(pod: Pod) -> Where:
    for path, container in pod.containers:
        for way in _ASKED:
            if _at(container, *way, "host") not in (None, ""):
                yield (
                    ".".join((path, *way, "host")),
                    "is set; a node may be made to ask the pod itself only",
                )


def _apparmor(pod: Pod) -> Where:
    words = "only RuntimeDefault and Localhost are allowed"
    yield from _unless(pod, ("appArmorProfile", "type"), ("RuntimeDefault", "Localhost"), words)
    annotations = _at(pod.metadata, "annotations")
    for key, value in annotations.items() if isinstance(annotations, Mapping) else ():
        if str(key).startswith(APPARMOR):
            kept = isinstance(value, str) and (
                value in ("", "runtime/default") or value.startswith("localhost/")
            )
            if not kept:
                yield (
                    f"metadata.annotations[{key}]",
                    f"is {_shown(value)}; only runtime/default and localhost/* may be",
                )


SELINUX_TYPES: Final = (
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
)


def _selinux(pod: Pod) -> Where:
    words = "only container_t, container_init_t, container_kvm_t and container_engine_t are allowed"
    yield from _unless(pod, ("seLinuxOptions", "type"), SELINUX_TYPES, words)
    for field in ("user", "role"):
        yield from _unless(
            pod, ("seLinuxOptions", field), ("",), f"a pod may not choose its SELinux {field}"
        )


def _proc_mount(pod: Pod) -> Where:
    for path, context in pod.own:
        if (value := _at(context, "procMount")) not in (None, "", "Default"):
            yield (
                f"{path}.securityContext.procMount",
                f"is {_shown(value)}; only Default is allowed",
            )


def _seccomp(pod: Pod) -> Where:
    words = "only RuntimeDefault and Localhost are allowed"
    return _unless(pod, ("seccompProfile", "type"), ("RuntimeDefault", "Localhost"), words)


SYSCTLS: Final = (
    *(
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
    *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
)


def _sysctls(pod: Pod) -> Where:
    for index, sysctl in _entries(pod.spec, "securityContext", "sysctls"):
        if (name := _at(sysctl, "name")) not in SYSCTLS:
            yield (
                f"spec.securityContext.sysctls[{index}].name",
                f"is {_shown(name)}, which concerns the whole node",
            )


VOLUMES: Final = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
)


def _volume_types(pod: Pod) -> Where:
    for index, volume in _entries(pod.spec, "volumes"):
        fields = volume.items() if isinstance(volume, Mapping) else ()
        kinds = sorted(str(name) for name, value in fields if name != "name" and value is not None)
        if not kinds or any(kind not in VOLUMES for kind in kinds):
            what = ", ".join(kinds) or "of no type"
            yield f"spec.volumes[{index}]", f"is {what[:80]}; only {', '.join(VOLUMES)} are allowed"


def _escalation(pod: Pod) -> Where:
    if _is_windows(pod):
        return
    for path, context in pod.own:
        if _at(context, "allowPrivilegeEscalation") is not False:
            yield f"{path}.securityContext.allowPrivilegeEscalation", "must be set to false"


def _non_root(pod: Pod) -> Where:
    whole = _at(pod.spec, "securityContext", "runAsNonRoot")
    if whole not in (None, True):
        yield "spec.securityContext.runAsNonRoot", "may not be false"
    for path, context in pod.own:
        own = _at(context, "runAsNonRoot")
        if own not in (None, True):
            yield f"{path}.securityContext.runAsNonRoot", "may not be false"
        elif own is None and whole is None:
            yield (
                f"{path}.securityContext.runAsNonRoot",
                "must be true, here or in spec.securityContext",
            )


def _users(pod: Pod) -> Where:
    for path, context in pod.contexts:
        if (user := _at(context, "runAsUser")) is not None and (type(user) is not int or user == 0):
            yield f"{path}.runAsUser", "is 0; a container may not run as root"


def _seccomp_set(pod: Pod) -> Where:
    if _is_windows(pod) or _at(pod.spec, "securityContext", "seccompProfile", "type") is not None:
        return
    for path, context in pod.own:
        if _at(context, "seccompProfile", "type") is None:
            words = "must be RuntimeDefault or Localhost, here or in spec.securityContext"
            yield f"{path}.securityContext.seccompProfile.type", words


def _capabilities_dropped(pod: Pod) -> Where:
    if _is_windows(pod):
        return
    for path, context in pod.own:
        if not any(name == "ALL" for _, name in _entries(context, "capabilities", "drop")):
            yield f"{path}.securityContext.capabilities.drop", "must contain ALL"
    yield from _added(pod, ("NET_BIND_SERVICE",))


CONTROLS: Final[tuple[Control, ...]] = (
    Control("HostProcess", Level.BASELINE, _host_process),
    Control("Host Namespaces", Level.BASELINE, _host_namespaces),
    Control("Privileged Containers", Level.BASELINE, _privileged),
    Control("Capabilities", Level.BASELINE, _capabilities),
    Control("HostPath Volumes", Level.BASELINE, _host_paths),
    Control("Host Ports", Level.BASELINE, _host_ports),
    Control("Host Probes / Lifecycle Hooks", Level.BASELINE, _probed_hosts),
    Control("AppArmor", Level.BASELINE, _apparmor),
    Control("SELinux", Level.BASELINE, _selinux),
    Control("/proc Mount Type", Level.BASELINE, _proc_mount),
    Control("Seccomp", Level.BASELINE, _seccomp),
    Control("Sysctls", Level.BASELINE, _sysctls),
    Control("Volume Types", Level.RESTRICTED, _volume_types),
    Control("Privilege Escalation", Level.RESTRICTED, _escalation),
    Control("Running as Non-root", Level.RESTRICTED, _non_root),
    Control("Running as Non-root user", Level.RESTRICTED, _users),
    Control("Seccomp", Level.RESTRICTED, _seccomp_set),
    Control("Capabilities", Level.RESTRICTED, _capabilities_dropped),
)
