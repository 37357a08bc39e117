"""Volume claims that a workload makes for each of its copies or shards."""

from typing import Annotated, Any

from pydantic import Field

from federator.api.common import DnsLabel, Model


class ClaimMetadata(Model):
    """Name and labels of a volume claim."""

    name: DnsLabel
    """Name of the volume that containers mount."""
    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)] = (
        Field(default_factory=dict)
    )
    """Labels of the claims."""
    annotations: Annotated[dict[str, str], Field(max_length=64)] = Field(default_factory=dict)
    """Annotations of the claims."""


ClaimSpec = Annotated[
    dict[str, Any], Field(json_schema_extra={"x-federator-embed": "PersistentVolumeClaimSpec"})
]
"""Access modes, size, storage class."""
