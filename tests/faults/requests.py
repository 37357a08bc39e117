"""Faults of writes and reads: crashes around a write, lost replies, refusals, answers that are
none."""

import json
from collections.abc import AsyncIterator, Mapping

from federator.kube import errors
from federator.kube.wire.transport import Response
from tests.faults.rows import Injection, RequestFault, Sending


async def _crash_before_write(at: Injection) -> Response:
    at.life.die()
    await at.life.rest()


async def _crash_after_write(at: Injection) -> Response:
    response = await at.inner.request(at.request)
    await response.close()
    at.life.die()
    await at.life.rest()


async def _lose_reply(at: Injection) -> Response:
    response = await at.inner.request(at.request)
    await response.close()
    raise errors.Unreachable(f"{at.request.method} {at.request.path}: the reply was lost.")


async def _conflict(at: Injection) -> Response:
    message = (
        "the object has been modified; please apply your changes to the latest version and try"
        " again"
    )
    return refusal(409, "Conflict", message)


def refusal(
    code: int, reason: str, message: str, headers: Mapping[str, str] | None = None
) -> "CannedResponse":
    """An answer of an API server that refuses."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "code": code,
        "message": message,
    }
    return CannedResponse(
        code, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})}
    )


class CannedResponse:
    """An answer made here."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body at once."""
        yield self._body

    async def read(self, limit: int) -> bytes:
        """The body. Raises `errors.Malformed` beyond `limit` bytes."""
        if len(self._body) > limit:
            raise errors.Malformed(f"an answer of more than {limit} bytes")
        return self._body

    async def close(self) -> None:
        """There is no connection."""


def a_write(sending: Sending) -> bool:
    return sending.writes


def a_change(sending: Sending) -> bool:
    return sending.changes


ROWS = (
    RequestFault("crash-before-write", "F1", "a write", a_write, _crash_before_write, 80, 3),
    RequestFault("crash-after-write", "F2", "a write", a_write, _crash_after_write, 80, 3),
    RequestFault("lost-reply", "F29", "a write", a_write, _lose_reply, 100, 50),
    RequestFault(
        "conflict", "F39", "a write to an object that is there", a_change, _conflict, 200, 100
    ),
)
