"""From an attested pod and a request to a certificate: the checks, the limits, the claims and the
line of the audit. Both ways use it: tokens of pods, and PodCertificateRequests."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from federator.kube.metrics import Metrics
from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away
from federator.runtime.identity.certificates import CertificateRefused, Facts
from federator.runtime.identity.spiffe import NoId, SpiffeId
from federator.signer.authorities import CertificateAuthority, CertificateContent
from federator.signer.options import SignerOptions

audit = logging.getLogger("federator.signer.audit")

CERTIFICATES: Final = "federator_signer_certificates_total"
SECONDS: Final = "federator_signer_seconds"
ACCOUNTS_MAX: Final = 10_000
"""Service accounts with remembered buckets; the least recent is forgotten."""
ISSUED: Final = "Issued"
FAILED: Final = "Failed"
AWAY: Final = "AuthorityAway"
LIMITED: Final = "TooManyRequests"
OVERLOADED: Final = "Overloaded"


class Busy(Exception):
    """Ask again after so many seconds."""

    def __init__(self, reason: str, message: str, retry_s: int) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_s = retry_s


@dataclass(frozen=True, slots=True)
class Attested:
    """A pod, as the API server attests it."""

    namespace: str
    account: str
    pod: str
    pod_uid: str
    way: str
    """`token` or `podcertificaterequest`."""


@dataclass(frozen=True, slots=True)
class Signed:
    """PEM, and what the certificate says."""

    chain: bytes
    bundle: bytes
    facts: Facts


class _Buckets:
    """A bucket of tokens for each service account."""

    def __init__(self, options: SignerOptions, monotonic: Callable[[], float]) -> None:
        self._rate, self._most = options.requests_a_second, float(options.burst)
        self._monotonic = monotonic
        self._left: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def take(self, key: tuple[str, str]) -> None:
        """Raises Busy."""
        now = self._monotonic()
        left, since = self._left.pop(key, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        self._left[key] = (left - 1.0 if left >= 1.0 else left, now)
        while len(self._left) > ACCOUNTS_MAX:
            self._left.popitem(last=False)
        if left < 1.0:
            wait_s = max(1, round((1.0 - left) / self._rate + 0.5))
            message = f"service account {key[1]} may have {self._rate:g} certificates a second"
            raise Busy(LIMITED, message, wait_s)


class Turns:
    """A bounded number of requests at a time, and a bounded number that wait."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._gate = asyncio.Semaphore(at_once)
        self._waiting_max = waiting
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Raises Busy when too many wait."""
        if self._waiting >= self._waiting_max:
            raise Busy(OVERLOADED, "the signer has as many requests as it can work on", 2)
        self._waiting += 1
        try:
            await self._gate.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._gate.release()


class Issuer:
    """Issues for attested pods. `project_of`: the project of a namespace, "" for none."""

    def __init__(
        self,
        authority: CertificateAuthority,
        options: SignerOptions,
        *,
        now_s: Callable[[], float],
        monotonic: Callable[[], float],
        project_of: Callable[[str], Awaitable[str]],
        metrics: Metrics | None = None,
    ) -> None:
        self.authority = authority
        self.turns = Turns(options.at_once, options.waiting)
        self._options = options
        self._now_s = now_s
        self._monotonic = monotonic
        self._project_of = project_of
        self._buckets = _Buckets(options, monotonic)
        self._metrics = metrics

    @property
    def lifetime_s(self) -> int:
        """Seconds that its certificates last, unless less is asked for."""
        return self._options.lifetime_s

    async def issue(
        self, pod: Attested, csr: x509.CertificateSigningRequest, most_s: int | None = None
    ) -> Signed:
        """`most_s`: seconds that the certificate may last. Raises CertificateRefused, Away, Busy.
        Every outcome is counted, and one line of audit tells it."""
        begun_s = self._monotonic()
        outcome = FAILED  # cancelled, or a bug of ours
        try:
            signed = await self._issue(pod, csr, most_s)
            outcome, facts = ISSUED, signed.facts
        except CertificateRefused as bad:
            outcome = bad.reason
            audit.warning("refused: %s", bad.message, extra=_logged(pod) | {"reason": bad.reason})
            raise
        except Busy as bad:
            outcome = bad.reason
            raise
        except Away as bad:
            outcome = AWAY
            audit.warning("not issued: %s", bad, extra=_logged(pod) | {"reason": AWAY})
            raise
        finally:
            if self._metrics is not None:
                self._metrics.child(CERTIFICATES, pod.way, outcome).inc()
                taken_s = self._monotonic() - begun_s
                self._metrics.child(SECONDS, pod.way).observe(taken_s)
        digest = hashes.Hash(hashes.SHA256())
        digest.update(signed.chain)
        audit.info(
            "issued",
            extra=_logged(pod)
            | {
                "id": facts.id,
                "serial": facts.serial,
                "until_s": int(facts.end_s),
                "issuer": facts.issuer,
                "chain_sha256": digest.finalize().hex(),
            },
        )
        return signed

    async def _issue(
        self, pod: Attested, csr: x509.CertificateSigningRequest, most_s: int | None
    ) -> Signed:
        try:
            identity = SpiffeId(self._options.trust_domain, pod.namespace, pod.account)
        except NoId as bad:
            raise CertificateRefused("ForeignName", str(bad)) from None
        self._buckets.take((pod.namespace, pod.account))
        key = certificates.checked_request(csr, identity)
        claims = await self._claims(pod.namespace)
        lifetime_s = min(self._options.lifetime_s, most_s or self._options.lifetime_s)
        async with self.turns.turn():
            chain = await self.authority.sign(csr, CertificateContent(identity, lifetime_s, claims))
            bundle = await self.authority.bundle()
        # What an authority answers is checked like anything foreign: a certificate of another
        # name must not leave here.
        facts = certificates.checked(chain, bundle, identity, key, self._now_s())
        return Signed(chain, bundle, facts)

    async def _claims(self, namespace: str) -> tuple[str, ...]:
        project = await self._project_of(namespace)
        claims = {"cluster": self._options.cluster, "project": project}
        return tuple(f"{name}={value}" for name, value in claims.items() if value)


def _logged(pod: Attested) -> dict[str, str]:
    return {
        "way": pod.way,
        "namespace": pod.namespace,
        "account": pod.account,
        "pod": pod.pod,
        "pod_uid": pod.pod_uid,
    }
