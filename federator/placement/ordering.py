"""In which order a batch of asks is decided: tier, priority, fair share of the projects, age, key.

Inside one tier and priority the project with the smallest dominant share comes next, counting what this batch has
already lined up for it, so that a project with a thousand asks does not go before one with ten.
"""

import heapq
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from federator.model.ask import Ask, Tier, Unit
from federator.model.names import WorkloadKey
from federator.model.resources import ZERO, Resources
from federator.placement.books import Books

_RANK: Final = {tier: rank for rank, tier in enumerate(Tier)}


def order(asks: Iterable[Ask], books: Books | None = None) -> list[Ask]:
    """The asks, first to be decided first; the same for any order of the input. `books` tells what projects hold."""
    bands: dict[tuple[int, int], dict[str, list[Ask]]] = {}
    for ask in sorted(asks, key=_age):
        bands.setdefault((_RANK[ask.tier], -ask.priority), {}).setdefault(ask.project, []).append(ask)
    usage = dict(books.usage_by_project()) if books is not None else {}
    total = ZERO
    for amounts in usage.values():
        total = total + amounts
    for band in bands.values():
        for queue in band.values():
            for ask in queue:
                total = total + demand(ask)
    ordered: list[Ask] = []
    for key in sorted(bands):
        ordered += _interleave(bands[key], usage, total)
    return ordered


def demand(ask: Ask) -> Resources:
    """What the ask would hold if all of it were placed."""
    return ask.shape.requests * max(min(ask.slots, ask.count) if ask.unit is Unit.SHARDS else ask.count, 0)


def dominant_share(usage: Resources, total: Resources) -> Fraction:
    """The largest part that the usage has of any resource of the total."""
    return max(
        (Fraction(amount, total[name]) for name, amount in usage.items() if total[name] > 0), default=Fraction(0)
    )


def _interleave(queues: Mapping[str, list[Ask]], usage: dict[str, Resources], total: Resources) -> list[Ask]:
    heads = [
        (dominant_share(usage.get(project, ZERO), total), _age(queue[0]), project, 0)
        for project, queue in queues.items()
    ]
    heapq.heapify(heads)
    ordered: list[Ask] = []
    while heads:
        _, _, project, at = heads[0]
        queue = queues[project]
        ordered.append(queue[at])
        usage[project] = usage.get(project, ZERO) + demand(queue[at])
        if at + 1 < len(queue):
            share = dominant_share(usage[project], total)
            heapq.heapreplace(heads, (share, _age(queue[at + 1]), project, at + 1))
        else:
            heapq.heappop(heads)
    return ordered


def _age(ask: Ask) -> tuple[float, WorkloadKey, str]:
    return (ask.created_s, ask.key, ask.uid)
