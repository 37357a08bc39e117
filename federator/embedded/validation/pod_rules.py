"""Validation of pod specs and what they hold, with a real API server's words. Used for pods and for
every template.

Covers what people get wrong: names, images, ports, resources, volumes and their mounts, probes,
tolerations, spread. Rare corners (Windows, projected details, device claims) are not checked.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.schema import scalars
from federator.embedded.storage.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from federator.embedded.validation import affinity_rules
from federator.embedded.validation.metadata_rules import (
    dns_label,
    label_value,
    labels,
    qualified_name,
    subdomain,
)

Struct = Mapping[str, Any]

NONNEGATIVE: Final = "must be greater than or equal to 0"
PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_IDS: Final = ("runAsUser", "runAsGroup")
_POD_IDS: Final = ("fsGroup", *_IDS)
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL: Final = ("Always", "IfNotPresent", "Never")
_RESTART: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PORT_NAME: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})


def nonnegative(value: Any, path: str) -> Iterator[FieldError]:
    """A number, where given, is not below zero."""
    if value is not None and value < 0:
        yield invalid(path, value, NONNEGATIVE)


def port_number(value: Any, path: str) -> Iterator[FieldError]:
    """A port between 1 and 65535."""
    if not 1 <= (value or 0) <= 65535:
        yield invalid(path, value or 0, PORT_RANGE)


def port_name(name: str) -> list[str]:
    """Complaints about an IANA service name."""
    problems = []
    if len(name) > 15:
        problems.append("must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    return problems


def port_or_name(value: Any, path: str) -> Iterator[FieldError]:
    """A target port: a number, or the name of a container's port."""
    if isinstance(value, str):
        for text in port_name(value):
            yield invalid(path, value, text)
    else:
        yield from port_number(value, path)


def named(value: Any, rule: Any, path: str) -> Iterator[FieldError]:
    """A string held against a name rule."""
    for text in rule(value):
        yield invalid(path, value, text)


def one_of(value: Any, allowed: tuple[str, ...], path: str) -> Iterator[FieldError]:
    """A required value of an enumeration."""
    if not value:
        yield required(path)
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def template(value: Struct, path: str) -> Iterator[FieldError]:
    """A pod template."""
    meta = value.get("metadata") or {}
    yield from labels(meta.get("labels"), f"{path}.labels")
    yield from labels_of_annotations(meta.get("annotations"), f"{path}.annotations")
    yield from spec(value.get("spec") or {}, f"{path}.spec")


def labels_of_annotations(values: Mapping[str, str] | None, path: str) -> Iterator[FieldError]:
    """Keys of annotations."""
    for key in sorted(values or ()):
        for text in qualified_name(key.lower()):
            yield invalid(path, key, text)


def spec(value: Struct, path: str) -> Iterator[FieldError]:
    """A pod spec, of a pod or of a template."""
    errors, volumes = _volumes(value.get("volumes") or [], f"{path}.volumes")
    yield from errors
    containers, inits = value.get("containers") or [], value.get("initContainers") or []
    if not containers:
        yield required(f"{path}.containers")
    yield from _containers(containers, volumes, f"{path}.containers")
    yield from _init_containers(inits, containers, volumes, f"{path}.initContainers")
    yield from one_of(value.get("restartPolicy"), _RESTART, f"{path}.restartPolicy")
    yield from one_of(value.get("dnsPolicy"), _DNS, f"{path}.dnsPolicy")
    yield from labels(value.get("nodeSelector"), f"{path}.nodeSelector")
    yield from _spread(
        value.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints"
    )
    for key, rule in (("serviceAccountName", subdomain), ("nodeName", subdomain)):
        if value.get(key):
            yield from named(value[key], rule, f"{path}.{key}")
    deadline = value.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        yield invalid(
            f"{path}.activeDeadlineSeconds",
            deadline,
            f"must be between 1 and {2**31 - 1}, inclusive",
        )
    for key in ("hostname", "subdomain"):
        if value.get(key):
            yield from named(value[key], dns_label, f"{path}.{key}")
    yield from tolerations(value.get("tolerations") or [], f"{path}.tolerations")
    yield from affinity_rules.affinity(value.get("affinity") or {}, f"{path}.affinity")
    yield from affinity_rules.ids(
        value.get("securityContext") or {}, f"{path}.securityContext", _POD_IDS
    )
    if value.get("priorityClassName"):
        yield from named(value["priorityClassName"], subdomain, f"{path}.priorityClassName")


def _volumes(volumes: list[Struct], path: str) -> tuple[list[FieldError], set[str]]:
    """(complaints, names of the sound volumes)."""
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume.get("name", "")
        sources = sorted(key for key in volume if key != "name")
        problems = [
            forbidden(f"{at}.{extra}", "may not specify more than 1 volume type")
            for extra in sources[1:]
        ]
        problems += _source(volume, sources, at)
        problems += (
            [required(f"{at}.name")] if not name else list(named(name, dns_label, f"{at}.name"))
        )
        if name in names:
            problems.append(duplicate(f"{at}.name", name))
        if not problems:
            names.add(name)
        errors += problems
    return errors, names


_SOURCE_NEEDS: Final = {
    "configMap": "name",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "hostPath": "path",
}


def _source(volume: Struct, sources: list[str], at: str) -> list[FieldError]:
    if not sources:
        return [required(at, "must specify a volume type")]
    needed = _SOURCE_NEEDS.get(sources[0])
    if needed is not None and not (volume[sources[0]] or {}).get(needed):
        return [required(f"{at}.{sources[0]}.{needed}")]
    return []


def _containers(containers: list[Struct], volumes: set[str], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        yield from _container(container, volumes, at)
        if container.get("name", "") in names:
            yield duplicate(f"{at}.name", container.get("name", ""))
        names.add(container.get("name", ""))
        yield from _probes(container, at)
    yield from _host_ports(containers, path)


def _init_containers(
    inits: list[Struct], regular: list[Struct], volumes: set[str], path: str
) -> Iterator[FieldError]:
    names = {container.get("name", "") for container in regular}
    for index, container in enumerate(inits):
        at = f"{path}[{index}]"
        yield from _container(container, volumes, at)
        policy = container.get("restartPolicy")
        if policy is not None and policy not in _RESTART:
            yield not_supported(f"{at}.restartPolicy", policy, ("Always",))
        if container.get("name", "") in names:
            yield duplicate(f"{at}.name", container.get("name", ""))
        names.add(container.get("name", ""))
        if policy == "Always":
            yield from _probes(container, at)
            continue
        for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if key in container:
                yield forbidden(
                    f"{at}.{key}", "may not be set for init containers without restartPolicy=Always"
                )


def _container(container: Struct, volumes: set[str], at: str) -> Iterator[FieldError]:
    if not container.get("name"):
        yield required(f"{at}.name")
    else:
        yield from named(container["name"], dns_label, f"{at}.name")
    if not container.get("image"):
        yield required(f"{at}.image")
    yield from _container_ports(container.get("ports") or [], f"{at}.ports")
    yield from _environment(container.get("env") or [], f"{at}.env")
    yield from _mounts(container.get("volumeMounts") or [], volumes, f"{at}.volumeMounts")
    yield from one_of(container.get("imagePullPolicy"), _PULL, f"{at}.imagePullPolicy")
    yield from resources(container.get("resources") or {}, f"{at}.resources")
    yield from affinity_rules.ids(
        container.get("securityContext") or {}, f"{at}.securityContext", _IDS
    )


def _container_ports(ports: list[Struct], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"{path}[{index}]", port.get("name")
        if name:
            problems = list(named(name, port_name, f"{at}.name"))
            yield from problems
            if not problems and name in names:
                yield duplicate(f"{at}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield required(f"{at}.containerPort")
        else:
            yield from port_number(port["containerPort"], f"{at}.containerPort")
        if port.get("hostPort"):
            yield from port_number(port["hostPort"], f"{at}.hostPort")
        yield from one_of(port.get("protocol"), _PROTOCOLS, f"{at}.protocol")


def _host_ports(containers: list[Struct], path: str) -> Iterator[FieldError]:
    seen: set[tuple[Any, ...]] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                key = (port.get("protocol"), port.get("hostIP", ""), port["hostPort"])
                if key in seen:
                    shown = f"{key[0]}/{key[1]}/{key[2]}"
                    yield duplicate(f"{path}[{index}].ports[{position}].hostPort", shown)
                seen.add(key)


def _environment(variables: list[Struct], path: str) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        at, name = f"{path}[{index}]", variable.get("name", "")
        if not name:
            yield required(f"{at}.name")
        elif "=" in name:
            text = (
                "a valid environment variable name must consist only of printable ASCII characters"
                " other than '='"
            )
            yield invalid(f"{at}.name", name, text)
        source = variable.get("valueFrom")
        if source is not None:
            if variable.get("value"):
                yield invalid(
                    f"{at}.valueFrom", "", "may not be specified when `value` is not empty"
                )
            if not source:
                kinds = "fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef"
                yield invalid(
                    f"{at}.valueFrom", "", f"must specify one of: `{kinds.replace(', ', '`, `')}`"
                )
            elif len(source) > 1:
                yield invalid(
                    f"{at}.valueFrom", "", "may not have more than one field specified at a time"
                )


def _mounts(mounts: list[Struct], volumes: set[str], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        at, name, where = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield required(f"{at}.name")
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        if not where:
            yield required(f"{at}.mountPath")
        if where in seen:
            yield invalid(f"{at}.mountPath", where, "must be unique")
        seen.add(where)


def resources(value: Struct, path: str) -> Iterator[FieldError]:
    """Requests and limits: known names, no negative amounts, requests within limits."""
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in sorted(amounts.items()):
            at = f"{path}.{kind}[{name}]"
            yield from _resource_name(name, at)
            if scalars.amount(amount) < 0:
                yield invalid(at, amount, NONNEGATIVE)
            limit = limits.get(name)
            if kind == "requests" and limit is not None:
                yield from _within(name, amount, limit, f"{path}.requests")
            elif kind == "requests" and "/" in name and not _overcommittable(name):
                yield required(
                    f"{path}.limits", "Limit must be set for non overcommitable resources"
                )


def _overcommittable(name: str) -> bool:
    return not name.startswith("hugepages-") and (
        "/" not in name or name.rpartition("/")[0].endswith("kubernetes.io")
    )


def _within(name: str, amount: str, limit: str, path: str) -> Iterator[FieldError]:
    asked, allowed = scalars.amount(amount), scalars.amount(limit)
    if asked != allowed and not _overcommittable(name):
        yield invalid(path, amount, f"must be equal to {name} limit of {limit}")
    elif asked > allowed:
        yield invalid(path, amount, f"must be less than or equal to {name} limit of {limit}")


def _resource_name(name: str, path: str) -> Iterator[FieldError]:
    for text in qualified_name(name):
        yield invalid(path, name, text)
    if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        yield invalid(path, name, "must be a standard resource type or fully qualified")
        yield invalid(path, name, "must be a standard resource for containers")


def _probes(container: Struct, at: str) -> Iterator[FieldError]:
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(key)
        if probe is None:
            continue
        handlers = [kind for kind in ("exec", "httpGet", "tcpSocket", "grpc") if kind in probe]
        if not handlers:
            yield required(f"{at}.{key}", "must specify a handler type")
        for extra in handlers[1:]:
            yield forbidden(f"{at}.{key}.{extra}", "may not specify more than 1 handler type")
        for kind in ("httpGet", "tcpSocket"):
            if kind in probe:
                yield from port_or_name(
                    (probe[kind] or {}).get("port", 0), f"{at}.{key}.{kind}.port"
                )
        for field in (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ):
            yield from nonnegative(probe.get(field), f"{at}.{key}.{field}")
        if key != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            yield invalid(f"{at}.{key}.successThreshold", probe["successThreshold"], "must be 1")


def taint(value: Struct, path: str) -> Iterator[FieldError]:
    yield from named(value.get("key", ""), qualified_name, f"{path}.key")
    yield from named(value.get("value", ""), label_value, f"{path}.value")
    yield from one_of(value.get("effect"), _EFFECTS, f"{path}.effect")


def tolerations(values: list[Struct], path: str) -> Iterator[FieldError]:
    for index, toleration in enumerate(values):
        at, key, operator = (
            f"{path}[{index}]",
            toleration.get("key", ""),
            toleration.get("operator", ""),
        )
        if key:
            yield from named(key, qualified_name, f"{at}.key")
        elif operator != "Exists":
            text = (
                "operator must be Exists when `key` is empty,"
                ' which means "match all values and all keys"'
            )
            yield invalid(f"{at}.operator", operator, text)
        effect, value = toleration.get("effect", ""), toleration.get("value", "")
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            yield invalid(
                f"{at}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
            )
        if operator in ("", "Equal"):
            problems = label_value(value)
            if problems:
                yield invalid(f"{at}.operator", value, ";".join(problems))
        elif operator == "Exists":
            if value:
                yield invalid(
                    f"{at}.operator", value, "value must be empty when `operator` is 'Exists'"
                )
        else:
            yield not_supported(f"{at}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            yield not_supported(f"{at}.effect", effect, _EFFECTS)


def _spread(constraints: list[Struct], path: str) -> Iterator[FieldError]:
    pairs: set[tuple[Any, Any]] = set()
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield invalid(
                f"{at}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"
            )
        if not constraint.get("topologyKey"):
            yield required(f"{at}.topologyKey", "can not be empty")
        action = constraint.get("whenUnsatisfiable", "")
        yield from affinity_rules.schedule_action(action, f"{at}.whenUnsatisfiable")
        pair = (constraint.get("topologyKey"), action)
        if pair in pairs:
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")
        pairs.add(pair)
