"""Volume claims that a workload makes for each of its copies or shards."""

from typing import Annotated, Any

from pydantic import Field

from federator.api.common import DnsLabel, Model, named


class ClaimMetadata(Model):
    """Name and labels of a volume claim."""

    name: DnsLabel
    """Name of the volume that containers mount."""
    labels: dict[str, Annotated[str, Field(max_length=63)]] = named(64)
    """Labels of the claims."""
    annotations: dict[str, str] = named(64)
    """Annotations of the claims."""


ClaimSpec = Annotated[
    dict[str, Any], Field(json_schema_extra={"x-federator-embed": "PersistentVolumeClaimSpec"})
]
"""Access modes, size, storage class."""
