"""Lists as their address says: filters, facets, search, order, pages."""

from dataclasses import replace
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.dashboard import listing
from federator.dashboard.listing import Query
from federator.dashboard.sources.rows import DecisionRow, Health, WorkloadRow
from federator.dashboard.views import workloads
from tests import effort

ROW = WorkloadRow(
    "PinterestService", "feed", "web", "u", "feed", "OnDemand", 0, 3, 3, "Ready", "", "", "", "", ""
)


def rows(count: int) -> list[WorkloadRow]:
    healths = [str(health) for health in Health]
    return [
        replace(
            ROW,
            name=f"w-{number:06d}",
            uid=f"u-{number}",
            namespace=f"ns-{number % 50}",
            account=f"project-{number % 20}",
            health=healths[number % len(healths)],
            desired=number % 97,
        )
        for number in range(count)
    ]


def decided(uid: str) -> DecisionRow:
    at = int(uid.rpartition("-")[2]) % 10
    return DecisionRow(uid, 3, 0, ((f"c-{at}", 2), (f"c-{at + 1}", 1)))


SPEC = workloads.spec(decided)


def page(address: str, count: int = 1000) -> listing.Page[WorkloadRow]:
    query = listing.parse("/workloads", dict(parse_qsl(address)), SPEC)
    return listing.select(query, SPEC, rows(count))


def test_filters_are_joined_and_each_facet_counts_what_the_others_leave() -> None:
    shown = page("namespace=ns-3&health=Stalled")
    assert {(row.namespace, row.health) for row in shown.rows} == {
        ("ns-3", "Stalled")
    } or not shown.rows
    facets = {name: dict(options) for name, options in shown.facets.items()}
    in_namespace = [row for row in rows(1000) if row.namespace == "ns-3"]
    assert sum(facets["health"].values()) == len(in_namespace)
    stalled = [row for row in rows(1000) if row.health == "Stalled"]
    assert facets["namespace"] == {
        space: sum(row.namespace == space for row in stalled)
        for space in {row.namespace for row in stalled}
    } | {"ns-3": shown.total}
    assert page("cluster=c-3").total == sum(
        "c-3" in dict(decided(row.uid).shares) for row in rows(1000)
    )


def test_a_search_needs_all_its_words() -> None:
    assert page("q=NS-4/ w-000004").total == 1
    assert page("q=w-000004 nothing").total == 0


@pytest.mark.parametrize("name", SPEC.sorts)
def test_orders_reverse_and_break_ties_by_name(name: str) -> None:
    up = listing.select(Query("/", sort=name, size=100), SPEC, rows(100)).rows
    down = listing.select(Query("/", sort=f"-{name}", size=100), SPEC, rows(100)).rows
    keys = [SPEC.sorts[name](row) for row in up]
    assert keys == sorted(keys)
    assert [SPEC.sorts[name](row) for row in down] == sorted(keys, reverse=True)
    ties = [(SPEC.sorts[name](row), row.name) for row in up]
    assert ties == sorted(ties)


def test_pages_are_a_partition() -> None:
    names = [row.name for number in range(1, 6) for row in page(f"page={number}", 110).rows]
    assert sorted(names) == [row.name for row in rows(110)]
    last = page("page=5", 110).paging()
    assert (last["from"], last["to"], last["next"], last["pages"]) == (101, 110, "", 5)
    beyond = page("page=6", 110).paging()
    assert (beyond["from"], beyond["to"]) == (0, 0)
    assert page("", 0).paging()["pages"] == 1


@given(
    st.dictionaries(
        st.sampled_from(sorted(SPEC.facets)), st.text(min_size=1, max_size=9), max_size=3
    ),
    st.text(max_size=9),
    st.sampled_from(["", "name", "-health"]),
    st.integers(1, 9),
    st.sampled_from(listing.SIZES),
)
def test_an_address_reads_back_as_its_query(
    filters: dict[str, str], text: str, sort: str, number: int, size: int
) -> None:
    query = Query("/workloads", filters, text, sort, number, size)
    path, _, rest = query.address(page=number).partition("?")
    back = listing.parse(path, dict(parse_qsl(rest, keep_blank_values=True)), SPEC)
    assert replace(back, filters=dict(back.filters)) == query


def test_any_change_begins_with_the_first_page() -> None:
    query = Query("/workloads", {"kind": "a"}, "x", "", 7, 50)
    assert query.address(sort="name") == "/workloads?kind=a&q=x&sort=name&size=50"
    assert query.address(page=8).endswith("page=8")


def test_a_page_of_ten_thousand_workloads_runs_few_lines_for_each() -> None:
    """Its seconds are budget D1: `make bench`."""
    many = rows(10_000)
    query = listing.parse("/workloads", {"q": "w-", "sort": "-desired"}, SPEC)

    def view() -> None:
        shown = workloads.view(listing.select(query, SPEC, many), decided, 0.0)
        assert shown["paging"]["total"] == 10_000

    assert effort.lines(view) < 60 * len(many)


def test_too_many_values_of_a_facet_leave_the_most_frequent_and_the_chosen() -> None:
    many = [replace(row, namespace=f"n-{number // 2}") for number, row in enumerate(rows(1000))]
    query = Query("/workloads", {"namespace": "n-nowhere"})
    options = listing.select(query, SPEC, many).facets["namespace"]
    assert len(options) == listing.OPTIONS_MAX + 1
    assert ("n-nowhere", 0) in options
