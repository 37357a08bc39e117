"""8, for clusters that leave: one that was emptied holds nothing of ours when its MemberCluster
goes, no decision names one that has gone, and what a lost one held is never taken for a running
copy when it is back.
"""

import math
from collections.abc import Iterator

from federator.api import clustercapacity, membercluster, raw
from federator.api.membercluster import Removal
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.hub.members import claims
from federator.hub.options import HubOptions
from federator.kinds import registry
from tests.simulation.invariants import Obj, Step, is_decision, is_slice

STANDS_S = 30.0
"""A younger slice may have come by a write that was on its way."""
FLEET = HubOptions().fleet


class Removals:
    """When each slice came, and which clusters were given up. `now_s` is virtual monotonic time."""

    name = "8 clusters leave clean"
    STALE = "8 lost clusters are cleaned"

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}
        self._lost_s: dict[str, float] = {}
        """By uid of the cluster."""
        self._left_s: dict[str, float] = {}
        """The same of those that an operator had left as they are, and of those that he took out by
        hand after he had said so, or that they are lost.
        """

    def breaches(self, step: Step, now_s: float) -> Iterator[str]:
        """What the end of a MemberCluster leaves behind, and what is given to one that is back."""
        if is_slice(step) and step.old is None:
            self._since_s[step.obj["metadata"]["uid"]] = now_s
        if step.kind == "MemberCluster" and step.new is None:
            # Decisions let it go as soon as its operator has said how: who takes the finalizer off
            # at last, a hub or he, changes nothing about what it was given.
            uid, how = membercluster.recorded_uid(step.obj), membercluster.removal(step.obj)
            if uid and how in (Removal.ORPHAN, Removal.LOST):
                self._left_s[uid] = now_s
            if step.writer:
                yield from self._left(step, now_s)
        elif is_decision(step) and step.writer and self._lost_s:
            yield from self._adopted(step)

    def given_up(self, step: Step) -> bool:
        """Whether this write is to a slice that stood in its cluster when an operator gave that up
        as lost, or had it left as it was: what it was given had been given to others.
        """
        uid = step.clusters[step.cluster].uid
        gone_s = max(self._lost_s.get(uid, -math.inf), self._left_s.get(uid, -math.inf))
        return self._since_s.get(step.obj["metadata"]["uid"], gone_s) < gone_s

    def _left(self, step: Step, now_s: float) -> Iterator[str]:
        """A hub has dropped the finalizer."""
        obj, cluster = step.obj, step.obj["metadata"]["name"]
        for decision in step.all_of("PlacementDecision"):
            facts = decision_facts(decision)
            named = {share.cluster for share in facts.shares} | set(facts.terms.leaving)
            if cluster in named and step.heard(decision):
                yield f"{self.name}: {step.name}: {step.writer} lets it go, {facts.name} names it"
        uid, how = membercluster.recorded_uid(obj), membercluster.removal(obj)
        if how is Removal.LOST and uid:
            self._lost_s[uid] = now_s
        if how is not Removal.EMPTY or not self._is_its_own(step, cluster, uid):
            return
        for kind in registry.WORKLOADS:
            for found in step.all_of(kind, cluster):
                mark = registry.verbs_of(kind).read_mark(found)
                stood_s = now_s - self._since_s.get(found["metadata"]["uid"], now_s)
                if mark is not None and mark.fleet == FLEET and stood_s >= STANDS_S:
                    meta = found["metadata"]
                    yield (
                        f"{self.name}: {step.name}: {step.writer} lets it go, {kind} "
                        f"{meta['namespace']}/{meta['name']}"
                        f" has stood there for {stood_s:.0f} s"
                    )

    def _is_its_own(self, step: Step, cluster: str, uid: str) -> bool:
        """Whether the cluster that joined stands at its address, under this name alone, and is this
        host's.
        """
        if cluster not in step.clusters or step.clusters[cluster].uid != uid:
            return False
        if any(membercluster.recorded_uid(other) == uid for other in step.all_of("MemberCluster")):
            return False
        report = next(iter(step.all_of("ClusterCapacity", cluster)), None)
        assert report is None or report["metadata"]["name"] == clustercapacity.NAME
        return report is None or claims.recorded(report, FLEET) in ("", step.clusters["host"].uid)

    def _adopted(self, step: Step) -> Iterator[str]:
        """A decision gives something to a cluster that still holds, of that workload, what it held
        when it was lost.
        """
        facts = decision_facts(step.obj)
        before = (
            {share.cluster for share in decision_facts(step.before).shares}
            if step.before is not None
            else set()
        )
        for share in facts.shares:
            if share.cluster in before or share.cluster not in step.clusters:
                continue
            lost_s = self._lost_s.get(step.clusters[share.cluster].uid)
            if lost_s is not None and self._holds_of_then(step, share.cluster, facts, lost_s):
                yield (
                    f"{self.STALE}: {step.name}: {step.writer} gives {share.cluster} a share, "
                    "whose old slice stands"
                )

    def _holds_of_then(self, step: Step, cluster: str, facts: DecisionFacts, lost_s: float) -> bool:
        return any(
            _serves(facts, obj) and self._since_s.get(obj["metadata"]["uid"], lost_s) < lost_s
            for obj in step.all_of(facts.key.kind, cluster)
        )


def _serves(facts: DecisionFacts, obj: Obj) -> bool:
    mark = registry.verbs_of(facts.key.kind).read_mark(obj)
    going = raw.at(obj, "metadata", "deletionTimestamp") is not None
    return mark is not None and mark.workload_uid == facts.workload_uid and not going
