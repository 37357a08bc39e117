"""Lists as their address says: filters, search, order and page. Pure.

The address is the whole state of a list, so that it can be kept, sent and opened again. A parameter
that no list has is an error: a filter with a typing error must not show everything.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from federator.model.errors import FieldError

R = TypeVar("R")
SIZES: Final = (25, 50, 100)
OPTIONS_MAX: Final = 200
"""Values of a facet that are offered, the most frequent first."""
TEXT_MAX: Final = 253
"""Characters of a filter or a search."""
COMMON: Final = frozenset({"format", "live"})
"""Parameters of every page."""
ORDERING: Final = frozenset({"q", "sort", "page", "size"})


@dataclass(frozen=True, slots=True)
class Spec(Generic[R]):
    """What a list can be asked."""

    facets: Mapping[str, Callable[[R], tuple[str, ...]]]
    """Parameter -> the values that a row has."""
    sorts: Mapping[str, Callable[[R], Any]]
    """Name -> key; ties are broken by the last of them."""
    text: Callable[[R], str]
    """What a search looks in, in lower case."""
    sort: str
    """The order without the parameter; "-" before a name reverses."""


@dataclass(frozen=True, slots=True)
class Query:
    """What an address asks of a list."""

    path: str
    filters: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    sort: str = ""
    page: int = 1
    size: int = SIZES[0]

    def address(self, **changes: Any) -> str:
        """The address with some of it changed; any change but that of the page begins with the
        first page."""
        page = changes.pop("page", 1)
        wanted = {
            **self.filters,
            "q": self.text,
            "sort": self.sort,
            "size": "" if self.size == SIZES[0] else self.size,
            **changes,
            "page": "" if page == 1 else page,
        }
        pairs = [(name, value) for name, value in wanted.items() if value != ""]
        return f"{self.path}?{urlencode(pairs, errors='replace')}" if pairs else self.path


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """A part of a list."""

    rows: Sequence[R]
    total: int
    """Rows that match."""
    facets: Mapping[str, Sequence[tuple[str, int]]]
    """Parameter -> values with the number of rows that match everything else."""
    query: Query

    def paging(self) -> dict[str, Any]:
        """Where it stands, for the template and for programs."""
        query = self.query
        last = max(-(-self.total // query.size), 1)
        begin = (query.page - 1) * query.size
        return {
            "total": self.total,
            "narrowed": bool(query.text or any(query.filters.values())),
            "from": begin + 1 if self.rows else 0,
            "to": begin + len(self.rows) if self.rows else 0,
            "page": query.page,
            "pages": last,
            "size": query.size,
            "sizes": [{"size": size, "href": query.address(size=size)} for size in SIZES],
            "previous": query.address(page=query.page - 1) if query.page > 1 else "",
            "next": query.address(page=query.page + 1) if query.page < last else "",
        }

    def filters(self) -> list[dict[str, Any]]:
        """The facets with what may be chosen."""
        return [
            {
                "name": name,
                "chosen": self.query.filters.get(name, ""),
                "options": [{"value": value, "count": count} for value, count in options],
            }
            for name, options in self.facets.items()
        ]


def parse(path: str, parameters: Mapping[str, str], spec: Spec[Any]) -> Query:
    """The query of an address. Raises FieldError that names the parameter."""
    for name in parameters:
        if name not in spec.facets and name not in ORDERING | COMMON:
            accepted = ", ".join(sorted({*spec.facets, *ORDERING}))
            raise FieldError(name[:40], f"there is no such parameter; this page has {accepted}")
    for name, text in parameters.items():
        if len(text) > TEXT_MAX:
            raise FieldError(name, f"must have at most {TEXT_MAX} characters")
    sort = parameters.get("sort", "")
    if sort and sort.removeprefix("-") not in spec.sorts:
        raise FieldError("sort", f"must be one of {', '.join(spec.sorts)}, with - to reverse it")
    size = _number(parameters, "size", SIZES[0])
    if size not in SIZES:
        raise FieldError("size", f"must be one of {', '.join(map(str, SIZES))}")
    page = _number(parameters, "page", 1)
    if page < 1:
        raise FieldError("page", "must be 1 or more")
    filters = {name: parameters[name] for name in spec.facets if parameters.get(name)}
    return Query(path, filters, parameters.get("q", ""), sort, page, size)


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise FieldError(name, "must be a whole number")
    return int(text)


def select(query: Query, spec: Spec[R], rows: Iterable[R]) -> Page[R]:
    """The page of the rows that the query asks for, with the counts of every facet."""
    words = query.text.lower().split()
    filters = [(name, spec.facets[name], wanted) for name, wanted in query.filters.items()]
    matching: list[R] = []
    # rows that only this filter leaves out: its facet counts them too
    near: dict[str, list[R]] = {name: [] for name in query.filters}
    for row in rows:
        if words and not _has(spec.text(row), words):
            continue
        missed = [name for name, of, wanted in filters if wanted not in of(row)] if filters else ()
        if not missed:
            matching.append(row)
        elif len(missed) == 1:
            near[missed[0]].append(row)
    counts = {
        name: Counter(chain.from_iterable(map(of, chain(matching, near.get(name, ())))))
        for name, of in spec.facets.items()
    }
    begin = (query.page - 1) * query.size
    shown = window(matching, query.sort or spec.sort, spec, begin, begin + query.size)
    options = {
        name: _options(counted, query.filters.get(name, "")) for name, counted in counts.items()
    }
    return Page(shown, len(matching), options, query)


def window(matching: Sequence[R], sort: str, spec: Spec[R], begin: int, end: int) -> list[R]:
    """Rows `begin` to `end` in this order; of equal ones by the last key, whatever the direction.
    Only what has to be is sorted: most of 100,000 workloads have the same health."""
    key, tie = spec.sorts[sort.removeprefix("-")], list(spec.sorts.values())[-1]
    alike: dict[Any, list[R]] = {}
    for row in matching:
        alike.setdefault(key(row), []).append(row)
    shown: list[R] = []
    at = 0
    for value in sorted(alike, reverse=sort.startswith("-")):
        group = alike[value]
        first, last = max(begin - at, 0), min(end - at, len(group))
        if first < last:
            shown += heapq.nsmallest(last, group, key=tie)[first:]
        at += len(group)
        if at >= end:
            break
    return shown


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


def _options(counted: Mapping[str, int], chosen: str) -> list[tuple[str, int]]:
    """By name; the most frequent where there are too many. What is chosen is always offered."""
    options = heapq.nlargest(OPTIONS_MAX, counted.items(), key=lambda option: option[1])
    if chosen and chosen not in dict(options):
        options.append((chosen, counted.get(chosen, 0)))
    return sorted(options)


def headers(
    query: Query, spec: Spec[Any], columns: Iterable[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Of (title, name of its order or ""): the headers, with the address that orders by it."""
    now = query.sort or spec.sort
    made = []
    for title, name in columns:
        ordered = (
            "" if now.removeprefix("-") != name else "descending" if now[0] == "-" else "ascending"
        )
        reverse = f"-{name}" if ordered == "ascending" else name
        made.append(
            {"title": title, "sorted": ordered, "href": query.address(sort=reverse) if name else ""}
        )
    return made
