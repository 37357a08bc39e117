"""8 and 14, at their moment: a decision is deleted only when its workload is gone, and then let go
only when the members that can be reached hold nothing of it.

The product removes later what a write on its way has left behind, so a world at rest shows nothing
of a finalizer that was dropped early. Hence only slices count that have stood for a while, in
members that are Ready.
"""

from collections.abc import Iterator

from federator.api.placement.decisionfacts import decision_facts
from federator.hub.records import decisions
from federator.kinds import registry
from tests.simulation.invariants import Obj, Step, is_slice

DOUBT = "14 no delete on doubt"
STANDS_S = 30.0
"""A younger slice may have come by a write that was on its way."""


class Tombstones:
    """When each slice came. `now_s` is virtual monotonic time."""

    name = "8 tombstones last"

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def breaches(self, step: Step, now_s: float) -> Iterator[str]:
        """What a write to a decision lets go of too early."""
        if is_slice(step) and step.old is None:
            self._since_s[step.obj["metadata"]["uid"]] = now_s
        if step.kind != "PlacementDecision" or step.old is None or not step.writer:
            return
        facts = decision_facts(step.old)
        lives = any(
            obj["metadata"]["uid"] == facts.workload_uid
            and not obj["metadata"].get("deletionTimestamp")
            for obj in step.all_of(facts.key.kind)
        )
        if lives and _begins_to_go(step):
            yield f"{DOUBT}: {step.name}: {step.writer} deletes it, and its workload is there"
        if step.new is not None or lives:
            return  # what somebody else has deleted is written anew for a workload that lives
        if decisions.summarise(step.old).given_up:
            return
        for cluster, slice_ in self._held(step, facts.key.kind, facts.workload_uid):
            stood_s = now_s - self._since_s.get(slice_["metadata"]["uid"], now_s)
            if stood_s >= STANDS_S:
                yield (
                    f"{self.name}: {step.name}: {step.writer} lets it go, {cluster} has its "
                    f"slice for {stood_s:.0f} s"
                )

    def _held(self, step: Step, kind: str, uid: str) -> Iterator[tuple[str, Obj]]:
        for cluster in sorted(_ready(step) & step.clusters.keys()):
            for obj in step.all_of(kind, cluster):
                mark = registry.verbs_of(kind).read_mark(obj)
                if (
                    mark is not None
                    and mark.workload_uid == uid
                    and not obj["metadata"].get("deletionTimestamp")
                ):
                    yield cluster, obj


def _begins_to_go(step: Step) -> bool:
    """Whether this write is the deletion itself; what is left is the end of a deletion that was
    judged already.
    """
    assert step.old is not None
    if step.old["metadata"].get("deletionTimestamp"):
        return False
    return step.new is None or bool(step.new["metadata"].get("deletionTimestamp"))


def _ready(step: Step) -> set[str]:
    return {
        obj["metadata"]["name"]
        for obj in step.all_of("MemberCluster")
        if not obj["metadata"].get("deletionTimestamp")
        and any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in (obj.get("status") or {}).get("conditions") or ()
        )
    }
