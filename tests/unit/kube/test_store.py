"""The store: views that later changes do not reach, indexes that follow, versions beside the
rows.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.kube.store import Bound, Store, Version, version_number
from tests.unit.kube.scripted import on_virtual_time


def version(number: int) -> Version:
    return Version(number, "u")


def test_a_view_stays_as_it_was_when_the_store_changes() -> None:
    store: Store[int] = Store()
    store.put(("ns", "a"), 1, version(1))
    view = store.items()
    store.put(("ns", "b"), 2, version(2))
    store.drop(("ns", "a"))
    assert dict(view) == {("ns", "a"): 1}
    assert dict(store.items()) == {("ns", "b"): 2}
    with pytest.raises(TypeError):
        view[("ns", "c")] = 3  # type: ignore[index]


def test_keys_are_sorted_whatever_the_order_of_arrival() -> None:
    store: Store[int] = Store()
    for name in "cab":
        store.put(("ns", name), 1, version(1))
    assert [name for _, name in store] == ["a", "b", "c"]
    assert ("ns", "a") in store
    assert len(store) == 3


def test_versions_stand_beside_rows_and_go_with_them() -> None:
    store: Store[int] = Store()
    store.put(("ns", "a"), 1, Version(7, "u7"))
    assert store.version(("ns", "a")) == Version(7, "u7")
    store.drop(("ns", "a"))
    assert store.version(("ns", "a")) is None
    assert store.drop(("ns", "a")) is None


def test_a_listing_knows_every_version_whether_its_rows_hold_it_or_not() -> None:
    """A row that could not be read anew stands for a version that is not its own."""
    beside: Store[int] = Store()
    inside: Store[Version] = Store(version_of=lambda row: row)
    stores: tuple[tuple[Store[Any], Any], ...] = ((beside, 5), (inside, Version(1, "u")))
    for store, row in stores:
        listing = store.listing()
        for name, number in (("a", 1), ("b", 2)):
            listing.put(("ns", name), row, Version(number, "u"))
        listing.put(("ns", "c"), None, Version(3, "u"))
        assert list(listing) == [("ns", name) for name in "abc"]
        found = [listing.get(key) for key in listing]
        assert found == [(Version(1, "u"), row), (Version(2, "u"), row), (Version(3, "u"), None)]


def test_a_first_list_is_taken_over_and_another_is_not() -> None:
    store: Store[int] = Store(bound=Bound(objects=3, bytes=100), weight=lambda row: row)
    store.add_index("odd", lambda row: (row % 2 == 1,))
    for rows, taken in (([1, None], False), ([1, 1], False), ([1, 2], True), ([3], False)):
        listing = store.listing()
        for number, row in enumerate(rows):
            name = "abc"[number] if rows != [1, 1] else "a"
            (listing.add if row is not None else listing.put)(("ns", name), row, version(number))
        assert store.adopt(listing) is taken
    assert dict(store.items()) == {("ns", "a"): 1, ("ns", "b"): 2}
    assert store.version(("ns", "b")) == version(1)
    assert store.bytes == 3
    assert store.by_index("odd", True) == [(("ns", "a"), 1)]


def test_only_plain_numbers_compare_as_versions() -> None:
    assert version_number("12") == 12
    assert [version_number(text) for text in ("", "a1", "-1", " 1", "1_0", "١", "9" * 50)] == [
        -1
    ] * 7


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 3)), max_size=40))
def test_an_index_always_equals_one_made_from_scratch(
    changes: list[tuple[str, int | None]],
) -> None:
    store: Store[int] = Store()
    store.add_index("by value", lambda row: (row, row % 2 == 0))
    for name, row in changes:
        if row is None:
            store.drop(("ns", name))
        else:
            store.put(("ns", name), row, version(1))
    for value in (0, 1, 2, 3, True, False):
        expected = sorted(
            (key, row) for key, row in store.items().items() if value in (row, row % 2 == 0)
        )
        assert store.by_index("by value", value) == expected


def test_an_index_added_late_knows_what_is_there() -> None:
    store: Store[int] = Store()
    store.put(("ns", "a"), 1, version(1))
    store.add_index("all", lambda _row: ("x",))
    assert store.by_index("all", "x") == [(("ns", "a"), 1)]
    assert store.by_index("all", "y") == []


@on_virtual_time
async def test_waiting_for_the_first_list_ends_when_it_is_in() -> None:
    store: Store[int] = Store()
    waiting = asyncio.create_task(store.wait_synced())
    await asyncio.sleep(1)
    assert not waiting.done()
    assert not store.synced
    store.mark_synced()
    await waiting
    assert store.synced
