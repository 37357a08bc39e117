"""DSSE envelopes: which keys of a policy have signed a payload, and signing with a local key.

Source: the DSSE protocol 1.0.2 and its JSON envelope. Signatures are verified over the
pre-authentication encoding of payload type and payload, by `securesystemslib`. The key id of a
signature is a hint that nothing depends on: every key is tried. Pure.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import CryptoSigner, Signature, SSlibKey

from federator.api import decoding, publickeys, raw
from federator.api.decoding import Limits
from federator.gateway.artifacts.ports import ENVELOPE_MAX
from federator.model.errors import FieldError

SIGNATURES_MAX: Final = 16
_LIMITS: Final = Limits(size=ENVELOPE_MAX, depth=8, nodes=256)
_P256_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Key:
    """A public key that can verify."""

    name: str
    key: SSlibKey
    raw_ecdsa: bool
    """Whether signatures may be r and s, 32 bytes each, as the protocol's vectors have them."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A payload that at least one of the keys has signed."""

    payload_type: str
    payload: bytes
    keys: tuple[str, ...]
    """Names of the keys that signed it."""


def public_key(name: str, pem: str) -> Key:
    """Reads a key of a policy. Raises ValueError for one that is not accepted."""
    key = publickeys.read(pem)
    return Key(name, SSlibKey.from_crypto(key), publickeys.is_p256(key))


def opened(envelope: bytes, keys: Sequence[Key]) -> Signed:
    """The payload of an envelope and the keys that signed it. Raises ValueError for an envelope
    that is none, or that no key has signed."""
    payload_type, payload, signatures = _parts(envelope)
    encoded = Envelope(payload, payload_type, {}).pae()
    names = [
        key.name
        for key in keys
        if any(_verifies(key, signature, encoded) for signature in signatures)
    ]
    if not names:
        raise ValueError("no key of the policy has signed it")
    return Signed(payload_type, payload, tuple(names))


def _parts(envelope: bytes) -> tuple[str, bytes, tuple[bytes, ...]]:
    """Payload type, payload and signatures of an envelope."""
    try:
        fields = decoding.from_json(envelope, _LIMITS)
    except FieldError as error:
        raise ValueError(f"is not a DSSE envelope: {error}") from None
    payload_type, payload = raw.text(fields, "payloadType"), raw.at(fields, "payload")
    entries = raw.objects(fields, "signatures")
    if not payload_type or not isinstance(payload, str) or not entries:
        raise ValueError("is not a DSSE envelope: payloadType, payload and signatures are needed")
    if len(entries) > SIGNATURES_MAX:
        raise ValueError(f"has {len(entries)} signatures; at most {SIGNATURES_MAX} are read")
    signatures = tuple(_bytes(raw.text(entry, "sig"), "a signature") for entry in entries)
    return payload_type, _bytes(payload, "the payload"), signatures


def _bytes(text: str, what: str) -> bytes:
    """Base64, of either alphabet."""
    try:
        encoded = text.encode("ascii")
        altchars = b"-_" if b"-" in encoded or b"_" in encoded else None
        return base64.b64decode(encoded, altchars, validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError(f"is not a DSSE envelope: {what} is not base64") from None


def _verifies(key: Key, signature: bytes, encoded: bytes) -> bool:
    tried = [signature]
    if key.raw_ecdsa and len(signature) == 2 * _P256_BYTES:
        r, s = signature[:_P256_BYTES], signature[_P256_BYTES:]
        tried.append(encode_dss_signature(int.from_bytes(r), int.from_bytes(s)))
    return any(_verifies_one(key.key, each, encoded) for each in tried)


def _verifies_one(key: SSlibKey, signature: bytes, encoded: bytes) -> bool:
    try:
        key.verify_signature(Signature(key.keyid, signature.hex()), encoded)
    except UnverifiedSignatureError:
        return False
    return True


def sealed(payload: bytes, payload_type: str, private_pem: bytes) -> bytes:
    """The payload in an envelope, signed with a private key without password (PEM). Raises
    ValueError."""
    try:
        private: Any = load_pem_private_key(private_pem, None)
        signer = CryptoSigner(private)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        message = "is not a private key in PEM without password: Ed25519, ECDSA P-256 or RSA"
        raise ValueError(message) from None
    envelope = Envelope(payload, payload_type, {})
    envelope.sign(signer)
    return json.dumps(envelope.to_dict(), sort_keys=True).encode()
