"""From a request of a pod to an answer of the signer. Knows no socket.

POST /v1/certificates {csr} with the pod's token -> {chain, bundle}; GET /v1/bundle -> {bundle},
which is public. What is refused is {reason, detail}.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from cryptography import x509

from federator.kube.tlsserver import BodyRefused, Incoming, Outgoing
from federator.runtime.identity import certificates
from federator.runtime.identity.authority import BUNDLE, CERTIFICATES, Away
from federator.runtime.identity.certificates import CertificateRefused
from federator.signer.cluster import Cluster, Unauthorized
from federator.signer.issuing import Busy, Issuer

log = logging.getLogger(__name__)

BODY_MAX: Final = 16 * 1024
AWAY_S: Final = 10


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request."""

    csr: str


class Port:
    """Answers for one signer. `ready`: why it is not ready, "" when it is."""

    def __init__(self, cluster: Cluster, issuer: Issuer, ready: Callable[[], str]) -> None:
        self._cluster = cluster
        self._issuer = issuer
        self._ready = ready

    async def answer(self, request: Incoming) -> Outgoing:
        """Total: whatever goes wrong is an answer, and one that names nothing of what went wrong
        inside."""
        try:
            return await self._answer(request)
        except Unauthorized as bad:
            return _refused(401, "Unauthorized", str(bad))
        except CertificateRefused as bad:
            return _refused(403, bad.reason, bad.message)
        except BodyRefused as bad:
            return _refused(400, "BadRequest", str(bad))
        except Busy as busy:
            status = 429 if busy.reason == "TooManyRequests" else 503
            return _refused(status, busy.reason, busy.message, retry_s=busy.retry_s)
        except Away as away:
            return _refused(503, "AuthorityAway", str(away), retry_s=AWAY_S)
        except Exception:  # a bug of ours must not end the signer
            log.exception("the signer failed at a request")
            return _refused(500, "InternalError", "the signer failed; its log says why")

    async def _answer(self, request: Incoming) -> Outgoing:
        asked = request.method, request.path
        if asked == ("GET", "/healthz"):
            return Outgoing(200, b"ok\n", "text/plain; charset=utf-8")
        if asked == ("GET", "/readyz"):
            why = self._ready()
            return Outgoing(503 if why else 200, f"{why or 'ok'}\n".encode(), "text/plain")
        if asked == ("GET", BUNDLE):
            return _document({"bundle": (await self._issuer.authority.bundle()).decode("ascii")})
        if asked != ("POST", CERTIFICATES):
            return _refused(404, "NotFound", f"POST {CERTIFICATES} and GET {BUNDLE} are served")
        scheme, _, token = request.authorization.partition(" ")
        if scheme.lower() != "bearer":
            token = ""
        pod = await self._cluster.pod_of(token.strip())
        signed = await self._issuer.issue(pod, await _csr(request))
        chain, bundle = signed.chain.decode("ascii"), signed.bundle.decode("ascii")
        return _document({"chain": chain, "bundle": bundle})


async def _csr(request: Incoming) -> x509.CertificateSigningRequest:
    """Raises CertificateRefused, BodyRefused."""
    if request.read_body is None:
        raise BodyRefused("a body is needed")
    body = await request.read_body(BODY_MAX)
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except (msgspec.MsgspecError, UnicodeError):
        raise BodyRefused('the body must be {"csr": "..."}') from None
    with certificates.readable("csr"):
        return x509.load_pem_x509_csr(asked.csr.encode())


def _document(document: Mapping[str, Any]) -> Outgoing:
    return Outgoing(200, msgspec.json.encode(document))


def _refused(status: int, reason: str, detail: str, *, retry_s: int = 0) -> Outgoing:
    headers = {"Retry-After": str(retry_s)} if retry_s else {}
    body = msgspec.json.encode({"reason": reason, "detail": detail})
    return Outgoing(status, body, headers=headers)
