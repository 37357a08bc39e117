"""The seam between us and any API server: one request, one streamed answer.

Everything above speaks through `Transport`; below it are aiohttp (real servers), the embedded API
(in process) and decorators that inject faults. A transport never retries, never follows redirects
and never interprets a body.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as plain data. `query` keeps its order; `path` is already
    percent-encoded."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    read_timeout_s: float = 30.0
    """Longest silence between two chunks of the answer, in seconds."""
    total_timeout_s: float | None = 30.0
    """Longest time for the whole exchange, in seconds; None for watches, which end by silence only.
    """


class Response(Protocol):
    """The head of an answer, with its body still to be read."""

    status: int
    headers: Mapping[str, str]
    """Header names in lower case."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises `errors.Unreachable` when the stream breaks or falls
        silent."""
        ...

    async def read(self, limit: int) -> bytes:
        """The whole body, at most `limit` bytes; more raises `errors.Malformed`."""
        ...

    async def close(self) -> None:
        """Gives the connection up. Safe to call twice."""
        ...


class Transport(Protocol):
    """Carries requests to one API server."""

    async def request(self, request: Request) -> Response:
        """Sends the request and returns when the head of the answer is here. Raises
        `errors.Unreachable`."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class RefreshesCredentials(Protocol):
    """A transport that can renew its credentials; decorators pass it on."""

    async def refresh_credentials(self) -> bool:
        """Fetches credentials anew; False when there is nothing fresher to try."""
        ...


@runtime_checkable
class TakesToken(Protocol):
    """A transport that can go on with another bearer token; what is open stays open. Decorators
    pass it on."""

    def take_token(self, token: str) -> bool:
        """Shows it from the next request on; False where it shows no token."""
        ...
