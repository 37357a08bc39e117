"""The leader's query port, asked with the reader's own token, or with the dashboard's for a reader
with a name that an issuer has confirmed. It checks the reader's rights."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from multidict import CIMultiDict

from federator.advice.plans import sending
from federator.dashboard.sessions import Session
from federator.hub.query import announcing
from federator.hub.query.access import SYSTEM
from federator.hub.query.announcing import Announcement
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.login import tls
from federator.kube.wire.http import Credentials, Endpoint, HttpTransport
from federator.model.steps import ObjectRef

LEASE: Final = ObjectRef(
    "coordination.k8s.io/v1", "leases", "federator-system", "federator-hub", "Lease"
)
LATE_S: Final = 20.0
"""A leader that has not answered by then is late: the page says so, and shows what it has."""
PLAN_S: Final = 30.0
"""A plan may take longer than other answers: the hub gives up after `query.compute_timeout_s`, and
says so."""
SOON_S: Final = 1.0
"""So long the first page waits for what the leader adds to it."""
LEASE_S: Final = 3.0
_UNREADABLE: Final = "The leading hub gave an answer that cannot be read."


class NoAnswer(Exception):
    """The leader gave no answer. `status`: for HTTP. The message is for the reader."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


Connect = Callable[[Announcement], Awaitable[Client]]


async def over_tls(known: Announcement) -> Client:
    """A client of the port that was announced, which checks its certificate by the announcement."""
    context = await asyncio.to_thread(tls.client_context, ca_pem=known.ca_pem.encode())
    endpoint = Endpoint(f"https://{known.address}", tls=context, tls_server_name=known.server_name)
    return Client(HttpTransport(endpoint), "leader")


class Leader:
    """Finds the leader by the Lease on the host, and keeps a connection to it."""

    def __init__(
        self, host: Client, connect: Connect = over_tls, own: Credentials | None = None
    ) -> None:
        self._host = host
        self._connect = connect
        self._own = own
        self._known: Announcement | None = None
        self._port: Client | None = None

    async def ask(
        self, reader: Session, *parts: str, query: tuple[tuple[str, str], ...] = ()
    ) -> Mapping[str, Any]:
        """The answer to a question below `/v1/namespaces`. Raises `NoAnswer`."""
        path = "/v1/namespaces/" + "/".join(quote(part, safe="") for part in parts)
        return await self._answer(reader, "GET", path, query)

    async def history(
        self, reader: Session, query: tuple[tuple[str, str], ...]
    ) -> Mapping[str, Any]:
        """The history of the whole federation. Raises `NoAnswer`."""
        return await self._answer(reader, "GET", "/v1/history", query)

    async def plan(self, reader: Session, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """The document of a plan. `asked`: the edits, as `advice.plans.asked` reads them. Raises
        `NoAnswer`."""
        body = sending.body_of(asked)
        query, sent = sending.query_of(body), msgspec.json.encode(body)
        document = await self._answer(reader, "POST", "/v1/plan", query, sent, timeout_s=PLAN_S)
        if document.get("kind") != "Plan":
            raise NoAnswer(502, _UNREADABLE)
        return document

    async def drill(self, reader: Session) -> Mapping[str, Any]:
        """What the loss of each cluster would come to. Raises `NoAnswer`, and soon: no page waits
        for it."""
        try:
            async with asyncio.timeout(SOON_S):
                return await self._answer(reader, "GET", "/v1/drill", ())
        except TimeoutError:
            raise NoAnswer(502, "The leading hub does not answer in time.") from None

    async def _answer(
        self,
        reader: Session,
        method: str,
        path: str,
        query: tuple[tuple[str, str], ...],
        sent: bytes = b"",
        *,
        timeout_s: float = LATE_S,
    ) -> Mapping[str, Any]:
        port = await self._connected()
        try:
            body = await port.raw(
                method,
                path,
                query,
                sent,
                headers=await self._named(reader),
                timeout_s=timeout_s,
            )
            answer = msgspec.json.decode(body, type=dict[str, Any])
        except errors.Unreachable as trouble:
            why = str(trouble).rstrip(".")
            raise NoAnswer(502, f"The leading hub does not answer ({why}).") from None
        except errors.ApiError as trouble:
            raise _refused(trouble, path) from None
        except (msgspec.MsgspecError, ValueError):
            raise NoAnswer(502, _UNREADABLE) from None
        return answer

    async def _named(self, reader: Session) -> Mapping[str, str]:
        """The headers that name the reader. Raises `NoAnswer`."""
        if reader.token:
            return {"authorization": f"Bearer {reader.token}"}
        own = await self._own.authorization() if self._own is not None else ""
        if not own:
            raise NoAnswer(
                502,
                "The dashboard has no token of its own with which it could ask the leading hub for"
                " you. Sign in with a token of the host.",
            )
        groups = [group for group in reader.user.groups if not group.startswith(SYSTEM)]
        named = CIMultiDict({"authorization": own, "impersonate-user": reader.user.name})
        named.extend([("impersonate-group", group) for group in groups])
        return named

    async def _connected(self) -> Client:
        try:
            known = announcing.read(await self._host.get(LEASE, timeout_s=LEASE_S))
        except announcing.NoPort as none:
            raise NoAnswer(502, f"The leading hub cannot be asked: {none}.") from None
        except errors.NotFound:
            raise NoAnswer(502, "No hub with a query port has ever led here.") from None
        except errors.ApiError:
            raise NoAnswer(
                502, "The host did not say which hub leads (the Lease cannot be read)."
            ) from None
        if self._port is None or known != self._known:
            await self.close()
            self._port = await self._connect(known)
            self._known = known
        return self._port

    async def close(self) -> None:
        """Ends the connection."""
        port, self._port, self._known = self._port, None, None
        if port is not None:
            await port.close()


def _refused(trouble: errors.ApiError, path: str) -> NoAnswer:
    """The refusal in the leader's own words."""
    sentence = str(trouble).partition(f"{path}: ")[2] or str(trouble)
    match trouble:
        case errors.NotFound():
            status = 404
        case errors.Denied():
            status = 403
        case errors.Unauthenticated():
            status = 401
        case errors.Invalid():
            status = 422
        case errors.Throttled():
            status = 503
        case _:
            status = 502
    return NoAnswer(status, f"The leading hub refused: {sentence}")
