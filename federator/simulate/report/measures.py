"""What a simulation's outcome amounts to: waiting, use, shortfall, moves and cost, as numbers that
every form of the report shows. Measures leave out the warm-up; time is in whole seconds.
"""

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federator.simulate.demand import Work
from federator.simulate.outcome import FLEET, End, Held, Life, SimulationResult
from federator.simulate.report import amounts, costing, growing, moving
from federator.simulate.report.amounts import Clock
from federator.simulate.report.costing import Bill
from federator.simulate.report.growing import NodeClassUse

POINTS_MAX: Final = 240
"""Points of a line in a chart; of more samples each point takes the worst of several."""
CDF_POINTS: Final = 60
ALL: Final = "all"
SUMMED: Final = (
    "restarts",
    "lost_s",
    "preempted",
    "preempted_s",
    "failures",
    "failed_s",
    "scalings",
    "scaled_late",
    "waited_for_nodes",
)
"""Fields of lives that are added up under their names."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long the works of one group waited for their first start."""

    group: str
    works: int
    started: int
    waited: int
    """Works that started later than they were submitted."""
    sum_s: int
    p50_s: int
    """Percentiles are over works that started."""
    p90_s: int
    p99_s: int
    max_s: int
    never: int
    """Works that did not start before the end of the simulation."""
    curve: tuple[tuple[int, float], ...] = ()
    """(seconds, share of all works of the group that started within them), rising."""


@dataclass(frozen=True, slots=True)
class Use:
    """One resource of one cluster, or of the fleet, over time."""

    cluster: str
    resource: str
    capacity: float
    """Mean, in the unit that people read, over the time that the cluster was there."""
    mean: float
    """Share that copies held of what was there, by time: 0 to 1."""
    peak: float
    """The largest share that they held at once for at least a second: exact, not by samples."""
    peak_amount: float
    """The most that they held at once, in the unit that people read."""


@dataclass(frozen=True, slots=True)
class Line:
    """Amounts over time, one for each of `Measures.times`."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Lack:
    """What one reason cost."""

    reason: str
    works: int
    """Works that waited for it at some time."""
    copy_s: int
    """Missing copies times seconds."""


@dataclass(frozen=True, slots=True)
class Scarce:
    """What copies that waited for capacity lacked most, by the samples."""

    what: str
    """A resource, or ONE_NODE."""
    copy_s: int
    peak: int
    """Copies at once, at most."""


@dataclass(frozen=True, slots=True)
class Measures:
    """All numbers of a report."""

    outcome: SimulationResult
    begin_s: int
    """Means, sums and cost are from here to the outcome's horizon."""
    length_s: int
    """From there to the horizon."""
    works: int
    """Measured works: submitted after the warm-up, and not after the horizon."""
    ends: Mapping[str, int]
    """End -> works."""
    waiting: Waiting
    by_project: tuple[Waiting, ...]
    by_tier: tuple[Waiting, ...]
    fleet: tuple[Use, ...]
    """One for each resource."""
    clusters: tuple[Use, ...]
    """For each cluster and resource, by name."""
    times: tuple[int, ...]
    every: int
    """Samples that one point of a line stands for."""
    demand: Mapping[str, Line] = field(default_factory=dict)
    """Resource -> held and missing together, in the unit that people read."""
    used: Mapping[str, Line] = field(default_factory=dict)
    capacity: Mapping[str, Line] = field(default_factory=dict)
    heat: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    """Resource -> for each cluster the share in use, 0 to 1; -1 where the cluster was not there."""
    lacking: tuple[Line, ...] = ()
    """Missing copies by reason."""
    fragmented: tuple[float, ...] = ()
    moved: tuple[float, ...] = ()
    """Copies that moved since the point before."""
    lacks: tuple[Lack, ...] = ()
    scarce: tuple[Scarce, ...] = ()
    """The most copy-hours first."""
    bill: Bill = field(default_factory=Bill)
    clock: Clock = field(default_factory=Clock)
    """Instants, counted from the start."""
    moves: int = 0
    """Copies that moved (`moving`)."""
    displaced: int = 0
    """Copies that were lost with their cluster."""
    restarts: int = 0
    lost_s: int = 0
    preempted: int = 0
    """How often works gave up places so that others got their quota."""
    preempted_s: int = 0
    failures: int = 0
    """Attempts of jobs that failed."""
    failed_s: int = 0
    scalings: int = 0
    """How often services asked for another number of copies."""
    scaled_late: int = 0
    waited_for_nodes: int = 0
    """Copies that waited for nodes which a cluster added."""
    grown: tuple[NodeClassUse, ...] = ()
    """Nodes of autoscalers, by cluster and class; none where no cluster can grow."""


def measure(outcome: SimulationResult) -> Measures:
    """The numbers of a simulation's report."""
    begin = outcome.start_s + outcome.warm_up_s
    lives = [life for life in outcome.lives if begin <= life.work.submit_s <= outcome.horizon_s]
    kept = [at for at, sample in enumerate(outcome.samples) if sample.at_s >= begin]
    every = max(-(-len(kept) // POINTS_MAX), 1)
    groups = [kept[at : at + every] for at in range(0, len(kept), every)]
    times = tuple(outcome.samples[group[0]].at_s for group in groups)
    missing = _missing(outcome)
    moves = [
        (at_s, copies)
        for life in outcome.lives
        if len(life.stays) > 1
        for at_s, copies in moving.moves(life)
        if at_s >= begin
    ]
    uses = list(map(_use, outcome.held))
    return Measures(
        outcome=outcome,
        begin_s=begin,
        length_s=max(outcome.horizon_s - begin, 0),
        works=len(lives),
        ends={end.value: sum(life.end is end for life in lives) for end in End},
        waiting=waits(ALL, lives),
        by_project=_grouped(lives, lambda work: work.project or costing.NO_PROJECT),
        by_tier=_grouped(lives, lambda work: work.tier.value),
        fleet=tuple(use for use in uses if use.cluster == FLEET),
        clusters=tuple(use for use in uses if use.cluster != FLEET),
        times=times,
        every=every,
        **_lines(outcome, groups, missing),
        heat=_heat(outcome, groups),
        lacking=_by_reason(outcome, times),
        fragmented=tuple(
            float(max(outcome.samples[at].fragmented for at in group)) for group in groups
        ),
        bill=costing.bill(outcome),
        clock=Clock(outcome.origin_s + outcome.start_s if outcome.origin_s else 0),
        moves=sum(copies for _, copies in moves),
        moved=_by_point(moves, times),
        displaced=sum(
            copies
            for life in outcome.lives
            for at_s, copies in moving.displaced(life)
            if at_s >= begin
        ),
        lacks=_lacks(lives, outcome.horizon_s),
        scarce=_scarce(outcome, begin),
        grown=growing.classes(outcome),
        **{name: sum(getattr(life, name) for life in lives) for name in SUMMED},
    )


def waits(group: str, lives: Sequence[Life]) -> Waiting:
    """How long some works waited. The curve ends below 1 where works never started."""
    ordered = sorted(wait for life in lives if (wait := life.wait_s) is not None)
    steps = sorted({len(ordered) * step // CDF_POINTS for step in range(1, CDF_POINTS + 1)} - {0})
    begun = sum(wait == 0 for wait in ordered)
    curve = dict([(0, begun / len(lives))] if lives else [])
    curve |= {ordered[at - 1]: at / len(lives) for at in steps if ordered[at - 1]}
    return Waiting(
        group=group,
        works=len(lives),
        started=len(ordered),
        waited=len(ordered) - begun,
        sum_s=sum(ordered),
        p50_s=amounts.percentile(ordered, 50),
        p90_s=amounts.percentile(ordered, 90),
        p99_s=amounts.percentile(ordered, 99),
        max_s=ordered[-1] if ordered else 0,
        never=len(lives) - len(ordered),
        curve=tuple(curve.items()),
    )


def _grouped(lives: Sequence[Life], name: Callable[[Work], str]) -> tuple[Waiting, ...]:
    """One for each group, those that waited longest in all first."""
    groups: dict[str, list[Life]] = defaultdict(list)
    for life in lives:
        groups[name(life.work)].append(life)
    rows = [waits(group, of) for group, of in sorted(groups.items())]
    return tuple(sorted(rows, key=lambda row: (-row.never, -row.sum_s, row.group)))


# -- use -------------------------------------------------------------------------------------------


def _use(held: Held) -> Use:
    unit = held.resource
    return Use(
        held.cluster,
        held.resource,
        amounts.people(unit, held.capacity_s / held.there_s) if held.there_s else 0.0,
        held.used_s / held.capacity_s if held.capacity_s else 0.0,
        held.peak_share,
        amounts.people(unit, held.peak),
    )


# -- over time -------------------------------------------------------------------------------------


def _missing(outcome: SimulationResult) -> list[tuple[int, ...]]:
    """For each sample what works that wait lack of each resource."""
    return _over_time(
        [sample.at_s for sample in outcome.samples],
        len(outcome.resources),
        (
            (
                wait.start_s,
                wait.end_s,
                tuple(
                    wait.copies * costing.per_copy(life.work, name) for name in outcome.resources
                ),
            )
            for life in outcome.lives
            for wait in life.waits
        ),
    )


def _over_time(
    times: Sequence[int], width: int, spans: Iterable[tuple[int, int | None, tuple[int, ...]]]
) -> list[tuple[int, ...]]:
    """The sum of the spans that are open at each time; a span is (first second, second after the
    last, amounts).
    """
    changes: dict[int, list[int]] = {}
    for start, end, given in spans:
        for at_s, sign in ((start, 1), (end, -1)):
            if at_s is not None:
                row = changes.setdefault(at_s, [0] * width)
                for at, amount in enumerate(given):
                    row[at] += sign * amount
    agenda = sorted(changes)
    total, position = [0] * width, 0
    totals: list[tuple[int, ...]] = []
    for at_s in times:
        while position < len(agenda) and agenda[position] <= at_s:
            total = [
                amount + more for amount, more in zip(total, changes[agenda[position]], strict=True)
            ]
            position += 1
        totals.append(tuple(total))
    return totals


def _lines(
    outcome: SimulationResult, groups: Sequence[Sequence[int]], missing: Sequence[tuple[int, ...]]
) -> dict[str, Any]:
    """Demand, use and capacity by resource: of several samples the most that was asked and used,
    and the least that was there.
    """
    lines: dict[str, dict[str, Line]] = {"demand": {}, "used": {}, "capacity": {}}
    for at, resource in enumerate(outcome.resources):
        held = [sum(row[at] for row in sample.used.values()) for sample in outcome.samples]
        there = [sum(row[at] for row in sample.capacity.values()) for sample in outcome.samples]
        asked = [amount + lacking[at] for amount, lacking in zip(held, missing, strict=True)]
        for name, values, worst in (
            ("demand", asked, max),
            ("used", held, max),
            ("capacity", there, min),
        ):
            picked = tuple(
                amounts.people(resource, worst(values[index] for index in group))
                for group in groups
            )
            lines[name][resource] = Line(name, picked)
    return lines


def _heat(
    outcome: SimulationResult, groups: Sequence[Sequence[int]]
) -> dict[str, tuple[Line, ...]]:
    names = sorted({name for sample in outcome.samples for name in sample.capacity})

    def part(name: str, at: int, index: int) -> float:
        sample = outcome.samples[index]
        capacity = sample.capacity.get(name)
        if capacity is None:
            return -1.0
        return sample.used[name][at] / capacity[at] if capacity[at] and name in sample.used else 0.0

    return {
        resource: tuple(
            Line(name, tuple(max(part(name, at, index) for index in group) for group in groups))
            for name in names
        )
        for at, resource in enumerate(outcome.resources)
    }


def _by_reason(outcome: SimulationResult, times: Sequence[int]) -> tuple[Line, ...]:
    reasons = sorted({wait.reason for life in outcome.lives for wait in life.waits})
    number = {reason: at for at, reason in enumerate(reasons)}
    rows = _over_time(
        times,
        len(reasons),
        (
            (
                wait.start_s,
                wait.end_s,
                tuple(wait.copies * (at == number[wait.reason]) for at in range(len(reasons))),
            )
            for life in outcome.lives
            for wait in life.waits
        ),
    )
    return tuple(
        Line(reason, tuple(float(row[at]) for row in rows)) for at, reason in enumerate(reasons)
    )


def _by_point(changes: Iterable[tuple[int, int]], times: Sequence[int]) -> tuple[float, ...]:
    """What came since the point before, by point; what came after the last one is in it."""
    by_point = [0.0] * len(times)
    for at_s, copies in changes:
        if times:
            by_point[min(bisect.bisect_left(times, at_s), len(times) - 1)] += copies
    return tuple(by_point)


def _scarce(outcome: SimulationResult, begin_s: int) -> tuple[Scarce, ...]:
    copy_s: Counter[str] = Counter()
    peaks: dict[str, int] = {}
    samples = [sample for sample in outcome.samples if sample.at_s >= begin_s]
    ends = [*(sample.at_s for sample in samples[1:]), outcome.end_s]
    for sample, end_s in zip(samples, ends, strict=False):
        for what, copies in sample.lacking.items():
            copy_s[what] += copies * max(end_s - sample.at_s, 0)
            peaks[what] = max(peaks.get(what, 0), copies)
    ordered = sorted(peaks, key=lambda what: (-copy_s[what], what))
    return tuple(Scarce(what, copy_s[what], peaks[what]) for what in ordered)


def _lacks(lives: Sequence[Life], end_s: int) -> tuple[Lack, ...]:
    works: Counter[str] = Counter()
    copy_s: Counter[str] = Counter()
    for life in lives:
        works.update({wait.reason for wait in life.waits})
        for wait in life.waits:
            copy_s[wait.reason] += wait.copies * max(
                (end_s if wait.end_s is None else wait.end_s) - wait.start_s, 0
            )
    return tuple(
        Lack(reason, works[reason], copy_s[reason])
        for reason in sorted(works, key=lambda reason: (-copy_s[reason], reason))
    )
