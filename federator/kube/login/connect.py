"""Makes a Transport from a kubeconfig, from the pod that this process runs in, or from a member's
Secret.

A person's own kubeconfig is read by kubeconfig.py; a member's access comes from
`kubeconfigs.member_access` and never touches it. Called by the CLI, the app and the hub.
"""

import asyncio
import base64
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from federator.kube import shortage
from federator.kube.login import kubeconfig, oidc, proxies, tls
from federator.kube.login.execplugin import Credential, Plugin
from federator.kube.login.kubeconfig import Chosen, NotConfigured
from federator.kube.login.kubeconfigs import MemberAccess
from federator.kube.wire.addresses import member_guard
from federator.kube.wire.http import Endpoint, HttpTransport, StaticToken

REREAD_S = 60.0
"""Files with tokens and certificates are looked at again after this long, in seconds."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


async def from_kubeconfig(path: str = "", context: str = "") -> HttpTransport:
    """The API server of a person's own kubeconfig (default: KUBECONFIG, then `~/.kube/config`).

    `context` "" takes the current one. Raises `NotConfigured`.
    """
    return HttpTransport(await (await _login(path, context)).endpoint())


@dataclass(frozen=True, slots=True)
class Door:
    """Another server than the one of the kubeconfig, which the same person is known to."""

    server: str
    """`https://HOST:PORT`."""
    ca_pem: bytes
    server_name: str
    """The name that its certificate must be for, wherever it listens."""


async def to_door(door: Door, path: str = "", context: str = "") -> HttpTransport:
    """That server, with the credentials of a context and its proxy, and nothing else of it. Raises
    `NotConfigured`."""
    return HttpTransport(await (await _login(path, context, door)).endpoint())


async def in_cluster() -> HttpTransport:
    """The API server of the cluster that this process runs in, as its service account. Raises
    `NotConfigured`."""
    try:
        host, token, ca = await asyncio.to_thread(service_account, os.environ)
        context = tls.client_context(ca_pem=await asyncio.to_thread(ca.read_bytes))
    except (OSError, ValueError) as exc:
        raise NotConfigured(f"This process does not run in a cluster: {exc}") from exc
    return HttpTransport(Endpoint(host, tls=context, credentials=TokenFile(str(token))))


def for_member(access: MemberAccess, *, allow_loopback: bool = False) -> HttpTransport:
    """The API server of a member. Raises ValueError for bad PEM, `errors.OwnShortage`."""
    with shortage.translated(access.server):
        context = tls.client_context(
            ca_pem=access.ca_pem, cert_pem=access.cert_pem, key_pem=access.key_pem
        )
    endpoint = Endpoint(
        access.server,
        tls=context,
        credentials=StaticToken(access.token),
        tls_server_name=access.tls_server_name,
        guard=member_guard(allow_loopback=allow_loopback),
        spares=True,
    )
    return HttpTransport(endpoint)


def contexts(path: str = "") -> tuple[str, ...]:
    """Names of the contexts in a kubeconfig, sorted. Raises `NotConfigured`."""
    return tuple(sorted(kubeconfig.read(path).contexts))


def service_account(environ: Mapping[str, str]) -> tuple[str, Path, Path]:
    """(host, file of the token, file of the CA) of the pod that we run in. Raises ValueError,
    OSError."""
    host, port = (
        environ.get("KUBERNETES_SERVICE_HOST", ""),
        environ.get("KUBERNETES_SERVICE_PORT", ""),
    )
    if not host or not port:
        raise ValueError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    token, ca = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
    for file in (token, ca):
        if not file.read_bytes():
            raise ValueError(f"{file} is empty")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", token, ca


class TokenFile:
    """A bearer token in a file that is renewed from outside (a projected service account token).
    `instead` is shown until the file has been read once."""

    __slots__ = ("_header", "_path", "_read_at")
    certificates = 0

    def __init__(self, path: str, instead: str = "") -> None:
        self._path = path
        self._header = f"Bearer {instead}" if instead else ""
        self._read_at = -REREAD_S

    async def authorization(self) -> str:
        """The header, read again at most once a minute. What was read last counts while the file
        cannot be read. Raises OSError, ValueError."""
        if not self._header or asyncio.get_running_loop().time() - self._read_at >= REREAD_S:
            try:
                await self.refresh()
            except (OSError, ValueError):
                if not self._header:
                    raise
        return self._header

    async def refresh(self) -> bool:
        """Reads the file now; True when it holds another token. Raises OSError, ValueError."""
        token = (await asyncio.to_thread(Path(self._path).read_text, encoding="ascii")).strip()
        if not token:
            raise ValueError("the file of the token is empty")
        header = f"Bearer {token}"
        changed = header != self._header
        self._header, self._read_at = header, asyncio.get_running_loop().time()
        return changed


async def _login(path: str, context: str, door: Door | None = None) -> "_Login":
    def chosen() -> Chosen:
        return kubeconfig.choose(kubeconfig.read(path), context)

    return _Login(await asyncio.to_thread(chosen), chosen, door)


class _Login:
    """One context of a person's kubeconfig: its credentials, and how they are renewed. `again`
    reads it again. `door`: they are shown there. Raises `NotConfigured`.

    As in kubectl, credentials go over TLS only, and a plugin runs only where the user has neither
    a token nor a password nor a certificate.
    """

    def __init__(
        self, chosen: Chosen, again: Callable[[], Chosen], door: Door | None = None
    ) -> None:
        cluster, self._user = chosen.cluster, chosen.user
        self._again = again
        self._server = door.server if door is not None else cluster["server"].rstrip("/")
        self._cluster = cluster
        self._door = door
        self._secure = self._server.startswith("https://")
        self._proxy = proxies.proxy_of(self._server, cluster.get("proxy-url", ""), os.environ)
        self._impersonation = kubeconfig.impersonation(self._user)
        if door is not None and self._impersonation:
            raise NotConfigured(
                f"The user {kubeconfig.shown(chosen.user_name)} of the kubeconfig acts as another"
                " user (`as`), which the query port of the leader does not offer. Use a context"
                " that does not."
            )
        self._token_file = self._file_of_token()
        self._plugin = Plugin(chosen, self._proxy) if self._needs("exec") else None
        self._credential = Credential()
        self._header = self._written_header()
        self._files: dict[str, float] = {}
        self._looked_at = 0.0
        self._shown = (b"", b"")
        """Certificate and key that new connections show."""
        self.certificates = 0
        self._tls: ssl.SSLContext | None = None
        self._renewing: asyncio.Task[bool] | None = None

    async def endpoint(self) -> Endpoint:
        """Where to go and how, the credentials being this object. Raises `NotConfigured`."""
        if self._secure:
            if self._token_file is not None:
                await self._read_token(self._token_file)
            await self._take_credentials()
            self._tls = await asyncio.to_thread(self._tls_context)
        self._looked_at = asyncio.get_running_loop().time()
        return Endpoint(
            self._server,
            tls=self._tls,
            credentials=self,
            impersonation=self._impersonation,
            tls_server_name=self._server_name(),
            proxy=self._proxy,
        )

    async def authorization(self) -> str:
        """The header. Changed certificate files are loaded for new connections; a plugin runs again
        when its credential has expired."""
        now = asyncio.get_running_loop().time()
        if self._files and now - self._looked_at >= REREAD_S:
            self._looked_at = now
            if await asyncio.to_thread(_ages, tuple(self._files)) != self._files:
                await self.refresh()
        if self._credential.expires_s is not None and time.time() > self._credential.expires_s:
            await self.refresh()
        if self._secure and self._token_file is not None:
            return await self._token_file.authorization()
        return self._header

    async def refresh(self) -> bool:
        """Reads files and runs the credential plugin again; True when something is new.

        One run serves all callers meanwhile. It goes on when the callers have no time left: a
        renewal of the lease has less time than some plugins take.
        """
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(), name="login")
            # All callers may be gone. The exception is retrieved all the same.
            self._renewing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(self._renewing)

    async def _renew(self) -> bool:
        before = (self._header, self._files, self._credential)
        is_new = self._token_file is not None and await self._token_file.refresh()
        await self._take_credentials()
        if self._tls is not None:
            pair = await asyncio.to_thread(self._pair)
            if pair[0] and pair != self._shown:
                tls.load_certificate(self._tls, *pair)
                self._shown = pair
                self.certificates += 1
        return is_new or before != (self._header, self._files, self._credential)

    async def _take_credentials(self) -> None:
        if self._plugin is not None or self._needs("auth-provider"):
            self._credential = await self._credentials()
            token = self._credential.token
            self._header = f"Bearer {token}" if token else ""
        named = [
            self._user[name] for name in ("client-certificate", "client-key") if name in self._user
        ]
        self._files = await asyncio.to_thread(_ages, tuple(named))

    async def _read_token(self, file: TokenFile) -> None:
        try:
            await file.authorization()
        except (OSError, ValueError) as exc:
            raise NotConfigured(f"The kubeconfig's tokenFile cannot be read: {exc}.") from exc

    def _file_of_token(self) -> TokenFile | None:
        if "tokenFile" not in self._user:
            return None
        return TokenFile(self._user["tokenFile"], self._user.get("token", ""))

    async def _credentials(self) -> Credential:
        """What the plugin answers, or the ID token that kubectl has written into the kubeconfig."""
        if self._plugin is not None:
            return await self._plugin.run()
        chosen = await asyncio.to_thread(self._again)
        return await oidc.login(chosen.user, chosen.user_name)

    def _needs(self, how: str) -> bool:
        others = ("token", "tokenFile", "username", "password", "client-certificate")
        return (
            self._secure
            and how in self._user
            and not any(name in self._user for name in (*others, "client-certificate-data"))
        )

    def _written_header(self) -> str:
        """The header that the kubeconfig itself spells out."""
        user = self._user
        if not self._secure:
            return ""
        if "token" in user:
            return f"Bearer {user['token']}"
        if "username" in user or "password" in user:
            pair = f"{user.get('username', '')}:{user.get('password', '')}"
            return f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
        return ""

    def _server_name(self) -> str:
        if self._door is not None:
            return self._door.server_name
        return str(self._cluster.get("tls-server-name", ""))

    def _tls_context(self) -> ssl.SSLContext:
        cluster = self._cluster
        if self._door is not None:
            ca_pem, verify = self._door.ca_pem, True
        else:
            ca_pem = _content(cluster, "certificate-authority")
            verify = not cluster.get("insecure-skip-tls-verify", False)
        self._shown = cert_pem, key_pem = self._pair()
        try:
            return tls.client_context(
                ca_pem=ca_pem, cert_pem=cert_pem, key_pem=key_pem, verify=verify
            )
        except ValueError as exc:
            raise NotConfigured(f"The kubeconfig cannot be used: {exc}.") from exc

    def _pair(self) -> tuple[bytes, bytes]:
        """Certificate and key, both empty for none."""
        if self._plugin is not None:
            return self._credential.cert_pem, self._credential.key_pem
        certificate = _content(self._user, "client-certificate")
        return (certificate, _content(self._user, "client-key")) if certificate else (b"", b"")


def _content(fields: Mapping[str, Any], name: str) -> bytes:
    """Inline data, or the content of the file that is named; b"" without either."""
    if f"{name}-data" in fields:
        return bytes(fields[f"{name}-data"])
    if name not in fields:
        return b""
    try:
        return Path(fields[name]).read_bytes()
    except OSError as exc:
        raise NotConfigured(
            f"The kubeconfig's {name} cannot be read: {exc.strerror or exc}."
        ) from exc


def _ages(paths: tuple[str, ...]) -> dict[str, float]:
    ages = {}
    for path in paths:
        try:
            ages[path] = os.stat(path).st_mtime
        except OSError:
            ages[path] = 0.0
    return ages
