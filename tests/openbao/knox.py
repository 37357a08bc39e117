"""A server that answers as Pinterest's Knox does (`server/routes.go` there): keys with versions and
access lists, and principals by the SPIFFE id in the certificate of the connection."""

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509

from federator.kube import selfsigned

CODES = {200: 0, 401: 5, 403: 6, 404: 4}
NOW_S = 1_700_000_000.0


@dataclass
class Knox:
    """Keys by id; `readers` has the SPIFFE ids or their beginnings (a ServicePrefix)."""

    keys: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    readers: dict[str, list[str]] = field(default_factory=dict)
    away: bool = False

    def put(self, name: str, data: bytes) -> None:
        """A new primary version; the former one stays active."""
        versions = self.keys.setdefault(name, [])
        for version in versions:
            version["status"] = "Active"
        number = len(versions) + 1
        text = base64.b64encode(data).decode()
        versions.append({"id": number, "data": text, "status": "Primary", "ts": 0})

    def hash_of(self, name: str) -> str:
        return f"hash-{len(self.keys[name])}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.away:
            return web.Response(status=502)
        principal = _principal(request)
        if not principal or not request.headers.get("Authorization", "").startswith("0s"):
            return _answer(401, None)
        name = request.path.removeprefix("/v0/keys/").rstrip("/")
        if not name:
            asked: Mapping[str, str] = request.query
            changed = [k for k, v in asked.items() if k in self.keys and self.hash_of(k) != v]
            return _answer(200, changed)
        if name not in self.keys:
            return _answer(404, None)
        if not any(principal.startswith(reader) for reader in self.readers.get(name, ())):
            return _answer(403, None)
        key = {"id": name, "acl": [], "versions": self.keys[name], "hash": self.hash_of(name)}
        return _answer(200, key)


def _answer(status: int, data: Any) -> web.Response:
    words = {"status": "ok" if status == 200 else "error", "code": CODES[status], "host": "knox"}
    return web.json_response({**words, "ts": 0, "message": "", "data": data}, status=status)


def _principal(request: web.Request) -> str:
    assert request.transport is not None
    tls = request.transport.get_extra_info("ssl_object")
    der = tls.getpeercert(binary_form=True) if tls is not None else None
    if not der:
        return ""
    names = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return str(names.value.get_values_for_type(x509.UniformResourceIdentifier)[0])


@contextlib.asynccontextmanager
async def serving(knox: Knox, folder: Path, clients: str) -> AsyncIterator[tuple[str, str]]:
    """(address, PEM of its authority); `clients`: PEM of the authority of pods."""
    shown = selfsigned.made("knox", dns=["localhost"], addresses=["127.0.0.1"], now_s=NOW_S)
    (folder / "knox.crt").write_bytes(shown.cert_pem)
    (folder / "knox.key").write_bytes(shown.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=clients)
    context.load_cert_chain(folder / "knox.crt", folder / "knox.key")
    context.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", knox.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield f"https://127.0.0.1:{runner.addresses[0][1]}", shown.ca_pem.decode()
    finally:
        await runner.cleanup()
