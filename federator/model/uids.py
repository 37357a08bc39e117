"""Uids as the 16 bytes that they stand for: a hub keeps four or more for each workload, and each
text takes 85."""


def packed(uid: str) -> bytes:
    """The bytes of a uid as API servers write it; b"" for any other text."""
    try:
        made = bytes.fromhex(uid.replace("-", ""))
    except ValueError:
        return b""
    return made if len(made) == 16 and text(made) == uid else b""


def text(packed: bytes) -> str:
    """The uid of these bytes."""
    digits = packed.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
