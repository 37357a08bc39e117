"""Hostile answers on a real socket (F34, F60): typed errors within time and memory, whatever a
server sends.
"""

import asyncio
import gzip
import json
import random
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.wire.http import Endpoint, HttpTransport, StaticToken
from federator.model.steps import ObjectRef
from tests.e2e.rawserver import Asked, answer, serving

pytestmark = pytest.mark.e2e

REF = ObjectRef("v1", "configmaps", "ns", "web", "ConfigMap")
CANARY = "s3cr3t-canary-token"
DEADLINE_S = 2.0
SILENCE_S = 0.5
"""The deadline where a server sends nothing or next to nothing: it ends each call."""
MEMORY = 160 * 1024 * 1024
"""Of the whole exchange, server included: a list page of 32 MiB may be held a few times."""
GZIPPED = gzip.compress(b"0" * 200_000_000)
OTHER = json.dumps(
    {"kind": "ConfigMap", "metadata": {"name": "other", "uid": "2", "resourceVersion": "5"}}
).encode()

Sends = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Wire:
    """What a server sends to every request; `words` stand in the error of a read."""

    name: str
    row: str
    sends: Sends
    words: str = ""
    deadline_s: float = DEADLINE_S


def plain(data: bytes) -> Sends:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return send


def flood(head: bytes, block: bytes) -> Sends:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(block)
            await writer.drain()

    return send


def drip(data: bytes, then: bytes = b"") -> Sends:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        for byte in then * 1000:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)

    return send


async def hang(_: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WIRES = (
    Wire(
        "redirect to another host",
        "F34",
        plain(answer(b"", "302 Found", "Location: http://127.0.0.1:1/")),
        "302",
    ),
    Wire(
        "redirect for ever",
        "F34",
        plain(answer(b"", "307 Temporary Redirect", "Location: /api")),
        "307",
    ),
    Wire(
        "redirect to a file",
        "F34",
        plain(answer(b"", "301 Moved", "Location: file:///etc/passwd")),
        "301",
    ),
    Wire(
        "gzip bomb of 200 MB",
        "F60",
        plain(answer(GZIPPED, "200 OK", "Content-Encoding: gzip")),
        "gzip-encoded",
    ),
    Wire(
        "encoding nobody knows",
        "F60",
        plain(answer(b"x", "200 OK", "Content-Encoding: br")),
        "br-encoded",
    ),
    Wire(
        "HTML of a portal",
        "F34",
        plain(answer(b"<html>Log in</html>", "200 OK", "Content-Type: text/html")),
        "no JSON",
    ),
    Wire(
        "HTML of a missing page",
        "F34",
        plain(answer(b"<html/>", "404 Not Found", "Content-Type: text/html")),
        "404",
    ),
    Wire("endless body", "F60", flood(CHUNKED, b"10000\r\n" + b"x" * 0x10000 + b"\r\n"), ""),
    Wire("endless header", "F60", flood(b"HTTP/1.1 200 OK\r\nX-Long: ", b"a" * 0x10000), ""),
    Wire("endless headers", "F60", flood(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 1000), ""),
    Wire(
        "endless error body",
        "F60",
        flood(CHUNKED.replace(b"200 OK", b"500 Oops"), b"1000\r\n" + b"x" * 0x1000 + b"\r\n"),
        "",
    ),
    Wire(
        "length beyond all",
        "F60",
        plain(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx"),
        "beyond the limit",
    ),
    Wire(
        "length that is too long",
        "F60",
        plain(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}"),
        "",
    ),
    Wire(
        "length that is too short",
        "F60",
        plain(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{"metadata":{}}'),
        "",
    ),
    Wire(
        "length that is negative",
        "F60",
        plain(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        "",
    ),
    Wire("chunk of no size", "F60", plain(CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n"), ""),
    Wire("chunk beyond all", "F60", plain(CHUNKED + b"fffffffffffffff\r\n{}"), ""),
    Wire("no answer", "F15", hang, deadline_s=SILENCE_S),
    Wire(
        "dripping head",
        "F60",
        drip(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a"),
        deadline_s=SILENCE_S,
    ),
    Wire(
        "dripping body",
        "F60",
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" "),
        deadline_s=SILENCE_S,
    ),
    Wire("another protocol", "F34", plain(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), ""),
    Wire("another object", "F34", plain(answer(OTHER)), "another object"),
    Wire(
        "an object without metadata",
        "F34",
        plain(answer(b'{"kind":"ConfigMap"}')),
        "no object of Kubernetes",
    ),
    Wire("a list for an object", "F34", plain(answer(b"[]")), "no JSON object"),
    Wire(
        "NaN in an object",
        "F58",
        plain(answer(b'{"metadata":{"name":"web","generation":NaN}}')),
        "no JSON",
    ),
    Wire(
        "1e400 in an object",
        "F56",
        plain(answer(b'{"metadata":{"name":"web","generation":1e400}}')),
        "no JSON",
    ),
    Wire("nested without end", "F58", plain(answer(b'{"a":' * 200_000)), "no JSON"),
    Wire(
        "a refusal of a megabyte",
        "F60",
        plain(
            answer(
                json.dumps(
                    {"kind": "Status", "reason": "Invalid", "message": "m" * 1_000_000}
                ).encode(),
                "422 Oops",
            )
        ),
        "",
    ),
)
BY_NAME = {wire.name: wire for wire in WIRES}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_hostile_answer_is_a_typed_error_within_bounds(name: str) -> None:
    wire = BY_NAME[name]

    async def serve(_: Asked, writer: asyncio.StreamWriter) -> None:
        await wire.sends(writer)
        writer.close()

    async def main() -> None:
        async with serving(serve) as server:
            transport = HttpTransport(Endpoint(server.url, credentials=StaticToken(CANARY)))
            client = Client(transport, "m1", rng=random.Random(1), timeout_s=wire.deadline_s)
            try:
                said = [
                    await _refusal(call, wire.deadline_s)
                    for call in (
                        client.get(REF),
                        client.list("v1", "configmaps"),
                        client.create(REF, {}),
                    )
                ]
                assert wire.words in said[0]
                for message in said:
                    assert CANARY not in message
                    assert len(message) < 2000
            finally:
                await client.close()

    tracemalloc.start()
    try:
        asyncio.run(asyncio.wait_for(main(), 120))
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


async def _refusal(call: Awaitable[object], deadline_s: float) -> str:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with pytest.raises(errors.ApiError) as caught:
        await call
    assert loop.time() - begun < deadline_s + 1
    return str(caught.value)
