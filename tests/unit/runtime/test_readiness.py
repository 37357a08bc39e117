"""Readiness probes as the traffic part asks them: thresholds, and gRPC against a real HTTP/2 server."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator

import pytest

from federator.runtime import asking, grpchealth
from federator.runtime.probes import Probe, Readiness

SERVER = """
const http2 = require('node:http2');
const server = http2.createServer();
server.on('stream', (stream, headers) => {
  stream.on('error', () => undefined);
  const parts = [];
  stream.on('data', (part) => parts.push(part));
  stream.on('end', () => {
    const name = Buffer.concat(parts).subarray(7).toString();
    const right = headers[':path'] === '/grpc.health.v1.Health/Check'
      && headers['content-type'] === 'application/grpc' && headers['te'] === 'trailers';
    if (name === 'gone' || !right) {
      stream.respond({':status': 200, 'content-type': 'application/grpc', 'grpc-status': '5'},
                     {endStream: true});
      return;
    }
    if (name === 'reset') { stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR); return; }
    stream.respond({':status': 200, 'content-type': 'application/grpc', 'x-much': 'y'.repeat(9000)},
                   {waitForTrailers: true});
    stream.on('wantTrailers', () => stream.sendTrailers({'grpc-status': '0'}));
    const status = {'': 1, up: 1, down: 2}[name] ?? 3;
    stream.write(Buffer.from([0, 0, 0]));
    stream.end(Buffer.from([0, 2, 8, status]));
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"""


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """Node's HTTP/2 server as a gRPC health service; gives its port."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on this machine, which serves HTTP/2")
    process = await asyncio.create_subprocess_exec(
        node, "-e", SERVER, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await asyncio.wait_for(process.stdout.readline(), 60.0))
    finally:
        process.kill()
        await process.wait()


@pytest.mark.e2e
def test_a_grpc_probe_asks_the_health_service() -> None:
    async def main() -> dict[str, str]:
        async with serving() as port:

            async def ask(service: str) -> str:
                return await asking.ask(Probe.of({"grpc": {"port": port, "service": service}}))

            return {service: await ask(service) for service in ("", "up", "down", "gone", "reset")}

    assert asyncio.run(main()) == {
        "": "",
        "up": "",
        "down": "the gRPC health service answers NOT_SERVING",
        "gone": "the gRPC server has no health service, or does not know this service",
        "reset": "the gRPC server ended the request without an answer",
    }


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the server does not speak HTTP/2"),
        (b"", "0 bytes read on a total of 9 expected bytes"),
        (b"\0\0\0\x04\0\0\0\0\0" * 70, "the gRPC server sends no answer"),
    ],
)
def test_a_server_that_does_not_speak_grpc_fails_the_probe(answer: bytes, why: str) -> None:
    async def main() -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(len(grpchealth.PREFACE))
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await asking.ask(
                Probe.of({"grpc": {"port": server.sockets[0].getsockname()[1]}})
            )

    assert why in asyncio.run(main())


def test_the_name_of_a_grpc_service_has_a_limit() -> None:
    async def main() -> str:
        return await asking.ask(Probe.of({"grpc": {"port": 1, "service": "x" * 121}}))

    assert "longer than 120 bytes" in asyncio.run(main())


def test_readiness_changes_after_the_thresholds_of_the_probe() -> None:
    asked = Readiness(Probe.of({"tcpSocket": {"port": 1}, "successThreshold": 2}))
    seen = []
    for answer in ("refused", "", "", "slow", "", "slow", "slow", "slow", ""):
        asked.answered(answer)
        seen.append(asked.ready)
    assert seen == [False, False, True, True, True, True, True, False, False]
    assert asked.why == "slow"
