"""The one door to validation: whether an object may be stored, and the words when it may not.

Builtins go to `native_rules`, CustomResourceDefinitions also to `crds`, custom resources to
`custom_rules`; pods and what makes them are held against the labels of their namespace. Called by
the REST layer after defaulting; trusted writers (the stand-in controllers) do not pass here.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from federator.embedded.admission import pod_security
from federator.embedded.catalogue import crds
from federator.embedded.storage import refusals
from federator.embedded.storage.field_errors import FieldError
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.validation import (
    custom_rules,
    metadata_rules,
    native_rules,
    pod_warnings,
    service_rules,
)

__all__ = [
    "FieldError",
    "admit",
    "check",
    "security_warnings",
    "warnings",
]

Labels = Mapping[str, str]


_ANY_FINALIZER: Final = frozenset(
    {
        ("policy", "poddisruptionbudgets"),
        ("coordination.k8s.io", "leases"),
        ("", "events"),
        ("events.k8s.io", "events"),
    }
)
"""Builtins with strategies that do not look at finalizers."""


def check(
    obj: dict[str, Any], old: dict[str, Any] | None, info: ResourceInfo, subresource: str = ""
) -> list[FieldError]:
    """Complaints about storing `obj` in the place of `old` (None on create), in the order a real
    server gives them."""
    if not info.is_builtin:
        return custom_rules.check(obj, old, info, subresource)
    meta = obj.get("metadata") or {}
    if old is None:
        errors = list(metadata_rules.on_create(meta, info))
    else:
        errors = list(metadata_rules.on_update(meta, old.get("metadata") or {}))
    is_crd = info.kind == "CustomResourceDefinition"
    if not is_crd and info.key not in _ANY_FINALIZER:  # CRDs: their own finalizer is neither
        errors += metadata_rules.builtin_finalizers(meta)
    if is_crd and subresource != "status":
        return errors + crds.check(obj, old)
    return errors + native_rules.check(obj, old, info, subresource)


def warnings(obj: dict[str, Any], old: dict[str, Any] | None, info: ResourceInfo) -> list[str]:
    """Texts for Warning headers about a valid object."""
    if info.is_builtin:
        if info.key == ("", "services"):
            return list(service_rules.warnings(obj))
        return pod_warnings.of(obj, old, info)
    return metadata_rules.finalizer_warnings(obj.get("metadata") or {}, (old or {}).get("metadata"))


def admit(
    obj: dict[str, Any], old: dict[str, Any] | None, info: ResourceInfo, labels: Labels
) -> None:
    """The PodSecurity plugin: it accepts pods within the level of their namespace (`labels`), and
    namespaces with known levels. Raises `Refusal` 403 or 422."""
    if info.key == pod_security.NAMESPACES:
        _admit_namespace(obj, old, info)
    elif info.key == pod_security.PODS and (
        old is None or pod_security.changes_containers(obj, old)
    ):
        name = obj["metadata"]["name"]
        if why := pod_security.refusal(obj, labels):
            raise refusals.forbidden(info.group, info.plural, name, why)


def _admit_namespace(obj: dict[str, Any], old: dict[str, Any] | None, info: ResourceInfo) -> None:
    errors = pod_security.label_errors(obj["metadata"].get("labels") or {})
    if errors and (
        old is None or errors != pod_security.label_errors(old["metadata"].get("labels") or {})
    ):
        raise refusals.invalid(info.group, info.kind, obj["metadata"]["name"], errors)


def security_warnings(
    obj: dict[str, Any],
    old: dict[str, Any] | None,
    info: ResourceInfo,
    labels: Labels,
    pods: Iterable[dict[str, Any]],
) -> list[str]:
    """What the PodSecurity plugin warns of: a level that is not enforced, or one that `pods` of a
    namespace break."""
    if info.key == pod_security.NAMESPACES:
        meta = obj["metadata"]
        before = None if old is None else old["metadata"].get("labels") or {}
        if before is None:
            return []
        return pod_security.new_level_warnings(meta["name"], meta.get("labels") or {}, before, pods)
    if (
        info.key == pod_security.PODS
        and old is not None
        and not pod_security.changes_containers(obj, old)
    ):
        return []
    template = pod_security.template_of(obj, info.key)
    sentence = "" if template is None else pod_security.warning(template, labels)
    return [sentence] if sentence else []
