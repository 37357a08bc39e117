"""Decision order of a batch of asks: tier, priority, fewest nodes that fit, fair share of the
projects, age, key.

Within one tier and priority the asks that fit on the fewest nodes come first, because the others
have more choice (docs/decisions/0001-batch-order.md). Among equals the project with the smallest
dominant share comes next, divided by the weight of its quota and counting what this batch has
already queued for it: a project with a thousand asks does not go before one with ten.
"""

import heapq
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from federator.model.ask import Ask, Tier
from federator.model.names import WorkloadKey
from federator.model.neighbours import WorkloadTerm
from federator.model.resources import ZERO, Resources
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.selection import alike, candidates

_WEIGHTLESS: Final = 1_000_000
"""With weight 0 a share counts like more than all there is."""
_RANK: Final = {tier: rank for rank, tier in enumerate(Tier)}


def order(
    asks: Iterable[Ask], commitments: Commitments | None = None, ledger: Ledger | None = None
) -> list[Ask]:
    """The asks in decision order, independent of the input order.

    `commitments` has what projects hold. `ledger`, as it is before the first ask, has the room;
    without it all asks count as fitting equally.
    """
    aged = list(asks)
    if len(aged) < 2:
        return aged
    # The base of all further sorts, which are stable: equals stay by age whatever the caller's
    # order is.
    aged.sort(key=_age)
    alike: dict[tuple[int, int], list[Ask]] = {}
    for ask in aged:
        alike.setdefault(_standing(ask), []).append(ask)
    ordered: list[Ask] = []
    if len({ask.project for ask in aged}) == 1:  # nobody to share with
        for _, equals in sorted(alike.items()):
            for band in _bands(equals, ledger):
                ordered += band[equals[0].project]
        return ordered
    shares = _Shares(aged, commitments, _weights(ledger) if ledger is not None else {})
    for _, equals in sorted(alike.items()):
        for band in _bands(equals, ledger):
            ordered += _interleave(band, shares)
    return ordered


def behind_neighbours(
    asks: Sequence[Ask], due: Container[WorkloadKey], commitments: Commitments
) -> list[Ask]:
    """The asks in their order, but those with required affinity behind the ones that it selects,
    which are due too and hold nothing yet: these show where it may go. In a circle the first goes
    first, and so does the first of a group that selects itself."""
    new = [
        ask
        for ask in asks
        if ask.key in due and not ((held := commitments.commitment(ask.uid)) and held.copies)
    ]
    needs, alike = dict[WorkloadKey, list[frozenset[WorkloadKey]]](), _Alike(new)
    for ask in asks:
        if needed := [alike.of(ask, term) for term in ask.policy.workloads if _draws(term, ask)]:
            needs[ask.key] = needed
    left, behind, ordered = {ask.key for ask in asks}, list[Ask](), list[Ask]()

    def waits(ask: Ask) -> bool:
        return any(not needed.isdisjoint(left) for needed in needs.get(ask.key, ()))

    for ask in asks:
        if waits(ask):
            behind.append(ask)
            continue
        ordered.append(ask)
        left.discard(ask.key)
        while (free := next((other for other in behind if not waits(other)), None)) is not None:
            behind.remove(free)
            ordered.append(free)
            left.discard(free.key)
    return [*ordered, *behind]


def _draws(term: WorkloadTerm, ask: Ask) -> bool:
    """Whether the ask has to go where others are."""
    # One that selects itself may be the first of its group, so it need not wait.
    return not (term.away or term.weight or term.matches(ask.labels, ask.labels))


class _Alike:
    """Which asks a term selects, remembered for all that have the same term."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self._asks = asks
        self._selected: dict[object, frozenset[WorkloadKey]] = {}

    def of(self, ask: Ask, term: WorkloadTerm) -> frozenset[WorkloadKey]:
        values = tuple(ask.labels.get(key) for key in term.same)
        key = ask.key.namespace, term.content, values
        selected = self._selected.get(key)
        if selected is None:
            selected = self._selected[key] = frozenset(
                other.key
                for other in self._asks
                if other.key.namespace == ask.key.namespace
                and term.matches(ask.labels, other.labels)
            )
        return selected


def _bands(equals: list[Ask], ledger: Ledger | None) -> Iterator[dict[str, list[Ask]]]:
    """Asks of one tier and priority by project, those that fit on the fewest nodes first."""
    bands: dict[int, dict[str, list[Ask]]] = {}
    places = (
        _places(equals, ledger) if ledger is not None and len(equals) > 1 else [0] * len(equals)
    )
    for ask, fits in zip(equals, places, strict=True):
        # Bands go before fair shares: a large shape that is tried after small ones of another
        # project may find no node, which costs more than the order between projects.
        bands.setdefault(fits, {}).setdefault(ask.project, []).append(ask)
    for fits in sorted(bands):
        yield bands[fits]


def _weights(ledger: Ledger) -> dict[str, int]:
    """Of the projects of accounts that say one; of several accounts the least."""
    weights: dict[str, int] = {}
    for account in ledger.snapshot.quotas:
        for project in account.projects:
            weights[project] = min(account.weight, weights.get(project, account.weight))
    return {project: weight for project, weight in weights.items() if weight != 1}


def demand(ask: Ask) -> Resources:
    """What the ask would hold if all of it were placed."""
    if not ask.shape.parts:
        return ask.shape.requests * ask.at_once
    total = ZERO
    for component in ask.components:
        total = total + component.shape.requests * component.count
    return total


class _Shares:
    """Dominant shares of projects: the largest fraction that one has of any resource of all that is
    used or asked for, by the weight of its quota. Integers that compare as these fractions do.

    used cpu 10, memory 4 of total cpu 100, memory 10: max(0.1, 0.4) = 0.4, of 1000 * 10 is 400
    """

    def __init__(
        self, asks: Iterable[Ask], commitments: Commitments | None, weights: Mapping[str, int]
    ) -> None:
        self._usage = commitments.usage_by_project() if commitments is not None else {}
        total = ZERO
        for amounts in (*self._usage.values(), *map(demand, asks)):
            total = total + amounts
        # Integers instead of fractions: floats would order equal shares by rounding errors.
        whole = math.lcm(*(amount for amount in total.values() if amount > 0))
        self._scale = {name: whole // amount for name, amount in total.items() if amount > 0}
        least = math.lcm(*(weight for weight in weights.values() if weight))
        self._least, self._by_weight = (
            least,
            {
                project: least // weight if weight else least * _WEIGHTLESS
                for project, weight in weights.items()
            },
        )

    def of(self, project: str) -> int:
        scale, usage = self._scale, self._usage.get(project, ZERO)
        shares = [amount * scale[name] for name, amount in usage.items() if name in scale]
        # The dominant resource alone, as in Dominant Resource Fairness (Ghodsi et al., NSDI 2011).
        return max(shares, default=0) * self._by_weight.get(project, self._least)

    def queue(self, ask: Ask) -> None:
        """The ask counts for its project from now on."""
        self._usage[ask.project] = self._usage.get(ask.project, ZERO) + demand(ask)


def _places(asks: Sequence[Ask], ledger: Ledger) -> list[int]:
    """On how many nodes one copy of each ask fits; where it is the same number for all of them, any
    number."""
    keys = [(alike.likeness(ask, ledger.snapshot, ledger), id(ask.shape)) for ask in asks]
    kinds = dict(zip(keys, asks, strict=True))
    if len(kinds) == 1:
        return [0] * len(asks)
    counted = {key: candidates.nodes_with_room(ask, ledger) for key, ask in kinds.items()}
    return [counted[key] for key in keys]


def standing(ask: Ask) -> tuple[int, int, float, WorkloadKey, str]:
    """The order without regard to room and shares."""
    return (*_standing(ask), *_age(ask))


def _standing(ask: Ask) -> tuple[int, int]:
    return _RANK[ask.tier], -ask.priority


def _interleave(queues: Mapping[str, list[Ask]], shares: _Shares) -> list[Ask]:
    if len(queues) == 1:
        ((_, queue),) = queues.items()
        for ask in queue:
            shares.queue(ask)
        return queue
    heads = [(shares.of(project), _age(queue[0]), project, 0) for project, queue in queues.items()]
    heapq.heapify(heads)
    ordered: list[Ask] = []
    while heads:
        _, _, project, at = heads[0]
        queue = queues[project]
        ordered.append(queue[at])
        # It counts as if it were placed: otherwise the poorest project would have all its asks
        # first.
        shares.queue(queue[at])
        if at + 1 < len(queue):
            head = (shares.of(project), _age(queue[at + 1]), project, at + 1)
            heapq.heapreplace(heads, head)
        else:
            heapq.heappop(heads)
    return ordered


def _age(ask: Ask) -> tuple[float, WorkloadKey, str]:
    return (ask.created_s, ask.key, ask.uid)
