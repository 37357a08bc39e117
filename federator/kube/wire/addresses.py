"""Which network addresses a member cluster or an artifact store may have: never this machine, never
a metadata service (invariant 30).

Asked twice: for a literal address when a kubeconfig is taken in, and for the very address a socket
is about to be connected to, after name resolution, so that a name that resolves differently the
second time gains nothing.
"""

import functools
import ipaddress
from collections.abc import Callable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

Guard = Callable[[str], str]
"""The reason why an address is refused, "" when it is not."""

_METADATA: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "169.254.0.0/16",
        "fd00:ec2::/32",  # AWS over IPv6
        "100.100.100.200/32",  # Alibaba Cloud
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle Cloud
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
UNUSABLE = (
    "this address is not allowed for a member cluster (for a sandbox on one machine: federator hub"
    " --allow-loopback)"
)
"""The same for every address that is refused: scanners learn nothing."""
STORE_UNUSABLE = "this address is not allowed for an artifact store"


def member_guard(*, allow_loopback: bool = False) -> Guard:
    """The guard for member clusters."""
    return functools.partial(refusal, allow_loopback=allow_loopback)


def store_guard(*, named: bool, allow_loopback: bool = False) -> Guard:
    """The guard for one host of an artifact store. Private addresses are for hosts that a policy
    names; any other host must be at a public one."""

    def refuse(text: str) -> str:
        if refusal(text, allow_loopback=allow_loopback and named):
            return STORE_UNUSABLE
        real = _real(ipaddress.ip_address(text.partition("%")[0]))
        return "" if named or real.is_global else STORE_UNUSABLE

    return refuse


def refusal(text: str, *, allow_loopback: bool = False) -> str:
    """Why the address is refused, "" when it is not. The reason never says which rule."""
    try:
        address: Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return UNUSABLE
    address = _real(address)
    if address.is_loopback:
        return "" if allow_loopback else UNUSABLE
    if (
        address.is_unspecified
        or address.is_multicast
        or address.is_link_local
        or address.is_reserved
    ):
        return UNUSABLE
    if any(address in network for network in _METADATA if network.version == address.version):
        return UNUSABLE
    return ""


def _real(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that only wraps it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    number = int(address)
    # NAT64, and the old "IPv4-compatible" form
    if address in _NAT64 or (number >> 32 == 0 and number > 1):
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    return address


def is_literal(host: str) -> bool:
    """Whether a host is an address and no name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def looks_numeric(host: str) -> bool:
    """Whether a resolver might read a host that is no address as a number all the same (`0x7f.1`,
    `2130706433`)."""
    last = host.rstrip(".").rpartition(".")[2].lower()
    return last.isdigit() or (
        last.startswith("0x") and all(digit in "0123456789abcdef" for digit in last[2:])
    )
