"""Bounds on the copies of single clusters, as a policy's `division.perCluster` has them."""

from collections.abc import Mapping
from dataclasses import dataclass

from federator.model.kubernetes.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class PerCluster:
    """Bounds on the copies of one cluster, or of each cluster that a selector matches."""

    field: str
    """Where it is written, such as `division.perCluster[0]`."""
    cluster: str = ""
    selector: LabelSelector | None = None
    least: int = 0
    """A cluster that joins gets at least this many copies, or none."""
    most: int | None = None
    percent: int | None = None
    """At most this part of the workload's copies, in hundredths, rounded down; of a percentage
    above 0 at least one copy."""
    demand: str = ""
    """The Required policy that asks for it, as refusals name it; "" for the workload's own."""
    enforced: str = ""
    """The name of that policy."""

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it bounds the cluster with this name and these labels."""
        if self.cluster:
            return self.cluster == name
        return self.selector is not None and self.selector.matches(labels)

    def of(self, copies: int) -> int | None:
        """The most copies of one cluster, of a workload with so many in all; None for no bound.

        40% of 10 copies: 4; of 2: 1, because 0.8 would keep a small workload out everywhere
        """
        if self.percent is None:
            return self.most
        part = copies * self.percent // 100
        return max(part, 1) if self.percent > 0 and copies > 0 else part
