"""What a simulated federation consists of before anything happens: its fleet, and the definitions
of our kinds; and what it still lacks of rest when everything has.
"""

import functools
import string
from collections.abc import Sequence
from typing import Any

from federator.embedded.catalogue import crds as served
from federator.embedded.schema import builtins
from federator.embedded.schema.defaults import fill
from federator.embedded.schema.pruning import copy_json
from federator.embedded.server import EmbeddedCluster
from federator.hub.leading.process import HubProcess
from federator.hub.options import HubOptions
from federator.kinds import crds, registry
from federator.member.options import MemberOptions
from federator.sandbox.fleetfile import FleetSpec, MemberSpec
from tests.simulation import machines
from tests.simulation.drawing import Parameters

FUTILE_PAUSE_S = 30.0
"""What does not keep what is written is left alone for so long instead of five minutes: worlds live
for few more.
"""
UNSCHEDULABLE_AFTER_S, UNSCHEDULABLE_DECAY_S = 15.0, 45.0
"""Likewise instead of a minute and ten: when copies that no machine takes are given elsewhere, and
for how long.
"""
HUB_OPTIONS = HubOptions(
    futile_pause_s=FUTILE_PAUSE_S,
    unschedulable_after_s=UNSCHEDULABLE_AFTER_S,
    unschedulable_decay_s=UNSCHEDULABLE_DECAY_S,
)
MEMBER_OPTIONS = MemberOptions(futile_pause_s=FUTILE_PAUSE_S)


def fleet(parameters: Parameters) -> FleetSpec:
    return FleetSpec(
        members=[
            MemberSpec(
                name=name,
                labels={"zone": f"z-{1 + index % 2}"},
                nodes=machines.pools(parameters),
            )
            for index, name in enumerate(string.ascii_lowercase[: parameters.members])
        ]
    )


@functools.cache
def definitions() -> Sequence[dict[str, Any]]:
    """Every CRD as a server stores it once it is served. Schemas are shared, so that no cluster of any
    world copies and hashes them again."""
    found = []
    for crd in crds.all_crds():
        stored = copy_json(crd)
        fill(stored, builtins.info("apiextensions.k8s.io", "customresourcedefinitions"))
        served.share_schemas(stored)
        found.append(
            {**stored, "status": served.established_status(stored, "2026-09-21T00:00:00Z")}
        )
    return found


def unready(hub: HubProcess) -> list[str]:
    """Members that the hub would give no work, or of whose room it knows nothing: once faults are
    over, none.
    """
    found = []
    for name, member in hub.state.members.items():
        ready, why = member.readiness()
        if not ready or member.contents.report is None or not member.contents.report.status_digest:
            found.append(f"{name} is not ready: {why or 'it has not reported its room'}")
        if len(member.link.apis) < len(registry.WORKLOADS):
            found.append(
                f"{name} is believed to serve no more than {', '.join(sorted(member.link.apis))}"
            )
    return found


def going(host: EmbeddedCluster) -> list[str]:
    """Decisions whose workload is gone: once faults are over they go too, sooner or later."""
    decisions = host.store.items(
        host.registry.get("federation.pinterest.com", "placementdecisions")
    )
    stores = [
        host.store.items(host.registry.get(kind.group, kind.plural))
        for kind in registry.WORKLOADS.values()
    ]
    live = {found.obj["metadata"]["uid"] for store in stores for found in store}
    left = [found.key for found in decisions if found.obj["spec"]["workload"]["uid"] not in live]
    return [f"the deletion of decision {'/'.join(key)} is not over" for key in left]
