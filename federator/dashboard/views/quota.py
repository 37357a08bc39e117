"""The tree of accounts with lent and borrowed amounts, and the workloads that wait. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from federator.dashboard import text
from federator.dashboard.sources.rows import AccountRow
from federator.dashboard.views import workloads
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity

WAITING_MAX: Final = 100
DEPTH_MAX: Final = 64
"""Deeper accounts are not shown; a tree that a person can read has five levels."""


def in_order(accounts: Sequence[AccountRow]) -> Iterator[tuple[int, AccountRow]]:
    """(depth, account): each before those below it, by name. An account without its parent, or
    below itself, stands at the top."""
    known = {row.name for row in accounts}
    below: dict[str, list[AccountRow]] = defaultdict(list)
    for row in accounts:
        below[row.parent if row.parent in known else ""].append(row)
    seen: set[str] = set()

    def walk(parent: str, depth: int) -> Iterator[tuple[int, AccountRow]]:
        for row in below[parent]:
            if row.name not in seen and depth < DEPTH_MAX:
                seen.add(row.name)
                yield depth, row
                yield from walk(row.name, depth + 1)

    yield from walk("", 0)
    for row in accounts:
        if row.name not in seen:
            seen.add(row.name)
            yield 0, row


Pairs = frozenset[tuple[str, str]]
"""(tier, resource)."""


def limited(accounts: Sequence[AccountRow]) -> Pairs:
    """What any of the accounts limits: of all else there is nothing to say in the tree."""
    return frozenset(
        (tier, resource)
        for row in accounts
        for tier, figures in row.tiers
        for name, amounts in figures
        if name in ("guaranteed", "max", "borrowingLimit")
        for resource in amounts
    )


def line(depth: int, row: AccountRow, shown: Pairs | None = None) -> dict[str, Any]:
    """One account, with the amounts of `shown`; None for all."""
    return {
        "name": row.name,
        "href": text.address("quota", row.name),
        "parent": row.parent,
        "depth": depth,
        "projects": list(row.projects),
        "workloads": row.workloads,
        "waiting": row.waiting,
        "summary": row.summary,
        "problem": row.problem,
        "amounts": [
            amount
            for tier in row.tiers
            for amount in _amounts(*tier)
            if shown is None or (amount["tier"], amount["resource"]) in shown
        ],
    }


def _amounts(
    tier: str, figures: Sequence[tuple[str, Mapping[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """One entry for each resource of a tier."""
    by_figure = dict(figures)
    for resource in sorted({name for _, amounts in figures for name in amounts}):
        shown = {name: str(by_figure.get(name, {}).get(resource, "")) for name in FIGURES}
        bound = shown["max"] or shown["guaranteed"]
        yield {
            "tier": tier,
            "resource": resource,
            **shown,
            "percent": text.percent(_milli(shown["used"]), _milli(bound)) if bound else None,
        }


FIGURES: Final = (
    "guaranteed",
    "max",
    "used",
    "borrowed",
    "lent",
    "borrowingLimit",
    "lendingLimit",
    "terminating",
)


def _milli(written: str) -> int:
    try:
        return quantity.milli(written) if written else 0
    except FieldError:
        return 0


def view(
    accounts: Sequence[AccountRow] | None, lacking: tuple[list[dict[str, Any]], int]
) -> dict[str, Any]:
    """The page. None for accounts that the reader may not list; `lacking` from
    `workloads.waiting`."""
    shown, total = lacking
    return {
        "accounts": None
        if accounts is None
        else [line(depth, row, limited(accounts)) for depth, row in in_order(accounts)],
        "waiting": shown,
        "waitingCount": total,
    }


def single(accounts: Sequence[AccountRow], name: str) -> dict[str, Any] | None:
    """One account, with those above and below it; None where there is none."""
    ordered = list(in_order(accounts))
    at = next((at for at, (_, row) in enumerate(ordered) if row.name == name), None)
    if at is None:
        return None
    depth, row = ordered[at]
    by_name = {each.name: each for each in accounts}
    path = []
    above = row
    while above.parent in by_name and above.parent not in path and above.parent != name:
        path.append(above.parent)
        above = by_name[above.parent]
    return {
        **line(depth, row),
        "above": [{"name": each, "href": text.address("quota", each)} for each in reversed(path)],
        "below": [line(0, each) for each in accounts if each.parent == name],
        "all": [{"project": each, "href": workloads.of_account(each)} for each in row.projects],
        "commands": [f"federator quota {name}", "federator queue"],
    }
