"""The hash under which a decision is valid: of everything it depends on except free room and quota use.

The same in every process, and for a policy whose lists without an order are written in another one. Room, health,
cordons and quotas are left out on purpose: when they change, what runs stays where it is; a workload that lacks
something is asked again when a change can help it (`waking`).
"""

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any, TypeVar

from federator.model import names
from federator.model.ask import Ask, Demand, Group, Policy, Weight
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.kubernetes import selectors
from federator.model.kubernetes.selectors import LabelSelector
from federator.placement.division.division import by_static_weight
from federator.placement.selection import filters
from federator.placement.selection.candidates import domains_of

_Names = TypeVar("_Names", Weight, Group)


def inputs_hash(
    ask: Ask, snapshot: FleetSnapshot, memo: MutableMapping[Any, Any] | None = None, *, as_written: bool = False
) -> str:
    """Sixteen hexadecimal digits over the ask, its policy's content, and the clusters that the policy admits with the
    facts it reads of them (group, domains, weight). `memo` (one per snapshot) keeps what is the same for equal
    policies. `as_written` leaves lists in the order in which they are written (see `unchanged`)."""
    key = ("inputs", ask.policy)
    texts: tuple[str, str] | None = memo.get(key) if memo is not None else None
    if texts is None:
        texts = policy_text(normal(ask.policy)), fleet_text(ask, snapshot)
        if memo is not None:
            memo[key] = texts
    rules, fleet = texts
    return names.short_hash(ask_text(ask, policy_text(ask.policy) if as_written else rules), fleet, length=16)


def unchanged(previous: str, present: str, ask: Ask, snapshot: FleetSnapshot, memo: MutableMapping[Any, Any]) -> bool:
    """Whether a decision with hash `previous` was made for what hashes to `present` now.

    A decision may have been recorded when the order of a policy's lists still was part of the hash. It was made for the
    same inputs none the less, and must not be made anew because of an upgrade.
    """
    return previous == present or (previous != "" and previous == inputs_hash(ask, snapshot, memo, as_written=True))


def ask_text(ask: Ask, rules: str) -> str:
    """What of the ask a decision depends on, `rules` being its policy's text; its generation is not part of it (an
    image may change without a move)."""
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
    return f"({wants!r}, {rules})"


def policy_text(policy: Policy) -> str:
    """What of the policy a decision depends on."""
    required = tuple(_demand(demand) for demand in policy.required)
    # Of a workload without any the text is as it was before there were Required policies.
    return f"{_policy(policy)!r}, {required!r}" if required else repr(_policy(policy))


def normal(policy: Policy) -> Policy:
    """The policy with all lists sorted but those whose order means something: spread rules and groups."""
    division = policy.division
    return replace(
        policy,
        names=tuple(sorted(policy.names)),
        exclude=tuple(sorted(policy.exclude)),
        tolerations=tuple(sorted(policy.tolerations)),
        division=replace(
            division,
            weights=tuple(sorted((_named(weight) for weight in division.weights), key=repr)),
            groups=tuple(_named(group) for group in division.groups),
        ),
    )


def _named(given: _Names) -> _Names:
    return replace(given, names=tuple(sorted(given.names)))


def fleet_text(ask: Ask, snapshot: FleetSnapshot) -> str:
    """The clusters on which the workload may stay for good; equal for all asks of one policy."""
    return repr(
        [
            _cluster(ask.policy, snapshot.clusters[name])
            for name in sorted(snapshot.clusters)
            if filters.admitted(ask, snapshot.clusters[name])
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
        [(weight.weight, weight.names, _selector(weight.selector)) for weight in division.weights],
        [(group.name, group.names, _selector(group.selector)) for group in division.groups],
        division.max_clusters,
        policy.require_all,
        policy.problem,
    )


def _demand(demand: Demand) -> tuple[Any, ...]:
    """What a Required policy asks for beyond the bounds, which are in the division already."""
    return (
        demand.name,
        tuple(sorted(demand.names)),
        tuple(sorted(demand.exclude)),
        _selector(demand.selector),
        tuple(sorted(map(repr, demand.tolerations))),
    )


def _selector(selector: LabelSelector | None) -> str | None:
    return None if selector is None else selectors.to_text(selector)
