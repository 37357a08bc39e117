"""HTTP to artifact stores: bounded, without proxies, and only to addresses that are allowed.

A host that the policy names may be at a private address; any other, to which a store redirects,
must be at a public one. The address is checked when its socket is made, so that a name cannot
change in between (DNS rebinding). Credentials go to no other host than the one that they are for.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urljoin, urlsplit

from federator.api.submissionpolicy import HostAccess, Policy
from federator.gateway.artifacts.ports import ArtifactRefused, Reason, refused
from federator.kube import errors
from federator.kube.login import tls
from federator.kube.wire import addresses
from federator.kube.wire.http import Endpoint, HttpTransport
from federator.kube.wire.transport import Request, Response
from federator.model import sources

REDIRECTS_MAX: Final = 3
SILENCE_S: Final = 5.0
"""Longest silence of a store within an answer, in seconds."""
TOTAL_S: Final = 15.0
"""Longest time for one answer, in seconds."""
CONNECTED_MAX: Final = 64
"""Hosts with kept connections."""
PARTS_MAX: Final = 4
"""A download has so many parts at most, within `TOTAL_S`. Each part must bring bytes."""
SHORTEST_S: Final = 1.0
"""With less time left, a broken download is not continued."""
LANES: Final = 16
"""Requests to one host that run at once; more wait."""
_MOVED: Final = (301, 302, 303, 307, 308)
_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,12})-[0-9]+/([0-9]+|\*)", re.ASCII)
_TARGET: Final = re.compile(r"/[!-~]*", re.ASCII)
_DOCKER: Final = {"registry-1.docker.io": "docker.io", "auth.docker.io": "docker.io"}
"""Hosts of Docker Hub, which images call docker.io."""


@dataclass(frozen=True, slots=True)
class Url:
    """Where a request goes."""

    scheme: str
    host: str
    target: str
    """Path and query."""

    @property
    def origin(self) -> tuple[str, str]:
        return self.scheme, self.host

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.target.partition('?')[0]}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: Url
    """Where it came from in the end."""


def access(host: str, policy: Policy) -> HostAccess | None:
    """What the policy says of a host; None when it does not name it."""
    return policy.hosts.get(_DOCKER.get(host, host))


def scheme_of(host: str, policy: Policy) -> str:
    """https, but http for a host on this machine for which the policy has no certificates."""
    known = access(host, policy)
    plain = sources.is_loopback(host) and not (known and known.ca_pem)
    return "http" if plain else "https"


def parsed(text: str, policy: Policy, base: Url | None = None) -> Url:
    """A URL that a store has sent, relative to `base`. Raises ArtifactRefused for one that is not
    contacted, whatever its name resolves to."""
    try:
        whole = f"{base.scheme}://{base.host}{base.target}" if base is not None else ""
        parts = urlsplit(urljoin(whole, text))
    except ValueError:
        raise refused(Reason.STORE_INVALID, "artifact", "the store names no URL") from None
    host = parts.netloc
    if problem := sources.host_problem(host):
        raise refused(Reason.ADDRESS_REFUSED, "artifact", f"the store names a URL: {problem}")
    secure = parts.scheme == "https"
    if not secure and not (parts.scheme == "http" and scheme_of(host, policy) == "http"):
        raise refused(
            Reason.ADDRESS_REFUSED, "artifact", f"the store names a URL of {host} without TLS"
        )
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    if not _TARGET.fullmatch(target):
        raise refused(Reason.STORE_INVALID, "artifact", "the store names a URL with odd characters")
    return Url(parts.scheme, host, target)


class _Download:
    """An answer that may come in several parts (RFC 9110, Range). What the parts make together is
    for the caller to verify, by its digest."""

    def __init__(self, request: Request, limit: int) -> None:
        self._request = request
        self._limit = limit
        self._parts = 1
        self._before = 0
        """Bytes of the parts before this one."""
        self.asking = request
        """The request for the next part."""
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.body = bytearray()

    async def read(self, response: Response) -> None:
        """Reads a part. Raises `errors.Malformed` beyond the limit, and `errors.Unreachable`."""
        if response.status != 206 or self.asking is self._request:
            # The first part, or a store that sends everything again.
            self.status, self.headers = response.status, response.headers
            self.body.clear()
        elif not self._is_next(response.headers.get("content-range", "")):
            raise errors.Malformed("the store continues a download with another part of the file.")
        self._before = len(self.body)
        if self._request.method == "HEAD":
            return
        length = response.headers.get("content-length", "0")
        if len(self.body) + (int(length) if length.isdecimal() else 0) > self._limit:
            raise self._too_long()
        async for chunk in response.chunks():
            self.body += chunk
            if len(self.body) > self._limit:
                raise self._too_long()

    def _too_long(self) -> errors.Malformed:
        return errors.Malformed(f"the answer is beyond the limit of {self._limit} bytes.")

    def _is_next(self, text: str) -> bool:
        match = _CONTENT_RANGE.fullmatch(text)
        return match is not None and int(match[1]) == len(self.body)

    def goes_on(self, trouble: errors.ApiError, left_s: float) -> bool:
        """Whether to ask for the rest after a break, and makes that request."""
        got = len(self.body)
        broke = isinstance(trouble, errors.Unreachable) and self.status == 200
        if not broke or got <= self._before or self._parts >= PARTS_MAX or left_s < SHORTEST_S:
            return False
        self._parts += 1
        headers = {**self._request.headers, "range": f"bytes={got}-"}
        tag = self.headers.get("etag", "")
        if tag.startswith('"'):
            headers["if-range"] = tag  # another file is sent whole
        self.asking = replace(self._request, headers=headers, total_timeout_s=left_s)
        return True


class Hosts:
    """Connections to stores, by host and by what a policy says of it. Close it on its loop."""

    def __init__(self, *, allow_loopback: bool = False) -> None:
        self._allow_loopback = allow_loopback
        self._transports: OrderedDict[tuple[str, ...], HttpTransport] = OrderedDict()

    async def close(self) -> None:
        while self._transports:
            _, transport = self._transports.popitem()
            await transport.close()

    async def ask(
        self,
        method: str,
        url: Url,
        policy: Policy,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """The answer, redirects followed for GET and HEAD. Raises ArtifactRefused for a host that
        cannot be asked, or an answer beyond `limit` bytes."""
        request = Request(
            method,
            url.target,
            headers=dict(headers or {}),
            body=body,
            read_timeout_s=SILENCE_S,
            total_timeout_s=TOTAL_S,
        )
        for _ in range(REDIRECTS_MAX + 1):
            answer = await self._once(request, url, policy, limit)
            if method not in ("GET", "HEAD") or answer.status not in _MOVED:
                return answer
            moved = parsed(answer.headers.get("location", ""), policy, url)
            sent = dict(request.headers)
            if moved.origin != url.origin:
                sent.pop("authorization", None)
            url, request = moved, replace(request, path=moved.target, headers=sent)
        message = f"{url.host} redirects more than {REDIRECTS_MAX} times"
        raise refused(Reason.STORE_INVALID, "artifact", message)

    async def _once(self, request: Request, url: Url, policy: Policy, limit: int) -> Answer:
        """The answer to one request. A download that breaks off goes on where it stopped."""
        until_s = asyncio.get_running_loop().time() + TOTAL_S
        download = _Download(request, limit)
        while True:
            try:
                response = await (await self._transport(url, policy)).request(download.asking)
                try:
                    await download.read(response)
                finally:
                    await response.close()
                return Answer(download.status, download.headers, bytes(download.body), url)
            except errors.AddressRefused:
                message = (
                    f"{url.host} is at an address that the gateway does not contact: private"
                    " addresses are for hosts that sources or registries of the SubmissionPolicy"
                    " name"
                )
                raise refused(Reason.ADDRESS_REFUSED, "artifact", message) from None
            except errors.Malformed as bad:
                raise refused(Reason.STORE_INVALID, "artifact", str(bad)) from bad
            except errors.ApiError as trouble:
                left_s = until_s - asyncio.get_running_loop().time()
                if not download.goes_on(trouble, left_s):
                    raise refused(Reason.STORE_UNREACHABLE, "artifact", str(trouble)) from trouble

    async def _transport(self, url: Url, policy: Policy) -> HttpTransport:
        known = access(url.host, policy)
        ca_pem = known.ca_pem if known is not None else ""
        key = url.scheme, url.host, "" if known is None else "named", ca_pem
        transport = self._transports.pop(key, None)
        if transport is None:
            transport = HttpTransport(self._endpoint(url, known, ca_pem))
        self._transports[key] = transport
        if len(self._transports) > CONNECTED_MAX:
            _, oldest = self._transports.popitem(last=False)
            await oldest.close()
        return transport

    def _endpoint(self, url: Url, known: HostAccess | None, ca_pem: str) -> Endpoint:
        try:
            context = tls.client_context(ca_pem=ca_pem.encode()) if url.scheme == "https" else None
        except ValueError:
            message = f"the certificates of {url.host} are none"
            raise refused(Reason.POLICY_INVALID, "policy.spec.registries", message) from None
        guard = addresses.store_guard(named=known is not None, allow_loopback=self._allow_loopback)
        return Endpoint(f"{url.scheme}://{url.host}", tls=context, guard=guard, lanes=LANES)


def checked(answer: Answer, what: str) -> Answer:
    """The answer if its status is 2xx. Raises ArtifactRefused otherwise: `what` is what was asked
    for."""
    status, host = answer.status, answer.url.host
    if 200 <= status < 300:
        return answer
    if status == 404:
        raise refused(Reason.NOT_FOUND, "version", f"{what} is not at {host}")
    if status in (401, 403):
        message = (
            f"{host} denies {what} (status {status}): check the Secret that spec.registries of the"
            " policy names for it"
        )
        raise refused(Reason.STORE_DENIED, "artifact", message)
    if status == 429 or status >= 500:
        message = f"{host} answers with status {status} to {what}"
        raise refused(Reason.STORE_UNREACHABLE, "artifact", message)
    raise refused(Reason.STORE_INVALID, "artifact", f"{host} answers with status {status}")


def is_absent(problem: ArtifactRefused) -> bool:
    """Whether the store says that there is nothing."""
    return problem.reason is Reason.NOT_FOUND
