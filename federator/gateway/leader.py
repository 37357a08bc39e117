"""Asks the leading hub for the verdict on a submission, with the gateway's own account."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from pydantic import ValidationError

from federator.gateway.api.models import Verdict
from federator.gateway.api.problems import Problem
from federator.hub.query import announcing
from federator.hub.query.announcing import Announcement
from federator.kube import errors
from federator.kube.client import Client
from federator.model.steps import ObjectRef

LEASE: Final = ObjectRef(
    "coordination.k8s.io/v1", "leases", "federator-system", "federator-hub", "Lease"
)
LEASE_S: Final = 3.0
ANSWER_S: Final = 10.0
"""Seconds for one answer."""
ALL_S: Final = 15.0
"""Seconds until a verdict is given up: a change of leaders takes about as long."""
AT_ONCE: Final = 4
"""Questions at once: the query port takes so many of one user."""
AGAIN_S: Final = 0.5
BODY_MAX: Final = 4 * 1024 * 1024

Connect = Callable[[Announcement], Awaitable[Client]]


class Judge(Protocol):
    """Gives verdicts."""

    async def verdict(self, namespace: str, objects: Sequence[Mapping[str, Any]]) -> Verdict:
        """The verdict on these workloads. Raises `Problem`."""
        ...


class Leader:
    """Finds the leader by its Lease, and keeps a connection to it. `connect` makes a client of the
    query port that an announcement names, with the gateway's own credentials."""

    def __init__(self, host: Client, connect: Connect, *, rng: random.Random) -> None:
        self._host = host
        self._rng = rng
        self._connect = connect
        self._known: Announcement | None = None
        self._port: Client | None = None
        self._finding = asyncio.Lock()
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def verdict(self, namespace: str, objects: Sequence[Mapping[str, Any]]) -> Verdict:
        """See `Judge`. Asks again while the leader changes."""
        body = msgspec.json.encode({"objects": objects})
        why = "no hub leads"
        try:
            async with asyncio.timeout(ALL_S), self._gate:
                while True:
                    try:
                        return await self._asked(namespace, body)
                    except announcing.NoPort as none:
                        why = str(none)
                    except (errors.Unreachable, errors.ServerTrouble, errors.Throttled) as trouble:
                        why = _sentence(trouble)
                        await self.close()
                    await asyncio.sleep(AGAIN_S * (1 + self._rng.random()))
        except TimeoutError:
            raise Problem(
                503,
                "VerdictUnavailable",
                f"The leading hub gave no verdict within {ALL_S:g} s ({why}). Nothing was created.",
                retry_after_s=5,
            ) from None

    async def _asked(self, namespace: str, body: bytes) -> Verdict:
        port = await self._connected()
        path = f"/v1/namespaces/{namespace}/verdict"
        headers = {"content-type": "application/json"}
        try:
            answer = await port.raw(
                "POST", path, body=body, headers=headers, timeout_s=ANSWER_S, body_limit=BODY_MAX
            )
            return Verdict.model_validate(msgspec.json.decode(answer))
        except errors.Invalid as bad:
            raise Problem(422, "Invalid", _sentence(bad)) from None
        except errors.NotFound as none:
            raise Problem(404, "NotFound", _sentence(none)) from None
        except (errors.Denied, errors.Unauthenticated) as denied:
            sentence = f"The leading hub does not accept the gateway: {_sentence(denied)}"
            raise Problem(503, "VerdictUnavailable", sentence, retry_after_s=30) from None
        except (ValidationError, msgspec.MsgspecError):
            sentence = "The leading hub gave a verdict that cannot be read."
            raise Problem(502, "VerdictUnavailable", sentence) from None

    async def _connected(self) -> Client:
        async with self._finding:
            if self._port is not None:
                return self._port
            try:
                self._known = announcing.read(await self._host.get(LEASE, timeout_s=LEASE_S))
            except errors.NotFound:
                raise announcing.NoPort("no hub has ever led here") from None
            self._port = await self._connect(self._known)
            return self._port

    async def close(self) -> None:
        """Ends the connection. The next question looks for the leader again."""
        port, self._port = self._port, None
        if port is not None:
            await port.close()


def _sentence(trouble: errors.ApiError) -> str:
    """The leader's own words."""
    return str(trouble).partition(": ")[2].partition(": ")[2] or str(trouble)
