"""How many copies of a workload may leave for others at once: what its own disruption budget
allows in each cluster, and no more in a minute.

    budget 25 %, 8 copies in a and 3 in b: 2 of a and 1 of b leave at first; in a minute the next

A budget of 0 keeps nobody from getting a guarantee back: one copy a minute leaves. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from federator.model.ask import Disruptions
from federator.model.decision import Share
from federator.model.fleet import Commitment, Holding, copies_of
from federator.model.names import WorkloadKey

MINUTE_S: Final = 60.0
Gone = Mapping[str, Mapping[str, int]]
"""uid -> cluster -> copies that left there for others in the last minute."""


def _none(_: WorkloadKey) -> Disruptions | None:
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Budgets:
    """What workloads allow, and what of that is used up."""

    of: Callable[[WorkloadKey], Disruptions | None] = _none
    """What a workload says now."""
    gone: Gone = field(default_factory=dict)
    next_s: float = MINUTE_S
    """Seconds until something of that does not count any more."""

    def allowed(self, held: Commitment) -> dict[str, int] | None:
        """Cluster -> how many of its copies may leave now; None for one without a budget."""
        budget = self.of(held.key)
        if budget is None:
            return None
        return allowed(held.holdings, budget, self.gone.get(held.uid, {}))


NO_BUDGETS: Final = Budgets()


def allowed(
    holdings: Sequence[Share | Holding], budget: Disruptions, gone: Mapping[str, int]
) -> dict[str, int]:
    """Cluster -> how many of its copies may leave now; without those where none may."""
    held = {holding.cluster: copies_of(holding) for holding in holdings}
    before = {name: copies + gone.get(name, 0) for name, copies in held.items()}
    budgets = {name: budget.of(copies) for name, copies in before.items()}
    if not any(budgets.values()) and not any(gone.values()) and held:
        # A budget that rounds to none everywhere would make the workload immovable.
        budgets[max(sorted(held), key=held.__getitem__)] = 1
    left = {name: min(budgets[name] - gone.get(name, 0), copies) for name, copies in held.items()}
    return {name: copies for name, copies in left.items() if copies > 0}


def spread(most: Mapping[str, int], copies: int) -> dict[str, int]:
    """So many copies over clusters that may give up `most` each: from where most may leave."""
    left, given = dict(most), dict[str, int]()
    # One by one from the fullest: the clusters keep their proportions as far as possible.
    for _ in range(min(copies, sum(most.values()))):
        name = max(sorted(left), key=left.__getitem__)
        left[name] -= 1
        given[name] = given.get(name, 0) + 1
    return given


def kept(most: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """What clusters keep for now, which may give up `most` each."""
    left = {name: copies - most.get(name, 0) for name, copies in held.items()}
    return {name: copies for name, copies in left.items() if copies > 0}
