"""What reaches the query port's socket and is no question: dropped or refused, bounded, before
anybody is asked.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from federator.hub.query import announcing
from federator.hub.query.port import status
from federator.kube import errors, selfsigned, tlsserver
from federator.kube.client import Client
from federator.kube.login import tls
from federator.kube.tlsserver import Incoming, Outgoing
from federator.kube.wire.http import Endpoint, HttpTransport, StaticToken

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

NOW_S = 1_795_000_000.0


class Served:
    """A server whose handler notes what came."""

    def __init__(self) -> None:
        self.asked: list[Incoming] = []
        self.answer: Callable[[Incoming], Awaitable[Outgoing]] = self._plain
        self.identity = selfsigned.made("a query port", dns=(announcing.SERVER_NAME,), now_s=NOW_S)
        self.server = tlsserver.TlsServer(self._handle)
        self.context = tlsserver.server_context(self.identity.cert_pem, self.identity.key_pem)
        self.port = 0

    async def _handle(self, asked: Incoming) -> Outgoing:
        self.asked.append(asked)
        return await self.answer(asked)

    async def _plain(self, asked: Incoming) -> Outgoing:
        return Outgoing(200, b'{"ok": true}')

    def trusting(self) -> ssl.SSLContext:
        return tls.client_context(ca_pem=self.identity.ca_pem)

    async def raw(self, sent: bytes, *, within_s: float = 60.0) -> bytes:
        """What comes back until the connection ends."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.trusting(), server_hostname=announcing.SERVER_NAME
        )
        try:
            writer.write(sent)
            async with asyncio.timeout(within_s):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    def client(self, *, name: str = announcing.SERVER_NAME) -> Client:
        endpoint = Endpoint(
            f"https://127.0.0.1:{self.port}",
            tls=self.trusting(),
            credentials=StaticToken("canary"),
            tls_server_name=name,
        )
        return Client(HttpTransport(endpoint), "leader")


@pytest_asyncio.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(tlsserver, "HEAD_S", 0.5)
    monkeypatch.setattr(tlsserver, "ANSWER_S", 0.5)
    found = Served()
    found.port = await found.server.start("127.0.0.1", 0, found.context)
    yield found
    await found.server.close()


async def test_an_answer_to_head_has_no_body_so_that_the_next_answer_is_read(
    served: Served,
) -> None:
    head = b"%s / HTTP/1.1\r\nHost: x\r\n%s\r\n"
    sent = head % (b"HEAD", b"") + head % (b"GET", b"Connection: close\r\n")
    first, _, rest = (await served.raw(sent)).partition(b"\r\n\r\n")
    assert b"Content-Length: 12" in first
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest.endswith(b'{"ok": true}')


async def test_a_question_arrives_as_it_was_sent(served: Served) -> None:
    client = served.client()
    assert await client.raw("GET", "/v1/a%2Fb", (("x", "1 2"),)) == b'{"ok": true}'
    await client.close()
    (asked,) = served.asked
    assert (asked.path, asked.query, asked.authorization) == (
        "/v1/a%2Fb",
        "x=1%202",
        "Bearer canary",
    )
    assert "canary" not in repr(asked)


async def test_silence_and_a_head_that_never_ends_are_dropped(served: Served) -> None:
    assert await served.raw(b"") == b""
    assert await served.raw(b"GET / HTTP/1.1\r\nX: ") == b""
    assert served.asked == []


async def test_a_head_that_is_too_long_is_refused(served: Served) -> None:
    answer = await served.raw(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40_000 + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400") or answer.startswith(b"HTTP/1.0 400")
    assert served.asked == []


@pytest.mark.parametrize(
    "head",
    [
        b"GET /?key=canary\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer canary\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nCookie: session=canary" + b"a" * 40_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\ncanary\r\n",
        b"canary",
    ],
    ids=("address", "token", "cookie", "chunk", "method"),
)
async def test_a_head_that_cannot_be_read_is_not_logged(
    served: Served, caplog: pytest.LogCaptureFixture, head: bytes
) -> None:
    caplog.set_level(logging.DEBUG)
    await served.raw(head)
    assert served.asked == []
    assert "canary" not in caplog.text


UNREADABLE = {
    "a folded header": b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\r\n canary\r\n\r\n",
    "a zero": b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer canary\0\r\n\r\n",
    "two lengths": (
        b"POST /canary HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: canary\r\n\r\n"
    ),
    "a length and chunks": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: canary\r\n\r\n"
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_cannot_be_read_is_refused_without_its_text(served: Served, name: str) -> None:
    answer = await served.raw(UNREADABLE[name])
    assert answer.split()[1] == b"400"
    assert b"The request cannot be read as HTTP." in answer
    assert b"canary" not in answer
    assert not served.asked


async def test_two_tokens_count_as_none(served: Served) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    await served.raw(head + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n")
    assert served.asked[0].authorization == "several"


@pytest.mark.parametrize("header", ["User: a", "Group: a", "Uid: a", "Extra-scopes: a"])
async def test_every_header_of_impersonation_counts(served: Served, header: str) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nImpersonate-"
    await served.raw(head + header.encode() + b"\r\n\r\n")
    assert served.asked[0].impersonates


async def test_a_body_is_told_and_never_read(served: Served) -> None:
    head = b"POST /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"

    async def refuses(asked: Incoming) -> Outgoing:
        return status(405, "MethodNotAllowed", "no") if asked.has_body else Outgoing(200, b"")

    served.answer = refuses
    assert (await served.raw(head + b"x" * 1000)).startswith(b"HTTP/1.1 405")


async def test_a_body_is_read_up_to_a_bound_and_as_it_was_sent(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tlsserver, "BODY_S", 0.2)
    got: list[bytes] = []

    async def reads(asked: Incoming) -> Outgoing:
        assert asked.read_body is not None
        try:
            got.append(await asked.read_body(1000))
        except tlsserver.BodyRefused as bad:
            return status(400, "BadRequest", str(bad))
        return Outgoing(200, b"{}")

    served.answer = reads
    head = b"POST /v1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n"
    assert (await served.raw(head % (1000, b"") + b"x" * 1000)).startswith(b"HTTP/1.1 200")
    assert got == [b"x" * 1000]
    assert b"more than 1000 bytes" in await served.raw(head % (1001, b"") + b"x" * 1001)
    assert b"more than 1000 bytes" in await served.raw(head % (10**9, b"") + b"x" * 1001)
    assert b"did not arrive" in await served.raw(head % (1000, b"") + b"x" * 999)
    assert b"must not be encoded" in await served.raw(
        head % (4, b"Content-Encoding: gzip\r\n") + b"xxxx"
    )
    chunked = (
        b"POST /v1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    assert b"more than 1000 bytes" in await served.raw(
        chunked + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n"
    )
    assert len(got) == 1


async def test_an_answer_that_takes_too_long_ends_the_connection(served: Served) -> None:
    async def sleeps(asked: Incoming) -> Outgoing:
        await asyncio.sleep(60)
        return Outgoing(200, b"")

    served.answer = sleeps
    assert await served.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b""


async def test_one_address_has_so_many_connections_and_no_more(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.server._web, "_of_one_address", 3)
    monkeypatch.setattr(tlsserver, "HEAD_S", 600.0)
    opened: list[Any] = []
    for _ in range(5):
        opened.append(
            await asyncio.open_connection(
                "127.0.0.1",
                served.port,
                ssl=served.trusting(),
                server_hostname=announcing.SERVER_NAME,
            )
        )
    async with asyncio.timeout(60.0):
        for reader, _ in opened[3:]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
    assert [reader.at_eof() or reader.exception() is not None for reader, _ in opened] == [
        False
    ] * 3 + [True] * 2
    for _, writer in opened:
        writer.close()


async def test_who_is_not_the_one_the_lease_names_gets_no_token(served: Served) -> None:
    other = tls.client_context(
        ca_pem=selfsigned.made("a query port", dns=(announcing.SERVER_NAME,), now_s=NOW_S).ca_pem
    )
    of_another_name = served.client(name="other.example")
    endpoint = Endpoint(
        f"https://127.0.0.1:{served.port}", tls=other, tls_server_name=announcing.SERVER_NAME
    )
    of_another_authority = Client(HttpTransport(endpoint), "leader")
    for client in (of_another_name, of_another_authority):
        with pytest.raises(errors.Unreachable, match="certificate"):
            await client.raw("GET", "/v1", timeout_s=60.0)
        await client.close()
    assert served.asked == []
