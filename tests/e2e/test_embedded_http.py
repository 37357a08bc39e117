"""The embedded API's HTTPS front: who is let in, what is bounded, and what a reader that goes away
leaves behind.
"""

import asyncio
import contextlib
import io
import json
import random
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aiohttp
import pytest

from federator.embedded import http
from federator.embedded.http import HttpServer
from federator.embedded.server import EmbeddedCluster
from federator.embedded.storage.messages import Caller
from federator.kube.clock import RealClock

pytestmark = pytest.mark.e2e

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def cluster() -> EmbeddedCluster:
    return EmbeddedCluster("emb", clock=RealClock(), rng=random.Random(1), controllers=False)


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    listening = await http.serve(cluster())
    yield listening
    await listening.close()


def trusting(server: HttpServer) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=server.ca_pem.decode())


@pytest.fixture
async def session(server: HttpServer) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=trusting(server))
    headers = {"Authorization": f"Bearer {server.cluster.token}"}
    async with aiohttp.ClientSession(server.url, connector=connector, headers=headers) as made:
        yield made


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
async def test_it_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(http.NotLoopback, match="loopback only"):
        await http.serve(cluster(), host)


@pytest.mark.parametrize("sent", [None, "Bearer wrong", "Basic YTpi", "Bearer"])
async def test_strangers_are_unauthorized(server: HttpServer, sent: str | None) -> None:
    headers = {} if sent is None else {"Authorization": sent}
    connector = aiohttp.TCPConnector(ssl=trusting(server))
    session = aiohttp.ClientSession(server.url, connector=connector, headers=headers)
    async with session as stranger, stranger.get("/api/v1/namespaces") as answer:
        assert (answer.status, (await answer.json())["reason"]) == (401, "Unauthorized")


async def test_health_and_version_need_no_token(server: HttpServer) -> None:
    connector = aiohttp.TCPConnector(ssl=trusting(server))
    async with aiohttp.ClientSession(server.url, connector=connector) as stranger:
        for path in ("/healthz", "/readyz", "/livez", "/version"):
            async with stranger.get(path) as answer:
                assert answer.status == 200


async def test_a_token_of_ones_own_carries_ones_own_rights(
    server: HttpServer, session: aiohttp.ClientSession
) -> None:
    server.cluster.add_token("anns", Caller("ann"))
    async with session.get(CONFIGMAPS, headers={"Authorization": "Bearer anns"}) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (403, "Forbidden")


async def test_a_body_beyond_the_bound_is_refused(session: aiohttp.ClientSession) -> None:
    async with session.post(
        CONFIGMAPS, data=io.BytesIO(b"x" * (http.BODY_MAX_BYTES + 1))
    ) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_connection_that_says_nothing_is_given_up(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "HEAD_TIMEOUT_S", 0.2)
    url = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port, ssl=trusting(server))
    writer.write(b"GET /version HTTP/1.1\r\nHost: ")
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()


async def test_a_reader_that_goes_away_leaves_no_watch_behind(
    server: HttpServer, session: aiohttp.ClientSession
) -> None:
    shelf = server.cluster.store._shelves
    key = ("", "configmaps")
    async with session.get(CONFIGMAPS, params={"watch": "1"}) as answer:
        assert answer.status == 200
        assert len(shelf[key].callbacks) == 1
        answer.close()
    async with asyncio.timeout(60):
        while shelf[key].callbacks:  # noqa: ASYNC110  # the server notices in its own time
            await asyncio.sleep(0.01)


async def test_a_watch_sends_its_head_at_once_and_each_event_as_it_happens(
    server: HttpServer, session: aiohttp.ClientSession
) -> None:
    async with session.get(CONFIGMAPS, params={"watch": "1", "timeoutSeconds": "30"}) as answer:
        async with session.post(CONFIGMAPS, json={"metadata": {"name": "a"}}) as made:
            assert made.status == 201
        async with asyncio.timeout(60):
            event = json.loads(await answer.content.readline())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")


async def test_warnings_travel_as_headers(session: aiohttp.ClientSession) -> None:
    async with session.post(CONFIGMAPS, json={"metadata": {"name": "a"}, "bogus": 1}) as answer:
        assert (answer.status, answer.headers["Warning"]) == (
            201,
            '299 - "unknown field \\"bogus\\""',
        )
