"""The cost of the fleet's nodes by the workloads that caused it, in hundredths, so that all sums
agree.

The cost of a cluster in the measured time is shared by what copies held of its GPUs, of its cores
where its nodes have no GPUs; what nobody held is idle.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from federator.simulate.demand import Work
from federator.simulate.outcome import Held, SimulationResult

IDLE: Final = "(idle)"
NO_PROJECT: Final = "(no project)"
_SHARED_BY: Final = ("gpu", "cpu", "memory")


@dataclass(frozen=True, slots=True)
class Bill:
    """Hundredths of the unit of prices."""

    whole: int = 0
    idle: int = 0
    works: tuple[int, ...] = ()
    """In the order of the outcome's lives; empty without prices."""
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """`cluster`, `project`, `tier` -> group -> hundredths. Those of each add up to the whole."""


def bill(outcome: SimulationResult) -> Bill:
    """What each work, and each group of works, cost."""
    if outcome.costs is None:
        return Bill()
    works = [0] * len(outcome.lives)
    idle = 0
    shares = _shares(outcome)
    for cluster, cents in sorted(outcome.costs.items()):
        whole, parts = shares.get(cluster, (0, []))
        held = paid = 0
        for at, amount in parts if whole else ():
            held += amount
            due = cents * min(held, whole) // whole
            works[at] += due - paid
            paid = due
        idle += cents - paid
    by: dict[str, Counter[str]] = {"project": Counter({IDLE: idle}), "tier": Counter({IDLE: idle})}
    for life, cents in zip(outcome.lives, works, strict=True):
        by["project"][life.work.project or NO_PROJECT] += cents
        by["tier"][life.work.tier.value] += cents
    return Bill(
        sum(outcome.costs.values()), idle, tuple(works), {"cluster": dict(outcome.costs), **by}
    )


def per_copy(work: Work, resource: str) -> int:
    """What one copy takes; 0 where the trace does not say."""
    amount = {"cpu": work.cpu_milli, "memory": work.memory_mib, "gpu": work.gpu}.get(resource)
    return amount or 0


def _shares(outcome: SimulationResult) -> Mapping[str, tuple[int, list[tuple[int, int]]]]:
    """Cluster -> (amount times seconds of what its cost is shared by, what works held of it)."""
    begin_s = outcome.start_s + outcome.warm_up_s
    by = {held.cluster: held for held in _shared_by(outcome)}
    parts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, life in enumerate(outcome.lives):
        for stay in life.stays:
            end_s = outcome.horizon_s if stay.end_s is None else min(stay.end_s, outcome.horizon_s)
            lasted_s = end_s - max(stay.start_s, begin_s)
            held = by.get(stay.cluster)
            if lasted_s > 0 and held is not None:
                amount = per_copy(life.work, held.resource) * stay.copies * lasted_s
                parts[stay.cluster].append((at, amount))
    return {name: (held.capacity_s, parts[name]) for name, held in by.items()}


def _shared_by(outcome: SimulationResult) -> Iterator[Held]:
    """Of each cluster the resource that its cost is shared by."""
    for name in outcome.costs or ():
        mine = {held.resource: held for held in outcome.held if held.cluster == name}
        some = [mine[what] for what in _SHARED_BY if what in mine and mine[what].capacity_s]
        yield from some[:1]
