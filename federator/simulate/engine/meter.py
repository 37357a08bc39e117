"""What copies hold and what clusters have, exactly: sums over time and the most at once, kept up at
each instant at which something changed.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from federator.simulate.engine.fleet import SimulatedFleet
from federator.simulate.engine.members.member import Member
from federator.simulate.outcome import FLEET, Held

HOUR_S: Final = 3600


class Meter:
    """Follows the fleet over the time that is measured."""

    def __init__(self, names: Sequence[str], begin_s: int, horizon_s: int) -> None:
        """`names`: of the resources, as nodes name them. Sums are from `begin_s` to `horizon_s`,
        the most is from `begin_s` to the end of the simulation."""
        self._names, self._begin_s, self._horizon_s = names, begin_s, horizon_s
        self._gauges: dict[str, _Gauge] = {}
        self._fleet = self._gauge()
        self._fleet.there = True

    def _gauge(self) -> "_Gauge":
        return _Gauge(len(self._names), self._begin_s, self._horizon_s)

    def settle(self, now_s: int, fleet: SimulatedFleet) -> None:
        """From `now_s` on the fleet is as it is now: everything of that instant has happened."""
        whole = self._fleet
        whole.stood(now_s)
        held = whole.used
        for name in fleet.moved:
            gauge = self._gauges.get(name)
            if gauge is None:
                gauge = self._gauges[name] = self._gauge()
            gauge.stood(now_s)
            member = fleet.members.get(name)
            if member is not gauge.member or (member and member.resized != gauge.resized):
                self._replace(gauge, member)
                gauge.price = fleet.prices.get(name, 0.0)
            elif fleet.prices and (price := fleet.prices.get(name, 0.0)) != gauge.price:
                gauge.resize(gauge.capacity)
                gauge.price = price
            used, taken = gauge.used, member.taken if member is not None else ()
            for at, place in enumerate(gauge.places):
                amount = taken[place] if place >= 0 else 0
                if amount != used[at]:
                    held[at] += amount - used[at]
                    used[at] = amount
        fleet.moved.clear()

    def _replace(self, gauge: "_Gauge", member: Member | None) -> None:
        """The cluster has come or gone, or has other nodes."""
        sizes, gauge.places = [0] * len(self._names), [-1] * len(self._names)
        if member is not None:
            sizes = [member.total(name) for name in self._names]
            gauge.places = [
                member.names.index(name) if name in member.names else -1 for name in self._names
            ]
        changes = [size - former for size, former in zip(sizes, gauge.capacity, strict=True)]
        whole = self._fleet
        whole.resize([have + more for have, more in zip(whole.capacity, changes, strict=True)])
        gauge.resize(sizes)
        gauge.member, gauge.there = member, member is not None
        gauge.resized = member.resized if member is not None else 0

    def held(self, end_s: int) -> tuple[Held, ...]:
        """What was held and there until `end_s`: of the fleet first, then of each cluster by name.
        To be called once.
        """
        every: list[Held] = []
        for name, gauge in [(FLEET, self._fleet), *sorted(self._gauges.items())]:
            gauge.stood(end_s)
            gauge.resize(gauge.capacity)
            every += gauge.sums(name, self._names)
        return tuple(every)

    def costs(self) -> dict[str, Fraction]:
        """Cluster -> what its nodes cost, without those of its autoscaler; of what `held` was asked
        for."""
        return {name: gauge.cost for name, gauge in sorted(self._gauges.items())}


class _Gauge:
    """Amounts of one cluster, or of the fleet, in the order of the meter's resources."""

    __slots__ = (
        "_begin_s",
        "_horizon_s",
        "_most",
        "_most_since_s",
        "_peak",
        "_peak_share",
        "_peak_since_s",
        "_resized_s",
        "_since_s",
        "_there_s",
        "_used_s",
        "_whole_s",
        "capacity",
        "cost",
        "member",
        "places",
        "price",
        "resized",
        "there",
        "used",
    )

    def __init__(self, width: int, begin_s: int, horizon_s: int) -> None:
        self._begin_s, self._horizon_s = begin_s, horizon_s
        self._since_s = self._resized_s = 0
        self.used = [0] * width
        self.capacity = [0] * width
        self.there = False
        self.member: Member | None = None
        self.resized = 0
        """Of the member, when its capacity was looked at."""
        self.places = [-1] * width
        """Of each resource among those of the member."""
        self.price, self.cost = 0.0, Fraction(0)
        self._used_s, self._whole_s, self._there_s = [0] * width, [0] * width, 0
        self._most, self._most_since_s = [0] * width, [begin_s] * width
        """Since the capacity is what it is."""
        self._peak, self._peak_share = [0] * width, [0.0] * width
        self._peak_since_s = [begin_s] * width

    def stood(self, now_s: int) -> None:
        """What it holds it has held until now."""
        since_s, self._since_s = self._since_s, now_s
        if now_s <= self._begin_s or now_s <= since_s:
            return
        since_s = max(since_s, self._begin_s)
        lasted_s = max((now_s if now_s < self._horizon_s else self._horizon_s) - since_s, 0)
        used_s, most = self._used_s, self._most
        for at, amount in enumerate(self.used):
            used_s[at] += amount * lasted_s
            if amount > most[at]:
                most[at], self._most_since_s[at] = amount, since_s

    def resize(self, capacity: list[int]) -> None:
        """Its capacity is another one from the last instant on until which it stood."""
        until_s = min(self._since_s, self._horizon_s)
        lasted_s = max(until_s - max(self._resized_s, self._begin_s), 0)
        self._there_s += lasted_s if self.there else 0
        if self.price and self.member is not None:
            hours = Fraction(self.member.nodes * lasted_s, HOUR_S)
            self.cost += Fraction(str(self.price)) * hours
        for at, size in enumerate(self.capacity):
            self._whole_s[at] += size * lasted_s
            most, self._most[at] = self._most[at], 0
            self._peak[at] = max(self._peak[at], most)
            if size and most / size > self._peak_share[at]:
                self._peak_share[at] = most / size
                self._peak_since_s[at] = self._most_since_s[at]
        self.capacity, self._resized_s = capacity, self._since_s

    def sums(self, cluster: str, names: Sequence[str]) -> list[Held]:
        return [
            Held(
                cluster=cluster,
                resource=name,
                there_s=self._there_s,
                capacity_s=self._whole_s[at],
                used_s=self._used_s[at],
                peak=self._peak[at],
                peak_share=self._peak_share[at],
                peak_since_s=self._peak_since_s[at],
            )
            for at, name in enumerate(names)
        ]
