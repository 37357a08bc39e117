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
    """Follows the fleet over the time that is measured.

    Sums are kept by what changes: a change counts for all seconds that are left. So the cost of an
    instant is that of what changed at it."""

    def __init__(self, names: Sequence[str], begin_s: int, horizon_s: int) -> None:
        """`names`: of the resources, as nodes name them. Sums are from `begin_s` to `horizon_s`,
        the most is from `begin_s` to the end of the simulation."""
        self._names, self._begin_s, self._horizon_s = names, begin_s, horizon_s
        self._gauges: dict[str, _Gauge] = {}
        self._fleet = self._gauge()
        self._fleet.there = True
        self._now_s: int | None = None
        """When it settled last."""
        self._measures = False
        """It has settled in the time that is measured."""
        self._risen: list[tuple[_Gauge, int, int, int]] = []
        """(gauge, resource, the most before, since when) of what rose when it settled last."""

    def _gauge(self) -> "_Gauge":
        return _Gauge(len(self._names), self._begin_s, self._horizon_s)

    def settle(self, now_s: int, fleet: SimulatedFleet) -> None:
        """From `now_s` on the fleet is as it is now: everything of that instant has happened."""
        again: Sequence[tuple[_Gauge, int]] = ()
        if now_s != self._now_s and (self._measures or now_s <= self._begin_s):  # nearly always
            self._now_s = now_s
            if self._risen:
                self._risen.clear()
        else:
            again = self._go_on(now_s)
        whole, left_s = self._fleet, max(self._horizon_s - max(now_s, self._begin_s), 0)
        held, held_s = whole.used, whole.used_s
        measures, grown = self._measures, False
        for name in fleet.moved:
            gauge = self._gauges.get(name)
            if gauge is None:
                gauge = self._gauges[name] = self._gauge()
            member = fleet.members.get(name)
            if member is not gauge.member or (member and member.resized != gauge.resized):
                self._replace(gauge, member, now_s, left_s)
                grown = measures
                gauge.price = fleet.prices.get(name, 0.0)
            elif fleet.prices and (price := fleet.prices.get(name, 0.0)) != gauge.price:
                gauge.resize(gauge.capacity, now_s)
                if measures:
                    self._enter(gauge, now_s)
                gauge.price = price
            if member is None:
                continue
            used, used_s, taken = gauge.used, gauge.used_s, member.taken
            for at, place in gauge.places:
                amount = taken[place]
                if change := amount - used[at]:
                    used[at] = amount
                    more_s = change * left_s
                    used_s[at] += more_s
                    held[at] += change
                    held_s[at] += more_s
                    if change > 0 and measures:
                        grown = True
                        if amount > gauge.most[at]:
                            self._rise(gauge, at, now_s)
        if grown:
            for at, amount in enumerate(held):
                if amount > whole.most[at]:
                    self._rise(whole, at, now_s)
        if not measures and now_s == self._begin_s:
            self._begin()
        for gauge, at in again:
            if gauge.used[at] > gauge.most[at]:
                self._rise(gauge, at, now_s)
        fleet.moved.clear()

    def _go_on(self, now_s: int) -> list[tuple["_Gauge", int]]:
        """What the fleet holds it has held until now, unless it settled at this very instant: then
        nothing of that has stood. Returns what rose then."""
        again: list[tuple[_Gauge, int]] = []
        if now_s == self._now_s:
            for gauge, at, most, since_s in reversed(self._risen):
                gauge.most[at], gauge.most_since_s[at] = most, since_s
                again.append((gauge, at))
        self._risen.clear()
        self._now_s = now_s
        if not self._measures and now_s > self._begin_s:
            self._begin()
            self._risen.clear()
        return again

    def _begin(self) -> None:
        """What is held now is held from the first instant that is measured."""
        self._measures = True
        for gauge in (self._fleet, *self._gauges.values()):
            self._enter(gauge, self._begin_s)

    def _enter(self, gauge: "_Gauge", since_s: int) -> None:
        for at, amount in enumerate(gauge.used):
            if amount > gauge.most[at]:
                self._rise(gauge, at, since_s)

    def _rise(self, gauge: "_Gauge", at: int, since_s: int) -> None:
        self._risen.append((gauge, at, gauge.most[at], gauge.most_since_s[at]))
        gauge.most[at], gauge.most_since_s[at] = gauge.used[at], since_s

    def _replace(self, gauge: "_Gauge", member: Member | None, now_s: int, left_s: int) -> None:
        """The cluster has come or gone, or has other nodes."""
        sizes, gauge.places = [0] * len(self._names), []
        if member is not None:
            sizes = [member.total(name) for name in self._names]
            gauge.places = [
                (at, member.names.index(name))
                for at, name in enumerate(self._names)
                if name in member.names
            ]
        changes = [size - former for size, former in zip(sizes, gauge.capacity, strict=True)]
        whole = self._fleet
        # At its new capacity a gauge starts with what it then holds.
        gauge.resize(sizes, now_s)
        whole.resize(
            [have + more for have, more in zip(whole.capacity, changes, strict=True)], now_s
        )
        gauge.member, gauge.there = member, member is not None
        gauge.resized = member.resized if member is not None else 0
        taken = dict.fromkeys(range(len(self._names)), 0)
        if member is not None:
            taken |= {at: member.taken[place] for at, place in gauge.places}
        for at, amount in taken.items():
            for each in (gauge, whole):
                each.used_s[at] += (amount - gauge.used[at]) * left_s
            whole.used[at] += amount - gauge.used[at]
            gauge.used[at] = amount
        if self._measures:
            self._enter(gauge, now_s)

    def held(self, end_s: int) -> tuple[Held, ...]:
        """What was held and there until `end_s`: of the fleet first, then of each cluster by name.
        To be called once.
        """
        self._go_on(end_s)
        every: list[Held] = []
        for name, gauge in [(FLEET, self._fleet), *sorted(self._gauges.items())]:
            gauge.resize(gauge.capacity, end_s)
            every += gauge.sums(name, self._names)
        return tuple(every)

    def costs(self) -> dict[str, Fraction]:
        """Cluster -> what its nodes cost, without those of its autoscaler; of what `held` was asked
        for."""
        return {name: gauge.cost for name, gauge in sorted(self._gauges.items())}


class _Gauge:
    """Amounts of one cluster, or of the fleet, in the order of the meter's resources."""

    def __init__(self, width: int, begin_s: int, horizon_s: int) -> None:
        self._begin_s, self._horizon_s = begin_s, horizon_s
        self._resized_s = 0
        self.used = [0] * width
        self.used_s = [0] * width
        """Amount times seconds, as if all stood to the end."""
        self.capacity = [0] * width
        self.there = False
        self.member: Member | None = None
        self.resized = 0
        """Of the member, when its capacity was looked at."""
        self.places: list[tuple[int, int]] = []
        """(resource, its place among those of the member), of those that it has."""
        self.price, self.cost = 0.0, Fraction(0)
        self._whole_s, self._there_s = [0] * width, 0
        self.most, self.most_since_s = [0] * width, [begin_s] * width
        """Since the capacity is what it is."""
        self._peak, self._peak_share = [0] * width, [0.0] * width
        self._peak_since_s = [begin_s] * width

    def resize(self, capacity: list[int], now_s: int) -> None:
        lasted_s = max(min(now_s, self._horizon_s) - max(self._resized_s, self._begin_s), 0)
        self._there_s += lasted_s if self.there else 0
        if self.price and self.member is not None:
            hours = Fraction(self.member.nodes * lasted_s, HOUR_S)
            self.cost += Fraction(str(self.price)) * hours
        for at, size in enumerate(self.capacity):
            self._whole_s[at] += size * lasted_s
            most, self.most[at] = self.most[at], 0
            self._peak[at] = max(self._peak[at], most)
            if size and most / size > self._peak_share[at]:
                self._peak_share[at] = most / size
                self._peak_since_s[at] = self.most_since_s[at]
        self.capacity, self._resized_s = capacity, now_s

    def sums(self, cluster: str, names: Sequence[str]) -> list[Held]:
        return [
            Held(
                cluster=cluster,
                resource=name,
                there_s=self._there_s,
                capacity_s=self._whole_s[at],
                used_s=self.used_s[at],
                peak=self._peak[at],
                peak_share=self._peak_share[at],
                peak_since_s=self._peak_since_s[at],
            )
            for at, name in enumerate(names)
        ]
