"""The inputs hash: a decision stays valid while the hash of its inputs is unchanged.

It covers everything that a decision depends on except free room and quota use. It is the same in
every process, and does not depend on the order of lists that have no order. Room, health, cordons
and quotas are left out on purpose: when they change, running copies stay where they are, and a
workload that lacks something is retried through queueing hints.
"""

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from federator.model import names
from federator.model.ask import Ask
from federator.model.bounds import PerCluster
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.kubernetes import selectors
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.policy import Demand, Group, Policy, SpreadRule, Weight
from federator.model.scaleup import ScaleUp
from federator.model.terms import Conditions, Preference
from federator.placement.division.division import by_static_weight
from federator.placement.policy import tolerating
from federator.placement.room.nodes import shape_id
from federator.placement.selection import filters
from federator.placement.selection.alike import number_of
from federator.placement.selection.candidates import domains_of

_Names = TypeVar("_Names", Weight, Group)
Texts: TypeAlias = tuple[str, str]
"""Of a policy, and a hash of the fleet under it: its text grows with every cluster, and an ask is
hashed for every decision."""


def inputs_hash(
    ask: Ask, snapshot: FleetSnapshot, memo: MutableMapping[Any, Any] | None = None
) -> str:
    """Sixteen hexadecimal digits over the ask, the content of its policy, and the clusters that the
    policy admits with the facts read of them (group, domains, weight).

    `memo` (one per snapshot) caches the parts that are equal for equal policies.
    """
    return hash_of(ask, texts(ask, snapshot, memo))


def texts(ask: Ask, snapshot: FleetSnapshot, memo: MutableMapping[Any, Any] | None = None) -> Texts:
    """The text of the policy, and the hash of the fleet under it."""
    ask = tolerating.resolved(ask, snapshot)
    key = ("inputs", number_of(ask.policy))
    cached: Texts | None = memo.get(key) if memo is not None else None
    if cached is None:
        # Hashed once for each policy: with 1,000 clusters the text is most of what each ask would
        # hash.
        fleet = names.short_hash(fleet_text(ask, snapshot), length=32)
        cached = policy_text(normal(ask.policy)), fleet
        if memo is not None:
            memo[key] = cached
    return cached


def hash_of(ask: Ask, texts: Texts) -> str:
    """The inputs hash of an ask with these texts of its policy and its fleet."""
    rules, fleet = texts
    return names.short_hash(ask_text(ask, rules), fleet, length=16)


def recorded(policy: Policy) -> dict[str, Any]:
    """What every decision records of the policy that it was made under."""
    return {
        "policy_name": policy.name,
        "policy_namespace": policy.namespace,
        "policy_uid": policy.uid,
        "policy_generation": policy.generation,
        "policy_origin": policy.origin,
        "required": tuple((demand.name, demand.generation) for demand in policy.required),
    }


def unchanged(
    previous: str, present: str, ask: Ask, snapshot: FleetSnapshot, memo: MutableMapping[Any, Any]
) -> bool:
    """Whether a decision with hash `previous` was made for the inputs that now hash to `present`:
    in an older release too, since an upgrade must not cause a new decision."""
    if previous in (present, ""):
        return previous == present
    return previous in formerly(ask, snapshot, memo)


def formerly(
    ask: Ask, snapshot: FleetSnapshot, memo: MutableMapping[Any, Any] | None = None
) -> tuple[str, str]:
    """The hashes that older releases gave to these inputs: over the whole text of the fleet, and
    before that with the lists of a policy in the order in which they are written."""
    ask = tolerating.resolved(ask, snapshot)
    key = ("formerly", number_of(ask.policy))
    fleet: str | None = memo.get(key) if memo is not None else None
    if fleet is None:
        fleet = fleet_text(ask, snapshot)
        if memo is not None:
            memo[key] = fleet
    rules = texts(ask, snapshot, memo)[0]
    return hash_of(ask, (rules, fleet)), hash_of(ask, (policy_text(ask.policy), fleet))


def ask_text(ask: Ask, rules: str) -> str:
    """The fields of the ask that a decision depends on, as text; `rules` is the text of its policy.
    The generation is left out: an image may change without a move."""
    wants = (
        ask.uid,
        str(ask.unit),
        ask.count,
        ask.slots,
        shape_id(ask.shape),
        ask.project,
        str(ask.tier),
        ask.priority,
        ask.whole,
        ask.suspended,
    )
    # Without ordinals, and without Exclusive, the text is the one of releases that had none.
    numbered = "" if ask.ordinals is None else f", {ask.ordinals!r}"
    alone = ", Exclusive" if ask.exclusive else ""
    alone += ", guarded" if ask.guarded else ""
    needs = f", {ask.needs!r}" if ask.needs else ""
    return f"({wants!r}{numbered}{alone}{needs}, {rules})"


def policy_text(policy: Policy) -> str:
    """The fields of the policy that a decision depends on, as text."""
    required = tuple(_demand(demand) for demand in policy.required)
    # Without Required policies, and without what later releases added, the text is the one of
    # releases that had none.
    text = f"{_policy(policy)!r}, {required!r}" if required else repr(_policy(policy))
    if policy.conditions:
        text += f", {_conditions(policy.conditions)!r}"
    if policy.preferences:
        text += f", {sorted(map(_preference, policy.preferences))!r}"
    if policy.workloads:
        text += f", workloads {sorted((term.content for term in policy.workloads), key=repr)!r}"
    if policy.scale_up is not ScaleUp.WHEN_SHORT:
        text += f", scaleUp {policy.scale_up}"
    return text


def normal(policy: Policy) -> Policy:
    """The policy with its lists sorted, except those with an order that has a meaning: spread rules
    and groups."""
    division = policy.division
    return replace(
        policy,
        # An edit that only changes the order of a list must not decide on thousands of workloads
        # again.
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
    """The clusters on which the workload may stay permanently, as text; equal for all asks of one
    policy."""
    return repr(
        [
            _cluster(ask.policy, snapshot.clusters[name])
            for name in sorted(snapshot.clusters)
            if filters.admitted(ask, snapshot.clusters[name])
        ]
    )


def _cluster(policy: Policy, view: ClusterView) -> tuple[Any, ...]:
    return (
        view.name,
        filters.group_of(policy, view),
        domains_of(policy, view),
        by_static_weight(policy, view, 0, 0),
        *_bounded_by(policy, view),
    )


def _bounded_by(policy: Policy, view: ClusterView) -> tuple[tuple[int, ...], ...]:
    """Which entries of perCluster bound the cluster; () for a policy that has none."""
    entries = policy.division.per_cluster
    if not entries:
        return ()
    return (tuple(at for at, each in enumerate(entries) if each.matches(view.name, view.labels)),)


def _policy(policy: Policy) -> tuple[Any, ...]:
    division = policy.division
    return (
        policy.names,
        policy.exclude,
        _selector(policy.selector),
        [repr(toleration) for toleration in policy.tolerations],
        [_rule(rule) for rule in policy.spread],
        str(division.strategy),
        division.min_per_cluster,
        division.max_per_cluster,
        division.fresh,
        [(weight.weight, weight.names, _selector(weight.selector)) for weight in division.weights],
        [(group.name, group.names, _selector(group.selector)) for group in division.groups],
        division.max_clusters,
        policy.require_all,
        policy.problem,
        *([_bounds(entry) for entry in division.per_cluster],) * bool(division.per_cluster),
    )


def _conditions(given: Conditions) -> tuple[Any, ...]:
    """Whatever their order, which has no meaning."""
    alternatives = [
        (
            tuple(sorted(each.names)),
            tuple(sorted(each.exclude)),
            _selector(each.selector),
            sorted(term.content for term in each.terms),
        )
        for each in given.any_of
    ]
    return sorted(term.content for term in given.terms), sorted(alternatives, key=repr)


def _preference(given: Preference) -> tuple[Any, ...]:
    selector = _selector(given.selector) or ""
    return given.scorer, given.key, selector, given.descending, given.weight


def _rule(rule: SpreadRule) -> tuple[Any, ...]:
    """Without maxDomains the text is the one of releases that had none."""
    text = rule.topology_key, rule.min_domains, rule.max_skew, rule.hard
    return text if rule.max_domains is None else (*text, rule.max_domains)


def _bounds(entry: PerCluster) -> tuple[Any, ...]:
    selector = _selector(entry.selector)
    return entry.cluster, selector, entry.least, entry.most, entry.percent, entry.enforced


def _demand(demand: Demand) -> tuple[Any, ...]:
    """What a Required policy asks for beyond bounds; its bounds are part of the division
    already.
    """
    more = (_conditions(demand.conditions),) if demand.conditions else ()
    return (
        demand.name,
        tuple(sorted(demand.names)),
        tuple(sorted(demand.exclude)),
        _selector(demand.selector),
        tuple(sorted(map(repr, demand.tolerations))),
        *more,
    )


def _selector(selector: LabelSelector | None) -> str | None:
    return None if selector is None else selectors.to_text(selector)
