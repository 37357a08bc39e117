"""Names of clusters in a policy that no cluster has: misspelt, or of a cluster that has left.
Pure.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from federator.model.ask import Policy
from federator.model.fleet import ClusterView


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
