"""What the signer asks of OpenBao, where its answers are scripted: lifetimes and logins."""

import asyncio
import json
from pathlib import Path

from cryptography import x509

from federator.kube.wire.transport import Request
from federator.runtime.identity import certificates
from federator.runtime.identity.spiffe import SpiffeId
from federator.signer import authorities
from federator.signer.authorities import BEFORE_S, CertificateContent
from federator.signer.openbao import OpenBaoAuthority
from federator.signer.options import SignerOptions
from tests.unit.embedded.inprocess import EPOCH_S
from tests.unit.kube.scripted import Answer, Script, reply
from tests.unit.signer import cas

WEB = SpiffeId("test.example", "ads", "web")


class Server:
    """An OpenBao whose role begins certificates 30 s before now, as roles do by default."""

    def __init__(self) -> None:
        self.root = cas.authority("root", EPOCH_S)
        signing = cas.authority("signing", EPOCH_S, above=self.root)
        self._pair = authorities.Pair((signing.certificate,), signing.key, self.root.pem)
        self.logins = 0
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
            auth = {"client_token": f"token-{self.logins}", "lease_duration": 3600}
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

    def authority(self, folder: Path) -> OpenBaoAuthority:
        token = folder / "token"
        token.write_text("jwt")
        options = SignerOptions(openbao_login_token_file=str(token))
        return OpenBaoAuthority(self.script, options, lambda: asyncio.get_running_loop().time())


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
