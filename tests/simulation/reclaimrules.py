"""What is judged while tenants of one tree take back what they lent: by decisions, statuses and
pods, in the plain meaning of their fields.

The rules know nothing of `federator.scheduling` and `federator.placement`. Requests are whole
cpus: one for each copy, two after an edit, and one for each pod of a gang.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from federator.api import raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.kinds import registry
from federator.model.ask import Unit
from federator.model.kubernetes import quantity
from federator.model.names import WorkloadKey
from federator.model.shards import Ranges
from tests.simulation import charges, endings, promises
from tests.simulation.campaigns import Broken
from tests.simulation.invariants import Obj, all_of

if TYPE_CHECKING:
    from tests.unit.hub.world import World

TAKEN: Final = "6 no guarantee is taken"
TREE: Final = "6 the tree holds"
PART: Final = "6 the tree holds in a part"
BOTH: Final = "6 who left is gone"
TOLD: Final = "6 both sides are told"
NOWHERE: Final = "2 nobody leaves for nowhere"
SEEN: Final = "2 room is seen free"
WHOLE: Final = "7 a gang leaves as a whole"
DONE: Final = "1 done stays done"
SERVED: Final = "10 a guarantee comes back"
WINDOW_S: Final = 60.0
"""For so long it may not be held against a hub what it could not have heard."""
TOLD_S: Final = 60.0
"""A status follows its decision within this."""
SAID_S: Final = 10.0
"""And the decision of a winner those that left for it."""
MILLI: Final = 1000
KINDS: Final = {
    "PinterestService": "pinterest.com/service",
    "PinterestJobSet": "pinterest.com/jobset",
    "PinterestStatefulSet": "pinterest.com/statefulset",
    "PinterestTrainingJob": "pinterest.com/trainingjob",
}
"""Kind -> the label of its pods that has its name."""
ENDS: Final = ("PinterestJobSet", "PinterestTrainingJob")


@dataclass(frozen=True)
class Seen:
    """One decision as it was last seen."""

    facts: DecisionFacts
    asked: int
    """Copies that its workload asked for then."""
    copies: int
    """That may run at once."""
    each: int
    """Cpus that each is charged."""
    since_s: float
    done: Ranges

    @property
    def cpus(self) -> int:
        """What it holds."""
        return self.copies * self.each


@dataclass
class Taking:
    """Somebody left for a winner, who is not judged yet."""

    at_s: float
    by: str


@dataclass
class Rules:
    seed: int
    world: "World"
    total: int
    guaranteed: dict[str, int] = field(default_factory=dict)
    """By project, whose account has the same name; cpus."""
    seen: Counter[str] = field(default_factory=Counter)
    decisions: dict[str, Seen] = field(default_factory=dict)
    """uid of the workload -> its decision."""
    freed: list[tuple[float, str, int]] = field(default_factory=list)
    """(when, project, cpus) that nobody took: scaled away, deleted, done."""
    takings: list[Taking] = field(default_factory=list)
    words: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """Workload -> what its decisions said, and when."""
    done: dict[str, Ranges] = field(default_factory=dict)
    raised: dict[str, float] = field(default_factory=dict)
    """Cluster -> when an edit of what runs there last asked for more. It is admitted where it may
    find room, there or elsewhere, and counts in the room of others once the cluster reports it."""
    enlarged: dict[tuple[str, str], int] = field(default_factory=dict)
    """(uid, cluster) -> the cpus that what runs there had before an edit asked for more, until it
    has more. A larger pod for which no single node has room waits in its cluster, whose reports do
    not count it: what is free beside it is given to smaller ones."""
    lessened: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """(uid, cluster) -> when an edit last asked for less of what runs there, and the cpus it held
    until then. Its new pods start before the old ones are gone (maxSurge): a member that begins
    with them in the moment in which another grows has told nobody, and starts who comes later
    when there is room. What they take beyond what the old ones had is not held against the
    other."""
    part: str = ""
    """The cluster in which no account may have more than its guarantee; "" for none."""
    trouble_s: float = 0.0
    """When something last went wrong."""
    breach: Broken | None = None
    """What was broken first by a decision."""

    @property
    def now_s(self) -> float:
        return self.world.federation.clock.monotonic()

    def trouble(self) -> None:
        """Something went wrong until now."""
        self.trouble_s = self.now_s

    def broken(self, rule: str, what: str) -> Broken:
        return Broken(self.seed, rule, f"{what} (at {self.now_s:.0f} s)")

    # -- what is read --------------------------------------------------------------------------

    def _workloads(self) -> dict[str, Obj]:
        host = self.world.federation.host
        every = (obj for kind in registry.WORKLOADS for obj in all_of(host, kind))
        return {obj["metadata"]["uid"]: obj for obj in every}

    def _facts(self) -> Iterator[DecisionFacts]:
        for obj in all_of(self.world.federation.host, "PlacementDecision"):
            if (facts := decision_facts(obj)).terms.shape is not None:
                yield facts

    def used(self, project: str) -> int:
        return sum(one.cpus for one in self.decisions.values() if _project(one.facts) == project)

    # -- at every decision -----------------------------------------------------------------------

    def written(self) -> bool:
        """A hub wrote a decision, or deleted one. Returns whether somebody was told to leave. What
        was broken is raised by the next `look`: here it would end the request of the hub."""
        if self.breach is not None:
            return False
        try:
            return self._written()
        except Broken as breach:
            self.breach = breach
            return False

    def _written(self) -> bool:
        objs, before = self._workloads(), self.decisions
        now = {
            facts.workload_uid: self._seen(facts, objs.get(facts.workload_uid))
            for facts in self._facts()
        }
        self.decisions = now
        for uid, gone in before.items():
            if uid not in now:
                self.freed.append((self.now_s, _project(gone.facts), gone.cpus))
        left = False
        for uid, one in now.items():
            former = before.get(uid)
            if former is None or former.facts.resource_version != one.facts.resource_version:
                text = str(one.facts.key)
                self.words.setdefault(text, []).append((self.now_s, one.facts.terms.message))
                left |= self._judged(former, one, objs.get(uid))
        return left

    def _seen(self, facts: DecisionFacts, obj: Obj | None) -> Seen:
        former = self.decisions.get(facts.workload_uid)
        done = former.done if former is not None else ()
        if obj is not None:  # what is gone has done what it had
            done = endings.over(facts.key.kind, obj)
        assert facts.terms.shape is not None
        each = facts.terms.shape.requests["cpu"] // MILLI
        same = former is not None and former.facts.seq == facts.seq
        since_s = former.since_s if former is not None and same else self.now_s
        copies = charges.held(facts, done)
        return Seen(facts, facts.terms.wanted, copies, each, since_s, done)

    def _judged(self, former: Seen | None, one: Seen, obj: Obj | None) -> bool:
        """Whether it was told to leave by this decision."""
        facts, gone = one.facts, one.facts.terms.preempted
        self._judge_tree(former, one)
        self._judge_part(former, one)
        had = former.cpus if former is not None else 0
        if former is not None and one.each != former.each:
            self._note_edit(former, one)
        if one.cpus > had:
            self._judge_growth(former, one)
        told_before = former.facts.terms.preempted if former is not None else None
        left = gone is not None and (
            told_before is None or told_before.by != gone.by or gone.copies > told_before.copies
        )
        if not left:
            self._judge_loss(former, one, obj)
            if one.cpus < had:
                self.freed.append((self.now_s, _project(facts), had - one.cpus))
            return False
        assert gone is not None
        assert former is not None
        self.seen["left"] += 1
        self.seen[f"left {facts.key.kind}"] += 1
        self._judge_victim(former, one, obj)
        if gone.project != _project(facts):
            self.seen["reclaimed"] += 1
            self._judge_guarantee(former, one, obj)
        else:
            self.freed.append((self.now_s, _project(facts), had - one.cpus))
        self.takings.append(Taking(self.now_s, str(gone.by)))
        return True

    def _judge_tree(self, former: Seen | None, one: Seen) -> None:
        """No account of the tree uses more than it may, and more than before."""
        accounts = promises.Accounts(all_of(self.world.federation.host, "FederatedQuota"))
        project, uid = _project(one.facts), one.facts.workload_uid
        had = former.cpus if former is not None else 0

        def use(_: str, of: str) -> int:
            return self.used(of) * MILLI

        def before(_: str, of: str) -> int:
            return (self.used(of) - (self.decisions[uid].cpus - had) * (of == project)) * MILLI

        for text in accounts.breaches(project, "OnDemand", use, before):
            held = {str(other.facts.key): other.cpus for other in self.decisions.values()}
            raise self.broken(TREE, f"{one.facts.key}: {text}; all hold {held}")

    def _judge_part(self, former: Seen | None, one: Seen) -> None:
        """No account has more in the part than it may, and than before."""
        if not self.part:
            return
        project, given = _project(one.facts), self._given(self.part)
        has = sum(
            given[uid] for uid, other in self.decisions.items() if _project(other.facts) == project
        )
        mine = given[one.facts.workload_uid]
        had = self._there(former, self.part) if former is not None else 0
        if mine > had:
            self.seen["grew in the part"] += 1
            self.seen["filled the part"] += has == self.guaranteed[project]
        if mine > had and has > self.guaranteed[project]:
            raise self.broken(
                PART,
                f"{one.facts.key} goes from {had} to {mine} in {self.part}, and {project} has {has}"
                f" there, of {self.guaranteed[project]}",
            )

    def _judge_loss(self, former: Seen | None, one: Seen, obj: Obj | None) -> None:
        """Copies went without anybody's having taken them."""
        facts = one.facts
        if former is None or obj is None or facts.terms.unit is Unit.SHARDS:
            return
        asked = raw.integer(obj, "spec", "replicas", default=1)
        if one.copies < min(former.copies, asked) and former.asked <= asked:
            raise self.broken(NOWHERE, f"{facts.key} goes from {former.copies} to {one.copies}")

    def _judge_victim(self, former: Seen, one: Seen, obj: Obj | None) -> None:
        facts, gone = one.facts, one.facts.terms.preempted
        assert gone is not None
        if str(facts.terms.reason) != "Preempted" or str(gone.by) not in facts.terms.message:
            raise self.broken(TOLD, f"{facts.key} left for {gone.by}: {facts.terms.message}")
        for share in facts.shares:
            before = former.facts.share_of(share.cluster)
            if share.slots > (before.slots if before is not None else 0):
                raise self.broken(BOTH, f"{facts.key} left for {gone.by} and grew there: {share}")
        if one.copies >= former.copies:
            raise self.broken(BOTH, f"{facts.key} left for {gone.by} and keeps {one.copies}")
        told = former.facts.terms.preempted
        more = gone.copies - (told.copies if told is not None and told.by == gone.by else 0)
        went = former.copies - one.copies
        if not _indivisible(facts, obj) and went < min(more, former.copies):
            raise self.broken(BOTH, f"{facts.key}: {more} left for {gone.by}, {went} went")
        if _indivisible(facts, obj) and one.copies:
            raise self.broken(WHOLE, f"{facts.key} keeps {one.copies} of {former.copies}")

    def _judge_guarantee(self, former: Seen, one: Seen, obj: Obj | None) -> None:
        """What it leaves its account is what is guaranteed, but for a part of the last that went;
        what the account gave up itself lately it may have had still when this was decided."""
        project = _project(one.facts)
        unit = former.cpus if _indivisible(one.facts, obj) else former.each
        recent = sum(
            cpus for at_s, of, cpus in self.freed if of == project and at_s > self.now_s - WINDOW_S
        )
        left = self.used(project) + recent
        if left <= self.guaranteed[project] - unit:
            raise self.broken(
                TAKEN,
                f"{one.facts.key} leaves, and {project} has {left} of the"
                f" {self.guaranteed[project]} guaranteed to it",
            )

    def _note_edit(self, former: Seen, one: Seen) -> None:
        """An edit asks for more of what runs, or for less; it may have fewer copies by the same
        decision, and hold less than before though each asks for more."""
        uid = one.facts.workload_uid
        if one.each < former.each:
            for share in former.facts.shares:
                self.lessened[uid, share.cluster] = self.now_s, share.slots * former.each
                self.enlarged.pop((uid, share.cluster), None)
            return
        for share in one.facts.shares:
            before = former.facts.share_of(share.cluster)
            self.seen["grew by an edit"] += 1
            self.raised[share.cluster] = self.now_s
            had = before.slots if before is not None else 0
            self.enlarged[uid, share.cluster] = had * former.each

    def _judge_growth(self, former: Seen | None, one: Seen) -> None:
        """Where it grows there is room beside all that is given and all that still runs."""
        facts = one.facts
        for share in facts.shares:
            before = former.facts.share_of(share.cluster) if former is not None else None
            had = before.slots if before is not None else 0
            place = facts.workload_uid, share.cluster
            if place in self.enlarged and (former is None or one.each == former.each):
                self.enlarged[place] += max(share.slots - had, 0) * one.each
            if share.slots <= had:
                continue
            self.seen["grew"] += 1
            if self.now_s < self.raised.get(share.cluster, -WINDOW_S) + WINDOW_S:
                continue
            booked, has = self._booked(share.cluster), self._has(share.cluster)
            if booked > has:
                given, running = self._given(share.cluster), self._running(share.cluster)
                beside = {
                    str(other.facts.key): (given[uid], running[uid])
                    for uid, other in self.decisions.items()
                }
                what = f"{facts.key} grows in {share.cluster}: {booked} of {has} cpus are taken"
                raise self.broken(SEEN, f"{what}; given and there: {beside}")

    def _booked(self, cluster: str) -> int:
        given, running = self._given(cluster), self._running(cluster)
        for uid in running:
            at_s, held = self.lessened.get((uid, cluster), (-WINDOW_S, 0))
            if self.now_s < at_s + WINDOW_S:
                running[uid] = min(running[uid], held)
            if running[uid] == given[uid]:
                self.enlarged.pop((uid, cluster), None)
            if (uid, cluster) in self.enlarged:  # the first larger one starts beside the old ones
                running[uid] = min(running[uid], given[uid])
            given[uid] = min(given[uid], self.enlarged.get((uid, cluster), given[uid]))
        return sum(max(given[uid], running[uid]) for uid in {*given, *running})

    def _given(self, cluster: str) -> Counter[str]:
        """By workload, the cpus that its decision gives it there."""
        return Counter({uid: self._there(one, cluster) for uid, one in self.decisions.items()})

    @staticmethod
    def _there(one: Seen, cluster: str) -> int:
        """The cpus that one decision gives there."""
        here = tuple(share for share in one.facts.shares if share.cluster == cluster)
        facts = replace(one.facts, portions=here, shares_seq=0)
        return charges.held(facts, one.done) * one.each

    def _running(self, cluster: str) -> Counter[str]:
        """By workload, the cpus of the pods that are there. Those of workloads of which neither the
        object nor a decision is left count under ""; while a decision is being deleted it still
        gives what these pods have, so they are its own."""
        member = self.world.federation.members[cluster]
        decided = {one.facts.key: uid for uid, one in self.decisions.items()}
        lives = {
            WorkloadKey(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"]): uid
            for uid, obj in self._workloads().items()
        }
        names = {
            (KINDS[key.kind], key.namespace, key.name): uid
            for key, uid in (decided | lives).items()
            if key.kind in KINDS
        }
        running = Counter[str]()
        for entry in member.store.items(member.registry.get("", "pods")):
            meta, pod = entry.obj["metadata"], entry.obj
            ended = raw.text(pod, "status", "phase") in ("Succeeded", "Failed")
            if not ended and raw.text(pod, "spec", "nodeName"):
                labels = raw.text_map(pod, "metadata", "labels").items()
                found = (names.get((label, meta["namespace"], of)) for label, of in labels)
                running[next(filter(None, found), "")] += _asks(pod["spec"])
        return running

    def _has(self, cluster: str) -> int:
        member = self.world.federation.members[cluster]
        nodes = member.store.items(member.registry.get("", "nodes"))
        return sum(int(node.obj["status"]["allocatable"]["cpu"]) for node in nodes)

    # -- from time to time -----------------------------------------------------------------------

    def look(self) -> None:
        """Judges what nobody writes a decision about, and what should have followed from one.
        Raises `Broken`."""
        if self.breach is not None:
            raise self.breach
        objs = self._workloads()
        for uid, obj in objs.items():
            if obj["kind"] in ENDS:
                # What has ended is charged nothing, however its decision still reads.
                before, now = self.done.get(uid, ()), endings.over(obj["kind"], obj)
                if before != now:
                    self._judge_done(uid, before, now)
        for uid, one in self.decisions.items():
            if uid in objs:
                self._judge_status(one, objs[uid])
        for taking in [one for one in self.takings if self.now_s > one.at_s + SAID_S]:
            self.takings.remove(taking)
            self._judge_winner(taking)

    def _is_due(self, at_s: float) -> bool:
        return self.now_s > max(at_s, self.trouble_s) + TOLD_S

    def _judge_done(self, uid: str, before: Ranges, now: Ranges) -> None:
        if any(low not in _numbers(now) for low in _numbers(before)):
            raise self.broken(DONE, f"{uid}: {before} was done, and now only {now}")
        self.done[uid] = now
        if (one := self.decisions.get(uid)) is not None:
            again = self._seen(one.facts, self._workloads()[uid])
            self.decisions[uid] = again
            self.freed.append((self.now_s, _project(one.facts), one.cpus - again.cpus))

    def _judge_status(self, one: Seen, obj: Obj) -> None:
        gone = one.facts.terms.preempted
        if gone is None or not self._is_due(one.since_s):
            return
        placed = raw.condition(obj, "Placed")
        if placed.get("reason") != "Preempted" or str(gone.by) not in placed.get("message", ""):
            raise self.broken(TOLD, f"the status of {one.facts.key} says {dict(placed)}")
        self.seen["told"] += 1

    def _judge_winner(self, taking: Taking) -> None:
        """It has said that others leave for it, unless something went wrong then."""
        since_s = taking.at_s - WINDOW_S
        said = [text for at_s, text in self.words.get(taking.by, ()) if at_s >= since_s]
        if any("takes what it lacks" in text for text in said):
            self.seen["winner told"] += 1
        elif self.trouble_s < since_s:
            raise self.broken(TOLD, f"{taking.by}, for which others left, says {said}")

    def at_rest(self) -> None:
        """Everybody has what is guaranteed, as far as it is asked for."""
        objs = self._workloads()
        for one in self.decisions.values():
            facts, obj = one.facts, objs.get(one.facts.workload_uid)
            if obj is None or _indivisible(facts, obj) or facts.terms.unit is Unit.SHARDS:
                continue
            project, asks = _project(facts), _asks(raw.mapping(obj, "spec", "template", "spec"))
            free = self.guaranteed[project] - self.used(project)
            lacks = raw.integer(obj, "spec", "replicas", default=1) - one.copies
            more = (asks - one.each) * one.copies
            if (lacks > 0 and free >= one.each) or 0 < more <= free:
                raise self.broken(
                    SERVED,
                    f"{facts.key} has {one.copies} of {one.each} cpus and lacks {lacks}, or {asks}"
                    f" for each, and of what is guaranteed to {project} {free} are free:"
                    f" {facts.terms.message}",
                )
            self.seen["edited in the end"] += asks > 1 and asks == one.each
        self._judge_members()

    def _judge_members(self) -> None:
        """What was told to leave is not there any more."""
        for name in self.world.federation.members:
            given, running = self._given(name), self._running(name)
            for uid, one in self.decisions.items():
                if running[uid] > given[uid]:
                    what = f"{one.facts.key} has {running[uid]} pods in {name}, given {given[uid]}"
                    raise self.broken(BOTH, what)


def _project(facts: DecisionFacts) -> str:
    return facts.terms.project


def _indivisible(facts: DecisionFacts, obj: Obj | None) -> bool:
    """Whether fewer of its copies are of no use."""
    whole = facts.key.kind == "PinterestTrainingJob"
    return whole or raw.text(obj or {}, "spec", "placement", "partial") == "RequireAll"


def _asks(pod: Obj) -> int:
    """The whole cpus that a pod asks for."""
    requests = (raw.mapping(one, "resources", "requests") for one in pod["containers"])
    return sum(quantity.valid({"cpu": one["cpu"]})["cpu"] for one in requests) // MILLI


def _numbers(ranges: Ranges) -> set[int]:
    return {number for low, high in ranges for number in range(low, high + 1)}
