"""The one door to validation: whether an object may be stored, and the words when it may not.

Builtins go to `native_rules`, CustomResourceDefinitions also to `crds`, custom resources to `custom_rules`. Called by
the REST layer after defaulting; trusted writers (the stand-in controllers) do not pass here.
"""

from collections.abc import Sequence
from typing import Any, Final

from federator.embedded.catalogue import crds
from federator.embedded.schema import pruning
from federator.embedded.storage import refusals
from federator.embedded.storage.field_errors import FieldError, aggregate
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.validation import custom_rules, metadata_rules, native_rules, pod_warnings, service_rules

__all__ = ["FieldError", "check", "invalid_message", "unknown_fields", "warnings"]


_ANY_FINALIZER: Final = frozenset(
    {
        ("policy", "poddisruptionbudgets"),
        ("coordination.k8s.io", "leases"),
        ("", "events"),
        ("events.k8s.io", "events"),
    }
)
"""Builtins whose strategies do not look at finalizers."""


def check(
    obj: dict[str, Any], old: dict[str, Any] | None, info: ResourceInfo, subresource: str = ""
) -> list[FieldError]:
    """Complaints about storing `obj` in the place of `old` (None on create), in the order a real server gives them."""
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


def invalid_message(info: ResourceInfo, name: str, errors: Sequence[FieldError], kind: str = "") -> str:
    """The message of the 422: `Deployment.apps "web" is invalid: ...`; `kind` when the object says another one."""
    return f'{refusals.qualified(info.group, kind or info.kind)} "{name}" is invalid: {aggregate(errors)}'


def unknown_fields(obj: dict[str, Any], info: ResourceInfo) -> list[str]:
    """Paths of the fields that storing would drop."""
    return pruning.prune(obj, info).unknown


def warnings(obj: dict[str, Any], old: dict[str, Any] | None, info: ResourceInfo) -> list[str]:
    """Texts for Warning headers about a valid object."""
    if info.is_builtin:
        if info.key == ("", "services"):
            return list(service_rules.warnings(obj))
        return pod_warnings.of(obj, old, info)
    return metadata_rules.finalizer_warnings(obj.get("metadata") or {}, (old or {}).get("metadata"))
