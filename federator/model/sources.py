"""References to workflows in artifact stores, as people write them, and the patterns of a
SubmissionPolicy.

    oci://registry.example/ads/serving           a repository of an OCI registry
    https://artifacts.example/workflows/serving  a folder of an HTTP repository

Nothing here is decoded or normalised: a text that has two readings is refused.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from federator.model.errors import FieldError

SCHEMES: Final = ("oci", "https", "http")
LONGEST: Final = 512
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
VERSION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
"""A tag of an OCI registry, and a folder of an HTTP repository."""
_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_REPOSITORY: Final = re.compile(
    r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*", re.ASCII
)
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reference:
    """One workflow in a store, without a version."""

    scheme: str
    """oci, https or http."""
    host: str
    """Host, with its port where one is written."""
    path: str
    """Without a slash at either end."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}/{self.path}"


def reference(text: str, path: str = "") -> Reference:
    """Reads one reference. Raises FieldError at `path`."""
    scheme, separator, rest = text.partition("://")
    if len(text) > LONGEST:
        raise FieldError(path, f"has {len(text)} characters; a source has at most {LONGEST}")
    if not separator or scheme not in SCHEMES:
        message = f"{text[:80]!r} is not a source: oci://HOST/REPOSITORY or https://HOST/PATH"
        raise FieldError(path, message)
    host, _, name = rest.partition("/")
    if problem := host_problem(host):
        raise FieldError(path, problem)
    if scheme == "http" and not is_loopback(host):
        raise FieldError(path, "http is for addresses of this machine only: use https")
    good = _REPOSITORY.fullmatch(name) if scheme == "oci" else _is_path(name)
    if not good:
        what = (
            "a repository of lower-case letters, digits and . _ - between slashes"
            if scheme == "oci"
            else "a path of letters, digits and . _ ~ - between slashes"
        )
        raise FieldError(path, f"{name[:80]!r} is not {what}")
    return Reference(scheme, host, name)


def _is_path(name: str) -> bool:
    return all(_SEGMENT.fullmatch(segment) for segment in name.split("/"))


def pattern_problem(text: str) -> str:
    """Why a text is no pattern of a SubmissionPolicy, "" when it is one."""
    try:
        _pattern(text)
    except FieldError as error:
        return error.message
    return ""


def _pattern(text: str) -> tuple[Reference, bool]:
    """The reference, and whether it stands for everything below it."""
    if not text.endswith("/*"):
        return reference(text), False
    base = text.removesuffix("/*")
    if base.count("/") > 2:
        return reference(base), True
    whole = reference(f"{base}/x")  # the whole host
    return Reference(whole.scheme, whole.host, ""), True


def matches(pattern: str, ref: Reference) -> bool:
    """Whether a pattern allows a reference. A pattern that cannot be read allows none."""
    try:
        base, below = _pattern(pattern)
    except FieldError:
        return False
    if (base.scheme, base.host) != (ref.scheme, ref.host):
        return False
    if below:
        return not base.path or ref.path.startswith(f"{base.path}/")
    return ref.path == base.path


def pattern_host(pattern: str) -> tuple[str, str]:
    """Scheme and host of a pattern; ("", "") for one that cannot be read."""
    try:
        base, _ = _pattern(pattern)
    except FieldError:
        return "", ""
    return base.scheme, base.host


def host_problem(host: str) -> str:
    """Why a host, with its port, is none that is contacted; "" when nothing is wrong."""
    name, port = split_host(host)
    if port is not None and not 1 <= port <= 65535:
        return f"{host[:80]!r} has no port between 1 and 65535"
    if name.startswith("["):
        return "" if _is_address(name[1:-1], 6) else f"{host[:80]!r} is not an IPv6 address"
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        # A resolver may read 0x7f.1 or 2130706433 as an address.
        return "" if _is_address(name, 4) else f"{host[:80]!r} is not an address in four numbers"
    if len(name) > 253 or not _NAME.fullmatch(name):
        return f"{host[:80]!r} is not a host: lower-case letters, digits, dots and -, and a port"
    return ""


def split_host(host: str) -> tuple[str, int | None]:
    """Name and port; the port is None where none is written, and 0 where it is no number."""
    name, separator, port = host.rpartition(":")
    if not separator or (host.startswith("[") and host.endswith("]")):
        return host, None
    return name, int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0


def is_loopback(host: str) -> bool:
    """Whether a host is spelled as an address of this machine."""
    name = split_host(host)[0].strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version and "%" not in text
    except ValueError:
        return False
