"""The federation as its host's objects say, for commands that ask the engine about it: operators
use them, who may read all that decisions depend on."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from federator.cli import common

if TYPE_CHECKING:
    from federator.hub.placing.offline import Situation

READ = (
    "MemberCluster",
    "ClusterPlacementPolicy",
    "PlacementPolicy",
    "FederatedQuota",
    "PlacementInvariant",
    "RuntimeProfile",
)
"""Kinds that a decision depends on, besides the workload and the PlacementDecisions."""


async def from_host(client: Any, instead: str) -> "Situation":
    """Ends the command without the right to read all of it; `instead`: what then helps."""
    from federator.hub.placing import offline
    from federator.kinds import registry
    from federator.kube import errors

    objs: list[Mapping[str, Any]] = []
    try:
        for name in (*READ, "PlacementDecision", *registry.WORKLOADS):
            row = registry.KINDS[name]
            try:
                objs += (await client.list(row.api_version, row.plural)).items
            except errors.NotFound:
                continue  # a host without Deployments
    except errors.Denied as why:
        common.fail(f"{why}; {instead}")
    return offline.read(objs, as_of=time.time())
