"""What the signer asks of OpenBao, where its answers are scripted: lifetimes and logins."""

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509

from federator.kube.wire.transport import Request
from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away
from federator.runtime.identity.spiffe import SpiffeId
from federator.signer import authorities
from federator.signer.authorities import BEFORE_S, CertificateContent
from federator.signer.openbao import OpenBaoAuthority
from federator.signer.options import SignerOptions
from tests.unit.embedded.inprocess import EPOCH_S
from tests.unit.kube.scripted import Answer, Script, reply
from tests.unit.signer import cas

WEB = SpiffeId("test.example", "ads", "web")
ACCOUNT = "system:serviceaccount:federator-system:federator-signer"


class Server:
    """An OpenBao whose role begins certificates 30 s before now, as roles do by default."""

    def __init__(self) -> None:
        self.root = cas.authority("root", EPOCH_S)
        signing = cas.authority("signing", EPOCH_S, above=self.root)
        self._pair = authorities.Pair((signing.certificate,), signing.key, self.root.pem)
        self.logins = 0
        self.knows_nobody = False
        """Logins are refused."""
        self.refused: set[str] = set()
        """Tokens that are revoked."""
        self.refusals = 0
        self.replaced = asyncio.Event()
        self.script = Script(after=self._answer)

    async def _answer(self, request: Request) -> Answer:
        await asyncio.sleep(0)  # others are asked meanwhile
        if request.path.endswith("/login"):
            self.logins += 1
            if self.logins == 2:
                self.replaced.set()
            if self.knows_nobody:
                return reply({"errors": ["service account name not authorized"]}, 403)
            auth = {
                "client_token": f"token-{self.logins}",
                "lease_duration": 3600,
                "policies": ["default", "other"],
            }
            return reply({"auth": auth})
        if request.headers["x-vault-token"] in self.refused:
            self.refusals += 1
            if self.refusals % 2 == 0:  # it arrives when another request has logged in again
                await self.replaced.wait()
            return reply({"errors": ["permission denied"]}, 403)
        if request.path.endswith("/issuers"):
            return reply({"data": {"keys": ["one"]}})
        if request.path.endswith("/json"):
            return reply({"data": {"certificate": self.root.pem.decode()}})
        asked = json.loads(request.body)
        lasts_s = int(asked["ttl"].removesuffix("s")) + BEFORE_S
        csr = x509.load_pem_x509_csr(asked["csr"].encode())
        chain = authorities.issued(
            self._pair, csr, CertificateContent(WEB, lasts_s), EPOCH_S
        ).decode()
        return reply({"data": {"certificate": chain, "ca_chain": []}})

    def authority(
        self, folder: Path, monotonic: Callable[[], float] = lambda: 0.0
    ) -> OpenBaoAuthority:
        token = folder / "token"
        claims = base64.urlsafe_b64encode(json.dumps({"sub": ACCOUNT}).encode()).rstrip(b"=")
        token.write_text(f"e30.{claims.decode()}.c2ln")
        options = SignerOptions(openbao_login_token_file=str(token))
        return OpenBaoAuthority(self.script, options, monotonic)


async def test_a_certificate_lasts_no_longer_than_wanted_with_its_back_dating(
    tmp_path: Path,
) -> None:
    server = Server()
    authority = server.authority(tmp_path)
    key, csr = cas.request(str(WEB))
    chain = await authority.sign(csr, CertificateContent(WEB, 3600))
    facts = certificates.checked(chain, server.root.pem, WEB, key.public_key(), EPOCH_S)

    assert facts.end_s - facts.begin_s == 3600


async def test_requests_in_flight_replace_a_revoked_token_once(tmp_path: Path) -> None:
    server = Server()
    authority = server.authority(tmp_path)
    _, csr = cas.request(str(WEB))
    await authority.sign(csr, CertificateContent(WEB, 3600))
    assert server.logins == 1
    server.refused.add("token-1")

    await asyncio.gather(*(authority.sign(csr, CertificateContent(WEB, 3600)) for _ in range(32)))

    assert server.logins == 2


async def test_a_login_that_cannot_be_renewed_counts_until_its_lease_ends(tmp_path: Path) -> None:
    server, now_s = Server(), 0.0
    authority = server.authority(tmp_path, lambda: now_s)
    _, csr = cas.request(str(WEB))
    await authority.sign(csr, CertificateContent(WEB, 3600))
    server.knows_nobody = True

    now_s = 2401.0  # two thirds of its lease
    await authority.sign(csr, CertificateContent(WEB, 3600))
    assert server.logins == 2
    now_s = 3601.0
    told = (
        rf"the login of {ACCOUNT} as federator-signer at auth/kubernetes \(403\): service account"
    )
    with pytest.raises(Away, match=told):
        await authority.sign(csr, CertificateContent(WEB, 3600))
    server.knows_nobody = False
    await authority.sign(csr, CertificateContent(WEB, 3600))


async def test_what_its_policies_do_not_allow_names_them_and_the_account(tmp_path: Path) -> None:
    server = Server()
    server.refused |= {"token-1", "token-2"}
    _, csr = cas.request(str(WEB))

    told = (
        rf"{ACCOUNT} \(role federator-signer, policies default, other\) may not use pki/sign/pods"
    )
    with pytest.raises(Away, match=told):
        await server.authority(tmp_path).sign(csr, CertificateContent(WEB, 3600))
