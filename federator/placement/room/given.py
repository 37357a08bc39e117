"""Copies that a batch has given, as its ledger remembers them: what they take of the room, and of
the nodes that clusters can add, and how that is taken back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from federator.model.ask import PodShape
from federator.placement.growth.growth import Growth
from federator.placement.growth.pools import Pools
from federator.placement.room.world import PENDING, Charge, World

Grown: TypeAlias = "Mapping[str, int] | tuple[list[int], list[int]]"


class TakesBack(Protocol):
    """The ledger that the copies are charged in."""

    def take_back(self, charge: Charge | None, grew: Iterable[tuple[int, Pools]] = ()) -> None: ...


@dataclass(slots=True, eq=False)
class Given:
    """Copies given by cluster, and what that changed in the world; None until room is read again:
    the last decision of a batch charges room that nobody reads."""

    shape: PodShape
    grown: Grown
    """By name; or the clusters by place in the world, and the copies of each."""
    charge: Charge | None = None
    grew: tuple[tuple[int, Pools], ...] = ()
    """(cluster, its pools before) where copies wait for nodes to be added."""

    def pods(self) -> "list[Given]":
        """The same in single pods, which is itself unless it is of gangs."""
        if not self.shape.parts:
            return [self]
        return [Given(pod, self._times(each)) for pod, each in self.shape.pods]

    def _times(self, each: int) -> Grown:
        if isinstance(self.grown, Mapping):
            return {name: copies * each for name, copies in self.grown.items()}
        clusters, copies = self.grown
        return clusters, [count * each for count in copies]

    def charge_in(self, world: World, growth: Growth | None) -> None:
        """Charges the nodes with as many as they have room for, and those that clusters add with
        the rest."""
        grown = self.grown if growth is None else self._bound(world, growth)
        if not isinstance(grown, tuple):  # which is quicker to ask than for a Mapping
            self.charge = world.charge(self.shape, grown)
        elif grown[0]:
            self.charge = world.charge_at(self.shape, *grown)

    def _bound(self, world: World, growth: Growth) -> Grown:
        """What the nodes take of it; the rest is promised of nodes to be added."""
        rooms, places = world.rooms(self.shape), self._places(world)
        waits = [
            (at, copies - int(rooms[at]))
            for at, copies in places
            if growth.pools(at) and copies > rooms[at] != PENDING
        ]
        if not waits:
            return self.grown
        self.grew = tuple((at, growth.charge(at, self.shape, copies)) for at, copies in waits)
        beyond = dict(waits)
        left = [(at, bound) for at, copies in places if (bound := copies - beyond.get(at, 0)) > 0]
        return [at for at, _ in left], [bound for _, bound in left]

    def _places(self, world: World) -> list[tuple[int, int]]:
        """(cluster, copies), rising; of clusters with a report."""
        if isinstance(self.grown, Mapping):
            named = [(world.at.get(name, -1), copies) for name, copies in self.grown.items()]
            return sorted(
                (at, copies)
                for at, copies in named
                if at >= 0 and copies > 0 and world.opened[at] is not None
            )
        return list(zip(*self.grown, strict=True))

    def take_back(self, ledger: TakesBack) -> None:
        ledger.take_back(self.charge, self.grew)
