"""The proxy through which a person's own commands reach an API server: `proxy-url` of the
kubeconfig, else HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the environment.

The rules are those of kubectl (golang.org/x/net/http/httpproxy). Connections to members never ask
here.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from federator.kube.login.kubeconfig import NotConfigured

_PORTS = {"http": 80, "https": 443}


def proxy_of(server: str, proxy_url: str, environ: Mapping[str, str]) -> str:
    """The URL of the proxy to `server`, "" for none. Raises `NotConfigured` for a kind of proxy
    that is not offered."""
    if proxy_url:
        return _offered(proxy_url, "proxy-url of the kubeconfig")
    parts = urlsplit(server)
    names = (
        ("HTTPS_PROXY", "https_proxy") if parts.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    )
    name = next((name for name in names if environ.get(name)), "")
    if not name:
        return ""
    port = parts.port or _PORTS.get(parts.scheme, 0)
    if _passes_by(
        parts.hostname or "", port, environ.get("NO_PROXY") or environ.get("no_proxy", "")
    ):
        return ""
    given = environ[name]
    return _offered(given if "://" in given else f"http://{given}", f"{name} of the environment")


def _offered(url: str, where: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    if not host:
        raise NotConfigured(f"{where}: this is no address of a proxy.")
    if parts.scheme != "http":
        raise NotConfigured(
            f"{where}: {parts.scheme} is not offered; the proxy must be an http:// one."
        )
    return url


def _passes_by(host: str, port: int, no_proxy: str) -> bool:
    """Whether a host is reached without a proxy: loopback addresses always, others as NO_PROXY
    says."""
    host = host.lower()
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(
        _matches(entry.strip().lower(), host, port, address) for entry in no_proxy.split(",")
    )


def _matches(
    entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> bool:
    """Whether an entry of NO_PROXY names the host: `*`, a network, an address or a domain, the
    latter two with or without a port."""
    if not entry or entry == "*":
        return entry == "*"
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, its_port = _split(entry)
    if its_port and its_port != str(port):
        return False
    named = _address(name)
    if named is not None or address is not None:
        return named is not None and named == address
    domain = name.removeprefix("*") if name.startswith("*.") else name
    if not domain:
        return False
    return (
        host.endswith(domain)
        if domain.startswith(".")
        else (host == domain or host.endswith(f".{domain}"))
    )


def _split(entry: str) -> tuple[str, str]:
    """Host and port ("" for every port) of an entry."""
    if _address(entry) is not None:
        return entry, ""
    host, colon, port = entry.rpartition(":")
    if not colon:
        return entry, ""
    return host.removeprefix("[").removesuffix("]"), port


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
