"""Validation of `metadata`: names, labels, annotations, owners, and what an update may not change.

The rules and words of a real API server, for builtins and custom resources alike.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from federator.embedded.storage.field_errors import (
    FieldError,
    forbidden,
    invalid,
    required,
    too_long,
)
from federator.embedded.storage.resources import ResourceInfo

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_DNS_LABEL: Final = re.compile(_LABEL)
_DNS_1035: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(_SUBDOMAIN)
_NAME_PART: Final = re.compile("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE: Final = re.compile("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    f" '{_SUBDOMAIN}')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    f" '{_LABEL}')"
)
_DNS_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
    " validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_PART_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used"
    " for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
MAX_ANNOTATIONS_BYTES: Final = 256 * 1024

NameRule = Callable[[str], list[str]]


def subdomain(name: str) -> list[str]:
    """Complaints about a DNS-1123 subdomain (most object names)."""
    problems = ["must be no more than 253 bytes"] if len(name) > 253 else []
    return problems if _DNS_SUBDOMAIN.fullmatch(name) else [*problems, _SUBDOMAIN_TEXT]


def dns_label(name: str) -> list[str]:
    """Complaints about a DNS-1123 label (namespaces, container names)."""
    problems = ["must be no more than 63 bytes"] if len(name) > 63 else []
    return problems if _DNS_LABEL.fullmatch(name) else [*problems, _LABEL_TEXT]


def dns_1035(name: str) -> list[str]:
    """Complaints about a DNS-1035 label."""
    problems = ["must be no more than 63 bytes"] if len(name) > 63 else []
    return problems if _DNS_1035.fullmatch(name) else [*problems, _DNS_1035_TEXT]


def path_segment(name: str) -> list[str]:
    """Complaints about a name that only has to fit a URL (RBAC objects)."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def _at_most(limit: int, rule: NameRule) -> NameRule:
    return lambda name: (
        [f"must be no more than {limit} characters", *rule(name)]
        if len(name) > limit
        else rule(name)
    )


def _undotted(name: str) -> list[str]:
    return ["must not contain dots"] if "." in name else dns_label(name)


_NAME_RULES: Final[Mapping[tuple[str, str], NameRule]] = {
    ("", "namespaces"): dns_label,
    ("", "services"): dns_label,
    ("apps", "statefulsets"): _undotted,
    ("", "events"): path_segment,
    ("events.k8s.io", "events"): path_segment,
    ("policy", "poddisruptionbudgets"): path_segment,
    ("batch", "cronjobs"): _at_most(52, subdomain),
    ("rbac.authorization.k8s.io", "roles"): path_segment,
    ("rbac.authorization.k8s.io", "rolebindings"): path_segment,
    ("rbac.authorization.k8s.io", "clusterroles"): path_segment,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): path_segment,
}


def qualified_name(name: str) -> list[str]:
    """Complaints about a label key, annotation key or finalizer: an optional DNS prefix, a slash, a
    name part."""
    prefix, slash, part = name.rpartition("/")
    problems: list[str] = []
    if slash:
        if "/" in prefix:
            return [
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and"
                " must start and end "
                "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc',"
                " regex used for "
                "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS"
                " subdomain "
                "prefix and '/' (e.g. 'example.com/MyName')"
            ]
        problems += (
            ["prefix part must be non-empty"]
            if not prefix
            else [f"prefix part {p}" for p in subdomain(prefix)]
        )
    if not part:
        problems.append("name part must be non-empty")
    elif len(part) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _NAME_PART.fullmatch(part):
        problems.append(_NAME_PART_TEXT)
    return problems


def label_value(value: str) -> list[str]:
    """Complaints about a label's value."""
    problems = ["must be no more than 63 bytes"] if len(value) > 63 else []
    return problems if _LABEL_VALUE.fullmatch(value) else [*problems, _LABEL_VALUE_TEXT]


_GOOD_LABELS: set[tuple[str, str]] = set()
"""Pairs found good before: the same few labels are on every object of a cluster. Bounded by
`_GOOD_LIMIT`."""
_GOOD_LIMIT: Final = 16_384


def labels(values: Mapping[str, str] | None, path: str) -> Iterator[FieldError]:
    """Complaints about a label map."""
    for pair in sorted((values or {}).items()):
        if pair in _GOOD_LABELS:
            continue
        problems = [invalid(path, pair[0], text) for text in qualified_name(pair[0])]
        problems += [invalid(path, pair[1], text) for text in label_value(pair[1])]
        if problems:
            yield from problems
        elif len(_GOOD_LABELS) < _GOOD_LIMIT:
            _GOOD_LABELS.add(pair)


def annotations(values: Mapping[str, str] | None, path: str) -> Iterator[FieldError]:
    """Complaints about annotations: their keys, and their size together."""
    if not values:
        return
    total = 0
    for key, value in sorted(values.items()):
        for text in qualified_name(key.lower()):
            yield invalid(path, key, text)
        total += len(key) + len(value)
    if total > MAX_ANNOTATIONS_BYTES:
        yield too_long(path, MAX_ANNOTATIONS_BYTES)


def _owners(owners: list[Any], path: str) -> Iterator[FieldError]:
    controllers = []
    for index, owner in enumerate(owners):
        version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        at = f"{path}[{index}]"
        if version and (version.endswith("/") or version.count("/") > 1):
            yield invalid(f"{at}.apiVersion", version, "must be <group>/<version> or <version>")
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield required(f"{at}.{key}", "must not be empty")
        if kind == "Event" and version in ("v1", "events.k8s.io/v1"):
            # As Go prints a group, a version and a kind: the core group is nothing before the
            # slash.
            shown = version if "/" in version else f"/{version}"
            yield invalid(at, owner, f"{shown}, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            controllers.append(f"{kind}/{owner.get('name', '')}")
    if len(controllers) > 1:
        text = 'Only one reference can have Controller set to true. Found "true" in references for '
        yield invalid(path, owners, f"{text}{controllers[0]} and {controllers[1]}")


def name_problems(name: str, info: ResourceInfo) -> list[str]:
    """Complaints about a name of this resource."""
    return _NAME_RULES.get(info.key, subdomain)(name)


def on_create(meta: Mapping[str, Any], info: ResourceInfo) -> Iterator[FieldError]:
    """Complaints about the metadata of a new object (its name already generated, if it asked for
    that)."""
    prefix = meta.get("generateName")
    if prefix:
        for text in name_problems(prefix[:-1] + "a" if prefix.endswith("-") else prefix, info):
            yield invalid("metadata.generateName", prefix, text)
    name = meta.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        for text in name_problems(name, info):
            yield invalid("metadata.name", name, text)
    if info.namespaced and not meta.get("namespace"):
        yield required("metadata.namespace")
    elif not info.namespaced and meta.get("namespace"):
        yield forbidden("metadata.namespace", "not allowed on this type")
    yield from _always(meta)


def _always(meta: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from labels(meta.get("labels"), "metadata.labels")
    yield from annotations(meta.get("annotations"), "metadata.annotations")
    if meta.get("ownerReferences"):
        yield from _owners(meta["ownerReferences"], "metadata.ownerReferences")
    finalizers = meta.get("finalizers") or ()
    for finalizer in finalizers:
        for text in qualified_name(finalizer):
            yield invalid("metadata.finalizers", finalizer, text)


_STANDARD_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")


def builtin_finalizers(meta: Mapping[str, Any]) -> Iterator[FieldError]:
    """Complaints about finalizers that builtin kinds do not take; custom resources take them with a
    warning."""
    for index, name in enumerate(meta.get("finalizers") or ()):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"metadata.finalizers[{index}]", name, text)


_FIXED: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def on_update(meta: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldError]:
    """Complaints about the metadata of a changed object."""
    if old.get("deletionTimestamp"):
        added = sorted(set(meta.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            changed_fields = _go_strings(added)
            text = (
                "no new finalizers can be added if the object is being deleted, found new"
                f" finalizers {changed_fields}"
            )
            yield forbidden("metadata.finalizers", text)
    for key in _FIXED:
        if meta.get(key) != old.get(key):
            yield invalid(f"metadata.{key}", meta.get(key), "field is immutable")
    yield from _always(meta)


def _go_strings(values: list[str]) -> str:
    """A list as Go's `%#v` prints it."""
    return "[]string{" + ", ".join(f'"{value}"' for value in values) + "}"


def finalizer_warnings(meta: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
    """Warnings a real server gives about added finalizers without a domain."""
    before = set((old or {}).get("finalizers") or ())
    warnings = []
    for name in sorted(set(meta.get("finalizers") or ()) - before):
        if "/" in name or name in _STANDARD_FINALIZERS:
            continue
        path = "including a path (/) " if "." in name else ""
        warnings.append(
            f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name {path}to'
            " avoid accidental "
            "conflicts with other finalizer writers"
        )
    return warnings
