"""Signs the PodCertificateRequests of our signer name (Kubernetes 1.37), and publishes the roots as
a ClusterTrustBundle. The kubelet makes the key, asks, and projects the files.

Sources: the API documentation of PodCertificateRequest and ClusterTrustBundle; an API server
verifies the signature of a request when it is created, and attests pod and service account.
"""

import base64
import logging
import random
from collections.abc import Mapping
from typing import Any, Final

from cryptography import x509

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.work_queue import WorkQueue
from federator.kube.metrics import Metrics
from federator.kube.store import Key, Store
from federator.kube.watch.reflector import Reflector
from federator.model.steps import ObjectRef, RequeueAfter
from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away
from federator.runtime.identity.certificates import CertificateRefused, Facts
from federator.runtime.identity.renewal import SHARE, rfc3339
from federator.signer.issuing import Attested, Busy, Issuer

log = logging.getLogger(__name__)

GROUP: Final = "certificates.k8s.io/v1"
PLURAL: Final = "podcertificaterequests"
KIND: Final = "PodCertificateRequest"
WAY: Final = "podcertificaterequest"
LEAST_S: Final = 3600
"""API servers accept no certificate with a shorter lifetime in the status."""
REFRESH_MARGIN_S: Final = 600
"""They want beginRefreshAt so far from both ends."""
AWAY_S: Final = 10.0
WORKERS: Final = 8
BUNDLE_S: Final = 60.0
MESSAGE_MAX: Final = 1024
_SHORT: Final = (
    f"the certificate would last less than {LEAST_S} s, which API servers do not accept: raise"
    " signer.lifetime_s, or renew the intermediate certificate"
)
ENDED: Final = frozenset({"Issued", "Denied", "Failed"})


def pending(obj: Any, signer: str) -> dict[str, Any] | None:
    """A request that waits for this signer; None for any other."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ended = any(each.get("type") in ENDED for each in status.get("conditions") or ())
    return None if ended or spec.get("signerName") != signer else dict(obj)


def issued_status(chain: str, facts: Facts, now: str) -> dict[str, Any]:
    """What an API server accepts for an issued request."""
    begin_s, end_s = facts.begin_s, facts.end_s
    due_s = begin_s + (end_s - begin_s) * SHARE
    due_s = min(max(due_s, begin_s + REFRESH_MARGIN_S), end_s - REFRESH_MARGIN_S)
    return {
        "conditions": [_condition("Issued", "Issued", f"issued for {facts.id}", now)],
        "certificateChain": chain,
        "notBefore": rfc3339(begin_s),
        "beginRefreshAt": rfc3339(due_s),
        "notAfter": rfc3339(end_s),
    }


def denied_status(refused: CertificateRefused, now: str) -> dict[str, Any]:
    return {"conditions": [_condition("Denied", refused.reason, refused.message, now)]}


def failed_status(reason: str, message: str, now: str) -> dict[str, Any]:
    return {"conditions": [_condition("Failed", reason, message, now)]}


def _condition(kind: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message[:MESSAGE_MAX],
        "lastTransitionTime": now,
    }


class PodRequests:
    """Follows the requests of one cluster. Where the API server has none, it does nothing."""

    def __init__(
        self,
        client: Client,
        issuer: Issuer,
        *,
        signer: str,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._issuer = issuer
        self._signer = signer
        self._clock = clock
        self.store: Store[dict[str, Any]] = Store(PLURAL)
        self.queue: WorkQueue[Key] = WorkQueue("signer", rng=rng, metrics=metrics)
        self.reflector = Reflector(
            client,
            GROUP,
            PLURAL,
            self.store,
            project=lambda obj: pending(obj, signer),
            field_selector=f"spec.signerName={signer}",
            on_change=self._changed,
            clock=clock,
            rng=rng,
            metrics=metrics,
            optional=True,
        )

    def _changed(self, key: Key, _old: Any, new: dict[str, Any] | None) -> None:
        if new is not None:
            self.queue.add(key)

    async def turn(self, key: Key) -> RequeueAfter | None:
        """Answers one request, once."""
        obj = self.store.get(key)
        if obj is None:
            return None
        now = self._clock.rfc3339()
        try:
            status = await self._signed(obj, now)
        except CertificateRefused as refused:
            status = denied_status(refused, now)
        except Busy as busy:
            return RequeueAfter(key, float(busy.retry_s), busy.message)
        except Away as away:
            log.info("a PodCertificateRequest waits: %s", away)
            return RequeueAfter(key, AWAY_S, str(away))
        try:
            try:
                await self._write(obj, status)
            except errors.Invalid as bad:
                # Trying again would sign again, each time for nothing.
                log.warning("the API server does not accept a certificate: %s", bad)
                message = f"the API server does not accept the certificate: {bad}"
                await self._write(obj, failed_status("NotAccepted", message, now))
        except (errors.NotFound, errors.Conflict):
            return None  # the watch brings what it is now
        return None

    async def _write(self, obj: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Raises ApiError."""
        metadata = obj["metadata"]
        ref = ObjectRef(GROUP, PLURAL, metadata["namespace"], metadata["name"], KIND)
        body = {**obj, "apiVersion": GROUP, "kind": KIND, "status": status}
        await self._client.replace(ref, body, subresource="status")

    async def _signed(self, obj: Mapping[str, Any], now: str) -> dict[str, Any]:
        spec = obj["spec"]
        if spec.get("unverifiedUserAnnotations"):
            keys = ", ".join(sorted(spec["unverifiedUserAnnotations"])[:5])
            message = f"the signer knows no user annotations: {keys}"
            raise CertificateRefused("InvalidUnverifiedUserAnnotations", message)
        most_s = int(spec.get("maxExpirationSeconds") or 86_400)
        csr = stub(spec.get("stubPKCS10Request"))
        pod = Attested(
            obj["metadata"]["namespace"],
            spec["serviceAccountName"],
            spec["podName"],
            spec["podUID"],
            WAY,
        )
        if min(most_s, self._issuer.lifetime_s) < LEAST_S:
            raise Away(_SHORT)
        signed = await self._issuer.issue(pod, csr, most_s)
        if signed.facts.end_s - signed.facts.begin_s < LEAST_S:
            raise Away(_SHORT)
        return issued_status(signed.chain.decode("ascii"), signed.facts, now)

    async def run(self) -> None:
        """Until cancelled."""
        await self.queue.run(self.turn, WORKERS)


def stub(written: Any) -> x509.CertificateSigningRequest:
    """The request in `stubPKCS10Request`. Raises CertificateRefused."""
    with certificates.readable("stubPKCS10Request"):
        return x509.load_der_x509_csr(base64.b64decode(written or "", validate=True))


class TrustBundle:
    """Keeps the ClusterTrustBundle of our signer equal to the roots of the authority."""

    def __init__(self, client: Client, issuer: Issuer, signer: str) -> None:
        self._client = client
        self._issuer = issuer
        self._signer = signer
        self._name = f"{signer.replace('/', ':')}:roots"

    async def turn(self) -> None:
        """Writes it once, where it is another one. Raises ApiError, Away."""
        bundle = (await self._issuer.authority.bundle()).decode("ascii")
        ref = ObjectRef(GROUP, "clustertrustbundles", "", self._name, "ClusterTrustBundle")
        spec = {"signerName": self._signer, "trustBundle": bundle}
        try:
            document = await self._client.get(ref)
        except errors.NotFound:
            body = {
                "apiVersion": GROUP,
                "kind": ref.kind,
                "metadata": {"name": self._name},
                "spec": spec,
            }
            await self._client.create(ref, body)
            log.info("the ClusterTrustBundle %s is published", self._name)
            return
        if document.get("spec", {}).get("trustBundle") != bundle:
            await self._client.replace(ref, {**document, "spec": spec})
            log.info("the ClusterTrustBundle %s has other roots now", self._name)
