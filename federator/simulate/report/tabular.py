"""The tables of a report, each as a CSV file and, with the extra `analysis`, as a Parquet file.

Both have the same columns and rows. In Parquet numbers are numbers, what has not happened is null,
and names are as they were submitted; in CSV an apostrophe stands before a name that a spreadsheet
would run as a formula.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.simulate.outcome import Life
from federator.simulate.report import amounts, growing
from federator.simulate.report.measures import Measures

_RUN_BY_SPREADSHEETS: Final = ("=", "+", "-", "@", "\t", "\r")
_ROWS: Final = 100_000
"""Rows of a Parquet file that are in memory at once."""


class NoArrow(Exception):
    """Parquet files cannot be written; the message says what helps."""


def safe(text: str) -> str:
    """A name that a spreadsheet would run as a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(_RUN_BY_SPREADSHEETS) else text


def _figure(amount: float) -> str:
    """Exact to a milli-core or a MiB, without zeros at the end."""
    return f"{amount:.6f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a column holds."""

    arrow: str
    """Its type in Parquet."""
    shown: Callable[[Any], str] | None = None
    """What CSV shows for a value; None: what the csv module makes of it."""


TEXT: Final = Kind("string", safe)
WHOLE: Final = Kind("int64")
AMOUNT: Final = Kind("float64", _figure)
EXACT: Final = Kind("float64")
"""All digits."""
MONEY: Final = Kind("float64", "{:.2f}".format)
CHOICE: Final = Kind("bool", {True: "yes", False: "no"}.__getitem__)


@dataclass(frozen=True, slots=True)
class Table:
    """One table. Its rows can be read once."""

    name: str
    columns: Mapping[str, Kind]
    rows: Iterable[Sequence[Any]]
    """None: nothing to tell."""


WORKS: Final = {
    "id": TEXT,
    "kind": TEXT,
    "namespace": TEXT,
    "project": TEXT,
    "tier": TEXT,
    "priority": WHOLE,
    "submit_s": WHOLE,
    "start_s": WHOLE,
    "end_s": WHOLE,
    "wait_s": WHOLE,
    "end": TEXT,
    "clusters": TEXT,
    "restarts": WHOLE,
    "lost_s": WHOLE,
    "preempted": WHOLE,
    "preempted_s": WHOLE,
    "failures": WHOLE,
    "failed_s": WHOLE,
    "scalings": WHOLE,
    "scaled_late": WHOLE,
    "last_reason": TEXT,
    "shards": WHOLE,
    "cpu_cores": AMOUNT,
    "memory_gib": AMOUNT,
    "gpus": AMOUNT,
    "home": TEXT,
    "warm_up": CHOICE,
    "ran": TEXT,
    "cost": MONEY,
}
SAMPLES: Final = {
    "at_s": WHOLE,
    "cluster": TEXT,
    "resource": TEXT,
    "used": AMOUNT,
    "capacity": AMOUNT,
}
BACKLOG: Final = {
    "at_s": WHOLE,
    "waiting_works": WHOLE,
    "waiting_copies": WHOLE,
    "fragmented": WHOLE,
}
CLUSTERS: Final = {
    "cluster": TEXT,
    "resource": TEXT,
    "capacity": EXACT,
    "mean": EXACT,
    "peak": EXACT,
    "peak_amount": EXACT,
}
WAITING: Final = {
    "by": TEXT,
    "group": TEXT,
    "works": WHOLE,
    "started": WHOLE,
    "waited": WHOLE,
    "never": WHOLE,
    "sum_s": WHOLE,
    "p50_s": WHOLE,
    "p90_s": WHOLE,
    "p99_s": WHOLE,
    "max_s": WHOLE,
}


NODES: Final = {
    "cluster": TEXT,
    "class": TEXT,
    "ordered_s": WHOLE,
    "ready_s": WHOLE,
    "removed_s": WHOLE,
    "node_s": WHOLE,
    "cost": EXACT,
}


def of(measures: Measures) -> tuple[Table, ...]:
    lives = range(len(measures.outcome.lives))
    return (
        Table("works", WORKS, (_work(measures, at) for at in lives)),
        Table("samples", SAMPLES, _samples(measures)),
        Table(
            "backlog",
            BACKLOG,
            (
                (sample.at_s, sample.waiting, sample.waiting_copies, sample.fragmented)
                for sample in measures.outcome.samples
            ),
        ),
        Table(
            "clusters",
            CLUSTERS,
            (
                (use.cluster, use.resource, use.capacity, use.mean, use.peak, use.peak_amount)
                for use in measures.clusters
            ),
        ),
        Table("waiting", WAITING, _waiting(measures)),
        *([Table("nodes", NODES, growing.rows(measures.outcome))] if measures.grown else ()),
    )


def _work(measures: Measures, at: int) -> tuple[Any, ...]:
    life, bill = measures.outcome.lives[at], measures.bill
    work = life.work
    return (
        work.id,
        work.kind,
        work.namespace,
        work.project,
        work.tier.value,
        work.priority,
        work.submit_s,
        life.start_s,
        life.end_s,
        life.wait_s,
        life.end.value,
        " ".join(dict.fromkeys(stay.cluster for stay in life.stays)),
        life.restarts,
        life.lost_s,
        life.preempted,
        life.preempted_s,
        life.failures,
        life.failed_s,
        life.scalings,
        life.scaled_late,
        life.waits[-1].reason if life.waits else "",
        work.shards,
        _amount(work.cpu_milli, 1000),
        _amount(work.memory_mib, 1024),
        _amount(work.gpu, 1),
        work.home_cluster,
        work.submit_s < measures.begin_s,
        _ran(life),
        bill.works[at] / 100 if bill.works else None,
    )


def _amount(value: int | None, unit: int) -> float | None:
    """Of one shard."""
    return None if value is None else value / unit


def _ran(life: Life) -> str:
    """Where how many copies stood, in order: `a=4 b=2`."""
    return " ".join(f"{stay.cluster}={stay.copies}" for stay in life.stays)


def _samples(measures: Measures) -> Iterator[tuple[Any, ...]]:
    """A row for each sample, cluster and resource: amounts in cores, GiB and GPUs."""
    resources = measures.outcome.resources
    empty = (0,) * len(resources)
    for sample in measures.outcome.samples:
        for name, capacity in sorted(sample.capacity.items()):
            used = sample.used.get(name, empty)
            for at, resource in enumerate(resources):
                yield (
                    sample.at_s,
                    name,
                    resource,
                    amounts.people(resource, used[at]),
                    amounts.people(resource, capacity[at]),
                )


def _waiting(measures: Measures) -> Iterator[tuple[Any, ...]]:
    for by, groups in (("project", measures.by_project), ("tier", measures.by_tier)):
        for group in groups:
            yield (
                by,
                group.group,
                group.works,
                group.started,
                group.waited,
                group.never,
                group.sum_s,
                group.p50_s,
                group.p90_s,
                group.p99_s,
                group.max_s,
            )


# -- as files --------------------------------------------------------------------------------------


def as_csv(table: Table) -> bytes:
    content = io.BytesIO()  # of a text in memory every character takes four bytes
    file = io.TextIOWrapper(content, encoding="utf-8", newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    shown = [(at, show) for at, kind in enumerate(table.columns.values()) if (show := kind.shown)]

    def cells() -> Iterator[list[Any]]:
        for row in table.rows:
            line = list(row)
            for at, show in shown:
                value = line[at]
                if value is not None:
                    line[at] = show(value)
            yield line

    writer.writerows(cells())
    file.flush()
    return content.getvalue()


def as_parquet(table: Table) -> bytes:
    """Raises NoArrow."""
    arrow, parquet = _arrow()
    types = {
        "string": arrow.string(),
        "int64": arrow.int64(),
        "float64": arrow.float64(),
        "bool": arrow.bool_(),
    }
    schema = arrow.schema([(name, types[kind.arrow]) for name, kind in table.columns.items()])
    content = io.BytesIO()
    with parquet.ParquetWriter(content, schema) as writer:
        for rows in _parts(table.rows):
            columns = zip(*rows, strict=True)
            arrays = [
                arrow.array(values, field.type)
                for values, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
    return content.getvalue()


def need_arrow() -> None:
    """Raises NoArrow where Parquet files cannot be written."""
    _arrow()


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise NoArrow("--parquet needs the extra: pip install 'federator[analysis]'") from None
    return pyarrow, parquet


def _parts(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    part: list[Sequence[Any]] = []
    for row in rows:
        part.append(row)
        if len(part) == _ROWS:
            yield part
            part = []
    if part:
        yield part
