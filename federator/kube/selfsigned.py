"""A certificate authority for one life of one process, and the server certificate that it signs.

The key of the authority is forgotten as soon as it has signed; nothing here touches the disk.
Clients must learn the authority from where only the process can write: a Lease
(`hub/query/announcing.py`), a kubeconfig (`embedded/http.py`).
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_FOR = datetime.timedelta(days=3650)
"""A process that runs for longer than this must be restarted; the key is nowhere but in it."""
_BEFORE = datetime.timedelta(hours=1)
"""The clocks of clients may be behind ours by as much."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a server shows, and what its clients check it by, as PEM."""

    ca_pem: bytes
    cert_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)


def made(what: str, *, dns: Sequence[str], addresses: Sequence[str] = (), now_s: float) -> Identity:
    """Fresh keys and certificates for the server that `what` says, with these DNS names and IP
    addresses. `now_s` is epoch seconds. A fixed DNS name that is no address serves a port that is
    reached through forwards and balancers."""
    now = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = named(f"{what} authority")
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    certificate = (
        _builder(named(what), ca_name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem = serialization.Encoding.PEM
    return Identity(ca.public_bytes(pem), certificate.public_bytes(pem), key_pem)


def named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def ends_s(pem: bytes) -> int | None:
    """When the first certificate of a PEM text ends, in epoch seconds; None where it holds none
    that can be read."""
    try:
        return int(x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp())
    except ValueError:
        return None


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _VALID_FOR)
    )


def usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
