"""What a hub has been told of: rules about its decisions need it, because events take their time, more so under faults.

Looks into the memory that reflectors fill, not into what the hub makes of it.
"""

from collections.abc import Mapping
from typing import Any

from federator.api import kinds
from federator.embedded.faults.lives import Life
from tests.simulation.world import World


def heard(world: World, writer: Life | None, obj: Mapping[str, Any]) -> bool:
    """Whether the hub of this life has this state of an object of the host, or a later one, in its memory. True for
    everybody who is no hub.
    """
    hub = world.federation.processes.get(writer.process) if writer is not None else None
    if hub is None:
        return True
    name, meta = f"host/{kinds.KINDS[obj['kind']].plural}", obj["metadata"]
    store = next((one for one in hub.hosting.stores if one.name == name), None)
    known = store.version((meta.get("namespace", ""), meta["name"])) if store is not None else None
    return known is not None and known.number >= int(meta["resourceVersion"])
