"""What must hold after every step: one function and one row of `STEPS` per rule of the invariants'
list.

A step is one write to any API server; rules see the object before and after, and who wrote. They
return a sentence for every breach and never touch the world. Rules that hold of requests live in
`conduct`, those of a world at rest in `rest`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.embedded.server import EmbeddedCluster
from federator.hub.placing import unschedulable
from federator.hub.records import workloads
from federator.kinds import registry
from federator.kinds.natives import NATIVES
from federator.kinds.verbs import SliceMark
from federator.model import names, shards
from federator.model import seq as seqs
from federator.model.ask import Unit
from federator.model.shards import Ranges
from tests.simulation import promises
from tests.simulation.releases import is_release

Obj = Mapping[str, Any]
NOTE = "example.com/"
"""Ends the prefix of labels and annotations that belong to somebody else."""


def note_key(kind: str) -> str:
    """The note that somebody leaves on objects of this kind. A slice's labels flow down to what it
    is expanded to, so each kind has notes of its own.
    """
    return f"{kind.lower()}.{NOTE}note"


@dataclass(frozen=True, slots=True)
class Step:
    """One write. `old` is None for a creation, `new` for a deletion."""

    clusters: Mapping[str, EmbeddedCluster]
    cluster: str
    writer: str
    """Name of the life that wrote, "" for the user and the clusters' own controllers."""
    kind: str
    old: Obj | None
    new: Obj | None
    decided: Mapping[str, int] = field(default_factory=dict)
    """uid of a workload -> the highest seq that any decision of it, or a share, has had on the
    host, this step included.
    """
    elected: int = 0
    """The highest count of elections that the hubs' Lease has ever had; 0 where there is none."""
    obeyed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(cluster, uid of a workload) -> the highest seq that a slice of it had there when natives
    were written for it.
    """
    finished: Mapping[str, Ranges] = field(default_factory=dict)
    """uid of a workload that is gone from the host -> the shards that had completed or failed when
    it went.
    """
    divisions: Mapping[tuple[str, int], Obj] = field(default_factory=dict)
    """(uid, generation) of a policy -> how it has copies divided, where it says so."""
    remade: Obj | None = None
    """Of a decision that is made with the number and the shares of one whose object was deleted:
    that one.
    """
    heard: Callable[[Obj], bool] = lambda obj: True
    """Whether the hub that wrote has been told of this state of an object of the host, or of a
    later one.
    """

    @property
    def obj(self) -> Obj:
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found

    @property
    def before(self) -> Obj | None:
        """What held before this write. The loss of a decision's object takes back nothing of what
        it gave.
        """
        return self.old if self.old is not None else self.remade

    @property
    def name(self) -> str:
        meta = self.obj["metadata"]
        return f"{self.kind} {meta.get('namespace', '')}/{meta['name']} in {self.cluster}"

    @property
    def same(self) -> bool:
        """Both states are of one object."""
        return (
            self.old is not None
            and self.new is not None
            and self.old["metadata"].get("uid") == self.new["metadata"].get("uid")
        )

    def all_of(self, kind: str, cluster: str = "host") -> list[Obj]:
        """Every object of one of our kinds, after the step."""
        return all_of(self.clusters[cluster], kind)


def all_of(cluster: EmbeddedCluster, kind: str) -> list[Obj]:
    """Every object of one of our kinds in a cluster."""
    found = registry.KINDS[kind]
    return [one.obj for one in cluster.store.items(cluster.registry.get(found.group, found.plural))]


def is_decision(step: Step) -> bool:
    return step.kind == "PlacementDecision" and step.new is not None


def is_slice(step: Step) -> bool:
    return step.kind in registry.WORKLOADS and step.cluster != "host"


def conservation(step: Step) -> Iterator[str]:
    """Shares and shortfall of a decision make up what is wanted; nothing is given twice."""
    if not is_decision(step):
        return
    facts = decision_facts(step.obj)
    wanted, missing = facts.terms.wanted, facts.terms.shortfall
    if facts.placed + missing != wanted or missing < 0:
        yield (
            f"{step.name}: {facts.placed} placed and {missing} missing do not make {wanted} wanted"
        )
    if len({share.cluster for share in facts.shares}) != len(facts.shares):
        yield f"{step.name}: a cluster has two shares"
    if facts.terms.unit is Unit.SHARDS:
        given = [one for share in facts.shares for one in share.ranges]
        if shards.size(given) != shards.size(shards.normal(given)):
            yield f"{step.name}: a shard is given to two clusters: {shards.text(given)}"


def rising_seq(step: Step) -> Iterator[str]:
    """The number of a decision and of a slice never falls, and rises when shares change."""
    if not step.same or step.old is None or step.new is None:
        return
    if step.kind == "PlacementDecision":
        old, new = decision_facts(step.old), decision_facts(step.new)
        # the nodes of a daemon's share are what it is charged for, and no part of its slice
        before, after = (
            [structs.replace(share, nodes=None) for share in facts.shares] for facts in (old, new)
        )
        if new.seq < old.seq or (new.seq == old.seq and after != before):
            yield (
                f"{step.name}: seq goes from {old.seq} to {new.seq}, shares from {old.shares} to "
                f"{new.shares}"
            )
    elif is_slice(step) and not is_release(step):
        was, now = _seq(step.kind, step.old), _seq(step.kind, step.new)
        if was is not None and (now is None or now < was):
            yield f"{step.name}: seq goes from {was} to {now}"


def numbers_of_this_host(step: Step) -> Iterator[str]:
    """The term of what a hub decides is one that an election has led to: nobody else's number moves
    it.
    """
    if not is_decision(step) or not step.writer.startswith("hub") or not step.elected:
        return
    term = seqs.term(decision_facts(step.obj).seq)
    if term > step.elected:
        yield (
            f"{step.name}: {step.writer} decides in term {term} after {step.elected} elections "
            "at most"
        )


def past_rests(step: Step) -> Iterator[str]:
    """Nothing is made for a slice that is older than one of the same workload that was obeyed there
    before.
    """
    if step.old is not None or not step.writer.startswith("member-"):
        return
    for mark in marks_of_owners(step):
        newest = step.obeyed.get((step.cluster, mark.workload_uid), -1)
        if mark.seq < newest:
            yield f"{step.name}: is made for a slice with seq {mark.seq}, after one with {newest}"


def marks_of_owners(step: Step) -> Iterator[SliceMark]:
    """The marks of the slices in whose name a native object is written."""
    for owner in step.obj["metadata"].get("ownerReferences") or ():
        if owner.get("kind") not in registry.WORKLOADS:
            continue
        for obj in step.all_of(owner["kind"], step.cluster):
            mark = registry.verbs_of(owner["kind"]).read_mark(obj)
            if obj["metadata"]["uid"] == owner["uid"] and mark is not None:
                yield mark


def intent_first(step: Step) -> Iterator[str]:
    """What the hub writes to a member was written on the host before: a decision of that workload
    with that seq. The decision may be gone when the write arrives, if it was long on its way (F30): that is for 8
    to judge. A deletion writes no seq: an object that waits for its dependents keeps what it has.
    """
    if not is_slice(step) or not step.writer.startswith("hub") or step.new is None:
        return
    mark = registry.verbs_of(step.kind).read_mark(step.new)
    if mark is None:
        if not is_release(step):
            yield f"{step.name}: {step.writer} wrote a slice without a mark"
        return
    kept = step.old is not None and _seq(step.kind, step.old) == mark.seq
    if kept and "deletionTimestamp" in step.new["metadata"]:
        return
    newest = step.decided.get(mark.workload_uid, -1)
    if newest < mark.seq:
        yield f"{step.name}: carries seq {mark.seq}, the host had decided {newest} at most"


def _seq(kind: str, obj: Obj) -> int | None:
    mark = registry.verbs_of(kind).read_mark(obj)
    return mark.seq if mark is not None else None


def ownership(step: Step) -> Iterator[str]:
    """Our processes change and delete only what carries our fleet's label, or (somebody took that
    off) our mark, or is controlled by a slice of ours, in members.
    """
    if not step.writer or step.old is None or step.cluster == "host":
        return
    if step.kind not in NATIVES and step.kind not in registry.WORKLOADS:
        return
    if names.FLEET_LABEL in (step.old["metadata"].get("labels") or {}) or _marked(
        step.kind, step.old
    ):
        return
    owners = {
        one["uid"]: one["kind"]
        for one in step.old["metadata"].get("ownerReferences") or ()
        if one["controller"]
    }
    for kind in sorted(set(owners.values()) & set(registry.WORKLOADS)):
        if any(
            obj["metadata"]["uid"] in owners and _marked(kind, obj)
            for obj in step.all_of(kind, step.cluster)
        ):
            return
    yield f"{step.name}: {step.writer} changed an object that is not ours"


def _marked(kind: str, obj: Obj) -> bool:
    return kind in registry.WORKLOADS and registry.verbs_of(kind).read_mark(obj) is not None


def quota_kept(step: Step) -> Iterator[str]:
    """No decision takes an account beyond a limit that its hub has heard of (events take their
    time, F17), neither its own nor one above it, and none takes what another account keeps for
    itself.
    """
    if not is_decision(step):
        return
    facts = decision_facts(step.obj)
    project, tier = facts.terms.project, facts.terms.tier
    accounts = promises.Accounts(step.all_of("FederatedQuota"))
    if not all(
        step.heard(accounts.objs[one])
        for name in accounts.of(project)
        for one in accounts.tree(name)
    ):
        return
    others = [
        one for one in map(decision_facts, step.all_of("PlacementDecision")) if one.uid != facts.uid
    ]
    before = decision_facts(step.before) if step.before is not None else None

    def theirs(resource: str, one: str) -> int:
        mine = (
            other for other in others if other.terms.project == one and other.terms.tier == tier
        )
        return sum(charge(step, other, resource) for other in mine)

    def now(resource: str, one: str) -> int:
        return theirs(resource, one) + (charge(step, facts, resource) if one == project else 0)

    def then(resource: str, one: str) -> int:
        kept = _kept(step, before, facts, resource) if before is not None and one == project else 0
        return theirs(resource, one) + kept

    for text in accounts.breaches(project, str(tier), now, then):
        yield f"{step.name}: {text}"


def _kept(step: Step, before: DecisionFacts, now: DecisionFacts, resource: str) -> int:
    """What the copies of the decision before take. A template or a RuntimeProfile that asks for more
    is in force only where there is room for it.
    """
    raised = promises.with_raised(before, now, _slices(step, now))
    before = replace(before, portions=raised, shares_seq=0)
    return charge(step, before, resource)


def charge(step: Step, facts: DecisionFacts, resource: str, cluster: str = "") -> int:
    """What a decision takes of a resource, in one cluster or in all. Finished shards take nothing
    any more: those that the job set's status records, and those that members say of what they were
    given, whether it is recorded or not.
    """
    if facts.terms.shape is None:
        return 0
    shares = [share for share in facts.shares if cluster in {"", share.cluster}]
    copies = sum(share.slots if share.nodes is None else share.nodes for share in shares)
    if facts.terms.unit is Unit.SHARDS:
        uid = facts.workload_uid
        live = (obj for obj in step.all_of(facts.key.kind) if obj["metadata"]["uid"] == uid)
        done = next((finished(obj) for obj in live), step.finished.get(uid, ()))
        done = shards.union(done, told_done(step, facts))
        copies = sum(
            min(share.slots, shards.size(shards.minus(share.ranges, done))) for share in shares
        )
    return copies * facts.terms.shape.requests[resource]


def told_done(step: Step, facts: DecisionFacts) -> Ranges:
    """The shards that members' slices of a job set say are done, of those that each of them was
    given.
    """
    kind = facts.key.kind
    found: Ranges = ()
    for cluster in step.clusters:
        for obj in step.all_of(kind, cluster) if cluster != "host" else ():
            mark = registry.verbs_of(kind).read_mark(obj)
            if mark is not None and mark.workload_uid == facts.workload_uid:
                found = shards.union(
                    found, shards.intersect(finished(obj), shards.normal(mark.ranges))
                )
    return found


def finished(job_set: Obj) -> Ranges:
    """The shards that the status of a job set records as completed or failed."""
    status = job_set.get("status") or {}
    completed, failed = (
        workloads.read_ranges(status.get(f"{which}Indexes") or "")
        for which in ("completed", "failed")
    )
    return shards.union(completed, failed)


def observed_generation(step: Step) -> Iterator[str]:
    """`status.observedGeneration` only rises, and never beyond the generation."""
    if step.new is None or step.kind not in registry.WORKLOADS:
        return
    now = _observed(step.new)
    if now > step.new["metadata"].get("generation", 0):
        yield f"{step.name}: observes generation {now}, which is still to come"
    if step.same and step.old is not None and now < _observed(step.old):
        yield f"{step.name}: observed generation {_observed(step.old)} before, {now} now"


def _observed(obj: Obj) -> int:
    found = (obj.get("status") or {}).get("observedGeneration", 0)
    return found if isinstance(found, int) else 0


def ready_means_this_template(step: Step) -> Iterator[str]:
    """Ready=True for the present generation is not said while copies that it counts on are of an
    earlier image: those of slices with the present one are enough. Slices that members have lost
    and the hub has not missed yet are nobody's lie, and so is an image that a webhook puts into a
    slice of the present generation.
    """
    if (
        step.new is None
        or step.cluster != "host"
        or not step.writer
        or step.kind not in registry.WORKLOADS
    ):
        return
    meta, status, verbs = (
        step.new["metadata"],
        step.new.get("status") or {},
        registry.verbs_of(step.kind),
    )
    ready: Obj = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), {})
    same = {_observed(step.new), ready.get("observedGeneration", _observed(step.new))} == {
        meta.get("generation", 0)
    }
    if verbs.unit is not Unit.REPLICAS or ready.get("status") != "True" or not same:
        return
    old = new = 0
    for cluster in step.clusters:
        for obj in step.all_of(step.kind, cluster) if cluster != "host" else ():
            mark = verbs.read_mark(obj)
            if mark is not None and mark.workload_uid == meta["uid"]:
                current = mark.origin_generation == meta.get("generation") or _images(
                    obj
                ) == _images(step.new)
                new, old = new + current * verbs.count(obj), old + (not current) * verbs.count(obj)
    if old and new < verbs.count(step.new):
        yield (
            f"{step.name}: Ready, and {old} copies are of an earlier image, {new} of the present "
            "one"
        )


def _images(obj: Obj) -> list[Any]:
    return [one.get("image") for one in obj["spec"]["template"]["spec"]["containers"]]


def left(old: DecisionFacts, new: DecisionFacts) -> int:
    """Copies that left for another workload by this decision."""
    gone, had = new.terms.preempted, old.terms.preempted
    if gone is None:
        return 0
    return max(gone.copies - (had.copies if had is not None and had.by == gone.by else 0), 0)


EVACUATIONS = ("drain of ", "failover from ", "failback to ")
"""How causes begin for which copies leave a cluster, or go back to one."""


def minimal_movement(step: Step) -> Iterator[str]:
    """With nothing changed nobody moves; and no cluster that stays loses copies while no fewer are
    wanted, unless its policy divides anew at every change, or gives each cluster fewer. Copies that
    were only held, because no cluster that their policy chooses could take them, go as soon as
    there is a place, and one by one if there is little; and a cluster that was closed, and had less
    than the policy's minPerCluster, takes that much once it is open, from others if fewer are
    missing.

    A host that was restored has a decision that is older than the slices: then a cluster can lose
    no more copies than it holds, which is none where a later decision took its slice away.
    """
    if not is_decision(step) or not step.same or step.old is None:
        return
    old, new = decision_facts(step.old), decision_facts(step.obj)
    if old.terms.unit is not Unit.REPLICAS or new.terms.wanted < old.terms.wanted:
        return
    if unschedulable.CAUSE in " ".join(new.terms.causes[-1:]):
        return
    if any(cause.startswith(EVACUATIONS) for cause in new.terms.causes):
        return  # rules of their own: `failoverrules`
    if new.inputs_hash != old.inputs_hash and new.terms.policy_origin == "inline":
        return
    staying = {share.cluster: share.count for share in new.shares}
    policy = step.obj["spec"]["policy"]
    division = step.divisions.get((policy.get("uid", ""), policy["generation"]), {})
    if new.terms.policy_origin == "inline":
        division = _inline_division(step, new)
    if new.inputs_hash != old.inputs_hash and division.get("mode") == "Fresh":
        return
    most = min(division.get("maxPerCluster", math.inf), new.terms.per_cluster or math.inf)
    removed = {
        one["metadata"]["name"]
        for one in step.all_of("MemberCluster")
        if "deletionTimestamp" in one["metadata"]
    }
    floor = division.get("minPerCluster", 0)
    raised = (
        min(staying.get(share.cluster, 0), floor) - share.count
        for share in old.shares
        if share.count < floor
    )
    before = {share.cluster for share in old.shares}
    opened = sum(min(count, floor) for name, count in staying.items() if name not in before)
    opened = max(opened - max(new.terms.wanted - old.placed, 0), 0)
    held, slices = (
        old.terms.held + sum(copies for copies in raised if copies > 0) + opened + left(old, new),
        _slices(step, old),
    )
    if not any(share.cluster in slices for share in old.shares):
        return  # nothing of it has ever reached a member: nothing can move
    for share in old.shares:
        if share.cluster in removed:
            continue  # it is left as soon as there is a place elsewhere
        now = staying.get(share.cluster, 0 if new.inputs_hash == old.inputs_hash else share.count)
        least = min(share.count, _held(slices, old, share.cluster), most)
        held -= max(least - now, 0)
        if now < least and held < 0 and now > new.terms.held:
            yield (
                f"{step.name}: {share.cluster} goes from {share.count} to {now} while "
                f"{new.terms.wanted} are wanted"
            )


def _inline_division(step: Step, facts: DecisionFacts) -> Obj:
    """What the workload's own placement says of division."""
    for obj in all_of(step.clusters["host"], facts.key.kind):
        if obj["metadata"]["uid"] == facts.workload_uid:
            placement = registry.verbs_of(facts.key.kind).placement(obj)
            return (placement or {}).get("division") or {}
    return {}


def _slices(step: Step, facts: DecisionFacts) -> dict[str, tuple[int, int]]:
    """By cluster: seq and copies of the workload's slice."""
    verbs = registry.verbs_of(facts.key.kind)
    found: dict[str, tuple[int, int]] = {}
    for name in step.clusters:
        for obj in step.all_of(facts.key.kind, name):
            mark = verbs.read_mark(obj)
            if mark is not None and mark.workload_uid == facts.workload_uid:
                found[name] = (mark.seq, verbs.count(obj))
    return found


def _held(slices: Mapping[str, tuple[int, int]], facts: DecisionFacts, cluster: str) -> float:
    """Copies that a cluster's slice asks for, if there is a slice of a later decision than this one
    in any cluster; no bound where there is none.
    """
    known = {share.cluster: share.seq for share in facts.shares}
    if not any(
        seq > known.get(name, max(facts.seq, facts.marks.get(name, 0)))
        for name, (seq, _) in slices.items()
    ):
        return math.inf
    return slices.get(cluster, (0, 0))[1]


def no_forgery_obeyed(step: Step) -> Iterator[str]:
    """No member is given more copies of a service than its owner asks for, whatever its decision
    says.
    """
    if step.kind != "PinterestService" or step.cluster == "host" or step.new is None:
        return
    meta = step.new["metadata"]
    if not step.writer.startswith("hub") or (meta["namespace"], meta["name"]) != FORGED:
        return
    for obj in step.all_of(step.kind):
        if (obj["metadata"]["namespace"], obj["metadata"]["name"]) == FORGED:
            given, asked = step.new["spec"]["replicas"], obj["spec"]["replicas"]
            if given > asked:
                yield f"{step.name}: {given} copies, and its owner asks for {asked} in all"


def by_a_forger(step: Step) -> bool:
    """Whether this is a decision that a tenant writes himself: what stood there is nobody's word,
    so that no rule compares with it. That nobody obeys it shows in the members.
    """
    if step.kind != "PlacementDecision":
        return False
    workload = step.obj["spec"]["workload"]
    return (step.obj["metadata"]["namespace"], workload["name"]) == FORGED


FORGED = ("mallory", "forger")
"""Namespace and name of the service whose decision a hostile tenant writes."""

Rule = Callable[[Step], Iterator[str]]

STEPS: Mapping[str, Rule] = {
    "1 conservation": conservation,
    "4 rising seq": rising_seq,
    "4 intent first": intent_first,
    "4 numbers of this host": numbers_of_this_host,
    "4 the past rests": past_rests,
    "5 ownership": ownership,
    "6 quota": quota_kept,
    "9 observed generation": observed_generation,
    "19 ready is of this generation": ready_means_this_template,
    "27 no forgery is obeyed": no_forgery_obeyed,
    "33 minimal movement": minimal_movement,
}
"""By number and name in the list of invariants."""


def breaches(step: Step) -> list[str]:
    """Every breach of every rule at one step, led by the rule's name."""
    return [f"{name}: {text}" for name, rule in STEPS.items() for text in rule(step)]
