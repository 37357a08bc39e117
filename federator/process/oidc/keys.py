"""The public keys of an issuer, as its JSON Web Key Set has them (RFC 7517).

Only keys for signatures with a public part are kept. Symmetric keys, private keys and keys that are
too short are left out, so that no token can be verified with them.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from joserfc import errors as jose
from joserfc import jwa, jwk, util

from federator.api import decoding
from federator.model.errors import FieldError

log = logging.getLogger(__name__)

KEYS_MAX: Final = 64
"""Keys of one issuer that are read."""
KID_MAX: Final = 512
"""Characters of the name of a key."""
RSA_BITS: Final = range(2048, 8193)
_ROCA_PRIMES: Final = (11, 13, 17, 19, 37, 53, 61, 71, 73, 79, 97, 103, 107, 109, 127, 151, 157)
_ROCA: Final = {p: {pow(65537, power, p) for power in range(p - 1)} for p in _ROCA_PRIMES}
"""Remainders of the moduli of a library for chips. Their private keys can be computed
(CVE-2017-15361: Nemec et al., "The Return of Coppersmith's Attack", 2017)."""
LIMITS: Final = decoding.Limits(size=512 * 1024, depth=8, nodes=10_000)

_MODELS: Final = {model.name: model for model in jwa.JWS_ALGORITHMS}
_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    **{f"{family}{bits}": ("RSA", "") for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}
"""Algorithm -> type and curve of its keys. What is not here is never verified."""
ALGORITHMS: Final = frozenset(_TYPES)
DEFAULT_ALGORITHMS: Final = frozenset({"RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"})


@dataclass(frozen=True, slots=True)
class Key:
    """One public key."""

    kid: str
    """"" where the issuer gives none."""
    type: str
    curve: str
    algorithm: str
    """The only algorithm it is for; "" for any of its type."""
    key: Any

    def fits(self, algorithm: str) -> bool:
        """Whether a signature by this algorithm may be verified with it."""
        kind, curve = _TYPES[algorithm]
        same = {algorithm, "EdDSA"} if curve == "Ed25519" else {algorithm}
        return self.type == kind and self.curve == curve and self.algorithm in {"", *same}

    def verifies(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        """Whether this key made the signature. `fits` was true."""
        try:
            return bool(_MODELS[algorithm].verify(message, signature, self.key))
        except (jose.JoseError, ValueError, TypeError):
            return False


@dataclass(frozen=True, slots=True)
class KeySet:
    keys: tuple[Key, ...] = ()

    def fitting(self, kid: str, algorithm: str) -> list[Key]:
        """The keys with which a signature may be verified; with a `kid`, those of that name."""
        return [key for key in self.keys if kid in ("", key.kid) and key.fits(algorithm)]

    def has(self, kid: str) -> bool:
        """Whether a key has this name; for "" whether there is any key."""
        return any(kid in ("", key.kid) for key in self.keys)


def read(text: bytes) -> KeySet:
    """The usable keys of a JSON Web Key Set. Raises FieldError for what is no such set."""
    document = decoding.from_json(text, LIMITS)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise FieldError("keys", "must be a list of keys")
    if len(listed) > KEYS_MAX:
        raise FieldError("keys", f"has {len(listed)} keys, at most {KEYS_MAX} are read")
    return KeySet(tuple(key for each in listed if (key := _key(each)) is not None))


def _key(given: Any) -> Key | None:
    """None for a key that is not used here."""
    if not isinstance(given, dict) or "d" in given or given.get("use", "sig") != "sig":
        return None
    operations = given.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    kind, curve = str(given.get("kty")), given.get("crv", "")
    if (kind, curve) not in _TYPES.values():
        return None
    kid, algorithm = given.get("kid", ""), given.get("alg", "")
    if not (isinstance(kid, str) and len(kid) <= KID_MAX and isinstance(algorithm, str)):
        return None
    public = {name: given[name] for name in ("kty", "crv", "n", "e", "x", "y") if name in given}
    try:
        if kind == "RSA" and (weakness := _weakness(public["n"])):
            log.warning("an RSA key of an issuer %s; it is not used", weakness)
            return None
        key = jwk.import_key(public)
    except (jose.JoseError, ValueError, TypeError, KeyError, OverflowError):
        log.warning("a key of an issuer cannot be read; it is not used")
        return None
    return Key(kid, kind, curve, algorithm, key)


def _weakness(modulus: str) -> str:
    """Why no RSA key with this modulus is trusted; "" when nothing speaks against it."""
    number = int.from_bytes(util.urlsafe_b64decode(modulus.encode("ascii")))
    if number.bit_length() not in RSA_BITS:
        return "has too few or too many bits"
    if all(number % prime in remainders for prime, remainders in _ROCA.items()):
        return "can be broken (CVE-2017-15361)"
    return ""
