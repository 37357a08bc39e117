"""What a hub has been told of: rules about its decisions need it, because events take their time,
more so under faults.

Looks into the memory that reflectors fill, not into what the hub makes of it.
"""

from collections.abc import Mapping
from typing import Any

from federator.hub.leading.process import HubProcess
from federator.kinds import registry
from federator.kube.store import Store
from tests.faults.lives import Life
from tests.simulation.world import World


def heard(world: World, writer: Life | None, obj: Mapping[str, Any]) -> bool:
    """Whether the hub of this life has this state of an object of the host, or a later one, in its
    memory. True for everybody who is no hub.
    """
    hub = world.federation.processes.get(writer.process) if writer is not None else None
    if hub is None:
        return True
    store, meta = store_of(hub, obj["kind"]), obj["metadata"]
    known = store.version((meta.get("namespace", ""), meta["name"])) if store is not None else None
    return known is not None and known.number >= int(meta["resourceVersion"])


def store_of(hub: HubProcess, kind: str) -> Store[Any] | None:
    """What a hub's reflector fills with the host's objects of a kind; None for a kind that it does
    not follow.
    """
    return next(
        (
            one
            for one in hub.controllers.hosting.stores
            if one.name == f"host/{registry.KINDS[kind].plural}"
        ),
        None,
    )
