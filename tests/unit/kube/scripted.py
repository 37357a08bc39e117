"""A Transport that plays a script: each request is answered by the next line, and everything asked
is kept.
"""

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.kube import errors
from federator.kube.wire.transport import Request
from tests import virtual_time

FOREVER = 1e6
"""A pause in seconds that no test outlives."""


def on_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test on a virtual-time loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        virtual_time.run(test(*args, **kwargs))

    return run


@dataclass
class Answer:
    """One answer; `parts` are chunks, pauses in seconds, or an exception that breaks the stream."""

    status: int = 200
    parts: tuple[Any, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    closed: int = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            if isinstance(part, bytes):
                yield part
            elif isinstance(part, Exception):
                raise part
            else:
                await asyncio.sleep(part)

    async def read(self, limit: int) -> bytes:
        body = b"".join([part async for part in self.chunks()])
        if len(body) > limit:
            raise errors.Malformed("too large")
        return body

    async def close(self) -> None:
        self.closed += 1


class Script:
    """`lines` are taken in order; `after` answers what comes when they are used up."""

    def __init__(self, *lines: Any, after: Any = None) -> None:
        self.lines = list(lines)
        self.after = after
        self.requests: list[Request] = []
        self.times: list[float] = []
        self.answers: list[Answer] = []

    async def request(self, request: Request) -> Answer:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        line = self.lines.pop(0) if self.lines else self.after
        if line is None:
            raise AssertionError(f"nobody expected {request.method} {request.path} {request.query}")
        if callable(line):
            line = line(request)
            if asyncio.iscoroutine(line):
                line = await line
        if isinstance(line, Exception):
            raise line
        answer: Answer = line
        self.answers.append(answer)
        return answer

    async def close(self) -> None:
        pass

    def query(self, index: int) -> dict[str, str]:
        return dict(self.requests[index].query)


def reply(body: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(
        status,
        (json.dumps(body).encode(),),
        {name.replace("_", "-"): text for name, text in headers.items()},
    )


def status(
    code: int, reason: str, message: str = "no", *, details: Any = None, **headers: str
) -> Answer:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return reply(body | ({"details": details} if details else {}), code, **headers)


def thing(
    name: str, version: int, *, uid: str = "", namespace: str = "ns", value: Any = None
) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"apiVersion": "v1", "kind": "Thing", "metadata": meta, "value": value}


def listing(
    version: int, *things: dict[str, Any], token: str = "", kind: str = "ThingList"
) -> Answer:
    meta = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return reply({"kind": kind, "apiVersion": "v1", "metadata": meta, "items": list(things)})


def line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(version)}})


def stream(*parts: Any) -> Answer:
    return Answer(200, parts)
