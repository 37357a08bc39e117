"""What a person's kubeconfig says of one context in plain values: needed to hand a cluster over to the hub."""

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
    """Server and those credentials that can be handed on. Secrets do not show in its repr."""

    server: str
    ca_pem: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    cert: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)


def plain(path: str, context: str) -> PlainContext:
    """The context's facts. Raises FieldError when it is not there or names no authority."""
    given = path or os.environ.get("KUBECONFIG", "") or str(Path.home() / ".kube" / "config")
    for part in given.split(os.pathsep):
        try:
            document = yaml.safe_load(Path(part).read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError):
            continue
        if isinstance(document, Mapping) and (found := _named(document, "contexts", context, "context")):
            cluster = _named(document, "clusters", str(found.get("cluster")), "cluster")
            user = _named(document, "users", str(found.get("user")), "user")
            return _facts(cluster, user, Path(part).resolve().parent)
    raise FieldError("context", f"there is no context {context!r} in {given}")


def _facts(cluster: Mapping[str, Any], user: Mapping[str, Any], base: Path) -> PlainContext:
    ca_pem = _bytes(cluster, "certificate-authority", base)
    if not ca_pem:
        raise FieldError(
            "cluster", "the context names no certificate authority; the hub needs one to know the cluster by"
        )
    return PlainContext(
        server=str(cluster.get("server", "")),
        ca_pem=ca_pem,
        token=str(user.get("token") or ""),
        cert=_bytes(user, "client-certificate", base),
        key=_bytes(user, "client-key", base),
    )


def _bytes(entry: Mapping[str, Any], name: str, base: Path) -> bytes:
    """Inline data, or the content of the file that is named."""
    inline = entry.get(f"{name}-data")
    if isinstance(inline, str) and inline:
        try:
            return base64.b64decode(inline, validate=True)
        except binascii.Error:
            raise FieldError(f"{name}-data", "is no base64") from None
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
