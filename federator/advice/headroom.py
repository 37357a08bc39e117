"""How many more copies of a shape fit into the fleet, where, and what binds first: the scheduling
cycle's own answer to a service of so many copies that not all can have a place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from federator.advice import trials
from federator.hub.placing.offline import Situation
from federator.hub.records import workloads
from federator.hub.records.workloads import Workload
from federator.kinds import read, registry
from federator.model import scaleup
from federator.model.ask import Ask, PodShape, Tier
from federator.model.decision import CAPS, Decision, Reason, Verdict
from federator.model.fleet import ClusterView, FleetSnapshot, NodeRow
from federator.model.kubernetes import quantity
from federator.model.resources import GPU, PODS, Resources
from federator.model.scaleup import ScaleUp
from federator.placement.growth import pools
from federator.placement.room import capacity

KIND: Final = "PinterestService"
NAME: Final = "headroom"
MORE_THAN_FITS: Final = 1_000_000
"""Copies that are asked for."""
TOGETHER: Final = " and "


@dataclass(frozen=True, slots=True)
class Probe:
    """A copy to be placed as often as possible."""

    requests: Resources
    gpu_model: str = ""
    """Only nodes of this model count: its whole name, or its first part (A100 of A100-SXM4-40GB).
    "" for any."""
    project: str = ""
    namespace: str = ""
    """"" for one that the project's quota is bound to, else `default`."""
    tier: Tier = Tier.ON_DEMAND


@dataclass(frozen=True, slots=True)
class Addition:
    """Nodes that an autoscaler could add to a cluster."""

    cluster: str
    nodes: int
    allocatable: Resources | None = None
    """Of one node; None: like the node there that takes most copies."""
    gpu_model: str = ""


@dataclass(frozen=True, slots=True)
class ClusterHeadroom:
    """One cluster's part of the answer."""

    cluster: str
    now: int
    """More copies that it would get."""
    after: int
    """The same once everything that could be added is there, by the command's options and by
    spec.scaleUp of the clusters; equal to `now` when neither says anything."""
    binds: str
    """What keeps more out, after the additions."""
    ever: bool
    """Whether an empty node of it, or one that could be added, holds a copy, and the cluster takes
    such copies."""
    adds: tuple[str, ...] = ()
    """The nodes that it adds for them by its spec.scaleUp: how many of which class, in how many
    minutes, at what price."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """The answer for the fleet."""

    now: int
    after: int
    binds: str
    """What binds first over the whole fleet: a resource, or a reason of decisions."""
    because: str
    """In a sentence."""
    clusters: tuple[ClusterHeadroom, ...]
    """Those with most room first."""


class NoSuchCluster(ValueError):
    """Additions to a cluster that the fleet does not have."""


def headroom(situation: Situation, probe: Probe, additions: Sequence[Addition] = ()) -> Headroom:
    """Nothing is booked or written. Raises NoSuchCluster, kinds.read.InvalidObject, and ValueError
    for what else cannot be asked."""
    present = _only(situation.snapshot, probe.gpu_model)
    workload, ask = _asked(situation, probe)
    grown = _grown(present, additions, ask.shape, probe.gpu_model)
    free = replace(ask, policy=replace(ask.policy, scale_up=ScaleUp.NEVER))
    now = trials.decided(situation, workload, free, present)
    after = trials.decided(situation, workload, ask, grown)
    adds = scaleup.by_cluster(after.additions)
    freed = _freed(situation, workload, ask, grown, after)
    got_now = {verdict.cluster: verdict.got for verdict in now.verdicts}
    rows = [
        ClusterHeadroom(
            cluster=verdict.cluster,
            now=got_now.get(verdict.cluster, 0),
            after=verdict.got,
            binds=_cluster_binds(verdict, after, freed),
            ever=_ever(verdict, ask.shape, grown.clusters[verdict.cluster]),
            adds=tuple(added.text for added in adds.get(verdict.cluster, ())),
        )
        for verdict in after.verdicts
    ]
    binds, because = _fleet_binds(after, rows, freed)
    return Headroom(
        now=trials.placed(now),
        after=trials.placed(after),
        binds=binds,
        because=because,
        clusters=tuple(sorted(rows, key=lambda row: (-row.after, -row.now, row.cluster))),
    )


def _fleet_binds(
    after: Decision, rows: Sequence[ClusterHeadroom], freed: Mapping[str, Mapping[str, int]]
) -> tuple[str, str]:
    """(what binds first, why in a sentence) over the whole fleet."""
    if after.reason not in (Reason.INSUFFICIENT_CAPACITY, *CAPS):
        head, separator, why = after.message.partition(" are missing: ")
        limit = why.partition(f": {MORE_THAN_FITS} copies of ")[0]  # nobody asked for so many
        return _named(after.reason), limit if separator else head
    binds = _most(freed, None)
    gain = sum(freed[binds].values()) if binds in freed else 0
    if not any(row.ever for row in rows):
        return binds, "no node of an open cluster holds a copy even when it is empty"
    if gain:
        return binds, f"without its request of {binds}, {gain:,} more would have room"
    return binds, "the nodes take no more pods"


def _asked(situation: Situation, probe: Probe) -> tuple[Workload, Ask]:
    """Of a service that is not there: with what the default profile adds to its pods, under the
    policies in force."""
    requests = quantity.render(probe.requests)
    container = {"name": "main", "image": "headroom", "resources": {"requests": requests}}
    spec: dict[str, Any] = {
        "replicas": 1,
        "tier": probe.tier.value,
        "template": {"spec": {"containers": [container]}},
    }
    if probe.project:
        spec["project"] = probe.project
    namespace = probe.namespace or _namespace(situation.snapshot, probe.project)
    meta = {"name": NAME, "namespace": namespace, "uid": "headroom"}
    obj = {
        "apiVersion": registry.KINDS[KIND].api_version,
        "kind": KIND,
        "metadata": meta,
        "spec": spec,
    }
    read.check(obj)
    profile = situation.profile_of(registry.verbs_of(KIND).profile(obj))
    workload = workloads.summarise(KIND, obj, profile)
    ask = situation.ask_of(workload)
    if ask is None:
        raise ValueError(workload.problem or "the shape cannot be placed")
    return workload, replace(ask, count=MORE_THAN_FITS, slots=MORE_THAN_FITS)


def _namespace(snapshot: FleetSnapshot, project: str) -> str:
    """One that may use the project: of its own name where there is one."""
    bound = next(
        (quota.namespaces for quota in snapshot.quotas if project in quota.projects),
        frozenset[str](),
    )
    return project if project in bound else min(bound, default="default")


def _freed(
    situation: Situation, workload: Workload, ask: Ask, snapshot: FleetSnapshot, decision: Decision
) -> dict[str, Mapping[str, int]]:
    """Resource -> cluster -> copies that more would have room there if a copy asked for none of it.
    All resources together when no single one helps; pods when not even that does."""
    names = [name for name in ask.shape.requests if name != PODS]
    groups = [(name,) for name in names] + ([tuple(names)] if len(names) > 1 else [])
    before = {verdict.cluster: verdict.fit for verdict in decision.verdicts}
    gains: dict[str, Mapping[str, int]] = {}
    for group in groups:
        left = {name: amount for name, amount in ask.shape.requests.items() if name not in group}
        if not left and PODS not in _limits(snapshot):
            continue  # a copy that asks for nothing fits without end
        shape = replace(ask.shape, requests=Resources(left))
        then = trials.decided(situation, workload, replace(ask, shape=shape), snapshot)
        more = {
            verdict.cluster: verdict.fit - before[verdict.cluster]
            for verdict in then.verdicts
            if verdict.fit > before[verdict.cluster]
        }
        if more and (len(group) == 1 or not gains):
            gains[TOGETHER.join(map(_called, group))] = more
    return gains


def _limits(snapshot: FleetSnapshot) -> set[str]:
    """Resources that every row of every cluster limits."""
    rows = [
        row for view in snapshot.clusters.values() if view.capacity for row in view.capacity.rows
    ]
    return set.intersection(*(set(row.allocatable) for row in rows)) if rows else set()


def _called(resource: str) -> str:
    return "gpu" if resource == GPU else resource


def _most(freed: Mapping[str, Mapping[str, int]], cluster: str | None) -> str:
    """The resource without which most more would fit, in one cluster or in all."""

    def gain(name: str) -> int:
        return sum(freed[name].values()) if cluster is None else freed[name].get(cluster, 0)

    best = max(freed, key=lambda name: (gain(name), name), default="")
    return best if best and gain(best) else PODS


def _cluster_binds(
    verdict: Verdict, decision: Decision, freed: Mapping[str, Mapping[str, int]]
) -> str:
    if verdict.reason in (Reason.CHOSEN, Reason.INSUFFICIENT_CAPACITY, Reason.NOT_NEEDED):
        if verdict.got < verdict.fit:
            return _named(decision.reason)  # it has room that a quota or a policy leaves empty
        return _most(freed, verdict.cluster)
    said = verdict.message
    if verdict.reason is decision.reason:
        said = said.partition(", but ")[0]  # why is said for the whole fleet
    return f"{verdict.reason.value}: {said}"


def _named(reason: Reason) -> str:
    """So many copies are asked for that any limit of a quota is below them: which of the two
    reasons says nothing."""
    return "quota" if reason in (Reason.QUOTA_EXCEEDED, Reason.EXCEEDS_MAX_QUOTA) else reason.value


def _ever(verdict: Verdict, shape: PodShape, view: ClusterView) -> bool:
    """Whether the cluster may take such copies at all, and has a node that holds one when it is
    empty."""
    if verdict.got or verdict.fit:
        return True
    open_ = verdict.reason in (
        Reason.INSUFFICIENT_CAPACITY,
        Reason.NOT_NEEDED,
        Reason.UNSCHEDULABLE,
    )
    rows = view.capacity.rows if view.capacity is not None else ()
    every = pools.opened(view.scale_up, {}, view.usable_permille)
    return open_ and (
        any(_on_one(row, shape) for row in rows) or any(pool.room(shape) for pool in every)
    )


def _on_one(row: NodeRow, shape: PodShape) -> int:
    """Copies on one empty node."""
    return capacity.copies((replace(row, count=1, free=row.allocatable),), shape)


# -- fleets that differ
# -------------------------------------------------------------


def _only(snapshot: FleetSnapshot, model: str) -> FleetSnapshot:
    """The fleet in which only GPUs of this model are there."""
    if not model:
        return snapshot

    def without(row: NodeRow) -> NodeRow:
        if is_of(row.model, model):
            return row
        free, allocatable = (
            Resources({name: amount for name, amount in of.items() if name != GPU})
            for of in (row.free, row.allocatable)
        )
        return replace(row, free=free, allocatable=allocatable)

    views = {
        name: replace(
            view,
            capacity=replace(
                view.capacity, rows=tuple(map(without, view.capacity.rows)), copies={}
            ),
        )
        if view.capacity is not None
        else view
        for name, view in snapshot.clusters.items()
    }
    return replace(snapshot, clusters=views)


def is_of(reported: str, asked: str) -> bool:
    """Whether a reported GPU model is the one that is asked for.

    ("A100-SXM4-40GB", "a100") -> True; ("A100", "A10") -> False
    """
    return f"{reported}-".casefold().startswith(f"{asked}-".casefold())


def models(snapshot: FleetSnapshot) -> list[str]:
    """The GPU models that the fleet reports."""
    rows = [
        row
        for view in snapshot.clusters.values()
        if view.capacity is not None
        for row in view.capacity.rows
    ]
    return sorted({row.model for row in rows if row.model})


def _grown(
    snapshot: FleetSnapshot, additions: Sequence[Addition], shape: PodShape, model: str
) -> FleetSnapshot:
    views = dict(snapshot.clusters)
    for addition in additions:
        view = views.get(addition.cluster)
        if view is None:
            names = ", ".join(views) or "none"
            raise NoSuchCluster(
                f"there is no cluster {addition.cluster!r} to add nodes to; the fleet has {names}"
            )
        if view.capacity is None:
            raise ValueError(
                f"{addition.cluster} has never reported its nodes,"
                " so nothing can be said of more of them"
            )
        row = _new_row(addition, view.capacity.rows, shape, model)
        views[addition.cluster] = replace(
            view, capacity=replace(view.capacity, rows=(*view.capacity.rows, row), copies={})
        )
    return replace(snapshot, clusters=views)


def _new_row(addition: Addition, rows: Sequence[NodeRow], shape: PodShape, model: str) -> NodeRow:
    if addition.allocatable is not None:
        given = addition.allocatable
        if model and not is_of(addition.gpu_model, model):
            given = Resources({name: amount for name, amount in given.items() if name != GPU})
        return NodeRow(addition.nodes, given, given, model=addition.gpu_model)
    best = max(rows, key=lambda row: _on_one(row, shape), default=None)
    if best is None:
        raise ValueError(
            f"{addition.cluster} has no node that others could be like; say what one holds"
        )
    return replace(best, count=addition.nodes, free=best.allocatable)
