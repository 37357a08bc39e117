"""Invariants of every decision and of the commitments: one function and one table row per rule.

Each function returns one sentence per breach, nothing when the rule holds. Used by property tests,
by the simulated fleets after every step, and to check a recorded decision.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from federator.model import shards
from federator.model.ask import Ask, Tier, Unit
from federator.model.decision import Decision, Reason
from federator.model.fleet import FleetSnapshot, Holding
from federator.model.resources import ZERO
from federator.model.shards import Ranges
from federator.placement.division.division import DIVIDERS
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Uses
from federator.placement.room.commitments import Commitments
from federator.placement.selection import filters


@dataclass(frozen=True, slots=True)
class Case:
    """One decision with its inputs. `room`: cluster -> copies of the shape that fitted before the
    decision."""

    ask: Ask
    held: tuple[Holding, ...]
    snapshot: FleetSnapshot
    decision: Decision
    room: Mapping[str, int]
    finished: Ranges = ()
    per_cluster: int = 0
    """The count per cluster that strategy Duplicate gave in the decision before."""

    def refusal(self, cluster: str) -> filters.Refusal | None:
        """Why the cluster takes no copies, or keeps none; None when it is open."""
        view = self.snapshot.clusters[cluster]
        tolerated = [
            text
            for holding in self.held
            if holding.cluster == cluster
            for text in holding.tolerated
        ]
        return filters.of_holder(self.ask, view, filters.refusal(self.ask, view), tolerated)

    def had(self, cluster: str) -> int:
        return sum(
            _running(holding, self.ask, self.finished)
            for holding in self.held
            if holding.cluster == cluster
        )

    def has(self, cluster: str) -> int:
        share = self.decision.share_of(cluster)
        if share is None:
            return 0
        return _running(
            Holding(cluster, share.count, share.slots, share.seq, share.ranges),
            self.ask,
            self.finished,
        )


def _running(holding: Holding, ask: Ask, finished: Ranges) -> int:
    """Copies, or slots that have unfinished shards; shards beyond the count do not exist."""
    if not holding.ranges:
        return holding.count
    exist = tuple(
        (low, min(high, ask.count - 1)) for low, high in holding.ranges if low < ask.count
    )
    return min(holding.slots, shards.size(shards.minus(exist, finished)))


def conservation(case: Case) -> list[str]:
    """Shares and shortfall add up to what is wanted; no shard is assigned twice."""
    decision, breaches = case.decision, []
    placed = sum(share.count for share in decision.shares)
    if placed + decision.shortfall != decision.wanted or decision.shortfall < 0:
        breaches.append(
            f"{placed} placed and {decision.shortfall} missing do not make {decision.wanted} wanted"
        )
    if len({share.cluster for share in decision.shares}) != len(decision.shares):
        breaches.append("a cluster has two shares")
    if any(share.count <= 0 for share in decision.shares):
        breaches.append("a share is empty")
    if case.ask.unit is Unit.SHARDS:
        assigned = [index_range for share in decision.shares for index_range in share.ranges]
        if shards.size(assigned) != shards.size(shards.normal(assigned)):
            breaches.append("a shard is assigned to two clusters")
        if any(high >= case.ask.count for _, high in assigned):
            breaches.append(f"a shard beyond {case.ask.count} is assigned")
        if any(shards.size(share.ranges) != share.count for share in decision.shares):
            breaches.append("a share's count is not that of its ranges")
        if sum(case.has(share.cluster) for share in decision.shares) > case.ask.slots:
            breaches.append(f"more than {case.ask.slots} shards may run at once")
    return breaches


def feasibility(case: Case) -> list[str]:
    """Only eligible clusters have shares; growth stays within free room, and bounds within the
    policy."""
    breaches: list[str] = []
    most = case.ask.policy.division.max_per_cluster
    for share in case.decision.shares:
        view = case.snapshot.clusters.get(share.cluster)
        before, now = case.had(share.cluster), case.has(share.cluster)
        if view is None:
            breaches.append(f"{share.cluster} is no member")
            continue
        refusal = case.refusal(share.cluster)
        if refusal is not None and (now > before or (refusal.evicts and now)):
            breaches.append(f"{share.cluster} has {now} after {before}: {refusal.message}")
        if now - before > max(case.room.get(share.cluster, 0), 0):
            breaches.append(
                f"{share.cluster} grows from {before} to {now} with room for "
                f"{case.room.get(share.cluster, 0)}"
            )
        if most is not None and now > max(most, before):
            breaches.append(f"{share.cluster} has {now}, maxPerCluster is {most}")
    return breaches


def gang(case: Case) -> list[str]:
    """With RequireAll either everything runs or nothing new does."""
    if not case.ask.policy.require_all or case.decision.reason is Reason.CHOSEN:
        return []
    return [
        (
            f"{share.cluster} grows from {case.had(share.cluster)} to {case.has(share.cluster)} "
            "although not all fit"
        )
        for share in case.decision.shares
        if case.has(share.cluster) > case.had(share.cluster)
    ]


def steadiness(case: Case) -> list[str]:
    """Finished shards do not move; unchanged shares keep their seq."""
    breaches: list[str] = []
    held = {holding.cluster: holding for holding in case.held}
    for share in case.decision.shares:
        for other in case.held:
            moved = shards.intersect(shards.intersect(share.ranges, other.ranges), case.finished)
            if other.cluster != share.cluster and moved:
                breaches.append(
                    f"finished shards {shards.text(moved)} moved from {other.cluster} to "
                    f"{share.cluster}"
                )
        before = held.get(share.cluster)
        same = (
            before is not None
            and (before.slots, before.ranges) == (share.slots, share.ranges)
            and (bool(share.ranges) or before.count == share.count)
        )
        if before is not None and same and share.seq != before.seq:
            breaches.append(f"the share of {share.cluster} did not change but its seq did")
    return breaches


def leaving(case: Case) -> list[str]:
    """A running copy leaves a cluster only with another place to run, or because a person evicted
    it from that cluster."""
    ask, decision = case.ask, case.decision
    if ask.suspended:
        return []
    everywhere = ask.unit is Unit.REPLICAS and DIVIDERS[ask.policy.division.strategy].everywhere
    wanted = max(min(ask.slots, _unfinished(case)) if ask.unit is Unit.SHARDS else ask.count, 0)
    runs = sum(case.has(share.cluster) for share in decision.shares)
    ran = sum(map(case.had, {holding.cluster for holding in case.held}))
    # Under a quota for fewer than are wanted, copies have somewhere to be as long as none is lost.
    if runs >= (wanted if everywhere else min(wanted, ran)) and not (
        everywhere and decision.shortfall
    ):
        return []
    breaches = []
    for cluster in sorted(
        {holding.cluster for holding in case.held} & case.snapshot.clusters.keys()
    ):
        refusal = case.refusal(cluster)
        before, now = min(case.had(cluster), wanted), case.has(cluster)
        if now < before and not (refusal is not None and refusal.evicts):
            why = refusal.message if refusal is not None else decision.message
            breaches.append(
                f"{before - now} leave {cluster} for nowhere, {runs} of {wanted} run: {why}"
            )
    return breaches


def duplicated(case: Case) -> list[str]:
    """Copies that strategy Duplicate placed stay when only an edit of the policy changed what the
    count means."""
    ask, count = case.ask, case.ask.count
    everywhere = DIVIDERS[ask.policy.division.strategy].everywhere
    if ask.suspended or everywhere or ask.unit is not Unit.REPLICAS or case.per_cluster != count:
        return []
    stood = {
        holding.cluster: min(case.had(holding.cluster), count)
        for holding in case.held
        if (view := case.snapshot.clusters.get(holding.cluster)) is not None and not view.removing
        if (refusal := case.refusal(holding.cluster)) is None or not refusal.evicts
    }
    if sum(stood.values()) <= count:
        return []
    return [
        f"{before - case.has(cluster)} of {before} leave {cluster}, which was to have {count}"
        for cluster, before in sorted(stood.items())
        if case.has(cluster) < before
    ]


def _unfinished(case: Case) -> int:
    return (
        shards.size(shards.minus(((0, case.ask.count - 1),), case.finished))
        if case.ask.count > 0
        else 0
    )


INVARIANTS: Final[Mapping[str, Callable[[Case], list[str]]]] = {
    "conservation": conservation,
    "feasibility": feasibility,
    "gang": gang,
    "steadiness": steadiness,
    "leaving": leaving,
    "duplicated": duplicated,
}


def check(case: Case) -> list[str]:
    """All breaches of all rules, each prefixed with the rule's name."""
    return [f"{name}: {breach}" for name, rule in INVARIANTS.items() for breach in rule(case)]


def check_commitments(
    commitments: Commitments, snapshot: FleetSnapshot, before: Commitments | None = None
) -> list[str]:
    """Usage is never negative and equals the sum over commitments, and no account grew beyond its
    limits: use above a limit must already be there in `before` (a lowered quota takes nothing
    back)."""
    breaches: list[str] = []
    audit = commitments.audit()
    for key in sorted(
        {*audit, *((commitment.project, commitment.tier) for commitment in commitments)}
    ):
        if commitments.usage(*key) != audit.get(key, commitments.usage("", key[1])):
            held = audit.get(key)
            breaches.append(
                f"usage of {key[0]} in {key[1]} is {commitments.usage(*key)}, its workloads "
                f"hold {held}"
            )
        if any(amount < 0 for amount in commitments.usage(*key).values()):
            breaches.append(f"usage of {key[0]} in {key[1]} is negative")
    tree = Tree(snapshot.quotas)
    now, then = (
        Uses(tree, commitments.usage),
        Uses(tree, before.usage if before else lambda project, tier: ZERO),
    )
    for root in tree.roots:
        for tier, name in ((each, name) for each in Tier for name in tree.names(root, each)):
            had = then.counted(root, tier, name)
            for account, (used, bound) in now.counted(root, tier, name).items():
                if bound.most is not None and used > max(bound.most, had[account][0]):
                    field = bound.field or f"sum of guaranteed.{name} below it"
                    breaches.append(
                        f"{account} holds {used} {name} in {tier}, {field} leaves {bound.most}"
                    )
    return breaches
