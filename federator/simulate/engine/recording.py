"""What a simulation is told afterwards: lives, samples at equal distances of time, and counts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from federator.model.ask import PodShape
from federator.model.decision import Share
from federator.model.quickly import likewise, quickly
from federator.model.resources import CPU, GPU, MEMORY
from federator.simulate import grown
from federator.simulate.demand import Work
from federator.simulate.engine.lacking import Lack
from federator.simulate.engine.members.member import Member
from federator.simulate.engine.meter import Meter
from federator.simulate.engine.running import Running
from federator.simulate.engine.shapes import MIB
from federator.simulate.engine.simulation import Simulation
from federator.simulate.inputs import Event, EventKind, Inputs
from federator.simulate.outcome import (
    ONE_NODE,
    End,
    GrownNode,
    Happened,
    Held,
    Life,
    Placed,
    Sample,
    SimulationResult,
)

SAMPLES: Final = 400
"""Samples over the time in which works are submitted; the time after has them at the same distance.
"""
SAMPLES_MAX: Final = 4_000
_UNITS: Final = {CPU: 1, MEMORY: MIB, GPU: 1}
_SHOWN: Final = {CPU: "cpu", MEMORY: "memory", GPU: "gpu"}


_life, _at = quickly(Life), likewise(Sample, "at_s")
_NOTHING: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class _Stock:
    """What a member holds and has, as it stood after so many of its moves."""

    member: Member
    moves: int
    used: tuple[int, ...]
    capacity: tuple[int, ...]


class Recording:
    """Takes notes while a simulation runs."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.cycles = 0
        works = inputs.works
        self._start_s = min(
            [work.submit_s for work in works[:1]]
            + [event.at_s for event in inputs.events[:1]]
            + [0]
        )
        last_s = max((work.submit_s for work in works[-1:]), default=0)
        end_s = inputs.end_s if inputs.end_s is not None else last_s
        self._step_s = max((end_s - self._start_s) // SAMPLES, 1)
        self._next_s = self._start_s
        self._samples: list[Sample] = []
        self._lives: dict[str, Life] = {}
        self._happened: list[Happened] = []
        self._placed: list[Placed] = []
        self._resources = _recorded(inputs)
        begin_s = self._start_s + inputs.warm_up_s
        self._meter = Meter(self._resources, begin_s, inputs.horizon_s)
        self._stocks: dict[str, _Stock] = {}

    def reach(self, now_s: int, simulation: Simulation) -> None:
        """Time goes on to `now_s`: what stands now stood at every instant before it."""
        standing: Sample | None = None
        while self._next_s < now_s:
            standing = _at(standing or self._sample(simulation), self._next_s)
            self._samples.append(standing)
            if len(self._samples) >= SAMPLES_MAX:
                self._thin()
            behind = (now_s - 1 - self._next_s) // self._step_s if not simulation.live else 0
            # An idle fleet needs no samples but the last.
            self._next_s += self._step_s * max(behind, 1)

    def settle(self, simulation: Simulation) -> None:
        """Everything of this instant has happened."""
        if simulation.fleet.moved:
            self._meter.settle(simulation.now_s, simulation.fleet)

    def happen(self, event: Event, copies: int) -> None:
        """An event happened, and so many copies lost their place, or are asked for beside those
        before.
        """
        if event.scaled is not None:
            self._happened.append(
                Happened(event.at_s, event.kind.value, event.scaled.subject, asked=copies)
            )
            return
        subject = event.cluster or event.kind.value.removesuffix("Changed")
        self._happened.append(Happened(event.at_s, event.kind.value, subject, copies))

    def placed(self, running: Running, shares: Iterable[Share], now_s: int) -> None:
        """A decision is about to be in force for a recorded workload."""
        given = {share.cluster: share.count for share in shares}
        if given != {share.cluster: share.count for share in running.shares}:
            self._placed.append(Placed(now_s, running.work.id, given))

    def ended(self, running: Running, now_s: int) -> None:
        """A work has run to its end, or failed for good, and was closed at that time."""
        how = End.FAILED if running.failed else End.COMPLETED
        self._lives[running.work.id] = self._life(running, how, now_s)

    def outcome(self, simulation: Simulation) -> SimulationResult:
        """Closes what is open, and tells all."""
        held = tuple(map(_shown, self._meter.held(max(simulation.now_s, self.inputs.horizon_s))))
        for running in simulation.live.values():
            running.end(None)
            self._lives[running.work.id] = self._life(running, _how(running, simulation), None)
        submitted = (work for work in self.inputs.works if work.id in self._lives)
        scaling = simulation.scaling
        prices = tuple(scaling.prices) if scaling is not None else ()
        priced = any(event.kind is EventKind.PRICE_CHANGED for event in self.inputs.events)
        priced = priced or any(price.per_hour for price in prices)
        return SimulationResult(
            name=self.inputs.name,
            seed=self.inputs.seed,
            drawn=self.inputs.drawn,
            start_s=self._start_s,
            end_s=simulation.now_s,
            warm_up_s=self.inputs.warm_up_s,
            horizon_s=self.inputs.horizon_s,
            origin_s=self.inputs.origin_s,
            resources=tuple(_SHOWN[name] for name in self._resources),
            lives=tuple(self._lives[work.id] for work in submitted),
            samples=tuple(self._samples),
            held=held,
            happened=tuple(self._happened),
            placed=tuple(self._placed),
            wanted=self.inputs.measures,
            recorded=self.inputs.recorded,
            decisions=simulation.seq,
            cycles=self.cycles,
            price_per_hour=simulation.fleet.prices,
            costs=self._costs(simulation) if self.inputs.price_per_hour or priced else None,
            grown=scaling.lives() if scaling is not None else None,
            node_prices=prices,
            assumptions=(*self.inputs.assumptions, *_assumptions(self.inputs)),
        )

    def _costs(self, simulation: Simulation) -> Mapping[str, int]:
        """Cluster -> hundredths that its nodes cost, those of its autoscaler too."""
        costs = self._meter.costs()
        scaling, begin_s = simulation.scaling, self._start_s + self.inputs.warm_up_s
        if scaling is None:
            return {name: round(cost * 100) for name, cost in costs.items()}
        nodes: dict[str, list[GrownNode]] = {}
        for node in scaling.lives():
            nodes.setdefault(node.cluster, []).append(node)
        for name, its in nodes.items():
            costs[name] += grown.cost(its, scaling.prices, begin_s, self.inputs.horizon_s)
        return {name: round(cost * 100) for name, cost in costs.items()}

    def _life(self, running: Running, how: End, end_s: int | None) -> Life:
        return _life(
            work=running.work,
            end=how,
            start_s=running.start_s,
            end_s=end_s,
            stays=tuple(running.stays),
            waits=tuple(running.waits),
            restarts=running.restarts,
            lost_s=running.lost_s,
            preempted=running.preempted,
            preempted_s=running.preempted_s,
            failures=running.failures,
            failed_s=running.failed_s,
            backoff_s=running.backoff_s,
            scalings=running.scalings,
            scaled_late=running.scaled_late,
            waited_for_nodes=running.waited_for_nodes,
        )

    def _sample(self, simulation: Simulation) -> Sample:
        stocks = {
            name: self._stock(name, member) for name, member in simulation.fleet.members.items()
        }
        used = {name: stock.used for name, stock in stocks.items()}
        capacity: Mapping[str, tuple[int, ...]] = {
            name: stock.capacity for name, stock in stocks.items()
        }
        if self._samples and self._samples[-1].capacity == capacity:
            capacity = self._samples[
                -1
            ].capacity  # one for all samples between which no cluster changed
        groups = list(simulation.waiting.grouped())
        fragmented = sum(
            group.copies
            for group in groups
            if _is_fragmented(group.shape, group.missing, simulation)
        )
        return Sample(
            0,
            used,
            capacity,
            waiting=len(simulation.waiting),
            waiting_copies=sum(group.copies for group in groups),
            fragmented=fragmented,
            lacking=_lacking(groups, list(stocks.values()), self._resources),
        )

    def _stock(self, name: str, member: Member) -> _Stock:
        """Counted again where copies came or went since the last sample."""
        stock = self._stocks.get(name)
        if stock is not None and stock.member is member and stock.moves == member.moves:
            return stock
        capacity = tuple(member.total(each) // _UNITS[each] for each in self._resources)
        left = tuple(member.left(each) // _UNITS[each] for each in self._resources)
        used = tuple(size - free for size, free in zip(capacity, left, strict=True))
        self._stocks[name] = made = _Stock(member, member.moves, used, capacity)
        return made

    def _thin(self) -> None:
        """Every other sample goes, and the distance doubles: a long tail does not fill the
        memory.
        """
        self._samples = self._samples[::2]
        self._step_s *= 2


def _shown(held: Held) -> Held:
    """With the names and units of reports."""
    unit = _UNITS[held.resource]
    return replace(
        held,
        resource=_SHOWN[held.resource],
        capacity_s=held.capacity_s // unit,
        used_s=held.used_s // unit,
        peak=held.peak // unit,
    )


def _lacking(
    waiting: Iterable[Lack], stocks: Sequence[_Stock], resources: Sequence[str]
) -> Mapping[str, int]:
    """What works that wait for capacity lack most, by copies. A gang is looked at as a whole, of
    others the next copy.
    """
    alike: Counter[tuple[PodShape, int]] = Counter()
    for group in waiting:
        if group.for_room:
            alike[group.shape, group.together] += group.copies
    if not alike or not stocks or not resources:
        return _NOTHING
    left = np.array([stock.capacity for stock in stocks]) - np.array(
        [stock.used for stock in stocks]
    )
    lacking: Counter[str] = Counter()
    for (shape, together), copies in sorted(alike.items(), key=lambda item: item[0][1]):
        need = [-(-shape.requests[name] * together // _UNITS[name]) for name in resources]
        asked = np.array(need) > 0
        if not asked.any():
            continue
        parts = left[:, asked] / np.array(need)[asked]
        nearest = parts[parts.min(axis=1).argmax()]
        names = [_SHOWN[name] for name, amount in zip(resources, need, strict=True) if amount > 0]
        lacking[names[int(nearest.argmin())] if nearest.min() < 1 else ONE_NODE] += copies
    return dict(sorted(lacking.items()))


def _recorded(inputs: Inputs) -> tuple[str, ...]:
    """The resources that the fleet has or the demand asks for."""
    sizes = [
        size
        for view in inputs.clusters.values()
        for size in (
            *(row.allocatable for row in (view.capacity.rows if view.capacity else ())),
            *(each.allocatable for each in view.scale_up),
        )
    ]
    asked = {CPU: "cpu_milli", MEMORY: "memory_mib", GPU: "gpu"}
    return tuple(
        name
        for name, column in asked.items()
        if any(name in size for size in sizes)
        or any(getattr(work, column) for work in inputs.works)
    )


def _is_fragmented(shape: PodShape, missing: int, simulation: Simulation) -> bool:
    """Whether one cluster has what copies lack in its free amounts added up, and not on its
    nodes.
    """
    return any(
        all(
            member.left(name) >= amount * missing
            for name, amount in shape.requests.items()
            if name in _UNITS
        )
        and member.room(shape) < missing
        for member in simulation.fleet.members.values()
    )


def _how(running: Running, simulation: Simulation) -> End:
    if not running.missing:
        return End.RUNNING
    if any(
        member.could_hold(running.ask.shape, running.ask.slots)
        for member in simulation.fleet.members.values()
    ):
        return End.WAITING
    sizes = [
        member
        for member in simulation.fleet.members.values()
        if member.could_hold(running.ask.shape, 1)
    ]
    return End.UNPLACEABLE if running.is_job or not sizes else End.WAITING


def _assumptions(inputs: Inputs) -> Iterable[str]:
    """What the engine leaves out of what it was given."""
    works: tuple[Work, ...] = inputs.works
    for column, shown in (("cpu_milli", "cpu"), ("memory_mib", "memory"), ("gpu", "GPUs")):
        lacking = sum(getattr(work, column) is None for work in works)
        if lacking:
            yield (
                f"{lacking:,} of {len(works):,} works record no {shown}: they are taken to need "
                "none."
            )
    if any(event.kind is EventKind.DRAINED for event in inputs.events):
        yield (
            "A drained cluster is emptied at 300 copies a minute, and job sets run on there for "
            "an hour at most."
        )
    if inputs.grows:
        yield (
            "Nodes are ordered for copies that no node has room for, of the class that the hub "
            "assumes: each copy once. They come after exactly the stated minutes, and are removed "
            f"after {inputs.idle_s // 60} min without copies."
        )
    if any(work.failing is not None for work in works):
        yield (
            "A job that fails stays in its places until its next attempt begins: 10 s, then "
            "twice as long each time."
        )
    yield (
        "Members report at once, copies are ready as soon as they are bound, and only what the "
        "input says fails."
    )
