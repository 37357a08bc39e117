"""Decision order of a batch of asks: tier, priority, fewest nodes that fit, fair share of the
projects, age, key.

Within one tier and priority the asks that fit on the fewest nodes come first, because the others
have more choice (docs/decisions/0001-batch-order.md). Among equals the project with the smallest
dominant share comes next, divided by the weight of its quota and counting what this batch has
already queued for it: a project with a thousand asks does not go before one with ten.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from federator.model.ask import Ask, Tier
from federator.model.names import WorkloadKey
from federator.model.resources import ZERO, Resources
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates

_WEIGHTLESS: Final = 1_000_000
_RANK: Final = {tier: rank for rank, tier in enumerate(Tier)}


def order(
    asks: Iterable[Ask], commitments: Commitments | None = None, ledger: Ledger | None = None
) -> list[Ask]:
    """The asks in decision order, independent of the input order.

    `commitments` has what projects hold. `ledger`, as it is before the first ask, has the room;
    without it all asks count as fitting equally.
    """
    aged = sorted(asks, key=_age)
    if len(aged) < 2:
        return aged
    places = _places(aged, ledger) if ledger is not None else {}
    bands: dict[tuple[int, int, int], dict[str, list[Ask]]] = {}
    for ask in aged:
        band = (*_standing(ask), places.get(ask.uid, 0))
        bands.setdefault(band, {}).setdefault(ask.project, []).append(ask)
    usage = dict(commitments.usage_by_project()) if commitments is not None else {}
    weights = _weights(ledger) if ledger is not None else {}
    total = ZERO
    for amounts in usage.values():
        total = total + amounts
    for ask in aged:
        total = total + demand(ask)
    ordered: list[Ask] = []
    for key in sorted(bands):
        ordered += _interleave(bands[key], usage, total, weights)
    return ordered


def _weights(ledger: Ledger) -> dict[str, int]:
    """Of the projects whose accounts say one; of several accounts the least."""
    weights: dict[str, int] = {}
    for account in ledger.snapshot.quotas:
        for project in account.projects:
            weights[project] = min(account.weight, weights.get(project, account.weight))
    return {project: weight for project, weight in weights.items() if weight != 1}


def demand(ask: Ask) -> Resources:
    """What the ask would hold if all of it were placed."""
    total = ZERO
    for component in ask.components:
        total = total + component.shape.requests * component.count
    return total


def dominant_share(usage: Resources, total: Resources) -> Fraction:
    """The largest fraction that the usage has of any resource of the total.

    usage cpu 10, memory 4 of total cpu 100, memory 10: max(0.1, 0.4) = 0.4
    """
    return max(
        (Fraction(amount, total[name]) for name, amount in usage.items() if total[name] > 0),
        default=Fraction(0),
    )


def _places(asks: Iterable[Ask], ledger: Ledger) -> dict[str, int]:
    """uid -> number of nodes on which one copy fits; only for asks that share tier and priority
    with another."""
    alike = Counter(map(_standing, asks))
    counted: dict[object, int] = {}
    places: dict[str, int] = {}
    for ask in asks:
        if alike[_standing(ask)] < 2:
            continue
        number = candidates.number_of(ask.policy)
        key = (number, ask.project, ask.tier, ask.key.kind, ask.shape)
        if key not in counted:
            counted[key] = candidates.nodes_with_room(ask, ledger)
        places[ask.uid] = counted[key]
    return places


def standing(ask: Ask) -> tuple[int, int, float, WorkloadKey, str]:
    """The order without regard to room and shares."""
    return (*_standing(ask), *_age(ask))


def _standing(ask: Ask) -> tuple[int, int]:
    return _RANK[ask.tier], -ask.priority


def _interleave(
    queues: Mapping[str, list[Ask]],
    usage: dict[str, Resources],
    total: Resources,
    weights: Mapping[str, int],
) -> list[Ask]:
    heads = [
        (
            _weighed(dominant_share(usage.get(project, ZERO), total), weights.get(project, 1)),
            _age(queue[0]),
            project,
            0,
        )
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
            share = _weighed(dominant_share(usage[project], total), weights.get(project, 1))
            heapq.heapreplace(heads, (share, _age(queue[at + 1]), project, at + 1))
        else:
            heapq.heappop(heads)
    return ordered


def _weighed(share: Fraction, weight: int) -> Fraction:
    """A share by a weight; with weight 0 it counts like more than all there is."""
    return share / weight if weight else share * _WEIGHTLESS


def _age(ask: Ask) -> tuple[float, WorkloadKey, str]:
    return (ask.created_s, ask.key, ask.uid)
