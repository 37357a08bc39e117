"""19: a status that named a cluster names it still, while a decision gives the cluster a share and the
slice is there: a member that is not heard has not lost what it holds.

Judged by the shares of which the hub had heard when it let go of the status. On its way to a slow
host (F33) a decision may overtake it: a share that came meanwhile is for the next status to name.
"""

import json
from collections.abc import Callable, Iterator

from federator.api.placement.decisionfacts import decision_facts
from federator.kinds import registry
from tests.faults.lives import Life
from tests.faults.rows import Sending, is_hub
from tests.simulation.invariants import Obj, Step

Key = tuple[str, str, str]
"""(namespace, plural, name) of a workload, as in the paths of the API."""
Share = tuple[str, str]
"""(uid of the workload, cluster)."""


class Forgotten:
    """Which shares each status could know of."""

    name = "19 nobody is forgotten"

    def __init__(self, heard: Callable[[Life, Obj], bool]) -> None:
        """`heard`: whether the hub of a life has this state of an object of the host, or a later
        one, in its memory.
        """
        self._heard = heard
        self._given: dict[Key, dict[Share, Obj]] = {}
        """The decision with which each share began."""
        self._knew: dict[tuple[str, Key, str], frozenset[Share]] = {}
        """(life, workload, version that the status replaces) -> shares of which the hub had heard
        when it sent the status.
        """

    def sending(self, life: Life, sending: Sending) -> None:
        """A request leaves its process."""
        request = sending.request
        if sending.cluster != "host" or not is_hub(sending.process) or request.method != "PATCH":
            return
        path = request.path.strip("/").split("/")
        if path[-1] != "status" or len(path) < 4:
            return
        key = path[-4], path[-3], path[-2]
        if given := self._given.get(key):
            version = json.loads(request.body)["metadata"].get("resourceVersion", "")
            known = (share for share, decision in given.items() if self._heard(life, decision))
            self._knew[life.name, key, version] = frozenset(known)

    def breaches(self, step: Step) -> Iterator[str]:
        """What a write to the status of a workload leaves out."""
        if step.cluster != "host":
            return
        if step.kind == "PlacementDecision":
            self._note(step)
        elif step.kind in registry.WORKLOADS and step.same and step.writer:
            yield from self._left_out(step)

    def _note(self, step: Step) -> None:
        facts = decision_facts(step.obj)
        plural = registry.KINDS[facts.key.kind].plural
        given = self._given.setdefault((facts.key.namespace, plural, facts.key.name), {})
        before = {
            share: given.pop(share) for share in list(given) if share[0] == facts.workload_uid
        }
        for share in facts.shares if step.new is not None else ():
            mine = facts.workload_uid, share.cluster
            given[mine] = before.get(mine, step.obj)

    def _left_out(self, step: Step) -> Iterator[str]:
        assert step.old is not None
        meta = step.obj["metadata"]
        if meta.get("deletionTimestamp"):
            return
        uid, lost = meta["uid"], _named(step.old) - _named(step.obj)
        key = meta["namespace"], registry.KINDS[step.kind].plural, meta["name"]
        shares = self._given.get(key, {}).keys()
        version = step.old["metadata"]["resourceVersion"]
        known = shares & self._knew.get((step.writer, key, version), shares)
        for cluster in sorted(lost & step.clusters.keys()):
            if (uid, cluster) not in known:
                continue
            marks = (
                registry.verbs_of(step.kind).read_mark(obj)
                for obj in step.all_of(step.kind, cluster)
            )
            if any(mark is not None and mark.workload_uid == uid for mark in marks):
                yield (
                    f"{self.name}: {step.name}: the status forgets {cluster}, which has a share "
                    "and holds it"
                )


def _named(obj: Obj) -> set[str]:
    return {row["cluster"] for row in (obj.get("status") or {}).get("clusterStatuses") or ()}
