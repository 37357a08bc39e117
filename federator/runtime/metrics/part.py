"""The metrics part of a pod's runtime: answers a scrape with what the application answers, and the
labels of its identity on each sample. It holds one line at a time, whatever the application sends.
"""

import asyncio
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from federator.runtime.logs.following import labels
from federator.runtime.parts import PartState, Waiting

NAME: Final = "metrics"
PORT: Final = 9102
SCRAPE_S: Final = 10.0
"""What Prometheus waits for an answer by default."""
LINE_MAX: Final = 1 << 16
HEAD_MAX: Final = 100
TARGET: Final = "FEDERATOR_METRICS_APPLICATION"
"""Variable: where the application serves its metrics, PORT/PATH."""

_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_SAMPLE: Final = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*(?:\{{((?:[^\"}}]|{_QUOTED})*+)\}})?[ \t]*([^ \t{{].*)"
)
_LABEL: Final = re.compile(rf"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*({_QUOTED})\s*(?:,|$)")
EXPORTED: Final = "exported_"
"""Before a label of the application that has the name of a label of the identity, as Prometheus
itself does it. An application cannot claim to be another one."""


def labelled(line: str, labels: Mapping[str, str]) -> str | None:
    """The line with the labels; comments stay as they are. None for a line that is no sample."""
    if not line.strip() or line.startswith("#"):
        return line
    match = _SAMPLE.fullmatch(line)
    if match is None:
        return None
    pairs, at, own = [], 0, match[2] or ""
    while at < len(own.rstrip()):
        label = _LABEL.match(own, at)
        if label is None:
            return None
        name = f"{EXPORTED}{label[1]}" if label[1] in labels else label[1]
        pairs.append(f"{name}={label[2]}")
        at = label.end()
    pairs += [f'{name}="{_escaped(value)}"' for name, value in labels.items()]
    return f"{match[1]}{{{','.join(pairs)}}} {match[3]}" if pairs else line


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@dataclass(frozen=True, slots=True)
class Target:
    """Where the application serves its metrics. `port` 0: nowhere."""

    ip: str
    port: int
    path: str


class MetricsPart:
    """See `parts.Part`. An application without an answer makes a scrape fail, and nothing else."""

    def __init__(
        self, target: Target, labels: Mapping[str, str], host: str | None, port: int
    ) -> None:
        self._target = target
        self._labels = labels
        self._host = host
        self.port = port
        """0 until it listens, when any port may be taken."""
        self._trouble = ""
        self._drops = False

    @property
    def name(self) -> str:
        return NAME

    async def prepare(self) -> None:
        """Nothing has to be there before the application starts."""

    async def run(self) -> None:
        if not self._target.port:
            return
        try:
            server = await asyncio.start_server(self._serve, self._host, self.port, limit=LINE_MAX)
        except OSError as bad:
            message = f"port {self.port} cannot be listened on: {bad.strerror}."
            state = PartState(NAME, ready=False, reason="PortTaken", message=message)
            raise Waiting(state) from None
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            await server.serve_forever()

    async def drain(self) -> None:
        """Metrics are answered until the process ends."""

    def state(self) -> PartState:
        target = self._target
        if not target.port:
            message = f"{TARGET} is not set: the application's metrics are not served here."
            return PartState(NAME, ready=True, reason="NoMetrics", message=message)
        if self._trouble:
            message = f"The last scrape failed: {self._trouble}."
            return PartState(NAME, ready=True, reason="ScrapeFailed", message=message)
        dropped = "; lines that are no samples are left out" if self._drops else ""
        message = f"Port {self.port} serves those of port {target.port}{dropped}."
        return PartState(NAME, ready=True, reason="Serving", message=message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(SCRAPE_S):
                line = (await reader.readline()).split(b" ")
                while (await reader.readline()).strip():
                    pass
            if line[1:2] != [b"/metrics"]:
                writer.write(b"HTTP/1.0 404 Not Found\r\n\r\nthere is /metrics\n")
            else:
                await self._scrape(writer)
            async with asyncio.timeout(SCRAPE_S):
                await writer.drain()
        except (OSError, EOFError, ValueError, TimeoutError):
            pass  # the client has gone, or sends something else than HTTP
        finally:
            writer.close()

    async def _scrape(self, writer: asyncio.StreamWriter) -> None:
        """Raises what a scrape fails with after its head was written: an answer that is cut off is
        none for Prometheus."""
        begun = asyncio.Event()
        try:
            async with asyncio.timeout(SCRAPE_S):
                await self._copy(writer, begun)
            self._trouble = ""
        except (OSError, EOFError, ValueError, TimeoutError) as bad:
            late = f"there was no whole answer within {SCRAPE_S:g} s"
            self._trouble = str(bad) or (late if isinstance(bad, TimeoutError) else "no answer")
            if begun.is_set():
                _reset(writer)
                raise
            text = f"{self._trouble}\n".encode()
            writer.write(b"HTTP/1.0 502 Bad Gateway\r\nContent-Type: text/plain\r\n\r\n" + text)

    async def _copy(self, writer: asyncio.StreamWriter, begun: asyncio.Event) -> None:
        """The application's answer; `begun` is set when something of it may have been sent."""
        target = self._target
        host = f"[{target.ip}]" if ":" in target.ip else target.ip
        reader, answer = await asyncio.open_connection(target.ip, target.port, limit=LINE_MAX)
        try:
            # 1.0, so that the body comes without chunks.
            answer.write(
                f"GET {target.path} HTTP/1.0\r\nHost: {host}:{target.port}\r\n"
                "Accept: text/plain;version=0.0.4\r\n\r\n".encode("latin-1")
            )
            status = (await reader.readline()).split(b" ")[1:2]
            if status != [b"200"]:
                raise ValueError(f"the application answers {(status or [b'?'])[0].decode()}")
            for _ in range(HEAD_MAX):
                if not (await reader.readline()).strip():
                    break
            begun.set()
            writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n")
            while line := await reader.readline():
                await self._pass_on(line, writer)
        finally:
            answer.close()

    async def _pass_on(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        out = labelled(line.decode("utf-8", "replace").rstrip("\r\n"), self._labels)
        if out is None:
            self._drops = True
            return
        writer.write(f"{out}\n".encode())
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends an answer that is not whole: closed in order, it would look like one, as it has no
    length."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


class Pod(Protocol):
    """What the runner gives a part."""

    @property
    def env(self) -> Mapping[str, str]: ...


def make(pod: Pod) -> MetricsPart:
    """The metrics part of a pod, from the variables of its container."""
    port, _, path = pod.env.get(TARGET, "").partition("/")
    given = pod.env.get("FEDERATOR_METRICS_PORT", "")
    return MetricsPart(
        Target(pod.env.get("POD_IP") or "127.0.0.1", _port(port, 0), f"/{path or 'metrics'}"),
        dict(labels(pod.env)),
        None,
        _port(given, PORT),
    )


def _port(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text) < 65536 else default
