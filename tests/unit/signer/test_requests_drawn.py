"""Requests of pods with drawn contents: what is accepted asks for nothing but the identity of its
token, and what is not is refused in words."""

import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from federator.runtime.identity import certificates
from federator.runtime.identity.certificates import CertificateRefused
from federator.runtime.identity.spiffe import SpiffeId
from federator.signer import authorities
from federator.signer.authorities import CertificateContent
from tests.examples import examples
from tests.unit.signer import cas

NOW_S = 1_790_000_000.0
WEB = SpiffeId("test.example", "ads", "web")
ROOT = cas.authority("root", NOW_S)
PAIR = authorities.Pair((ROOT.certificate,), ROOT.key, ROOT.pem)
KEYS: dict[str, Any] = {
    "P-256": certificates.new_key(),
    "P-384": ec.generate_private_key(ec.SECP384R1()),
    "P-224": ec.generate_private_key(ec.SECP224R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
    "RSA": rsa.generate_private_key(65537, 1024),
}
TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
URIS = st.one_of(
    st.just(str(WEB)), st.sampled_from([f"{WEB}/", f"{WEB}x", "spiffe://test.example/ns/ads/sa/admin"]), TEXT
).map(x509.UniformResourceIdentifier)  # fmt: skip
NAMES = st.one_of(URIS, TEXT.map(x509.DNSName), st.just(x509.RFC822Name("a@b.example")))
EXTENSIONS = st.sampled_from(
    [
        x509.BasicConstraints(ca=True, path_length=None),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]),
        x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x30\x00"),
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> x509.CertificateSigningRequest:
    subject = draw(st.sampled_from([[], [x509.NameAttribute(NameOID.COMMON_NAME, "admin")]]))
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    names = draw(st.lists(NAMES, max_size=3))
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=draw(st.booleans()))
    for extension in draw(st.lists(EXTENSIONS, max_size=1)):
        made = made.add_extension(extension, critical=draw(st.booleans()))
    name = draw(st.sampled_from([*KEYS, "P-256", "P-256", "P-256"]))
    return made.sign(KEYS[name], None if name == "Ed25519" else hashes.SHA256())


@examples(400)
@given(requests())
def test_what_is_accepted_is_certified_for_the_identity_of_the_token_alone(
    csr: x509.CertificateSigningRequest,
) -> None:
    try:
        key = certificates.checked_request(csr, WEB)
    except CertificateRefused:
        return
    chain = authorities.issued(PAIR, csr, CertificateContent(WEB, 3600, ("cluster=a",)), NOW_S)
    leaf = x509.load_pem_x509_certificates(chain)[0]
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    asked = [each for extension in csr.extensions for each in extension.value]

    assert [str(each.value) for each in names] == [str(WEB)]
    assert {str(each.value) for each in asked} <= {str(WEB)}
    assert leaf.public_key() == key
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc <= datetime.timedelta(hours=1)
    assert certificates.checked(chain, ROOT.pem, WEB, key, NOW_S).id == str(WEB)


DER = cas.request(str(WEB), "web.ads")[1].public_bytes(serialization.Encoding.DER)


def test_a_key_off_its_curve_is_refused_in_words() -> None:
    """`cryptography` loads such a request, and raises ValueError when it is asked for the key."""
    at = DER.index(b"\x03\x42\x00\x04") + 10
    broken = x509.load_der_x509_csr(DER[:at] + bytes([DER[at] ^ 1]) + DER[at + 1 :])

    with pytest.raises(
        CertificateRefused, match="the request cannot be read: Invalid key"
    ) as refused:
        certificates.checked_request(broken, WEB)
    assert refused.value.reason == "NotReadable"


@examples(400)
@given(st.integers(0, len(DER) - 1), st.integers(1, 255), st.integers(0, 20))
def test_a_request_with_changed_bytes_is_refused_in_words(at: int, change: int, cut: int) -> None:
    data = bytearray(DER)
    data[at] ^= change

    with pytest.raises(CertificateRefused):
        read(bytes(data[: len(data) - cut]))


def read(der: bytes) -> None:
    with certificates.readable("the request"):
        csr = x509.load_der_x509_csr(der)
    certificates.checked_request(csr, WEB, ("web.ads",))
