"""The report in the forms that programs and terminals read: text, JSON and CSV; and all of them in
a folder.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from federator.simulate.report import amounts, figures, growing, page, reasons, tabular
from federator.simulate.report.growing import NodeClassUse
from federator.simulate.report.measures import Measures, Use, Waiting
from federator.simulate.report.page import Provenance

PAGE: Final = "report.html"
DOCUMENT: Final = "report.json"
GROUPS_SHOWN: Final = 12
COSTS_SHOWN: Final = 40


def tables(measures: Measures) -> list[tuple[list[str], list[list[str]]]]:
    """(headers, rows) of each table that a terminal shows below the verdict."""
    shown = [[figure.name, figure.shown] for figure in figures.figures(measures)]
    waiting = [
        [
            group.group,
            f"{group.works:,}",
            f"{group.never:,}",
            f"{group.waited:,}",
            *(
                amounts.length(value) if group.started else "-"
                for value in (group.p50_s, group.p99_s, group.max_s)
            ),
        ]
        for group in (*measures.by_tier, *measures.by_project[:GROUPS_SHOWN])
    ]
    uses = [
        [
            use.cluster or "all",
            use.resource,
            f"{amounts.whole(use.capacity)} {amounts.unit(use.resource)}",
            figures.percent(use.mean),
            figures.percent(use.peak),
            amounts.whole(use.peak_amount),
        ]
        for use in (*measures.fleet, *_busiest(measures))
    ]
    sections = (
        [(["MEASURE", "VALUE", "WANTED", "MET"], named)]
        if (named := figures.named(measures))
        else []
    )
    sections += [
        (["FIGURE", "VALUE"], shown),
        (["TIER OR PROJECT", "WORKS", "NEVER STARTED", "WAITED", "P50", "P99", "LONGEST"], waiting),
        (["CLUSTER", "RESOURCE", "CAPACITY", "MEAN", "PEAK", "AT MOST"], uses),
    ]
    if costs := figures.costs(measures):
        shown = [
            [by, group, figures.money(cents / 100), amounts.share(cents, measures.bill.whole)]
            for by, group, cents in costs
        ]
        sections.append((["COST BY", "", "COST", "PART"], shown[:COSTS_SHOWN]))
    if measures.grown:
        headers = [header.upper() for header in growing.HEADERS]
        sections.append((headers, figures.grown(measures)))
    return [*sections, *_shortages(measures)]


def _shortages(measures: Measures) -> Iterator[tuple[list[str], list[list[str]]]]:
    """What works were short for, and what copies lacked."""
    if measures.lacks:
        lacks = [
            [
                lack.reason,
                f"{lack.works:,}",
                amounts.whole(lack.copy_s / 3600),
                reasons.meaning(lack.reason),
            ]
            for lack in measures.lacks
        ]
        yield ["SHORT FOR", "WORKS", "COPY-HOURS", "MEANING"], lacks
    if measures.scarce:
        scarce = [
            [shortage.what, amounts.whole(shortage.copy_s / 3600), f"{shortage.peak:,}"]
            for shortage in measures.scarce
        ]
        yield ["LACKS MOST", "COPY-HOURS", "COPIES AT ONCE"], scarce


def _busiest(measures: Measures) -> list[Any]:
    return sorted(measures.clusters, key=lambda use: (-use.mean, use.cluster, use.resource))[
        :GROUPS_SHOWN
    ]


def document(
    measures: Measures, source: Provenance, other: tuple[str, Measures] | None = None
) -> dict[str, Any]:
    """The report for programs. Lengths are in seconds, amounts in cores, GiB and GPUs, shares from
    0 to 1.
    """
    outcome = measures.outcome
    report: dict[str, Any] = {
        "name": outcome.name,
        "verdict": figures.verdict(measures),
        "figures": figures.values(measures),
        "waiting": {
            "all": _waiting(measures.waiting),
            "projects": {group.group: _waiting(group) for group in measures.by_project},
            "tiers": {group.group: _waiting(group) for group in measures.by_tier},
        },
        "use": [_used(use) for use in (*measures.fleet, *measures.clusters)],
        "shortfall": [
            {
                "reason": lack.reason,
                "meaning": reasons.meaning(lack.reason),
                "works": lack.works,
                "copySeconds": lack.copy_s,
            }
            for lack in measures.lacks
        ],
        "lacking": [
            {"what": shortage.what, "copySeconds": shortage.copy_s, "peakCopies": shortage.peak}
            for shortage in measures.scarce
        ],
        "happened": _happened(measures),
        "cost": {
            f"{by}s": {group: cents / 100 for group, cents in sorted(groups.items())}
            for by, groups in measures.bill.groups.items()
        },
        "pricePerHour": dict(sorted(outcome.price_per_hour.items())),
        "assumptions": list(outcome.assumptions),
        "inputs": {
            "scenario": source.scenario,
            "settings": dict(sorted(source.settings.items())),
            "seed": outcome.seed,
            "version": source.version,
            "startSeconds": outcome.start_s,
            "endSeconds": outcome.end_s,
            "warmUpSeconds": outcome.warm_up_s,
            "horizonSeconds": outcome.horizon_s,
            "origin": measures.clock.iso(-outcome.start_s),
            "decisions": outcome.decisions,
            "cycles": outcome.cycles,
        },
    }
    if measures.grown:
        report["grown"] = list(map(_grown, measures.grown))
    if outcome.wanted:
        report["measures"] = [_judged(measure) for measure in figures.judged(measures)]
    if (replayed := figures.replay(outcome)) is not None:
        report["replay"] = _replayed(replayed)
    if other is not None:
        report["comparedWith"] = _compared(other, measures)
    return report


def _happened(measures: Measures) -> list[dict[str, Any]]:
    outcome = measures.outcome
    return [
        {
            "atSeconds": event.at_s,
            "at": measures.clock.iso(event.at_s - outcome.start_s),
            "kind": event.kind,
            "subject": event.subject,
            "copies": event.copies,
            "askedCopies": event.asked,
        }
        for event in outcome.happened
    ]


def _grown(use: NodeClassUse) -> dict[str, Any]:
    return {
        "cluster": use.cluster,
        "class": use.node_class,
        "ordered": use.ordered,
        "came": use.came,
        "removed": use.removed,
        "peak": use.peak,
        "nodeSeconds": use.node_s,
        "pricePerHour": use.per_hour,
        "cost": use.cents / 100,
    }


def _used(use: Use) -> dict[str, Any]:
    return {
        "cluster": use.cluster,
        "resource": use.resource,
        "capacity": use.capacity,
        "mean": use.mean,
        "peak": use.peak,
        "peakAmount": use.peak_amount,
    }


def _judged(measure: figures.Judged) -> dict[str, Any]:
    return {
        "name": measure.wanted.name,
        "figure": measure.wanted.figure,
        "value": measure.value,
        "least": measure.wanted.least,
        "most": measure.wanted.most,
        "met": measure.met,
    }


def _compared(other: tuple[str, Measures], measures: Measures) -> dict[str, Any]:
    rows = figures.differences(other[1], measures)
    return {
        "name": other[0],
        "figures": figures.values(other[1]),
        "differences": [
            {
                "figure": row.key,
                "before": row.before,
                "after": row.after,
                "change": row.change,
                "verdict": row.verdict,
            }
            for row in rows
        ],
    }


def _replayed(replay: figures.Replay) -> dict[str, Any]:
    return {"decisions": replay.recorded, "same": replay.same, "whole": replay.whole}


def _waiting(waiting: Waiting) -> dict[str, Any]:
    return {
        "works": waiting.works,
        "started": waiting.started,
        "waited": waiting.waited,
        "neverStarted": waiting.never,
        "sumSeconds": waiting.sum_s,
        "p50Seconds": waiting.p50_s,
        "p90Seconds": waiting.p90_s,
        "p99Seconds": waiting.p99_s,
        "maxSeconds": waiting.max_s,
        "curve": [list(point) for point in waiting.curve],
    }


def files(
    measures: Measures,
    source: Provenance,
    other: tuple[str, Measures] | None = None,
    *,
    parquet: bool = False,
) -> dict[str, bytes]:
    """Name -> content of every file of a report; the same bytes for the same outcome. `parquet`:
    each table is a Parquet file too. Raises NoArrow."""
    text = json.dumps(document(measures, source, other), indent=2, ensure_ascii=False) + "\n"
    made = {PAGE: page.render(measures, source, other).encode(), DOCUMENT: text.encode()}
    made |= {f"{table.name}.csv": tabular.as_csv(table) for table in tabular.of(measures)}
    if parquet:
        made |= {
            f"{table.name}.parquet": tabular.as_parquet(table) for table in tabular.of(measures)
        }
    return made


def write(folder: Path, content: Mapping[str, bytes]) -> None:
    """Puts files into a folder, new or not: all are written beside it first, so that a failure
    leaves nothing half written in it. Raises OSError.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; --out names a folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.parent / f".{folder.name or 'out'}.{os.getpid()}.new"
    try:
        beside.mkdir()
        for name, data in content.items():
            (beside / name).write_bytes(data)
        folder.mkdir(exist_ok=True)
        for name in content:
            os.replace(beside / name, folder / name)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
