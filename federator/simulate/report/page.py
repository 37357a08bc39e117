"""The report as one page of HTML that needs no network and no script. Everything that a scenario or
a trace names is escaped, and the page forbids scripts besides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from federator.simulate.outcome import ONE_NODE
from federator.simulate.report import amounts, charts, figures, growing, reasons
from federator.simulate.report.charts import Mark, Series
from federator.simulate.report.measures import Line, Measures, Waiting
from federator.simulate.report.panels import Panel, Table, table_of

GROUPS_DRAWN: Final = 6
"""Lines of one chart; the groups beyond are in the table."""
REASONS_DRAWN: Final = 6


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a report comes from."""

    version: str
    scenario: str = ""
    """The file, as it was named."""
    text: str = ""
    """The scenario, complete, with what was set on the command line."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What was set on the command line."""
    description: str = ""
    """Of the scenario."""
    question: str = ""
    """The kind of question that the scenario asks; "" for none."""
    answer: str = ""
    """In one sentence."""


def environment() -> Environment:
    """The templates of pages. Everything that is put into one is escaped."""
    return Environment(
        loader=PackageLoader("federator.simulate.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(
    measures: Measures, source: Provenance, other: tuple[str, Measures] | None = None
) -> str:
    """The whole page. `other`: the name and the numbers of the simulation that this one is compared
    with; the differences come first then.
    """
    drawn = panels(measures, other)
    whole = figures.figures(measures)
    facts: dict[str, Any] = {
        "outcome": measures.outcome,
        "source": source,
        "verdict": figures.verdict(measures),
        "tiles": figures.tiles(measures),
        "figures": table_of(
            ["figure", ""], [[each.name, each.shown] for each in whole if each.value]
        ),
        "zeros": [each.name for each in whole if not each.value],
        "window": figures.window(measures),
        "panels": [panel for panel in drawn if panel.shows],
        "empty": [panel for panel in drawn if not panel.shows],
        "happened": _happened(measures),
        "measured_by": table_of(["measure", "value", "wanted", "met"], figures.named(measures)),
        "assumptions": measures.outcome.assumptions,
        "other": "",
        "differences": (),
        "same": (),
        "comparison": "",
    }
    if other is not None:
        names = (
            other[0],
            measures.outcome.name if measures.outcome.name != other[0] else "this one",
        )
        differences = figures.differences(other[1], measures)
        facts |= {
            "other": other[0],
            "differences": [row for row in differences if row.change != figures.SAME],
            "same": [row.name for row in differences if row.change == figures.SAME],
            "comparison": figures.comparison(other[1], measures, names),
        }
    return environment().get_template("page.html.j2").render(facts)


def panels(measures: Measures, other: tuple[str, Measures] | None = None) -> list[Panel]:
    """The charts in the order of the page: the scarcest resource first, beside it that of the other
    simulation."""
    resources = figures.scarcest_first(measures)
    all_panels = []
    for number, resource in enumerate(resources):
        sides = [("", measures)]
        if other is not None and not number and resource in other[1].outcome.resources:
            sides.append(other)
        all_panels += [_demand(side, resource, of) for of, side in sides]
        all_panels += [_use(side, resource, of) for of, side in sides]
    if other is not None:
        all_panels.append(_both(measures, other))
    all_panels.append(_waiting("wait-project", "Waiting by project", measures.by_project))
    all_panels.append(_waiting("wait-tier", "Waiting by tier", measures.by_tier))
    all_panels += [
        _shortfall(measures),
        _reasons(measures),
        _scarce(measures),
        _fragmentation(measures),
        _moves(measures),
    ]
    if measures.grown:
        all_panels.append(_grown(measures))
    if measures.outcome.costs is not None:
        all_panels.append(_cost(measures))
    return all_panels


def _named(ident: str, title: str, of: str) -> tuple[str, str]:
    """Identity and title of a panel; `of`: the other simulation, "" for this one."""
    return (f"{ident}-other", f"{title} ({of})") if of else (ident, title)


def _points(measures: Measures, line: Line) -> list[tuple[float, float]]:
    begin = measures.outcome.start_s
    return [
        (float(at - begin), value) for at, value in zip(measures.times, line.values, strict=True)
    ]


def _marks(measures: Measures) -> list[Mark]:
    begin = measures.outcome.start_s
    return [
        Mark(event.at_s - begin, f"{event.kind} {event.subject}")
        for event in measures.outcome.happened[:50]
    ]


def _worst(measures: Measures) -> str:
    return f" Each point is the worst of {measures.every} samples." if measures.every > 1 else ""


def _over_time(measures: Measures, lines: Sequence[Line], rows: int = 24) -> Table:
    """Some of the points as figures."""
    each = max(-(-len(measures.times) // rows), 1)
    begin = measures.outcome.start_s
    picked = range(0, len(measures.times), each)
    return table_of(
        [measures.clock.heading, *(line.name for line in lines)],
        [
            [
                measures.clock.at(measures.times[at] - begin),
                *(amounts.whole(line.values[at]) for line in lines),
            ]
            for at in picked
        ],
    )


def _explained(
    measures: Measures, ident: str, title: str, words: str, lines: Sequence[Line], *, shows: bool
) -> Panel:
    """Lines over time, with what happened marked and with a legend."""
    drawn = [
        Series(line.name, _points(measures, line), filled=line.name == "in use") for line in lines
    ]
    chart = charts.lines(ident, title, words, drawn, marks=_marks(measures), clock=measures.clock)
    key = charts.legend([line.name for line in lines])
    return Panel(ident, title, words, chart, _over_time(measures, lines), key, shows)


def _demand(measures: Measures, resource: str, of: str = "") -> Panel:
    unit = amounts.unit(resource)
    capacity, demand, used = (
        of[resource] for of in (measures.capacity, measures.demand, measures.used)
    )
    most = next(use for use in measures.fleet if use.resource == resource)
    over = sum(asked > there for asked, there in zip(demand.values, capacity.values, strict=True))
    words = (
        f"Asked for (in use and missing together), in use, and there, in {unit}. "
        + (
            f"Demand was above capacity at {amounts.share(over, len(demand.values))} of the points."
            if over
            else "Demand was above capacity at none of the points."
        )
        + f" At most {amounts.whole(most.peak_amount)} {unit} were in use at once, "
        "between the points too." + _worst(measures)
    )
    ident, title = _named(f"demand-{resource}", f"Demand against capacity: {resource}", of)
    lines = [
        Line("capacity", capacity.values),
        Line("demand", demand.values),
        Line("in use", used.values),
    ]
    return _explained(measures, ident, title, words, lines, shows=any(demand.values))


def _use(measures: Measures, resource: str, of: str = "") -> Panel:
    uses = {
        use.cluster: use for use in measures.clusters if use.resource == resource and use.capacity
    }
    rows = sorted(uses.values(), key=lambda use: (-use.mean, use.cluster))
    values = {line.name: line.values for line in measures.heat[resource]}
    begin = measures.outcome.start_s
    left = len(rows) - charts.HEAT_ROWS
    words = (
        (
            "Each row is a cluster, the one used most on top; the stronger the colour, the more "
            f"{resource} is in use."
        )
        + (f" The {left} used least are in the table only." if left > 0 else "")
        + _worst(measures)
    )
    ident, title = _named(f"use-{resource}", f"Use by cluster: {resource}", of)
    chart = charts.heat(
        ident,
        title,
        words,
        [at - begin for at in measures.times],
        [(use.cluster, values[use.cluster]) for use in rows],
        clock=measures.clock,
    )
    table = table_of(
        ["cluster", amounts.unit(resource), "mean", "peak", f"{amounts.unit(resource)} at most"],
        [
            [
                use.cluster,
                amounts.whole(use.capacity),
                figures.percent(use.mean),
                figures.percent(use.peak),
                amounts.whole(use.peak_amount),
            ]
            for use in rows
        ],
    )
    return Panel(ident, title, words, chart, table, shows=any(use.peak for use in rows))


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def _curve(name: str, waiting: Waiting, until_s: int) -> Series:
    """The share that still waits. It goes on to the right end, so that groups which started sooner
    are not cut off."""
    last = (until_s, waiting.curve[-1][1]) if waiting.curve else (until_s, 0.0)
    started = [*((float(at), share) for at, share in waiting.curve), last]
    return Series(name, [(at, 1 - share) for at, share in started])


def _waits(waiting: Waiting) -> bool:
    return bool(waiting.waited or waiting.never)


def _curves(
    ident: str,
    title: str,
    words: str,
    groups: Sequence[tuple[str, Waiting]],
    table: Table,
    *,
    shows: bool,
) -> Panel:
    until = max((1, *(waiting.max_s for _, waiting in groups)))
    drawn = [_curve(name, waiting, until) for name, waiting in groups]
    chart = charts.lines(ident, title, words, drawn, y=_percent, logarithmic=True)
    return Panel(
        ident, title, words, chart, table, charts.legend([name for name, _ in groups]), shows
    )


def _waiting(ident: str, title: str, groups: Sequence[Waiting]) -> Panel:
    words = (
        "Share of the works that still waited after so long (a line that ends above 0 has works "
        "that never started). The axis of time is logarithmic."
        + (
            f" The {GROUPS_DRAWN} groups that waited longest are drawn."
            if len(groups) > GROUPS_DRAWN
            else ""
        )
    )
    table = table_of(
        [
            "",
            "works",
            "never started",
            "waited",
            "half within",
            "90 of 100",
            "99 of 100",
            "longest",
        ],
        [
            [
                group.group,
                f"{group.works:,}",
                f"{group.never:,}",
                f"{group.waited:,}",
                *(
                    amounts.length(value) if group.started else "-"
                    for value in (group.p50_s, group.p90_s, group.p99_s, group.max_s)
                ),
            ]
            for group in groups
        ],
    )
    shows = any(map(_waits, groups))
    drawn = [(group.group, group) for group in groups[:GROUPS_DRAWN]]
    return _curves(ident, title, words if shows else "No work waited.", drawn, table, shows=shows)


def _both(measures: Measures, other: tuple[str, Measures]) -> Panel:
    sides = [("this one", measures.waiting), (other[0], other[1].waiting)]
    words = "Share of all works that still waited after so long, in both simulations."
    table = table_of(
        ["", "works", "never started", "half within", "99 of 100", "longest"],
        [
            [
                name,
                f"{waiting.works:,}",
                f"{waiting.never:,}",
                *(amounts.length(value) for value in (waiting.p50_s, waiting.p99_s, waiting.max_s)),
            ]
            for name, waiting in sides
        ],
    )
    shows = any(_waits(waiting) for _, waiting in sides)
    return _curves("wait-both", "Waiting, compared", words, sides, table, shows=shows)


def _shortfall(measures: Measures) -> Panel:
    drawn = sorted(measures.lacking, key=lambda line: (-sum(line.values), line.name))[
        :REASONS_DRAWN
    ]
    words = (
        "Copies that were missing, by what the last decision gave as the reason." + _worst(measures)
        if drawn
        else "No copy was ever missing."
    )
    title = "Shortfall over time"
    return _explained(measures, "shortfall", title, words, drawn, shows=bool(drawn))


def _reasons(measures: Measures) -> Panel:
    words = "Missing copies times the time that they were missing, in copy-hours."
    if not measures.lacks:
        words = "No copy was ever missing."
    chart = charts.bars(
        "reasons",
        "Shortfall by reason",
        words,
        [(lack.reason, lack.copy_s / 3600) for lack in measures.lacks],
    )
    table = table_of(
        ["reason", "works", "copy-hours", "meaning"],
        [
            [
                lack.reason,
                f"{lack.works:,}",
                amounts.whole(lack.copy_s / 3600),
                reasons.meaning(lack.reason),
            ]
            for lack in measures.lacks
        ],
    )
    shows = bool(measures.lacks)
    return Panel("reasons", "Shortfall by reason", words, chart, table, shows=shows)


def _scarce(measures: Measures) -> Panel:
    words = (
        "What copies that waited for capacity lacked most, in the cluster that came nearest to "
        "having room for them, in copy-hours by the samples. A gang is looked at as a whole. Of "
        f'"{ONE_NODE}" they lack nothing in sum: no node that takes them has enough free.'
    )
    if not measures.scarce:
        words = "At no sample did a copy wait for capacity."
    chart = charts.bars(
        "lacking",
        "What was lacking",
        words,
        [(shortage.what, shortage.copy_s / 3600) for shortage in measures.scarce],
    )
    table = table_of(
        ["lacking most", "copy-hours", "copies at once, at most"],
        [
            [shortage.what, amounts.whole(shortage.copy_s / 3600), f"{shortage.peak:,}"]
            for shortage in measures.scarce
        ],
    )
    shows = bool(measures.scarce)
    return Panel("lacking", "What was lacking", words, chart, table, shows=shows)


def _fragmentation(measures: Measures) -> Panel:
    line = Line("copies kept out", measures.fragmented)
    words = (
        "Copies that waited at a sample although what was free in one cluster, added up, would "
        "have held them: no single node had the room." + _worst(measures)
    )
    if not any(line.values):
        words = "At no sample did a copy wait for room that was there but scattered over nodes."
    if measures.outcome.resources and not measures.times:
        words = "Nothing was sampled."
    chart = charts.lines(
        "fragmentation",
        "Fragmentation",
        words,
        [Series(line.name, _points(measures, line))],
        clock=measures.clock,
    )
    table, shows = _over_time(measures, [line]), any(line.values)
    return Panel("fragmentation", "Fragmentation", words, chart, table, shows=shows)


def _moves(measures: Measures) -> Panel:
    line = Line("copies moved", measures.moved)
    words = (
        "Copies that a decision ended in one cluster and that were started in another: "
        f"{measures.moves:,} in all. {measures.displaced:,} more were lost with their cluster."
    )
    chart = charts.columns("moves", "Moves", words, _points(measures, line), clock=measures.clock)
    table, shows = _over_time(measures, [line]), any(line.values)
    return Panel("moves", "Moves", words, chart, table, shows=shows)


def _grown(measures: Measures) -> Panel:
    line = Line("nodes", growing.there(measures.outcome, measures.times))
    words = (
        f"At most {growing.peak(measures.outcome):,} nodes of autoscalers were there at once. "
        f"{measures.waited_for_nodes:,} copies waited for nodes. A node is there from its arrival "
        "until it is removed, and is paid for meanwhile."
    )
    drawn = [Series(line.name, _points(measures, line))]
    chart = charts.lines("grown", "Nodes added", words, drawn, clock=measures.clock)
    table = table_of(growing.HEADERS, figures.grown(measures))
    return Panel("grown", "Nodes added", words, chart, table, shows=any(line.values))


def _cost(measures: Measures) -> Panel:
    bill, prices = measures.bill, measures.outcome.price_per_hour
    words = (
        f"All nodes cost {figures.money(bill.whole / 100)}, of which nobody held "
        f"{figures.money(bill.idle / 100)}. A cluster's cost is shared by what works hold of its "
        "GPUs, or of its cores where it has no GPUs. The chart is of clusters."
    )
    rows = [
        [
            by,
            group,
            figures.money(cents / 100),
            amounts.share(cents, bill.whole),
            figures.money(prices[group]) if by == "cluster" and group in prices else "",
        ]
        for by, group, cents in figures.costs(measures)
    ]
    drawn = [
        (group, cents / 100) for by, group, cents in figures.costs(measures) if by == "cluster"
    ]
    chart = charts.bars("cost", "Cost", words, drawn[: charts.HEAT_ROWS], amount=figures.money)
    headers = ["by", "", "cost", "part", "a node for an hour, at the end"]
    return Panel("cost", "Cost", words, chart, table_of(headers, rows))


def _happened(measures: Measures) -> Table:
    begin = measures.outcome.start_s
    return table_of(
        [
            measures.clock.heading,
            "what",
            "where",
            "copies that lost their place",
            "copies asked for beside those before",
        ],
        [
            [
                measures.clock.at(event.at_s - begin),
                event.kind,
                event.subject,
                f"{event.copies:,}",
                f"{event.asked:+,}" if event.asked else "0",
            ]
            for event in measures.outcome.happened
        ],
    )
