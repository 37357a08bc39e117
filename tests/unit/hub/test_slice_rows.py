"""What rows of slices take in memory: bounded by what they are estimated to take, and shared only where that is
little."""

import tracemalloc
from typing import Any

from federator.api import kinds, verbs
from federator.api.common import INDEXES_MAX
from federator.api.pinterestjobset import MAX_SHARDS
from federator.hub.members.member import slice_store
from federator.hub.records import slices
from federator.kube.store import Bound, own_version
from federator.model import shards


def told(completed: str, name: str = "train", version: int = 1) -> dict[str, Any]:
    mark = {"fleet": "f", "workloadUID": "u", "originGeneration": 1, "cluster": "a", "seq": 1, "ranges": "0-9999"}
    return {
        "metadata": {"name": name, "namespace": "feed", "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": {"shards": 10_000, "parallelism": 10, "slice": mark},
        "status": {"completedIndexes": completed, "running": 3},
    }


def alternating(count: int) -> str:
    return ",".join(str(index) for index in range(0, count, 2))


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


def test_the_estimate_of_a_row_is_near_what_it_takes() -> None:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    rows = [slices.summarise("PinterestJobSet", "a", told(alternating(4000), name=f"j{n}")) for n in range(50)]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    estimated = sum(map(slices.weight, rows))
    assert estimated / 2 < after - before < estimated * 2


def test_rows_are_kept_up_to_a_bound_in_bytes() -> None:
    rows = [slices.summarise("PinterestJobSet", "a", told(alternating(4000), name=f"j{n}")) for n in range(10)]
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


def test_a_mark_as_long_as_an_annotation_may_be_is_not_remembered() -> None:
    long = '{"fleet":"f","workloadUID":"' + "u" * 200_000 + '"}'
    obj = {"metadata": {"annotations": {"federation.pinterest.com/slice": long}}}
    before = verbs._read_mark.cache_info().currsize

    mark = kinds.verbs_of("Deployment").read_mark(obj)
    assert mark is not None
    assert verbs._read_mark.cache_info().currsize == before


def test_every_set_of_shards_that_a_job_set_may_have_can_be_written() -> None:
    """In the worst spelling: each shard a piece of its own, and pairs with one left out between them."""
    pieces = shards.text((index, index) for index in range(MAX_SHARDS))
    pairs = shards.text((index, index + 1) for index in range(0, MAX_SHARDS, 3))

    assert len(pieces) <= INDEXES_MAX
    assert len(pairs) <= INDEXES_MAX
    assert verbs.read_ranges(pieces)[-1] == (MAX_SHARDS - 1, MAX_SHARDS - 1)
