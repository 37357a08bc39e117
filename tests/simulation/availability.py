"""15: our own hand takes no ready copy away that a service cannot spare. By members' objects alone.

Judged at every write of a hub that shrinks or deletes a slice: of the ready copies in all members,
as their own controllers count them, those that are left after it are as many as the decision gives,
less the maxUnavailable of the host's object, or as many as there were. `federator.placement` is
never asked, nor what the hub remembers. A hub acts by what it has heard: what a member lost by
itself within `LATELY_S` is forgiven.

That a move lowers nothing is a rule of `moves`: without maxUnavailable this rule found no bug here.

Where autoscalers choose the copies, what is left are those that their bounds let stay, and what is
promised is `min` less maxUnavailable; nothing where the autoscaler is the member's own, whose least
number may be none.

What a cluster held when an operator gave it up as lost is nobody's from then on: it was replaced
elsewhere, and goes first when the cluster joins again. It is not counted, and taking it away is not
judged.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

from federator.api import membercluster, raw
from federator.api.membercluster import Removal
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.kinds import registry
from federator.kinds.verbs import SliceMark
from federator.model import names
from tests.faults.lives import Life
from tests.faults.rows import Sending
from tests.simulation.invariants import Obj, Step, all_of
from tests.simulation.scaled import whole_of

NAME = "15 availability"
SERVICES = ("PinterestService", "Deployment")
LATELY_S = 10.0
HEARD_S = 3.0
"""A copy that has been ready for less may not have been told of yet: by its member at most once a
second.
"""
ON_ITS_WAY_S = 1.0
"""So long before a write leaves, its hub may not have heard of the decision that stands by then."""


class Availability:
    """Ready copies per service, at every write. `liars`: members whose figures hubs were lied to
    about; services that have copies there are not judged.
    """

    def __init__(self, now: Callable[[], float], liars: Collection[str]) -> None:
        self.judged = 0
        """Writes of hubs that took copies away."""
        self._now = now
        self._liars = liars
        self._before: dict[str, list[tuple[float, int]]] = defaultdict(list)
        """uid of a workload -> (when it was replaced, how many copies it gave) of every decision
        before.
        """
        self._least: dict[str, list[tuple[float, int]]] = defaultdict(list)
        """uid of a service -> (when it was edited, how many copies its autoscalers had to keep)."""
        self._sent_s: dict[tuple[str, str, str], float] = {}
        """(life, cluster, path) -> when the last write there left."""
        self._lost_s: dict[str, float] = {}
        """uid of a workload -> when a member had fewer ready copies of it than before, through no
        write of ours.
        """
        self._risen: dict[tuple[str, str], tuple[float, int]] = {}
        """(cluster, uid of a workload) -> when it last had more ready copies than before, and how
        many before.
        """
        self._given_up: dict[tuple[str, str], int] = {}
        """(cluster, uid of a workload) -> the highest seq that was let go there when the cluster
        was given up.
        """
        self._deleted: set[str] = set()
        """uids of decisions that somebody else has deleted: whoever may do that takes the service
        down.
        """

    def sending(self, life: Life, sending: Sending) -> None:
        """A request leaves its process: how long it is on its way, a slow member says (F33)."""
        if sending.writes:
            self._sent_s[life.name, sending.cluster, sending.request.path] = self._now()

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if step.kind == "PlacementDecision" and step.old is not None:
            facts = decision_facts(step.old)
            if not step.writer.startswith("hub") and "deletionTimestamp" in step.obj["metadata"]:
                self._deleted.add(facts.uid)
            self._before[facts.workload_uid].append((self._now(), facts.placed))
            for cluster in _lost(step):
                if step.new is None or decision_facts(step.new).share_of(cluster) is None:
                    self._given_up[cluster, facts.workload_uid] = facts.seq
        if step.kind not in SERVICES:
            return []
        if step.cluster == "host":
            self._edited(step)
            return []
        self._noted(step)
        return self._shrunk(step) if step.writer.startswith("hub") else []

    def _edited(self, step: Step) -> None:
        if step.old is None or step.new is None:
            return
        was, now = (raw.integer(obj, "spec", "autoscaling", "min") for obj in (step.old, step.new))
        if was != now:
            self._least[step.old["metadata"]["uid"]].append((self._now(), was))

    def _noted(self, step: Step) -> None:
        """Copies that were ready and are not any more."""
        if step.kind != "Deployment" or step.old is None:
            return
        uid = (step.old["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL, "")
        was, now = ready_of(step.old), ready_of(step.new) if step.new is not None else 0
        wants = step.new["spec"].get("replicas", 1) if step.new is not None else 0
        if uid and now > was:
            risen_s, before = self._risen.get((step.cluster, uid), (-math.inf, was))
            recent = self._now() - risen_s < HEARD_S
            self._risen[step.cluster, uid] = self._now(), min(before, was) if recent else was
        if uid and now < min(was, wants) and not step.writer.startswith("hub"):
            self._lost_s[uid] = self._now()

    def _shrunk(self, step: Step) -> list[str]:
        verbs = registry.verbs_of(step.kind)
        mark = verbs.read_mark(step.old) if step.old is not None else None
        if mark is None or step.old is None:
            return []
        going = step.new is None or "deletionTimestamp" in step.new["metadata"]
        before, after = (
            verbs.count(step.old),
            0 if going or step.new is None else verbs.count(step.new),
        )
        uid = mark.workload_uid
        if after >= before or self._is_left_over(step, step.cluster, mark):
            return []
        live = next(
            (
                obj
                for obj in all_of(step.clusters["host"], step.kind)
                if obj["metadata"]["uid"] == uid
            ),
            None,
        )
        if live is None or "deletionTimestamp" in live["metadata"] or live["spec"].get("suspend"):
            return []
        if self._now() - self._lost_s.get(uid, -math.inf) < LATELY_S:
            return []
        if any(facts.uid in self._deleted for facts in _decisions(step, uid)):
            return []
        if any(0 < facts.terms.per_cluster <= after for facts in _decisions(step, uid)):
            # strategy Duplicate: each cluster holds the count that a person asks for, whatever
            # others lack
            return []
        scaling = raw.mapping(live, "spec", "autoscaling")
        if scaling.get("owner") == "Member" or bool(scaling) != _is_scaled(step.old):
            return []
        if any(next(_marks(step, cluster, uid), None) is not None for cluster in self._liars):
            # a lie about ready copies, up to what was given there, cannot be told from the truth
            return []
        self.judged += 1
        there = {
            cluster: self._ready(step, cluster, uid)
            for cluster in step.clusters
            if cluster != "host"
        }
        had = there.get(step.cluster, 0)
        stay = _most(step.new, after) if step.new is not None and after else 0
        left = sum(there.values()) - max(0, had - stay)
        left_s = self._left_s(step) - ON_ITS_WAY_S
        since = [gave for replaced_s, gave in self._before[uid] if replaced_s > left_s]
        given = min([_given(step, uid), *since])  # it had left when the decision changed
        needed = given - verbs.max_unavailable(live)
        if scaling:
            edited = [least for at_s, least in self._least[uid] if at_s > left_s - LATELY_S]
            needed = _promised(live, given, min([scaling["min"], *edited]))
        if left < min(
            needed, sum(self._told(cluster, uid, ready) for cluster, ready in there.items())
        ):
            told = ", ".join(f"{cluster} {ready}" for cluster, ready in sorted(there.items()))
            what = f"{left} ready copies are left of {told}, {needed} are needed"
            return [f"{NAME}: {step.name}: {step.writer} goes from {before} to {after}: {what}"]
        return []

    def _left_s(self, step: Step) -> float:
        """When this write left its hub."""
        meta, plural = step.obj["metadata"], registry.KINDS[step.kind].plural
        end = f"/namespaces/{meta['namespace']}/{plural}/{meta['name']}"
        sent = (
            at_s
            for (life, cluster, path), at_s in self._sent_s.items()
            if (life, cluster) == (step.writer, step.cluster) and path.endswith(end)
        )
        return max(sent, default=self._now())

    def _told(self, cluster: str, uid: str, ready: int) -> int:
        """Ready copies that a hub has had the time to hear of."""
        risen_s, before = self._risen.get((cluster, uid), (-math.inf, ready))
        return min(ready, before) if self._now() - risen_s < HEARD_S else ready

    def _ready(self, step: Step, cluster: str, uid: str) -> int:
        """Ready copies of a workload in a member."""
        if any(self._is_left_over(step, cluster, mark) for mark in _marks(step, cluster, uid)):
            return 0
        found = (
            obj
            for obj in all_of(step.clusters[cluster], "Deployment")
            if (obj["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL) == uid
        )
        return sum(map(ready_of, found))

    def _is_left_over(self, step: Step, cluster: str, mark: SliceMark) -> bool:
        """Whether this slice is of the time before the cluster was given up, and of no decision in
        force: a host that was restored may know no better.
        """
        if mark.seq > self._given_up.get((cluster, mark.workload_uid), -1):
            return False
        in_force = (
            share for facts in _decisions(step, mark.workload_uid) for share in facts.shares
        )
        return not any((share.cluster, share.seq) == (cluster, mark.seq) for share in in_force)


def _lost(step: Step) -> Iterator[str]:
    """Clusters that an operator removes as lost, and that are not heard."""
    for obj in step.all_of("MemberCluster"):
        heard = raw.condition(obj, "Ready").get("status") == "True"
        if (
            "deletionTimestamp" in obj["metadata"]
            and membercluster.removal(obj) is Removal.LOST
            and not heard
        ):
            yield obj["metadata"]["name"]


def _marks(step: Step, cluster: str, uid: str) -> Iterator[SliceMark]:
    for kind in SERVICES:
        for obj in all_of(step.clusters[cluster], kind):
            mark = registry.verbs_of(kind).read_mark(obj)
            if mark is not None and mark.workload_uid == uid:
                yield mark


def _decisions(step: Step, uid: str) -> Iterator[DecisionFacts]:
    return (
        facts
        for facts in map(decision_facts, step.all_of("PlacementDecision"))
        if facts.workload_uid == uid
    )


def _given(step: Step, uid: str) -> int:
    """Copies that the decision in force gives."""
    return max((facts.placed for facts in _decisions(step, uid)), default=0)


def _is_scaled(slice_: Obj) -> bool:
    return bool(raw.mapping(slice_, "spec", "autoscaling"))


def _most(slice_: Obj, share: int) -> int:
    """Copies that may stay in a cluster with this share."""
    scaling = raw.mapping(slice_, "spec", "autoscaling")
    if not scaling:
        return share
    return max(raw.integer(scaling, "max") * share // whole_of(slice_), 1)


def _promised(live: Obj, given: int, least: int) -> int:
    """Ready copies that a service has at least whose copies autoscalers choose."""
    placed = least * min(given, whole_of(live)) // whole_of(live)
    spare: object = raw.at(live, "spec", "updateStrategy", "maxUnavailable")
    if isinstance(spare, int):
        return placed - spare
    percent = int(spare.rstrip("%")) if isinstance(spare, str) else 25
    return placed - placed * percent // 100


def ready_of(deployment: Obj) -> int:
    """What its controller counts."""
    found = (deployment.get("status") or {}).get("readyReplicas", 0)
    return found if isinstance(found, int) else 0
