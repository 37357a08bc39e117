"""The identity role: certificate, key and trust bundle of the pod as files, renewed in time.

Two ways, by the variable FEDERATOR_IDENTITY_FROM: `signer` (the default) asks the signer of the
cluster; `kubelet` only watches the files that a kubelet projects (PodCertificateRequest).
"""

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from federator.runtime import web
from federator.runtime.files import switching
from federator.runtime.identity.authority import Authority, Away, Denied, Signer
from federator.runtime.identity.renewal import Lifetime, rfc3339
from federator.runtime.identity.spiffe import SpiffeId
from federator.runtime.parts import Part, PartState, Waiting
from federator.runtime.roles import BadSetting, Pod

log = logging.getLogger("federator.runtime.identity")

NAME: Final = "identity"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
FACTS: Final = "identity.json"
CHILD_S: Final = 30.0
"""A renewal that is not complete by then is given up, its key too."""
RETRY_S: Final = 60.0
BUNDLE_S: Final = 300.0
"""The trust bundle is read again so often; a rotation overlaps far longer."""
LOOK_S: Final = 30.0
"""Files of a kubelet are looked at so often."""
WARN_SHARE: Final = 0.05
"""With less than this share of the lifetime left, a failing renewal makes the part not ready. All
pods of a cluster reach it together, so it is small: a signer that is away for an hour while
certificates of four hours are due makes no pod unready."""
OUTPUT_MAX: Final = 1 << 16
MODES: Final = ("0600", "0640", "0644")


class Maker(Protocol):
    """What makes the key of one renewal, and keeps it to itself."""

    async def tell(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer to an order, or to the signer's answer. Raises Away."""


Makers = Callable[[], contextlib.AbstractAsyncContextManager[Maker]]


class _Child:
    """The process with the key."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def tell(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """Writes a line and reads one. Raises Away when the child has ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(words).encode() + b"\n")
            await stdin.drain()
            line = await stdout.readline()
            document = json.loads(line)
        except (OSError, ValueError) as bad:
            raise Away(f"the process that makes the key ended: {type(bad).__name__}") from None
        assert isinstance(document, dict)
        return document


@contextlib.asynccontextmanager
async def _child() -> Any:
    """A child that ends with this block, whatever happens in it."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # no module of the folder that the process happens to be in
            "-m",
            "federator.runtime.identity.keymaker",
            stdin=pipe,
            stdout=pipe,
            limit=OUTPUT_MAX,
        )
    except OSError as bad:
        raise Away(f"no process can be started: {bad.strerror}") from None
    try:
        yield _Child(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _facts(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Raises Denied for what the child refused."""
    if "facts" not in outcome:
        message = str(outcome.get("message", "the answer cannot be used"))
        raise Denied(str(outcome.get("refused", "Refused")), message)
    return dict(outcome["facts"])


def lifetime(facts: Mapping[str, Any]) -> Lifetime:
    return Lifetime(float(facts["begin_s"]), float(facts["end_s"]))


@dataclass(slots=True)
class _Known:
    """What both ways know of the present certificate."""

    pod: Pod
    id: SpiffeId
    facts: dict[str, Any] | None = None
    trouble: tuple[str, str] | None = None
    """(reason, message) of the last failure; None when the last try succeeded."""

    def state(self) -> PartState:
        """Ready while the certificate is valid and may still be renewed in time."""
        reason, message = self.trouble or ("NotIssued", "no certificate yet")
        if self.facts is None:
            return PartState(NAME, ready=False, reason=reason, message=message)
        valid = lifetime(self.facts)
        left_s = valid.left_s(self.pod.wall())
        until = f"{self.facts['id']} is valid until {rfc3339(valid.end_s)}"
        if left_s <= 0:
            why = f": {message}" if self.trouble else ""
            expired = f"the certificate expired at {rfc3339(valid.end_s)}{why}"
            return PartState(NAME, ready=False, reason="Expired", message=expired)
        if self.trouble and left_s < WARN_SHARE * valid.length_s:
            late = f"{until}, and cannot be renewed: {message}"
            return PartState(NAME, ready=False, reason=reason, message=late)
        if self.trouble:
            held = f"{until}; the last renewal failed: {message}"
            return PartState(NAME, ready=True, reason=reason, message=held)
        return PartState(NAME, ready=True, reason="Issued", message=until)

    def failed(self, bad: Denied | Away) -> None:
        denied = isinstance(bad, Denied)
        self.trouble = (bad.reason if isinstance(bad, Denied) else "SignerAway", str(bad))
        if denied:
            log.warning("no certificate: %s", bad)


class Renewed:
    """Asks an authority, and renews at two thirds of the lifetime."""

    def __init__(
        self,
        pod: Pod,
        identity: SpiffeId,
        authority: Authority,
        folder: Path,
        mode: str,
        *,
        makers: Makers = _child,
    ) -> None:
        self._known = _Known(pod, identity)
        self._makers = makers
        self._authority = authority
        self._folder = folder
        self._mode = mode
        self._due_s = 0.0

    @property
    def name(self) -> str:
        return NAME

    def state(self) -> PartState:
        return self._known.state()

    async def prepare(self) -> None:
        self._resume()
        if self._known.facts is not None and self._known.state().ready:
            return
        await self.renew()
        if self._known.facts is None or self._known.trouble is not None:
            raise Waiting(self.state())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renewing(), name="renewal")
            group.create_task(self._following(), name="trust bundle")

    async def drain(self) -> None:
        """The certificate is needed to the end."""

    def _resume(self) -> None:
        """Goes on with the files of an earlier run of this pod."""
        try:
            facts = json.loads((self._folder / FACTS).read_text("utf-8"))
            valid = lifetime(facts)
        except (OSError, ValueError, KeyError, TypeError):
            return
        if facts.get("id") == str(self._known.id) and valid.left_s(self._known.pod.wall()) > 0:
            self._take(facts)

    def _take(self, facts: dict[str, Any]) -> None:
        self._known.facts, self._known.trouble = facts, None
        self._due_s = lifetime(facts).due_s(self._known.pod.chance())

    async def _renewing(self) -> None:
        while True:
            wait_s = self._due_s - self._known.pod.wall()
            if wait_s > 0:
                # In steps: a clock that is set moves the end of the certificate, not of a sleep.
                await asyncio.sleep(min(wait_s, RETRY_S))
                continue
            await self.renew()
            if self._known.trouble is not None:
                await asyncio.sleep(RETRY_S * (0.5 + self._known.pod.chance() / 2))

    async def renew(self) -> None:
        """Renews now; what goes wrong is kept as trouble."""
        try:
            async with asyncio.timeout(CHILD_S):
                self._take(await self._renewed())
        except TimeoutError:
            self._known.failed(Away(f"the renewal took longer than {CHILD_S:g} s"))
        except (Denied, Away) as bad:
            self._known.failed(bad)
        else:
            log.info("certificate of %s, %s", self._known.id, self.state().message)

    async def _renewed(self) -> dict[str, Any]:
        """Raises Denied, Away."""
        order = {"id": str(self._known.id), "folder": str(self._folder), "mode": self._mode}
        async with self._makers() as maker:
            csr = (await maker.tell(order))["csr"]
            issued = await self._authority.sign(csr)
            return _facts(await maker.tell({"chain": issued.chain, "bundle": issued.bundle}))

    # -- the trust bundle -----------------------------------------------------

    async def _following(self) -> None:
        while True:
            await asyncio.sleep(BUNDLE_S * (0.5 + self._known.pod.chance() / 2))
            await self.follow()

    async def follow(self) -> None:
        """Takes over the trust bundle of now. The one that is there stands while the signer is
        away."""
        try:
            fresh = (await self._authority.bundle()).encode()
            if fresh != (self._folder / BUNDLE).read_bytes():
                web.trusting(fresh.decode("ascii"))  # a text without certificates is not kept
                self._keep_bundle(fresh)
                log.info("the trust bundle has changed")
        except (Away, Denied) as bad:
            log.info("the trust bundle cannot be read: %s", bad)
        except ValueError:
            log.warning("the trust bundle of the signer holds no certificates")
        except OSError as bad:
            log.warning("the trust bundle cannot be taken over: %s", bad.strerror)

    def _keep_bundle(self, fresh: bytes) -> None:
        """With the same key and certificate, which are linked and not read. Raises OSError."""

        def fill(tree: Path) -> None:
            for name in (KEY, CERTIFICATE, FACTS):
                switching.keep(self._folder, name, tree)
            switching.place(tree / BUNDLE, fresh, 0o644)

        switching.switch(self._folder, fill, switching.stamp(self._known.pod.wall()))


class Projected:
    """Watches the files that the kubelet projects: it asks for the certificate and renews it."""

    def __init__(self, pod: Pod, identity: SpiffeId, folder: Path) -> None:
        self._known = _Known(pod, identity)
        self._folder = folder
        self._seen: tuple[object, ...] = ()

    @property
    def name(self) -> str:
        return NAME

    def state(self) -> PartState:
        return self._known.state()

    async def prepare(self) -> None:
        await self.look()
        if self._known.facts is None:
            raise Waiting(self.state())

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def drain(self) -> None:
        """The certificate is needed to the end."""

    async def look(self) -> None:
        """Checks the files, where they are others than the last time."""
        chain, bundle = self._folder / CERTIFICATE, self._folder / BUNDLE
        try:
            stats = [os.stat(path) for path in (chain, bundle)]
        except OSError as bad:
            self._known.trouble = ("NotProjected", f"the kubelet has not written {bad.filename}")
            return
        seen = tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in stats)
        if seen == self._seen and self._known.trouble is None:
            return
        order = {"id": str(self._known.id), "chain": str(chain), "bundle": str(bundle)}
        try:
            async with asyncio.timeout(CHILD_S), _child() as child:
                self._known.facts = _facts(await child.tell(order))
            self._known.trouble, self._seen = None, seen
        except TimeoutError:
            self._known.failed(Away(f"the check took longer than {CHILD_S:g} s"))
        except (Denied, Away) as bad:
            self._known.failed(bad)


def make(pod: Pod) -> Part:
    """The part of a pod. Raises BadSetting."""
    identity = pod.principal()
    way = pod.text("FEDERATOR_IDENTITY_FROM", "signer")
    if way == "kubelet":
        return Projected(pod, identity, pod.identity)
    if way != "signer":
        raise BadSetting(f"FEDERATOR_IDENTITY_FROM is {way!r}; signer and kubelet are accepted")
    mode = pod.text("FEDERATOR_IDENTITY_KEY_MODE", "0600")
    if mode not in MODES:
        raise BadSetting(f"FEDERATOR_IDENTITY_KEY_MODE is {mode!r}; accepted: {', '.join(MODES)}")
    url = pod.text("FEDERATOR_SIGNER_URL")
    token = Path(pod.text("FEDERATOR_SIGNER_TOKEN", "/var/run/secrets/federator/token"))
    first = pod.text("FEDERATOR_TRUST_BUNDLE")
    folder = pod.identity

    def trust() -> str:
        """The bundle that the signer gave last, which follows rotations, and that of the
        profile."""
        with contextlib.suppress(OSError):
            return f"{(folder / BUNDLE).read_text('ascii')}\n{first}"
        return first

    return Renewed(pod, identity, Signer(url, token, trust), folder, mode)
