"""How well copies start and jobs end in each cluster: a rate with a memory of about an hour. Pure.

Every look judges each workload at most once in each cluster. A workload that fails in all of its
clusters says nothing of any of them, because it is broken itself. A cluster with a low rate is
avoided as one with a PreferNoSchedule taint is, until its rate is high again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

HALF_LIFE_S: Final = 900.0
"""In this time half of the difference to what looks see is forgotten; in an hour 15/16 of it."""
FAILS_BELOW: Final = 500
"""Thousandths: a cluster with a lower rate is avoided."""
HEALS_AT: Final = 800
"""Thousandths: it is avoided until its rate is as high again."""
STEP: Final = 50
"""Thousandths in which the rate is shown. What depends on it is not judged again for less."""
_PRIOR: Final = 4
"""What is added to each look as good, in half workloads: one failure is no proof."""
_FULL: Final = 2
_ALONE: Final = 1
"""Half workloads that a failing share counts for. Of a workload in one cluster nobody can say
whether the workload or the cluster is broken."""


class Outcome(Enum):
    """What a workload does in one cluster."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"
    """Nothing can be said of it yet, or it waits for room."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Of one cluster."""

    permille: float = 1000.0
    as_of_s: float | None = None
    """Epoch seconds of the last look; None before the first one."""
    avoided: bool = False

    @property
    def shown(self) -> int:
        """In thousandths, in steps."""
        return round(self.permille / STEP) * STEP


@dataclass(slots=True)
class Look:
    """What one look sees, in half workloads by cluster."""

    good: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)

    def note(self, outcomes: Mapping[str, Outcome]) -> None:
        """One workload, by cluster."""
        good = [name for name, outcome in outcomes.items() if outcome is Outcome.GOOD]
        bad = [name for name, outcome in outcomes.items() if outcome is Outcome.BAD]
        for name in good:
            self.good[name] = self.good.get(name, 0) + _FULL
        if good or len(outcomes) == 1:
            for name in bad:
                self.bad[name] = self.bad.get(name, 0) + (_FULL if good else _ALONE)

    def share(self, cluster: str) -> float:
        """The part that succeeds, in thousandths; 1000 where nothing is seen."""
        good = self.good.get(cluster, 0) + _PRIOR
        return 1000.0 * good / (good + self.bad.get(cluster, 0))


def after(rate: Rate, share: float, now_s: float) -> Rate:
    """The rate after a look that sees this share, in thousandths."""
    passed = 0.0 if rate.as_of_s is None else max(now_s - rate.as_of_s, 0.0)
    permille = share + (rate.permille - share) * 0.5 ** (passed / HALF_LIFE_S)
    return Rate(permille, now_s, permille < (HEALS_AT if rate.avoided else FAILS_BELOW))
