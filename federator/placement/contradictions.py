"""Why an ask or its policy cannot be followed. Wording and rules only; the engine says what happens
to what runs."""

import functools

from federator.model.ask import Ask, Unit
from federator.model.policy import Policy, Strategy
from federator.placement.policy import enforcing
from federator.placement.selection import filters


def contradiction(ask: Ask) -> str:
    """Why the ask or its policy cannot be followed, as a sentence naming the fields; "" when it
    can."""
    plan, named = ask.policy.division, functools.partial(filters.field_of, ask.policy)
    if ask.policy.problem:
        return ask.policy.problem
    if plan.max_per_cluster is not None and plan.min_per_cluster > plan.max_per_cluster:
        demand = enforcing.bounding(ask.policy, "minPerCluster")
        least = (
            enforcing.of("division.minPerCluster", demand)
            if demand
            else named("division.minPerCluster")
        )
        return (
            f"{least} is {plan.min_per_cluster}, greater than "
            f"{enforcing.bound(ask.policy, 'maxPerCluster')}"
        )
    if plan.min_per_cluster < 0 or (plan.max_per_cluster is not None and plan.max_per_cluster < 0):
        return f"{named('division')} has a negative minPerCluster or maxPerCluster"
    if wrong := _bounds_that_contradict(ask.policy):
        return wrong
    if any(weight.weight < 0 for weight in plan.weights):
        return f"{named('division.weights')} has a negative weight"
    if (
        plan.strategy is Strategy.WEIGHTED
        and plan.weights
        and not any(weight.weight for weight in plan.weights)
    ):
        return f"all weights in {named('division.weights')} are 0"
    if plan.strategy is Strategy.DUPLICATE and ask.unit is Unit.SHARDS:
        return (
            f"{named('division.strategy')} is Duplicate, which cannot divide shards: each runs once"
        )
    if plan.max_clusters is not None and plan.max_clusters < 1:
        return f"{named('division.maxClusters')} is {plan.max_clusters}, which allows no cluster"
    return ""


def _bounds_that_contradict(policy: Policy) -> str:
    """What is wrong with bounds of single clusters and of numbers of domains."""
    for entry in policy.division.per_cluster:
        field = (
            f"{entry.field} of {entry.demand}"
            if entry.demand
            else filters.field_of(policy, entry.field)
        )
        if entry.most is not None and entry.least > entry.most:
            return f"{field} has min {entry.least}, greater than its max {entry.most}"
    for rule in policy.spread:
        if rule.max_domains is not None and rule.min_domains > rule.max_domains:
            field = filters.field_of(policy, "spread")
            return (
                f"{field} over {rule.topology_key} has minDomains {rule.min_domains}, greater than"
                f" maxDomains {rule.max_domains}"
            )
    return ""
