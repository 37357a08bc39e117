"""What a simulated federation consists of before anything happens: its fleet, and the definitions of our kinds."""

import functools
import string
from collections.abc import Sequence
from typing import Any

from federator.api import crds
from federator.embedded import builtins
from federator.embedded import crds as served
from federator.embedded.defaults import fill
from federator.embedded.fleetfile import FleetSpec, MemberSpec, Pool
from federator.embedded.pruning import copy_json
from tests.simulation.drawing import Parameters


def fleet(parameters: Parameters) -> FleetSpec:
    return FleetSpec(
        members=[
            MemberSpec(
                name=name,
                labels={"zone": f"z-{1 + index % 2}"},
                nodes=[Pool(count=parameters.nodes, cpu="8", memory="32Gi")],
            )
            for index, name in enumerate(string.ascii_lowercase[: parameters.members])
        ]
    )


@functools.cache
def definitions() -> Sequence[dict[str, Any]]:
    """Every CRD as a server stores it once it is served."""
    found = []
    for crd in crds.all_crds():
        stored = copy_json(crd)
        fill(stored, builtins.info("apiextensions.k8s.io", "customresourcedefinitions"))
        found.append({**stored, "status": served.established_status(stored, "2026-09-21T00:00:00Z")})
    return found
