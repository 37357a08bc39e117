"""Explains why a policy admits no cluster: which field, what it asks for, and what the clusters
have instead. Helps with a mistyped label. Wording only."""

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from federator.model.fleet import ClusterView
from federator.model.kubernetes import selectors
from federator.model.kubernetes.selectors import LabelSelector, Operator
from federator.model.policy import Policy
from federator.model.terms import Conditions
from federator.placement.policy import conditions, enforcing
from federator.placement.policy.conditions import Scope
from federator.placement.selection import filters

LISTED: Final = 8
"""At most this many existing names or values are listed; the rest is counted."""
ALIKE: Final = 0.6
"""Minimum similarity (difflib ratio) of a name that is suggested."""
_WANTS: Final = (Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS)


def nobody_admitted(policy: Policy, clusters: Sequence[ClusterView]) -> str:
    """Which field admits none of the clusters, as a sentence; "" when no single field does."""
    if not clusters:
        return "the fleet has no clusters"
    own = functools.partial(filters.field_of, policy)
    choices = [(own, policy.names, policy.selector)]
    choices += [
        (functools.partial(enforcing.of, demand=demand), demand.names, demand.selector)
        for demand in policy.required
    ]
    for field, names, selector in choices:
        # One field after the other, the simplest first: a person mends the first that admits
        # nobody, not all.
        if names and not any(cluster.name in names for cluster in clusters):
            instead = _instead("", names, [cluster.name for cluster in clusters])
            return f"{field('clusters.names')} names {_listed(names)}, {instead}"
        if selector is not None and not any(
            selector.matches(cluster.labels) for cluster in clusters
        ):
            return f"{field('clusters.selector')} asks for {_unmatched(selector, clusters)}"
    for field, given in [
        (own, policy.conditions),
        *(
            (functools.partial(enforcing.of, demand=demand), demand.conditions)
            for demand in policy.required
        ),
    ]:
        if text := _met_by_none(field, given, clusters):
            return text
    groups = policy.division.groups
    if groups and all(filters.group_of(policy, cluster) is None for cluster in clusters):
        wanted = [
            _unmatched(group.selector, clusters) for group in groups if group.selector is not None
        ]
        named = [name for group in groups for name in group.names]
        if named:
            wanted.append(
                f"{_listed(named)}, {_instead('', named, [cluster.name for cluster in clusters])}"
            )
        ask = "the only group of" if len(groups) == 1 else f"the {len(groups)} groups of"
        for_ = "asks for" if len(groups) == 1 else "ask for"
        return f"{ask} {own('division.groups')} {for_} {'; '.join(wanted) or 'no cluster at all'}"
    if policy.required:
        return f"none is admitted by the policy and by {enforcing.titles(policy)} together"
    return ""


def _met_by_none(
    field: Callable[[str], str], given: Conditions, clusters: Sequence[ClusterView]
) -> str:
    """A term, or the alternatives, that no cluster meets; "" without such."""
    parts = [Conditions((term,)) for term in given.terms]
    if given.any_of:
        parts.append(Conditions(any_of=given.any_of))
    for part in parts:
        against = [conditions.unmet(part, cluster, tuple(Scope)) for cluster in clusters]
        refused = [why for why in against if why is not None]
        if len(refused) == len(clusters):
            first = refused[0]
            wants = f" asks for {first.wants}, and" if first.wants else ":"
            return f"{field(first.path)}{wants} of {clusters[0].name} {first.instead}"
    return ""


def _unmatched(selector: LabelSelector, clusters: Sequence[ClusterView]) -> str:
    """The first condition that no cluster meets; the whole selector when each condition is met by
    some cluster."""
    if selector == selectors.NOTHING:
        return (
            "labels in a way that cannot be read (no label has such a key or value, or In and "
            "NotIn without values)"
        )
    for key, value in selector.match_labels:
        if not any(cluster.labels.get(key) == value for cluster in clusters):
            return f"{key}={value}, {_label(key, [value], clusters)}"
    for requirement in selector.requirements:
        if not any(requirement.matches(cluster.labels) for cluster in clusters):
            wanted = requirement.values if requirement.operator in _WANTS else ()
            return f"{requirement}, {_label(requirement.key, wanted, clusters)}"
    return (
        f"{selectors.to_text(selector)}: each condition is met by some cluster, all of them by none"
    )


def _label(key: str, wanted: Iterable[str], clusters: Sequence[ClusterView]) -> str:
    values = {cluster.labels[key] for cluster in clusters if key in cluster.labels}
    if values:
        return _instead(f"{key} ", wanted, values)
    keys = {name for cluster in clusters for name in cluster.labels}
    return (
        _instead(f"no label {key}, only ", [key], keys)
        if keys
        else "and the clusters have no labels"
    )


def _instead(what: str, wanted: Iterable[str], there: Iterable[str]) -> str:
    """What the clusters have instead, and which of it was probably meant."""
    values = sorted(set(there))
    meant = [
        match
        for name in wanted
        for match in difflib.get_close_matches(name, values, n=1, cutoff=ALIKE)
    ]
    hint = f" (did you mean {meant[0]}?)" if meant else ""
    return (
        f"the clusters have {what}{_listed(values)}{hint}"
        if what
        else f"the clusters are {_listed(values)}{hint}"
    )


def _listed(texts: Iterable[str]) -> str:
    every = list(texts)
    # A status has bounded messages, and a fleet may have a thousand clusters.
    rest = len(every) - LISTED
    return ", ".join(every[:LISTED]) + (f" and {rest} more" if rest > 0 else "")


def where(counts: Mapping[str, int]) -> str:
    """Clusters with their numbers, the largest first: `a 120, b 3`."""
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return _listed(f"{name} {count}" for name, count in order)
