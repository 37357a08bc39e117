"""Charts as SVG text: lines, bars and heat maps that need neither a script nor a network.

Colours are classes of the page's style sheet (Okabe and Ito's palette, told apart by colour-blind
people; lines differ in their dashes too). The drawing is `WIDTH` wide and is scaled to its column,
so that its text is readable on a phone.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from federator.simulate.report import amounts
from federator.simulate.report.amounts import Clock

WIDTH: Final = 480
HEIGHT: Final = 250
LEFT: Final = 52
RIGHT: Final = 12
TOP: Final = 10
BOTTOM: Final = 30
TICKS: Final = 4
SHADES: Final = 10
HEAT_ROWS: Final = 40
"""Clusters in a heat map; those used least are left to the table."""
HEAT_COLUMNS: Final = 60
HEAT_LEFT: Final = 120
BAR: Final = 30
LABEL_MAX: Final = 18
_STEPS_S: Final = (
    60,
    300,
    600,
    1_800,
    3_600,
    10_800,
    21_600,
    43_200,
    86_400,
    172_800,
    604_800,
    2_419_200,
)
Amount = Callable[[float], str]
SINCE: Final = Clock()
"""Without dates."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line: (x, y) by rising x. `step`: it holds each value until the next."""

    name: str
    points: Sequence[tuple[float, float]]
    filled: bool = False
    step: bool = True


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at an instant."""

    at: float
    text: str


def lines(
    ident: str,
    title: str,
    description: str,
    series: Sequence[Series],
    *,
    y: Amount = amounts.whole,
    clock: Clock = SINCE,
    logarithmic: bool = False,
    y_max: float | None = None,
    marks: Sequence[Mark] = (),
) -> Markup:
    """Lines over time; with `logarithmic` over a length of time."""
    shown = [line for line in series if line.points]
    low = min((line.points[0][0] for line in shown), default=0.0)
    high = max((line.points[-1][0] for line in shown), default=1.0)
    top = (
        y_max
        if y_max is not None
        else _round_up(max((v for line in shown for _, v in line.points), default=1.0))
    )
    across = _log_scale(high) if logarithmic else _scale(low, high if high > low else low + 1)

    def down(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value / top, 1)

    parts = [_horizontals(top, down, y), _ticks(low, high, across, clock, logarithmic=logarithmic)]
    for number, line in enumerate(shown):
        path = _path([(across(at), down(value)) for at, value in line.points], step=line.step)
        if line.filled:
            first, last, floor = (
                across(line.points[0][0]),
                across(line.points[-1][0]),
                _text(down(0)),
            )
            parts.append(
                Markup('<path class="fill c{}" d="{}L{} {}L{} {}Z"/>').format(
                    number, path, _text(last), floor, _text(first), floor
                )
            )
        parts.append(
            Markup('<path class="line c{}" d="{}"><title>{}</title></path>').format(
                number, path, line.name
            )
        )
    for mark in marks:
        if low <= mark.at <= high:
            parts.append(
                Markup('<path class="mark" d="M{0} {1}V{2}"><title>{3}</title></path>').format(
                    _text(across(mark.at)), TOP, HEIGHT - BOTTOM, mark.text
                )
            )
    return _svg(ident, title, description, HEIGHT, parts, drawn=len(shown))


def bars(
    ident: str,
    title: str,
    description: str,
    rows: Sequence[tuple[str, float]],
    *,
    amount: Amount = amounts.whole,
) -> Markup:
    """One bar for each row, with its name above it and its amount behind it."""
    most = max((value for _, value in rows), default=0.0) or 1.0
    room = WIDTH - 110
    parts = [
        Markup(
            '<text class="label" x="0" y="{}">{}</text><rect class="bar c0" x="0" y="{}" '
            'width="{}" height="10">'
            "<title>{}: {}</title></rect>"
            '<text class="label" x="{}" y="{}">{}</text>'
        ).format(
            at * BAR + 12,
            _clipped(name, 60),
            at * BAR + 16,
            _text(max(room * value / most, 1)),
            name,
            amount(value),
            _text(max(room * value / most, 1) + 6),
            at * BAR + 26,
            amount(value),
        )
        for at, (name, value) in enumerate(rows)
    ]
    return _svg(ident, title, description, max(len(rows), 1) * BAR + 4, parts, drawn=len(rows))


def columns(
    ident: str,
    title: str,
    description: str,
    points: Sequence[tuple[float, float]],
    *,
    y: Amount = amounts.whole,
    clock: Clock = SINCE,
) -> Markup:
    """One upright bar at each point of time."""
    low, high = (points[0][0], points[-1][0]) if points else (0.0, 1.0)
    high = high if high > low else low + 1
    across, top = _scale(low, high), _round_up(max((value for _, value in points), default=1.0))
    wide = max((WIDTH - LEFT - RIGHT) / max(len(points), 1) - 0.5, 0.8)

    def down(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [
        _horizontals(top, down, y),
        _ticks(low, high, across, clock, logarithmic=False),
    ]
    parts += [
        Markup(
            '<rect class="bar c0" x="{}" y="{}" width="{}" height="{}"><title>{}: {}</title></rect>'
        ).format(
            _text(min(across(at), WIDTH - RIGHT - wide)),
            _text(down(value)),
            _text(wide),
            _text(down(0) - down(value)),
            clock.at(at),
            y(value),
        )
        for at, value in points
        if value
    ]
    return _svg(ident, title, description, HEIGHT, parts, drawn=len(points))


def heat(
    ident: str,
    title: str,
    description: str,
    times: Sequence[int],
    rows: Sequence[tuple[str, Sequence[float]]],
    *,
    clock: Clock = SINCE,
) -> Markup:
    """A row for each name, a cell for each stretch of time, darker the more is in use (0 to 1);
    empty below 0.
    """
    each = max(-(-len(times) // HEAT_COLUMNS), 1)
    starts = range(0, len(times), each)
    wide = (WIDTH - HEAT_LEFT) / max(len(starts), 1)
    tall = 16
    parts: list[Markup] = []
    for row, (name, values) in enumerate(rows[:HEAT_ROWS]):
        parts.append(
            Markup('<text class="label end" x="{}" y="{}">{}<title>{}</title></text>').format(
                HEAT_LEFT - 6, row * tall + 12, _clipped(name, LABEL_MAX), name
            )
        )
        for column, first in enumerate(starts):
            worst = max(values[first : first + each])
            if worst >= 0:
                parts.append(
                    Markup(
                        '<rect class="h{}" x="{}" y="{}" width="{}" height="{}"><title>{}, '
                        "{}: {}</title></rect>"
                    ).format(
                        min(int(worst * SHADES), SHADES - 1),
                        _text(HEAT_LEFT + column * wide),
                        row * tall,
                        _text(wide + 0.2),
                        tall - 1,
                        name,
                        clock.at(times[first]),
                        amounts.share(worst, 1),
                    )
                )
    height = min(len(rows), HEAT_ROWS) * tall
    if times:
        parts.append(
            Markup(
                '<text class="label" x="{}" y="{}">{}</text><text class="label end" x="{}" '
                'y="{}">{}</text>'
            ).format(
                HEAT_LEFT,
                height + 14,
                clock.at(times[0]),
                WIDTH,
                height + 14,
                clock.at(times[-1]),
            )
        )
    return _svg(ident, title, description, height + 20, parts, drawn=len(rows))


@dataclass(frozen=True, slots=True)
class Dot:
    """One point of a scatter. `size` is a third amount, shown by the area; `strong` is filled."""

    x: float
    y: float
    size: float
    text: str
    strong: bool = False


def scatter(
    ident: str, title: str, description: str, dots: Sequence[Dot], *, x: Amount, y: Amount
) -> Markup:
    """Dots from the lowest x on, and from 0 upwards; the strong ones above the others."""
    low = min((dot.x for dot in dots), default=0.0)
    high = max((dot.x for dot in dots), default=1.0)
    margin = (high - low) * 0.08 or max(abs(high) * 0.1, 1.0)
    across = _scale(low - margin, high + margin)
    top = _round_up(max((dot.y for dot in dots), default=1.0) * 1.05)
    largest = max((dot.size for dot in dots), default=0.0) or 1.0

    def down(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [_horizontals(top, down, y)]
    for value, place in ((low, "middle"), (high, "middle")) if high > low else ((low, "middle"),):
        parts.append(
            Markup('<text class="label {}" x="{}" y="{}">{}</text>').format(
                place, _text(across(value)), HEIGHT - 10, x(value)
            )
        )
    parts += [
        Markup(
            '<circle class="dot {}" cx="{}" cy="{}" r="{}"><title>{}: {}, {}</title></circle>'
        ).format(
            "strong" if dot.strong else "weak",
            _text(across(dot.x)),
            _text(down(dot.y)),
            _text(4 + 5 * math.sqrt(dot.size / largest)),
            dot.text,
            x(dot.x),
            y(dot.y),
        )
        for dot in sorted(dots, key=lambda dot: (dot.strong, dot.x, dot.y, dot.text))
    ]
    return _svg(ident, title, description, HEIGHT, parts, drawn=len(dots))


# -- parts -----------------------------------------------------------------------------------------


def _svg(
    ident: str, title: str, description: str, height: int, parts: Iterable[Markup], *, drawn: int
) -> Markup:
    return Markup(
        '<svg id="{0}" class="chart" role="img" aria-labelledby="{0}-t {0}-d" viewBox="0 0 '
        '{1} {2}" '
        'data-drawn="{3}"><title id="{0}-t">{4}</title><desc id="{0}-d">{5}</desc>{6}</svg>'
    ).format(ident, WIDTH, height, drawn, title, description, Markup("").join(parts))


def _scale(low: float, high: float) -> Callable[[float], float]:
    return lambda value: LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)


def _log_scale(high: float) -> Callable[[float], float]:
    """From 0 seconds on: log(1 + x), so that 0 has a place."""
    return lambda value: (
        LEFT + (WIDTH - LEFT - RIGHT) * math.log1p(value) / math.log1p(max(high, 1))
    )


def _horizontals(top: float, down: Callable[[float], float], y: Amount) -> Markup:
    return Markup("").join(
        Markup(
            '<path class="grid" d="M{} {}H{}"/><text class="label end" x="{}" y="{}">{}</text>'
        ).format(
            LEFT, _text(down(value)), WIDTH - RIGHT, LEFT - 5, _text(down(value) + 4), y(value)
        )
        for value in (top * step / TICKS for step in range(TICKS + 1))
    )


def _ticks(
    low: float, high: float, across: Callable[[float], float], clock: Clock, *, logarithmic: bool
) -> Markup:
    """Dates are at round times of the day."""
    offset = clock.origin_s % amounts.DAY_S
    if logarithmic:
        places: list[float] = [
            0,
            *(value for value in (1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800) if value < high),
        ]
    else:
        step = next(
            (candidate for candidate in _STEPS_S if (high - low) / candidate <= TICKS + 1),
            max((high - low) / TICKS, 1),
        )
        first, last = math.ceil((low + offset) / step), int((high + offset) / step)
        places = [step * at - offset for at in range(first, last + 1)]
    parts, free = [], 0.0
    for value in places:
        at = across(value)
        if at < free or at > WIDTH - 24:
            continue
        free = at + (84 if clock.origin_s else 62)
        parts.append(
            Markup('<text class="label {}" x="{}" y="{}">{}</text>').format(
                "" if at < LEFT + 20 else "middle", _text(at), HEIGHT - 10, clock.tick(value)
            )
        )
    return Markup("").join(parts)


def _path(points: Sequence[tuple[float, float]], *, step: bool) -> str:
    parts = [f"M{_text(points[0][0])} {_text(points[0][1])}"]
    for at, value in points[1:]:
        parts.append(f"H{_text(at)}V{_text(value)}" if step else f"L{_text(at)} {_text(value)}")
    return "".join(parts)


def _text(number: float) -> str:
    """A coordinate: the same text for the same number on every machine."""
    return f"{number:.1f}".removesuffix(".0")


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _round_up(value: float) -> float:
    """The next number of the form 1, 2, 4, 6, 8 times a power of ten: its quarters are short."""
    if value <= 0:
        return 4.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 8, 10, 20) if step * power >= value)


def legend(names: Sequence[str]) -> Markup:
    """Which line is which, for a list above the chart."""
    items = Markup("").join(
        Markup(
            '<li><svg class="key" viewBox="0 0 24 8" aria-hidden="true"><path class="line '
            'c{}" d="M0 4H24"/></svg>{}'
        ).format(at, escape(name))
        + Markup("</li>")
        for at, name in enumerate(names)
    )
    return Markup('<ul class="legend">{}</ul>').format(items)
