"""Names of clusters and labels in a policy that no cluster has: misspelt, or of a cluster that has
left. Pure.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from federator.model.fleet import ClusterView
from federator.model.kubernetes.selectors import LabelSelector, Operator
from federator.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Unknown:
    """`field`: path below the policy's spec, such as `division.weights[1].names`. `alike`: the
    cluster that was probably meant, "" for none."""

    field: str
    name: str
    alike: str

    @property
    def sentence(self) -> str:
        return (
            f"names {self.name}, which no cluster is "
            f"called{f'; {self.alike} is' if self.alike else ''}"
        )


def unknown(policy: Policy, clusters: Mapping[str, ClusterView]) -> tuple[Unknown, ...]:
    """Unknown names, in the order of the fields, then of the names there. A cluster is meant only
    if the policy may take it: its selector admits it, and it is not excluded."""
    selector, excluded = policy.selector, set(policy.exclude)
    admitted = [
        name
        for name, view in sorted(clusters.items())
        if name not in excluded and (selector is None or selector.matches(view.labels))
    ]
    return tuple(
        Unknown(field, name, next(iter(difflib.get_close_matches(name, admitted, n=1)), ""))
        for field, names in mentioned(policy).items()
        for name in names
        if name not in clusters
    )


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """A label, or a value of one, that a policy asks for and no cluster has. `value` is "" for the
    key; `alike`: the key or value that was probably meant, "" for none."""

    field: str
    key: str
    value: str
    alike: str

    @property
    def sentence(self) -> str:
        label = f"{self.key}={self.value}" if self.value else self.key
        meant = f" (did you mean {self.alike}?)" if self.alike else ""
        return f"asks for the label {label}, which no cluster has{meant}"


def unlabelled(policy: Policy, clusters: Mapping[str, ClusterView]) -> tuple[Unlabelled, ...]:
    """Unknown labels, in the order of the fields. Nothing while there is no cluster."""
    values: dict[str, set[str]] = {}
    for view in clusters.values():
        for key, value in view.labels.items():
            values.setdefault(key, set()).add(value)
        for key, domains in view.stated.topology.items():
            values.setdefault(key, set()).update(domains)
    if not values:
        return ()
    asked = ((field, key, value) for field, key, value in _asked(policy) if key)
    return tuple(
        Unlabelled(field, key, value if key in values else "", _alike(key, value, values))
        for field, key, value in asked
        if key not in values or (value and value not in values[key])
    )


def _alike(key: str, value: str, values: Mapping[str, Collection[str]]) -> str:
    text, known = (value, values[key]) if key in values else (key, values)
    return next(iter(difflib.get_close_matches(text, sorted(known), n=1)), "")


def _asked(policy: Policy) -> Iterator[tuple[str, str, str]]:
    """(field, key, value) of every label that some cluster has to have; the value is "" where any
    will do."""
    for field, selector in _selectors(policy):
        for key, value in selector.match_labels if selector is not None else ():
            yield field, key, value
        for requirement in selector.requirements if selector is not None else ():
            if requirement.operator in (Operator.IN, Operator.EXISTS):
                for value in requirement.values or ("",):
                    yield field, requirement.key, value
    for index, rule in enumerate(policy.spread):
        yield f"spread[{index}].topologyKey", rule.topology_key, ""
    for term in policy.workloads:
        yield f"{term.path}.topologyKey", term.topology_key, ""


def _selectors(policy: Policy) -> Iterator[tuple[str, LabelSelector | None]]:
    yield "clusters.selector", policy.selector
    for index, weight in enumerate(policy.division.weights):
        yield f"division.weights[{index}].selector", weight.selector
    for index, group in enumerate(policy.division.groups):
        yield f"division.groups[{index}].selector", group.selector
    for override in policy.overrides:
        yield f"{override.path.removeprefix('spec.')}.clusters", override.selector


def mentioned(policy: Policy) -> Mapping[str, tuple[str, ...]]:
    """Every field of a policy that names clusters, with its names."""
    return dict(_mentioned(policy))


def _mentioned(policy: Policy) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "clusters.names", policy.names
    yield "clusters.exclude", policy.exclude
    for alternative in policy.conditions.any_of:
        yield f"{alternative.path}.names", alternative.names
        yield f"{alternative.path}.exclude", alternative.exclude
    for index, weight in enumerate(policy.division.weights):
        yield f"division.weights[{index}].names", weight.names
    for index, group in enumerate(policy.division.groups):
        yield f"division.groups[{index}].names", group.names
    for override in policy.overrides:
        yield f"{override.path.removeprefix('spec.')}.clusters.names", override.names
