"""Makes a Transport from a kubeconfig, from the pod that this process runs in, or from a member's
Secret.

Of a person's own file, what is not plain (exec, OIDC and GCP included) goes through
kubernetes_asyncio's loader; a member's access comes from `kubeconfigs.member_access` and never
touches it. Called by the CLI, the app and the hub.
"""

import asyncio
import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from federator.kube import shortage
from federator.kube.login import kubeconfig_users, tls
from federator.kube.login.kubeconfig_users import Login
from federator.kube.login.kubeconfigs import MemberAccess
from federator.kube.wire.addresses import member_guard
from federator.kube.wire.http import Endpoint, HttpTransport, StaticToken

REREAD_S = 60.0
"""Files with tokens and certificates are looked at again after this long, in seconds."""
EXEC_S = 60.0
"""Longest time that a credential plugin of the person's own kubeconfig may take, in seconds."""
_FILES = ("certificate-authority", "client-certificate", "client-key")


class NotConfigured(ValueError):
    """No usable configuration; the message is for the person at the terminal."""


async def from_kubeconfig(path: str = "", context: str = "") -> HttpTransport:
    """The API server of a person's own kubeconfig (default: KUBECONFIG, then `~/.kube/config`).

    `context` "" takes the current one. Raises `NotConfigured`.
    """
    login = _Login(_merged(path), context)
    endpoint = await login.endpoint()
    return HttpTransport(endpoint)


@dataclass(frozen=True, slots=True)
class Door:
    """Another server than the one of the kubeconfig, which the same person is known to."""

    server: str
    """`https://HOST:PORT`."""
    ca_pem: bytes
    server_name: str
    """The name that its certificate must be for, wherever it listens."""


async def to_door(door: Door, path: str = "", context: str = "") -> HttpTransport:
    """That server, with the credentials of a context and nothing else of it. Raises
    `NotConfigured`."""
    return HttpTransport(await _Login(_merged(path), context, door).endpoint())


async def in_cluster() -> HttpTransport:
    """The API server of the cluster that this process runs in, as its service account. Raises
    `NotConfigured`."""
    try:
        host, token, ca = await asyncio.to_thread(kubeconfig_users.service_account, os.environ)
        context = tls.client_context(ca_pem=await asyncio.to_thread(ca.read_bytes))
    except (OSError, ValueError) as exc:
        raise NotConfigured(f"This process does not run in a cluster: {exc}") from exc
    return HttpTransport(Endpoint(host, tls=context, credentials=TokenFile(str(token))))


def for_member(
    access: MemberAccess, *, allow_loopback: bool = False, denied: Sequence[str] = ()
) -> HttpTransport:
    """The API server of a member. `denied` names networks that no member lives in. Raises
    ValueError for bad PEM, `errors.OwnShortage`."""
    with shortage.translated(access.server):
        context = tls.client_context(
            ca_pem=access.ca_pem, cert_pem=access.cert_pem, key_pem=access.key_pem
        )
    endpoint = Endpoint(
        access.server,
        tls=context,
        credentials=StaticToken(access.token),
        tls_server_name=access.tls_server_name,
        guard=member_guard(allow_loopback=allow_loopback, denied=denied),
        spares=True,
    )
    return HttpTransport(endpoint)


def contexts(path: str = "") -> tuple[str, ...]:
    """Names of the contexts in a kubeconfig, sorted. Raises `NotConfigured`."""
    entries = _merged(path).get("contexts") or []
    return tuple(
        sorted(
            str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry
        )
    )


class TokenFile:
    """A bearer token in a file that is renewed from outside (a projected service account token)."""

    __slots__ = ("_header", "_path", "_read_at")

    def __init__(self, path: str) -> None:
        self._path = path
        self._header = ""
        self._read_at = -REREAD_S

    async def authorization(self) -> str:
        """The header, read again at most once a minute. Raises OSError."""
        if not self._header or asyncio.get_running_loop().time() - self._read_at >= REREAD_S:
            await self.refresh()
        return self._header

    async def refresh(self) -> bool:
        """Reads the file now; True when it holds another token. Raises OSError."""
        token = (await asyncio.to_thread(Path(self._path).read_text, encoding="ascii")).strip()
        header = f"Bearer {token}"
        changed = header != self._header
        self._header, self._read_at = header, asyncio.get_running_loop().time()
        return changed


class _Login:
    """One context of a person's kubeconfig: loads it, and again when credentials run out. `door`:
    it is shown there."""

    def __init__(self, config: dict[str, Any], context: str, door: Door | None = None) -> None:
        self._config = config
        self._context = context
        self._door = door
        self._header = ""
        self._files: dict[str, float] = {}
        self._looked_at = 0.0
        self._tls: ssl.SSLContext | None = None
        self._renewing: asyncio.Task[bool] | None = None

    async def endpoint(self) -> Endpoint:
        """Where to go and how, the credentials being this object. Raises `NotConfigured`."""
        # mode 0700, gone when the context is made
        with tempfile.TemporaryDirectory(prefix="federator-") as private:
            login = await self._load(private)
            secure = login.host.startswith("https://")
            self._tls = await asyncio.to_thread(_tls_context, login) if secure else None
        self._looked_at = asyncio.get_running_loop().time()
        return Endpoint(
            login.host,
            tls=self._tls,
            credentials=self,
            tls_server_name=login.tls_server_name,
            proxy=login.proxy,
        )

    async def authorization(self) -> str:
        """The header; certificate files that have changed are loaded for new connections."""
        now = asyncio.get_running_loop().time()
        if self._files and now - self._looked_at >= REREAD_S:
            self._looked_at = now
            if await asyncio.to_thread(_ages, tuple(self._files)) != self._files:
                await self.refresh()
        return self._header

    async def refresh(self) -> bool:
        """Runs the loader (and with it a credential plugin) again; True when something is new.

        One run serves all who ask meanwhile. It goes on when those have no time left: a renewal of
        the lease has less than many a plugin takes.
        """
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(), name="login")
            # Those who asked may all have gone: what it raises is seen all the same.
            self._renewing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(self._renewing)

    async def _renew(self) -> bool:
        header, files = self._header, self._files
        with tempfile.TemporaryDirectory(prefix="federator-") as private:
            login = await self._load(private)
            if self._tls is not None and login.cert_file:
                cert_pem, key_pem = await asyncio.to_thread(_pair, login)
                tls.load_certificate(self._tls, cert_pem, key_pem)
        return (header, files) != (self._header, self._files)

    async def _load(self, private: str) -> Login:
        prepared = _with_files(self._config, private)
        login = kubeconfig_users.login(prepared, self._context) or await self._loaded(
            prepared, private
        )
        if self._door is not None:
            authority = os.path.join(private, "door-ca.pem")
            await asyncio.to_thread(Path(authority).write_bytes, self._door.ca_pem)
            login = replace(
                login,
                host=self._door.server,
                ca_file=authority,
                verify=True,
                tls_server_name=self._door.server_name,
            )
        self._header = login.header
        named = [
            path
            for path in (login.cert_file, login.key_file)
            if path and not path.startswith(private)
        ]
        self._files = await asyncio.to_thread(_ages, tuple(named))
        return login

    async def _loaded(self, prepared: dict[str, Any], private: str) -> Login:
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import ConfigException
        from kubernetes_asyncio.config.kube_config import KubeConfigLoader

        loaded = Configuration()
        try:
            loader = KubeConfigLoader(
                config_dict=prepared,
                active_context=self._context or None,
                config_base_path="",
                temp_file_path=private,
            )
            async with asyncio.timeout(EXEC_S):
                await loader.load_and_set(loaded)
        except (ConfigException, OSError, ValueError, KeyError, TypeError, TimeoutError) as exc:
            raise NotConfigured(
                f"The kubeconfig cannot be used: {exc or type(exc).__name__}"
            ) from exc
        return Login(
            str(loaded.host),
            header=loaded.api_key.get("BearerToken") or "",
            ca_file=loaded.ssl_ca_cert or "",
            cert_file=loaded.cert_file or "",
            key_file=loaded.key_file or "",
            verify=loaded.verify_ssl,
            tls_server_name=loaded.tls_server_name or "",
            proxy=loaded.proxy or "",
        )


def _merged(path: str) -> dict[str, Any]:
    """All kubeconfig files of `path` as one, relative file names made absolute. Raises
    `NotConfigured`."""
    given = path or os.environ.get("KUBECONFIG", "") or str(Path.home() / ".kube" / "config")
    config: dict[str, Any] = {"current-context": None, "clusters": [], "contexts": [], "users": []}
    try:
        documents = kubeconfig_users.documents(given)
        # As kubectl: what the first file says of a name, and the first current context, win.
        for file, content in documents:
            config["current-context"] = config["current-context"] or content.get("current-context")
            for plural, singular in (
                ("clusters", "cluster"),
                ("contexts", "context"),
                ("users", "user"),
            ):
                for entry in content.get(plural) or []:
                    if all(present["name"] != entry["name"] for present in config[plural]):
                        config[plural].append(_absolute(entry, singular, file))
    except Exception as exc:  # YAML and attribute errors of all kinds
        raise NotConfigured(
            f"The kubeconfig {given} cannot be read ({type(exc).__name__})."
        ) from exc
    if not documents:
        raise NotConfigured(f"There is no kubeconfig at {given}.")
    return config


def _absolute(entry: Mapping[str, Any], singular: str, file: str) -> dict[str, Any]:
    """One named entry; its file names are relative to the kubeconfig that it stands in."""
    base = os.path.dirname(os.path.abspath(file))
    inner = dict(entry.get(singular) or {})
    for name in (*_FILES, "tokenFile"):
        if isinstance(inner.get(name), str) and inner[name]:
            inner[name] = os.path.join(base, inner[name])
    return {"name": entry["name"], singular: inner}


def _with_files(config: Mapping[str, Any], private: str) -> dict[str, Any]:
    """A copy whose inline certificates are files in `private`: the loader leaks a descriptor for
    each inline one."""
    prepared = dict(config)
    for plural, singular in (("clusters", "cluster"), ("users", "user")):
        entries = []
        for index, entry in enumerate(config[plural]):
            inner = dict(entry[singular])
            for name in _FILES:
                inline = inner.pop(f"{name}-data", None)
                if inline:
                    inner[name] = os.path.join(private, f"{plural}-{index}-{name}")
                    Path(inner[name]).write_bytes(_decoded(str(inline), name))
            entries.append({"name": entry["name"], singular: inner})
        prepared[plural] = entries
    return prepared


def _decoded(inline: str, name: str) -> bytes:
    try:
        return base64.b64decode(inline)
    except (binascii.Error, ValueError) as exc:
        raise NotConfigured(f"The kubeconfig's {name}-data is no base64.") from exc


def _tls_context(login: Login) -> ssl.SSLContext:
    ca_pem = Path(login.ca_file).read_bytes() if login.ca_file else b""
    cert_pem, key_pem = _pair(login) if login.cert_file else (b"", b"")
    try:
        return tls.client_context(
            ca_pem=ca_pem, cert_pem=cert_pem, key_pem=key_pem, verify=login.verify
        )
    except ValueError as exc:
        raise NotConfigured(f"The kubeconfig cannot be used: {exc}.") from exc


def _pair(login: Login) -> tuple[bytes, bytes]:
    try:
        return Path(login.cert_file).read_bytes(), Path(login.key_file).read_bytes()
    except (OSError, TypeError) as exc:
        raise NotConfigured("The kubeconfig's client certificate or key cannot be read.") from exc


def _ages(paths: tuple[str, ...]) -> dict[str, float]:
    ages = {}
    for path in paths:
        try:
            ages[path] = os.stat(path).st_mtime
        except OSError:
            ages[path] = 0.0
    return ages
