"""Validation of what is written through the status sub-resource of builtins: counts and phases.

Called by `native_rules`. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.storage.field_errors import FieldError, forbidden, invalid
from federator.embedded.validation.pod_rules import nonnegative

Struct = Mapping[str, Any]

_WORKLOADS: Final = frozenset(
    {("apps", "deployments"), ("apps", "replicasets"), ("apps", "statefulsets")}
)
_COUNTED: Final = _WORKLOADS | {
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("policy", "poddisruptionbudgets"),
}
_PARTS: Final = (
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "currentReplicas",
    "fullyLabeledReplicas",
)


def check(obj: Struct, key: tuple[str, str]) -> Iterator[FieldError]:
    """Complaints about a status of the resource `key`."""
    status = obj.get("status") or {}
    if key == ("", "namespaces"):
        yield from _namespace(status, is_leaving=bool(obj["metadata"].get("deletionTimestamp")))
    if key == ("", "services") and (status.get("loadBalancer") or {}).get("ingress"):
        yield from _balancer((obj.get("spec") or {}).get("type", ""))
    if key not in _COUNTED:
        return
    for name, value in sorted(status.items()):
        if isinstance(value, int) and not isinstance(value, bool):
            yield from nonnegative(value, f"status.{name}")
    if key in _WORKLOADS:
        yield from _parts(status)


def _balancer(kind: str) -> Iterator[FieldError]:
    if kind != "LoadBalancer":
        yield forbidden(
            "status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'"
        )


def _parts(status: Struct) -> Iterator[FieldError]:
    for name in _PARTS:
        if status.get(name, 0) > status.get("replicas", 0):
            yield invalid(
                f"status.{name}", status.get(name, 0), "cannot be greater than status.replicas"
            )
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        text = "cannot be greater than status.readyReplicas"
        yield invalid("status.availableReplicas", status.get("availableReplicas", 0), text)


def _namespace(status: Struct, *, is_leaving: bool) -> Iterator[FieldError]:
    phase, wanted = status.get("phase", ""), "Terminating" if is_leaving else "Active"
    if phase != wanted:
        when = "is not empty" if is_leaving else "is empty"
        yield invalid(
            "status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` {when}"
        )
