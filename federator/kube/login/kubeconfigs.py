"""The only door for kubeconfigs of member clusters: a short list of what may be in them, everything
else refused.

A member's kubeconfig comes out of a Secret that other people write. It is read by events, without
building YAML objects, so that no tag, alias or nesting can do harm; nothing in it may run a
command, name a file or another proxy.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import yaml

from federator.kube import kubeyaml, tokens
from federator.kube.wire import addresses
from federator.model import plaintext
from federator.model.errors import FieldError

SIZE_MAX = 256 * 1024
"""Largest kubeconfig that is read, in bytes."""
_NODES_MAX = 2000
_DEPTH_MAX = 10
_SHOWN = 60
"""Characters of a foreign name that a refusal repeats."""
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\.?")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")

_NULLS = ("", "~", "null", "Null", "NULL")

_FORBIDDEN: Mapping[str, str] = {
    "exec": "a member's kubeconfig may not run commands",
    "auth-provider": "a member's kubeconfig may not use an auth provider",
    "tokenFile": "a member's kubeconfig may not name files",
    "certificate-authority": (
        "a member's kubeconfig may not name files; use certificate-authority-data"
    ),
    "client-certificate": "a member's kubeconfig may not name files; use client-certificate-data",
    "client-key": "a member's kubeconfig may not name files; use client-key-data",
    "username": "basic authentication is not accepted",
    "password": "basic authentication is not accepted",
    "proxy-url": "a member's kubeconfig may not name a proxy",
}


class KubeconfigRefused(FieldError):
    """The kubeconfig is not taken. The message names the field and never quotes a value."""


@dataclass(frozen=True, slots=True)
class MemberAccess:
    """How to reach a member. Secrets do not show in its repr."""

    server: str
    ca_pem: bytes = field(repr=False)
    token: str = field(default="", repr=False)
    cert_pem: bytes = field(default=b"", repr=False)
    key_pem: bytes = field(default=b"", repr=False)
    tls_server_name: str = ""


def member_access(data: bytes, *, allow_loopback: bool = False) -> MemberAccess:
    """What a member's kubeconfig says, if it holds nothing else. Raises `KubeconfigRefused`.

    `allow_loopback` is for the sandbox only.
    """
    config = _Fields("", _plain(data))
    config.only(
        "apiVersion", "kind", "clusters", "contexts", "users", "current-context", "preferences"
    )
    if config.text("apiVersion", "v1") != "v1" or config.text("kind", "Config") != "Config":
        raise KubeconfigRefused("kind", "this is no kubeconfig")
    if config.value.get("preferences") not in (None, {}, ""):
        raise KubeconfigRefused("preferences", "must be empty")
    context = _named(config, "contexts", "context", config.text("current-context"))
    context.only("cluster", "user", "namespace")
    cluster = _named(config, "clusters", "cluster", context.text("cluster"))
    cluster.only(
        "server", "certificate-authority-data", "tls-server-name", "insecure-skip-tls-verify"
    )
    if cluster.text("insecure-skip-tls-verify", "false") != "false":
        raise KubeconfigRefused(
            cluster.at("insecure-skip-tls-verify"), "the server's certificate is always checked"
        )
    user = _named(config, "users", "user", context.text("user"))
    user.only("token", "client-certificate-data", "client-key-data")
    token, cert_pem, key_pem = _credentials(user)
    return MemberAccess(
        server=_server(cluster, allow_loopback),
        ca_pem=_pem(cluster, "certificate-authority-data", b"-----BEGIN CERTIFICATE-----"),
        token=token,
        cert_pem=cert_pem,
        key_pem=key_pem,
        tls_server_name=_host(cluster, "tls-server-name")
        if "tls-server-name" in cluster.value
        else "",
    )


def written(access: MemberAccess) -> str:
    """The kubeconfig for a Secret, in the form that `member_access` takes. Raises FieldError
    without credentials."""
    user: dict[str, str] = {}
    if access.token:
        user["token"] = access.token
    elif access.cert_pem and access.key_pem:
        user = {
            "client-certificate-data": _encoded(access.cert_pem),
            "client-key-data": _encoded(access.key_pem),
        }
    else:
        raise FieldError("user", "there is neither a token nor an inline certificate")
    cluster = {"server": access.server, "certificate-authority-data": _encoded(access.ca_pem)}
    if access.tls_server_name:
        cluster["tls-server-name"] = access.tls_server_name
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "member", "cluster": cluster}],
        "users": [{"name": "hub", "user": user}],
        "contexts": [{"name": "member", "context": {"cluster": "member", "user": "hub"}}],
        "current-context": "member",
    }
    return str(yaml.dump(config, Dumper=kubeyaml.Dumper, sort_keys=False))


def in_secret(secret: Mapping[str, Any], name: str) -> bytes:
    """The kubeconfig that the Secret of a member holds. Raises ValueError with a sentence that
    quotes nothing."""
    encoded = (secret.get("data") or {}).get("kubeconfig")
    if not isinstance(encoded, str):
        raise ValueError(f"the Secret of {name} has no key `kubeconfig`")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError(f"the kubeconfig in the Secret of {name} is no base64") from None


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode("ascii")


@dataclass(frozen=True, slots=True)
class _Fields:
    """One mapping of the document and where it stands."""

    path: str
    value: dict[str, Any]

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def only(self, *allowed: str) -> None:
        for name in self.value:
            if name not in allowed:
                unknown = (
                    "impersonation is not accepted"
                    if name[:3] in ("as", "as-")
                    else "this field is not accepted"
                )
                raise KubeconfigRefused(
                    self.at(plaintext.clipped(name, _SHOWN)), _FORBIDDEN.get(name, unknown)
                )

    def text(self, name: str, default: str | None = None) -> str:
        value = self.value.get(name, default)
        if not isinstance(value, str) or not value:
            raise KubeconfigRefused(self.at(name), "is required and must be a text")
        return value


def _named(config: _Fields, plural: str, singular: str, name: str) -> _Fields:
    """The one entry of that name in a list of named entries; every entry must look like one."""
    entries = config.value.get(plural)
    if not isinstance(entries, list):
        raise KubeconfigRefused(plural, "is required and must be a list")
    named: list[_Fields] = []
    for index, entry in enumerate(entries):
        path = f"{plural}[{index}]"
        if (
            not isinstance(entry, dict)
            or set(entry) != {"name", singular}
            or not isinstance(entry[singular], dict)
        ):
            raise KubeconfigRefused(path, f"must have a name and a {singular}, and nothing else")
        if entry["name"] == name:
            named.append(_Fields(f"{path}.{singular}", entry[singular]))
    if len(named) != 1:
        raise KubeconfigRefused(
            plural, f"{len(named)} entries have the name that is referred to; there must be one"
        )
    return named[0]


def _credentials(user: _Fields) -> tuple[str, bytes, bytes]:
    has_token = "token" in user.value
    has_cert = "client-certificate-data" in user.value or "client-key-data" in user.value
    if has_token == has_cert:
        raise KubeconfigRefused(
            user.path, "needs either a token or a client certificate with its key"
        )
    if has_cert:
        cert_pem = _pem(user, "client-certificate-data", b"-----BEGIN CERTIFICATE-----")
        return "", cert_pem, _pem(user, "client-key-data", b"PRIVATE KEY-----")
    token = user.text("token")
    if not tokens.is_bearer(token):
        raise KubeconfigRefused(user.at("token"), "is no bearer token")
    return token, b"", b""


def _server(cluster: _Fields, allow_loopback: bool) -> str:
    path = cluster.at("server")
    text = cluster.text("server")
    if not text.isascii() or not text.isprintable() or any(mark in text for mark in ' \\"<>^`{|}'):
        raise KubeconfigRefused(path, "is no address of a server")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise KubeconfigRefused(path, "is no address of a server") from None
    if parts.scheme != "https":
        raise KubeconfigRefused(path, "must begin with https://")
    if "@" in parts.netloc or parts.query or parts.fragment or "?" in text or "#" in text:
        raise KubeconfigRefused(path, "may hold a host, a port and a path only")
    if (
        not _PATH.fullmatch(parts.path)
        or "." in parts.path.split("/")
        or ".." in parts.path.split("/")
        or port == 0
    ):
        raise KubeconfigRefused(path, "is no address of a server")
    if addresses.is_literal(host):
        if "%" in host or addresses.refusal(host, allow_loopback=allow_loopback):
            raise KubeconfigRefused(path, addresses.UNUSABLE)
    elif not _HOST.fullmatch(host) or addresses.looks_numeric(host):
        raise KubeconfigRefused(path, "names no host that could be a server")
    elif not allow_loopback and host.rstrip(".").lower().rpartition(".")[2] == "localhost":
        raise KubeconfigRefused(path, addresses.UNUSABLE)
    return text.rstrip("/")


def _host(fields: _Fields, name: str) -> str:
    host = fields.text(name)
    if not addresses.is_literal(host) and not _HOST.fullmatch(host):
        raise KubeconfigRefused(fields.at(name), "is no host name")
    return host


def _pem(fields: _Fields, name: str, mark: bytes) -> bytes:
    text = "".join(fields.text(name).split())
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigRefused(fields.at(name), "is no base64") from None
    if mark not in content or not content.isascii():
        raise KubeconfigRefused(fields.at(name), "is no PEM of the right kind")
    return content


def _plain(data: bytes) -> dict[str, Any]:
    """The document as mappings, lists and texts, built from parser events; bounded in every
    direction."""
    if len(data) > SIZE_MAX:
        raise KubeconfigRefused("", f"is larger than {SIZE_MAX} bytes")
    try:
        text = data.decode("utf-8")
        root = _build(text)
    except UnicodeDecodeError:
        raise KubeconfigRefused("", "is no UTF-8 text") from None
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        if isinstance(exc, KubeconfigRefused):
            raise
        raise KubeconfigRefused("", "is no YAML that can be read") from None
    if not isinstance(root, dict):
        raise KubeconfigRefused("", "must be a mapping")
    return root


def _build(text: str) -> Any:
    builder = _Builder()
    for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        if count > _NODES_MAX:
            raise KubeconfigRefused("", f"has more than {_NODES_MAX} parts")
        builder.take(event)
    return builder.root


class _Builder:
    """Puts parser events together without recursion."""

    def __init__(self) -> None:
        self.root: Any = None
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str | None] = []
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise KubeconfigRefused("", "anchors and aliases are not accepted")
        if getattr(event, "tag", None):
            raise KubeconfigRefused("", "tags are not accepted")
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise KubeconfigRefused("", "holds more than one document")
        elif isinstance(event, yaml.ScalarEvent):
            is_null = event.style is None and event.value in _NULLS
            self._put(None if is_null else event.value, is_text=not is_null)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if len(self._open) >= _DEPTH_MAX:
                raise KubeconfigRefused("", f"is nested deeper than {_DEPTH_MAX} levels")
            started: dict[str, Any] | list[Any] = (
                {} if isinstance(event, yaml.MappingStartEvent) else []
            )
            self._put(started)
            self._open.append(started)
            self._keys.append(None)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._open.pop()
            self._keys.pop()

    def _put(self, value: Any, *, is_text: bool = False) -> None:
        if not self._open:
            self.root = value
            return
        holder = self._open[-1]
        if isinstance(holder, list):
            holder.append(value)
            return
        key = self._keys[-1]
        if key is not None:
            holder[key] = value
            self._keys[-1] = None
            return
        if not is_text:
            raise KubeconfigRefused("", "has a key that is no text")
        if value in holder:
            raise KubeconfigRefused(
                "", f"has the key {plaintext.clipped(value, _SHOWN)} twice in one place"
            )
        self._keys[-1] = value
