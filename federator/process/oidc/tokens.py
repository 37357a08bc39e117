"""Verifies one signed token (JWS compact form, RFC 7515 and 7519) against the keys of its issuer.

Pure: keys and time are arguments. The header chooses a key among those of the issuer by name and
nothing more: addresses, keys and certificates in it are never used. Messages of errors are for the
caller and name nothing that the token contains.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import decoding
from federator.model.errors import FieldError
from federator.process.oidc import keys
from federator.process.oidc.keys import KeySet
from federator.process.oidc.options import RESERVED, OidcOptions

TOKEN_MAX: Final = 16 * 1024
"""Characters of the longest token that is read."""
LEEWAY_S: Final = 30.0
"""Difference of the clocks of issuer and verifier that is allowed for, in seconds."""
GROUPS_MAX: Final = 512
NAME_MAX: Final = 512
"""Characters of a user or a group."""
KEYS_TRIED: Final = 4
"""A token without the name of its key is tried with at most so many."""
_TYPES: Final = frozenset({"", "jwt", "at+jwt"})
"""Of other types (`logout+jwt`, `dpop+jwt`), a token is no credential."""
_LIMITS: Final = decoding.Limits(size=TOKEN_MAX, depth=16, nodes=4096)
_PART: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PARTS: Final = 3


class Rejected(Exception):
    """The token does not count. The sentence says why, and nothing of the token."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Which tokens of an issuer count, and how their claims name a Kubernetes user. The claims and
    prefixes mean what the options `--oidc-*` of kube-apiserver mean."""

    issuer: str
    audiences: frozenset[str]
    algorithms: frozenset[str] = keys.DEFAULT_ALGORITHMS
    user_claim: str = "sub"
    user_prefix: str | None = None
    """None: the issuer and `#`, or nothing for the claim `email`."""
    groups_claim: str = "groups"
    groups_prefix: str = ""
    leeway_s: float = LEEWAY_S

    def __post_init__(self) -> None:
        """Raises FieldError for a trust that would accept too much or nothing."""
        if not self.issuer:
            raise FieldError("issuer", "is required")
        if not self.audiences or "" in self.audiences:
            raise FieldError("audiences", "must name at least one audience")
        if not self.algorithms or (unknown := sorted(self.algorithms - keys.ALGORITHMS)):
            accepted = ", ".join(sorted(keys.ALGORITHMS))
            named = unknown[0][:20] if self.algorithms else "none"
            raise FieldError("algorithms", f"{named} is not accepted; there are {accepted}")

    @classmethod
    def of(cls, options: OidcOptions) -> "Trust":
        """Trust in the issuer at which people sign in. Raises FieldError."""
        return cls(
            options.issuer_url,
            frozenset({options.client_id}),
            user_claim=options.username_claim,
            user_prefix=options.prefix,
            groups_claim=options.groups_claim,
            groups_prefix=options.groups_prefix,
        )

    @property
    def prefix(self) -> str:
        """What comes before the name of a user."""
        if self.user_prefix is not None:
            return self.user_prefix
        return "" if self.user_claim == "email" else f"{self.issuer}#"


@dataclass(frozen=True, slots=True)
class Unverified:
    """A token that can be read. Nothing in it is known to be true."""

    algorithm: str
    kid: str
    issuer: str
    claims: Mapping[str, Any] = field(repr=False)
    message: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller, as the issuer says."""

    user: str
    groups: tuple[str, ...]
    issuer: str
    expires_s: float
    """Epoch seconds."""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All verified claims, such as `nonce` and `email`."""


def parse(token: str) -> Unverified:
    """Reads a token. Raises `Rejected`."""
    if len(token) > TOKEN_MAX:
        raise Rejected(f"the token has more than {TOKEN_MAX} characters")
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise Rejected("the token is no signed JWT: it must have three parts")
    header = _object(_decoded(parts[0], "header"), "header")
    claims = _object(_decoded(parts[1], "payload"), "payload")
    signature = _decoded(parts[2], "signature")
    for name in ("crit", "b64", "zip", "enc", "cty"):
        if name in header:
            raise Rejected(f"the token's header has {name}, which is not supported here")
    kind = header.get("typ", "")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
        raise Rejected("the token's type (typ) is not JWT")
    algorithm, kid = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str):
        raise Rejected("the token's header names no algorithm (alg)")
    if not isinstance(kid, str) or len(kid) > keys.KID_MAX:
        raise Rejected("the token's key has no name (kid) that can be read")
    issuer = claims.get("iss")
    if not isinstance(issuer, str):
        raise Rejected("the token names no issuer (iss)")
    message = f"{parts[0]}.{parts[1]}".encode("ascii")
    return Unverified(algorithm, kid, issuer, claims, message, signature)


def check_head(token: Unverified, trust: Trust) -> None:
    """Refuses, before any key is looked for, what no key could make valid. Raises `Rejected`."""
    if token.issuer != trust.issuer:
        raise Rejected("the token's issuer (iss) is not trusted here")
    if token.algorithm not in trust.algorithms:
        raise Rejected("the token's algorithm (alg) is not allowed for its issuer")


def verify(token: Unverified, key_set: KeySet, trust: Trust, now_s: float) -> Identity:
    """The caller of a token that one of the keys signed. `now_s`: epoch seconds. Raises
    `Rejected`."""
    check_head(token, trust)
    fitting = key_set.fitting(token.kid, token.algorithm)[:KEYS_TRIED]
    signed = any(key.verifies(token.algorithm, token.message, token.signature) for key in fitting)
    if not signed:
        raise Rejected("the token's signature is not by a key of its issuer")
    expires_s = _check_times(token.claims, trust, now_s)
    _check_audience(token.claims.get("aud"), trust)
    return Identity(
        _user(token.claims, trust),
        _groups(token.claims, trust),
        token.issuer,
        expires_s,
        token.claims,
    )


def _check_times(claims: Mapping[str, Any], trust: Trust, now_s: float) -> float:
    expires_s = _seconds(claims, "exp")
    if expires_s is None:
        raise Rejected("the token does not say when it expires (exp)")
    if now_s >= expires_s + trust.leeway_s:
        raise Rejected("the token has expired (exp)")
    for name in ("nbf", "iat"):
        begins_s = _seconds(claims, name)
        if begins_s is not None and begins_s > now_s + trust.leeway_s:
            raise Rejected(f"the token is not valid yet ({name})")
    return expires_s


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    given = claims[name]
    # The bound keeps integers out that no float can hold.
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given < 2**53:
        return float(given)
    raise Rejected(f"the token's {name} is no time in seconds")


def _check_audience(given: Any, trust: Trust) -> None:
    named = [given] if isinstance(given, str) else given
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise Rejected("the token names no audience (aud)")
    if trust.audiences.isdisjoint(named):
        raise Rejected("the token is for another audience (aud)")


def _user(claims: Mapping[str, Any], trust: Trust) -> str:
    name = claims.get(trust.user_claim)
    if not isinstance(name, str) or not _is_name(name):
        raise Rejected(f"the token names no user (claim {trust.user_claim})")
    if trust.user_claim == "email" and claims.get("email_verified", True) is not True:
        raise Rejected("the token's email address is not verified (email_verified)")
    return _unreserved(trust.prefix + name, "user")


def _groups(claims: Mapping[str, Any], trust: Trust) -> tuple[str, ...]:
    given = claims.get(trust.groups_claim, [])
    named = [given] if isinstance(given, str) else given
    if not isinstance(named, list) or len(named) > GROUPS_MAX:
        raise Rejected(
            f"the token's groups (claim {trust.groups_claim}) must be a list of at most"
            f" {GROUPS_MAX}"
        )
    for each in named:
        if not isinstance(each, str) or not _is_name(each):
            raise Rejected(f"a group of the token (claim {trust.groups_claim}) is no name")
    prefixed = (_unreserved(trust.groups_prefix + each, "group") for each in named)
    return tuple(dict.fromkeys(prefixed))


def _is_name(text: str) -> bool:
    return 0 < len(text) <= NAME_MAX and text.isprintable() and text == text.strip()


def _unreserved(name: str, what: str) -> str:
    if name.startswith(RESERVED):
        raise Rejected(f"a {what} of the token begins with {RESERVED}, which no issuer may use")
    return name


def _object(part: bytes, what: str) -> dict[str, Any]:
    try:
        value = decoding.from_json(part, _LIMITS)
    except FieldError:
        raise Rejected(f"the token's {what} is not JSON, or names something twice") from None
    if not isinstance(value, dict):
        raise Rejected(f"the token's {what} is no JSON object")
    return value


def _decoded(part: str, what: str) -> bytes:
    """The bytes of a part in its only spelling: another one would be another token with the same
    signature."""
    if not _PART.fullmatch(part):
        raise Rejected(f"the token's {what} is not base64url")
    try:
        decoded = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise Rejected(f"the token's {what} is not base64url") from None
    if base64.urlsafe_b64encode(decoded).rstrip(b"=") != part.encode("ascii"):
        raise Rejected(f"the token's {what} is not base64url in its shortest form")
    return decoded
