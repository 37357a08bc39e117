"""ClusterCapacity: one object in each member. The hub writes the shapes it cares about, the member
answers. Schema, conversion."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from federator.api import capacityfields, raw
from federator.api.capacityfields import MAX_ROWS, CapacityFields, Shape
from federator.api.common import (
    Amount,
    Conditions,
    Expander,
    FederationObject,
    Model,
    Seq,
    list_map,
    many,
    named,
    rules,
)
from federator.api.raw import Obj
from federator.model import seq as seqs
from federator.model.ask import PodShape
from federator.model.fleet import Capacity

KIND: Final = "ClusterCapacity"
NAME: Final = "cluster"
"""Name of the only object of this kind in a member."""


MAX_HIGHEST: Final = 512
"""Number of workloads for which the status keeps the highest seq."""
MAX_KINDS: Final = 32
MAX_VERSION: Final = 40
"""Characters of a resource version."""


class Spec(Model):
    """What the hub wants to know."""

    shapes: list[Shape] = many(MAX_ROWS, list_map("id"))
    """Shapes to answer exactly, in status.copies."""


class Status(CapacityFields):
    """What this cluster's nodes offer and have left."""

    observed_generation: Amount = 0
    """The newest generation with answers for all its shapes."""
    highest: dict[Annotated[str, Field(max_length=64)], Seq] = named(MAX_HIGHEST)
    """Highest seq of slices that were obeyed here, by uid of the workload: an older one that comes
    late is refused."""
    forgotten_seq: Seq = 0
    """Slices of workloads that highest does not name are refused up to this seq, unless they were
    obeyed before."""
    slice_versions: dict[
        Annotated[str, Field(max_length=63)],
        Annotated[str, Field(max_length=MAX_VERSION, pattern="^[0-9]*$")],
    ] = named(MAX_KINDS)
    """Resource version up to which the member process had seen the slices of each kind: a slice
    that was written later is not subtracted yet, even when includesSeq is higher than its seq."""
    expander: Expander = ""
    """Newest version of the rules of expansion that the member process knows; the first one where
    it does not say."""
    conditions: Conditions = Field(default_factory=list)
    """What keeps the figures from being exact."""


class ClusterCapacity(FederationObject):
    """What this cluster's nodes offer and have left, for placement."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self.metadata.name == 'cluster'", "the only ClusterCapacity is named cluster")
        )
    )

    kind: Literal["ClusterCapacity"]
    """ClusterCapacity."""
    spec: Spec | None = None
    """What the hub wants to know."""
    status: Status | None = None
    """What this cluster's nodes offer and have left."""


def from_capacity(
    capacity: Capacity,
    *,
    observed_generation: int = 0,
    error: str = "",
    as_of_s: float | None = None,
) -> dict[str, Any]:
    """The whole `.status` of the object in a member."""
    fields = capacityfields.from_capacity(capacity, error=error, as_of_s=as_of_s)
    return {"observedGeneration": observed_generation, **fields}


def highest(status: Obj) -> tuple[dict[str, int], int]:
    """The highest seq by uid of the workload, and that up to which others are forgotten."""
    marks = raw.mapping(status, "highest")
    by_uid = {uid: seqs.clamped(raw.integer(marks, uid)) for uid in list(marks)[:MAX_HIGHEST]}
    return by_uid, seqs.clamped(raw.integer(status, "forgottenSeq"))


def from_highest(by_uid: Mapping[str, int], forgotten: int) -> dict[str, Any]:
    """The two fields of the status; None for what there is none of."""
    return {"highest": dict(sorted(by_uid.items())) or None, "forgottenSeq": forgotten or None}


def slice_versions(status: Obj) -> dict[str, str]:
    """Up to which resource version slices of each kind had been seen, by kind; empty for a member
    process that does not say it."""
    said = raw.mapping(status, "sliceVersions")
    return {kind: raw.text(said, kind)[:MAX_VERSION] for kind in list(said)[:MAX_KINDS]}


def from_slice_versions(by_kind: Mapping[str, str]) -> dict[str, Any]:
    """The field of the status; None for what there is none of."""
    return {"sliceVersions": dict(sorted(by_kind.items())) or None}


def shapes(obj: Obj) -> tuple[PodShape, ...]:
    """The shapes that the hub asks about."""
    return tuple(capacityfields.to_shape(shape) for shape in raw.objects(obj, "spec", "shapes"))


def asked(obj: Obj) -> dict[str, PodShape]:
    """The same by the ids that the hub gave them: answers go under these."""
    return {
        raw.text(shape, "id"): capacityfields.to_shape(shape)
        for shape in raw.objects(obj, "spec", "shapes")
    }


def to_spec(wanted: Iterable[PodShape]) -> dict[str, Any]:
    """`.spec` asking for these shapes, each once, by id; at most as many as the schema allows."""
    by_id = {shape.id: shape for shape in wanted}
    return {
        "shapes": [
            capacityfields.from_shape(by_id[shape_id]) for shape_id in sorted(by_id)[:MAX_ROWS]
        ]
    }
