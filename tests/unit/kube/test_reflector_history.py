"""Reflectors of servers that go back in time, F11: restores are noticed, stale answers are not
believed.
"""

from federator.kube import errors
from tests.unit.kube.reflecting import World, quiet
from tests.unit.kube.scripted import (
    FOREVER,
    Script,
    line,
    listing,
    on_virtual_time,
    status,
    stream,
    thing,
)


@on_virtual_time
async def test_a_server_that_overtook_our_version_while_away_is_seen_to_have_gone_back() -> None:
    """It was restored and has counted on since: only an object that is older than we knew it gives
    it away.
    """
    told: list[int] = []
    world = World(
        Script(
            listing(50, thing("a", 40, value=4), thing("b", 45, value=5)),
            stream(30, errors.Unreachable("reset")),
            errors.Unreachable("refused"),
            listing(60, thing("a", 20, value=2), thing("c", 55, value=3)),
            quiet(),
        ),
        on_rewind=lambda: told.append(1),
    )
    await world.runs(120)
    assert world.rows == {"a": 2, "c": 3}
    assert (world.store.rewinds, told) == (1, [1])
    assert world.store.resource_version == "60"


@on_virtual_time
async def test_a_restored_server_with_objects_brought_up_to_date_is_seen_as_gone_back() -> None:
    """Nothing in its list is older than we knew it. But it was older a moment ago, and what was
    written since cannot be of versions that we had seen everything of.
    """
    told: list[int] = []
    world = World(
        Script(
            listing(50, thing("a", 40, value=4), thing("b", 45, value=5)),
            status(410, "Gone"),
            listing(30, thing("a", 20, value=2)),
            listing(60, thing("a", 48, value=4), thing("b", 55, value=5)),
            quiet(),
        ),
        on_rewind=lambda: told.append(1),
    )
    await world.runs(60)
    assert (world.store.rewinds, told) == (1, [1])
    assert world.store.resource_version == "60"


@on_virtual_time
async def test_a_server_that_was_away_is_listed_and_nothing_that_is_as_before_is_news() -> None:
    world = World(
        Script(
            listing(50, thing("a", 40, value=4), thing("b", 45, value=5)),
            stream(30, errors.Unreachable("reset")),
            errors.Unreachable("refused"),
            listing(60, thing("a", 40, value=4), thing("b", 58, value=6)),
            quiet(),
        ),
    )
    await world.runs(120)
    assert world.changes == [("a", None, 4), ("b", None, 5), ("b", 5, 6)]
    assert world.store.rewinds == 0


@on_virtual_time
async def test_lines_may_be_cut_anywhere() -> None:
    text = b"".join(line("ADDED", thing(f"t{i}", 10 + i, value=i + 1)) for i in range(5))
    for size in (1, 7, 64, len(text)):
        parts = [text[i : i + size] for i in range(0, len(text), size)]
        world = World(Script(listing(5), stream(*parts, FOREVER)))
        await world.runs(1)
        assert world.rows == {f"t{i}": i + 1 for i in range(5)}


@on_virtual_time
async def test_a_list_that_goes_back_in_time_is_not_believed() -> None:
    """F11: the object that the stale list lacks was made after it."""
    world = World(
        Script(
            listing(50, thing("a", 40, value=4), thing("b", 45, value=5)),
            status(410, "Gone"),
            listing(30, thing("a", 20, value=2)),
            listing(60, thing("a", 40, value=4), thing("b", 45, value=5)),
            quiet(),
        )
    )
    await world.runs(60)
    assert world.changes == [("a", None, 4), ("b", None, 5)]
    assert world.store.rewinds == 0
    assert world.reflector.troubles["went back in time"] == 1


@on_virtual_time
async def test_a_server_that_stays_in_the_past_is_believed_at_last_and_the_store_says_so() -> None:
    """F51: a restored backup; whoever deletes looks at `rewinds` first."""
    world = World(
        Script(
            listing(50, thing("a", 40, value=4), thing("b", 45, value=5)),
            status(410, "Gone"),
            *[listing(30, thing("a", 20, value=2)) for _ in range(4)],
            quiet(),
        )
    )
    await world.runs(120)
    assert world.rows == {"a": 2}
    assert world.store.rewinds == 1
    assert world.store.resource_version == "30"


@on_virtual_time
async def test_watches_that_close_at_once_are_begun_again_ever_more_slowly_and_flagged() -> None:
    """F19."""
    world = World(
        Script(listing(5), after=lambda r: stream() if ("watch", "true") in r.query else listing(5))
    )
    await world.runs(600)
    assert world.reflector.watch_failing
    assert len(world.script.requests) < 100
    assert world.lists > 2  # some servers close instead of answering 410
    early = world.script.times[2] - world.script.times[1]
    assert early < 0.3
