"""2: no decision gives copies to a cluster that, by what the hub had heard when it decided, is not
open to them.

What it had heard is what its reflectors (of MemberClusters also answers to its own requests) had of
the host at the moment that the decision names (`asOf`): copies may go to a cluster that was
cordoned an event ago. The objects themselves are looked up among what the API server stored, and
their fields are read here in their plain meaning, beside the product's filters. Who was just heard
is told by `patience`. Not judged: what a hub must find out by itself (kinds that a member serves,
the age of its figures), decisions that follow members which know better than a restored host, and
hosts whose histories parted, so that a version does not say which state of an object was meant.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from federator.api import capacityfields, raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.hub.cache import policying, progress
from federator.hub.leading.process import HubProcess
from federator.hub.records.decisions import STRUCK, Record
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kube.store import Version
from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.fleet import Holding
from federator.model.kubernetes import taints
from federator.model.kubernetes.quantity import vector
from federator.model.kubernetes.taints import Effect
from federator.model.policy import Division, Policy, Strategy
from federator.model.shards import Ranges
from federator.placement.policy.policies import Policies, Subject
from tests.faults.lives import Life
from tests.simulation import bounds, confined, daemonrules, departures, hearing, machines
from tests.simulation.invariants import Obj, Step, charge, is_decision
from tests.simulation.ordinals import DAEMON
from tests.simulation.world import World

POLICIES = ("PlacementPolicy", "ClusterPlacementPolicy")
READ = frozenset({*POLICIES, *registry.WORKLOADS, "MemberCluster"})
CONFIRMED_S = 60.0
"""A hub that does not hear of a MemberCluster reads it by name, at least every 15 s, until the host
answers.
"""
UNHEARD_S = 75.0
"""A hub calls a member lost at the first probe without an answer from 40 s after the last good one,
unless it stood still itself (F6): then it begins with what it knew.
"""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a hub had heard of the host when it decided about one workload."""

    members: Mapping[str, Obj | None]
    """MemberClusters by name; None where it cannot be said which state was heard."""
    policy: Policy | None
    """The one in force; None where that cannot be said."""
    workload: Obj | None
    everywhere: tuple[Obj, ...]
    """ClusterPlacementPolicies."""
    project: str
    unheard: frozenset[str]
    """Members that never answered a probe of this life, or none for long."""
    better_known: bool
    """Members hold slices of later decisions than the host has."""
    limits: Mapping[str, int]
    """FederatedQuotas by name, and which version of them."""
    wanted: int
    """Copies that were to run at once."""
    done: Ranges
    """Shards that had completed or failed."""
    confirmed_gone: frozenset[str] = frozenset()
    """Clusters that it has not listed for so long that a read by name has said that they are gone.
    """


class Feasibility:
    """Every decision beside what its hub knew. `meet` every hub that starts."""

    name = "2 feasibility"

    def __init__(self, world: World) -> None:
        self.judged = 0
        """Decisions that were held beside what their hub had heard."""
        self._world = world
        self._stored: dict[tuple[str, int], list[Obj]] = {}
        self._known: dict[tuple[str, str], Knowledge] = {}
        self._each: dict[str, tuple[int, int]] = {}
        """uid of a workload -> the seq of its last decision, and the count that it gives each
        cluster, or gave before the policy alone was edited.
        """
        self._gone: set[str] = set()
        """MemberClusters that the host had and does not have any more."""
        self._unlisted_s: dict[str, dict[str, float]] = {}
        """Life of a hub -> those of them that it does not list, and when it first decided so."""
        self._machine = vector(machines.MACHINE)
        self._machines = world.parameters.nodes
        """In each member."""

    def meet(self, hub: HubProcess, life: Life) -> None:
        """From now on what this hub knows is noted whenever it decides."""
        original = hub.controllers.placing.holdings

        def holdings(workload: Workload, record: Record | None) -> tuple[Holding, ...]:
            as_of = raw.rfc3339(
                hub.controllers.placing.clock.now()
            )  # it has just taken its snapshot, at this very moment
            self._known[workload.uid, as_of] = self._knowledge(hub, life.name, workload, record)
            return original(workload, record)

        hub.controllers.placing.holdings = holdings  # type: ignore[method-assign]

    def breaches(self, step: Step) -> Iterator[str]:
        """What a decision gives to clusters that were closed to it."""
        if step.cluster == "host" and step.kind == "MemberCluster":
            (self._gone.add if step.new is None else self._gone.discard)(
                step.obj["metadata"]["name"]
            )
        if step.cluster == "host" and step.kind in READ and step.new is not None:
            meta = step.new["metadata"]
            self._stored.setdefault((meta["uid"], int(meta["resourceVersion"])), []).append(
                step.new
            )
        if not is_decision(step) or not step.writer:
            return
        facts, before = (
            decision_facts(step.obj),
            decision_facts(step.before) if step.before is not None else None,
        )
        known = self._known.get((facts.workload_uid, step.obj["spec"]["asOf"]))
        each = self._meant(facts, before, known)
        if known is None or known.better_known or facts.inputs_hash == STRUCK:
            return  # a cluster that was let go was struck from it, and nothing else was decided
        if known.policy is not None:
            policy = known.policy
            if facts.key.kind == DAEMON:  # nothing of it is divided
                policy = replace(policy, division=Division(), spread=())
            for why in bounds.breaches(facts, before, policy, known.members):
                yield f"{bounds.NAME}: {step.name}: {why}"
            if facts.key.kind == DAEMON:
                yield from self._left(step, facts, before, known)
            elif before is not None and _runs_anywhere(step, facts):
                basis = known.policy, known.members, known.wanted, known.done
                for why in departures.breaches(facts, before, *basis, each=each):
                    yield f"{departures.NAME}: {step.name}: {why}"
        if before is not None and before.shares == facts.shares:
            return
        self.judged += 1
        grown = {
            one.cluster: one.count
            for one in facts.shares
            if _grows(one, before, facts.terms.unit, shards_count=True)
        }
        if known.workload is not None:
            for why in confined.required(
                facts, grown, known.everywhere, known.workload, known.members
            ):
                yield f"{confined.REQUIRED}: {step.name}: {why}"
        open_to_shards = any(
            not list(closed(one.cluster, known, facts, grows=True)) for one in facts.shares
        )
        for share in facts.shares:
            grows = _grows(share, before, facts.terms.unit, shards_count=open_to_shards)
            for why in closed(share.cluster, known, facts, grows=grows):
                yield f"{self.name}: {step.name}: {share.cluster} is given {share.count}, and {why}"
            if grows and facts.key.kind != DAEMON:  # it goes where it may, room or not
                yield from (
                    f"{self.name}: {step.name}: {why}"
                    for why in self._overfull(step, share.cluster, facts)
                )

    def _left(
        self, step: Step, facts: DecisionFacts, before: DecisionFacts | None, known: Knowledge
    ) -> Iterator[str]:
        """What a decision takes a daemon from without a reason."""
        if before is None or known.policy is None or known.workload is None:
            return
        heard = known.policy, known.members, known.everywhere, known.workload
        for why in daemonrules.left(facts, before, *heard):
            yield f"{daemonrules.STAYS}: {step.name}: {why}"

    def _meant(
        self, facts: DecisionFacts, before: DecisionFacts | None, known: Knowledge | None
    ) -> int:
        """What the count meant for each cluster at the decision before; notes what it means from
        now on.
        """
        seq, each = self._each.pop(facts.workload_uid, (-1, 0))
        if before is None or before.seq != seq or facts.terms.unit is not Unit.REPLICAS:
            each = 0  # the host was restored meanwhile
        if known is None or known.policy is None or known.better_known:
            return 0
        readable, everywhere = (
            not known.policy.problem,
            known.policy.division.strategy is Strategy.DUPLICATE,
        )
        if readable and everywhere and facts.terms.unit is Unit.REPLICAS:
            self._each[facts.workload_uid] = facts.seq, known.wanted
        elif each and (not readable or (each == known.wanted and facts.placed > each)):
            self._each[facts.workload_uid] = facts.seq, each
        return each

    def _overfull(self, step: Step, cluster: str, facts: DecisionFacts) -> Iterator[str]:
        """Where a cluster would need more machines than it has, for all decisions together or for
        one copy.
        """
        shape = facts.terms.shape
        assert shape is not None
        decisions = [decision_facts(obj) for obj in step.all_of("PlacementDecision")]
        for name, one in sorted(self._machine.items()):
            used = sum(
                charge(step, other, name, cluster)
                for other in decisions
                if other.terms.shape is not None
            )
            if used > one * self._machines:
                yield f"{cluster} is to give {used} {name} and has {one * self._machines}"
            if shape.requests[name] > one:
                yield (
                    f"a copy needs {shape.requests[name]} {name}, a machine of {cluster} has {one}"
                )

    def _knowledge(
        self, hub: HubProcess, life: str, workload: Workload, record: Record | None
    ) -> Knowledge:
        now_s = self._world.federation.clock.monotonic()
        members = {
            name: self._last_read(hub, name, obj)
            for (_, name), obj in self._heard(hub, "MemberCluster").items()
        }
        heard_s, awake_s = (
            self._world.patience.heard_s,
            self._world.reach.awake_since_s(life, now_s),
        )
        before_s = self._unlisted_s.get(life, {})
        unlisted_s = {name: before_s.get(name, now_s) for name in self._gone - members.keys()}
        self._unlisted_s[life] = unlisted_s
        unheard = [
            name
            for name in members
            if max(heard_s.get((life, name), -math.inf), awake_s) < now_s - UNHEARD_S
        ]
        return Knowledge(
            members=members,
            policy=self._policy(hub, workload),
            workload=self._heard(hub, workload.key.kind).get(
                (workload.key.namespace, workload.key.name)
            ),
            everywhere=tuple(
                one for one in self._heard(hub, POLICIES[1]).values() if one is not None
            ),
            project=workload.ask.project if workload.ask is not None else "",
            unheard=frozenset(unheard),
            better_known=hub.controllers.placing.overtaken(workload.key),
            limits={
                name: known.number
                for (_, name), known in _versions(hub, "FederatedQuota").items()
                if known
            },
            wanted=_wanted(workload, done := progress.done(hub.state, workload, record)),
            done=done,
            confirmed_gone=frozenset(
                name
                for name, since_s in unlisted_s.items()
                if max(since_s, awake_s) < now_s - CONFIRMED_S
            ),
        )

    def knew(self, decision: Obj, quota: Obj) -> bool | None:
        """Whether this state of a quota, or a later one, had been heard of when a decision was
        made; None where that cannot be said. What is heard while a decision is on its way to the
        host is the next one's affair.
        """
        known = self._known.get(
            (decision_facts(decision).workload_uid, decision["spec"].get("asOf", ""))
        )
        if known is None:
            return None
        meta = quota["metadata"]
        return known.limits.get(meta["name"], -1) >= int(meta["resourceVersion"])

    def _policy(self, hub: HubProcess, workload: Workload) -> Policy | None:
        key = workload.key
        obj = self._heard(hub, key.kind).get((key.namespace, key.name))
        found = [
            (kind, one) for kind in POLICIES for _, one in sorted(self._heard(hub, kind).items())
        ]
        if obj is None or any(one is None for _, one in found):
            return None
        rules = Policies(policying.rule_of(kind, one) for kind, one in found if one is not None)
        placement = registry.verbs_of(key.kind).placement(obj) or {}
        labels = obj["metadata"].get("labels") or {}
        project = workload.ask.project if workload.ask is not None else ""
        bound = hub.state.bindings().of(key.namespace)
        return policying.in_force(
            Subject(key.kind, key.namespace, labels, project, bound, key.name), placement, rules
        )

    def _last_read(self, hub: HubProcess, name: str, heard: Obj | None) -> Obj | None:
        """A MemberCluster as the hub has it: the answer to a write of its own may have shown a
        later state than its reflector.
        """
        member = hub.state.members.get(name)
        if member is None:
            return heard
        meta = member.obj["metadata"]
        states = self._stored.get((meta["uid"], int(meta["resourceVersion"])), [])
        return states[0] if len(states) == 1 else None

    def _heard(self, hub: HubProcess, kind: str) -> dict[tuple[str, str], Obj | None]:
        """Every object of a kind on the host as the hub's reflector has it."""
        found: dict[tuple[str, str], Obj | None] = {}
        for key, version in _versions(hub, kind).items():
            states = (
                self._stored.get((version.uid, version.number), []) if version is not None else []
            )
            found[key] = states[0] if len(states) == 1 else None
        return found


def _runs_anywhere(step: Step, facts: DecisionFacts) -> bool:
    """Whether any member holds a slice of the workload: what a decision gave before the first one
    is nobody's loss.
    """
    verbs = registry.verbs_of(facts.key.kind)
    marks = (
        verbs.read_mark(one)
        for name in step.clusters
        if name != "host"
        for one in step.all_of(facts.key.kind, name)
    )
    return any(mark is not None and mark.workload_uid == facts.workload_uid for mark in marks)


def _wanted(workload: Workload, done: Ranges) -> int:
    ask = workload.ask
    if ask is None:
        return 0
    if ask.unit is Unit.REPLICAS:
        return max(ask.count, 0)
    unfinished = shards.size(shards.minus(((0, ask.count - 1),), done)) if ask.count > 0 else 0
    return max(min(ask.slots, unfinished), 0)


def _versions(hub: HubProcess, kind: str) -> dict[tuple[str, str], Version | None]:
    """Which version of every object of a kind on the host the hub's reflector has, by namespace and
    name.
    """
    store = hearing.store_of(hub, kind)
    return {key: store.version(key) for key in store} if store is not None else {}


def _grows(share: Share, before: DecisionFacts | None, unit: Unit, *, shards_count: bool) -> bool:
    """Whether the cluster is given more than by the decision before. Of a job set that is more
    slots, or more shards for the slots it has: `shards_count` unless nobody else could work through
    them.
    """
    had = (
        next((one for one in before.shares if one.cluster == share.cluster), None)
        if before is not None
        else None
    )
    if had is None:
        return True
    if unit is Unit.SHARDS:
        return share.slots > had.slots or (
            shards_count and bool(shards.minus(share.ranges, had.ranges))
        )
    return share.count > had.count


def closed(cluster: str, known: Knowledge, facts: DecisionFacts, *, grows: bool) -> Iterator[str]:
    """Why, by what was known, a cluster may not have this share."""
    if cluster not in known.members:
        # Lists may be stale: what it has stays until a read by name confirms that it is gone.
        if grows or cluster in known.confirmed_gone:
            yield "it is no member"
        return
    obj = known.members[cluster]
    if obj is None or known.policy is None:
        return
    if not grows and cluster in facts.terms.tolerated:
        return  # it stays with a taint that it had before
    keeps = not grows and _stays(cluster, facts)
    yield from refusals(
        obj, known.policy, known.project, facts.terms.tier, grows=grows, keeps=keeps
    )
    if grows and cluster in known.unheard:
        yield "it has not been heard for long"


def _stays(cluster: str, facts: DecisionFacts) -> bool:
    """Whether the decision says that copies stay where they may not: they have no other place, or
    so many wait for their turn, as those of a cluster that is emptied while the count rises.
    """
    waiting = facts.terms.to_move
    return (
        facts.terms.held > 0
        or facts.terms.surplus > 0
        or any(
            one.cluster == cluster and (one.slots or one.count) <= waiting for one in facts.shares
        )
    )


def refusals(
    cluster: Obj, policy: Policy, project: str, tier: str, *, grows: bool, keeps: bool = False
) -> Iterator[str]:
    """Why a MemberCluster may hold none of a workload, or, if that `grows` there, take no more of
    it. `keeps`: what it holds has no other place, or waits for its turn, as the decision says; then
    only what a person said of the cluster takes it away.
    """
    name = cluster["metadata"]["name"]
    keeps = keeps or bool(policy.problem and not grows)
    if name in policy.exclude or not (keeps or bounds.admits(policy, name, cluster)):
        yield f"policy {policy.name} does not choose it"
    if raw.at(cluster, "metadata", "deletionTimestamp") and not keeps:
        yield "it leaves the fleet"
    if policy.problem and not grows:
        return
    effects = (Effect.NO_EXECUTE, Effect.NO_SCHEDULE) if grows else (Effect.NO_EXECUTE,)
    tainted = capacityfields.taints_of(raw.at(cluster, "spec", "taints"))
    if taint := taints.untolerated(tainted, policy.tolerations, effects):
        yield f"it has the taint {taint}"
    if not grows:
        return
    if policy.problem:
        yield f"its policy cannot be followed: {policy.problem}"
    if raw.flag(cluster, "spec", "cordoned"):
        yield "it is cordoned"
    if (projects := raw.texts(cluster, "spec", "projects")) and project not in projects:
        yield f"project {project} is not welcome there"
    if (tiers := raw.texts(cluster, "spec", "tiers")) and tier not in tiers:
        yield f"tier {tier} is not welcome there"
