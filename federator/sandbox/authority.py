"""The signer of a sandbox's clusters: the issuing code of `federator signer` with a root and an
intermediate of its own, reached in process. The pods are attested by the stand-in of their
kubelet, which has made them, in place of a review of their tokens.
"""

import datetime
import time
from collections.abc import Awaitable, Callable
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from federator.kube import selfsigned
from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away, Denied, Issued
from federator.runtime.identity.certificates import CertificateRefused
from federator.signer import authorities
from federator.signer.authorities import CertificateContent, Pair
from federator.signer.issuing import Attested, Busy, Issuer
from federator.signer.options import SignerOptions

LASTS: Final = datetime.timedelta(days=365)
BEFORE: Final = datetime.timedelta(hours=1)


def new_pair(now_s: float) -> Pair:
    """A new root, and an intermediate of it with its key."""
    root, key = certificates.new_key(), certificates.new_key()
    above = _made("federator sandbox root", root, root, now_s)
    issuing = _made("federator sandbox pods", key, root, now_s)
    return Pair((issuing,), key, above.public_bytes(serialization.Encoding.PEM))


def _made(
    name: str, key: ec.EllipticCurvePrivateKey, above: ec.EllipticCurvePrivateKey, now_s: float
) -> x509.Certificate:
    begin = datetime.datetime.fromtimestamp(int(now_s), datetime.UTC) - BEFORE
    root = selfsigned.named("federator sandbox root")
    builder = x509.CertificateBuilder(
        issuer_name=root,
        subject_name=selfsigned.named(name),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=begin,
        not_valid_after=begin + LASTS,
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    builder = builder.add_extension(selfsigned.usage(signs_certificates=True), True)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(own, False).sign(above, hashes.SHA256())


class HeldAuthority:
    """Signs with a pair in memory. See `signer.authorities.CertificateAuthority`."""

    def __init__(self, pair: Pair, now_s: Callable[[], float]) -> None:
        self._pair, self._now_s = pair, now_s

    async def sign(self, csr: x509.CertificateSigningRequest, wanted: CertificateContent) -> bytes:
        return authorities.issued(self._pair, csr, wanted, self._now_s())

    async def bundle(self) -> bytes:
        return self._pair.bundle

    async def close(self) -> None:
        """Nothing is open."""


class PodAuthority:
    """The signer of one cluster."""

    def __init__(
        self,
        pair: Pair,
        cluster: str,
        now_s: Callable[[], float],
        project_of: Callable[[str], Awaitable[str]],
    ) -> None:
        """`project_of`: the project of a namespace, "" for none."""
        self._issuer = Issuer(
            HeldAuthority(pair, now_s),
            SignerOptions(cluster=cluster),
            now_s=now_s,
            monotonic=time.monotonic,
            project_of=project_of,
        )

    def of(self, pod: Attested) -> "PodSigner":
        """The port of one pod to it."""
        return PodSigner(self._issuer, pod)


class PodSigner:
    """See `runtime.identity.authority.Authority`."""

    def __init__(self, issuer: Issuer, pod: Attested) -> None:
        self._issuer, self._pod = issuer, pod

    async def sign(self, csr: str) -> Issued:
        """Raises Denied, Away."""
        try:
            asked = x509.load_pem_x509_csr(csr.encode())
            signed = await self._issuer.issue(self._pod, asked)
        except CertificateRefused as bad:
            raise Denied(bad.reason, bad.message) from None
        except Busy as busy:
            raise Away(busy.message) from None
        return Issued(signed.chain.decode("ascii"), signed.bundle.decode("ascii"))

    async def bundle(self) -> str:
        """Raises Away."""
        return (await self._issuer.authority.bundle()).decode("ascii")
