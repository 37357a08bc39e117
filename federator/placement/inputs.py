"""The hash under which a decision is valid: of everything it depends on except free room and quota use.

The same in every process. Room, health, cordons and quotas are left out on purpose: when they change, what runs stays
where it is; a workload that lacks something is asked again when a change can help it (`waking`).
"""

from collections.abc import MutableMapping
from typing import Any

from federator.model import names, selectors
from federator.model.ask import Ask, Policy
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.selectors import LabelSelector
from federator.placement import filters
from federator.placement.candidates import domains_of
from federator.placement.division import by_static_weight


def inputs_hash(ask: Ask, snapshot: FleetSnapshot, memo: MutableMapping[Any, Any] | None = None) -> str:
    """Sixteen hexadecimal digits over the ask, its policy's content, and the clusters that the policy admits with the
    facts it reads of them (group, domains, weight). `memo` (one per snapshot) keeps the fleet's part for equal
    policies."""
    if memo is None:
        return names.short_hash(ask_text(ask), fleet_text(ask, snapshot), length=16)
    key = ("fleet", ask.policy)
    if key not in memo:
        memo[key] = fleet_text(ask, snapshot)
    return names.short_hash(ask_text(ask), memo[key], length=16)


def ask_text(ask: Ask) -> str:
    """What of the ask a decision depends on; its generation is not part of it (an image may change without a move)."""
    wants = (
        ask.uid,
        str(ask.unit),
        ask.count,
        ask.slots,
        ask.shape.id,
        ask.project,
        str(ask.tier),
        ask.priority,
        ask.whole,
        ask.suspended,
    )
    return repr((wants, _policy(ask.policy)))


def fleet_text(ask: Ask, snapshot: FleetSnapshot) -> str:
    """The clusters on which the workload may stay; equal for all asks of one policy."""
    return repr(
        [
            _cluster(ask.policy, snapshot.clusters[name])
            for name in sorted(snapshot.clusters)
            if not filters.evicted(ask, snapshot.clusters[name])
        ]
    )


def _cluster(policy: Policy, view: ClusterView) -> tuple[Any, ...]:
    return (view.name, filters.group_of(policy, view), domains_of(policy, view), by_static_weight(policy, view, 0, 0))


def _policy(policy: Policy) -> tuple[Any, ...]:
    division = policy.division
    return (
        policy.names,
        policy.exclude,
        _selector(policy.selector),
        [repr(toleration) for toleration in policy.tolerations],
        [(rule.topology_key, rule.min_domains, rule.max_skew, rule.hard) for rule in policy.spread],
        str(division.strategy),
        division.min_per_cluster,
        division.max_per_cluster,
        division.fresh,
        [(one.weight, one.names, _selector(one.selector)) for one in division.weights],
        [(one.name, one.names, _selector(one.selector)) for one in division.groups],
        division.max_clusters,
        policy.require_all,
        policy.problem,
    )


def _selector(selector: LabelSelector | None) -> str | None:
    return None if selector is None else selectors.to_text(selector)
