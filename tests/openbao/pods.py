"""Certificates of pods for tests: keys made here, signed by the PKI of a real OpenBao, laid out as
the identity of a pod is.

They have a common name next to the SPIFFE id: OpenBao lets nobody log in with a certificate without
one (`missing name in alias`), because the common name becomes the name of the entity.
"""

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.openbao.server import OpenBao

DOMAIN = "example.org"
ROLE = "pods"


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with a certificate."""

    spiffe: str
    folder: Path
    """With `tls.crt`, `tls.key` and `ca.crt`."""


def authority(server: OpenBao) -> str:
    """The root of the pods' certificates, as PEM; the role that signs them is made as well."""
    options = {
        "allowed_uri_sans": [f"spiffe://{DOMAIN}/*"],
        "allow_any_name": True,
        "cn_validations": ["disabled"],
        "use_csr_sans": True,
        "key_type": "ec",
        "key_bits": 256,
        "ttl": "1h",
        "max_ttl": "24h",
    }
    return server.issues(ROLE, options)


def pod(server: OpenBao, folder: Path, namespace: str, account: str, *, ttl: str = "1h") -> Pod:
    """A pod of a service account, with its identity in the folder."""
    spiffe = f"spiffe://{DOMAIN}/ns/{namespace}/sa/{account}"
    key = ec.generate_private_key(ec.SECP256R1())
    common = x509.NameAttribute(NameOID.COMMON_NAME, f"{namespace}/{account}")
    uri = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(spiffe)])
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([common]))
        .add_extension(uri, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    asked = {"csr": request.public_bytes(pem).decode(), "ttl": ttl}
    signed = server.call("POST", f"pki/sign/{ROLE}", asked)["data"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_text(signed["certificate"], "ascii")
    (folder / "ca.crt").write_text(signed["issuing_ca"], "ascii")
    (folder / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Pod(spiffe, folder)
