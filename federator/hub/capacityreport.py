"""What the hub remembers of a member's ClusterCapacity: the room it tells of, what it was asked, and whose it is.

`of` is the projection of the member's reflector, and reads the answers to our own writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federator.api import clustercapacity, raw
from federator.hub import claims
from federator.model.fleet import Capacity


@dataclass(slots=True)
class CapacityReport:
    """The member's ClusterCapacity as last heard."""

    uid: str
    resource_version: str
    capacity: Capacity
    shapes: tuple[str, ...]
    """Ids of the shapes it has been asked about."""
    status: Mapping[str, Any]
    """All of it but what the member remembers for itself."""
    host: str
    """The host that its slices belong to, as it is recorded there; "" where none is."""


def only(obj: Mapping[str, Any], fleet: str) -> CapacityReport | None:
    """The same for the one object of the kind that there is; None for any other that a member may make up."""
    return of(obj, fleet) if obj["metadata"].get("name") == clustercapacity.NAME else None


def of(obj: Mapping[str, Any], fleet: str) -> CapacityReport:
    """Reads a ClusterCapacity, for a hub of this fleet."""
    meta, status = obj["metadata"], raw.mapping(obj, "status")
    return CapacityReport(
        uid=meta.get("uid", ""),
        resource_version=meta.get("resourceVersion", ""),
        capacity=clustercapacity.to_capacity(status),
        shapes=tuple(raw.text(shape, "id") for shape in raw.objects(obj, "spec", "shapes")),
        status={name: value for name, value in status.items() if name != "highest"},
        host=claims.recorded(obj, fleet),
    )
