"""The contract of what signs, over both implementations: an intermediate in files, and the PKI of a
real OpenBao. What each alone does follows."""

import asyncio
import contextlib
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from cryptography import x509

from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away
from federator.runtime.identity.certificates import CertificateRefused
from federator.runtime.identity.spiffe import SpiffeId
from federator.signer.authorities import CertificateAuthority, CertificateContent, FilesAuthority
from federator.signer.openbao import OpenBaoAuthority, connected
from federator.signer.options import SignerOptions
from tests.openbao import server
from tests.openbao.server import OpenBao
from tests.unit.signer import cas

DOMAIN = "test.example"
WEB = SpiffeId(DOMAIN, "ads", "web")
CLAIMS = ("cluster=us-east-1a", "project=ads")
REAL = [pytest.mark.e2e, pytest.mark.xdist_group("openbao")]
"""The role of docs/operating/identity.md."""


@pytest.fixture(scope="module")
def openbao() -> Iterator[OpenBao]:
    with server.serving() as running:
        running.issues("pods", server.signer_role(DOMAIN))
        policy = ["pki/sign/pods", "pki/issuers", "pki/issuer/+/json"]
        running.allow("signer", *policy, abilities=["read", "list", "update"])
        yield running


@pytest.fixture(params=["files", pytest.param("openbao", marks=REAL)])
async def authority(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[CertificateAuthority]:
    made: CertificateAuthority
    if request.param == "openbao":
        made = of_openbao(request.getfixturevalue("openbao"), tmp_path)
    else:
        root = cas.authority("root", time.time())
        folder = cas.lay_out(tmp_path, cas.authority("signing", time.time(), above=root), root)
        made = FilesAuthority(folder, time.time, time.monotonic)
    yield made
    await made.close()


def of_openbao(running: OpenBao, folder: Path, **changed: object) -> OpenBaoAuthority:
    """With a token that may do what the policy of the documents allows, and no more."""
    body = {"policies": ["signer"], "no_default_policy": True}
    token = running.call("POST", "auth/token/create", body)["auth"]["client_token"]
    file = folder / "openbao-token"
    file.write_text(token)
    options = SignerOptions(
        **{  # type: ignore[arg-type]
            "authority": "openbao",
            "openbao_address": running.address,
            "openbao_ca_file": str(running.ca_file),
            "openbao_token_file": str(file),
            **changed,
        }
    )
    return OpenBaoAuthority(connected(options), options, time.monotonic)


async def test_what_is_signed_says_what_was_wanted(authority: CertificateAuthority) -> None:
    key, csr = cas.request(str(WEB))
    chain = await authority.sign(csr, CertificateContent(WEB, 7200, CLAIMS))
    bundle = await authority.bundle()
    facts = certificates.checked(chain, bundle, WEB, key.public_key(), time.time())

    assert facts.id == str(WEB)
    assert sorted(facts.claims) == sorted(CLAIMS)
    assert 7199 <= facts.end_s - facts.begin_s <= 7200  # never longer: API servers refuse it
    assert facts.begin_s <= time.time()


async def test_names_in_the_request_do_not_count(authority: CertificateAuthority) -> None:
    _, csr = cas.request(f"spiffe://{DOMAIN}/ns/kube-system/sa/admin", "api.example.com")
    leaf = x509.load_pem_x509_certificate(await authority.sign(csr, CertificateContent(WEB, 3600)))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert [each.value for each in names] == [str(WEB)]


async def test_the_signer_itself_gets_its_dns_names(authority: CertificateAuthority) -> None:
    _, csr = cas.request(str(WEB), "federator-signer.federator-system.svc")
    wanted = CertificateContent(WEB, 3600, dns=("federator-signer.federator-system.svc",))
    leaf = x509.load_pem_x509_certificate(await authority.sign(csr, wanted))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert names.get_values_for_type(x509.DNSName) == ["federator-signer.federator-system.svc"]


async def test_openssl_verifies_a_chain_and_two_pods_shake_hands(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    pods = []
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(await authority.bundle())
    for account in ("web", "db"):
        identity = SpiffeId(DOMAIN, "ads", account)
        key, csr = cas.request(str(identity))
        chain = tmp_path / f"{account}.crt"
        chain.write_bytes(await authority.sign(csr, CertificateContent(identity, 3600, CLAIMS)))
        private = tmp_path / f"{account}.key"
        private.write_bytes(certificates.key_pem(key))
        pods.append((chain, private))
    command = ["openssl", "verify", "-x509_strict", "-CAfile", str(bundle)]
    command += ["-untrusted", str(pods[0][0]), str(pods[0][0])]
    verified = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
    )

    assert verified.stdout.strip().endswith(": OK"), verified.stderr
    assert shaken(bundle, pods[0], pods[1]) == f"spiffe://{DOMAIN}/ns/ads/sa/db"


def shaken(bundle: Path, server_files: tuple[Path, Path], client_files: tuple[Path, Path]) -> str:
    """The SPIFFE id of the client as the server sees it, after a mutual handshake in memory."""
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    here.check_hostname = False  # SPIFFE peers compare the URI
    for context, files in ((there, server_files), (here, client_files)):
        context.load_verify_locations(bundle)
        context.load_cert_chain(*files)
        context.verify_mode = ssl.CERT_REQUIRED
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        there.wrap_bio(to_server, to_client, server_side=True),
        here.wrap_bio(to_client, to_server),
    ]
    for _ in range(4):
        for end in reversed(ends):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    shown = ends[0].getpeercert()
    assert shown is not None
    return str(shown["subjectAltName"][0][1])


# -- files --------------------------------------------------------------------


async def test_an_expired_intermediate_is_a_reason_to_wait(tmp_path: Path) -> None:
    now_s = time.time()
    root = cas.authority("root", now_s)
    old = cas.authority("signing", now_s, above=root, lasts_s=60.0)
    authority = FilesAuthority(cas.lay_out(tmp_path, old, root), time.time, time.monotonic)
    with pytest.raises(Away, match="the intermediate certificate of the authority expired at 20"):
        await authority.sign(cas.request(str(WEB))[1], CertificateContent(WEB, 3600))


async def test_a_certificate_ends_no_later_than_its_intermediate(tmp_path: Path) -> None:
    now_s = time.time()
    root = cas.authority("root", now_s)
    soon = cas.authority("signing", now_s, above=root, lasts_s=3600.0 + 600.0)
    authority = FilesAuthority(cas.lay_out(tmp_path, soon, root), time.time, time.monotonic)
    chain = await authority.sign(cas.request(str(WEB))[1], CertificateContent(WEB, 3600))

    leaf = x509.load_pem_x509_certificates(chain)[0]
    assert leaf.not_valid_after_utc == soon.certificate.not_valid_after_utc


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("no folder", r"tls\.crt of the authority cannot be read"),
        ("foreign key", "do not belong together"),
        ("foreign root", r"is signed by none of the roots in ca\.crt"),
        ("no authority", "may not sign certificates"),
        ("no text", r"tls\.crt holds no certificates in PEM"),
    ],
)
async def test_files_that_cannot_sign_are_told(tmp_path: Path, broken: str, why: str) -> None:
    now_s = time.time()
    root, other = cas.authority("root", now_s), cas.authority("other", now_s)
    signing = cas.authority("signing", now_s, above=root, signs=broken != "no authority")
    if broken != "no folder":
        cas.lay_out(tmp_path, signing, other if broken == "foreign root" else root)
    if broken == "foreign key":
        (tmp_path / "tls.key").write_bytes(certificates.key_pem(other.key))
    if broken == "no text":
        (tmp_path / "tls.crt").write_text("soon")
    with pytest.raises(Away, match=why):
        await FilesAuthority(tmp_path, time.time, time.monotonic).bundle()


async def test_a_rotation_overlaps_and_a_half_written_one_changes_nothing(tmp_path: Path) -> None:
    now_s, clock = time.time(), [0.0]
    old, new = cas.authority("old", now_s), cas.authority("new", now_s)
    before = cas.authority("signing 1", now_s, above=old)
    after = cas.authority("signing 2", now_s, above=new)
    authority = FilesAuthority(cas.lay_out(tmp_path, before, old), time.time, lambda: clock[0])
    key, csr = cas.request(str(WEB))
    first = await authority.sign(csr, CertificateContent(WEB, 3600))
    (tmp_path / "tls.crt").write_bytes(after.pem)  # the key of the one before is there still
    clock[0] += 60
    assert issuer_of(await authority.sign(csr, CertificateContent(WEB, 3600))) == issuer_of(first)
    cas.lay_out(tmp_path, after, old, new)
    clock[0] += 60
    bundle = await authority.bundle()
    second = await authority.sign(csr, CertificateContent(WEB, 3600))

    assert issuer_of(second) != issuer_of(first)
    for chain in (first, second):  # old and new certificates verify with the same bundle
        certificates.checked(chain, bundle, WEB, key.public_key(), time.time())


def issuer_of(chain: bytes) -> str:
    return x509.load_pem_x509_certificates(chain)[0].issuer.rfc4514_string()


# -- OpenBao ------------------------------------------------------------------


@pytest.mark.e2e
@pytest.mark.xdist_group("openbao")
async def test_openbao_refuses_a_foreign_trust_domain(openbao: OpenBao, tmp_path: Path) -> None:
    authority = of_openbao(openbao, tmp_path)
    foreign = SpiffeId("else.example", "ads", "web")
    try:
        with pytest.raises(CertificateRefused, match=r"refuses: .*URI Subject Alternative Name"):
            await authority.sign(cas.request(str(foreign))[1], CertificateContent(foreign, 3600))
    finally:
        await authority.close()


@pytest.mark.e2e
@pytest.mark.xdist_group("openbao")
async def test_a_role_that_may_not_be_used_is_named(openbao: OpenBao, tmp_path: Path) -> None:
    authority = of_openbao(openbao, tmp_path, openbao_role="admins")
    try:
        told = (
            r"OpenBao \(pki/admins\) answers 403: the token in .* may not use pki/sign/admins: .*"
        )
        with pytest.raises(Away, match=rf"{told}permission denied"):
            await authority.sign(cas.request(str(WEB))[1], CertificateContent(WEB, 3600))
    finally:
        await authority.close()


@pytest.mark.e2e
@pytest.mark.xdist_group("openbao")
async def test_both_roots_are_trusted_while_openbao_rotates(
    openbao: OpenBao, tmp_path: Path
) -> None:
    authority = of_openbao(openbao, tmp_path)
    key, csr = cas.request(str(WEB))
    try:
        first = await authority.sign(csr, CertificateContent(WEB, 3600))
        made = {"common_name": "the next root", "key_type": "ec", "key_bits": 256}
        fresh = openbao.call("POST", "pki/root/rotate/internal", {**made, "ttl": "8760h"})["data"]
        openbao.call("POST", "pki/config/issuers", {"default": fresh["issuer_id"]})
        again = of_openbao(openbao, tmp_path)
        try:
            second, bundle = (
                await again.sign(csr, CertificateContent(WEB, 3600)),
                await again.bundle(),
            )
        finally:
            await again.close()
    finally:
        await authority.close()

    assert issuer_of(first) != issuer_of(second)
    for chain in (first, second):
        certificates.checked(chain, bundle, WEB, key.public_key(), time.time())
