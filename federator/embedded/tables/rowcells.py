"""Small pieces that rows of Tables are made of: names, ages, containers, selectors, shortened
lists."""

from collections.abc import Mapping, Sequence
from typing import Any

from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import ages
from federator.model.kubernetes import selectors

NONE = "<none>"
LISTED_MAX = 3
"""How many items of a list a cell shows."""


def name_of(obj: JsonObject) -> str:
    return str(obj["metadata"]["name"])


def age_of(obj: JsonObject, now: float) -> str:
    return ages.since(obj["metadata"].get("creationTimestamp"), now)


def status_of(obj: JsonObject) -> JsonObject:
    return obj.get("status") or {}


def phase_of(obj: JsonObject) -> str:
    """The phase of a volume or of a claim."""
    phase: str = status_of(obj).get("phase", "")
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else phase


def at(obj: JsonObject, path: Sequence[str], absent: Any) -> Any:
    """The value of a field; `absent` for none, null and an empty text."""
    value: Any = obj
    for name in path:
        value = (value or {}).get(name)
    return absent if value is None or value == "" else value


def job_of(obj: JsonObject) -> JsonObject:
    """What says which pods there are: the spec of the object or of a CronJob's jobs."""
    spec: JsonObject = obj.get("spec") or obj
    return (spec.get("jobTemplate") or {}).get("spec") or spec


def pod_of(obj: JsonObject) -> JsonObject:
    """The spec of the pods that it makes."""
    spec: JsonObject = (job_of(obj).get("template") or {}).get("spec") or {}
    return spec


def containers_of(obj: JsonObject, field: str) -> str:
    """The names or the images of its pods' containers."""
    return ",".join(each.get(field, "") for each in pod_of(obj).get("containers") or ())


def selector_text(selector: JsonObject | None) -> str:
    if not selector:
        return NONE
    return selectors.to_text(selectors.from_dict(selector, "selector")) or NONE


def labels_text(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(modes: Sequence[str] | None) -> str:
    """Short names of volume access modes, in the order of the printer, not of the object."""
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def listed(items: Sequence[str], total: int | None = None) -> str:
    """At most three items, and how many more there are."""
    if not items:
        return NONE
    total = len(items) if total is None else total
    text = ",".join(items[:LISTED_MAX])
    return f"{text} + {total - LISTED_MAX} more..." if total > LISTED_MAX else text


def balanced(obj: JsonObject) -> list[str]:
    entries = (status_of(obj).get("loadBalancer") or {}).get("ingress") or ()
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""})
