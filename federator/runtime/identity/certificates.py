"""What a certificate of a pod must say, and the request for one. Uses `cryptography`, which takes
10 MB: the sidecar runs this in a short child process (`keymaker`), the signer in its own."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from federator.runtime.identity.spiffe import NoId, SpiffeId, parse

CURVES: Final = ("secp256r1", "secp384r1")
"""Curves of keys that are accepted; ours are P-256."""
CHAIN_MAX: Final = 8
_BROKEN: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What `cryptography` raises when it looks into bytes of strangers: it reads most of a request or
of a certificate when it is asked for it, long after it has loaded it."""
SKEW_S: Final = 60.0
"""A certificate may begin so many seconds later than this clock says: clocks differ."""


class CertificateRefused(Exception):
    """A request or a certificate is not what it must be. `reason` is CamelCase."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Facts:
    """What a certificate says, for people and for the renewal. No secrets."""

    id: str
    begin_s: float
    end_s: float
    serial: str
    issuer: str
    claims: tuple[str, ...] = ()
    """`cluster=...` and `project=...`, as the signer attests them."""


@contextlib.contextmanager
def readable(what: str) -> Iterator[None]:
    """Raises CertificateRefused for what cannot be read in the block."""
    try:
        yield
    except _BROKEN as bad:
        message = f"{what} cannot be read: {str(bad)[:120]}"
        raise CertificateRefused("NotReadable", message) from None


# -- requests -----------------------------------------------------------------


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new ECDSA P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def request(key: ec.EllipticCurvePrivateKey, uri: str, dns: Sequence[str] = ()) -> bytes:
    """A request (PEM) for a certificate with this URI."""
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri)]
    names += [x509.DNSName(name) for name in dns]
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=True)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def checked_request(
    csr: x509.CertificateSigningRequest, identity: SpiffeId, dns: Sequence[str] = ()
) -> ec.EllipticCurvePublicKey:
    """The key of a request that asks for nothing but `identity`; an empty one asks for nothing.
    Raises CertificateRefused."""
    with readable("the request"):
        return _checked_request(csr, identity, dns)


def _checked_request(
    csr: x509.CertificateSigningRequest, identity: SpiffeId, dns: Sequence[str]
) -> ec.EllipticCurvePublicKey:
    key = csr.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in CURVES:
        raise CertificateRefused("UnsupportedKeyType", "the key must be ECDSA P-256 (or P-384)")
    if not csr.is_signature_valid:
        raise CertificateRefused("BadSignature", "the request is not signed by its own key")
    if any(each.oid == NameOID.COMMON_NAME for each in csr.subject):
        raise CertificateRefused("ForeignSubject", "the request must have no common name")
    asked: list[str] = []
    for extension in csr.extensions:
        if not isinstance(extension.value, x509.SubjectAlternativeName):
            name = extension.oid.dotted_string
            raise CertificateRefused("ForeignExtension", f"the request asks for extension {name}")
        asked = [_named(each) for each in extension.value]
    allowed = {f"URI:{identity}", *(f"DNS:{name}" for name in dns)}
    if foreign := sorted(set(asked) - allowed):
        raise CertificateRefused(
            "ForeignName",
            f"the request asks for SAN {foreign[0][:200]}, and its token is that of {identity}",
        )
    return key


def _named(name: x509.GeneralName) -> str:
    if isinstance(name, x509.UniformResourceIdentifier):
        return f"URI:{name.value}"
    if isinstance(name, x509.DNSName):
        return f"DNS:{name.value}"
    return type(name).__name__


# -- certificates -------------------------------------------------------------


def read_chain(pem: bytes, what: str) -> list[x509.Certificate]:
    """The certificates in a text, at most `CHAIN_MAX` of a chain. Raises CertificateRefused."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise CertificateRefused("NotReadable", f"{what} holds no certificates in PEM") from None


def checked(
    chain_pem: bytes,
    bundle_pem: bytes,
    identity: SpiffeId,
    key: ec.EllipticCurvePublicKey | None,
    now_s: float,
) -> Facts:
    """What the certificate of a chain says, if it is this identity's and verifies with the bundle.
    Raises CertificateRefused."""
    with readable("the certificate"):
        return _checked(chain_pem, bundle_pem, identity, key, now_s)


def _checked(
    chain_pem: bytes,
    bundle_pem: bytes,
    identity: SpiffeId,
    key: ec.EllipticCurvePublicKey | None,
    now_s: float,
) -> Facts:
    chain = read_chain(chain_pem, "the answer of the CA")
    roots = read_chain(bundle_pem, "the trust bundle")
    if len(chain) > CHAIN_MAX:
        raise CertificateRefused("ChainTooLong", f"the chain has {len(chain)} certificates")
    leaf = chain[0]
    if key is not None and leaf.public_key() != key:
        raise CertificateRefused(
            "ForeignKey", "the certificate is for another key than the one made here"
        )
    named = _identity_of(leaf)
    if named != identity:
        raise CertificateRefused(
            "ForeignName", f"the certificate is that of {named}, not of {identity}"
        )
    _check_use(leaf)
    _check_times(leaf, "the certificate", now_s)
    _check_path(chain, roots, now_s)
    claims = tuple(str(each.value) for each in leaf.subject.get_attributes_for_oid(NameOID.USER_ID))
    return Facts(
        id=str(named),
        begin_s=leaf.not_valid_before_utc.timestamp(),
        end_s=leaf.not_valid_after_utc.timestamp(),
        serial=f"{leaf.serial_number:x}",
        issuer=leaf.issuer.rfc4514_string()[:200],
        claims=claims,
    )


def _identity_of(leaf: x509.Certificate) -> SpiffeId:
    """Raises CertificateRefused: SPIFFE allows exactly one URI."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise CertificateRefused("NoName", "the certificate has no SAN") from None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise CertificateRefused(
            "NoName", f"the certificate has {len(uris)} URIs; exactly one is accepted"
        )
    try:
        return parse(uris[0])
    except NoId as bad:
        raise CertificateRefused("ForeignName", str(bad)) from None


def _check_use(leaf: x509.Certificate) -> None:
    for extension in leaf.extensions:
        value = extension.value
        if isinstance(value, x509.BasicConstraints) and value.ca:
            raise CertificateRefused(
                "IsAuthority", "the certificate may sign others; a pod's must not"
            )
        if isinstance(value, x509.KeyUsage) and not value.digital_signature:
            raise CertificateRefused("BadUsage", "the certificate may not sign handshakes")
    try:
        uses = set(leaf.extensions.get_extension_for_oid(ExtensionOID.EXTENDED_KEY_USAGE).value)  # type: ignore[call-overload]
    except x509.ExtensionNotFound:
        return
    if not {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH} <= uses:
        raise CertificateRefused("BadUsage", "the certificate is not for both clients and servers")


def _check_times(certificate: x509.Certificate, what: str, now_s: float) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    early_s = begin.timestamp() - now_s
    if early_s > SKEW_S:
        raise CertificateRefused(
            "ClockOff",
            f"{what} begins {early_s:.0f} s from now by the clock of this node: this clock or that"
            " of the CA is off",
        )
    if end.timestamp() <= now_s:
        raise CertificateRefused(
            "Expired",
            f"{what} ({_subject(certificate)}) expired at {end:%Y-%m-%dT%H:%M:%SZ}, and the clock"
            f" of this node says {datetime.fromtimestamp(now_s, UTC):%Y-%m-%dT%H:%M:%SZ}",
        )


def _check_path(
    chain: Sequence[x509.Certificate], roots: Sequence[x509.Certificate], now_s: float
) -> None:
    """Walks from the leaf to a root of the bundle. TLS peers do so too; here a failure gets its
    reason."""
    below = chain[0]
    for above in chain[1:]:
        if above in roots:
            break
        _check_signs(above, below)
        _check_times(above, "the intermediate certificate", now_s)
        below = above
    for root in roots:
        if root.subject != below.issuer:
            continue
        try:
            below.verify_directly_issued_by(root)
        except (ValueError, TypeError, InvalidSignature):
            continue
        _check_times(root, "the root certificate", now_s)
        return
    raise CertificateRefused(
        "UnknownAuthority",
        f"the chain ends at {below.issuer.rfc4514_string()[:200] or 'an unnamed issuer'}, which is"
        " not in the trust bundle",
    )


def _check_signs(above: x509.Certificate, below: x509.Certificate) -> None:
    try:
        may = above.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        may = False
    if not may:
        raise CertificateRefused("BadChain", f"{_subject(above)} may not sign certificates")
    try:
        below.verify_directly_issued_by(above)
    except (ValueError, TypeError, InvalidSignature):
        raise CertificateRefused(
            "BadChain", f"{_subject(below)} is not signed by {_subject(above)}"
        ) from None


def _subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()[:120] or f"serial {certificate.serial_number:x}"


def joined(*bundles: bytes) -> bytes:
    """One bundle with each certificate once, in a stable order: the same roots give the same
    bytes. Raises CertificateRefused."""
    roots = {
        hashlib.sha256(each.public_bytes(serialization.Encoding.DER)).digest(): each
        for bundle in bundles
        for each in read_chain(bundle, "the trust bundle")
    }
    return b"".join(roots[key].public_bytes(serialization.Encoding.PEM) for key in sorted(roots))
