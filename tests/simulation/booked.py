"""2 and 6 by members' objects alone: what clusters are given fits their machines, and what runs was
admitted.

`federator.placement` is never asked: machines and other people's pods are read from members'
stores, what was given from the decisions on the host, in the plain meaning of their fields.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from federator.api import raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.model import names, shards
from federator.model.ask import Unit
from federator.model.kubernetes.quantity import vector
from tests.simulation.invariants import Obj, Step, all_of, finished, is_decision

ROOM = "2 room is not over-booked"
ADMITTED = "6 what runs was admitted"
MEASURED = ("cpu", "memory")
SETTLE_S = 60.0
"""So long after machines went or pods of others came, nobody can be blamed for not having heard of
it yet.
"""
RUNS = ("Deployment", "Job")
Amounts = Mapping[str, int]


class Booked:
    """Sums of our own, at every decision and at every native that is made or grows."""

    def __init__(self, now: Callable[[], float], liars: Collection[str]) -> None:
        self.judged: Counter[str] = Counter()
        self._now = now
        self._liars = liars
        self._shrunk_s: dict[str, float] = {}
        """Member -> when a machine of it last changed or went, or a pod of somebody else came."""
        self._admitted: dict[str, Counter[str]] = defaultdict(Counter)
        """uid of a workload -> the most of each resource that any decision let one of its pods ask
        for.
        """
        self._given: dict[tuple[str, str], int] = defaultdict(int)
        """(uid, cluster) -> the most pods that any decision let it have there."""

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if step.kind == "Node" or (step.kind == "Pod" and not _ours(step.obj)):
            if _takes_room(step):
                self._shrunk_s[step.cluster] = self._now()
            return []
        if is_decision(step):
            return self._decided(step)
        return list(self._grown(step)) if step.kind in RUNS and step.cluster != "host" else []

    def _decided(self, step: Step) -> list[str]:
        facts = decision_facts(step.obj)
        shape = facts.terms.shape
        if shape is None:
            return []
        for resource in MEASURED:
            most = self._admitted[facts.workload_uid]
            most[resource] = max(most[resource], shape.requests[resource])
        for share in facts.shares:
            where = facts.workload_uid, share.cluster
            self._given[where] = max(self._given[where], share.slots)
        before = (
            {one.cluster: one.slots for one in decision_facts(step.before).shares}
            if step.before is not None
            else {}
        )
        grown = [one.cluster for one in facts.shares if one.slots > before.get(one.cluster, 0)]
        if shape.every_node:  # it goes where it may, room or not
            return []
        return [text for cluster in grown if step.writer for text in self._fits(step, cluster)]

    def _fits(self, step: Step, cluster: str) -> Iterator[str]:
        """All that decisions give a cluster beside all that its machines have for it."""
        member = step.clusters.get(cluster)
        if member is None or cluster in self._liars:
            return
        if self._now() - self._shrunk_s.get(cluster, -math.inf) < SETTLE_S:
            return
        self.judged[ROOM] += 1
        decisions = [decision_facts(obj) for obj in step.all_of("PlacementDecision")]
        free = _free(member)
        for resource in MEASURED:
            booked = sum(
                _pods(step, facts, cluster) * _request(facts, resource) for facts in decisions
            )
            if booked > free[resource]:
                unit = "of cpu" if resource == "cpu" else f"of {resource}"
                yield (
                    f"{ROOM}: {step.name}: {cluster} has {free[resource]} {unit}, decisions give "
                    f"it {booked}"
                )

    def _grown(self, step: Step) -> Iterator[str]:
        """What one pod asks for, and how many there may be, beside what was ever admitted; under a
        quota only, where it would be somebody else's.
        """
        if step.new is None or not step.writer or not step.all_of("FederatedQuota"):
            return
        uid = (step.new["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL, "")
        if uid not in self._admitted or not self._limited(step, uid):
            return
        now, was = _asked(step.new), _asked(step.old)
        self.judged[ADMITTED] += 1
        for resource in MEASURED:
            if now[resource] > max(self._admitted[uid][resource], was[resource]):
                most = self._admitted[uid][resource]
                yield (
                    f"{ADMITTED}: {step.name}: a pod asks for {now[resource]} of {resource}, "
                    f"admitted were {most}"
                )

    def _limited(self, step: Step, uid: str) -> bool:
        """Whether an account limits what this workload may use."""
        found = [
            facts
            for facts in map(decision_facts, step.all_of("PlacementDecision"))
            if facts.workload_uid == uid
        ]
        return any(
            facts.terms.project in raw.texts(quota, "spec", "projects")
            and raw.mapping(quota, "spec", "tiers", str(facts.terms.tier))
            for facts in found
            for quota in step.all_of("FederatedQuota")
        )


def _ours(pod: Obj) -> bool:
    """Whether a Job or a ReplicaSet has made it: of other people's there are only bare pods in
    these worlds.
    """
    return bool(pod["metadata"].get("ownerReferences"))


def _takes_room(step: Step) -> bool:
    """Whether less room may be left after this write than before. A machine that is new, or a pod
    of others that goes, leaves more: then nobody can have counted on too much.
    """
    if step.old is None if step.kind == "Node" else step.new is None:
        return False
    return bool(_weight(step.old) != _weight(step.new))


def _weight(obj: Obj | None) -> Any:
    """Of a machine or a pod, what counts for room: where it is, whether it runs, what it takes or
    offers.
    """
    if obj is None:
        return None
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    told = [
        one.get("status") for one in status.get("conditions") or () if one.get("type") == "Ready"
    ]
    ended = status.get("phase") in ("Succeeded", "Failed")
    if obj["kind"] == "Pod":
        return bool(spec.get("nodeName")), ended
    return status.get("allocatable"), spec.get("unschedulable"), spec.get("taints"), told


def _free(member: EmbeddedCluster) -> Counter[str]:
    """What the machines of a member offer, less what pods of others ask for."""
    found: Counter[str] = Counter()
    for node in member.store.items(member.registry.get("", "nodes")):
        for resource in MEASURED:
            found[resource] += _amount(
                (node.obj.get("status") or {}).get("allocatable") or {}, resource
            )
    for pod in member.store.items(member.registry.get("", "pods")):
        if _ours(pod.obj) or (pod.obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for resource in MEASURED:
            found[resource] -= (
                _sum_of(pod.obj["spec"], resource) if pod.obj["spec"].get("nodeName") else 0
            )
    return found


def _pods(step: Step, facts: DecisionFacts, cluster: str) -> int:
    """Pods that a decision lets a cluster have at once: of shards, those that are not done."""
    share = facts.share_of(cluster)
    if share is None or facts.terms.unit is not Unit.SHARDS:
        return share.slots if share is not None else 0
    kind = facts.key.kind
    done = next(
        (
            finished(one)
            for one in step.all_of(kind)
            if one["metadata"]["uid"] == facts.workload_uid
        ),
        (),
    )
    for obj in all_of(step.clusters[cluster], kind):
        mark = registry.verbs_of(kind).read_mark(obj)
        if mark is not None and mark.workload_uid == facts.workload_uid:
            done = shards.union(done, finished(obj))
    return min(share.slots, shards.size(shards.minus(shards.normal(share.ranges), done)))


def _request(facts: DecisionFacts, resource: str) -> int:
    return facts.terms.shape.requests[resource] if facts.terms.shape is not None else 0


def _asked(native: Obj | None) -> Counter[str]:
    """What one pod of a native asks for."""
    pod = raw.mapping(native, "spec", "template", "spec") if native is not None else {}
    return Counter({resource: _sum_of(pod, resource) for resource in MEASURED})


def _sum_of(pod: Mapping[str, Any], resource: str) -> int:
    asked = [
        raw.mapping(container, "resources", "requests") for container in pod.get("containers") or ()
    ]
    return sum(_amount(one, resource) for one in asked)


def _amount(amounts: Mapping[str, Any], resource: str) -> int:
    return vector({resource: amounts[resource]})[resource] if resource in amounts else 0
