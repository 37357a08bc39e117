"""A PlacementInvariant as the core reads it: the workloads that it selects, and what must hold of
them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from federator.model.ask import Ask, Tier

UNLABELLED: Final = "(without the label)"
"""The domain of all clusters without the label."""


@dataclass(frozen=True, slots=True)
class MaxShare:
    """At most `percent` of the copies of one workload are in one domain."""

    topology_key: str
    percent: int

    def most(self, wanted: int) -> int:
        """Copies that a workload with `wanted` copies may have in one domain: rounded down, and at
        least one, because a copy cannot be divided.

        10 copies, 40 percent: 4; 3 copies: 1; 1 copy: 1
        """
        return max(wanted * self.percent // 100, 1)

    @property
    def domains(self) -> int:
        """Domains that a workload of many copies needs."""
        return -(-100 // self.percent)


@dataclass(frozen=True, slots=True)
class Survives:
    """After the loss of any `loss` domains, every copy of these tiers has another place."""

    topology_key: str
    loss: int = 1
    tiers: frozenset[Tier] = frozenset(Tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One PlacementInvariant. Empty conditions select every workload; all must match."""

    name: str
    uid: str = ""
    generation: int = 0
    rule: MaxShare | Survives | None
    """None for one that cannot be read: it neither refuses nor reports anything."""
    refuses: bool = False
    """Copies are not placed where they would break it (enforcement: Refuse)."""
    owner: str = ""
    kinds: frozenset[str] = frozenset()
    match_labels: Mapping[str, str] = field(default_factory=dict)
    projects: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """Names of workloads."""

    def selects(self, ask: Ask) -> bool:
        """Whether the workload is one of those that it speaks of."""
        return (
            (not self.kinds or ask.key.kind in self.kinds)
            and (not self.names or ask.key.name in self.names)
            and (not self.namespaces or ask.key.namespace in self.namespaces)
            and (not self.projects or ask.project in self.projects)
            and all(ask.labels.get(key) == value for key, value in self.match_labels.items())
        )

    @property
    def title(self) -> str:
        """The invariant and its owner, as refusals name it."""
        return f"PlacementInvariant {self.name}" + (f" (owner {self.owner})" if self.owner else "")
