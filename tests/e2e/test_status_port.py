"""`/metrics`, `/healthz`, `/readyz` over a socket, and what a rude client gets."""

import asyncio

import pytest

from federator.kube.metrics import Metrics
from federator.process import status_server
from federator.process.status_server import StatusServer

pytestmark = pytest.mark.e2e


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_the_three_pages_and_their_verdicts() -> None:
    problems: dict[str, str] = {"host": "", "members": ""}
    server = StatusServer(metrics=Metrics(), ready=lambda: problems)
    port = await server.start("127.0.0.1", 0)
    try:
        assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        assert (await ask(port, b"GET /readyz?verbose HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\nok\n")
        problems["members"] = "2 of 6 have not been read yet"
        answer = await ask(port, b"GET /readyz HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503")
        assert answer.endswith(b"members: 2 of 6 have not been read yet\n")
        assert b"# HELP workqueue_depth" in await ask(
            port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        )
    finally:
        await server.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /secrets HTTP/1.1\r\n\r\n", b"404"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 12_000, b"400"),
        (b"GET /metr", b"408"),
    ],
    ids=["method", "path", "no request", "long head", "slow head"],
)
async def test_rude_requests_get_a_short_answer(
    request_bytes: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_server, "HEAD_S", 0.3)
    server = StatusServer(metrics=Metrics(), ready=dict)
    port = await server.start("127.0.0.1", 0)
    try:
        assert (await ask(port, request_bytes)).startswith(b"HTTP/1.1 " + status)
    finally:
        await server.close()


@pytest.mark.parametrize("sent", [b"", b"GET /metr"], ids=["idle", "half a request"])
async def test_two_hundred_idle_connections_keep_no_probe_waiting(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_server, "HEAD_S", 600.0)  # whoever waits for it, waits too long
    server = StatusServer(metrics=Metrics(), ready=dict)
    port = await server.start("127.0.0.1", 0)
    crowd = []
    try:
        for _ in range(200):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            crowd.append(writer)
        for page in (b"/healthz", b"/readyz"):
            async with asyncio.timeout(60.0):
                assert (await ask(port, b"GET " + page + b" HTTP/1.1\r\n\r\n")).startswith(
                    b"HTTP/1.1 200 OK"
                )
        assert len(server._open) <= status_server.CONNECTIONS_MAX
    finally:
        for writer in crowd:
            writer.transport.abort()
        await server.close()
