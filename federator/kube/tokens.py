"""Bearer tokens of service accounts: when one ends, by its own claims, and asking for another
(TokenRequest).

Claims are read, never verified: that is the API server's part. They come from a Secret of ours or
from a member's answer, and say only when a token is due to be replaced.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

import msgspec

from federator.kube import errors
from federator.kube.client import Client
from federator.model.steps import ObjectRef

LIFETIME_S: Final = 7 * 86400
"""What is asked for where nothing else is said: a hub that is away for days must still be let in.
"""
_SUBJECT: Final = "system:serviceaccount:"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LATEST_S: Final = 253_402_300_799
"""The end of the year 9999: no later time can be written."""
TOKEN_MAX: Final = 16 * 1024
"""Characters of the longest one that is taken."""


class _Claims(msgspec.Struct):
    sub: str
    iat: int | None = None
    exp: int | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """What a token of a service account says of itself. Times in epoch seconds."""

    namespace: str
    name: str
    issued_s: int
    ends_s: int | None
    """None: it lasts for ever."""

    def renewable_s(self, age_s: float) -> float:
        """From when on it should be replaced: at that age, or after two thirds of its life if that
        is sooner; at once where it never ends."""
        if self.ends_s is None:
            return 0.0
        return self.issued_s + min(age_s, (self.ends_s - self.issued_s) * 2 / 3)


def is_bearer(token: str) -> bool:
    return (
        0 < len(token) <= TOKEN_MAX and token.isascii() and token.isprintable() and " " not in token
    )


def read(token: str) -> Token | None:
    """Its claims; None for what is no token of a service account, or makes no sense."""
    parts = token.split(".")
    if len(parts) != 3 or not is_bearer(token):
        return None
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = msgspec.json.decode(body, type=_Claims)
    except (binascii.Error, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    namespace, colon, name = claims.sub.removeprefix(_SUBJECT).partition(":")
    if (
        not claims.sub.startswith(_SUBJECT)
        or not colon
        or not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name))
    ):
        return None
    if claims.exp is None:
        return Token(namespace, name, 0, None)
    if claims.iat is None or not 0 < claims.iat < claims.exp <= _LATEST_S:
        return None
    return Token(namespace, name, claims.iat, claims.exp)


async def request(client: Client, namespace: str, name: str, lifetime_s: int = LIFETIME_S) -> str:
    """Another token of a service account, which ends. The server may give a shorter life than was
    asked for.

    Raises ApiErrors, `errors.Malformed` for an answer that holds no such token.
    """
    ref = ObjectRef("v1", "serviceaccounts", namespace, name, "ServiceAccount")
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": lifetime_s},
    }
    answer = await client.create_at(ref, "token", body)
    token_text = (answer.get("status") or {}).get("token")
    token = read(token_text) if isinstance(token_text, str) else None
    if token is None or token.ends_s is None or (token.namespace, token.name) != (namespace, name):
        raise errors.Malformed(
            f"{client.cluster}: the answer holds no token of {namespace}/{name} that ends"
        )
    return str(token_text)
