"""Small fleets and asks for the placement tests."""

from collections.abc import Iterable, Mapping
from typing import Any

from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask, PodShape, Tier, Unit
from federator.model.decision import Decision, Share
from federator.model.fleet import Capacity, ClusterView, Commitment, FleetSnapshot, Holding, NodeRow
from federator.model.names import WorkloadKey
from federator.model.policy import DEFAULT_POLICY, Policy
from federator.model.resources import Resources
from federator.placement import engine
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger

POD = PodShape(Resources({"cpu": 1000, "pods": 1}))


def cluster(name: str, copies: int, *, nodes: int = 1, **more: Any) -> ClusterView:
    """A cluster with room for `copies` pods of one cpu on each of its nodes."""
    room = Resources({"cpu": 1000 * copies, "pods": 10_000})
    more.setdefault("capacity", Capacity(rows=(NodeRow(nodes, room, room),)))
    return ClusterView(name, **more)


def fleet(*clusters: ClusterView, quotas: Iterable[QuotaAccount] = ()) -> FleetSnapshot:
    return FleetSnapshot(1_000.0, {one.name: one for one in clusters}, tuple(quotas))


def service(count: int, *, name: str = "web", policy: Policy = DEFAULT_POLICY, **more: Any) -> Ask:
    more = {"shape": POD, "project": "feed", **more}
    key = WorkloadKey("PinterestService", more.pop("namespace", "feed"), name)
    return Ask(key, f"uid-{name}", 1, Unit.REPLICAS, count, count, policy=policy, **more)


def jobs(
    count: int, slots: int, *, name: str = "batch", policy: Policy = DEFAULT_POLICY, **more: Any
) -> Ask:
    more = {"shape": POD, "project": "feed", "whole": True, **more}
    key = WorkloadKey("PinterestJobSet", more.pop("namespace", "feed"), name)
    return Ask(key, f"uid-{name}", 1, Unit.SHARDS, count, slots, policy=policy, **more)


def holdings(shares: Iterable[Share]) -> tuple[Holding, ...]:
    return tuple(Holding(one.cluster, one.count, one.slots, one.seq, one.ranges) for one in shares)


def held(**counts: int) -> tuple[Holding, ...]:
    return tuple(Holding(name, count, count, 1) for name, count in counts.items())


def commitment(ask: Ask, held_: Iterable[Holding], tier: Tier | None = None) -> Commitment:
    return Commitment(
        ask.uid, ask.key, ask.project, ask.key.namespace, tier or ask.tier, ask.shape, tuple(held_)
    )


def commitments_with(*held_: Commitment) -> Commitments:
    commitments = Commitments()
    for one in held_:
        commitments.record(one)
    return commitments


def decide(
    ask: Ask, snapshot: FleetSnapshot, held_: Iterable[Holding] = (), **more: Any
) -> Decision:
    """Decides on fresh commitments in which the asking workload's own holdings stand."""
    mine = tuple(held_)
    ledger: Ledger = more.pop("ledger", None) or commitments_with(
        *([commitment(ask, mine)] if mine else [])
    ).open(snapshot)
    more.setdefault("seq", 100)
    return engine.decide(ask, mine, snapshot, ledger, by_name=True, **more)


def counts(decision: Decision) -> Mapping[str, int]:
    return {share.cluster: share.count for share in decision.shares}
