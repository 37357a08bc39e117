"""A plan in sentences and tables, from its document. The command line and the dashboard show the
same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.model.kubernetes import quantity
from federator.model.plaintext import counted

SHOWN: Final = 20
"""Rows of each table on a terminal; all are in -o json."""
ROWS_A_MESSAGE: Final = 4
"""Messages are longer than rows, so fewer of them are shown."""
NOWHERE: Final = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """A part of the plan with rows, the largest first."""

    headers: tuple[str, ...]
    rows: list[list[str]]
    """As many as were asked for."""
    total: int
    """Rows that there are."""
    noun: tuple[str, str]
    """What a row is, in singular and plural."""


Part = list[str] | Table
"""Sentences, one a line, or a table."""


def parts(
    document: Mapping[str, Any], *, max_moves: int | None = None, most: int = SHOWN
) -> Iterator[Part]:
    """The whole plan. `most`: rows of each table."""
    yield _head(document, max_moves)
    if document["refused"]:
        yield list(document["refused"])
    yield from _workloads(document, most)
    yield from _groups(document, most)
    if messages := _messages(document, most):
        yield messages
    yield from _accounts(document, most)
    yield from _budgets(document, most)
    yield from _losses(document)
    yield from _invariants(document)
    if not document["settled"]:
        yield [
            "The decisions were still changing when the plan was cut off: apply these edits in"
            " smaller parts."
        ]


def _head(document: Mapping[str, Any], max_moves: int | None) -> list[str]:
    summary, looked = document["summary"], document["looked"]
    among = (
        f"{counted(looked['workloads'], 'workload', 'workloads')} in"
        f" {counted(looked['clusters'], 'cluster', 'clusters')}"
    )
    if not summary["workloads"]:
        return [f"Nothing changes, of {among}."]
    said = [f"{counted(summary['workloads'], 'workload changes', 'workloads change')}, of {among}."]
    moves = counted(summary["moves"], "copy moves", "copies move")
    more = f" (more than --max-moves {max_moves})" if _exceeds(summary, max_moves) else ""
    said.append(
        f"{moves} between clusters{more}, {summary['restarted']} restart, {summary['started']}"
        f" start, {summary['ended']} end."
    )
    if summary["preempted"]:
        said.append(f"{counted(summary['preempted'], 'copy leaves', 'copies leave')} for others.")
    if summary["waiting"]:
        said.append(f"{counted(summary['waiting'], 'copy waits', 'copies wait')} for a place.")
    if summary["shorter"]:
        lacking = counted(summary["shorter"], "workload ends", "workloads end")
        said.append(f"{lacking} shorter than now, or with an edit held back.")
    if others := document.get("others"):
        unseen = counted(others["workloads"], "of them is", "of them are")
        said.append(f"{unseen} in namespaces where you may not list workloads.")
    if document["seconds"]:
        said.append(f"The last copy may move after {duration(document['seconds'])}.")
    return said


def _exceeds(summary: Mapping[str, int], max_moves: int | None) -> bool:
    return max_moves is not None and summary["moves"] > max_moves


def duration(seconds: float) -> str:
    """`40 s`, `12 min`: rounded up, as a person plans."""
    whole = -int(-seconds // 1)
    return f"{whole} s" if whole < 120 else f"{-(-whole // 60)} min"


def _workloads(document: Mapping[str, Any], most: int) -> Iterator[Table]:
    rows = document["workloads"]
    table = [
        [
            row["workload"],
            _what(row),
            _copies(row["leaves"]),
            _copies(row["enters"]),
            str(row["restarted"]),
            _short(row),
            row.get("reason", ""),
        ]
        for row in rows[:most]
    ]
    headers = ("WORKLOAD", "CHANGE", "LEAVES", "ENTERS", "RESTARTED", "SHORT", "REASON")
    yield from _table(headers, table, len(rows), ("workload", "workloads"))


def _what(row: Mapping[str, Any]) -> str:
    if row.get("created"):
        return "new"
    if row.get("deleted"):
        return "deleted"
    if row.get("heldBack"):
        return "held back"
    before, after = sum(row["before"].values()), sum(row["after"].values())
    if before != after:
        return f"{before} -> {after}"
    return "moves" if row["moves"] else "restarts" if row["restarted"] else "waits"


def _copies(by_cluster: Mapping[str, int]) -> str:
    """`a: 3, b: 2`, the most first; at most three clusters by name."""
    ordered = sorted(by_cluster.items(), key=lambda pair: (-pair[1], pair[0]))
    named = [f"{name}: {copies}" for name, copies in ordered[:3]]
    if len(ordered) > 3:
        named.append(f"{len(ordered) - 3} more: {sum(copies for _, copies in ordered[3:])}")
    return ", ".join(named) or NOWHERE


def _short(row: Mapping[str, Any]) -> str:
    now, then = row["shortBefore"], row["short"]
    return f"{now} -> {then}" if now != then else str(then) if then else NOWHERE


def _table(
    headers: tuple[str, ...], rows: list[list[str]], total: int, noun: tuple[str, str]
) -> Iterator[Table]:
    if rows:
        yield Table(headers, rows, total, noun)


def _groups(document: Mapping[str, Any], most: int) -> Iterator[Table]:
    """By policy and by pair of clusters, where there are more workloads than are listed."""
    if len(document["workloads"]) <= SHOWN:
        return
    policies, pairs = document["byPolicy"], document["byClusters"]
    by_policy = [
        [row["policy"] or NOWHERE, str(row["workloads"]), str(row["copies"])]
        for row in policies[:most]
    ]
    yield from _table(
        ("POLICY", "WORKLOADS", "COPIES"), by_policy, len(policies), ("policy", "policies")
    )
    by_pair = [
        [
            row["from"] or NOWHERE,
            row["to"] or NOWHERE,
            str(row["workloads"]),
            str(row["copies"]),
        ]
        for row in pairs[:most]
    ]
    yield from _table(("FROM", "TO", "WORKLOADS", "COPIES"), by_pair, len(pairs), ("pair", "pairs"))


def _messages(document: Mapping[str, Any], most: int) -> list[str]:
    """Why workloads end short, are held back or leave for others."""
    noted = [row for row in document["workloads"] if row.get("message") or "preempted" in row]
    lines, most = list[str](), most // ROWS_A_MESSAGE
    for row in noted[:most]:
        left = row.get("preempted")
        if left is not None:
            copies = counted(left["copies"], "copy leaves", "copies leave")
            lines.append(f"{row['workload']}: {copies} for {left['by']}")
        if row.get("message"):
            lines.append(f"{row['workload']}: {row['message']}")
    if len(noted) > most:
        lines.append(f"... and {len(noted) - most} more with a reason (-o json)")
    return lines


def _accounts(document: Mapping[str, Any], most: int) -> Iterator[Table]:
    rows = document.get("accounts", ())
    table = [
        [
            row["account"],
            row["tier"],
            row["resource"],
            _changed(row, "guaranteed"),
            _changed(row, "used"),
            _changed(row, "borrowed"),
            _changed(row, "lent"),
        ]
        for row in rows[:most]
    ]
    headers = ("ACCOUNT", "TIER", "RESOURCE", "GUARANTEED", "USED", "BORROWED", "LENT")
    yield from _table(headers, table, len(rows), ("row", "rows"))


def _changed(row: Mapping[str, Any], field: str) -> str:
    before, after = (
        quantity.readable(row["resource"], str(row[when].get(field, "0")))
        for when in ("before", "after")
    )
    return f"{before} -> {after}" if before != after else after


def _budgets(document: Mapping[str, Any], most: int) -> Iterator[Table]:
    rows: Sequence[Mapping[str, Any]] = document.get("budgets", ())
    table = [
        [row["budget"], str(row["copies"]), str(row["aMinute"]), duration(row["seconds"])]
        for row in rows[:most]
    ]
    headers = ("BUDGET", "COPIES", "A MINUTE", "LAST AFTER")
    yield from _table(headers, table, len(rows), ("budget", "budgets"))


def _losses(document: Mapping[str, Any]) -> Iterator[list[str]]:
    for loss in document.get("uncovered", ())[:SHOWN]:
        now, then = loss["copiesWithoutPlaceNow"], loss["copiesWithoutPlaceThen"]
        lines = [
            f"Without {loss['cluster']}, {counted(then, 'copy', 'copies')} would have no place"
            f" (now {now}):"
        ]
        lines += [
            f"  {row['workload']}: {row['copies']}: {row['why']}" for row in loss["workloads"]
        ]
        yield lines


def _invariants(document: Mapping[str, Any]) -> Iterator[list[str]]:
    """The invariants that do not hold then. Those that are as broken as now come last."""
    for broken in document.get("invariants", ())[:SHOWN]:
        now, then = broken["copiesBeyondNow"], broken["copiesBeyondThen"]
        of = counted(broken["workloads"], "workload", "workloads")
        verb = "breaks" if broken["worse"] and not now else "is broken"
        lines = [
            f"PlacementInvariant {broken['invariant']} ({broken['enforcement']}) {verb}:"
            f" {counted(then, 'copy', 'copies')} of {of} beyond it (now {now}):"
        ]
        lines += [f"  {row['message']}" for row in broken["breaches"]]
        yield lines
