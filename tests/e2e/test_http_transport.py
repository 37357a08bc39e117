"""The transport over real sockets against servers that misbehave, on asyncio's loop and on
uvloop.
"""

import asyncio
import gzip
import json
import random
import ssl
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.login import tls
from federator.kube.wire.addresses import member_guard
from federator.kube.wire.exchange import OBJECT_LIMIT
from federator.kube.wire.http import Endpoint, HttpTransport, StaticToken
from federator.kube.wire.transport import Request
from federator.model.steps import ObjectRef
from tests.controlplane import certs
from tests.e2e.rawserver import Asked, RawServer, answer, replying, serving

pytestmark = pytest.mark.e2e

REF = ObjectRef("v1", "configmaps", "ns", "web", "ConfigMap")
OBJECT = json.dumps(
    {"kind": "ConfigMap", "metadata": {"name": "web", "uid": "1", "resourceVersion": "5"}}
).encode()
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def go(main: Coroutine[Any, Any, None]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(main, 60))

    return go


class Speaking:
    """A client to one server, closed at the end."""

    def __init__(
        self, server: RawServer, *, timeout_s: float = 10.0, url: str = "", **options: Any
    ) -> None:
        self.transport = HttpTransport(Endpoint(url or server.url, **options))
        self.client = Client(self.transport, "m1", rng=random.Random(1), timeout_s=timeout_s)

    async def __aenter__(self) -> Client:
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()


def test_an_object_comes_through_with_our_headers_and_no_cookies_or_proxies(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    async def main() -> None:
        async with (
            serving(replying(answer(OBJECT, "200 OK", "Set-Cookie: a=b"))) as server,
            Speaking(server, credentials=StaticToken("t0ken")) as client,
        ):
            for _ in range(2):
                assert (await client.get(REF))["metadata"]["resourceVersion"] == "5"
            headers = server.requests[1].headers
            assert headers["user-agent"].startswith("federator/")
            assert headers["authorization"] == "Bearer t0ken"
            assert headers["accept-encoding"] == "identity"
            assert len(headers["x-request-id"]) == 16
            assert "cookie" not in headers
            assert server.connections == 1

    run(main())


def test_redirects_are_not_followed(run: Run) -> None:
    async def main() -> None:
        async with (
            serving(replying(answer(OBJECT))) as elsewhere,
            serving(replying(answer(b"", "302 Found", f"Location: {elsewhere.url}/api"))) as server,
            Speaking(server) as client,
        ):
            with pytest.raises(errors.Malformed):
                await client.get(REF)
            assert elsewhere.requests == []

    run(main())


def test_a_compressed_answer_is_refused_unread(run: Run) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)

    async def main() -> None:
        data = answer(bomb, "200 OK", "Content-Encoding: gzip")
        async with serving(replying(data)) as server, Speaking(server) as client:
            with pytest.raises(errors.Malformed, match="gzip-encoded"):
                await client.get(REF)

    run(main())


def test_an_endless_body_ends_at_the_limit(run: Run) -> None:
    async def endless(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        block = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        while not writer.is_closing():
            writer.write(block)
            await writer.drain()

    async def main() -> None:
        async with serving(endless) as server, Speaking(server, timeout_s=30) as client:
            with pytest.raises(errors.Malformed, match=f"beyond the limit of {OBJECT_LIMIT} bytes"):
                await client.get(REF)

    run(main())


def test_a_body_that_promises_too_much_is_refused_at_once(run: Run) -> None:
    async def main() -> None:
        data = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx"
        async with serving(replying(data)) as server, Speaking(server) as client:
            with pytest.raises(errors.Malformed):
                await client.get(REF)

    run(main())


def test_html_is_no_answer(run: Run) -> None:
    async def main() -> None:
        data = answer(b"<html>Please log in</html>", "200 OK", "Content-Type: text/html")
        async with serving(replying(data)) as server, Speaking(server) as client:
            for call in (
                client.get(REF),
                client.list("v1", "configmaps"),
                client.ready(),
                client.kube_system_uid(),
            ):
                with pytest.raises(errors.Malformed):
                    await call
            stream = await client.open_watch("v1", "configmaps", silence_s=5)
            assert await stream.batch() is None  # no line ever ended
            await stream.close()

    run(main())


async def _ends(call: Coroutine[Any, Any, Any]) -> None:
    """By its own deadline of less than a second, long before the server would end it after 50."""
    with pytest.raises(errors.Unreachable):
        async with asyncio.timeout(25):
            await call


def test_a_hung_server_and_a_dripping_one_end_at_the_deadline(run: Run) -> None:
    async def hang(_asked: Asked, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def drip_head(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 1000:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)

    async def drip_body(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        await drip_head(_asked, writer)

    async def main() -> None:
        for handler in (hang, drip_head, drip_body):
            async with serving(handler) as server, Speaking(server, timeout_s=0.4) as client:
                await _ends(client.get(REF))
                await _ends(client.create(REF, {}))

    run(main())


def test_a_silent_watch_ends_by_its_silence(run: Run) -> None:
    event = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "a"}}}).encode() + b"\n"

    async def silent(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n"
            % (len(event), event)
        )
        await asyncio.sleep(60)

    async def main() -> None:
        async with serving(silent) as server, Speaking(server) as client:
            stream = await client.open_watch("v1", "configmaps", silence_s=0.3)
            batch = await stream.batch()
            assert batch is not None
            assert stream.event(batch[0]).type == "ADDED"
            await _ends(stream.batch())
            await stream.close()

    run(main())


def test_a_watch_cut_in_the_middle_of_a_line_is_unreachable(run: Run) -> None:
    async def cut(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{"type":"ADD')
        await writer.drain()
        writer.transport.abort()

    async def main() -> None:
        async with serving(cut) as server, Speaking(server) as client:
            stream = await client.open_watch("v1", "configmaps")
            with pytest.raises(errors.Unreachable):
                await stream.batch()
            await stream.close()

    run(main())


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(5000)) + b"\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n",
    ],
    ids=["long header", "many headers", "ssh", "no status", "bad length"],
)
def test_what_is_no_http_is_a_typed_error(run: Run, head: bytes) -> None:
    async def main() -> None:
        async with serving(replying(head)) as server, Speaking(server, timeout_s=2.0) as client:
            with pytest.raises((errors.Malformed, errors.Unreachable)):
                await client.create(REF, {})

    run(main())


def test_nothing_is_sent_twice_when_a_kept_connection_turns_out_to_be_dead(run: Run) -> None:
    async def once(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        if len(server_box[0].requests) == 1:
            writer.write(answer(OBJECT))
        else:
            writer.close()

    server_box: list[RawServer] = []

    async def main() -> None:
        async with serving(once) as server, Speaking(server) as client:
            server_box.append(server)
            await client.replace(REF, {})
            with pytest.raises(errors.Unreachable):
                await client.replace(REF, {})
            assert len(server.requests) == 2

    run(main())


def test_a_refused_connection_is_unreachable(run: Run) -> None:
    async def main() -> None:
        async with serving(replying(b"")) as server:
            pass
        async with Speaking(server) as client:
            with pytest.raises(errors.Unreachable, match="cannot be connected to"):
                await client.create(REF, {})

    run(main())


def test_hung_unary_calls_do_not_keep_watches_out_nor_the_other_way_round(run: Run) -> None:
    async def handler(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if "watch=true" in asked.path:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            await writer.drain()
        elif asked.method == "GET":
            writer.write(answer(OBJECT))
            return
        await asyncio.sleep(60)

    async def main() -> None:
        async with serving(handler) as server, Speaking(server, lanes=1, watches=1) as client:
            watch = await client.open_watch("v1", "configmaps")
            assert await client.get(REF)
            writing = asyncio.create_task(client.create(REF, {}))
            await asyncio.sleep(0.1)
            await watch.close()
            again = await client.open_watch("v1", "configmaps")
            await again.close()
            writing.cancel()
            await asyncio.wait([writing])

    run(main())


@pytest.mark.parametrize("lanes", [1, 8])
def test_who_waits_when_a_transport_is_closed_is_told_and_not_cancelled(
    run: Run, lanes: int
) -> None:
    """Waiting for a connection that others have, or for the answer: whoever takes it for its own
    cancellation ends.
    """

    async def handler(_asked: Asked, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        async with serving(handler) as server, Speaking(server, lanes=lanes) as client:
            waiting = [asyncio.create_task(client.create(REF, {})) for _ in range(3)]
            await asyncio.sleep(0.2)
            await client.close()
            await asyncio.wait(waiting, timeout=30)
            assert not any(one.cancelled() for one in waiting)
            assert all(isinstance(one.exception(), errors.Unreachable) for one in waiting)

    run(main())


def test_names_are_not_looked_up_by_the_threads_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those are few, and names that nobody answers for, of a lost zone, would keep all others
    waiting.
    """

    def hangs(*_: object) -> list[object]:
        time.sleep(60)
        raise AssertionError("looked up by a thread")

    monkeypatch.setattr("socket.getaddrinfo", hangs)

    async def main() -> None:
        async with serving(replying(answer(OBJECT))) as server:
            url = f"http://localhost:{server.port}"
            async with Speaking(server, url=url, timeout_s=50.0) as client:
                assert await client.get(REF)

    asyncio.run(main())


def test_a_member_on_this_machine_is_not_connected_to_whatever_its_name(run: Run) -> None:
    async def main() -> None:
        async with serving(replying(answer(OBJECT))) as server:
            for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"):
                url = f"http://{host}:{server.port}"
                async with Speaking(server, url=url, guard=member_guard()) as client:
                    with pytest.raises(errors.Unreachable):
                        await client.create(REF, {})
            async with Speaking(server, guard=member_guard(allow_loopback=True)) as client:
                assert await client.get(REF)
            assert len(server.requests) == 1

    run(main())


def _server_tls(files: certs.Files, *, mutual: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    if mutual:
        context.load_verify_locations(files.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_tls_trusts_the_given_authority_only(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files, other = certs.write(tmp_path), certs.write(tmp_path / "other")

    async def main() -> None:
        async with serving(replying(answer(OBJECT)), _server_tls(files)) as server:
            good = tls.client_context(ca_pem=files.ca.read_bytes())
            async with Speaking(server, tls=good) as client:
                assert await client.get(REF)
            assert tls.client_context(ca_pem=files.ca.read_bytes()) is good
            for context in (tls.client_context(ca_pem=other.ca.read_bytes()), tls.client_context()):
                async with Speaking(server, tls=context) as client:
                    with pytest.raises(errors.Unreachable, match="certificate"):
                        await client.create(REF, {})
            async with Speaking(server, tls=good, tls_server_name="elsewhere.example") as client:
                with pytest.raises(errors.Unreachable, match="certificate"):
                    await client.create(REF, {})
            assert len(server.requests) == 1

    run(main())


def test_a_client_certificate_is_shown(run: Run, tmp_path: Path) -> None:
    files = certs.write(tmp_path)
    ca_pem = files.ca.read_bytes()

    async def main() -> None:
        async with serving(replying(answer(OBJECT)), _server_tls(files, mutual=True)) as server:
            pair: dict[str, Any] = {
                "cert_pem": files.certificate.read_bytes(),
                "key_pem": files.key.read_bytes(),
            }
            async with Speaking(server, tls=tls.client_context(ca_pem=ca_pem, **pair)) as client:
                assert await client.get(REF)
            async with Speaking(server, tls=tls.client_context(ca_pem=ca_pem)) as client:
                with pytest.raises(errors.Unreachable):
                    await client.create(REF, {})

    run(main())


def test_a_closed_transport_says_so(run: Run) -> None:
    async def main() -> None:
        transport = HttpTransport(Endpoint("http://127.0.0.1:1"))
        await transport.close()
        with pytest.raises(errors.Unreachable):
            await transport.request(Request("GET", "/"))

    run(main())
