"""What a PlacementDecision charges: `spec.charge`, with the accounts that an edit has left. Schema,
and conversion from the core's Ask; `decisionfacts` reads it back.
"""

from typing import Annotated, Any

from pydantic import Field

from federator.api import capacityfields
from federator.api.capacityfields import GangShape
from federator.api.common import (
    Amount,
    Amounts,
    ClusterName,
    IndexSet,
    Model,
    TierName,
    list_map,
    many,
)
from federator.model import shards
from federator.model.ask import MAX_FORMER, Ask, Former
from federator.model.kubernetes import quantity


class FormerCopiesFields(Model):
    """Copies in one cluster that may still run in a former account."""

    cluster: ClusterName
    """Name of the member cluster."""
    copies: Amount
    """Copies, for job sets slots."""
    ranges: IndexSet | None = None
    """Shards among which they are, for job sets and training jobs."""


class FormerCharge(Model):
    """A project and tier that an edit of the workload has left, and that is charged until no copy
    runs in it."""

    project: Annotated[str, Field(max_length=253)]
    """Project with the quota that the copies count against."""
    tier: TierName
    """Tier that is charged."""
    requests: Amounts
    """What one of these copies requests."""
    clusters: Annotated[
        list[FormerCopiesFields], Field(max_length=1000, json_schema_extra=list_map("cluster"))
    ]
    """Where they ran when the edit was admitted."""


class ChargeFields(Model):
    """What the ledger is charged with while the decision stands, so that it can be rebuilt from
    decisions alone."""

    project: Annotated[str, Field(max_length=253)]
    """Project with the quota that the copies count against."""
    tier: TierName
    """Tier that is charged."""
    shape: GangShape
    """What one copy needs."""
    generation: Amount | None = None
    """Generation of the workload that asked for it."""
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """Priority that was admitted."""
    count: Amount | None = None
    """Copies, for job sets slots, that were asked for."""
    content: Annotated[str, Field(max_length=64)] = ""
    """Digest of what that generation makes of slices: no member can say that something else was
    admitted. Left out by versions that did not record it."""
    former: list[FormerCharge] = many(MAX_FORMER)
    """Projects and tiers that are charged in addition: an edit has left them, and their copies may
    still run."""


def rendered(ask: Ask, content: bytes) -> dict[str, Any]:
    """`spec.charge` for an ask. `content`: digest of its slice content; empty to leave it out."""
    fields: dict[str, Any] = {
        "project": ask.project,
        "tier": str(ask.tier),
        "shape": capacityfields.from_shape(ask.shape),
        "generation": ask.generation,
        "priority": ask.priority,
        "count": max(ask.slots, 0),
    }
    if content:
        fields["content"] = content.hex()
    if ask.former:
        fields["former"] = [_former_fields(former) for former in ask.former]
    return fields


def _former_fields(former: Former) -> dict[str, Any]:
    return {
        "project": former.project,
        "tier": str(former.tier),
        "requests": dict(quantity.render(former.requests)),
        "clusters": [
            {"cluster": held.cluster, "copies": held.copies}
            | ({"ranges": shards.text(held.ranges)} if held.ranges else {})
            for held in former.held
        ],
    }
