"""`/metrics`, `/healthz` and `/readyz` on a port of their own: a few lines of HTTP without a
framework.

Every wait and every byte is bounded: a slow or endless request costs a few kilobytes for a few
seconds. A new connection beyond the limit ends the oldest, so that idle connections cannot block a
probe and make the kubelet restart a healthy process. Serves no secrets.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

from federator.kube.metrics import Metrics

log = logging.getLogger(__name__)

HEAD_S = 5.0
"""Seconds within which a request must arrive."""
HEAD_BYTES = 8 * 1024
CONNECTIONS_MAX = 64
"""Open connections; one more ends the oldest."""
BACKLOG = 1024
"""Connections that the kernel queues: with fewer, many clients cost a probe a retry of one second.
"""

Checks = Callable[[], Mapping[str, str]]
"""Name of a check -> what is wrong; "" when nothing is."""


class StatusServer:
    """Serves until closed. `alive` and `ready` are called for every request."""

    def __init__(self, *, metrics: Metrics, ready: Checks, alive: Checks = dict) -> None:
        self._metrics = metrics
        self._pages: Mapping[str, Callable[[], Awaitable[tuple[str, str, bytes]]]] = {
            "/metrics": self._numbers,
            "/healthz": lambda: _verdict(alive()),
            "/readyz": lambda: _verdict(ready()),
        }
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, None] = {}
        """Oldest first."""

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port (useful with port 0)."""
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=HEAD_BYTES, backlog=BACKLOG
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(HEAD_S * 2):
                status, kind, body = await self._answer(reader)
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                    f"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (OSError, TimeoutError):
            log.debug("a status connection ended early")
        finally:
            self._open.pop(writer, None)
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            return "408 Request Timeout", "text/plain", b"the request took too long\n"
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return "400 Bad Request", "text/plain", b"this is no request\n"
        parts = head.split(b"\r\n", 1)[0].split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
            return "400 Bad Request", "text/plain", b"this is no request\n"
        if parts[0] != b"GET":
            return "405 Method Not Allowed", "text/plain", b"only GET is served here\n"
        page = self._pages.get(parts[1].split(b"?", 1)[0].decode("latin-1"))
        if page is None:
            return "404 Not Found", "text/plain", b"there are /metrics, /healthz and /readyz\n"
        return await page()

    async def _numbers(self) -> tuple[str, str, bytes]:
        # Rendering thousands of series would block the event loop noticeably.
        body = await asyncio.to_thread(self._metrics.render)
        return "200 OK", "text/plain; version=0.0.4; charset=utf-8", body


async def _verdict(checks: Mapping[str, str]) -> tuple[str, str, bytes]:
    wrong = {name: problem for name, problem in sorted(checks.items()) if problem}
    if not wrong:
        return "200 OK", "text/plain", b"ok\n"
    lines = "".join(f"{name}: {problem}\n" for name, problem in wrong.items())
    return "503 Service Unavailable", "text/plain", lines.encode()
