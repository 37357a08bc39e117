"""Which workloads were finalized: deleted on the host, and every member emptied of them.

A slice that comes back afterwards (its cluster was restored from a backup, a write came late) is
removed only on this proof: that the host knows nothing of its workload is none, for the host may
have been restored itself. The proofs of one leader reach the next by an annotation on the Lease,
written before the decision goes. Pure.
"""

from collections import OrderedDict
from collections.abc import Mapping

from federator.model.names import FEDERATION

ANNOTATION = f"{FEDERATION}/buried"
KEPT = 256
"""Uids that are kept, the newest: 9 KiB on the Lease. What is older is only reported when it comes
back."""
UID_MAX = 64
"""Characters; an API server's own have 36."""


class Tombstones:
    """Uids of workloads, oldest first. One per hub process, written on the event loop only."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        """A workload was let go of."""
        if not 0 < len(uid) <= UID_MAX or "," in uid:
            return
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        while len(self._uids) > KEPT:
            self._uids.popitem(last=False)

    def discard(self, uid: str) -> None:
        """Its decision stands again."""
        self._uids.pop(uid, None)

    def notes(self) -> dict[str, str]:
        """The annotation for the Lease; none while there is nothing to say."""
        return {ANNOTATION: ",".join(self._uids)} if self._uids else {}

    def inherit(self, notes: Mapping[str, str]) -> None:
        """Takes over what the leader before us knew."""
        own = list(self._uids)
        for uid in (*notes.get(ANNOTATION, "").split(","), *own):
            self.add(uid)
