"""One HTTP request a connection, by the standard library alone: what the parts of a pod speak to
their backends. Every byte and every wait is bounded, redirects are answers, and no proxy variable
of the pod is followed.
"""

import asyncio
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

HEAD_MAX: Final = 1 << 16
LINE_MAX: Final = 1 << 14
INTERIM_MAX: Final = 8
"""Answers with a status below 200 that may come before the answer."""


class Unreached(Exception):
    """There is no whole answer; the message says why, and never what was sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. Its body does not show in its repr."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self) -> dict[str, Any]:
        """The object in the body; empty for anything else."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}


class Ask(Protocol):
    """How a backend is asked: `ask`, or a stand-in of a network."""

    async def __call__(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        context: ssl.SSLContext | None = None,
        within_s: float = 10.0,
        most: int = 1 << 20,
    ) -> Answer:
        """Raises Unreached."""


def trusting(pem: str) -> ssl.SSLContext:
    """A context that trusts these certificates and no others, not even those of the machine. Raises
    ValueError and OSError for a text that holds none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=pem)
    return context


async def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    context: ssl.SSLContext | None = None,
    within_s: float = 10.0,
    most: int = 1 << 20,
) -> Answer:
    """Asks once. `context` is needed for https; `most` bytes of body are read. Raises Unreached."""
    parts = urllib.parse.urlsplit(url)
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    try:
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        if parts.scheme not in ("http", "https") or not parts.hostname or (tls and not context):
            raise Unreached(f"{where!r} is no address such as https://signer:8443")
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(
                parts.hostname, port, ssl=context if tls else None, limit=HEAD_MAX
            )
            try:
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                fields = {"Host": parts.netloc.rpartition("@")[2], **(headers or {})}
                fields |= {"Content-Length": str(len(body)), "Connection": "close"}
                lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items())]
                if any("\r" in line or "\n" in line for line in lines):
                    raise Unreached(f"the request to {where} would hold a line break")
                writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
                await writer.drain()
                return await _answer(reader, method, most)
            finally:
                # The answer is whole: nothing waits for the peer to end TLS, which may take 30 s.
                writer.transport.abort()
    except TimeoutError:
        raise Unreached(f"no answer from {where} within {within_s:g} s") from None
    except ssl.SSLCertVerificationError as bad:
        raise Unreached(f"{where} is not trusted: {bad.verify_message}") from None
    except (OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as bad:
        raise Unreached(f"{where} cannot be reached: {type(bad).__name__}: {bad}") from None


async def _answer(reader: asyncio.StreamReader, method: str, most: int) -> Answer:
    """Raises Unreached, ValueError, EOFError."""
    for _ in range(INTERIM_MAX + 1):
        code, headers = await _head(reader)
        if not 100 <= code < 200:
            return await _body(reader, method, code, headers, most)
    raise ValueError(f"more than {INTERIM_MAX} interim answers come before the answer")


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Raises ValueError, EOFError."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    version, status, *_ = head[0].split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("the answer is no HTTP/1")
    headers: dict[str, str] = {}
    for line in head[1:-2]:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError("a header of the answer has no colon")
        headers[name.strip().lower()] = value.strip()
    return int(status), headers


async def _body(
    reader: asyncio.StreamReader, method: str, code: int, headers: Mapping[str, str], most: int
) -> Answer:
    """Raises Unreached, ValueError, EOFError."""
    if method == "HEAD" or code in (204, 304):
        return Answer(code, headers, b"")
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return Answer(code, headers, await _chunks(reader, most))
    length = headers.get("content-length")
    if length is None:
        body = await reader.read(most + 1)
        while len(body) <= most and (more := await reader.read(most + 1 - len(body))):
            body += more
    elif int(length) > most:
        raise Unreached(f"the answer has {int(length)} bytes; at most {most} are read")
    else:
        body = await reader.readexactly(int(length))
    if len(body) > most:
        raise Unreached(f"the answer has more than {most} bytes")
    return Answer(code, headers, body)


async def _chunks(reader: asyncio.StreamReader, most: int) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        if size < 0 or len(body) + size > most:
            raise Unreached(f"the answer has more than {most} bytes")
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    return bytes(body)
