"""Reports of simulations: what each comes to, and the figures of one. Pure, and total on whatever a
report holds."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import text
from federator.dashboard.sources.reports import Report
from federator.model import plaintext

ROWS_MAX: Final = 200
TEXT_MAX: Final = 2000


def view(reports: Sequence[Report] | None, unread: Sequence[str], now_s: float) -> dict[str, Any]:
    """The list; None while no folder is given."""
    return {
        "given": reports is not None,
        "rows": [_line(report, now_s) for report in reports or ()],
        "unread": list(unread),
    }


def _line(report: Report, now_s: float) -> dict[str, Any]:
    return {
        "name": report.name,
        "href": text.address("simulations", report.name),
        "scenario": _text(report.facts.get("name")),
        "says": _text(report.answer.get("answer")) or _text(report.facts.get("verdict")),
        "age": text.lasting(now_s - report.written_s),
    }


def single(report: Report, now_s: float) -> dict[str, Any]:
    facts, inputs = report.facts, raw.mapping(report.facts, "inputs")
    return {
        **_line(report, now_s),
        "verdict": _text(facts.get("verdict")),
        "answer": _text(report.answer.get("answer")),
        "inputs": [
            {"name": name, "value": _text(inputs.get(name))}
            for name in ("scenario", "seed", "version", "horizonSeconds", "decisions", "cycles")
            if inputs.get(name) not in (None, "")
        ],
        "settings": {str(name): _text(value) for name, value in _pairs(inputs, "settings")},
        "figures": [
            {"name": name, "value": figure(name, value)}
            for name, value in _pairs(facts, "figures")
            if isinstance(value, int | float)
        ],
        "tried": [
            {
                "choice": _text(each.get("choice")),
                "met": each.get("met") is True,
                "missed": _text(each.get("missed")),
            }
            for each in _objects(report.answer, "tried")
        ],
        "use": [
            {
                "cluster": _text(each.get("cluster")) or "all",
                "resource": _text(each.get("resource")),
                "mean": _share(each.get("mean")),
                "peak": _share(each.get("peak")),
            }
            for each in _objects(facts, "use")
        ],
        "shortfall": [
            {
                "reason": _text(each.get("reason")),
                "meaning": _text(each.get("meaning")),
                "works": _text(each.get("works")),
            }
            for each in _objects(facts, "shortfall")
        ],
        "happened": [
            {
                "at": _text(each.get("at")) or figure("_s", each.get("atSeconds")),
                "kind": _text(each.get("kind")),
                "subject": _text(each.get("subject")),
                "copies": _text(each.get("copies")),
            }
            for each in _objects(facts, "happened")
        ],
        "assumptions": [_text(each) for each in raw.items(facts, "assumptions")[:ROWS_MAX]],
    }


def figure(name: str, value: Any) -> str:
    """A figure with its unit, as the end of its name says it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _text(value)
    if name.endswith("_s") and abs(value) < 1e12:
        return f"{value:,.0f} s ({text.lasting(value)})" if value >= 120 else f"{value:g} s"
    if name.startswith(("use_mean_", "use_peak_")):
        return _share(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _share(value: Any) -> str:
    """A share from 0 to 1 as percent."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6
    return f"{100 * value:.1f} %" if number else "-"


def _text(value: Any) -> str:
    return plaintext.clipped(str(value), TEXT_MAX) if value is not None else ""


def _pairs(obj: Obj, name: str) -> list[tuple[str, Any]]:
    pairs: Mapping[str, Any] = raw.mapping(obj, name)
    return list(pairs.items())[:ROWS_MAX]


def _objects(obj: Obj, name: str) -> Sequence[Obj]:
    return raw.objects(obj, name)[:ROWS_MAX]
