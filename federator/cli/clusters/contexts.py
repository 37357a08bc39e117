"""Reads server and credentials of one context from a user's kubeconfig, to hand them to the hub."""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from federator.model.errors import FieldError


@dataclass(frozen=True, slots=True)
class PlainContext:
    """Server and the credentials that can be handed on. Secrets are kept out of the repr."""

    server: str
    ca_pem: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    cert: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)


def plain(path: str, context: str) -> PlainContext:
    """The context of that name. Raises FieldError when it is missing or has no certificate
    authority."""
    paths = path or os.environ.get("KUBECONFIG", "") or str(Path.home() / ".kube" / "config")
    for part in paths.split(os.pathsep):
        try:
            document = yaml.safe_load(Path(part).read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError):
            continue
        if isinstance(document, Mapping) and (
            entry := _named(document, "contexts", context, "context")
        ):
            cluster = _named(document, "clusters", str(entry.get("cluster")), "cluster")
            user = _named(document, "users", str(entry.get("user")), "user")
            return _facts(cluster, user, Path(part).resolve().parent)
    raise FieldError("context", f"there is no context {context!r} in {paths}")


def _facts(cluster: Mapping[str, Any], user: Mapping[str, Any], base: Path) -> PlainContext:
    ca_pem = _bytes(cluster, "certificate-authority", base)
    if not ca_pem:
        raise FieldError(
            "cluster",
            "the context has no certificate authority; the hub needs one to verify the cluster",
        )
    return PlainContext(
        server=str(cluster.get("server", "")),
        ca_pem=ca_pem,
        token=str(user.get("token") or ""),
        cert=_bytes(user, "client-certificate", base),
        key=_bytes(user, "client-key", base),
    )


def _bytes(entry: Mapping[str, Any], name: str, base: Path) -> bytes:
    """The inline data, or the content of the named file; b"" without either. Raises FieldError."""
    inline = entry.get(f"{name}-data")
    if isinstance(inline, str) and inline:
        try:
            return base64.b64decode(inline, validate=True)
        except binascii.Error:
            raise FieldError(f"{name}-data", "is not valid base64") from None
    if isinstance(entry.get(name), str):
        try:
            return Path(base, str(entry[name])).read_bytes()
        except OSError as bad:
            raise FieldError(name, str(bad)) from None
    return b""


def _named(document: Mapping[str, Any], plural: str, name: str, singular: str) -> Mapping[str, Any]:
    for entry in document.get(plural) or ():
        if isinstance(entry, Mapping) and entry.get("name") == name:
            return entry.get(singular) or {}
    return {}
