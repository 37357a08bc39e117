"""The secrets role: reads what the workload names, writes it into a folder in memory, and follows
the versions.

A pod that runs keeps what it has: while the store is away, and after a secret was taken from it,
until its next start. A pod that starts waits with the reason.
"""

import asyncio
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from federator.model.errors import FieldError
from federator.runtime.files import switching, wanted
from federator.runtime.files.backends import Away, Refusal
from federator.runtime.files.wanted import SecretFile
from federator.runtime.parts import Part, PartState, Waiting
from federator.runtime.roles import BadSetting, Pod
from federator.runtime.secrets.folder import FolderStore
from federator.runtime.secrets.openbao import OpenBaoStore, Place
from federator.runtime.secrets.store import Secret, SecretStore

log = logging.getLogger("federator.runtime.secrets")

NAME: Final = "secrets"
DEFAULT_DIR: Final = "/var/run/pinterest/secrets"
VERSIONS: Final = "..versions"
"""File in the tree: which version of which secret is there."""
POLL_S: Final = 60.0


class Secrets:
    """The part of one pod."""

    def __init__(
        self,
        pod: Pod,
        files: Sequence[SecretFile],
        store: SecretStore | None,
        folder: Path,
        poll_s: float = POLL_S,
    ) -> None:
        """`store` may be None if no files are wanted."""
        self._pod, self._files, self._store = pod, files, store
        self._folder, self._poll_s = folder, poll_s
        self._versions: dict[str, str] = {}
        """Of the secrets in the folder; empty before they are there."""
        self._trouble: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return NAME

    def state(self) -> PartState:
        if not self._files:
            return PartState(NAME, ready=True, reason="NoneNamed", message="no secrets are named")
        reason, message = self._trouble or ("Current", "")
        if not self._versions:
            reason = reason if self._trouble else "NotRead"
            return PartState(NAME, ready=False, reason=reason, message=message or "not read yet")
        held = ", ".join(f"{name} version {self._versions[name]}" for name in self._names())
        text = f"{held}; {message}" if message else held
        return PartState(NAME, ready=True, reason=reason, message=text[:1000])

    async def prepare(self) -> None:
        if not self._files or self._adopted():
            return
        if not switching.is_in_memory(self._folder):
            message = (
                f"{self._folder} is not in memory: the runtime profile has to mount an emptyDir"
                " with medium Memory there"
            )
            raise Waiting(PartState(NAME, ready=False, reason="NotInMemory", message=message))
        await self._take(self._names())
        if self._trouble is not None:
            raise Waiting(self.state())

    async def run(self) -> None:
        while self._files:
            await asyncio.sleep(self._poll_s * (0.5 + self._pod.chance()))
            await self.follow()

    async def drain(self) -> None:
        """The secrets are needed to the end."""

    async def follow(self) -> None:
        """Takes over the versions of now."""
        assert self._store is not None
        try:
            changed = await self._store.changed(self._versions)
        except Away as bad:
            self._trouble = ("StoreAway", str(bad))
            return
        except Refusal as bad:
            self._trouble = (bad.reason, bad.message)
            return
        if changed:
            await self._take([name for name in self._names() if name in changed])
        else:
            self._trouble = None

    # -- reading and writing --------------------------------------------------

    def _names(self) -> list[str]:
        return list(dict.fromkeys(each.name for each in self._files))

    async def _take(self, names: Sequence[str]) -> None:
        """Reads these secrets and writes those that can be had; the first trouble is kept. Without
        former files nothing is written unless all can be had."""
        assert self._store is not None
        secrets: dict[str, Secret] = {}
        trouble: tuple[str, str] | None = None
        for name in names:
            try:
                secret = await self._store.read(name)
                self._check_values(name, secret)
                secrets[name] = secret
            except Refusal as bad:
                trouble = trouble or (bad.reason, bad.message)
            except Away as bad:
                trouble = trouble or ("StoreAway", str(bad))
        fresh = {
            name: secret.version
            for name, secret in secrets.items()
            if self._versions.get(name) != secret.version
        }
        if fresh and (self._versions or trouble is None):
            try:
                self._write(secrets)
            except OSError as bad:
                trouble = ("NotWritten", f"{self._folder} cannot be written: {bad.strerror}")
            else:
                self._versions |= fresh
                for name, version in fresh.items():
                    log.info("secret %s is version %s now", name, version)
        self._trouble = trouble

    def _check_values(self, name: str, secret: Secret) -> None:
        """Raises Refusal for a value that is missing, or has no name of a file."""
        shown = ", ".join(sorted(secret.values)) or "none"
        for each in self._files:
            if each.name != name:
                continue
            if each.value and each.value not in secret.values:
                raise Refusal(
                    "SecretValueMissing",
                    f"secret {name} has no value {each.value}; it has {shown[:200]}",
                )
            for key in () if each.value else secret.values:
                if not wanted.SEGMENT.fullmatch(key):
                    raise Refusal(
                        "SecretUnreadable",
                        f"secret {name} has a value {key[:80]!r}, which is no name of a file; name"
                        f" the values that are needed, as {name}#VALUE",
                    )

    def _write(self, secrets: Mapping[str, Secret]) -> None:
        """Raises OSError."""
        versions = {**self._versions, **{name: each.version for name, each in secrets.items()}}
        kept = json.dumps({"wanted": self._wanted(), "versions": versions}).encode()
        former = switching.present(self._folder)

        def fill(tree: Path) -> None:
            for each in self._files:
                if each.name in secrets:
                    _place(tree / each.path, each, secrets[each.name])
                elif former is not None:
                    _link(former / each.path, tree / each.path)
            switching.place(tree / VERSIONS, kept, 0o444)

        switching.switch(self._folder, fill, switching.stamp(self._pod.wall()))

    def _wanted(self) -> str:
        text = repr([(each.name, each.value, each.path, each.mode) for each in self._files])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _adopted(self) -> bool:
        """Whether an earlier run of this pod has left what is wanted: it is followed from there."""
        former = switching.present(self._folder)
        try:
            kept = json.loads((former / VERSIONS).read_text("ascii")) if former else {}
        except (OSError, ValueError):
            return False
        if kept.get("wanted") != self._wanted():
            return False
        self._versions = {str(name): str(each) for name, each in kept["versions"].items()}
        return True


def _place(path: Path, file: SecretFile, secret: Secret) -> None:
    if file.value:
        switching.place(path, secret.values[file.value], file.mode)
        return
    path.mkdir(parents=True)
    for key, value in secret.values.items():
        switching.place(path / key, value, file.mode)


def _link(former: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if former.is_dir():
        shutil.copytree(former, path, copy_function=os.link)
    else:
        os.link(former, path)


def make(pod: Pod) -> Part:
    """The part of a pod. Raises BadSetting."""
    try:
        files = wanted.secrets(pod.env.get(wanted.SECRETS, ""))
    except FieldError as bad:
        raise BadSetting(f"{wanted.SECRETS}{bad.path}: {bad.message}") from None
    folder = Path(pod.text("FEDERATOR_SECRETS_DIR", DEFAULT_DIR))
    poll_s = pod.seconds("FEDERATOR_SECRETS_POLL_SECONDS", POLL_S)
    return Secrets(pod, files, _store(pod) if files else None, folder, max(poll_s, 1.0))


def _store(pod: Pod) -> SecretStore:
    """Raises BadSetting."""
    principal = pod.principal()
    kind = pod.text("FEDERATOR_SECRETS_FROM", "openbao")
    if kind == "folder":
        return FolderStore(Path(pod.text("FEDERATOR_SECRETS_FOLDER")), str(principal))
    if kind not in ("openbao", "knox"):
        raise BadSetting(
            f"FEDERATOR_SECRETS_FROM is {kind!r}; openbao, knox and folder are accepted"
        )
    url = pod.text("FEDERATOR_SECRETS_URL").rstrip("/")
    if not url.startswith("https://"):
        raise BadSetting(f"FEDERATOR_SECRETS_URL is {url[:80]!r}; an https:// address is accepted")
    trust = pod.env.get("FEDERATOR_SECRETS_TRUST_BUNDLE", "")
    if kind == "knox":
        from federator.runtime.secrets.knox import KnoxStore

        return KnoxStore(url, pod.identity, trust, str(principal))
    mount = pod.text("FEDERATOR_SECRETS_MOUNT", "secret").strip("/")
    place = Place(url, mount, pod.env.get("FEDERATOR_SECRETS_ROLE", ""), str(principal))
    return OpenBaoStore(place, pod.identity, trust, pod.monotonic)
