"""Reads server and credentials of one context from a user's kubeconfig, to hand them to the hub."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from federator.kube.login import kubeconfig
from federator.kube.login.kubeconfigs import MemberAccess
from federator.model.errors import FieldError


@dataclass(frozen=True, slots=True)
class PlainContext:
    """Server and the credentials that can be handed on. Secrets are kept out of the repr."""

    server: str
    ca_pem: bytes = field(default=b"", repr=False)
    tls_server_name: str = ""
    token: str = field(default="", repr=False)
    cert: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    def access(self, token: str) -> MemberAccess:
        """The member with this token of the hub's account; with the credentials of the context
        where that is ""."""
        token = token or self.token
        cert, key = (b"", b"") if token else (self.cert, self.key)
        return MemberAccess(self.server, self.ca_pem, token, cert, key, self.tls_server_name)


def plain(path: str, context: str) -> PlainContext:
    """The context of that name. Raises FieldError when it is missing or has no certificate
    authority.

    Credentials of a context that acts as another user (`as`) are left out: the hub would have the
    rights of the user behind it.
    """
    try:
        chosen = kubeconfig.choose(kubeconfig.read(path), context)
    except kubeconfig.NotConfigured as bad:
        raise FieldError("context", str(bad)) from None
    ca_pem = _bytes(chosen.cluster, "certificate-authority")
    if not ca_pem:
        raise FieldError(
            "cluster",
            "the context has no certificate authority; the hub needs one to verify the cluster",
        )
    user = {} if chosen.user.get("as") else chosen.user
    return PlainContext(
        server=chosen.cluster["server"],
        ca_pem=ca_pem,
        tls_server_name=chosen.cluster.get("tls-server-name", ""),
        token=user.get("token", ""),
        cert=_bytes(user, "client-certificate"),
        key=_bytes(user, "client-key"),
    )


def _bytes(fields: Mapping[str, Any], name: str) -> bytes:
    """The inline data, or the content of the named file; b"" without either. Raises FieldError."""
    if f"{name}-data" in fields:
        return bytes(fields[f"{name}-data"])
    if name not in fields:
        return b""
    try:
        return Path(fields[name]).read_bytes()
    except OSError as bad:
        raise FieldError(name, str(bad)) from None
