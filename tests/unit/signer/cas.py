"""Certificate authorities for tests: a root, an intermediate, and the folder that a signer reads."""

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from federator.runtime.identity import certificates

PEM = serialization.Encoding.PEM
USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True, slots=True)
class Ca:
    """A certificate that signs others."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(PEM)


def authority(
    name: str,
    now_s: float,
    *,
    above: Ca | None = None,
    begins_s: float = -3600.0,
    lasts_s: float = 30 * 86400.0,
    signs: bool = True,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Ca:
    """A root, or an intermediate signed by `above`. Times relative to `now_s`."""
    key = key or certificates.new_key()
    begin = datetime.datetime.fromtimestamp(now_s + begins_s, datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above.certificate.subject if above else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(seconds=lasts_s))
        .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(USAGE, critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(
                (above.key if above else key).public_key()
            ),
            critical=False,
        )
        .sign(above.key if above else key, hashes.SHA256())
    )
    return Ca(made, key)


def lay_out(folder: Path, intermediate: Ca, *roots: Ca) -> Path:
    """The folder of a FilesAuthority."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_bytes(intermediate.pem)
    (folder / "tls.key").write_bytes(certificates.key_pem(intermediate.key))
    (folder / "ca.crt").write_bytes(b"".join(root.pem for root in roots))
    return folder


def request(
    uri: str, *dns: str
) -> tuple[ec.EllipticCurvePrivateKey, x509.CertificateSigningRequest]:
    """A key, and a request for a certificate with this URI."""
    key = certificates.new_key()
    return key, x509.load_pem_x509_csr(certificates.request(key, uri, dns))
