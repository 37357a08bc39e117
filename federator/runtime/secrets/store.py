"""The port to where secrets are kept.

It asks for what OpenBao, Vault and Pinterest's Knox can all answer: a secret by name with its
values and an opaque version (a number in KV 2, the version hash of a Knox key), and which of many
names have another version by now (Knox answers this for all names in one request). A store knows
the pod by the certificate of the connection: a SPIFFE principal in Knox, a certificate role in
OpenBao.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from federator.runtime.files.backends import Refusal

SECRET_MAX: Final = 1 << 20
"""Bytes of all values of a secret."""
VALUES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret as it is now. Its values do not show in its repr."""

    version: str
    """Opaque: another text is another version."""
    values: Mapping[str, bytes] = field(repr=False)
    """A store with one value for a secret calls it `value`."""


class SecretStore(Protocol):
    """Where secrets are kept. Every call ends within a deadline of the store's own."""

    async def read(self, name: str) -> Secret:
        """The secret now. Raises Refusal (SecretDenied with policies and principal, SecretMissing,
        SecretTooLarge, SecretUnreadable) and Away."""

    async def changed(self, known: Mapping[str, str]) -> frozenset[str]:
        """The names of which the version is another one than this. A name that cannot be told is
        among them: reading it says why. Raises Away."""


def checked(name: str, secret: Secret) -> Secret:
    """The secret, if it is within bounds. Raises Refusal."""
    size = sum(map(len, secret.values.values()))
    if size > SECRET_MAX or len(secret.values) > VALUES_MAX:
        raise Refusal(
            "SecretTooLarge",
            f"secret {name} has {size} bytes in {len(secret.values)} values; at most {SECRET_MAX}"
            f" bytes in {VALUES_MAX} values are written into a pod",
        )
    return secret
