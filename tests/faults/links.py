"""The network between processes and API servers: every pair has a link, and each direction of it
can fail alone.

A silent link says nothing, as when a router drops packets: what is sent arrives when the link heals
in time, and else the sender gives up by its own time-outs. A refused one answers at once, as a
machine without a server does.
"""

import asyncio
import contextvars
import enum
from collections import Counter
from collections.abc import AsyncIterator, Callable

from federator.kube import errors
from federator.kube.wire.transport import RefreshesCredentials, Request, Response, Transport


class Cut(enum.Enum):
    """What is wrong with a link."""

    REFUSED = "refused"
    """Connections are refused, and open ones were reset."""
    SILENT = "silent"
    """Nothing arrives in either direction."""
    MUTE = "mute"
    """Requests are lost on the way; what the server sends arrives."""
    SHORT = "short"
    """The sender has no descriptor for a connection: nothing is sent, and what was open has ended.
    """
    DEAF = "deaf"
    """Requests arrive; answers and events are lost on the way back."""


_FORTH = frozenset({Cut.SILENT, Cut.MUTE})
_BACK = frozenset({Cut.SILENT, Cut.DEAF})


class Links:
    """The state of every link; a pair that is not named is well."""

    def __init__(self) -> None:
        self._cuts: dict[tuple[str, str], list[Cut]] = {}
        self._delays_s: dict[tuple[str, str], float] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._open: dict[int, LinkResponse] = {}
        self._opened = 0
        self._late: Counter[tuple[str, str]] = Counter()
        self._packets: set[asyncio.Task[Response]] = set()
        self._nobody = contextvars.copy_context()
        """The context of what is on its way: it outlives the process that sent it."""
        self.touched: Counter[Cut | str] = Counter()
        """How many requests and streams each kind of cut, or a delay, has befallen."""

    def cut(self, process: str, cluster: str) -> Cut | None:
        """What is wrong between the two now; the cut made last, if several hold."""
        active = self._cuts.get((process, cluster))
        return active[-1] if active else None

    async def sever(self, process: str, cluster: str, how: Cut, *, late: bool = False) -> None:
        """Cuts the link, on top of what is wrong already. `late`: from now on what waits to pass
        arrives in the end, also when its sender has given up or died, as TCP may do with what it
        was handed.
        """
        self._cuts.setdefault((process, cluster), []).append(how)
        if late:
            self._late[process, cluster] += 1
        if how in (Cut.REFUSED, Cut.SHORT):
            for response in [
                stream for stream in self._open.values() if stream.pair == (process, cluster)
            ]:
                self.touched[how] += 1
                await response.close()

    def heal(self, process: str, cluster: str, how: Cut, *, late: bool = False) -> None:
        """Takes one such cut back."""
        self._cuts[process, cluster].remove(how)
        if late:
            self._late[process, cluster] -= 1
        self._wake()

    def slow(self, process: str, cluster: str, delay_s: float) -> None:
        """Every request takes so much longer from now on; 0 for no longer."""
        self._delays_s[process, cluster] = delay_s

    async def end_streams(self, cluster: str) -> int:
        """An API server ends every stream it has open, as one that is stopped in order does; says
        how many."""
        streams = [stream for stream in self._open.values() if stream.pair[1] == cluster]
        for response in streams:
            await response.close()
        return len(streams)

    def stall_streams(self, pair: tuple[str, str]) -> list["LinkResponse"]:
        """From now on nothing comes over the streams of this pair that are open; new ones are
        well."""
        streams = [stream for stream in self._open.values() if stream.pair == pair]
        for response in streams:
            response.stalled = True
        return streams

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until_clear(
        self, pair: tuple[str, str], cuts: frozenset[Cut], within_s: float | None
    ) -> None:
        """Waits while the link is cut in one of these ways. Raises `errors.Unreachable` when that
        takes too long."""
        if self.cut(*pair) not in cuts:
            return
        self.touched[self._cuts[pair][-1]] += 1
        try:
            async with asyncio.timeout(within_s):
                while self.cut(*pair) in cuts:
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError:
            raise errors.Unreachable(f"{pair[1]} was silent for {within_s:g} s") from None

    async def send(self, pair: tuple[str, str], inner: Transport, request: Request) -> Response:
        """The request over this link."""
        patience_s = (
            request.total_timeout_s
            if request.total_timeout_s is not None
            else request.read_timeout_s
        )
        if delay_s := self._delays_s.get(pair, 0.0):
            self.touched["delay"] += 1
            await asyncio.sleep(min(delay_s, patience_s))
            if delay_s >= patience_s:
                raise errors.Unreachable(f"{pair[1]} was silent for {patience_s:g} s")
        if self.cut(*pair) is Cut.REFUSED:
            self.touched[Cut.REFUSED] += 1
            raise errors.Unreachable(f"{pair[1]} refuses connections")
        if self.cut(*pair) is Cut.SHORT:
            self.touched[Cut.SHORT] += 1
            raise errors.OwnShortage(
                f"{pair[1]}: not asked, {pair[0]} is short of file descriptors"
            )
        if self._late[pair] and self.cut(*pair) in _FORTH and request.method not in ("GET", "HEAD"):
            response = await self._hand_over(pair, inner, request, patience_s)
        else:
            await self.until_clear(pair, _FORTH, patience_s)
            response = await inner.request(request)
        try:
            await self.until_clear(pair, _BACK, patience_s)
        except errors.Unreachable:
            await response.close()
            raise
        self._opened += 1
        number = self._opened
        linked = LinkResponse(
            self, pair, response, request.read_timeout_s, lambda: self._open.pop(number, None)
        )
        if request.total_timeout_s is None:
            self._open[number] = linked
        return linked

    async def _hand_over(
        self, pair: tuple[str, str], inner: Transport, request: Request, patience_s: float
    ) -> Response:
        """Leaves the request to the network, which delivers it whether anybody still waits for the
        answer or not."""

        async def carry() -> Response:
            await self.until_clear(pair, _FORTH, None)
            self.touched["late"] += 1
            response = await inner.request(request)
            if not heard:
                await response.close()
            return response

        heard = True
        packet = asyncio.get_running_loop().create_task(
            carry(), name="late request", context=self._nobody.copy()
        )
        self._packets.add(packet)
        packet.add_done_callback(self._delivered)
        try:
            async with asyncio.timeout(patience_s):
                return await asyncio.shield(packet)
        except TimeoutError:
            heard = False
            raise errors.Unreachable(f"{pair[1]} was silent for {patience_s:g} s") from None
        except asyncio.CancelledError:
            heard = False
            raise

    def _delivered(self, packet: "asyncio.Task[Response]") -> None:
        self._packets.discard(packet)
        if not packet.cancelled():
            packet.exception()  # its sender has got the error, or is gone


class LinkResponse:
    """An answer whose parts come over the link."""

    def __init__(
        self,
        links: Links,
        pair: tuple[str, str],
        inner: Response,
        read_timeout_s: float,
        on_close: Callable[[], object],
    ) -> None:
        self.pair = pair
        self.status = inner.status
        self.headers = inner.headers
        self._links = links
        self._inner = inner
        self._read_timeout_s = read_timeout_s
        self._on_close = on_close
        self.stalled = False
        """Something between forgot the connection: whatever the server sends over it is lost."""
        self.lost = 0
        """Chunks that were sent while it was stalled."""

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body; raises `errors.Unreachable` when the link is reset, or silent for too long."""
        async for chunk in self._inner.chunks():
            if self.stalled:
                self.lost += 1
                continue
            await self._links.until_clear(self.pair, _BACK, self._read_timeout_s)
            yield chunk
        if self._links.cut(*self.pair) is Cut.REFUSED:
            raise errors.Unreachable(f"the connection to {self.pair[1]} was reset")

    async def read(self, limit: int) -> bytes:
        """The body."""
        body = await self._inner.read(limit)
        await self._links.until_clear(self.pair, _BACK, self._read_timeout_s)
        return body

    async def close(self) -> None:
        self._on_close()
        await self._inner.close()


class LinkTransport:
    """`inner` at the far end of a link."""

    def __init__(self, inner: Transport, links: Links, process: str, cluster: str) -> None:
        self._inner = inner
        self._links = links
        self._pair = (process, cluster)

    async def request(self, request: Request) -> Response:
        """The answer, if the link lets the request there and the answer back."""
        return await self._links.send(self._pair, self._inner, request)

    async def refresh_credentials(self) -> bool:
        """Passed on."""
        return (
            isinstance(self._inner, RefreshesCredentials)
            and await self._inner.refresh_credentials()
        )

    async def close(self) -> None:
        await self._inner.close()
