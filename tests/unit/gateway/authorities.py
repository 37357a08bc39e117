"""Authorities of client certificates for tests, and the certificates that they sign."""

import datetime
import time
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


def _subject(name: str, groups: Sequence[str] = ()) -> x509.Name:
    fields = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    if name:
        fields.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    return x509.Name(fields)


class Authority:
    """Signs certificates. Two of one name differ in their keys only."""

    def __init__(self, name: str = "people") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name)
        builder = self._builder(self._name, self._key.public_key(), 3600.0, 3600.0)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        made = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())
        self.pem = made.public_bytes(PEM)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, since_s: float, ends_s: float
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(seconds=since_s))
            .not_valid_after(now + datetime.timedelta(seconds=ends_s))
        )

    def signed(
        self,
        name: str,
        *,
        groups: Sequence[str] = (),
        others: Sequence[x509.GeneralName] = (),
        usage: x509.ObjectIdentifier = CLIENT,
        since_s: float = 60.0,
        ends_s: float = 3600.0,
    ) -> tuple[bytes, bytes]:
        """(certificate, key) in PEM. `since_s`: valid since so many seconds; `ends_s`: for so
        many more."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_subject(name, groups), key.public_key(), since_s, ends_s)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if others:
            names = x509.SubjectAlternativeName(list(others))
            builder = builder.add_extension(names, critical=False)
        encoded = key.private_bytes(
            PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(PEM), encoded


def write(folder: Path, pair: tuple[bytes, bytes]) -> tuple[str, str]:
    """Paths of a certificate and its key."""
    paths = folder / "client.crt", folder / "client.key"
    for path, pem in zip(paths, pair, strict=True):
        path.write_bytes(pem)
    return str(paths[0]), str(paths[1])
