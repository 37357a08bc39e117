"""Downloads of blobs into a file: bounded, verified, and continued where the last try ended.
Blocks: it runs in a thread."""

import hashlib
from pathlib import Path
from typing import Final

from federator.runtime.configuration.getting import PIECE, Answer
from federator.runtime.configuration.stores import ArtifactStore, Blob
from federator.runtime.files.backends import Away, Refusal

ARTIFACT_MAX: Final = 256 << 20
"""Bytes of a blob."""


def download(store: ArtifactStore, blob: Blob, target: Path) -> None:
    """Fills `target`, which may have the beginning from an earlier try, and keeps what was read
    when the server goes away. Raises Refusal, Away, OSError."""
    if blob.size is not None:
        _check_size(blob.size, blob.url)
    have = target.stat().st_size if target.exists() else 0
    if blob.size is None or have < blob.size:
        _continue(store, blob, target, have)
    actual, size = _digest(target)
    if actual != blob.digest:
        # Nothing of it can be used: not even the beginning, which may be of something else.
        target.unlink(missing_ok=True)
        raise Refusal(
            "ConfigDigestWrong",
            f"{blob.url} has {size} bytes with {actual}, and {blob.digest} is asked for",
        )


def _continue(store: ArtifactStore, blob: Blob, target: Path, have: int) -> None:
    """Reads what is missing; everything, if the server does not continue at this place."""
    with store.opened(blob, have) as answer:
        if answer.status == 416:  # nothing comes after what is there
            return
        if answer.status != 206 or not _begins_at(answer, have):
            have = 0
        length = answer.headers.get("content-length", "")
        whole = have + int(length) if length.isascii() and length.isdigit() else blob.size
        if whole is not None:
            _check_size(whole, blob.url)
        with target.open("r+b" if have else "wb") as file:
            file.seek(have)
            for piece in answer.pieces:
                have += len(piece)
                _check_size(have, blob.url)
                file.write(piece)
    if whole is not None and have < whole:
        raise Away(f"{blob.url} ended after {have} of {whole} bytes")


def _digest(target: Path) -> tuple[str, int]:
    """Digest and size of a file."""
    digest, size = hashlib.sha256(), 0
    with target.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return f"sha256:{digest.hexdigest()}", size


def _begins_at(answer: Answer, offset: int) -> bool:
    return answer.headers.get("content-range", "").startswith(f"bytes {offset}-")


def _check_size(size: int, what: str) -> None:
    if size > ARTIFACT_MAX:
        raise Refusal(
            "ConfigTooLarge", f"{what} has {size} bytes; at most {ARTIFACT_MAX} are downloaded"
        )
