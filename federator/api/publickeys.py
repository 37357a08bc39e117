"""Public keys of a SubmissionPolicy: which are accepted."""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey

RSA_BITS_MIN = 2048


def read(pem: str) -> PublicKey:
    """The key of a PEM text. Raises ValueError for one that is not accepted."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("is not a public key in PEM") from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < RSA_BITS_MIN:
        raise ValueError(f"is an RSA key of {key.key_size} bits; at least {RSA_BITS_MIN} are safe")
    if isinstance(key, ed25519.Ed25519PublicKey | rsa.RSAPublicKey) or is_p256(key):
        assert isinstance(key, PublicKey)
        return key
    raise ValueError("is of a kind that is not accepted: Ed25519, ECDSA P-256 or RSA")


def is_p256(key: object) -> bool:
    """Whether it is an ECDSA key on the curve P-256."""
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)


def problem(pem: str) -> str:
    """Why the key is not accepted, "" when it is."""
    try:
        read(pem)
    except ValueError as bad:
        return str(bad)
    return ""
