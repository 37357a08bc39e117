"""Trials: the engine decides again with objects changed, a bounded number of times. Nothing is
charged or written.

A `HostState` is the host's objects with some of them changed, and what placing reads of them, built
by the same code as for the present objects. Off the hot path.
"""

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from federator.advice import patches
from federator.advice.patches import Patch
from federator.api import federatedquota, membercluster, raw
from federator.hub.cache import policying
from federator.hub.placing import offline
from federator.hub.placing.offline import Id, Situation
from federator.hub.records import workloads
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.model import shards
from federator.model.ask import Ask, Unit
from federator.model.decision import Decision
from federator.model.fleet import ClusterView, FleetSnapshot, copies_of
from federator.model.names import WorkloadKey
from federator.model.policy import Policy
from federator.model.shards import Ranges
from federator.placement.policy.policies import Bindings, Policies
from federator.placement.selection import filters
from federator.scheduling.write_order import Decided

MAX_TRIALS: Final = 600
Stop = Callable[[], bool]
"""Whether the caller no longer waits for the answer."""


def never() -> bool:
    return False


class Stopped(Exception):
    """The caller no longer waits for the answer."""


@dataclass(frozen=True, slots=True)
class HostState:
    """The host as it is, or with changes."""

    situation: Situation
    key: WorkloadKey
    snapshot: FleetSnapshot
    rules: Policies
    workload: Workload
    changed: Mapping[Id, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def ask(self) -> Ask | None:
        """The workload's ask under the policies in force; None when it is invalid."""
        return policying.asked(self.workload, self.rules, Bindings(self.snapshot.quotas))

    @property
    def workload_id(self) -> Id:
        return (self.key.kind, self.key.namespace, self.key.name)

    def obj(self, which: Id) -> Mapping[str, Any] | None:
        return self.changed.get(which) or self.situation.objects.get(which)

    def with_object(self, obj: Mapping[str, Any]) -> "HostState":
        """The world after this object was written."""
        which = offline.id_of(obj)
        world = replace(self, changed={**self.changed, which: obj})
        kind = which[0]
        if kind == membercluster.KIND:
            return world.with_view(membercluster.to_view(obj, self.snapshot.as_of))
        if kind == federatedquota.KIND:
            account = federatedquota.to_account(obj)
            others = (each for each in self.snapshot.quotas if each.name != account.name)
            quotas = (*others, account)
            return replace(world, snapshot=replace(self.snapshot, quotas=quotas))
        if kind == self.key.kind:
            profile = self.situation.profile_of(registry.verbs_of(kind).profile(obj))
            return replace(world, workload=workloads.summarise(kind, obj, profile))
        rule = policying.rule_of(kind, obj)
        rules = Policies(
            (rule if present.id == rule.id else present for present in self.rules),
            in_force_max=self.rules.in_force_max,
        )
        return replace(world, rules=rules)

    def with_view(self, view: ClusterView) -> "HostState":
        clusters = {**self.snapshot.clusters, view.name: view}
        return replace(self, snapshot=replace(self.snapshot, clusters=clusters))

    @property
    def patches(self) -> tuple[Patch, ...]:
        """The patches from the present host to this world, in the order of the changes."""
        return tuple(
            patches.between(self.situation.objects[which], obj)
            if which in self.situation.objects
            else patches.creating(obj)
            for which, obj in self.changed.items()
        )


def policy_target(world: HostState, policy: Policy) -> tuple[Id, tuple[str, ...]] | None:
    """The object with the policy in force, and the path in it; None when no object can be
    changed."""
    if policy.origin in ("match", "policyRef"):
        kind = "PlacementPolicy" if policy.namespace else "ClusterPlacementPolicy"
        return (kind, policy.namespace, policy.name), ("spec",)
    if policy.origin in ("inline", "default") and registry.KINDS[world.key.kind].model is not None:
        return world.workload_id, ("spec", "placement")
    return None


def in_policy(
    world: HostState, policy: Policy, path: Sequence[str | int], value: Any
) -> HostState | None:
    """The world with one field of the policy in force changed."""
    target = policy_target(world, policy)
    obj = world.obj(target[0]) if target is not None else None
    if target is None or obj is None:
        return None
    return world.with_object(patches.edited(obj, (*target[1], *path), value))


def policy_fields(world: HostState, policy: Policy) -> Mapping[str, Any]:
    """The fields of the policy in force, as they are written."""
    target = policy_target(world, policy)
    obj = world.obj(target[0]) if target is not None else None
    return raw.mapping(obj, *target[1]) if target is not None and obj is not None else raw.NO_FIELDS


def in_member(
    world: HostState, name: str, path: Sequence[str | int], value: Any
) -> HostState | None:
    """The world with one field of a MemberCluster changed."""
    obj = world.obj(("MemberCluster", "", name))
    return None if obj is None else world.with_object(patches.edited(obj, path, value))


@dataclass(frozen=True, slots=True)
class Change:
    """`text` says what changes, from which value to which; `advice` what to do where no object of
    the host is to be changed."""

    text: str
    world: HostState
    advice: str = ""
    shrinks: bool = False
    """The workload asks for less. Not everyone can, so other ways are searched too."""


def present(situation: Situation, key: WorkloadKey) -> HostState:
    snapshot = situation.with_peers(situation.snapshot)
    return HostState(situation, key, snapshot, situation.rules, situation.workloads[key])


class Trials:
    """Calls the engine and counts the calls."""

    def __init__(
        self, limit: int = MAX_TRIALS, stop: Stop = never, *, admitting: bool = False
    ) -> None:
        self.made = 0
        self.limit = limit
        self._stop = stop
        self._decisions: dict[tuple[int, bool], tuple[HostState, Decision | None]] = {}
        """Of the worlds that were tried, by their identity: some are asked about twice."""
        self._refusals: dict[int, tuple[HostState, Mapping[str, filters.Refusal | None]]] = {}
        self._admitting = admitting
        """An edit is held back: only copies that are as it says count."""

    def decide(self, world: HostState, *, without_quotas: bool = False) -> Decision | None:
        """The decision that the hub would make; None for an invalid workload. Raises `Stopped`."""
        key = id(world), without_quotas
        if key not in self._decisions:
            self._decisions[key] = world, self._decide(world, without_quotas=without_quotas)
        return self._decisions[key][1]

    def _decide(self, world: HostState, *, without_quotas: bool) -> Decision | None:
        if self._stop():
            raise Stopped
        ask = world.ask
        if ask is None:
            return None
        self.made += 1
        snapshot = replace(world.snapshot, quotas=()) if without_quotas else world.snapshot
        return decided(world.situation, world.workload, ask, snapshot)

    def refusals(self, world: HostState) -> Mapping[str, filters.Refusal | None]:
        """Cluster -> why it takes no copy of the workload, None where it may."""
        if id(world) not in self._refusals:
            ask = world.ask
            assert ask is not None
            clusters = world.snapshot.clusters.items()
            refusals = {name: filters.refusal(ask, view) for name, view in clusters}
            self._refusals[id(world)] = world, refusals
        return self._refusals[id(world)][1]

    def placed(self, world: HostState, *, without_quotas: bool = False) -> int:
        """Copies or slots that would have a place; those that only stay for want of one do not
        count."""
        decision = self.decide(world, without_quotas=without_quotas)
        if decision is None or (self._admitting and decision.held_back):
            return 0
        return placed(decision)


def decided(
    situation: Situation, workload: Workload, ask: Ask, snapshot: FleetSnapshot
) -> Decision:
    """One workload decided alone, above what all others hold."""
    return made(situation, workload, ask, snapshot).decision


def made(situation: Situation, workload: Workload, ask: Ask, snapshot: FleetSnapshot) -> Decided:
    """As `decided`, with what bounded the decision."""
    (decided,) = situation.decide([situation.entry(workload, ask, snapshot)], snapshot).decided
    return decided


def placed(decision: Decision) -> int:
    """Copies or slots that the decision gives a place; a daemon has one of each cluster."""
    if decision.may_run:  # it gives fewer shards than its verdicts, which are about clusters
        return sum(verdict.got for verdict in decision.verdicts) - decision.held
    # Not by the verdicts: making a sentence for each cluster takes longer than deciding.
    given = (1 if share.nodes is not None else copies_of(share) for share in decision.shares)
    return sum(given) - decision.held


def missing(ask: Ask, decision: Decision, finished: Ranges) -> int:
    """Copies, or slots for shards, without a place, including those that only stay for want of
    one."""
    if ask.unit is Unit.REPLICAS:
        return decision.shortfall + decision.held
    unfinished = shards.size(shards.minus(((0, ask.count - 1),), finished)) if ask.count > 0 else 0
    return max(min(ask.slots, unfinished) - placed(decision), 0)


def least(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """The smallest value in low..high for which `enough` holds; `high` is assumed to be enough."""
    return low + bisect.bisect_left(range(low, high), True, key=enough)


def most(low: int, high: int, enough: Callable[[int], bool], guess: int) -> int:
    """The largest value in low..high for which `enough` holds; `low` is assumed to be enough. With
    a guess that is right, two values are tried."""
    above = high + 1
    for value in (guess, guess + 1):
        if low < value < above:
            low, above = (value, above) if enough(value) else (low, value)
    while low + 1 < above:
        middle = (low + above) // 2
        low, above = (middle, above) if enough(middle) else (low, middle)
    return low
