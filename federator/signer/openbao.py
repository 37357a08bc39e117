"""The authority behind the API of OpenBao (and Vault): its PKI engine, by a role that only allows
SPIFFE ids of the trust domain.

Sources: OpenBao API documentation, "PKI secrets engine" (Sign certificate, Read issuer, List
issuers) and "Kubernetes auth method" (Login).
"""

import asyncio
import base64
import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from federator.kube import errors
from federator.kube.login import tls
from federator.kube.wire.http import Endpoint, HttpTransport
from federator.kube.wire.transport import Request, Transport
from federator.runtime.identity import certificates
from federator.runtime.identity.authority import Away
from federator.runtime.identity.certificates import CertificateRefused
from federator.signer.authorities import BEFORE_S, CertificateContent
from federator.signer.options import SignerOptions

log = logging.getLogger(__name__)

ANSWER_S: Final = 10.0
SILENCE_S: Final = 5.0
BODY_MAX: Final = 1 << 19
ISSUERS_MAX: Final = 32
LOGIN_SHARE: Final = 2 / 3
"""A login is renewed after this share of its lease."""
AGAIN_S: Final = 10.0
"""A login that fails is tried again after so many seconds, while the one before lasts."""
LEASE_MAX_S: Final = 30 * 86_400
BUNDLE_S: Final = 60.0
"""The roots are read again after so many seconds."""
_DENIED: Final = 403


@dataclass(frozen=True, slots=True)
class _Shown:
    """A token that is shown to OpenBao."""

    token: str = field(repr=False)
    principal: str
    """The account it belongs to, in the words of messages."""
    renewed_s: float
    """From then on another one is asked for. Monotonic."""
    until_s: float
    """The end of its lease. Monotonic."""


class OpenBaoAuthority:
    """Signs by `MOUNT/sign/ROLE`. `connect` is a transport to the address; closed with this."""

    def __init__(
        self, transport: Transport, options: SignerOptions, monotonic: Callable[[], float]
    ) -> None:
        self._transport = transport
        self._options = options
        self._monotonic = monotonic
        self._shown: _Shown | None = None
        self._login = asyncio.Lock()
        self._bundle = b""
        self._bundle_until_s = 0.0

    async def sign(self, csr: x509.CertificateSigningRequest, wanted: CertificateContent) -> bytes:
        options = self._options
        body = {
            "csr": csr.public_bytes(serialization.Encoding.PEM).decode("ascii"),
            "common_name": wanted.common_name,
            "uri_sans": str(wanted.id),
            "alt_names": ",".join(wanted.dns),
            "user_ids": ",".join(wanted.claims),
            # OpenBao counts from now, and the certificate begins before.
            "ttl": f"{wanted.lifetime_s - BEFORE_S}s",
            "exclude_cn_from_sans": True,
            "remove_roots_from_chain": True,
        }
        path = f"/v1/{options.openbao_mount}/sign/{options.openbao_role}"
        data = await self._ask("POST", path, body)
        leaf, chain = data.get("certificate"), data.get("ca_chain") or []
        if not isinstance(leaf, str) or not isinstance(chain, list):
            raise Away("the answer of OpenBao has no certificate")
        roots = certificates.read_chain(await self.bundle(), "the roots in OpenBao")
        parts = certificates.read_chain("\n".join([leaf, *map(str, chain)]).encode(), "its answer")
        kept = [each for each in parts if each not in roots]
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in kept)

    async def bundle(self) -> bytes:
        """Every root that an issuer of the mount stands on: the old and the new one during a
        rotation."""
        if self._bundle and self._monotonic() < self._bundle_until_s:
            return self._bundle
        try:
            self._bundle = await self._read_roots()
        except Away as bad:
            if not self._bundle:
                raise
            log.warning("the roots in OpenBao cannot be read: %s; those before are used", bad)
        self._bundle_until_s = self._monotonic() + BUNDLE_S
        return self._bundle

    async def close(self) -> None:
        await self._transport.close()

    async def _read_roots(self) -> bytes:
        mount = f"/v1/{self._options.openbao_mount}"
        listed = await self._ask("GET", f"{mount}/issuers", query=(("list", "true"),))
        keys = [str(key) for key in listed.get("keys") or ()][:ISSUERS_MAX]
        roots: list[bytes] = []
        for key in sorted(keys):
            data = await self._ask("GET", f"{mount}/issuer/{key}/json")
            pems = [str(data.get("certificate", "")), *map(str, data.get("ca_chain") or ())]
            chain = certificates.read_chain("\n".join(pems).encode(), f"issuer {key} in OpenBao")
            roots += [
                each.public_bytes(serialization.Encoding.PEM)
                for each in chain
                if each.subject == each.issuer
            ]
        if not roots:
            raise Away(f"no issuer of {self._options.openbao_mount} in OpenBao has its root there")
        return certificates.joined(*roots)

    # -- requests -------------------------------------------------------------

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: tuple[tuple[str, str], ...] = (),
    ) -> dict[str, Any]:
        """The `data` of an answer. A token that is refused is replaced once. Raises
        CertificateRefused, Away."""
        shown = await self._present()
        status, document = await self._once(method, path, body, query, shown.token)
        if status == _DENIED:
            if shown is self._shown:  # another request may have replaced it already
                self._shown = None
            shown = await self._present()
            status, document = await self._once(method, path, body, query, shown.token)
        if status < 300:
            data = document.get("data")
            return data if isinstance(data, dict) else {}
        why = _why(document)
        where = f"OpenBao ({self._options.openbao_mount}/{self._options.openbao_role})"
        if status == 400:
            raise CertificateRefused("AuthorityRefuses", f"{where} refuses: {why}")
        if status == _DENIED:
            path = path.removeprefix("/v1/")
            raise Away(f"{where} answers 403: {shown.principal} may not use {path}: {why}")
        raise Away(f"{where} answers {status}: {why}")

    async def _once(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: tuple[tuple[str, str], ...],
        token: str,
    ) -> tuple[int, dict[str, Any]]:
        """Raises Away."""
        headers = {"content-type": "application/json", "x-vault-request": "true"}
        if token:
            headers["x-vault-token"] = token
        sent = msgspec.json.encode(body) if body is not None else b""
        request = Request(method, path, query, headers, sent, SILENCE_S, ANSWER_S)
        try:
            response = await self._transport.request(request)
            try:
                content = await response.read(BODY_MAX)
            finally:
                await response.close()
        except errors.ApiError as bad:
            raise Away(f"OpenBao does not answer: {bad}") from None
        try:
            document = msgspec.json.decode(content) if content else {}
        except msgspec.DecodeError:
            document = {}
        return response.status, document if isinstance(document, dict) else {}

    async def _present(self) -> _Shown:
        """The token to show. A new login that fails does not end the one before. Raises Away."""
        async with self._login:
            now_s, shown = self._monotonic(), self._shown
            if shown is not None and now_s < shown.renewed_s:
                return shown
            file = self._options.openbao_token_file
            if file:
                token = await asyncio.to_thread(_text, file)
                made = _Shown(token, f"the token in {file}", now_s + BUNDLE_S, now_s + BUNDLE_S)
            else:
                try:
                    made = await self._logged_in()
                except Away as bad:
                    if shown is None or now_s >= shown.until_s:
                        raise
                    log.warning("%s; the login before is used", bad)
                    made = dataclasses.replace(shown, renewed_s=now_s + AGAIN_S)
            self._shown = made
            return made

    async def _logged_in(self) -> _Shown:
        """Raises Away, which names the service account and the role."""
        mount, role = self._options.openbao_login_mount, self._options.openbao_login_role
        jwt = await asyncio.to_thread(_text, self._options.openbao_login_token_file)
        account = _subject(jwt)
        path = f"/v1/auth/{mount}/login"
        status, document = await self._once("POST", path, {"role": role, "jwt": jwt}, (), "")
        auth = document.get("auth") if status < 300 else None
        if not isinstance(auth, dict) or not isinstance(auth.get("client_token"), str):
            login = f"the login of {account} as {role} at auth/{mount}"
            raise Away(f"OpenBao refuses {login} ({status}): {_why(document)}")
        lease = auth.get("lease_duration")
        lease_s = min(lease, LEASE_MAX_S) if isinstance(lease, int) and lease > 0 else BUNDLE_S
        policies = auth.get("policies")
        names = ", ".join(map(str, policies)) if isinstance(policies, list) else ""
        principal = f"{account} (role {role}, policies {names or 'none'})"
        now_s = self._monotonic()
        return _Shown(
            auth["client_token"], principal, now_s + lease_s * LOGIN_SHARE, now_s + lease_s
        )


def _subject(jwt: str) -> str:
    """The account that a token names, for messages: OpenBao has the token reviewed."""
    try:
        payload = jwt.split(".")[1]
        padded = payload + "=" * (-len(payload) % 4)
        return str(msgspec.json.decode(base64.urlsafe_b64decode(padded))["sub"])[:300]
    except (IndexError, KeyError, TypeError, ValueError):
        return "a token that names nobody"


def _why(document: Mapping[str, Any]) -> str:
    """The errors of an answer on one line."""
    said = "; ".join(str(each) for each in document.get("errors") or ())
    return " ".join(said.split())[:300] or "no reason given"


def _text(path: str) -> str:
    try:
        return Path(path).read_text("ascii").strip()
    except (OSError, ValueError) as bad:
        raise Away(f"the token for OpenBao cannot be read: {type(bad).__name__}: {path}") from None


def connected(options: SignerOptions) -> HttpTransport:
    """A transport to the address of the options. Raises ValueError for a bad file of
    certificates, OSError for one that cannot be read."""
    context = None
    if options.openbao_address.startswith("https://"):
        file = options.openbao_ca_file
        context = tls.client_context(ca_pem=Path(file).read_bytes() if file else b"")
    return HttpTransport(Endpoint(options.openbao_address, tls=context))
