"""The report in the forms that programs and terminals read: text, JSON and CSV; and all of them in
a folder.
"""

import csv
import io
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from federator.simulate.outcome import Outcome
from federator.simulate.report import amounts, figures, page
from federator.simulate.report.measures import Measures, Use, Waiting
from federator.simulate.report.page import Provenance

PAGE: Final = "report.html"
DOCUMENT: Final = "report.json"
_RUN_BY_SPREADSHEETS: Final = ("=", "+", "-", "@", "\t", "\r")
GROUPS_SHOWN: Final = 12


def tables(measures: Measures) -> list[tuple[list[str], list[list[str]]]]:
    """(headers, rows) of each table that a terminal shows below the verdict."""
    shown = [[one.name, one.shown] for one in figures.figures(measures)]
    waiting = [
        [
            one.group,
            f"{one.works:,}",
            f"{one.never:,}",
            f"{one.waited:,}",
            *(
                amounts.length(value) if one.started else "-"
                for value in (one.p50_s, one.p99_s, one.max_s)
            ),
        ]
        for one in (*measures.by_tier, *measures.by_project[:GROUPS_SHOWN])
    ]
    use = [
        [
            one.cluster or "all",
            one.resource,
            f"{amounts.whole(one.capacity)} {amounts.unit(one.resource)}",
            figures.percent(one.mean),
            figures.percent(one.peak),
        ]
        for one in (*measures.fleet, *_busiest(measures))
    ]
    found = (
        [(["MEASURE", "VALUE", "WANTED", "MET"], named)]
        if (named := figures.named(measures))
        else []
    )
    found += [
        (["FIGURE", "VALUE"], shown),
        (["TIER OR PROJECT", "WORKS", "NEVER STARTED", "WAITED", "P50", "P99", "LONGEST"], waiting),
        (["CLUSTER", "RESOURCE", "CAPACITY", "MEAN", "PEAK"], use),
    ]
    if measures.lacks:
        lacks = [
            [one.reason, f"{one.works:,}", amounts.whole(one.copy_s / 3600)]
            for one in measures.lacks
        ]
        found.append((["SHORT FOR", "WORKS", "COPY-HOURS"], lacks))
    if measures.scarce:
        scarce = [
            [one.what, amounts.whole(one.copy_s / 3600), f"{one.peak:,}"] for one in measures.scarce
        ]
        found.append((["LACKS MOST", "COPY-HOURS", "COPIES AT ONCE"], scarce))
    return found


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
    found: dict[str, Any] = {
        "name": outcome.name,
        "verdict": figures.verdict(measures),
        "figures": figures.values(measures),
        "waiting": {
            "all": _waiting(measures.waiting),
            "projects": {one.group: _waiting(one) for one in measures.by_project},
            "tiers": {one.group: _waiting(one) for one in measures.by_tier},
        },
        "use": [_used(one) for one in (*measures.fleet, *measures.clusters)],
        "shortfall": [
            {"reason": one.reason, "works": one.works, "copySeconds": one.copy_s}
            for one in measures.lacks
        ],
        "lacking": [
            {"what": one.what, "copySeconds": one.copy_s, "peakCopies": one.peak}
            for one in measures.scarce
        ],
        "happened": [
            {
                "atSeconds": one.at_s,
                "kind": one.kind,
                "subject": one.subject,
                "copies": one.copies,
                "askedCopies": one.asked,
            }
            for one in outcome.happened
        ],
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
            "decisions": outcome.decisions,
            "cycles": outcome.cycles,
        },
    }
    if outcome.wanted:
        found["measures"] = [_judged(one) for one in figures.judged(measures)]
    if (replayed := figures.replay(outcome)) is not None:
        found["replay"] = _replayed(replayed)
    if other is not None:
        found["comparedWith"] = _compared(other, measures)
    return found


def _used(one: Use) -> dict[str, Any]:
    return {
        "cluster": one.cluster,
        "resource": one.resource,
        "capacity": one.capacity,
        "mean": one.mean,
        "peak": one.peak,
    }


def _judged(one: figures.Judged) -> dict[str, Any]:
    return {
        "name": one.wanted.name,
        "figure": one.wanted.figure,
        "value": one.value,
        "least": one.wanted.least,
        "most": one.wanted.most,
        "met": one.met,
    }


def _compared(other: tuple[str, Measures], measures: Measures) -> dict[str, Any]:
    rows = figures.differences(other[1], measures)
    return {
        "name": other[0],
        "figures": figures.values(other[1]),
        "differences": [
            {
                "figure": one.key,
                "before": one.before,
                "after": one.after,
                "change": one.change,
                "verdict": one.verdict,
            }
            for one in rows
        ],
    }


def _replayed(found: figures.Replay) -> dict[str, Any]:
    return {"decisions": found.recorded, "same": found.same, "whole": found.whole}


def _waiting(one: Waiting) -> dict[str, Any]:
    return {
        "works": one.works,
        "started": one.started,
        "waited": one.waited,
        "neverStarted": one.never,
        "sumSeconds": one.sum_s,
        "p50Seconds": one.p50_s,
        "p90Seconds": one.p90_s,
        "p99Seconds": one.p99_s,
        "maxSeconds": one.max_s,
        "curve": [list(point) for point in one.curve],
    }


def files(
    measures: Measures, source: Provenance, other: tuple[str, Measures] | None = None
) -> dict[str, bytes]:
    """Name -> content of every file of a report; the same bytes for the same outcome."""
    text = json.dumps(document(measures, source, other), indent=2, ensure_ascii=False) + "\n"
    return {
        PAGE: page.render(measures, source, other).encode(),
        DOCUMENT: text.encode(),
        "works.csv": _works(measures.outcome),
        "samples.csv": _samples(measures.outcome),
        "clusters.csv": _csv(
            ("cluster", "resource", "capacity", "mean", "peak"),
            (
                (_safe(one.cluster), one.resource, one.capacity, one.mean, one.peak)
                for one in measures.clusters
            ),
        ),
        "waiting.csv": _csv(
            (
                "by",
                "group",
                "works",
                "started",
                "waited",
                "never",
                "sum_s",
                "p50_s",
                "p90_s",
                "p99_s",
                "max_s",
            ),
            (
                (
                    by,
                    _safe(one.group),
                    one.works,
                    one.started,
                    one.waited,
                    one.never,
                    one.sum_s,
                    one.p50_s,
                    one.p90_s,
                    one.p99_s,
                    one.max_s,
                )
                for by, groups in (("project", measures.by_project), ("tier", measures.by_tier))
                for one in groups
            ),
        ),
    }


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


def _works(outcome: Outcome) -> bytes:
    headers = (
        "id",
        "kind",
        "namespace",
        "project",
        "tier",
        "priority",
        "submit_s",
        "start_s",
        "end_s",
        "wait_s",
        "end",
        "clusters",
        "restarts",
        "lost_s",
        "failures",
        "failed_s",
        "scalings",
        "scaled_late",
        "last_reason",
    )
    return _csv(
        headers,
        (
            (
                _safe(life.work.id),
                life.work.kind,
                _safe(life.work.namespace),
                _safe(life.work.project),
                life.work.tier.value,
                life.work.priority,
                life.work.submit_s,
                _cell(life.start_s),
                _cell(life.end_s),
                _cell(life.wait_s),
                life.end.value,
                _safe(" ".join(dict.fromkeys(stay.cluster for stay in life.stays))),
                life.restarts,
                life.lost_s,
                life.failures,
                life.failed_s,
                life.scalings,
                life.scaled_late,
                life.waits[-1].reason if life.waits else "",
            )
            for life in outcome.lives
        ),
    )


def _samples(outcome: Outcome) -> bytes:
    """A row for each sample, cluster and resource: amounts in milli-cores, MiB and GPUs."""
    headers = (
        "at_s",
        "cluster",
        "resource",
        "used",
        "capacity",
        "waiting_works",
        "waiting_copies",
        "fragmented",
    )
    empty = (0,) * len(outcome.resources)
    return _csv(
        headers,
        (
            (
                one.at_s,
                _safe(name),
                resource,
                one.used.get(name, empty)[at],
                capacity[at],
                one.waiting,
                one.waiting_copies,
                one.fragmented,
            )
            for one in outcome.samples
            for name, capacity in sorted(one.capacity.items())
            for at, resource in enumerate(outcome.resources)
        ),
    )


def _csv(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(headers)
    writer.writerows(rows)
    return file.getvalue().encode()


def _cell(value: int | None) -> str:
    return "" if value is None else str(value)


def _safe(text: str) -> str:
    """A name that a spreadsheet would run as a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(_RUN_BY_SPREADSHEETS) else text
