"""SPIFFE ids of workloads: `spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICEACCOUNT`. Pure.

The rules are those of the SPIFFE-ID standard; our ids have always this one path.
"""

import re
from dataclasses import dataclass
from typing import Final

SCHEME: Final = "spiffe://"
ID_MAX: Final = 2048
_TRUST_DOMAIN: Final = re.compile(r"[a-z0-9._-]{1,255}")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ACCOUNT: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class NoId(ValueError):
    """The text is no id of a workload. The message says why."""


@dataclass(frozen=True, slots=True)
class SpiffeId:
    """The id of all pods with one service account, in any cluster of the trust domain. Raises NoId
    for names that Kubernetes does not have."""

    trust_domain: str
    namespace: str
    account: str

    def __post_init__(self) -> None:
        if not _TRUST_DOMAIN.fullmatch(self.trust_domain):
            raise NoId(
                f"{self.trust_domain[:80]!r} is no trust domain; lower-case letters, digits, '.',"
                " '-' and '_' are accepted, such as prod.example.com"
            )
        if not _NAMESPACE.fullmatch(self.namespace):
            raise NoId(f"{self.namespace[:80]!r} is no name of a namespace")
        if not _ACCOUNT.fullmatch(self.account) or ".." in self.account:
            raise NoId(f"{self.account[:80]!r} is no name of a service account")

    def __str__(self) -> str:
        return f"{SCHEME}{self.trust_domain}/ns/{self.namespace}/sa/{self.account}"


def parse(text: str) -> SpiffeId:
    """The id in a URI. Raises NoId."""
    if len(text) > ID_MAX or not text.startswith(SCHEME):
        raise NoId(f"{text[:80]!r} does not begin with {SCHEME}")
    parts = text.removeprefix(SCHEME).split("/")
    if len(parts) != 5 or parts[1] != "ns" or parts[3] != "sa":
        raise NoId(f"{text[:120]!r} is not of the form {SCHEME}TRUST_DOMAIN/ns/NS/sa/SA")
    return SpiffeId(parts[0], parts[2], parts[4])
