"""Validation of events: lenient for what the core group sends, strict for events.k8s.io/v1.

Rules and words from Kubernetes 1.37. Errors name the fields of core/v1 in both groups, except the
reporter.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.apply.patches import same
from federator.embedded.schema import event_groups
from federator.embedded.storage.field_errors import FieldError, invalid, required
from federator.embedded.validation.metadata_rules import qualified_name

Struct = Mapping[str, Any]

_LIMITS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_OPTIONAL: Final = frozenset({"message"})
_HOMES_OF_CLUSTER_SCOPED: Final = frozenset({"default", "kube-system"})
_IMMUTABLE: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_APART: Final = "does not match event.namespace"


def core(obj: Struct, _old: Struct | None) -> Iterator[FieldError]:
    """Rules for requests to core/v1."""
    yield from _common(obj, "reportingComponent")


def later(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    """Rules for requests to events.k8s.io/v1."""
    event = event_groups.core_event(dict(obj))
    yield from _common(event, "reportingController")
    if old is None:
        yield from _new(event)
        return
    before = event_groups.core_event(dict(old))
    if not same(event.get("series"), before.get("series")):
        yield from _series(event)
    for field in _IMMUTABLE:
        if not same(event.get(field), before.get(field)):
            shown = "reportingController" if field == "reportingComponent" else field
            yield invalid(shown, event.get(field), "field is immutable")


def _common(event: Struct, reporter: str) -> Iterator[FieldError]:
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    namespace = event["metadata"]["namespace"]
    if not event.get("eventTime"):
        # Events of the old kind lie beside what they are about.
        if namespace != about and (about or namespace != "default"):
            yield invalid("involvedObject.namespace", about, _APART)
        return
    if not about and namespace not in _HOMES_OF_CLUSTER_SCOPED:
        yield invalid("involvedObject.namespace", about, _APART)
    controller = event.get("reportingComponent") or ""
    if not controller:
        yield required(reporter)
    for problem in qualified_name(controller):
        yield invalid(reporter, controller, problem)
    for field, limit in _LIMITS.items():
        value = event.get(field) or ""
        if not value and field not in _OPTIONAL:
            yield required(field)
        if len(value.encode()) > limit:
            yield invalid(field, "", f"can have at most {limit} characters")


def _new(event: Struct) -> Iterator[FieldError]:
    yield from _series(event)
    if not event.get("eventTime"):
        yield required("eventTime")
    if event.get("type") not in {"Normal", "Warning"}:
        yield invalid("type", "", f"has invalid value: {event.get('type', '')}")
    for field in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(field):
            yield invalid(field, "", "needs to be unset")


def _series(event: Struct) -> Iterator[FieldError]:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")
