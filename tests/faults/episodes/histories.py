"""Episodes of what API servers remember and tell: lost histories, pages that expire, streams that
end or fall silent.

Streams of the processes only are meant; the user and the clusters' own controllers are not
disturbed.
"""

import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

from federator.kube.wire.transport import Response, Transport
from tests.faults import boxes
from tests.faults.links import Cut
from tests.faults.requests import refusal
from tests.faults.rows import Box, Episode, Sending, Stage
from tests.faults.streams import EditedStream

_BOOKMARK = b'{"type":"BOOKMARK"'


def clusters(stage: Stage) -> list[str]:
    return ["host", *stage.members]


def speakers(stage: Stage, cluster: str) -> list[str]:
    """The processes that speak to a cluster."""
    return [*stage.hubs, *([] if cluster == "host" else [f"member-{cluster}"])]


def forget_history(stage: Stage, cluster: str) -> None:
    """Versions from before are too old to watch from."""
    served = stage.federation.host if cluster == "host" else stage.federation.members[cluster]
    served.store.compact()


@contextlib.asynccontextmanager
async def missed_events(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A cluster cannot be reached for a while, and then its history is gone: what happened between
    is in no watch."""
    cluster = rng.choice(clusters(stage))
    before = stage.links.touched[Cut.REFUSED]
    connected = speakers(stage, cluster)
    for process in connected:
        await stage.links.sever(process, cluster, Cut.REFUSED)
    try:
        yield
    finally:
        forget_history(stage, cluster)
        for process in connected:
            stage.links.heal(process, cluster, Cut.REFUSED)
        if stage.links.touched[Cut.REFUSED] > before:
            stage.happened("missed-events")


@contextlib.asynccontextmanager
async def no_bookmarks(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """No watch of a cluster gets a bookmark; in the end the history is gone that the old versions
    would need."""
    cluster = rng.choice(clusters(stage))
    kept: Counter[str] = Counter()

    async def without(groups: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
        async for group in groups:
            passed = [line for line in group if not line.startswith(_BOOKMARK)]
            kept["back"] += len(group) - len(passed)
            if passed:
                yield b"".join(passed)

    async def how(sending: Sending, inner: Transport) -> Response:
        return EditedStream(await inner.request(sending.request), without)

    with stage.boxes.standing(
        Box(lambda sending: sending.watches and sending.cluster == cluster, how)
    ):
        await stage.links.end_streams(cluster)
        try:
            yield
        finally:
            forget_history(stage, cluster)
            await stage.links.end_streams(cluster)
            if kept["back"]:
                stage.happened("no-bookmarks")


@contextlib.asynccontextmanager
async def pages_expire(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Lists come in pages of one or two objects, and every third token to go on with is too old."""
    cluster = rng.choice(clusters(stage))

    async def how(sending: Sending, inner: Transport) -> Response:
        if "continue" in dict(sending.request.query) and rng.random() < 1 / 3:
            stage.happened("pages-expire")
            return refusal(410, "Expired", "The provided continue parameter is too old.")
        size = str(rng.randint(1, 2))
        query = tuple(
            (name, size if name == "limit" else text) for name, text in sending.request.query
        )
        return await inner.request(replace(sending.request, query=query))

    def befalls(sending: Sending) -> bool:
        return (
            sending.cluster == cluster and sending.reads and "limit" in dict(sending.request.query)
        )

    with stage.boxes.standing(Box(befalls, how)):
        forget_history(stage, cluster)
        await stage.links.end_streams(cluster)
        yield


@contextlib.asynccontextmanager
async def watches_close(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A cluster ends every watch as soon as it has begun."""
    cluster = rng.choice(clusters(stage))

    box = boxes.closing_watches(
        lambda sending: sending.cluster == cluster,
        lambda sending: stage.happened("watches-close"),
    )
    with stage.boxes.standing(box):
        await stage.links.end_streams(cluster)
        yield


@contextlib.asynccontextmanager
async def streams_forgotten(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Something between a process and a cluster forgets the open streams: nothing comes any more,
    and no end of them. New requests work. At the end those connections are reset that were not
    given up sooner."""
    cluster = rng.choice(clusters(stage))
    process = rng.choice(speakers(stage, cluster))
    stalled = stage.links.stall_streams((process, cluster))
    try:
        yield
    finally:
        if any(stream.lost for stream in stalled):
            stage.happened("streams-forgotten")
        for stream in stalled:
            await stream.close()


ROWS = (
    Episode(
        "missed-events",
        "F12",
        "every process and one cluster",
        "the cluster is reached again, without its history",
        missed_events,
        (3.0, 30.0),
    ),
    Episode(
        "streams-forgotten",
        "F15",
        "one process's open streams from one cluster",
        "the connections are reset after 20 to 240 s",
        streams_forgotten,
        (20.0, 240.0),
    ),
    Episode(
        "no-bookmarks",
        "F16",
        "every watch of one cluster",
        "bookmarks come again after 70 to 200 s",
        no_bookmarks,
        (70.0, 200.0),
    ),
    Episode(
        "pages-expire",
        "F18",
        "every list of one cluster",
        "pages are whole again after 5 to 40 s",
        pages_expire,
        (5.0, 40.0),
    ),
    Episode(
        "watches-close",
        "F19",
        "every watch of one cluster",
        "watches last again after 5 to 90 s",
        watches_close,
        (5.0, 90.0),
    ),
)
