"""The PodSecurity admission plugin of a real API server: what the labels of a namespace ask of
pods, in its words.

Which fields a level forbids is `model.kubernetes.pod_security`'s; here is how a server says it.
Labels that ask for an older version switch off the checks that came later, and what 1.37 allows and
1.36 did not is allowed from v1.37 on; what still older versions allowed less of (types, sysctls) is
not told apart. Pure; used by the REST layer and by the stand-in controllers, because their pods
pass no REST layer.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.embedded.schema import facts
from federator.embedded.storage.field_errors import FieldError, invalid
from federator.model.kubernetes import pod_security
from federator.model.kubernetes.pod_security import APPARMOR, Level, Violation

Pod = Mapping[str, Any]
"""A pod or a pod template."""

_LABEL: Final = "pod-security.kubernetes.io/"
_LEVELS: Final = "must be one of privileged, baseline, restricted"
_VERSIONS: Final = 'must be "latest" or "v1.x"'
_VERSION: Final = re.compile(r"latest|v1\.(0|[1-9][0-9]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Standard:
    """A level of the standards in one version, as messages name it."""

    level: Level = Level.PRIVILEGED
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    @property
    def minor(self) -> float:
        """The second number of the version; infinite for `latest`."""
        return float("inf") if self.version == "latest" else int(self.version.removeprefix("v1."))


@dataclass(frozen=True, slots=True)
class Policy:
    """What a namespace's labels ask for. Without a level to warn of, the enforced one is warned
    of."""

    enforce: Standard = Standard()
    warn: Standard = Standard()


OPEN: Final = Policy()
"""Of a namespace without labels: real servers default to `privileged`."""


def policy(labels: Mapping[str, str]) -> Policy:
    """What the labels ask for. Spelt wrongly, `enforce` is `restricted`, `warn` silent, and a
    version `latest`."""
    if not any(name.startswith(_LABEL) for name in labels):
        return OPEN
    enforce = Standard(_level(labels, "enforce", Level.RESTRICTED), _version(labels, "enforce"))
    if _LABEL + "warn" not in labels and enforce.level is not Level.PRIVILEGED:
        return Policy(
            enforce,
            Standard(enforce.level, _version(labels, "warn" if _says(labels) else "enforce")),
        )
    return Policy(
        enforce, Standard(_level(labels, "warn", Level.PRIVILEGED), _version(labels, "warn"))
    )


def _says(labels: Mapping[str, str]) -> bool:
    return f"{_LABEL}warn-version" in labels


def _level(labels: Mapping[str, str], mode: str, otherwise: Level) -> Level:
    written = labels.get(_LABEL + mode)
    if written is None:
        return Level.PRIVILEGED
    return Level(written) if written in tuple(Level) else otherwise


def _version(labels: Mapping[str, str], mode: str) -> str:
    written = labels.get(f"{_LABEL}{mode}-version", "latest")
    return written if _VERSION.fullmatch(written) else "latest"


def label_errors(labels: Mapping[str, str]) -> list[FieldError]:
    """What is wrong with the labels of a namespace."""
    errors: list[FieldError] = []
    for mode in ("enforce", "audit", "warn"):
        for name, allowed, words in (
            (_LABEL + mode, lambda written: written in tuple(Level), _LEVELS),
            (f"{_LABEL}{mode}-version", _VERSION.fullmatch, _VERSIONS),
        ):
            written = labels.get(name)
            if written is not None and not allowed(written):
                errors.append(invalid(f"metadata.labels[{name}]", written, words))
    return errors


_SYSCTLS_OF_1_37: Final = ("net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat")
"""Forbidden below; the hub goes by the standards of 1.36, which members of both versions hold."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One control that a pod fails: `reason` names it, `detail` says where."""

    reason: str
    detail: str


def findings(pod: Pod, standard: Standard) -> list[Finding]:
    """What of the pod the standard does not allow, in the order of a real server."""
    groups: dict[tuple[str, Level], list[Violation]] = {}
    for violation in pod_security.violations(pod, standard.level):
        if standard.minor >= 37 and _value(pod, violation.path) in _SYSCTLS_OF_1_37:
            continue
        groups.setdefault((violation.control, violation.level), []).append(violation)
    strict = standard.level is Level.RESTRICTED
    inside = [
        key
        for key in _WORDS
        if standard.minor >= _SINCE.get(key, 0) and (strict or key[1] is Level.BASELINE)
    ]
    replaced = {_REPLACES[key] for key in inside if key in _REPLACES}
    out = []
    for key in inside:
        violations = groups.get(key, [])
        if key == _SECCOMP_SET:
            violations = groups.get(_SECCOMP, violations)
        if violations and key not in replaced:
            out.append(_WORDS[key](pod, violations))
    return out


def reasons(pod: Pod, standard: Standard) -> str:
    """The names of the findings only."""
    return ", ".join(finding.reason for finding in findings(pod, standard))


def refusal(pod: Pod, labels: Mapping[str, str]) -> str:
    """Why a namespace with these labels refuses the pod; empty when it does not."""
    return _sentence(pod, policy(labels).enforce, "violates")


def warning(pod: Pod, labels: Mapping[str, str]) -> str:
    """What a namespace with these labels warns of; empty when there is nothing."""
    return _sentence(pod, policy(labels).warn, "would violate")


def _sentence(pod: Pod, standard: Standard, verb: str) -> str:
    details = ", ".join(f"{each.reason} ({each.detail})" for each in findings(pod, standard))
    return f'{verb} PodSecurity "{standard}": {details}' if details else ""


# Words

_CONTAINER: Final = re.compile(r"spec\.(\w+)\[(\d+)\]")
_STEP: Final = re.compile(r"(\w+)(?:\[(\d+)\])?")


def _value(pod: Pod, path: str) -> Any:
    """What is at the path of a violation; None when nothing is."""
    node: Any = pod
    for name, index in _STEP.findall(path):
        node = node.get(name) if isinstance(node, Mapping) else None
        if index:
            node = node[int(index)] if isinstance(node, list) else node
    return node


def _names(pod: Pod, violations: Iterable[Violation]) -> list[str]:
    """The containers or volumes that the violations are in, each once."""
    matches = [_CONTAINER.match(violation.path) for violation in violations]
    return list(dict.fromkeys(str(_value(pod, f"{match[0]}.name")) for match in matches if match))


def _quoted(values: Iterable[object]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def _some(noun: str, names: Sequence[object]) -> str:
    """`container "a"`, `containers "a", "b"`."""
    return f"{noun}{'' if len(names) == 1 else 's'} {_quoted(names)}"


def _subjects(pod: Pod, violations: Sequence[Violation]) -> list[str]:
    """The subjects of the sentence: the pod, the containers that set the fields, or both."""
    names = _names(pod, violations)
    whole = (
        ["pod"]
        if any(violation.path.startswith("spec.securityContext.") for violation in violations)
        else []
    )
    return whole + ([_some("container", names)] if names else [])


def _distinct(pod: Pod, violations: Iterable[Violation]) -> list[str]:
    return sorted({str(_value(pod, violation.path)) for violation in violations})


def _apparmor(pod: Pod, violations: Sequence[Violation]) -> Finding:
    """An annotation stands for the field of the container that it names, which servers fill from
    it."""
    notes = [violation for violation in violations if violation.path.startswith("metadata.")]
    fields = [violation for violation in violations if violation not in notes]
    values = set(_distinct(pod, fields))
    names = _names(pod, fields)
    shown = []
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    for key in sorted(
        violation.path.removeprefix("metadata.annotations[").removesuffix("]")
        for violation in notes
    ):
        shown.append(f'{key}="{annotations[key]}"')
        if annotations[key] == "unconfined":
            values.add("Unconfined")
            names += [name for name in (key.removeprefix(APPARMOR),) if name not in names]
    subjects = (
        ["pod"]
        if any(violation.path.startswith("spec.securityContext.") for violation in fields)
        else []
    )
    subjects += [_some("container", names)] if names else []
    subjects += ["annotation" if len(shown) == 1 else "annotations"] if shown else []
    values_shown = sorted((*values, *shown))
    reason = "forbidden AppArmor profile" + ("" if len(values_shown) == 1 else "s")
    return Finding(
        reason,
        f"{' and '.join(subjects)} must not set AppArmor profile type to {_quoted(values_shown)}",
    )


def _added(reason: str) -> Callable[[Pod, Sequence[Violation]], Finding]:
    def words(pod: Pod, violations: Sequence[Violation]) -> Finding:
        lacking = [violation for violation in violations if violation.path.endswith(".drop")]
        added = [violation for violation in violations if violation not in lacking]
        parts = []
        if lacking:
            subject = _some("container", _names(pod, lacking))
            parts.append(f'{subject} must set securityContext.capabilities.drop=["ALL"]')
        if added:
            subject = _some("container", _names(pod, added))
            parts.append(
                f"{subject} must not include {_quoted(_distinct(pod, added))} in"
                " securityContext.capabilities.add"
            )
        return Finding(reason, "; ".join(parts))

    return words


def _host_paths(pod: Pod, violations: Sequence[Violation]) -> Finding:
    return Finding("hostPath volumes", _some("volume", _names(pod, violations)))


def _uses(noun: str, names: Sequence[str], what: str, values: Sequence[str]) -> str:
    verb = "uses" if len(names) == 1 else "use"
    return f"{_some(noun, names)} {verb} {what}{'' if len(values) == 1 else 's'}"


def _host_ports(pod: Pod, violations: Sequence[Violation]) -> Finding:
    ports = _distinct(pod, violations)
    return Finding(
        "hostPort",
        f"{_uses('container', _names(pod, violations), 'hostPort', ports)} {', '.join(ports)}",
    )


def _probed_hosts(pod: Pod, violations: Sequence[Violation]) -> Finding:
    hosts = _distinct(pod, violations)
    subject = _uses("container", _names(pod, violations), "probe or lifecycle host", hosts)
    return Finding("probe or lifecycle host", f"{subject} {_quoted(hosts)}")


def _selinux(pod: Pod, violations: Sequence[Violation]) -> Finding:
    types = _distinct(
        pod, [violation for violation in violations if violation.path.endswith(".type")]
    )
    parts = [_some("type", types)] if types else []
    parts += [
        f"{field} may not be set"
        for field in ("user", "role")
        if any(violation.path.endswith(field) for violation in violations)
    ]
    subject = " and ".join(_subjects(pod, violations))
    return Finding(
        "seLinuxOptions",
        f"{subject} set forbidden securityContext.seLinuxOptions: {'; '.join(parts)}",
    )


def _values(reason: str, field: str) -> Callable[[Pod, Sequence[Violation]], Finding]:
    def words(pod: Pod, violations: Sequence[Violation]) -> Finding:
        subject = " and ".join(_subjects(pod, violations))
        return Finding(
            reason, f"{subject} must not set {field} to {_quoted(_distinct(pod, violations))}"
        )

    return words


def _fixed(reason: str, demand: str) -> Callable[[Pod, Sequence[Violation]], Finding]:
    return lambda pod, violations: Finding(
        reason, f"{' and '.join(_subjects(pod, violations))} {demand}"
    )


def _volume_types(pod: Pod, violations: Sequence[Violation]) -> Finding:
    types = set()
    for violation in violations:
        volume = _value(pod, violation.path)
        fields = volume.items() if isinstance(volume, Mapping) else ()
        types.add(
            next(
                (name for name, value in fields if name != "name" and value is not None), "unknown"
            )
        )
    names = _names(pod, violations)
    subject = _uses("volume", names, "restricted volume type", sorted(types))
    return Finding("restricted volume types", f"{subject} {_quoted(sorted(types))}")


def _non_root(pod: Pod, violations: Sequence[Violation]) -> Finding:
    set_paths = [violation for violation in violations if _value(pod, violation.path) is not None]
    if set_paths:
        subject = " and ".join(_subjects(pod, set_paths))
        return Finding(
            "runAsNonRoot != true", f"{subject} must not set securityContext.runAsNonRoot=false"
        )
    subject = _some("container", _names(pod, violations))
    return Finding(
        "runAsNonRoot != true", f"pod or {subject} must set securityContext.runAsNonRoot=true"
    )


_PROFILE: Final = "securityContext.seccompProfile.type"
_seccomp = _values("seccompProfile", _PROFILE)


def _seccomp_set(pod: Pod, violations: Sequence[Violation]) -> Finding:
    if any(_value(pod, violation.path) is not None for violation in violations):
        return _seccomp(pod, violations)
    subject = _some("container", _names(pod, violations))
    return Finding(
        "seccompProfile", f'pod or {subject} must set {_PROFILE} to "RuntimeDefault" or "Localhost"'
    )


_SECCOMP: Final = ("Seccomp", Level.BASELINE)
_SECCOMP_SET: Final = ("Seccomp", Level.RESTRICTED)
_WORDS: Final[Mapping[tuple[str, Level], Callable[[Pod, Sequence[Violation]], Finding]]] = {
    ("AppArmor", Level.BASELINE): _apparmor,
    ("Capabilities", Level.BASELINE): _added("non-default capabilities"),
    ("Host Namespaces", Level.BASELINE): lambda pod, violations: Finding(
        "host namespaces",
        ", ".join(f"{violation.path.removeprefix('spec.')}=true" for violation in violations),
    ),
    ("HostPath Volumes", Level.BASELINE): _host_paths,
    ("Host Ports", Level.BASELINE): _host_ports,
    ("Host Probes / Lifecycle Hooks", Level.BASELINE): _probed_hosts,
    ("Privileged Containers", Level.BASELINE): _fixed(
        "privileged", "must not set securityContext.privileged=true"
    ),
    ("/proc Mount Type", Level.BASELINE): _values("procMount", "securityContext.procMount"),
    ("SELinux", Level.BASELINE): _selinux,
    _SECCOMP: _seccomp,
    ("Sysctls", Level.BASELINE): lambda pod, violations: Finding(
        "forbidden sysctls", ", ".join(str(_value(pod, violation.path)) for violation in violations)
    ),
    ("HostProcess", Level.BASELINE): _fixed(
        "hostProcess", "must not set securityContext.windowsOptions.hostProcess=true"
    ),
    ("Privilege Escalation", Level.RESTRICTED): _fixed(
        "allowPrivilegeEscalation != false",
        "must set securityContext.allowPrivilegeEscalation=false",
    ),
    ("Capabilities", Level.RESTRICTED): _added("unrestricted capabilities"),
    ("Volume Types", Level.RESTRICTED): _volume_types,
    ("Running as Non-root", Level.RESTRICTED): _non_root,
    ("Running as Non-root user", Level.RESTRICTED): _fixed(
        "runAsUser=0", "must not set runAsUser=0"
    ),
    _SECCOMP_SET: _seccomp_set,
}
"""By control, in the order in which a server runs them."""
_SINCE: Final[Mapping[tuple[str, Level], int]] = {
    ("Host Probes / Lifecycle Hooks", Level.BASELINE): 34,
    _SECCOMP: 19,
    ("Privilege Escalation", Level.RESTRICTED): 8,
    ("Capabilities", Level.RESTRICTED): 22,
    ("Running as Non-root user", Level.RESTRICTED): 23,
    _SECCOMP_SET: 19,
}
"""The 1.x from which on a control is checked."""
_REPLACES: Final[Mapping[tuple[str, Level], tuple[str, Level]]] = {
    ("Capabilities", Level.RESTRICTED): ("Capabilities", Level.BASELINE),
    ("Volume Types", Level.RESTRICTED): ("HostPath Volumes", Level.BASELINE),
    _SECCOMP_SET: _SECCOMP,
}
"""Controls of `restricted` that say what the one of `baseline` would, too."""


# Objects

_TEMPLATES: Final[Mapping[tuple[str, str], Sequence[str]]] = facts.by_resource("podTemplates")
"""Where the kinds that are looked at have their pods."""
PODS: Final = ("", "pods")
NAMESPACES: Final = ("", "namespaces")


def template_of(obj: Pod, kind: tuple[str, str]) -> Pod | None:
    """The pod that an object is or makes; None for a kind that makes none."""
    path = _TEMPLATES.get(kind)
    if path is None:
        return None
    node: Any = obj
    for name in path:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else None


def changes_containers(pod: Pod, old: Pod) -> bool:
    """Whether an update of a pod is looked at again: only images and containers that are added
    count."""
    return any(_images(pod, field) != _images(old, field) for field in pod_security.CONTAINERS)


def _images(pod: Pod, field: str) -> list[Any]:
    return [container.get("image") for container in (pod.get("spec") or {}).get(field) or ()]


def new_level_warnings(
    name: str, labels: Mapping[str, str], old: Mapping[str, str], pods: Iterable[Pod]
) -> list[str]:
    """What a namespace's pods have against the level that its labels are changed to, one line for
    pods alike."""
    new, before = policy(labels).enforce, policy(old).enforce
    strict = tuple(Level).index
    if new == before or new.level is Level.PRIVILEGED:
        return []
    if new.version == before.version and strict(new.level) <= strict(before.level):
        return []
    alike: dict[str, list[str]] = {}
    for pod in pods:
        if sentence := reasons(pod, new):
            alike.setdefault(sentence, []).append(pod["metadata"]["name"])
    if not alike:
        return []
    head = f'existing pods in namespace "{name}" violate the new PodSecurity enforce level "{new}"'
    return [head, *sorted(f"{_first(names)}: {sentence}" for sentence, names in alike.items())]


def _first(names: Sequence[str]) -> str:
    others = len(names) - 1
    return min(names) + (f" (and {others} other pod{'' if others == 1 else 's'})" if others else "")
