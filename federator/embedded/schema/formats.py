"""String formats that a real API server enforces on custom resources. Unknown formats are not
checked, as there."""

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

_UUID: Final = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}$"
_DATE_TIME: Final = re.compile(
    r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:?\d{2})$", re.ASCII
)
_DURATION_PART: Final = re.compile(r"\d+(\.\d*)?\s*(ns|us|µs|ms|s|m|h|d|w)", re.ASCII)
_HOSTNAME: Final = re.compile(r"^([a-zA-Z0-9\u00a1-\uffff]([a-zA-Z0-9\u00a1-\uffff-]{0,62})\.?)+$")
_EMAIL: Final = re.compile(r"^[^@\s<>]+@[^@\s<>]+$")
_MAC: Final = re.compile(r"^([0-9A-Fa-f]{2}([:-]))([0-9A-Fa-f]{2}\2){4}[0-9A-Fa-f]{2}$")
_HEX_COLOR: Final = re.compile(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$")
_RGB_COLOR: Final = re.compile(r"^rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)$")
_SHORT_NAME: Final = re.compile("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_LONG_NAME: Final = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")


def _succeeds(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _date_time(text: str) -> bool:
    match = _DATE_TIME.match(text)
    if not match:
        return False
    try:
        datetime.datetime.fromisoformat(text[:10] + "T" + text[11:19])
    except ValueError:
        return False
    return True


def _duration(text: str) -> bool:
    stripped = text.strip().lstrip("+-")
    return stripped == "0" or (bool(stripped) and not _DURATION_PART.sub("", stripped).strip())


def _uri(text: str) -> bool:
    if not text or any(char.isspace() for char in text) or re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _rgb(text: str) -> bool:
    match = _RGB_COLOR.match(text)
    return match is not None and all(int(part) <= 255 for part in match.groups())


def _matching(pattern: str | re.Pattern[str]) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.match(text) is not None


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "datetime": _date_time,
    "date": lambda text: len(text) == 10 and _succeeds(datetime.date.fromisoformat)(text),
    "duration": _duration,
    "uuid": _matching(_UUID % ("[0-9a-f]", "[0-9a-f]")),
    "uuid3": _matching(_UUID % ("3", "[0-9a-f]")),
    "uuid4": _matching(_UUID % ("4", "[89ab]")),
    "uuid5": _matching(_UUID % ("5", "[89ab]")),
    "uri": _uri,
    "email": _matching(_EMAIL),
    "hostname": lambda text: len(text) <= 255 and bool(_HOSTNAME.match(text)),
    "ipv4": _succeeds(ipaddress.IPv4Address),
    "ipv6": _succeeds(ipaddress.IPv6Address),
    "cidr": _succeeds(
        lambda text: ipaddress.ip_network(text, strict=False) if "/" in text else int("x")
    ),
    "mac": _matching(_MAC),
    "byte": _succeeds(lambda text: base64.b64decode(text, validate=True)),
    "hexcolor": _matching(_HEX_COLOR),
    "rgbcolor": _rgb,
    "bsonobjectid": _matching("^[0-9a-fA-F]{24}$"),
    "k8sshortname": _matching(_SHORT_NAME),
    "k8slongname": lambda text: len(text) <= 253 and bool(_LONG_NAME.match(text)),
}
"""By the format's name without dashes."""


def holds(format_name: str, text: str) -> bool:
    """Whether the text has the format; True for formats without a check."""
    check = CHECKS.get(format_name.replace("-", ""))
    return check is None or check(text)
