"""Faults of single lists and watches: streams that break, lie, repeat themselves or are too old to
go on."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec

from federator.kube import errors
from federator.kube.wire.transport import Response
from tests.faults import streams
from tests.faults.requests import CannedResponse, refusal
from tests.faults.rows import Injection, RequestFault, Sending
from tests.faults.streams import EditedStream

EXPIRED = "The resourceVersion for the provided watch is too old."
_WINDOW_S = 0.4
"""How long events are gathered that then come in another order, in seconds."""
_REMEMBERED = 20
_BODY_MAX = 64 * 1024 * 1024

NONSENSE: tuple[bytes, ...] = (
    b'{"type":"SURPRISE",'
    b'"object":{"metadata":{"name":"x","namespace":"feed","resourceVersion":"1"}}}\n',
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no'
    b' code"}}\n',
    b'{"type":"ERROR","object":null}\n',
    b'{"type":"ERROR","object":"trouble"}\n',
    b'{"type":"MODIFIED","object":null}\n',
    b'{"type":"MODIFIED","object":{"metadata":null}}\n',
    b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":7}}}\n',
    b'{"type":"DELETED","object":[]}\n',
    b'{"type":"BOOKMARK","object":{}}\n',
    b'{"type":"MODIFIED"}\n',
    b'{"object":{}}\n',
    b"[]\n",
    b"null\n",
    b'{"type":"MODIFIED","object":{"metadata":\n',
    b"\xff\xfe\x00garbage\n",
    b"<html><body>502 Bad Gateway</body></html>\n",
    b"[" * 5000 + b"\n",
)
"""Lines that no API server sends (F21)."""


async def _reset_watch(at: Injection) -> Response:
    return CutResponse(await at.inner.request(at.request), after_chunks=at.rng.randrange(4))


class CutResponse:
    """A stream that breaks in the middle of the chunk after `after_chunks` whole ones."""

    def __init__(self, inner: Response, *, after_chunks: int) -> None:
        self._inner = inner
        self._left = after_chunks
        self.status = inner.status
        self.headers = inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Whole chunks, half a chunk, the end of the connection."""
        async for chunk in self._inner.chunks():
            if self._left == 0:
                yield chunk[: len(chunk) // 2]
                raise errors.Unreachable("The connection was reset.")
            self._left -= 1
            yield chunk

    async def read(self, limit: int) -> bytes:
        """The body, whole: only streams are cut."""
        return await self._inner.read(limit)

    async def close(self) -> None:
        await self._inner.close()


async def _stale_list(at: Injection) -> Response:
    """The collection as it was up to 300 writes ago, where history reaches back so far."""
    latest = await at.inner.request(at.request)
    body = await latest.read(_BODY_MAX)
    now = CannedResponse(latest.status, body, latest.headers)
    try:
        number = int(msgspec.json.decode(body)["metadata"]["resourceVersion"]) - at.rng.randint(
            1, 300
        )
    except (msgspec.DecodeError, LookupError, TypeError, ValueError):
        return now  # something else answered, or refused
    past = (
        *at.request.query,
        ("resourceVersion", str(max(number, 1))),
        ("resourceVersionMatch", "Exact"),
    )
    older = await at.inner.request(replace(at.request, query=past))
    return older if older.status == 200 else now


async def _expired_event(at: Injection) -> Response:
    status = msgspec.json.decode(await _gone().read(_BODY_MAX))
    line = b'{"type":"ERROR","object":%s}\n' % msgspec.json.encode(status)
    return EditedStream(
        await at.inner.request(at.request), _then(line, after=at.rng.randrange(4), ends=True)
    )


async def _expired_watch(at: Injection) -> Response:
    return _gone()


def _gone() -> CannedResponse:
    return refusal(410, "Expired", EXPIRED)


async def _nonsense(at: Injection) -> Response:
    line = at.rng.choice(NONSENSE)
    return EditedStream(
        await at.inner.request(at.request), _then(line, after=at.rng.randrange(4), ends=False)
    )


def _then(line: bytes, *, after: int, ends: bool) -> streams.Edit:
    """One more line after so many groups of lines, which ends the stream or not."""

    async def edit(groups: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
        left = after
        if left == 0:
            yield line
            if ends:
                return
        async for group in groups:
            yield b"".join(group)
            left -= 1
            if left == 0:
                yield line
                if ends:
                    return

    return edit


async def _repeated_events(at: Injection) -> Response:
    rng = random.Random(at.rng.getrandbits(64))

    async def edit(groups: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
        seen: list[bytes] = []
        async for group in groups:
            lines = []
            for line in group:
                seen = [*seen[-_REMEMBERED:], line]
                lines += [line, *(rng.choice(seen) for _ in range(rng.choice((0, 0, 1, 3))))]
            yield b"".join(lines)

    return EditedStream(await at.inner.request(at.request), edit)


async def _shuffled_events(at: Injection) -> Response:
    rng = random.Random(at.rng.getrandbits(64))

    async def edit(groups: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
        async for gathered in streams.gathered(groups, _WINDOW_S):
            yield b"".join(_shuffled(gathered, rng))

    return EditedStream(await at.inner.request(at.request), edit)


def _shuffled(window: list[bytes], rng: random.Random) -> list[bytes]:
    """Another order, in which the events of each object follow one another as before, and nothing
    passes a bookmark."""
    order: list[bytes] = []
    queues: dict[tuple[str, str], list[bytes]] = {}
    for line in [*window, b""]:
        subject = streams.subject(line) if line else None
        if subject is not None:
            queues.setdefault(subject[1:], []).append(line)
            continue
        while queues:
            key = rng.choice(sorted(queues))
            order.append(queues[key].pop(0))
            if not queues[key]:
                del queues[key]
        order.append(line)
    return order


def a_watch(sending: Sending) -> bool:
    return sending.watches


def a_list(sending: Sending) -> bool:
    return sending.lists


_WATCH = "a watch"

ROWS = (
    RequestFault("stale-list", "F11", "a list", a_list, _stale_list, 200, 200),
    RequestFault("expired-event", "F13", _WATCH, a_watch, _expired_event, 200, 100),
    RequestFault("expired-watch", "F13", _WATCH, a_watch, _expired_watch, 300, 150),
    RequestFault("watch-reset", "F14", _WATCH, a_watch, _reset_watch, 300, 150),
    RequestFault("repeated-events", "F17", _WATCH, a_watch, _repeated_events, 500, 300),
    RequestFault("shuffled-events", "F17", _WATCH, a_watch, _shuffled_events, 500, 300),
    RequestFault("nonsense-event", "F21", _WATCH, a_watch, _nonsense, 200, 100),
)
