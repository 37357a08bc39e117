"""A server that says byte for byte what a test wants, on a loopback port: for what no honest HTTP
server would do.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class RawServer:
    port: int = 0
    requests: list[Asked] = field(default_factory=list)
    connections: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


Writer = asyncio.StreamWriter
Handler = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """Reads requests and lets `handler` write the answer; a handler that returns keeps the
    connection open.
    """
    server = RawServer(scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, path, _ = head[0].split(" ")
                headers: dict[str, str] = {}
                for row in head[1:-2]:
                    name, _, value = row.partition(":")
                    key, value = name.lower(), value.strip()
                    headers[key] = f"{headers[key]}, {value}" if key in headers else value
                await reader.readexactly(int(headers.get("content-length", "0")))
                asked = Asked(method, path, headers)
                server.requests.append(asked)
                await handler(asked, writer)
                await writer.drain()
                if writer.is_closing():
                    break
        writer.close()
        tasks.discard(task)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def replying(data: bytes) -> Handler:
    """A handler that always writes the same."""

    async def handler(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return handler
