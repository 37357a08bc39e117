"""The headline figures of a simulation, its verdict in one sentence, and how two simulations
differ.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from federator.model.errors import FieldError
from federator.simulate.outcome import (
    FLEET,
    FOR_CAPACITY,
    WAITING_KEYS,
    End,
    Held,
    Measure,
    SimulationResult,
)
from federator.simulate.report import amounts, growing
from federator.simulate.report.measures import Measures, Use

HOURS: Final = {
    "cpu": ("cost_per_core_hour", "cost for each core-hour in use"),
    "gpu": ("cost_per_gpu_hour", "cost for each GPU-hour in use"),
}
LARGEST: Final = "largest"
PEAK: Final = "peak"
"""In place of a cluster and a time that are lost: the largest, and when most is in use."""


FIRST: Final = ("never_started", "missing_copy_s", "wait_p99_s", "wait_sum_s", "cost", "moves")
"""Figures that a comparison names first: what is short and what waits before what moves."""
ONE_SEED: Final = "This is one seed; --seeds 8 tells how much of it is chance."
SAME: Final = "same"
UNSURE: Final = "one seed"
"""Verdict on a difference of two simulations that are drawn: it may be chance."""


class Better(StrEnum):
    """Which way a figure is wanted to go."""

    LESS = "less"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its name. `key` is its name for programs."""

    key: str
    name: str
    value: float
    shown: str
    better: Better = Better.LESS


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure of two simulations."""

    key: str
    name: str
    before: str
    after: str
    change: str
    """With its sign; "same" for none."""
    verdict: str
    """`better`, `worse`, `other`, UNSURE, or "" when it is the same."""


def percent(part: float) -> str:
    return amounts.share(part, 1)


def money(value: float) -> str:
    return f"{value:,.2f}"


def shown(key: str, value: float) -> str:
    """A figure's value as people read it."""
    if key.startswith("use_"):
        return percent(value)
    for unit in ("copy", "node"):
        if key.endswith(f"{unit}_s"):
            return f"{amounts.whole(value / 3600)} {unit}-hours"
    return (
        money(value)
        if key.startswith("cost")
        else amounts.length(value)
        if key.endswith("_s")
        else amounts.whole(value)
    )


def figures(measures: Measures) -> tuple[Figure, ...]:
    """What a planner looks at first, in that order."""
    waiting = measures.waiting
    less, neither = Better.LESS, Better.NEITHER
    rows: list[tuple[str, str, float, Better]] = [
        ("works", "works", measures.works, neither),
        ("completed", "completed", measures.ends[End.COMPLETED.value], neither),
        ("running", "running at the end", measures.ends[End.RUNNING.value], neither),
        ("waiting", "waiting at the end", measures.ends[End.WAITING.value], less),
        ("unplaceable", "larger than any cluster", measures.ends[End.UNPLACEABLE.value], less),
        ("never_started", "never started", waiting.never, less),
        ("waited", "started late", waiting.waited, less),
        ("wait_p50_s", "waiting, half within", waiting.p50_s, less),
        ("wait_p90_s", "waiting, 90 of 100 within", waiting.p90_s, less),
        ("wait_p99_s", "waiting, 99 of 100 within", waiting.p99_s, less),
        ("wait_max_s", "longest wait", waiting.max_s, less),
        ("wait_sum_s", "waiting, summed over works", waiting.sum_s, less),
        (
            "missing_copy_s",
            "missing copies times time",
            sum(lack.copy_s for lack in measures.lacks),
            less,
        ),
        (
            "fragmented_peak",
            "copies kept out by fragmentation, most at a sample",
            max(measures.fragmented, default=0),
            less,
        ),
        ("moves", "copies moved", measures.moves, less),
        ("displaced", "copies lost with their cluster", measures.displaced, less),
        ("restarts", "restarts after lost clusters", measures.restarts, less),
        ("lost_s", "run time lost with clusters", measures.lost_s, less),
        ("preempted", "made way for another's quota", measures.preempted, less),
        ("preempted_s", "run time lost by making way", measures.preempted_s, less),
        ("failures", "attempts that failed", measures.failures, less),
        ("failed", "failed for good", measures.ends[End.FAILED.value], less),
        ("failed_s", "run time lost with failures", measures.failed_s, less),
        ("scalings", "times a service was scaled", measures.scalings, neither),
        ("scaled_late", "scaled up without room at once", measures.scaled_late, less),
    ]
    rows += (row for use in measures.fleet for row in _of_use(use))
    rows += _of_cost(measures)
    rows += _of_growth(measures)
    return tuple(
        Figure(key, name, value, shown(key, value), better) for key, name, value, better in rows
    )


def _of_cost(measures: Measures) -> Iterator[tuple[str, str, float, Better]]:
    """Nothing without prices; nothing for each hour of a resource that nobody used."""
    if measures.outcome.costs is None:
        return
    whole, idle = measures.bill.whole / 100, measures.bill.idle / 100
    yield "cost", "cost", whole, Better.LESS
    yield "cost_idle", "cost of what nobody held", idle, Better.LESS
    for use in measures.fleet:
        hours = use.mean * use.capacity * measures.length_s / 3600
        if hours and use.resource in HOURS:
            key, name = HOURS[use.resource]
            yield key, name, round(whole / hours, 6), Better.LESS


def _of_growth(measures: Measures) -> Iterator[tuple[str, str, float, Better]]:
    """Nothing where no cluster can grow."""
    if not measures.grown:
        return
    name, late = "copies that waited for nodes", measures.waited_for_nodes
    yield "waited_for_nodes", name, late, Better.LESS
    node_s = sum(each.node_s for each in measures.grown)
    yield "grown_node_s", "nodes added, times time", node_s, Better.NEITHER
    most = growing.peak(measures.outcome)
    yield "grown_peak", "nodes added, most at once", most, Better.NEITHER
    if measures.outcome.costs is not None:
        cents = sum(each.cents for each in measures.grown)
        yield "cost_grown", "cost of nodes added", cents / 100, Better.LESS


def costs(measures: Measures) -> list[tuple[str, str, int]]:
    """(`cluster`, `project` or `tier`, group, hundredths), those that cost most first in each."""
    return [
        (by, group, cents)
        for by, groups in measures.bill.groups.items()
        for group, cents in sorted(groups.items(), key=lambda item: (-item[1], item[0]))
    ]


def grown(measures: Measures) -> list[list[str]]:
    """The nodes that autoscalers added, in the columns of `growing.HEADERS`."""
    return [
        [
            use.cluster,
            use.node_class,
            f"{use.ordered:,}",
            f"{use.came:,}",
            f"{use.removed:,}",
            f"{use.peak:,}",
            amounts.whole(use.node_s / 3600),
            money(use.per_hour),
            money(use.cents / 100),
        ]
        for use in measures.grown
    ]


def window(measures: Measures) -> str:
    """Of which time means and cost are, in one sentence."""
    start_s, clock = measures.outcome.start_s, measures.clock
    begin, end = (
        clock.at(at_s - start_s) for at_s in (measures.begin_s, measures.outcome.horizon_s)
    )
    of = "Means" if measures.outcome.costs is None else "Means and cost"
    return f"{of} are of the time from {begin} to {end}{' (UTC)' if clock.origin_s else ''}."


def _of_use(use: Use) -> Iterator[tuple[str, str, float, Better]]:
    what, unit, neither = use.resource, amounts.unit(use.resource), Better.NEITHER
    yield f"capacity_{what}", f"{what} there, mean ({unit})", use.capacity, neither
    yield f"use_mean_{what}", f"{what} in use, mean", use.mean, neither
    yield f"use_peak_{what}", f"{what} in use, peak", use.peak, neither
    yield f"used_peak_{what}", f"{what} in use, at most ({unit})", use.peak_amount, neither


TILES: Final = (
    "never_started",
    "waited",
    "wait_p99_s",
    "missing_copy_s",
    "use_mean",
    "use_peak",
    "cost",
    "displaced",
    "moves",
    "lost_s",
    "preempted_s",
    "failed_s",
    "scaled_late",
    "works",
)
"""Figures at the head of a page, what is short and what waits first; `use_*` of the scarcest
resource."""
TILES_MAX: Final = 8


def scarcest_first(measures: Measures) -> list[str]:
    """The resources: what copies lacked most, then what is in use most."""
    lacked = [shortage.what for shortage in measures.scarce]
    use = {each.resource: each.mean for each in measures.fleet}

    def order(resource: str) -> tuple[int, float, str]:
        place = lacked.index(resource) if resource in lacked else len(lacked)
        return place, -use.get(resource, 0.0), resource

    return sorted(measures.outcome.resources, key=order)


def tiles(measures: Measures) -> list[Figure]:
    """At most eight figures to look at first; none of them is zero."""
    scarcest = next(iter(scarcest_first(measures)), "")
    by_key = {figure.key: figure for figure in figures(measures) if figure.value}
    keys = [f"{key}_{scarcest}" if key.startswith("use_") else key for key in TILES]
    return [by_key[key] for key in keys if key in by_key][:TILES_MAX]


def values(measures: Measures) -> dict[str, Any]:
    """Figure -> number, for programs."""
    return {figure.key: figure.value for figure in figures(measures)}


@dataclass(frozen=True, slots=True)
class Replay:
    """The decisions of a simulation beside those of the live federation that was recorded."""

    recorded: int
    """Decisions of the recording."""
    same: int
    """So many at the beginning are the same, in the same order."""
    sentence: str

    @property
    def whole(self) -> bool:
        """Whether the simulation decided exactly as the federation did."""
        return self.same == self.recorded


def replay(outcome: SimulationResult) -> Replay | None:
    """How far the simulation of a recording decides as the federation did: which workload, and how
    many copies in which clusters, one decision after the other. None without a recording.
    """
    recorded = [(decision.work, dict(decision.clusters)) for decision in outcome.recorded]
    made = [(decision.work, dict(decision.clusters)) for decision in outcome.placed]
    if not recorded:
        return None
    pairs = enumerate(zip(recorded, made, strict=False))
    same = next((at for at, (was, now) in pairs if was != now), min(len(recorded), len(made)))
    if recorded == made:
        taken = (
            f"all {len(recorded):,} recorded decisions were"
            if len(recorded) > 1
            else "the recorded decision was"
        )
        return Replay(len(recorded), same, f"{taken} taken again, in the same order")
    was = _decision(*recorded[same]) if same < len(recorded) else "nothing more"
    now = _decision(*made[same]) if same < len(made) else "nothing more"
    kept = min(same, len(recorded) - 1)
    return Replay(
        len(recorded),
        kept,
        f"{kept:,} of {len(recorded):,} recorded decisions were taken again in the same "
        "order, then the federation"
        f" decided {was}, and the simulation {now}",
    )


def _decision(work: str, clusters: Mapping[str, int]) -> str:
    where = (
        ", ".join(f"{cluster} {count}" for cluster, count in sorted(clusters.items())) or "nowhere"
    )
    return f"{work}: {where}"


@dataclass(frozen=True, slots=True)
class Judged:
    """A measure of the scenario, and whether it is within its bounds."""

    wanted: Measure
    value: float | None
    """None where there is nothing to measure: no capacity of that resource, no work of that group.
    """

    @property
    def met(self) -> bool:
        if self.value is None:
            return self.wanted.most is None and self.wanted.least is None
        low, high = self.wanted.least, self.wanted.most
        return (high is None or self.value <= high) and (low is None or self.value >= low)

    @property
    def shown(self) -> str:
        return "nothing" if self.value is None else shown(self.wanted.figure, self.value)

    @property
    def bounds(self) -> str:
        """`at most 10 min`; "" without any."""
        given = (("at least", self.wanted.least), ("at most", self.wanted.most))
        return " and ".join(
            f"{word} {shown(self.wanted.figure, value)}"
            for word, value in given
            if value is not None
        )


def judged(measures: Measures) -> tuple[Judged, ...]:
    """The measures that the scenario names, in its order."""
    return tuple(Judged(wanted, _value(measures, wanted)) for wanted in measures.outcome.wanted)


def _value(measures: Measures, wanted: Measure) -> float | None:
    if not wanted.project and not wanted.tier:
        return next(
            (figure.value for figure in figures(measures) if figure.key == wanted.figure), None
        )
    groups = measures.by_project if wanted.project else measures.by_tier
    group = next(
        (group for group in groups if group.group == (wanted.project or wanted.tier)), None
    )
    return float(getattr(group, WAITING_FIELDS[wanted.figure])) if group is not None else None


WAITING_FIELDS: Final = {key: key.removeprefix("wait_") for key in WAITING_KEYS} | {
    "never_started": "never"
}
"""Figure of waiting -> the field of `Waiting` that has it."""


def named(measures: Measures) -> list[list[str]]:
    """The measures that the scenario names, each with its value, its bounds and whether it is
    met.
    """
    return [
        [measure.wanted.name, measure.shown, measure.bounds or "-", "yes" if measure.met else "no"]
        for measure in judged(measures)
    ]


def missed(measures: Measures) -> tuple[Judged, ...]:
    """The measures that are out of their bounds."""
    return tuple(measure for measure in judged(measures) if not measure.met)


def verdict(measures: Measures) -> str:
    """What happened, in one sentence; before it whether the measures of the scenario are met, after
    it that it is one seed, where others give other figures."""
    return f"{_judged(measures)} {ONE_SEED}" if measures.outcome.drawn else _judged(measures)


def _judged(measures: Measures) -> str:
    bounded = [measure for measure in judged(measures) if measure.bounds]
    if not bounded:
        return _happened(measures)
    out = [measure for measure in bounded if not measure.met]
    if not out:
        met = f"All {len(bounded)} measures are met" if len(bounded) > 1 else "The measure is met"
        return f"{met}: {_happened(measures)}"
    misses = ", ".join(
        f"{measure.wanted.name} is {measure.shown}, {measure.bounds} is wanted" for measure in out
    )
    return (
        f"{len(out)} of {amounts.counted(len(bounded), 'measure')} missed ({misses}): "
        f"{_happened(measures)}"
    )


def _happened(measures: Measures) -> str:
    waiting = measures.waiting
    if not measures.works:
        return "No work was submitted in the measured time, so there is nothing to judge."
    parts = [_placed(measures)]
    if waiting.started:
        parts.append(_waited(measures))
    if measures.fleet:
        busiest = max(measures.fleet, key=lambda use: (use.mean, use.resource))
        parts.append(
            f"{busiest.resource} was in use most ({percent(busiest.mean)} on average, "
            f"{percent(busiest.peak)} at the"
            " peak)"
        )
    if measures.restarts:
        parts.append(
            f"{amounts.counted(measures.restarts, 'restart')} after lost clusters cost "
            f"{amounts.length(measures.lost_s)} of run time"
        )
    if measures.preempted:
        times = "once" if measures.preempted == 1 else f"{measures.preempted:,} times"
        parts.append(
            f"works made way for another's quota {times} and lost "
            f"{amounts.length(measures.preempted_s)} of run time"
        )
    if measures.failures:
        parts.append(_failed(measures))
    if measures.scalings:
        times = "once" if measures.scalings == 1 else f"{measures.scalings:,} times"
        late = (
            f"{measures.scaled_late:,} of these had to wait"
            if measures.scaled_late
            else "without waiting"
        )
        parts.append(f"services were scaled {times}, {late}")
    replayed = replay(measures.outcome)
    if replayed is not None:
        parts.append(replayed.sentence)
    return "; ".join(parts) + "."


def _placed(measures: Measures) -> str:
    waiting = measures.waiting
    if not waiting.never:
        return (
            f"All {amounts.counted(waiting.works, 'work')} started"
            if waiting.works > 1
            else "The only work started"
        )
    why = f", most for {measures.lacks[0].reason}" if measures.lacks else ""
    if measures.scarce and measures.lacks[0].reason in FOR_CAPACITY:
        why += f" ({measures.scarce[0].what})"
    large = measures.ends[End.UNPLACEABLE.value]
    wide = f" ({amounts.counted(large, 'is', 'are')} larger than any cluster)" if large else ""
    return f"{waiting.never:,} of {amounts.counted(waiting.works, 'work')} never started{why}{wide}"


def _failed(measures: Measures) -> str:
    gone = measures.ends[End.FAILED.value]
    ended = f"{amounts.counted(gone, 'job')} failed for good" if gone else "no job failed for good"
    attempts = amounts.counted(measures.failures, "attempt")
    return f"{attempts} failed and cost {amounts.length(measures.failed_s)} of run time, {ended}"


def _waited(measures: Measures) -> str:
    waiting = measures.waiting
    if not waiting.waited:
        return "no work that started had to wait"
    return (
        f"{waiting.waited:,} of those that started waited "
        f"({percent(waiting.waited / waiting.started)}), 99 of 100 were "
        f"running within {amounts.length(waiting.p99_s)}, the last within "
        f"{amounts.length(waiting.max_s)}"
    )


def differences(before: Measures, after: Measures) -> tuple[Difference, ...]:
    """How the second simulation differs from the first: what differs first, the largest relative
    change on top.
    """
    old = {figure.key: figure for figure in figures(before)}
    new = {figure.key: figure for figure in figures(after)}
    ranked: list[tuple[float, Difference]] = []
    for key in [*new, *(key for key in old if key not in new)]:
        left, right = old.get(key), new.get(key)
        figure = right or left
        assert figure is not None
        if left is None or right is None:
            given = "only in the second" if left is None else "only in the first"
            row = Difference(
                key,
                figure.name,
                left.shown if left else "-",
                right.shown if right else "-",
                given,
                "other",
            )
            ranked.append((float("inf"), row))
            continue
        by = right.value - left.value
        ranked.append(
            (
                abs(by) / max(abs(left.value), abs(right.value)) if by else 0.0,
                _difference(left, right, by, sure=not _is_drawn(before, after)),
            )
        )
    return tuple(row for _, row in sorted(ranked, key=lambda pair: -pair[0]))


def _is_drawn(before: Measures, after: Measures) -> bool:
    return before.outcome.drawn or after.outcome.drawn


def _difference(left: Figure, right: Figure, by: float, *, sure: bool) -> Difference:
    if not by:
        return Difference(left.key, left.name, left.shown, right.shown, SAME, "")
    good = (by < 0) == (left.better is Better.LESS)
    judged = "other" if left.better is Better.NEITHER else "better" if good else "worse"
    if not sure and judged != "other":
        judged = UNSURE
    size = f"{'+' if by > 0 else '-'}{shown(left.key, abs(by))}"
    relative = (
        f" ({100 * by / left.value:+.0f} %)"
        if left.value and not left.key.startswith("use_")
        else ""
    )
    return Difference(left.key, left.name, left.shown, right.shown, size + relative, judged)


def comparison(before: Measures, after: Measures, names: tuple[str, str]) -> str:
    """How two simulations differ, in one sentence. `names`: what each is called."""
    notable = [
        row for row in differences(before, after) if row.verdict in ("better", "worse", UNSURE)
    ]
    if not notable:
        return f"{names[1]} comes out as {names[0]} in every figure that matters."
    main = [row for key in FIRST for row in notable if row.key == key] or notable
    if _is_drawn(before, after):
        changes = ", ".join(f"{row.name} {row.before} → {row.after}" for row in main[:3])
        return f"{names[1]} against {names[0]}: {changes}. {ONE_SEED}"
    changes = ", ".join(
        f"{row.name} {row.before} → {row.after} ({row.verdict})" for row in main[:3]
    )
    return f"{names[1]} against {names[0]}: {changes}."


def is_sought(loss: str) -> bool:
    """Whether `CLUSTER@TIME` names something that only a simulation without the loss can find."""
    cluster, _, moment = loss.rpartition("@")
    return cluster == LARGEST or moment == PEAK


def sought(outcome: SimulationResult, loss: str, at_s: int | None) -> tuple[str, str]:
    """The cluster and the second as `CLUSTER@SECONDS`, and how they were found, in a sentence.
    `outcome`: of the simulation without the loss; `at_s`: the time, None for the peak. Raises
    FieldError where nothing was there to lose.
    """
    cluster = loss.rpartition("@")[0]
    busiest = _busiest(outcome)
    when = ""
    if at_s is None:
        # A second later, what comes at the peak has its place.
        at_s = min(busiest.peak_since_s + 1, max(outcome.end_s - 1, 0))
        share = amounts.share(busiest.peak_share, 1)
        when = f" when {share} of {busiest.resource} is in use, the most"
    which = ""
    if cluster == LARGEST:
        cluster = _largest(outcome, busiest.resource, at_s)
        which = f", the cluster with most {busiest.resource}"
    after = amounts.length(at_s - outcome.start_s)
    return f"{cluster}@{at_s}", f"--lose {loss}: {cluster}{which}, is lost after {after}{when}."


def _busiest(outcome: SimulationResult) -> Held:
    """The resource that is in use most, as the verdict has it."""
    fleet = [held for held in outcome.held if held.cluster == FLEET and held.capacity_s]
    if not fleet:
        raise FieldError("--lose", "nothing is measured, so there is neither a peak nor a cluster")
    return max(fleet, key=lambda held: (held.used_s / held.capacity_s, held.resource))


def _largest(outcome: SimulationResult, resource: str, at_s: int) -> str:
    """The cluster that has most of the resource then; the first by name of several."""
    place = outcome.resources.index(resource)
    before = [sample for sample in outcome.samples if sample.at_s <= at_s]
    there = (before or list(outcome.samples[:1]))[-1].capacity if outcome.samples else {}
    if not there:
        raise FieldError("--lose", "no cluster is there at that time")
    return min(there, key=lambda name: (-there[name][place], name))
