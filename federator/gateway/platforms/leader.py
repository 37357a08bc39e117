"""Asks the leading hub for the verdict on a submission, with the gateway's own account, and for
logs as the caller."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec
from multidict import CIMultiDict
from pydantic import ValidationError

from federator.gateway.api.models import Logs, Verdict
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
LOGS_S: Final = 20.0
"""Seconds for an answer with logs: members answer within `query.member_timeout_s`, twice."""
AGAIN_S: Final = 0.5
BODY_MAX: Final = 4 * 1024 * 1024
LOGS_MAX: Final = 16 * 1024 * 1024
"""Bytes of an answer with logs: `query.log_bytes_max` of text, escaped."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Connections to one query port: with the gateway's credentials, and with none."""

    own: Client
    bare: Client


Connect = Callable[[Announcement], Awaitable[Ways]]
Query = tuple[tuple[str, str], ...]


class Judge(Protocol):
    """Gives verdicts."""

    async def verdict(self, namespace: str, objects: Sequence[Mapping[str, Any]]) -> Verdict:
        """The verdict on these workloads. Raises `Problem`."""
        ...

    async def logs(
        self, parts: Sequence[str], query: Query, headers: Query, *, impersonated: bool
    ) -> Logs:
        """The logs of the workload `parts` (namespace, plural, name), asked as the user that
        `headers` name. Raises `Problem`."""
        ...


class Leader:
    """Finds the leader by its Lease, and keeps connections to it. `connect` makes clients of the
    query port that an announcement names."""

    def __init__(self, host: Client, connect: Connect, *, rng: random.Random) -> None:
        self._host = host
        self._rng = rng
        self._connect = connect
        self._ways: Ways | None = None
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
        path = f"/v1/namespaces/{namespace}/verdict"
        headers = {"content-type": "application/json"}
        port = (await self._connected()).own
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

    async def logs(
        self, parts: Sequence[str], query: Query, headers: Query, *, impersonated: bool
    ) -> Logs:
        """See `Judge`. The query port checks the user's rights by SubjectAccessReview."""
        path = "/v1/namespaces/" + "/".join(quote(part, safe="") for part in (*parts, "logs"))
        try:
            ways = await self._connected()
            port = ways.own if impersonated else ways.bare
            answer = await port.raw(
                "GET",
                path,
                query,
                headers=CIMultiDict(headers),
                timeout_s=LOGS_S,
                body_limit=LOGS_MAX,
            )
            return Logs.model_validate(msgspec.json.decode(answer))
        except announcing.NoPort as none:
            raise _no_logs(str(none)) from None
        except errors.Invalid as bad:
            raise Problem(400, "InvalidRequest", _sentence(bad)) from None
        except errors.NotFound as none:
            raise Problem(404, "NotFound", _sentence(none)) from None
        except errors.Denied as denied:
            raise Problem(403, "Forbidden", _sentence(denied)) from None
        except (ValidationError, msgspec.MsgspecError):
            sentence = "The leading hub gave an answer that cannot be read."
            raise Problem(502, "LogsUnavailable", sentence) from None
        except errors.ApiError as trouble:
            if not isinstance(trouble, errors.Throttled):
                await self.close()
            raise _no_logs(_sentence(trouble)) from None

    async def _connected(self) -> Ways:
        async with self._finding:
            if self._ways is not None:
                return self._ways
            try:
                known = announcing.read(await self._host.get(LEASE, timeout_s=LEASE_S))
            except errors.NotFound:
                raise announcing.NoPort("no hub has ever led here") from None
            self._ways = await self._connect(known)
            return self._ways

    async def close(self) -> None:
        """Ends the connections. The next question looks for the leader again."""
        ways, self._ways = self._ways, None
        if ways is not None:
            await ways.own.close()
            await ways.bare.close()


def _no_logs(why: str) -> Problem:
    sentence = f"The leading hub gave no logs ({why})."
    return Problem(503, "LogsUnavailable", sentence, retry_after_s=2)


def _sentence(trouble: errors.ApiError) -> str:
    """The leader's own words."""
    return str(trouble).partition(": ")[2].partition(": ")[2] or str(trouble)
