"""Secrets in a folder of the pod, for a federation without a server of secrets: the demo, and a
volume that the operator mounts.

    FOLDER/ads/db/password      the value `password` of the secret `ads/db`
    FOLDER/ads/db/..readers     one SPIFFE id a line that may read it; `*` at its end for a prefix
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from federator.runtime.files.backends import Away, Refusal
from federator.runtime.secrets.store import SECRET_MAX, Secret, checked

READERS: Final = "..readers"


class FolderStore:
    """The principal may read the secrets that name it as a reader."""

    def __init__(self, folder: Path, principal: str) -> None:
        self._folder, self._principal = folder, principal

    async def read(self, name: str) -> Secret:
        return self._now(name)

    async def changed(self, known: Mapping[str, str]) -> frozenset[str]:
        return frozenset(name for name, version in known.items() if self._version(name) != version)

    def _version(self, name: str) -> str:
        try:
            return self._now(name).version
        except Refusal:
            return ""

    def _now(self, name: str) -> Secret:
        if not self._folder.is_dir():
            raise Away(f"there is no folder {self._folder}")
        where = self._folder / name
        try:
            return self._read(name, where)
        except OSError as bad:
            raise Away(f"{where} cannot be read: {bad.strerror}") from None

    def _read(self, name: str, where: Path) -> Secret:
        """Raises Refusal, OSError."""
        try:
            readers = (where / READERS).read_text("utf-8").split()
        except OSError:
            raise Refusal("SecretMissing", f"there is no secret {name}") from None
        if not any(_matches(each, self._principal) for each in readers):
            raise Refusal(
                "SecretDenied",
                f"{self._principal} may not read {name}: {where / READERS} does not name it",
            )
        files = [each for each in sorted(where.iterdir()) if each.name != READERS]
        size = sum(each.stat().st_size for each in files)
        if size > SECRET_MAX:
            raise Refusal(
                "SecretTooLarge", f"secret {name} has {size} bytes; at most {SECRET_MAX} are read"
            )
        values = {each.name: each.read_bytes() for each in files}
        digest = hashlib.sha256()
        for key, value in values.items():
            digest.update(f"{len(key)} {len(value)} {key}".encode() + value)
        return checked(name, Secret(digest.hexdigest()[:16], values))


def _matches(reader: str, principal: str) -> bool:
    return principal.startswith(reader[:-1]) if reader.endswith("*") else reader == principal
