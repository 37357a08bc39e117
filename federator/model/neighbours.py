"""Affinity and anti-affinity between workloads: the terms of a policy, and the other workloads of a
namespace as these terms see them.

Values only. `placement.selection.neighbours` judges clusters by them.
"""

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from federator.model.kubernetes import selectors
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.names import WorkloadKey


@dataclass(frozen=True, slots=True)
class WorkloadTerm:
    """One term of `workloadAffinity`: keep near to other workloads of the namespace, or away."""

    path: str
    """Its field below the policy's spec, such as `workloadAffinity.antiAffinity[0]`."""
    selector: LabelSelector | None = None
    """None: every workload that has the `same` labels."""
    same: tuple[str, ...] = ()
    """`matchLabelKeys`: labels of which both workloads have the same value."""
    topology_key: str = ""
    """A label of clusters; "" for each cluster by itself."""
    away: bool = False
    """True is anti-affinity."""
    weight: int = 0
    """Of a preferred term; 0 for a required one."""

    def matches(self, own: Mapping[str, str], other: Mapping[str, str]) -> bool:
        """Whether the term of a workload with labels `own` selects a workload with labels `other`.
        Without one of the `same` labels it selects none."""
        if self.selector is not None and not self.selector.matches(other):
            return False
        return all(key in own and own[key] == other.get(key) for key in self.same)

    def selects(self, own: Mapping[str, str]) -> str:
        """What it selects, as text: `app=cache`."""
        texts = [selectors.to_text(self.selector)] if self.selector is not None else []
        texts += [f"{key}={own.get(key, '')}" for key in self.same]
        return ",".join(text for text in texts if text) or "any label"

    @property
    def domain(self) -> str:
        """What its domains are called."""
        return self.topology_key or "cluster"

    @property
    def content(self) -> tuple[object, ...]:
        """All but where it is written."""
        text = None if self.selector is None else selectors.to_text(self.selector)
        return text, tuple(sorted(self.same)), self.topology_key, self.away, self.weight


@dataclass(frozen=True, slots=True)
class Peer:
    """A workload as the terms of others see it."""

    uid: str
    key: WorkloadKey
    labels: Mapping[str, str]
    repels: tuple[WorkloadTerm, ...] = ()
    """Required anti-affinity of its own policy: it keeps others away too."""
    policy: str = ""
    """Name of that policy."""


def repelling(terms: Sequence[WorkloadTerm]) -> tuple[WorkloadTerm, ...]:
    """The terms that keep others away too: required anti-affinity."""
    return tuple(term for term in terms if term.away and not term.weight)


Peers: TypeAlias = Callable[[str], Sequence[Peer]]
"""namespace -> its workloads, by key, where policies have terms that concern them; else none."""


def nobody(_: str) -> Sequence[Peer]:
    """No policy has such terms."""
    return ()


NOBODY: Final[Peers] = nobody


@dataclass(frozen=True, slots=True)
class Around:
    """What the terms say of each cluster, for one decision."""

    refused: tuple[tuple[str, str], ...] = ()
    """(cluster, why it takes no new copies: the rest of a sentence), by name."""
    met: frozenset[tuple[str, str]] = frozenset()
    """(path of a preferred term, cluster that it prefers)."""

    def why(self, cluster: str) -> str | None:
        """Why a cluster takes no new copies; None where it does."""
        at = bisect.bisect_left(self.refused, (cluster,))
        if at < len(self.refused) and self.refused[at][0] == cluster:
            return self.refused[at][1]
        return None
