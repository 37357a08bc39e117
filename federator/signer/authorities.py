"""The port to what holds the signing key, and the implementation that has it in files."""

import asyncio
import datetime
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from federator.kube import selfsigned
from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away
from federator.runtime.identity.certificates import CertificateRefused
from federator.runtime.identity.spiffe import SpiffeId

log = logging.getLogger(__name__)

COMMON_NAME_MAX: Final = 64
SIGNS_HANDSHAKES: Final = selfsigned.usage(signs_certificates=False)
BEFORE_S: Final = 30
"""A certificate begins so many seconds before now: clocks of pods may be behind."""
READ_S: Final = 30.0
"""The files are looked at again after so many seconds."""


@dataclass(frozen=True, slots=True)
class CertificateContent:
    """What a certificate is to say."""

    id: SpiffeId
    lifetime_s: int
    claims: tuple[str, ...] = ()
    """`cluster=...`, `project=...`: what the signer attests in addition."""
    dns: tuple[str, ...] = ()
    """Only for the signer's own certificate."""

    @property
    def common_name(self) -> str:
        """For the login at OpenBao, which calls the holder by it; SPIFFE takes no notice of it. A
        digest where names are too long for X.509."""
        name = f"{self.id.namespace}/{self.id.account}"
        if len(name) <= COMMON_NAME_MAX:
            return name
        return hashlib.sha256(name.encode()).hexdigest()


class CertificateAuthority(Protocol):
    """Signs. Its caller has checked the identity and the request."""

    async def sign(self, csr: x509.CertificateSigningRequest, wanted: CertificateContent) -> bytes:
        """The certificate and its intermediates, PEM. Raises CertificateRefused for what the
        authority will not sign, Away while it cannot sign anything."""

    async def bundle(self) -> bytes:
        """The roots to trust, PEM. Raises Away."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Pair:
    """An intermediate certificate with its key."""

    chain: tuple[x509.Certificate, ...]
    key: ec.EllipticCurvePrivateKey
    bundle: bytes

    @property
    def issuing(self) -> x509.Certificate:
        return self.chain[0]


def read(folder: Path) -> Pair:
    """Reads the three files. Raises Away, which says what is wrong with them."""
    try:
        chain = certificates.read_chain((folder / "tls.crt").read_bytes(), "tls.crt")
        bundle = certificates.joined((folder / "ca.crt").read_bytes())
        key = serialization.load_pem_private_key((folder / "tls.key").read_bytes(), None)
    except OSError as bad:
        raise Away(f"{bad.filename} of the authority cannot be read: {bad.strerror}") from None
    except CertificateRefused as bad:
        raise Away(f"the authority: {bad.message}") from None
    except (ValueError, TypeError):
        raise Away("tls.key of the authority is no private key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Away("tls.key of the authority is no ECDSA key")
    if chain[0].public_key() != key.public_key():
        raise Away("tls.crt and tls.key of the authority do not belong together")
    _check_signs(chain[0], bundle)
    return Pair(tuple(chain), key, bundle)


def _check_signs(issuing: x509.Certificate, bundle: bytes) -> None:
    """Raises Away for a certificate that may not sign, or that no root stands for."""
    try:
        may = issuing.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        may = False
    if not may:
        raise Away("tls.crt of the authority may not sign certificates (basicConstraints CA)")
    for root in certificates.read_chain(bundle, "ca.crt"):
        if root == issuing:
            return
        try:
            issuing.verify_directly_issued_by(root)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return
    raise Away("tls.crt of the authority is signed by none of the roots in ca.crt")


class FilesAuthority:
    """Signs with an intermediate certificate in a folder, and follows its files. `now_s`: epoch
    seconds."""

    def __init__(
        self, folder: Path, now_s: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._now_s = now_s
        self._monotonic = monotonic
        self._pair: Pair | None = None
        self._due_s = 0.0

    async def sign(self, csr: x509.CertificateSigningRequest, wanted: CertificateContent) -> bytes:
        return issued(await self._read(), csr, wanted, self._now_s())

    async def bundle(self) -> bytes:
        return (await self._read()).bundle

    async def close(self) -> None:
        """The files are nobody's to close."""

    async def _read(self) -> Pair:
        """The pair in the files; the one before while they cannot be read."""
        if self._pair is not None and self._monotonic() < self._due_s:
            return self._pair
        try:
            fresh = await asyncio.to_thread(read, self._folder)
        except Away as bad:
            if self._pair is None:
                raise
            log.warning("%s; the files before are used", bad)
            fresh = self._pair
        if self._pair is not None and fresh.issuing != self._pair.issuing:
            log.info("the authority signs with %s now", _name(fresh.issuing))
        self._pair, self._due_s = fresh, self._monotonic() + READ_S
        return fresh


def issued(
    pair: Pair, csr: x509.CertificateSigningRequest, wanted: CertificateContent, now_s: float
) -> bytes:
    """A certificate for the key of the request. Nothing else of the request counts. Raises Away
    when the intermediate certificate is not valid now."""
    now = datetime.datetime.fromtimestamp(int(now_s), datetime.UTC)
    issuing = pair.issuing
    ends = issuing.not_valid_after_utc
    if ends <= now:
        raise Away(f"the intermediate certificate of the authority expired at {ends:%FT%TZ}")
    if issuing.not_valid_before_utc > now:
        raise Away(
            f"the intermediate certificate begins at {issuing.not_valid_before_utc:%FT%TZ}, and the"
            f" clock of the signer says {now:%FT%TZ}"
        )
    begins = now - datetime.timedelta(seconds=BEFORE_S)
    key = csr.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    lifetime = datetime.timedelta(seconds=wanted.lifetime_s)
    builder = x509.CertificateBuilder(
        issuer_name=issuing.subject,
        subject_name=_subject(wanted),
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=begins,
        not_valid_after=min(begins + lifetime, ends),
    )
    for extension, critical in _extensions(wanted, pair):
        builder = builder.add_extension(extension, critical)
    made = builder.sign(pair.key, hashes.SHA256())
    roots = certificates.read_chain(pair.bundle, "ca.crt")
    chain = [made, *(each for each in pair.chain if each not in roots)]
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in chain)


def _subject(wanted: CertificateContent) -> x509.Name:
    claims = [x509.NameAttribute(NameOID.USER_ID, each) for each in wanted.claims]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, wanted.common_name), *claims])


def _extensions(wanted: CertificateContent, pair: Pair) -> list[tuple[x509.ExtensionType, bool]]:
    """(extension, whether it is critical): those of an X.509-SVID of SPIFFE."""
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(str(wanted.id))]
    names += [x509.DNSName(name) for name in wanted.dns]
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(pair.key.public_key())
    return [
        (x509.SubjectAlternativeName(names), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (SIGNS_HANDSHAKES, True),
        (x509.ExtendedKeyUsage(uses), False),
        (above, False),
    ]


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()[:120] or f"serial {certificate.serial_number:x}"
