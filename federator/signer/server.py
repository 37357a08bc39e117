"""The signer behind a socket: its own certificate, what it follows, and its readiness.

It serves HTTPS with a certificate that its authority signs for it, so that pods verify it with the
trust bundle of the profile; plain HTTP on loopback only.
"""

import asyncio
import logging
import random
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography import x509

from federator.kube import errors, tlsserver
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.login import tls
from federator.kube.metrics import Metrics
from federator.kube.tlsserver import Listen
from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away
from federator.runtime.identity.certificates import CertificateRefused
from federator.runtime.identity.renewal import Lifetime
from federator.runtime.identity.spiffe import SpiffeId
from federator.signer.authorities import CertificateAuthority, CertificateContent, FilesAuthority
from federator.signer.cluster import Cluster
from federator.signer.issuing import Issuer
from federator.signer.openbao import OpenBaoAuthority, connected
from federator.signer.options import SignerOptions
from federator.signer.podrequests import BUNDLE_S, PodRequests, TrustBundle
from federator.signer.port import Port

log = logging.getLogger(__name__)

NAMESPACE: Final = "federator-system"
ACCOUNT: Final = "federator-signer"
RETRY_S: Final = 10.0
OF_ONE_ADDRESS: Final = 32
"""Connections of one address. All pods of a node may have the same, and a few addresses must not
take all connections."""


def names(extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The DNS names of the Service of the signer."""
    base = f"{ACCOUNT}.{NAMESPACE}"
    return (base, f"{base}.svc", f"{base}.svc.cluster.local", *extra)


class Signer:
    """Listens from `start` to `close`; `run` runs meanwhile. `client` has the signer's account."""

    def __init__(
        self,
        client: Client,
        authority: CertificateAuthority,
        options: SignerOptions,
        *,
        clock: Clock,
        rng: random.Random,
        dns: tuple[str, ...] = (),
        metrics: Metrics | None = None,
    ) -> None:
        self._authority = authority
        self._options = options
        self._clock = clock
        self._rng = rng
        self._dns = names(dns)
        self._trouble = "the authority has not signed yet"
        cluster = Cluster(client, options.audience, clock.monotonic)
        self.issuer = Issuer(
            authority,
            options,
            now_s=clock.now,
            monotonic=clock.monotonic,
            project_of=cluster.project_of,
            metrics=metrics,
        )
        self._bundle = TrustBundle(client, self.issuer, options.signer_name)
        self.requests = PodRequests(
            client,
            self.issuer,
            signer=options.signer_name,
            clock=clock,
            rng=rng,
            metrics=metrics,
        )
        self.answer = Port(cluster, self.issuer, self.trouble).answer
        self._server = tlsserver.TlsServer(self.answer, of_one_address=OF_ONE_ADDRESS)
        self._context: ssl.SSLContext | None = None
        self._lifetime = Lifetime(0.0, 0.0)

    def trouble(self) -> str:
        """Why it is not ready; "" when it is."""
        return self._trouble

    async def start(self, listen: Listen) -> str:
        """Listens, and returns its address. Waits until the authority signs the signer's own
        certificate. Raises OSError."""
        while True:
            if await self._certify():
                break
            await asyncio.sleep(RETRY_S)
        port = await self._server.start(listen.host, listen.port, self._context)
        return f"https://{listen.host}:{port}"

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._certifying(), name="the signer's certificate")
            if self._options.pod_certificate_requests:
                group.create_task(self.requests.reflector.run(), name="watch of requests")
                group.create_task(self.requests.run(), name="requests of kubelets")
                group.create_task(self._publishing(), name="trust bundle")

    async def close(self) -> None:
        """Stops listening."""
        await self._server.close()
        await self._authority.close()

    # -- its own certificate --------------------------------------------------

    async def _certify(self) -> bool:
        """Takes a new certificate for itself. False while the authority signs none."""
        identity = SpiffeId(self._options.trust_domain, NAMESPACE, ACCOUNT)
        key = certificates.new_key()
        csr = x509.load_pem_x509_csr(certificates.request(key, str(identity), self._dns))
        wanted = CertificateContent(identity, self._options.lifetime_s, dns=self._dns)
        try:
            chain = await self._authority.sign(csr, wanted)
            bundle = await self._authority.bundle()
            facts = certificates.checked(
                chain, bundle, identity, key.public_key(), self._clock.now()
            )
        except (Away, CertificateRefused) as bad:
            self._trouble = f"the authority: {bad}"
            log.warning("no certificate for the signer itself: %s", bad)
            return False
        self._lifetime = Lifetime(facts.begin_s, facts.end_s)
        pem = certificates.key_pem(key)
        if self._context is None:
            self._context = tlsserver.server_context(chain, pem)
        else:
            tls.load_certificate(self._context, chain, pem)
        self._trouble = ""
        return True

    async def _certifying(self) -> None:
        while True:
            due_s = self._lifetime.due_s(self._rng.random()) - self._clock.now()
            await asyncio.sleep(max(due_s, RETRY_S))
            await self._certify()

    async def _publishing(self) -> None:
        await self.requests.reflector.answered.wait()
        while True:
            if self.requests.reflector.served:
                try:
                    await self._bundle.turn()
                except (errors.ApiError, Away) as bad:
                    log.warning("the ClusterTrustBundle cannot be written: %s", bad)
            await asyncio.sleep(BUNDLE_S)


def authority_of(
    options: SignerOptions, now_s: Callable[[], float], monotonic: Callable[[], float]
) -> CertificateAuthority:
    """The authority of the options. Raises ValueError and OSError for files of OpenBao that cannot
    be used."""
    if options.authority == "files":
        return FilesAuthority(Path(options.authority_directory), now_s, monotonic)
    return OpenBaoAuthority(connected(options), options, monotonic)
