"""Reads the lease of the cluster from its API server: one request a connection, by the standard
library alone, because the guard starts with every pod."""

import asyncio
import json
import os
import ssl
import urllib.parse
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from federator.runtime.fencing import Renewal

BODY_MAX: Final = 1 << 20
HEAD_MAX: Final = 1 << 14
LEASE_MAX_S: Final = 86400
PORT: Final = 443


class Unread(Exception):
    """The lease could not be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the lease is read. `access` is a folder with `token` and `ca.crt`, as Kubernetes
    projects them; both are read anew each time, because they are renewed."""

    host: str
    port: int
    access: Path
    namespace: str
    name: str
    tls: bool = True

    @property
    def path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.name}"


def of_pod(access: str, namespace: str, name: str) -> Source:
    """The API server of the cluster that this pod runs in. Raises Unread outside of one."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", str(PORT))
    if not host or not port.isdecimal():
        raise Unread("KUBERNETES_SERVICE_HOST says no address: this is no pod")
    return Source(host, int(port), Path(access), namespace, name)


def at(server: str, access: str, namespace: str, name: str) -> Source:
    """The API server at an address. Raises Unread for one that is none."""
    parts = urllib.parse.urlsplit(server)
    try:
        port = parts.port or PORT
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or not port:
        raise Unread(f"{server!r} is no address such as https://10.0.0.1:443")
    return Source(parts.hostname, port, Path(access), namespace, name, tls=parts.scheme == "https")


async def read(source: Source, within_s: float) -> Renewal:
    """The lease as it is now, not as a cache remembers it. Raises Unread."""
    try:
        async with asyncio.timeout(within_s):
            return renewal_of(await _get(source))
    except TimeoutError:
        raise Unread(f"no answer within {within_s:g} s") from None
    except (OSError, ssl.SSLError, ValueError, EOFError, asyncio.LimitOverrunError) as bad:
        raise Unread(f"{type(bad).__name__}: {bad}") from None


async def _get(source: Source) -> bytes:
    token = (source.access / "token").read_text("ascii").strip()
    context = None
    if source.tls:
        context = ssl.create_default_context(cafile=str(source.access / "ca.crt"))
    reader, writer = await asyncio.open_connection(
        source.host, source.port, ssl=context, limit=HEAD_MAX
    )
    try:
        host = f"[{source.host}]" if ":" in source.host else source.host
        lines = (
            f"GET {source.path} HTTP/1.1",
            f"Host: {host}:{source.port}",
            f"Authorization: Bearer {token}",
            "Accept: application/json",
            "User-Agent: federator-guard",
            "Connection: close",
        )
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
        await writer.drain()
        return await _answer(reader)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = head[0].split(" ")[1:2]
    if status != ["200"]:
        raise Unread(f"the API server answers {' '.join(head[0].split(' ')[1:])[:80]}")
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    if fields.get("transfer-encoding", "").lower() == "chunked":
        return await _chunks(reader)
    size = int(fields["content-length"]) if "content-length" in fields else -1
    if size > BODY_MAX:
        raise Unread(f"a lease of {size} bytes is none")
    return await (reader.readexactly(size) if size >= 0 else reader.read(BODY_MAX))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        if len(body) + size > BODY_MAX:
            raise Unread("a lease of more than a megabyte is none")
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    return body


def renewal_of(body: bytes) -> Renewal:
    """What a lease says; a lease that was never renewed says nothing. Raises ValueError."""
    obj: Any = json.loads(body)
    spec = obj.get("spec") if isinstance(obj, dict) else None
    if not isinstance(obj, dict) or obj.get("kind") != "Lease":
        raise ValueError("the answer is no Lease")
    spec = spec if isinstance(spec, dict) else {}
    text, lease_s = spec.get("renewTime"), spec.get("leaseDurationSeconds")
    if text is None:
        return Renewal()
    if not isinstance(text, str) or type(lease_s) is not int or not 0 < lease_s <= LEASE_MAX_S:
        raise ValueError("the lease says no time, or no duration")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the time of the lease has no offset")
    return Renewal(text, moment.timestamp(), float(lease_s))
