"""The demand of a table: one work a row, in the order of submission.

The table of our scenario folders (`workloads.csv`) is read as it is; any other with a mapping of
columns and units. A work is known by its id; the second row of one id is left out.
"""

import difflib
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

from federator.model.ask import Tier
from federator.simulate.demand import Failing, Work
from federator.simulate.traces import columns as columns_module
from federator.simulate.traces import likely
from federator.simulate.traces import table as tables
from federator.simulate.traces.columns import OURS, Columns, Rows
from federator.simulate.traces.dialect import FOUND, Dialect
from federator.simulate.traces.problems import Problem, Problems, TraceError
from federator.simulate.traces.table import Table

NEEDED: Final = ("id", "submit", "runtime")
"""Fields without which a table is no demand; an end and a start stand for the run time."""
TOLERATED: Final = Fraction(1, 100)
"""The share of bad rows that is tolerated where nobody says."""
FOLDER_NAMES: Final[Mapping[str, str]] = {
    "id": "name",
    "kind": "kind",
    "tenant": "tenant",
    "home": "home_cluster",
    "submit": "submit_s",
    "runtime": "runtime_s",
    "shards": "shards",
    "cpu": "cpu_milli",
    "memory": "memory_mib",
    "gpu": "gpu",
    "gpuModels": "gpu_models",
    "priority": "priority",
}
"""Field -> column of our scenario folders."""
EXITS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(
        ("", "0", "completed", "complete", "succeeded", "success", "pass", "passed", "ok"), False
    ),
    **dict.fromkeys(
        ("failed", "failure", "fail", "error", "nodefail", "node_fail", "timeout"), True
    ),
}
"""Cell, in small letters -> whether the job failed. Exit codes other than 0 are failures too."""
KINDS: Final[Mapping[str, str]] = {
    "service": "service",
    "job": "job",
    "jobset": "jobset",
    "trainingjob": "trainingjob",
}
UNSORTED: Final = "is not sorted by submission, sorted in"
EPOCH_FROM_S: Final = 100_000_000
"""A first submission later than this is taken for epoch seconds, and becomes second 0."""


@dataclass(frozen=True, slots=True)
class TierBy:
    """The service class of each work by the value of a column."""

    column: str = ""
    """"" gives every work `otherwise`."""
    of: Mapping[str, Tier] = field(default_factory=dict)
    otherwise: Tier = Tier.ON_DEMAND


@dataclass(frozen=True, slots=True)
class Reading:
    """How a trace is read."""

    columns: Columns = OURS
    tolerated: Fraction = TOLERATED
    tiers: TierBy = TierBy()
    checkpoint_s: int | None = None
    """Of every work that the trace says nothing of."""
    dialect: Dialect = FOUND


AS_OURS: Final = Reading()


@dataclass(frozen=True, slots=True)
class Trace:
    """The demand of a file."""

    works: tuple[Work, ...]
    """By submission; at one second in the order of the file."""
    problems: Problems
    read: int
    """Rows in the file, bad ones included."""
    origin_s: int = 0
    """Epoch seconds of second 0, 0 when the file tells no date."""
    file: str = ""
    rows: Sequence[int] = ()
    """The row of each work in the file."""


def read(path: Path, reading: Reading = AS_OURS) -> Trace:
    """The works of a table. Raises TraceError."""
    problems = Problems()
    table = tables.read(path, problems, reading.dialect)
    names = _names(table, reading.columns)
    absent = [column for name, column in FOLDER_NAMES.items() if name not in names]
    if absent and not reading.columns.names:
        problems.note(table.file, f"does not record {', '.join(absent)}")
    rows = Rows(table, problems)
    values = _values(rows, names, reading.columns)
    ids = columns_module.texts(table, names["id"])
    rows.once(names["id"], ids)
    kinds = _kinds(rows, names.get("kind"))
    tiers = _tiers(rows, names.get("tier"), reading.tiers)
    submits, runtimes = _times(rows, names, values)
    failing = _failing(rows, names, values, kinds)
    problems.check(table.file, table.read, reading.tolerated)
    kept = rows.good()
    if not kept:
        raise TraceError(table.file, 0, "", "has no row that can be read")
    if "gpu" in names:
        _note_parts(rows, names["gpu"])
    order = _ordered(rows, names["submit"], submits, kept)
    problems.check(table.file, table.read, reading.tolerated)
    origin = submits[order[0]] if submits[order[0]] > EPOCH_FROM_S else 0
    tenants, homes, models = (
        columns_module.texts(table, names[name]) if name in names else [""] * len(ids)
        for name in ("tenant", "home", "gpuModels")
    )
    listed = {models_text: _listed(models_text) for models_text in set(models)}
    made = map(
        Work,
        ids,
        kinds,
        [tenant or "default" for tenant in tenants],
        tenants,
        tiers,
        homes,
        [submit - origin for submit in submits],
        runtimes,
        [shards or 1 for shards in values["shards"]],
        values["cpu"],
        values["memory"],
        values["gpu"],
        [listed[text] for text in models],
        [priority or 0 for priority in values["priority"]],
        [seconds or reading.checkpoint_s for seconds in values["checkpoint"]],
        itertools.repeat(None),
        failing,
    )
    works = tuple(made)
    if len(order) < len(works) or order is not kept:
        works = tuple(works[at] for at in order)
    rows_of = [table.rows[at] for at in order]
    return Trace(works, problems, table.read, origin, table.file, rows_of)


def _listed(models: str) -> tuple[str, ...]:
    return tuple(model.strip() for model in models.split("|") if model.strip())


def _names(table: Table, columns: Columns) -> dict[str, str]:
    """Field -> column. Raises TraceError for a column that is not there and is needed."""
    names = {name: column for name, column in FOLDER_NAMES.items() if column in table.header}
    names |= columns.names
    if "end" in columns.names and "runtime" not in columns.names:
        names.pop("runtime", None)
    for column in columns.names.values():
        table.column(column)
    lacking = [name for name in NEEDED if name not in names]
    if not columns.names and not lacking:
        lacking = _misspelt(table.header, names)
    if "end" in names and "runtime" in lacking:
        lacking.remove("runtime")
        if "start" not in names:
            raise TraceError(
                table.file,
                1,
                names["end"],
                "an end without a start makes run time of waiting: name the column of the start"
                f" (start){likely.columns(table.header, ['start'])}",
            )
    if lacking:
        missing = ", ".join(f"{FOLDER_NAMES[name]} ({name})" for name in lacking)
        raise TraceError(
            table.file,
            1,
            "",
            f"there is no column {missing}; there are {table.listed}"
            f"{likely.columns(table.header, lacking)}",
        )
    return names


def _misspelt(header: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Fields without a column where the table has one of nearly that name: left out by mistake
    they would be read as not recorded."""
    others = [column for column in header if column not in names.values()]
    return [
        name
        for name, column in FOLDER_NAMES.items()
        if name not in names and difflib.get_close_matches(column, others, 1, 0.8)
    ]


def _values(
    rows: Rows, names: Mapping[str, str], columns: Columns
) -> dict[str, Sequence[int | None]]:
    """Field -> its numbers by row; None where the table has no such column."""
    nothing: Sequence[int | None] = [None] * len(rows.table.rows)
    return {
        name: columns_module.numbers(rows, names[name], name, columns.unit(name))
        if name in names
        else nothing
        for name in columns_module.NUMBERS
        if name != "nodes"
    }


def _kinds(rows: Rows, column: str | None) -> Sequence[str]:
    if column is None:
        return ["job"] * len(rows.table.rows)
    cells = columns_module.texts(rows.table, column)
    kinds = {cell: KINDS.get(cell.lower(), "") for cell in set(cells)}
    _refuse_unknown(rows, column, cells, {cell for cell, kind in kinds.items() if not kind}, KINDS)
    return [kinds[cell] for cell in cells]


def _tiers(rows: Rows, column: str | None, by: TierBy) -> Sequence[Tier]:
    if column is not None:
        cells = columns_module.texts(rows.table, column)
        tiers = {"": by.otherwise, **{str(tier): tier for tier in Tier}}
        _refuse_unknown(rows, column, cells, set(cells) - set(tiers), list(Tier))
        return [tiers.get(cell, by.otherwise) for cell in cells]
    if not by.column:
        return [by.otherwise] * len(rows.table.rows)
    return [by.of.get(cell, by.otherwise) for cell in columns_module.texts(rows.table, by.column)]


def _refuse_unknown(
    rows: Rows,
    column: str,
    cells: Sequence[str],
    unknown: Collection[str],
    allowed: Collection[str],
) -> None:
    if unknown:
        for at, cell in enumerate(cells):
            if cell in unknown:
                rows.refuse(
                    at, column, f"is none of {', '.join(allowed)}", columns_module.shortened(cell)
                )


def _times(
    rows: Rows, names: Mapping[str, str], values: Mapping[str, Sequence[int | None]]
) -> tuple[list[int], Sequence[int | None]]:
    """Submission and run time of each row; a start and an end become a run time."""
    submits = [value or 0 for value in values["submit"]]
    if "runtime" in names:
        return submits, values["runtime"]
    runtimes: list[int | None] = []
    for at, (start, end) in enumerate(zip(values["start"], values["end"], strict=True)):
        runtimes.append(None if end is None or start is None else end - start)
        if end is not None and start is None:
            rows.refuse(at, names["start"], "ended without a start", wrong=False)
        elif start is not None and start < submits[at]:
            rows.refuse(at, names["start"], "is before the submission", str(start))
        elif end is not None and start is not None and end < start:
            rows.refuse(at, names["end"], "is before the start", str(end))
    return submits, runtimes


def _failing(
    rows: Rows,
    names: Mapping[str, str],
    values: Mapping[str, Sequence[int | None]],
    kinds: Sequence[str],
) -> Sequence[Failing | None]:
    """How each job fails. One that the trace says has failed in the end is not tried again."""
    nothing: Sequence[Failing | None] = [None] * len(rows.table.rows)
    if "failures" not in names and "exit" not in names:
        return nothing
    exits = (
        columns_module.texts(rows.table, names["exit"]) if "exit" in names else [""] * len(nothing)
    )
    over = {cell: _exit(cell) for cell in set(exits)}
    unknown = {cell for cell, failed in over.items() if failed is None}
    _refuse_unknown(
        rows, names.get("exit", ""), exits, unknown, ("completed", "failed", "an exit code")
    )
    failing: list[Failing | None] = []
    for at, (times, after_s, limit, cell) in enumerate(
        zip(values["failures"], values["failsAfter"], values["backoffLimit"], exits, strict=True)
    ):
        failed = bool(over[cell])
        if not times and not failed:
            failing.append(None)
            continue
        if kinds[at] == "service":
            column = names["exit"] if failed else names["failures"]
            rows.refuse(at, column, "is of a service, which does not end")
        failing.append(Failing((times or 0) + failed, after_s, (times or 0) if failed else limit))
    return failing


def _exit(cell: str) -> bool | None:
    """Whether a job failed; None for a cell that does not say."""
    code = cell.removeprefix("-")
    return EXITS.get(cell.lower(), True if code.isascii() and code.isdigit() else None)


def _ordered(rows: Rows, column: str, submits: Sequence[int], kept: Sequence[int]) -> Sequence[int]:
    """The rows by submission. A row that is earlier than the one before it is named."""
    table = rows.table
    times = [submits[at] for at in kept]
    if all(map(int.__le__, times, times[1:])):
        return kept
    for before, at in itertools.pairwise(kept):
        if submits[at] < submits[before]:
            detail = f"{submits[at]} after {submits[before]}"
            rows.problems.add(
                Problem(
                    table.file,
                    table.rows[at],
                    column,
                    UNSORTED,
                    detail,
                    left_out=False,
                    wrong=False,
                )
            )
    return sorted(kept, key=submits.__getitem__)


def _note_parts(rows: Rows, column: str) -> None:
    """Notes how many works ask for a part of a GPU: the federation gives whole ones."""
    cells = rows.table.column(column)
    parts = {cell for cell in set(cells) if cell.strip(" 0").partition(".")[2]}
    asking = sum(1 for cell in cells if cell in parts)
    if asking:
        rows.problems.note(
            rows.table.file, f"{asking} works ask for a part of a GPU and get a whole one", column
        )
