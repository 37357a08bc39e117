"""Parsers of the runtime of pods and of the signer that read foreign bytes: requests of pods, and
answers of the signer, of stores of secrets and of API servers."""

import asyncio
import atexit
import base64
import contextlib
import json
import shutil
import ssl
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from federator.api import raw
from federator.kube.tlsserver import BodyRefused, Incoming
from federator.runtime.configuration.getting import Web
from federator.runtime.files.backends import Away as StoreAway
from federator.runtime.files.backends import Refusal
from federator.runtime.identity import authority, certificates
from federator.runtime.identity.authority import Away, Denied
from federator.runtime.identity.certificates import CertificateRefused
from federator.runtime.identity.spiffe import SpiffeId
from federator.runtime.secrets.knox import KnoxStore
from federator.runtime.secrets.openbao import OpenBaoStore, Place
from federator.runtime.secrets.store import SecretStore
from federator.runtime.web import Answer
from federator.signer import authorities, cluster, podrequests, port
from federator.signer.authorities import CertificateContent
from federator.signer.cluster import Unauthorized
from federator.signer.openbao import OpenBaoAuthority
from federator.signer.options import SignerOptions
from tests.unit.kube.scripted import Script, reply
from tests.unit.signer import cas

NOW_S = 1_790_000_000.0
WEB = SpiffeId("test.example", "ads", "web")
ROOT = cas.authority("root", NOW_S)
KEY, CSR = cas.request(str(WEB), "web.ads")
PAIR = authorities.Pair((ROOT.certificate,), ROOT.key, ROOT.pem)
CHAIN = authorities.issued(PAIR, CSR, CertificateContent(WEB, 3600), NOW_S)


def _folder() -> Path:
    """The identity of a pod."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = {"tls.crt": CHAIN, "tls.key": certificates.key_pem(KEY), "ca.crt": ROOT.pem}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "token").write_text("token")
    return folder


FOLDER = _folder()
DER = CSR.public_bytes(serialization.Encoding.DER)


def done(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    work.close()
    raise AssertionError("it waits for something")


def body(data: bytes) -> object:
    """A request of a pod, as the signer reads it."""

    async def read(most: int) -> bytes:
        return data[:most]

    asked = Incoming("POST", "/v1/certificates", has_body=True, read_body=read)
    return certificates.checked_request(done(port._csr(asked)), WEB)


def csr_der(data: bytes) -> object:
    """The stub of a PodCertificateRequest."""
    csr = podrequests.stub(base64.b64encode(data).decode())
    return certificates.checked_request(csr, WEB)


def csr_pem(data: bytes) -> object:
    text = b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(data)
    text += b"-----END CERTIFICATE REQUEST-----\n"
    return body(json.dumps({"csr": text.decode()}).encode())


def review(data: bytes) -> object:
    """The status of a TokenReview, after the decoder of answers."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cluster.attested(raw.mapping(found, "status"), "federator-signer")


def chain(data: bytes) -> object:
    return certificates.checked(data, ROOT.pem, WEB, KEY.public_key(), NOW_S)


def leaf(data: bytes) -> object:
    """The same for the bytes inside PEM."""
    text = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(data)
    return chain(text + b"-----END CERTIFICATE-----\n")


class Says:
    """`web.ask` with one answer to everything."""

    def __init__(self, data: bytes, status: int = 200) -> None:
        self.answer = Answer(status, {}, data)

    async def __call__(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        context: ssl.SSLContext | None = None,
        within_s: float = 10.0,
        most: int = 1 << 20,
    ) -> Answer:
        return self.answer


def of_signer(data: bytes) -> object:
    for status in (200, 403):
        asked = Says(data, status)
        signer = authority.Signer("https://s", FOLDER / "token", ROOT.pem.decode, asked)
        try:
            done(signer.sign("csr"))
        except (Away, Denied):
            continue
    return None


def _secret(made: Callable[[Says], SecretStore]) -> Callable[[bytes], object]:
    def run(data: bytes) -> object:
        store = made(Says(data))
        works: tuple[Coroutine[Any, Any, object], ...] = (
            store.read("ads/db"),
            store.changed({"ads/db": "1"}),
        )
        for work in works:
            with contextlib.suppress(Refusal, StoreAway):
                done(work)
        return None

    return run


of_openbao = _secret(
    lambda says: OpenBaoStore(Place("https://b", "secret", "", "p"), FOLDER, "", lambda: 0.0, says)
)
of_knox = _secret(lambda says: KnoxStore("https://k", FOLDER, "", "p", says))


async def _signed(data: bytes) -> object:
    script = Script(after=lambda _request: _replied(data))
    options = SignerOptions(openbao_login_token_file=str(FOLDER / "token"))
    openbao = OpenBaoAuthority(script, options, lambda: 0.0)
    return await openbao.sign(CSR, CertificateContent(WEB, 3600))


async def _replied(data: bytes) -> Any:
    return reply(json.loads(data) if data else {})


def of_pki(data: bytes) -> object:
    """The answers of the PKI engine to the signer."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return None  # which the transport of the test cannot carry
    return asyncio.run(_signed(data))


def login_file(data: bytes) -> object:
    """A file of `docker login` in the pod."""
    file = FOLDER / "logins"
    file.write_bytes(data)
    return Web(ssl.create_default_context, file).basic("a.example")


LOGIN = b'{"auth": {"client_token": "t", "lease_duration": 3600, "policies": ["ads"]}}'
SECRET = b'{"auth": {"client_token": "t", "lease_duration": 60}, "data": {"data": {"a": "b", "c": "base64:eA=="},'
SECRET += (
    b' "metadata": {"version": 3}, "current_version": 3, "versions": {"3": {"destroyed": false}}}}'
)
ENDLESS = b'{"auth": {"client_token": "t", "lease_duration": 1' + b"0" * 400 + b"}}"
KNOX = b'{"data": {"hash": "h", "versions": [{"id": 1, "status": "Primary", "data": "eA=="}]}}'
KNOX_ODD = (
    b'{"data": {"hash": "h", "versions": [{"id": Infinity, "status": "Active", "data": "eA=="}]}}'
)
SIGNED = json.dumps(
    {
        "auth": {"client_token": "t", "lease_duration": 60},
        "data": {
            "keys": ["one"], "certificate": ROOT.pem.decode(), "ca_chain": [ROOT.pem.decode()],
        },
    }
).encode()  # fmt: skip
ISSUED = json.dumps({"chain": CHAIN.decode(), "bundle": ROOT.pem.decode()}).encode()
REVIEWED = json.dumps(
    {
        "status": {
            "authenticated": True,
            "audiences": ["federator-signer"],
            "user": {
                "username": "system:serviceaccount:ads:web",
                "extra": {
                    "authentication.kubernetes.io/pod-name": ["web-0"],
                    "authentication.kubernetes.io/pod-uid": ["u"],
                },
            },
        }
    }
).encode()
ASKED = json.dumps({"csr": CSR.public_bytes(serialization.Encoding.PEM).decode()}).encode()
LEAF = x509.load_pem_x509_certificates(CHAIN)[0].public_bytes(serialization.Encoding.DER)

Row = tuple[str, Callable[[bytes], object], tuple[type[BaseException], ...], tuple[bytes, ...]]
ROWS: tuple[Row, ...] = (
    ("bodies of the signer", body, (CertificateRefused, BodyRefused), (ASKED, b'{"csr": 5}', b'{"csr": "\\ud800"}')),
    ("requests of kubelets", csr_der, (CertificateRefused,), (DER,)),
    ("requests of sidecars", csr_pem, (CertificateRefused, BodyRefused), (DER,)),
    ("reviews of tokens", review, (Unauthorized,), (REVIEWED,)),
    ("chains of pods", chain, (CertificateRefused,), (CHAIN, CHAIN + ROOT.pem)),
    ("certificates of pods", leaf, (CertificateRefused,), (LEAF,)),
    ("answers of the signer", of_signer, (), (ISSUED, b'{"reason": "ForeignName", "detail": "d"}')),
    ("answers of OpenBao to pods", of_openbao, (), (LOGIN, SECRET, ENDLESS)),
    ("answers of Knox", of_knox, (), (KNOX, b'{"data": ["ads/db"]}', KNOX_ODD)),
    ("answers of OpenBao to the signer", of_pki, (CertificateRefused, Away), (SIGNED, ENDLESS)),
    ("files of docker login", login_file, (StoreAway,), (b'{"auths": {"https://a.example/v1/": {"auth": "eA=="}}}',)),
)  # fmt: skip
"""(name, parser, errors that it may raise, where to begin)."""
