"""Divides copies over a fixed set of clusters by Webster's method (`webster`).

`divide` continues from the seats already held. Growing gives the next seat to the largest weight /
(2 * seats + 1); shrinking takes seats back in exactly the reverse order, so with fixed floors and
caps one more copy never takes a seat from a cluster. Which clusters take part is decided before
(`engine`, `choosing`); `spread` applies spread bounds.

    weights a 3, b 1; seats in order of quotient: a 3, b 1, a 1, a 3/5 -> of 4 copies a gets 3, b 1
    with 3 copies the last seat goes back (a's, 3/5) -> a 2, b 1
"""

import heapq
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federator.model.fleet import ClusterView
from federator.model.policy import Policy, Strategy
from federator.placement.division import webster
from federator.placement.division.webster import SCALE


@dataclass(slots=True)
class Party:
    """One cluster that takes part. `seats` starts as what it holds and ends as what it gets."""

    name: str
    weight: int
    cap: int
    floor: int = 0
    seats: int = 0
    level: int = 0
    """Ordered groups: a higher level is used only for what lower levels cannot take."""
    order: int = 0
    """The last tie-break; passed in, so that no cluster name is favoured."""
    domains: tuple[str, ...] = ()
    """Its domain under each spread rule."""
    counted: bool = True
    """Whether it makes a domain even without seats (`domains.counts`)."""

    def next_key(self) -> tuple[int, int, int, str]:
        """Sort key: the smallest gets the next seat."""
        return (
            -((self.weight << SCALE) // (2 * self.seats + 1)),
            self.seats,
            self.order,
            self.name,
        )

    def last_key(self) -> tuple[int, int, int, str]:
        """Sort key: the largest gives its last seat back first, in the reverse order of
        `next_key`."""
        return (
            -((self.weight << SCALE) // (2 * self.seats - 1)),
            self.seats,
            self.order,
            self.name,
        )


def divide(parties: Sequence[Party], total: int) -> int:
    """Changes `seats` so that they add up to `total`, as far as floors, caps and weights allow.
    Returns the copies left over.

    Floors are filled first, the heaviest party first when there are too few. A party of weight 0
    gets no more than its floor, but keeps what it holds until seats must be taken.
    """
    for party in parties:
        party.seats = min(party.seats, party.cap)
    missing = total - sum(party.seats for party in parties)
    if missing < 0:
        shrink(parties, -missing)
        return 0
    # Floors before averages: a cluster below its minimum would have to give up all it has.
    missing = fill_floors(parties, missing)
    # Level after level: a later group gets a copy only when no earlier one has room for it.
    for level in sorted({party.level for party in parties}):
        if missing == 0:
            break
        missing = grow([party for party in parties if party.level == level], missing)
    return missing


def fill_floors(parties: Sequence[Party], missing: int) -> int:
    """Raises every party to its floor while seats last; returns the seats left."""
    for party in sorted(
        # The heaviest first: with too few copies for all floors, large clusters are the ones to
        # use.
        parties,
        key=lambda party: (party.level, -party.weight, party.order, party.name),
    ):
        given = min(max(min(party.floor, party.cap) - party.seats, 0), missing)
        party.seats += given
        missing -= given
    return missing


def grow(parties: Sequence[Party], missing: int) -> int:
    """Gives up to `missing` more seats by highest averages; returns the seats that no party could
    take."""
    able = [party for party in parties if party.weight > 0 and party.seats < party.cap]
    if not able or missing <= 0:
        return missing
    able.sort(key=operator.attrgetter("name"))  # the last tie-break is the position
    held = [party.seats for party in able]
    seats = webster.seats_of(
        [party.weight for party in able],
        [party.cap for party in able],
        missing,
        lambda: [party.order for party in able],
        held if any(held) else (),
    )
    for party, has in zip(able, seats, strict=True):
        party.seats = has
    return missing - (sum(seats) - sum(held))


def shrink(parties: Sequence[Party], surplus: int) -> None:
    """Takes seats back in the reverse order of giving: higher levels first, floors last."""
    # What is above a floor goes first everywhere, so that a minimum is broken only when nothing
    # else is left to take.
    for floors_too in (False, True):
        # The reverse order of giving, so that giving and taking the same copies moves nothing.
        for level in sorted({party.level for party in parties}, reverse=True):
            surplus = _take(
                [party for party in parties if party.level == level], surplus, floors_too=floors_too
            )
            if surplus == 0:
                return


def shrink_to_floors(parties: Sequence[Party], surplus: int) -> None:
    """As `shrink`, but no party falls below its floor."""
    for level in sorted({party.level for party in parties}, reverse=True):
        surplus = _take(
            [party for party in parties if party.level == level], surplus, floors_too=False
        )


def _take(parties: Sequence[Party], surplus: int, *, floors_too: bool) -> int:
    able = [party for party in parties if party.seats > (0 if floors_too else party.floor)]
    if surplus > 4 * len(able):
        surplus -= _leap_back(able, surplus, floors_too=floors_too)
    heap = [Latest(party) for party in able if party.seats > (0 if floors_too else party.floor)]
    heapq.heapify(heap)
    while surplus and heap:
        party = heap[0].party
        party.seats -= 1
        surplus -= 1
        if party.seats > (0 if floors_too else party.floor):
            heapq.heapreplace(heap, Latest(party))
        else:
            heapq.heappop(heap)
    return surplus


def _leap_back(able: Sequence[Party], surplus: int, *, floors_too: bool) -> int:
    """Takes most of a large number of seats at once: all seats with a quotient below 1 / (2 * p /
    q), for the smallest p / q that takes at most `surplus`. These were given last, so the remaining
    ones can be taken one by one. Returns how many were taken."""
    # All weights may be 0: parties of weight 0 keep what they hold, and give it back here.
    q = sum(party.weight for party in able) or 1

    def kept(party: Party, p: int) -> int:
        return min(
            max((2 * party.weight * p + q) // (2 * q), 0 if floors_too else party.floor),
            party.seats,
        )

    def taken(p: int) -> int:
        return sum(party.seats - kept(party, p) for party in able)

    low, high = 0, sum(party.seats for party in able)
    while taken(high) > surplus:
        # A larger p takes no less: what is left is held by weights of 0, which no p protects.
        if taken(2 * high) == taken(high):
            return 0
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if taken(middle) <= surplus:
            high = middle
        else:
            low = middle + 1
    given_up = taken(low)
    for party in able:
        party.seats = kept(party, low)
    return given_up


class Latest:
    """Orders parties so that the one with the latest last seat comes first."""

    __slots__ = ("key", "party")

    def __init__(self, party: Party) -> None:
        self.party = party
        self.key = party.last_key()

    def __lt__(self, other: "Latest") -> bool:
        return self.key > other.key


def consolidate(parties: Sequence[Party], total: int) -> None:
    """Shrinks by emptying the smallest holders first, so that as few clusters as possible remain
    (strategy Pack)."""
    surplus = sum(party.seats for party in parties) - total
    for party in sorted(
        # Later groups first, as for every loss; then the smallest, which is emptied with fewest
        # moves.
        parties,
        key=lambda party: (-party.level, party.seats, -party.order, party.name),
    ):
        taken = min(max(surplus, 0), party.seats)
        party.seats -= taken
        surplus -= taken


Weigh = Callable[[Policy, ClusterView, int, int], int]
"""policy, cluster, held, room -> weight"""


def by_room(policy: Policy, cluster: ClusterView, held: int, room: int) -> int:
    """Weight: free plus held copies, all that the cluster could have."""
    return held + room


def equally(policy: Policy, cluster: ClusterView, held: int, room: int) -> int:
    """The same for all."""
    return 1


def by_static_weight(policy: Policy, cluster: ClusterView, held: int, room: int) -> int:
    """Weight: the largest of the policy's weights that names or selects the cluster; 1 for all when
    the policy has none."""
    if not policy.division.weights:
        return 1
    return max(
        # The largest of several: a general weight and a special one for some clusters may overlap.
        (
            weight.weight
            for weight in policy.division.weights
            if cluster.name in weight.names
            or (weight.selector is not None and weight.selector.matches(cluster.labels))
        ),
        default=0,
    )


@dataclass(frozen=True, slots=True)
class Divider:
    """One strategy: how clusters weigh, whether as few as possible are used, whether each gets the
    whole count."""

    weigh: Weigh
    fewest: bool = False
    everywhere: bool = False


DIVIDERS: Final[Mapping[Strategy, Divider]] = {
    Strategy.DUPLICATE: Divider(equally, everywhere=True),
    Strategy.WEIGHTED: Divider(by_static_weight),
    Strategy.CAPACITY: Divider(by_room),
    Strategy.PACK: Divider(by_room, fewest=True),
    Strategy.SPREAD: Divider(equally),
}
