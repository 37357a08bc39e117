"""Required policies: what operators demand of a workload, whatever its own policy says. Pure; the
order does not matter.

A workload's own policy is chosen as always (`policies`). Every Required policy that selects the
workload is joined to it by AND: a cluster must be admitted by all, bounds are the strictest, spread
rules are added, and a taint set by people is tolerated only where every policy tolerates it. A
Required policy moves running copies at its own budget, not that of the workload's policy.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from federator.model.ask import Ask, Unit
from federator.model.fleet import ClusterView
from federator.model.kubernetes import selectors, taints
from federator.model.kubernetes.taints import Effect, Taint, Toleration
from federator.model.policy import DEFAULT_POLICY, Demand, Division, Policy, SpreadRule, Strategy
from federator.placement.policy import conditions
from federator.placement.policy.conditions import Scope

_BOUNDS: Final[
    Mapping[str, tuple[Callable[[Division], int | None], Callable[[Demand], int | None]]]
] = {
    "minPerCluster": (
        lambda own: own.min_per_cluster,
        lambda demand: demand.min_per_cluster or None,
    ),
    "maxPerCluster": (lambda own: own.max_per_cluster, lambda demand: demand.max_per_cluster),
    "maxClusters": (lambda own: own.max_clusters, lambda demand: demand.max_clusters),
}
"""Field of a division -> (its value in the combination, the value that a Required policy asks for).
"""


def combined(own: Policy, demands: Iterable[Demand]) -> Policy:
    """The workload's own policy AND all Required ones."""
    required = tuple(sorted(demands, key=lambda demand: demand.name))
    if not required:
        return own
    least = [demand.max_per_cluster for demand in required if demand.max_per_cluster is not None]
    fewest = [demand.max_clusters for demand in required if demand.max_clusters is not None]
    division = replace(
        own.division,
        min_per_cluster=max(
            own.division.min_per_cluster, *(demand.min_per_cluster for demand in required)
        ),
        max_per_cluster=_lower(own.division.max_per_cluster, least),
        max_clusters=_lower(own.division.max_clusters, fewest),
        per_cluster=own.division.per_cluster
        + tuple(
            replace(entry, demand=demand.title, enforced=demand.name)
            for demand in required
            for entry in demand.per_cluster
        ),
    )
    reads = own.reads_reports or any(demand.conditions.reported for demand in required)
    problem = own.problem or next((demand.problem for demand in required if demand.problem), "")
    return replace(
        own,
        division=division,
        spread=_spread(own.spread, required),
        required=required,
        reads_reports=reads,
        problem=problem,
    )


def _lower(own: int | None, others: Collection[int]) -> int | None:
    return min([*others, *(() if own is None else (own,))], default=None)


def _spread(own: tuple[SpreadRule, ...], required: Collection[Demand]) -> tuple[SpreadRule, ...]:
    """The Required rules by label, then the workload's own. Rules over one label that are both hard
    or both soft become one, the strictest: the same copies would satisfy or break both."""
    strictest: dict[tuple[str, bool], SpreadRule] = {}
    demanded = sorted(
        {rule for demand in required for rule in demand.spread},
        key=lambda rule: (rule.topology_key, rule.hard),
    )
    for rule in (*demanded, *own):
        earlier = strictest.setdefault((rule.topology_key, rule.hard), rule)
        skews = [skew for skew in (earlier.max_skew, rule.max_skew) if skew > 0]
        strictest[rule.topology_key, rule.hard] = replace(
            earlier,
            min_domains=max(earlier.min_domains, rule.min_domains),
            max_skew=min(skews, default=0),
            max_domains=_lower(
                earlier.max_domains, [] if rule.max_domains is None else [rule.max_domains]
            ),
        )
    return tuple(strictest.values())


def alone(ask: Ask, running: int) -> Ask:
    """The ask under its Required policies only, for running copies and nothing more: they hold even
    when the own policy cannot be followed. A bound that contradicts another gives way to the lower
    one."""
    own = ask.policy
    everywhere = own.division.strategy is Strategy.DUPLICATE and ask.unit is Unit.REPLICAS
    plan = Division(Strategy.DUPLICATE if everywhere else Strategy.CAPACITY)
    # An unreadable policy may tolerate any taint: it evicts nothing that the Required policies let
    # stay.
    kept = (
        (Toleration(operator="Exists", effect=Effect.NO_EXECUTE),)
        if own.problem
        else own.tolerations
    )
    bare = replace(
        DEFAULT_POLICY, name=own.name, origin=own.origin, division=plan, tolerations=kept
    )
    bare = replace(combined(bare, own.required), problem="")
    most = bare.division.max_per_cluster
    if most is not None and bare.division.min_per_cluster > most:
        bare = replace(bare, division=replace(bare.division, min_per_cluster=most))
    if ask.unit is Unit.SHARDS:
        return replace(ask, policy=bare, slots=min(ask.slots, running))
    count = ask.count if everywhere else min(ask.count, running)
    return replace(ask, policy=bare, count=count, slots=count)


def tolerates(policy: Policy, taint: Taint) -> bool:
    """Whether the policy tolerates the taint; for a taint set by people, whether every Required
    policy does too."""
    if not any(toleration.tolerates(taint) for toleration in policy.tolerations):
        return False
    return taint.by_federation or forbids(policy, taint) is None


def forbids(policy: Policy, taint: Taint) -> Demand | None:
    """The first Required policy that does not tolerate this taint; None when all do."""
    for demand in policy.required:
        if not any(toleration.tolerates(taint) for toleration in demand.tolerations):
            return demand
    return None


def untolerated(
    policy: Policy, present: Iterable[Taint], effects: Collection[str] = taints.REFUSING
) -> Taint | None:
    """The first taint with one of these effects that is not tolerated; None for none."""
    return next(
        (taint for taint in present if taint.effect in effects and not tolerates(policy, taint)),
        None,
    )


def avoided(policy: Policy, cluster: ClusterView) -> int:
    """How many PreferNoSchedule taints of the cluster are not tolerated, and one more for a cluster
    in which copies do not start."""
    soft = [taint for taint in cluster.taints if taint.effect == Effect.PREFER_NO_SCHEDULE]
    return sum(not tolerates(policy, taint) for taint in soft) + cluster.failing


def excluding(policy: Policy, cluster: ClusterView) -> tuple[Demand, str] | None:
    """The first Required policy that excludes the cluster by name, with the sentence."""
    for demand in policy.required:
        if cluster.name in demand.exclude:
            return demand, f"is excluded by {of('clusters.exclude', demand)}"
    return None


def not_admitting(policy: Policy, cluster: ClusterView) -> tuple[Demand, str] | None:
    """The first Required policy that does not name or select the cluster, or has a lasting
    condition that it does not meet, with the sentence."""
    for demand in policy.required:
        if demand.names and cluster.name not in demand.names:
            return (
                demand,
                (
                    f"is not among the {len(demand.names)} clusters named by "
                    f"{of('clusters.names', demand)}"
                ),
            )
        if demand.selector is not None and not demand.selector.matches(cluster.labels):
            wanted = selectors.to_text(demand.selector)
            return demand, f"its labels do not match {of('clusters.selector', demand)} ({wanted})"
        if demand.conditions and (sentence := unmet(demand, cluster, (Scope.ALL,))):
            return demand, sentence
    return None


def unmet(demand: Demand, cluster: ClusterView, scopes: Collection[Scope]) -> str:
    """Which condition of a Required policy, of these scopes, the cluster does not meet, as a
    sentence; "" for none."""
    why = conditions.unmet(demand.conditions, cluster, scopes)
    return "" if why is None else f"{conditions.reason(why)} ({of(why.path, demand)})"


def refuses(policy: Policy, cluster: ClusterView) -> bool:
    """Whether some Required policy refuses this cluster."""
    return excluding(policy, cluster) is not None or not_admitting(policy, cluster) is not None


def bounding(policy: Policy, field: str) -> Demand | None:
    """The Required policy that sets a bound of the division (minPerCluster, maxPerCluster,
    maxClusters); None when the workload's own policy sets it."""
    combination, asked = _BOUNDS[field]
    value = combination(policy.division)
    return next(
        (demand for demand in policy.required if value is not None and asked(demand) == value), None
    )


def bound(policy: Policy, field: str) -> str:
    """A bound of the division in words, with the Required policy that sets it: "maxPerCluster 3 of
    ..."."""
    demand = bounding(policy, field)
    text = f"{field} {_BOUNDS[field][0](policy.division)}"
    return f"{text} of {demand.title}" if demand is not None else text


def of(field: str, demand: Demand) -> str:
    return f"spec.{field} of {demand.title}"


def titles(policy: Policy) -> str:
    """All Required policies in force, as a part of a sentence."""
    return " and ".join(demand.title for demand in policy.required)
