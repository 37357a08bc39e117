"""Each shard's life, by objects alone: to whom it was given, who said that it is done, where it has
a Job.

This never asks `federator.placement`. It keeps what every API server stored, so that it judges also
what comes late (F30), from a host that was restored (F51), or from a member process that begins
anew.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator

from federator.api.placement.decisionfacts import decision_facts
from federator.embedded.server import EmbeddedCluster
from federator.hub.records.decisions import STRUCK
from federator.kinds import labels, registry
from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Reason
from federator.model.shards import Ranges
from tests.simulation.invariants import Obj, Step, finished, is_decision

JOBSET = "PinterestJobSet"
GIVEN = "1 every shard is given"
CUT = "27 words are cut"
FIRST = "14 completions first"
AGAIN = "1 nothing runs again"


class ShardRuns:
    """Rules with a memory of every shard. `liars`: members whose own words are not believed any
    more. `given_up`: whether a write is to a slice of a cluster that an operator gave up: what it
    held had been given to others.
    """

    def __init__(
        self, liars: Collection[str], given_up: Callable[[Step], bool] = lambda step: False
    ) -> None:
        self.judged: Counter[str] = Counter()
        """How often each rule had something to judge."""
        self._liars = liars
        self._given_up = given_up
        self._given: dict[tuple[str, str], Ranges] = defaultdict(tuple)
        """(uid of a job set, cluster) -> every shard that a decision ever gave it."""
        self._told: dict[tuple[str, str], Ranges] = defaultdict(tuple)
        """(uid of a job set, cluster) -> every shard that its slice ever said is done."""
        self._remembered: dict[tuple[EmbeddedCluster, str, str], Ranges] = defaultdict(tuple)
        """(host, uid of a job set, cluster) -> every shard that a decision which this host has had
        gave it. A host that is restored is another server, and knows nothing of what was decided
        after its backup.
        """
        self._recorded: dict[str, Ranges] = defaultdict(tuple)
        """uid of a job set -> every shard that the host's status ever said is done."""
        self._alive: set[str] = set()

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if is_decision(step):
            return list(self._decided(step))
        if step.kind == JOBSET:
            return list(self._stated(step) if step.cluster == "host" else self._spoken(step))
        if step.kind == "Job" and step.old is None:
            return list(self._made(step))
        return []

    def _decided(self, step: Step) -> Iterator[str]:
        """A decision with any slot gives every shard that is not done."""
        facts = decision_facts(step.obj)
        if facts.terms.unit is not Unit.SHARDS:
            return
        uid, host = facts.workload_uid, step.clusters["host"]
        for share in facts.shares:
            self._given[uid, share.cluster] = shards.union(
                self._given[uid, share.cluster], share.ranges
            )
        for known in (facts, decision_facts(step.old)) if step.old is not None else (facts,):
            for share in (*known.shares, *known.given):
                mine = host, uid, share.cluster
                self._remembered[mine] = shards.union(self._remembered[mine], share.ranges)
        job_set = next((obj for obj in step.all_of(JOBSET) if obj["metadata"]["uid"] == uid), None)
        changed = step.old is None or step.old["spec"] != step.obj["spec"]
        if job_set is None or not changed or not step.writer:
            return
        told = [one for (of, _), ranges in self._told.items() if of == uid for one in ranges]
        done = shards.union(told, self._recorded[uid])
        before = decision_facts(step.before).shares if step.before is not None else ()
        # A cluster that takes nothing new keeps its share as it is when all in it is done: its
        # slots are no slots then.
        if not any(
            one.slots and (one not in before or shards.minus(one.ranges, done))
            for one in facts.shares
        ):
            return
        if facts.inputs_hash == STRUCK:
            return  # a cluster was taken out of it, and the next decision gives what it had
        if facts.terms.reason is Reason.MISCONFIGURED:
            # nobody is given anything anew by a policy that cannot be read, and `exclude` acts all
            # the same
            return
        self.judged[GIVEN] += 1
        given = [one for share in facts.shares for one in share.ranges]
        every: Ranges = ((0, int(job_set["spec"]["shards"]) - 1),)
        if lost := shards.minus(every, shards.union(given, done)):
            yield (
                f"{GIVEN}: {step.name}: nobody is given {shards.text(lost)}, done are "
                f"{shards.text(done)}"
            )

    def _stated(self, step: Step) -> Iterator[str]:
        """The host's status records nothing but what members said of shards that they were
        given.
        """
        uid, now = step.obj["metadata"]["uid"], finished(step.obj)
        if step.new is None:
            self._alive.discard(uid)
            return
        going = "deletionTimestamp" in step.new["metadata"]
        (self._alive.discard if going else self._alive.add)(uid)
        news = shards.minus(now, self._recorded[uid])
        self._recorded[uid] = shards.union(now, self._recorded[uid])
        if not news or not step.writer:
            return
        self.judged[CUT] += 1
        words: Ranges = ()
        for (of, cluster), told in self._told.items():
            if of == uid:
                words = shards.union(words, shards.intersect(told, self._given[uid, cluster]))
        if strange := shards.minus(news, words):
            yield (
                f"{CUT}: {step.name}: {shards.text(strange)} are done, and nobody who was given "
                "them said so"
            )

    def _spoken(self, step: Step) -> Iterator[str]:
        """A slice goes only when all that it completed is recorded on the host, of what this host
        can know to have given it: what a slice of a lost decision says of shards that others have
        by now could be any member's lie.
        """
        verbs = registry.verbs_of(JOBSET)
        mark = verbs.read_mark(step.obj)
        if mark is None:
            return
        uid = mark.workload_uid
        before = verbs.read_mark(step.old) if step.old is not None else None
        if before is not None and step.old is not None:
            self._told[before.workload_uid, step.cluster] = shards.union(
                self._told[before.workload_uid, step.cluster], finished(step.old)
            )
        if step.new is not None and not _leaves(step):
            self._told[uid, step.cluster] = shards.union(
                self._told[uid, step.cluster], finished(step.new)
            )
            return
        if (
            not step.writer.startswith("hub")
            or uid not in self._alive
            or step.cluster in self._liars
        ):
            return
        if self._given_up(step):
            # it is removed as stale when the cluster is back: its shards may run twice (MayOverlap)
            return
        self.judged[FIRST] += 1
        known = self._known(step, uid)
        done = shards.intersect(
            shards.intersect(finished(step.obj), shards.normal(mark.ranges)), known
        )
        if lost := shards.minus(done, self._recorded[uid]):
            yield (
                f"{FIRST}: {step.name}: it goes, and the host has not recorded {shards.text(lost)}"
            )

    def _known(self, step: Step, uid: str) -> Ranges:
        """Shards of which the host can know that it gave them to this cluster."""
        found = self._remembered[step.clusters["host"], uid, step.cluster]
        for facts in map(decision_facts, step.all_of("PlacementDecision")):
            if facts.workload_uid == uid:
                had = (
                    share
                    for share in (*facts.shares, *facts.given)
                    if share.cluster == step.cluster
                )
                found = shards.union(found, [one for share in had for one in share.ranges])
        return found

    def _made(self, step: Step) -> Iterator[str]:
        """A member makes no Job for shards that its own slice says are done."""
        piece = labels.piece_of(step.obj["metadata"].get("annotations") or {})
        if piece is None or not step.writer.startswith("member") or step.cluster in self._liars:
            return
        slice_ = _slice_of(step)
        if slice_ is None:
            return
        self.judged[AGAIN] += 1
        if again := shards.intersect((piece,), finished(slice_)):
            yield (
                f"{AGAIN}: {step.name}: it runs {shards.text(again)}, which the slice says are done"
            )


def _leaves(step: Step) -> bool:
    """Whether it is this write that begins the end of the object."""
    was = step.old is not None and "deletionTimestamp" in step.old["metadata"]
    return step.new is not None and "deletionTimestamp" in step.new["metadata"] and not was


def _slice_of(step: Step) -> Obj | None:
    """The slice that a Job belongs to, as it is now."""
    owners = {one["uid"] for one in step.obj["metadata"].get("ownerReferences") or ()}
    return next(
        (obj for obj in step.all_of(JOBSET, step.cluster) if obj["metadata"]["uid"] in owners), None
    )
