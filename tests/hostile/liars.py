"""Comes between the hub and one member and changes what the member says. Used by the tests of lying
members.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from federator.kube.wire.transport import Request, Response, Transport

Change = Callable[[dict[str, Any]], bytes | None]


class Liar:
    """Changes every object of one resource, in lists, watches and answers to single reads and
    writes.
    """

    def __init__(self, inner: Transport, plural: str, change: Change) -> None:
        self.inner = inner
        self.plural = plural
        self.change = change
        self.told = 0
        """Objects changed so far: a lie that was never told tests nothing."""

    async def request(self, request: Request) -> Response:
        response = await self.inner.request(request)
        if f"/{self.plural}" not in request.path or not 200 <= response.status < 300:
            return response
        return Changed(
            response,
            self,
            watching=("watch", "true") in request.query or ("watch", "1") in request.query,
        )

    async def close(self) -> None:
        await self.inner.close()

    def lied(self, body: bytes) -> bytes:
        """One JSON value with every object in it changed."""
        value = json.loads(body)
        if isinstance(value.get("items"), list):
            parts = [self._one(item) for item in value.pop("items")]
            head = json.dumps({**value, "items": []}).encode()
            return head.replace(b'"items": []', b'"items": [' + b",".join(parts) + b"]")
        if "object" in value and "type" in value:
            if value["type"] in ("BOOKMARK", "ERROR"):
                return body
            return b'{"type":"%s","object":%s}' % (
                value["type"].encode(),
                self._one(value["object"]),
            )
        return body if value.get("kind") == "Status" else self._one(value)

    def _one(self, obj: dict[str, Any]) -> bytes:
        self.told += 1
        made = self.change(obj)
        return json.dumps(obj).encode() if made is None else made


class Changed:
    """An answer with its objects changed."""

    def __init__(self, inner: Response, liar: Liar, *, watching: bool) -> None:
        self.inner = inner
        self.liar = liar
        self.watching = watching
        self.status = inner.status
        self.headers: Mapping[str, str] = inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        if not self.watching:
            yield await self.read(1 << 30)
            return
        rest = b""
        async for chunk in self.inner.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield (self.liar.lied(line) if line.strip() else line) + b"\n"

    async def read(self, limit: int) -> bytes:
        return self.liar.lied(await self.inner.read(limit))

    async def close(self) -> None:
        await self.inner.close()
