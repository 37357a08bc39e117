"""What the hub keeps of a member's ClusterCapacity: its capacity, the shapes it was asked about,
and the host that claims it.

`of` is the projection of the member's reflector; it also reads the responses to our own writes.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from federator.api import capacityfields, clustercapacity, raw
from federator.api.capacityfields import MAX_ROWS, MAX_SHAPE_ID
from federator.api.common import EXPANDER_MAX
from federator.hub.members import claims
from federator.kinds import registry
from federator.kube.store import version_number
from federator.model import interning
from federator.model.fleet import Capacity


@dataclass(slots=True)
class CapacityReport:
    """The member's ClusterCapacity as last read."""

    uid: str
    resource_version: str
    capacity: Capacity
    shapes: tuple[str, ...]
    """Ids of the shapes in its spec."""
    status_digest: bytes
    """Digest of its status without `highest`, which the member keeps for itself; b"" without a
    status."""
    excess: str
    """Figures beyond what any cluster can have, as a part of a sentence; "" for none."""
    host: str
    """The host that its slices belong to, from its annotation; "" for none."""
    slice_versions: Mapping[str, int]
    """Kind -> resource version up to which its member process had seen slices of it. Without kinds
    with versions that are no numbers; empty where it does not say."""
    expander: str
    """The newest rules of expansion that its member process knows; "" where it does not say."""


def only(obj: Mapping[str, Any], fleet: str) -> CapacityReport | None:
    """Like `of` for the one ClusterCapacity with the right name; None for any other."""
    return of(obj, fleet) if obj["metadata"].get("name") == clustercapacity.NAME else None


def of(obj: Mapping[str, Any], fleet: str) -> CapacityReport:
    """Reads a ClusterCapacity, for a hub with this owner id (`fleet`)."""
    meta, status = obj["metadata"], raw.mapping(obj, "status")
    asked = raw.objects(obj, "spec", "shapes")
    return CapacityReport(
        uid=raw.text(meta, "uid"),
        resource_version=raw.text(meta, "resourceVersion"),
        capacity=capacityfields.to_capacity(status),
        shapes=tuple(raw.text(shape, "id")[:MAX_SHAPE_ID] for shape in asked[: MAX_ROWS + 1]),
        status_digest=_digest({name: value for name, value in status.items() if name != "highest"}),
        excess=capacityfields.excess(status),
        host=claims.recorded(obj, fleet),
        slice_versions=_versions(clustercapacity.slice_versions(status)),
        expander=interning.text(raw.text(status, "expander")[:EXPANDER_MAX]),
    )


def _versions(by_kind: Mapping[str, str]) -> Mapping[str, int]:
    numbers = {kind: version_number(text) for kind, text in by_kind.items()}
    return {kind: numbers[kind] for kind in registry.WORKLOADS if numbers.get(kind, -1) >= 0}


def _digest(status: Mapping[str, Any]) -> bytes:
    return (
        hashlib.blake2b(msgspec.json.encode(status, order="sorted"), digest_size=12).digest()
        if status
        else b""
    )
