"""One question of the gRPC health protocol over HTTP/2 without TLS, as a kubelet asks it: by the
standard library alone, because a library for gRPC takes more memory than the whole sidecar may.

The request needs no table of headers: its fields are written as literals. Of the answer only the
message counts, so the fields of the server are never decoded.
"""

import asyncio
import struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATH: Final = "/grpc.health.v1.Health/Check"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
STREAM: Final = 1
FRAME_MAX: Final = 1 << 14
"""What a peer may send in one frame while we ask for nothing larger."""
FRAMES_MAX: Final = 64
"""A server that sends more frames before its answer does not speak this protocol."""
SERVICE_MAX: Final = 120
"""Characters of a service's name, so that its length fits one byte."""
SERVING: Final = 1
STATUS: Final = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


async def check(host: str, port: int, service: str) -> str:
    """Asks once. Returns why the service does not serve, "" when it does. Raises OSError, EOFError
    and ValueError; has no deadline of its own."""
    if len(service.encode()) > SERVICE_MAX:
        raise ValueError(f"the name of the gRPC service is longer than {SERVICE_MAX} bytes")
    reader, writer = await asyncio.open_connection(host, port)
    try:
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": PATH,
            ":authority": f"{host}:{port}",
            "te": "trailers",
            "content-type": "application/grpc",
            "user-agent": "kube-probe/federator-runtime",
        }
        name = service.encode()
        message = b"\x0a" + bytes([len(name)]) + name if name else b""
        writer.write(
            PREFACE
            + _frame(SETTINGS, 0, 0, b"")
            + _frame(HEADERS, END_HEADERS, STREAM, b"".join(map(_literal, fields.items())))
            + _frame(DATA, END_STREAM, STREAM, b"\0" + struct.pack(">I", len(message)) + message)
        )
        await writer.drain()
        return await _answer(reader, writer)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    body = b""
    for _ in range(FRAMES_MAX):
        kind, flags, stream, payload = await _read(reader)
        if kind == SETTINGS and not flags & ACK:
            writer.write(_frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            writer.write(_frame(PING, ACK, 0, payload))
        elif kind == GOAWAY or (kind == RST_STREAM and stream == STREAM):
            return "the gRPC server ended the request without an answer"
        elif kind == DATA and stream == STREAM:
            body += payload[1 : len(payload) - payload[0]] if flags & PADDED else payload
            if len(body) >= 5 and len(body) >= 5 + struct.unpack(">I", body[1:5])[0]:
                return _verdict(body)
        if kind in (DATA, HEADERS) and stream == STREAM and flags & END_STREAM:
            return "the gRPC server has no health service, or does not know this service"
    raise ValueError("the gRPC server sends no answer")


async def _read(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    head = await reader.readexactly(9)
    size = int.from_bytes(head[:3])
    if size > FRAME_MAX:
        raise ValueError("the server does not speak HTTP/2")
    return head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF, await reader.readexactly(size)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def _literal(field: tuple[str, str]) -> bytes:
    """A header field that neither peer remembers; name and value shorter than 127 bytes."""
    out = b"\x00"
    for text in field:
        encoded = text.encode("ascii")
        out += bytes([len(encoded)]) + encoded
    return out


def _verdict(body: bytes) -> str:
    """Of a gRPC message with a HealthCheckResponse, which has one field: status."""
    message = body[5 : 5 + struct.unpack(">I", body[1:5])[0]]
    status = message[1] if len(message) == 2 and message[0] == 0x08 else 0
    if status == SERVING:
        return ""
    return f"the gRPC health service answers {STATUS.get(status, str(status))}"
