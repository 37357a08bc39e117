"""The configuration role: downloads the artifacts that the workload names, verifies and unpacks
them, and switches to all of them at once, before the application starts.

An artifact is named by digest and never changes, so a pod that has all of them needs no server any
more. A pod that starts waits with the reason.
"""

import asyncio
import contextlib
import json
import logging
import shutil
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from federator.model.errors import FieldError
from federator.runtime.configuration.downloading import download
from federator.runtime.configuration.getting import Web
from federator.runtime.configuration.stores import ArtifactStore, Blob, HttpStore, OciStore
from federator.runtime.configuration.unpacking import unpack
from federator.runtime.files import switching, wanted
from federator.runtime.files.backends import Away, Refusal
from federator.runtime.files.wanted import ConfigTree
from federator.runtime.parts import Part, PartState, Waiting
from federator.runtime.roles import BadSetting, Pod

log = logging.getLogger("federator.runtime.config")

NAME: Final = "config"
DEFAULT_DIR: Final = "/var/run/pinterest/config"
DIGESTS: Final = "..digests"
"""File in the tree: what is there."""
PARTIAL: Final = "..partial"
"""Folder of downloads that are not complete."""
FETCH_S: Final = 600.0
"""One try; the next one continues its downloads."""


class Configuration:
    """The part of one pod."""

    def __init__(
        self,
        pod: Pod,
        trees: Sequence[ConfigTree],
        store: Callable[[str, Callable[[], bool]], ArtifactStore],
        folder: Path,
    ) -> None:
        """`store` makes that of a scheme; the second argument says whether its result is not wanted
        any more."""
        self._pod, self._trees, self._store = pod, trees, store
        self._folder = folder
        self._there = False
        self._trouble: tuple[str, str] = ("NotRead", "not read yet")

    @property
    def name(self) -> str:
        return NAME

    def state(self) -> PartState:
        if not self._trees:
            return PartState(NAME, ready=True, reason="NoneNamed", message="no artifacts are named")
        if not self._there:
            reason, message = self._trouble
            return PartState(NAME, ready=False, reason=reason, message=message[:1000])
        held = ", ".join(f"{each.artifact}@{each.digest[:19]}" for each in self._trees)
        return PartState(NAME, ready=True, reason="Current", message=held[:1000])

    async def prepare(self) -> None:
        self._there = not self._trees or self._is_there()
        if self._there:
            return
        stop = threading.Event()
        work = asyncio.ensure_future(asyncio.to_thread(self._fetch, stop.is_set))
        try:
            async with asyncio.timeout(FETCH_S):
                await asyncio.shield(work)
            self._there = True
            return
        except TimeoutError:
            self._trouble = ("ConfigSlow", f"not complete within {FETCH_S:g} s; goes on from there")
        except Refusal as bad:
            self._trouble = (bad.reason, bad.message)
        except Away as bad:
            self._trouble = ("ConfigAway", str(bad))
        except OSError as bad:
            self._trouble = ("NotWritten", f"{self._folder} cannot be written: {bad.strerror}")
        finally:
            # No two threads write the same files: this one ends at its next piece.
            stop.set()
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()  # of an init run that gives up: the interpreter would print it
        raise Waiting(self.state())

    async def run(self) -> None:
        """What is there never changes."""

    async def drain(self) -> None:
        """The configuration is needed to the end."""

    # -- in a thread ----------------------------------------------------------

    def _fetch(self, stopped: Callable[[], bool]) -> None:
        """Raises Refusal, Away, OSError."""
        partial = self._folder / PARTIAL
        partial.mkdir(parents=True, exist_ok=True)
        blobs: dict[str, tuple[Blob, Path]] = {}
        for each in self._trees:
            if self._trouble[0] in ("NotRead", "Downloading"):
                text = f"{each.artifact}@{each.digest[:19]} is not downloaded yet"
                self._trouble = ("Downloading", text)
            store = self._store(each.artifact.scheme, stopped)
            blob = store.locate(each.artifact, each.digest)
            file = partial / blob.digest.replace(":", "-")
            download(store, blob, file)
            blobs[each.path] = blob, file
            log.info("%s@%s is downloaded", each.artifact, each.digest)

        def fill(tree: Path) -> None:
            for path, (blob, file) in blobs.items():
                place = tree / path
                place.parent.mkdir(parents=True, exist_ok=True)
                if blob.archive:
                    unpack(file, place, stopped)
                else:
                    shutil.copyfile(file, place)
                    place.chmod(0o444)
            switching.place(tree / DIGESTS, json.dumps(self._wanted()).encode(), 0o444)

        switching.switch(self._folder, fill, switching.stamp(self._pod.wall()))
        shutil.rmtree(partial, ignore_errors=True)

    def _wanted(self) -> dict[str, str]:
        return {each.path: f"{each.artifact}@{each.digest}" for each in self._trees}

    def _is_there(self) -> bool:
        former = switching.present(self._folder)
        try:
            kept = json.loads((former / DIGESTS).read_text("utf-8")) if former else None
        except (OSError, ValueError):
            return False
        return bool(kept == self._wanted())


def make(pod: Pod) -> Part:
    """The part of a pod. Raises BadSetting."""
    try:
        trees = wanted.config(pod.env.get(wanted.CONFIG, ""))
    except FieldError as bad:
        raise BadSetting(f"{wanted.CONFIG}{bad.path}: {bad.message}") from None
    text = pod.env.get("FEDERATOR_CONFIG_LOGINS", "")
    logins = Path(text) if text else None
    bundle = pod.env.get("FEDERATOR_CONFIG_TRUST_BUNDLE", "")

    def context() -> ssl.SSLContext:
        """Trusts the authorities of the image, those of the variable, and those of the pod."""
        trusting = ssl.create_default_context()
        if bundle:
            trusting.load_verify_locations(cadata=bundle)
        with contextlib.suppress(OSError):  # without an identity, or before it is there
            here = switching.present(pod.identity) or pod.identity
            trusting.load_verify_locations(cafile=here / "ca.crt")
            trusting.load_cert_chain(here / "tls.crt", here / "tls.key")
        return trusting

    def store(scheme: str, stopped: Callable[[], bool]) -> ArtifactStore:
        web = Web(context, logins, stopped)
        return STORES[scheme](web)

    return Configuration(pod, trees, store, Path(pod.text("FEDERATOR_CONFIG_DIR", DEFAULT_DIR)))


STORES: Final[Mapping[str, Callable[[Web], ArtifactStore]]] = {
    "oci": OciStore,
    "https": HttpStore,
    "http": HttpStore,
}
"""Scheme -> its store. `http` is for addresses of this machine alone (`model.sources`)."""
