"""What rows of slices take in memory: bounded by what they are estimated to take, and shared only
where that is little.
"""

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from federator.api import raw
from federator.api.common import INDEXES_MAX
from federator.hub.records import slices
from federator.hub.records.slice_rows import slice_store
from federator.kinds.jobset.schema import MAX_SHARDS
from federator.kinds.verbs import SliceMark, annotation_of_mark, encode_mark
from federator.kube.store import Bound, own_version
from federator.model import names, shards
from federator.model.names import WorkloadKey


def told(completed: str, name: str = "train", version: int = 1) -> dict[str, Any]:
    mark = {
        "fleet": "f",
        "workloadUID": "u",
        "originGeneration": 1,
        "cluster": "a",
        "seq": 1,
        "ranges": "0-9999",
    }
    return {
        "metadata": {
            "name": name,
            "namespace": "feed",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": {"shards": 10_000, "parallelism": 10, "slice": mark},
        "status": {"completedIndexes": completed, "running": 3},
    }


def alternating(count: int) -> str:
    return ",".join(str(index) for index in range(0, count, 2))


@pytest.mark.long
def test_an_honest_job_set_in_thousands_of_pieces_leaves_nothing_in_memory_but_its_row() -> None:
    """Each of its states is another set; a cache of them grew to hundreds of megabytes."""
    slices.summarise("PinterestJobSet", "a", told("0"))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    row = None
    for count in range(2000, 2400, 2):
        row = slices.summarise("PinterestJobSet", "a", told(alternating(count), version=count))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert row is not None
    assert len(row.observation.completed) == 1199
    assert after - before < 3 * slices.weight(row) + 200_000, "one row, not two hundred"


@pytest.mark.long
def test_the_estimate_of_a_row_is_near_what_it_takes() -> None:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    rows = [
        slices.summarise("PinterestJobSet", "a", told(alternating(4000), name=f"j{n}"))
        for n in range(50)
    ]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    estimated = sum(map(slices.weight, rows))
    assert estimated / 2 < after - before < estimated * 2


def test_rows_are_kept_up_to_a_bound_in_bytes() -> None:
    rows = [
        slices.summarise("PinterestJobSet", "a", told(alternating(4000), name=f"j{n}"))
        for n in range(10)
    ]
    most = 4 * slices.weight(rows[0]) + 100
    store = slice_store("a/pinterestjobsets", Bound(1000, most))
    store.mark_synced()
    for row in rows:
        if store.takes(("feed", row.key.name), row):
            store.put(("feed", row.key.name), row, own_version(row))

    assert (len(store), store.left_out, store.complete) == (4, 6, False)
    assert store.bytes <= most
    listing = store.listing()
    for row in rows:
        listing.add(("feed", f"other-{row.key.name}"), row, own_version(row))
    assert (len(list(listing)), listing.left_out) == (4, 6)
    for row in rows[:4]:
        store.drop(("feed", row.key.name))
    assert store.bytes == 0


@pytest.mark.parametrize("kind", ["PinterestJobSet", "Deployment"])
def test_a_mark_that_is_spelled_as_before_is_not_read_again_and_any_other_is(kind: str) -> None:
    mark = SliceMark("f", "u-1", 3, "a", 7, ((0, 3), (8, 9)) if kind == "PinterestJobSet" else ())

    def obj(mark: SliceMark, spelling: str = "") -> dict[str, Any]:
        labels = {names.FLEET_LABEL: mark.fleet, names.WORKLOAD_UID_LABEL: mark.workload_uid}
        meta: dict[str, Any] = {"name": "x", "namespace": "n", "labels": labels}
        if kind == "Deployment":
            text = annotation_of_mark(mark) + spelling
            return {"metadata": meta | {"annotations": {names.SLICE_ANNOTATION: text}}, "spec": {}}
        return {"metadata": meta, "spec": {"slice": encode_mark(mark)}}

    first = slices.summarise(kind, "a", obj(mark))
    again = slices.summarise(kind, "a", obj(mark), first)
    assert (first.mark, first.plain) == (mark, True)
    assert again.mark is first.mark
    assert again.plain

    later = replace(mark, seq=8)
    assert slices.summarise(kind, "a", obj(later), first).mark == later
    assert (
        slices.summarise(
            kind, "a", {"metadata": {"name": "x", "namespace": "n"}, "spec": {}}, first
        ).mark
        is None
    )
    spelled = slices.summarise(kind, "a", obj(mark, " "), first)
    assert (spelled.mark, spelled.plain) == (mark, kind != "Deployment")


def test_every_set_of_shards_that_a_job_set_may_have_can_be_written() -> None:
    """In the worst spelling: each shard a piece of its own, and pairs with one left out between
    them.
    """
    pieces = shards.text((index, index) for index in range(MAX_SHARDS))
    pairs = shards.text((index, index + 1) for index in range(0, MAX_SHARDS, 3))

    assert len(pieces) <= INDEXES_MAX
    assert len(pairs) <= INDEXES_MAX
    assert raw.ranges(pieces)[-1] == (MAX_SHARDS - 1, MAX_SHARDS - 1)


UID, OWNER = "0b6f9c3e-5d1f-4f7e-9d55-3c8f0f4c1a2b", "e25d1f82-d9e5-40a1-a432-59121db002f0"


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"mark": None},
        {"mark": SliceMark("f", "u-1", 3, "a", 7)},
        {"mark": SliceMark("f", OWNER, 1 << 40, "a", 7)},
        {"mark": SliceMark("f", OWNER, 3, "a", (1 << 62) - 1, ((0, 3), (8, 9)), pods=(2, 1))},
        {"uid": "u-1"},
        {"uid": ""},
        {"resource_version": ""},
        {"resource_version": "007"},
        {"resource_version": "9" * 30},
        {"amount": -1},
        {"amount": 1 << 40},
        {"live": b""},
        {"deleting": True, "plain": False},
        {"native": {"replicas": 2}},
    ],
)
def test_a_store_gives_back_equal_rows_whatever_they_say(change: dict[str, Any]) -> None:
    """Also those that do not fit the columns, which are kept as they are."""
    obj = told("0-3", version=12)
    obj["metadata"]["uid"], obj["spec"]["slice"]["workloadUID"] = UID, OWNER
    row = replace(slices.summarise("PinterestJobSet", "a", obj), **change)
    store, key = slice_store("a/pinterestjobsets"), ("feed", "train")
    store.put(key, row, own_version(row))
    assert store.get(key) == row
    assert store.version(key) == own_version(row)


def test_a_row_takes_150_bytes_in_a_store() -> None:
    """As an object, with its uid, its version and its mark, it takes four hundred."""
    obj = told("", version=12)
    obj["metadata"]["uid"], obj["spec"]["slice"]["workloadUID"] = UID, OWNER
    row = slices.summarise("PinterestJobSet", "a", obj)
    keys = [("feed", f"w{number}") for number in range(5_000)]
    rows = [replace(row, key=WorkloadKey(row.key.kind, *key)) for key in keys]
    store = slice_store("a/pinterestjobsets")
    tracemalloc.start()
    for key, one in zip(keys, rows, strict=True):
        store.put(key, one, own_version(one))
    del one
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 150 * len(keys)
