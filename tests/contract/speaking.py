"""How the contract suite speaks: method, path, query, headers and body over a Transport, and
nothing in between.

Every test gets a `Speaker` with a namespace of its own. There is no retry, no decoding beyond JSON
and no mapping of errors, so that what is asserted is what the server said.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from federator.kube.wire.transport import Request, Response, Transport

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

GROUP = "contract.example"
HOMES: Mapping[str, str] = {
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "controllerrevisions": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
    "widgets": f"/apis/{GROUP}/v1",
}
"""Where namespaced resources live that are not in the core group."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def object(self, status: int = 200) -> Object:
        """The body of a success with exactly this status."""
        assert self.status == status, self.body.decode(errors="replace")
        found: Object = self.json
        return found

    def refused(self, status: int, reason: str | None, message: str) -> Object:
        """Asserts a Kubernetes Status with this code, reason and message; returns its details."""
        said = self.json
        assert (self.status, said.get("reason"), said.get("message")) == (status, reason, message)
        assert (said["kind"], said["apiVersion"], said["status"], said["code"]) == (
            "Status",
            "v1",
            "Failure",
            status,
        )
        details: Object = said.get("details", {})
        return details

    def causes(self) -> list[tuple[str, str, str]]:
        """The causes of a Status as (reason, field, message)."""
        found = self.json.get("details", {}).get("causes", [])
        return [(cause["reason"], cause.get("field", ""), cause["message"]) for cause in found]


class Watch:
    """An open watch."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._chunks = response.chunks()
        self._rest = b""

    async def next(self, timeout_s: float = 60.0) -> Object | None:
        """The next event; None when the server ended the stream."""
        async with asyncio.timeout(timeout_s):
            while b"\n" not in self._rest:
                chunk = await anext(self._chunks, None)
                if chunk is None:
                    assert not self._rest, "the stream ended within an event"
                    return None
                self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        event: Object = json.loads(line)
        return event

    async def events(self, count: int) -> list[tuple[str, str]]:
        """The next `count` events as (type, object name)."""
        found = []
        for _ in range(count):
            event = await self.next()
            assert event is not None
            found.append((event["type"], event["object"]["metadata"].get("name", "")))
        return found


class Speaker:
    """One server, and a namespace on it that nobody else uses."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self.transport = transport
        self.namespace = namespace

    def url(self, plural: str, name: str = "", subresource: str = "") -> str:
        """The path of a collection or an object in the test's namespace."""
        parts = [
            HOMES.get(plural, "/api/v1"),
            "namespaces",
            self.namespace,
            plural,
            name,
            subresource,
        ]
        return "/".join(part for part in parts if part)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        """Sends one request. A body that is bytes goes as it is, anything else as JSON."""
        headers = {"Accept": accept, **(headers or {})}
        raw = b""
        if body is not None:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers["Content-Type"] = content_type
        request = Request(
            method, path, tuple((name, str(value)) for name, value in query.items()), headers, raw
        )
        response = await self.transport.request(request)
        try:
            return Answer(response.status, response.headers, await response.read(2**25))
        finally:
            await response.close()

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)

    async def put(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.call("PUT", path, body, **options)

    async def patch(
        self, path: str, body: Any, content_type: str = MERGE, **options: Any
    ) -> Answer:
        return await self.call("PATCH", path, body, content_type=content_type, **options)

    async def delete(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("DELETE", path, body, **options)

    async def apply(self, path: str, body: Object, manager: str, **options: Any) -> Answer:
        return await self.patch(path, body, APPLY, fieldManager=manager, **options)

    @contextlib.asynccontextmanager
    async def watching(
        self, path: str, *, accept: str = "application/json", **query: Any
    ) -> AsyncIterator[Watch]:
        """Opens a watch and gives it up at the end of the block."""
        asked = (("watch", "true"), *((name, str(value)) for name, value in query.items()))
        response = await self.transport.request(
            Request(
                "GET", path, asked, {"Accept": accept}, read_timeout_s=60.0, total_timeout_s=None
            )
        )
        try:
            yield Watch(response)
        finally:
            await response.close()

    async def configmap(self, name: str, **fields: Any) -> Object:
        """Creates a ConfigMap with these top-level fields; labels, finalizers and the like go to
        its metadata.
        """
        metadata = {"name": name}
        for field in ("labels", "annotations", "finalizers", "ownerReferences"):
            if field in fields:
                metadata[field] = fields.pop(field)
        return (await self.post(self.url("configmaps"), {"metadata": metadata, **fields})).object(
            201
        )
