"""What is read of kubeconfigs and of a pod's service account without any library: the files, and
logins that need no program and no token service.

kubernetes_asyncio reads these too, but to import it takes 35 MB and a second of processor time, for
the models of every API: a hub that has a plain login is spared that. Called by connect.py, which
leaves everything else to the library.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CLUSTER = {"server": str, "certificate-authority": str, "tls-server-name": str, "proxy-url": str}
_USER = {"token": str, "client-certificate": str, "client-key": str}
_FILES = ("certificate-authority", "client-certificate", "client-key")


@dataclass(frozen=True, slots=True)
class Login:
    """How to reach a server. Certificates and keys are names of files, "" for none."""

    host: str
    header: str = field(default="", repr=False)
    """The Authorization header."""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    verify: bool = True
    tls_server_name: str = ""
    proxy: str = ""


def documents(paths: str) -> list[tuple[str, Any]]:
    """(path, content) of every file of a KUBECONFIG that exists. Raises OSError and what YAML
    raises."""
    documents = []
    for path in filter(None, paths.split(os.pathsep)):
        file = Path(path).expanduser()
        if file.exists():
            documents.append((str(file), yaml.safe_load(file.read_text(encoding="utf-8"))))
    return documents


def login(config: Mapping[str, Any], context: str) -> Login | None:
    """The login of a context ("" for the current one) in a config whose certificates are files with
    absolute names.

    None when it holds anything but plain fields and files that exist: the library either knows what
    to make of it, or says what is wrong.
    """
    chosen = _named(config["contexts"], context or config.get("current-context"), "context")
    cluster = _named(config["clusters"], chosen.get("cluster"), "cluster")
    user = _named(config["users"], chosen["user"], "user") if chosen.get("user") else {}
    careless = cluster.pop("insecure-skip-tls-verify", False)
    if not (_is_plain(cluster, _CLUSTER) and _is_plain(user, _USER)) or not isinstance(
        careless, bool
    ):
        return None
    if "server" not in cluster or (chosen.get("user") and not user):
        return None
    host = cluster["server"].rstrip("/")
    files = {**cluster, **user} if host.startswith("https") else {}
    if not all(os.path.isfile(files[name]) for name in _FILES if name in files):
        return None
    return Login(
        host,
        header=f"Bearer {user['token']}" if "token" in user else "",
        ca_file=files.get("certificate-authority", ""),
        cert_file=files.get("client-certificate", ""),
        key_file=files.get("client-key", ""),
        verify=not careless,
        tls_server_name=cluster.get("tls-server-name", ""),
        proxy=cluster.get("proxy-url", ""),
    )


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


def _named(entries: Sequence[Mapping[str, Any]], name: object, singular: str) -> dict[str, Any]:
    """A copy of what the one entry of that name holds; {} when there is none, or more than one."""
    named = [entry[singular] for entry in entries if entry["name"] == name]
    return dict(named[0]) if name and len(named) == 1 else {}


def _is_plain(fields: Mapping[str, Any], types: Mapping[str, type]) -> bool:
    """Whether these are texts that we know."""
    return all(
        name in types and isinstance(value, types[name]) and value for name, value in fields.items()
    )
