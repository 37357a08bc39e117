"""The reflector's promises, F11 to F21: the store ends up equal to the server, and never lies in
between.
"""

import asyncio
from typing import Any

import pytest

from federator.kube import errors
from tests.unit.kube.reflecting import World, quiet
from tests.unit.kube.scripted import (
    FOREVER,
    Answer,
    Script,
    line,
    listing,
    on_virtual_time,
    status,
    stream,
    thing,
)


@on_virtual_time
async def test_the_store_follows_list_and_events_and_tells_each_change_once() -> None:
    world = World(
        Script(
            listing(5, thing("a", 3, value=1), thing("b", 4, value=2)),
            stream(
                line("MODIFIED", thing("a", 6, value=7)) + line("ADDED", thing("c", 7, value=3)),
                line("DELETED", thing("b", 8)),
                FOREVER,
            ),
        )
    )
    await world.runs(1)
    assert world.rows == {"a": 7, "c": 3}
    assert world.changes == [
        ("a", None, 1),
        ("b", None, 2),
        ("a", 1, 7),
        ("c", None, 3),
        ("b", 2, None),
    ]
    assert world.store.synced
    assert world.store.resource_version == "8"
    assert world.script.query(1)["resourceVersion"] == "5"
    assert world.script.query(1)["allowWatchBookmarks"] == "true"


@on_virtual_time
async def test_a_projection_of_bytes_sees_the_same_objects() -> None:
    world = World(
        Script(
            listing(5, thing("a", 3, value=1)),
            stream(line("ADDED", thing("b", 6, value=2)), FOREVER),
        ),
        project=None,
        project_raw=lambda data: data.count(b"value"),
    )
    await world.runs(1)
    assert world.rows == {"a": 1, "b": 1}


@on_virtual_time
async def test_an_object_projected_to_none_is_left_out_and_removed_when_it_becomes_so() -> None:
    world = World(
        Script(
            listing(5, thing("a", 3, value=1), thing("b", 4)),
            stream(line("MODIFIED", thing("a", 6)), FOREVER),
        ),
        project=lambda obj: obj["value"],
    )
    await world.runs(1)
    assert world.rows == {}
    assert world.changes == [("a", None, 1), ("a", 1, None)]


@on_virtual_time
async def test_nothing_is_published_before_the_whole_list_is_there() -> None:
    """F18: the token expires in the middle; what the first page held is no news."""
    world = World(
        Script(
            listing(5, thing("a", 3), thing("b", 4)),
            status(410, "Expired"),  # the watch: list again
            listing(9, thing("a", 3), token="more"),
            status(410, "Expired"),  # in the middle of the list
            listing(12, thing("a", 3), thing("b", 4), thing("c", 10)),
            quiet(),
        )
    )
    await world.runs(20)
    assert world.changes == [("a", None, 0), ("b", None, 0), ("c", None, 0)]
    assert world.store.resource_version == "12"


@pytest.mark.parametrize("in_stream", [True, False], ids=["ERROR event", "HTTP status"])
def test_gone_lists_again_without_wiping_the_store(in_stream: bool) -> None:
    """F13: deletions are reported only for what the new list lacks."""
    gone = {
        "kind": "Status",
        "code": 410,
        "reason": "Expired",
        "message": "too old resource version",
    }
    world = World(
        Script(
            listing(5, thing("a", 3), thing("b", 4)),
            stream(10, line("ERROR", gone)) if in_stream else status(410, "Gone"),
            listing(50, thing("a", 3), thing("c", 40)),
            quiet(),
        )
    )
    on_virtual_time(world.runs)(60)
    assert world.changes == [("a", None, 0), ("b", None, 0), ("b", 0, None), ("c", None, 0)]
    assert world.lists == 2
    assert world.script.query(3)["resourceVersion"] == "50"


@on_virtual_time
async def test_relists_after_gone_are_spread_in_time() -> None:
    waits = []
    for seed in range(20):
        world = World(Script(listing(5), status(410, "Gone"), listing(6), quiet()))
        world.reflector._rng.seed(seed)
        await world.runs(30)
        waits.append(world.script.times[2] - world.script.times[1])
    assert max(waits) - min(waits) > 1.0


@on_virtual_time
async def test_a_server_back_from_the_past_is_listed_anew_not_watched_from_the_future() -> None:
    """A restored API server takes a watch from a version that it has not reached, and tells nothing
    until it has.
    """
    world = World(
        Script(
            listing(50, thing("a", 40, value=4), thing("b", 45, value=5)),
            stream(30, errors.Unreachable("reset")),
            quiet(),
            listing(30, thing("a", 20, value=2), token="more"),
            *[listing(30, thing("a", 20, value=2))] * 4,
            quiet(),
        )
    )
    await world.runs(120)
    assert world.rows == {"a": 2}
    assert world.store.rewinds == 1
    assert world.store.resource_version == "30"
    watches = [
        request.query for request in world.script.requests if ("watch", "true") in request.query
    ]
    assert [dict(query)["resourceVersion"] for query in watches] == ["50", "50", "30"]


@on_virtual_time
async def test_a_silent_watch_is_dropped_after_three_bookmark_periods_and_resumed() -> None:
    """F15. Bytes that never become an event are silence too."""
    drip = [b"{", 100.0] * 50
    watches = iter([quiet(), stream(*drip)])
    known = listing(5, thing("a", 3))
    world = World(
        Script(
            known, after=lambda r: next(watches, quiet()) if ("watch", "true") in r.query else known
        )
    )
    await world.runs(600)
    begun = [
        at
        for at, r in zip(world.script.times, world.script.requests, strict=True)
        if ("watch", "true") in r.query
    ]
    assert begun == pytest.approx([0, 180, 360, 540], abs=3)
    assert world.reflector.troubles["unreachable"] == 3


@on_virtual_time
async def test_repeated_and_reordered_events_change_nothing() -> None:
    """F17: the second telling is no change, an older state never comes back, not even after a
    deletion.
    """
    world = World(
        Script(
            listing(5, thing("a", 3, value=1)),
            stream(
                line("MODIFIED", thing("a", 8, value=8)),
                line("MODIFIED", thing("a", 8, value=8)),
                line("MODIFIED", thing("a", 6, value=6)),
                line("ADDED", thing("b", 7, value=7)),
                line("DELETED", thing("b", 9)),
                line("MODIFIED", thing("b", 8, value=5)),
                FOREVER,
            ),
        )
    )
    await world.runs(1)
    assert world.rows == {"a": 8}
    assert world.changes == [("a", None, 1), ("a", 1, 8), ("b", None, 7), ("b", 7, None)]


@on_virtual_time
async def test_a_deletion_of_an_earlier_incarnation_does_not_remove_the_new_object() -> None:
    """F11."""
    world = World(
        Script(
            listing(20, thing("a", 19, uid="second", value=2)),
            stream(line("DELETED", thing("a", 12, uid="first")), FOREVER),
        )
    )
    await world.runs(1)
    assert world.rows == {"a": 2}


@pytest.mark.parametrize(
    "bad",
    [
        b"<html>\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":null}\n',
        b'{"type":"ADDED","object":[1]}\n',
        b'{"type":"ADDED","object":{"metadata":null}}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":7}}}\n',
        b'{"type":"RENAMED","object":{"metadata":{"name":"x"}}}\n',
        b'{"type":7,"object":{}}\n',
        b'{"type":"ERROR","object":{"kind":"Status"}}\n',
        b'{"type":"ERROR","object":"what"}\n',
        b'{"type":"BOOKMARK","object":{}}\n',
        b"[" * 10000 + b"\n",
    ],
)
@pytest.mark.parametrize("raw", [False, True], ids=["dict", "bytes"])
def test_bad_events_are_counted_and_the_list_is_read_again(bad: bytes, raw: bool) -> None:
    """F21. What came before the bad line still counts."""
    good = line("ADDED", thing("b", 6, value=2))
    options: dict[str, Any] = {"project": None, "project_raw": lambda data: 2} if raw else {}
    world = World(
        Script(
            listing(5, thing("a", 3)),
            stream(20, good + bad),
            after=lambda r: (
                quiet()
                if ("watch", "true") in r.query
                else listing(9, thing("a", 3), thing("b", 6, value=2))
            ),
        ),
        **options,
    )
    on_virtual_time(world.runs)(100)
    assert set(world.rows) == {"a", "b"}
    assert sum(world.reflector.troubles.values()) >= 1
    assert [change[0] for change in world.changes] == ["a", "b"]
    assert world.lists <= 2


@on_virtual_time
async def test_one_bad_object_costs_neither_the_list_nor_what_was_known_of_it() -> None:
    def project(obj: dict[str, Any]) -> int:
        return int(obj["value"])

    world = World(
        Script(
            listing(5, {"metadata": None}, thing("a", 3, value=1), thing("b", 4, value="seven")),
            stream(
                line("MODIFIED", thing("a", 6, value="eight")),
                line("ADDED", thing("c", 7, value=3)),
                FOREVER,
            ),
        ),
        project=project,
    )
    await world.runs(1)
    assert world.rows == {"a": 1, "c": 3}
    assert world.reflector.troubles["bad object"] == 3


@on_virtual_time
async def test_a_listener_that_breaks_does_not_end_the_reflector() -> None:
    def breaks(*_args: Any) -> None:
        raise RuntimeError("a bug")

    world = World(Script(listing(5, thing("a", 3)), quiet()), on_change=breaks)
    await world.runs(1)
    assert world.rows == {"a": 0}
    assert world.reflector.troubles["listener broke"] == 1


@on_virtual_time
async def test_an_unreachable_server_is_asked_ever_more_slowly_and_the_store_is_kept() -> None:
    world = World(
        Script(listing(5, thing("a", 3)), stream(60), after=errors.Unreachable("refused"))
    )
    await world.runs(600)
    assert world.rows == {"a": 0}
    assert world.reflector.watch_failing
    assert isinstance(world.reflector.trouble, errors.Unreachable)
    assert world.store.heard_at < 1
    assert len(world.script.requests) < 80


@on_virtual_time
async def test_retry_after_is_obeyed() -> None:
    world = World(
        Script(listing(5), status(429, "TooManyRequests", retry_after="40"), quiet(), listing(5))
    )
    await world.runs(100)
    assert 40 <= world.script.times[2] <= 50.001


@on_virtual_time
async def test_a_gate_bounds_how_many_lists_run_at_once() -> None:
    """F37."""
    now_listing = most = 0

    async def answer(request: Any) -> Answer:
        nonlocal now_listing, most
        if ("watch", "true") in request.query:
            return quiet()
        now_listing += 1
        most = max(most, now_listing)
        await asyncio.sleep(1)
        now_listing -= 1
        return listing(5)

    gate = asyncio.Semaphore(3)
    worlds = [World(Script(after=answer), bounds=(gate,)) for _ in range(20)]
    await asyncio.gather(*(world.runs(30) for world in worlds))
    assert most == 3
    assert all(world.store.synced for world in worlds)


@on_virtual_time
async def test_two_runs_with_one_seed_ask_at_the_same_times() -> None:
    runs = []
    for _ in range(2):
        world = World(
            Script(
                listing(5), after=lambda r: stream() if ("watch", "true") in r.query else listing(5)
            )
        )
        await world.runs(120)
        start = world.script.times[0]
        runs.append([round(time - start, 6) for time in world.script.times])
    assert runs[0] == runs[1]
