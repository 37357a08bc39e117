"""What the hub remembers of a member's ClusterCapacity: the room it tells of, what it was asked,
and whose it is.

`of` is the projection of the member's reflector, and reads the answers to our own writes.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from federator.api import capacityfields, clustercapacity, raw
from federator.api.capacityfields import MAX_ROWS, MAX_SHAPE_ID
from federator.hub.members import claims
from federator.model.fleet import Capacity


@dataclass(slots=True)
class CapacityReport:
    """The member's ClusterCapacity as last heard."""

    uid: str
    resource_version: str
    capacity: Capacity
    shapes: tuple[str, ...]
    """Ids of the shapes it has been asked about."""
    told: bytes
    """Digest of its status, but for what the member remembers for itself; b"" for nothing."""
    excess: str
    """What it says beyond all that a cluster can have, as a part of a sentence; "" for nothing."""
    host: str
    """The host that its slices belong to, as it is recorded there; "" where none is."""


def only(obj: Mapping[str, Any], fleet: str) -> CapacityReport | None:
    """The same for the one object of the kind that there is; None for any other that a member may
    make up."""
    return of(obj, fleet) if obj["metadata"].get("name") == clustercapacity.NAME else None


def of(obj: Mapping[str, Any], fleet: str) -> CapacityReport:
    """Reads a ClusterCapacity, for a hub of this fleet."""
    meta, status = obj["metadata"], raw.mapping(obj, "status")
    asked = raw.objects(obj, "spec", "shapes")
    return CapacityReport(
        uid=raw.text(meta, "uid"),
        resource_version=raw.text(meta, "resourceVersion"),
        capacity=clustercapacity.to_capacity(status),
        shapes=tuple(raw.text(shape, "id")[:MAX_SHAPE_ID] for shape in asked[: MAX_ROWS + 1]),
        told=_digest({name: value for name, value in status.items() if name != "highest"}),
        excess=capacityfields.excess(status),
        host=claims.recorded(obj, fleet),
    )


def _digest(status: Mapping[str, Any]) -> bytes:
    return (
        hashlib.blake2b(msgspec.json.encode(status, order="sorted"), digest_size=12).digest()
        if status
        else b""
    )
