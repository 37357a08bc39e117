"""The backends of pods on virtual time, which faults befall: the signer with its authority, a server
of secrets, a repository of artifacts, and the registry of services.

The signer and the registry are the project's own. OpenBao is played as far as pods ask it. Requests
arrive as bytes, so that what a server says is read by the code that reads it in a pod.
"""

import asyncio
import contextlib
import datetime
import hashlib
import io
import json
import logging
import ssl
import tarfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography import x509
from cryptography.x509 import verification

from federator.kube.tlsserver import Incoming
from federator.model.sources import Reference, reference
from federator.runtime.configuration import getting
from federator.runtime.configuration.getting import Web
from federator.runtime.configuration.stores import ArtifactStore, HttpStore
from federator.runtime.files.backends import Away as ServerAway
from federator.runtime.identity.authority import Away
from federator.runtime.identity.spiffe import SpiffeId
from federator.runtime.traffic.embedded import Directory
from federator.runtime.web import Answer, Unreached
from federator.signer import authorities
from federator.signer.authorities import CertificateAuthority, CertificateContent, Pair
from tests.unit.signer import cas

CANARY: Final = "canary-7f3a91"
"""In every value that nobody but the files of a pod may hold."""
SIGNER: Final = "https://signer.example"
STORE: Final = "https://bao.example"
ARTIFACTS: Final = "artifacts.example"
SECRET: Final = "ads/db"
TRICKLE_S: Final = 700.0
"""Longer than a pod waits for its artifacts in one try."""
YEAR_S: Final = 365 * 86400.0

FAULTS: Final[Mapping[tuple[str, str], tuple[str, tuple[str, ...]]]] = {
    ("signer", "away"): ("identity", ("the signer does not answer",)),
    ("signer", "slow"): ("identity", ("no answer from https://signer.example within 15 s",)),
    ("signer", "babbling"): ("identity", ("the answer of the signer has no chain",)),
    ("authority", "away"): ("identity", ("OpenBao is sealed",)),
    ("authority", "expired"): ("identity", ("the intermediate certificate of the authority expired",)),
    ("authority", "foreign name"): ("identity", ("the certificate is that of",)),
    ("authority", "foreign root"): ("identity", ("which is not in the trust bundle",)),
    ("store", "away"): ("secrets", (f"{STORE} cannot be reached",)),
    ("store", "slow"): ("secrets", (f"no answer from {STORE} within 10 s",)),
    ("store", "sealed"): ("secrets", (f"{STORE} answers 503",)),
    ("store", "babbling"): ("secrets", (f"{STORE} answers 200",)),
    ("store", "large"): ("secrets", (f"secret {SECRET} has 2097152 bytes",)),
    ("store", "denied"): ("secrets", ("may not read secret/data/ads/db",)),
    ("artifacts", "away"): ("config", (f"{ARTIFACTS} cannot be reached",)),
    ("artifacts", "silent"): ("config", (f"{ARTIFACTS} was silent for 10 s",)),
    ("artifacts", "slow"): ("config", ("not complete within 600 s", f"https://{ARTIFACTS}/")),
    ("artifacts", "wrong bytes"): ("config", ("is asked for",)),
    ("artifacts", "cut off"): ("config", ("ended after",)),
    ("registry", "away"): ("traffic", ("registry does not answer",)),
    ("registry", "slow"): ("traffic", ("no answer within 5 s", "not yet in")),
    ("registry", "sessions"): ("traffic", ("not yet in",)),
    ("clocks", "ahead"): ("identity", ("expired at", "the certificate")),
    ("clocks", "behind"): ("identity", ("begins at", "the certificate")),
}  # fmt: skip
"""(backend, kind) -> the part of a new pod that waits for it, and words of which one is told."""


@dataclass(slots=True)
class Weather:
    """Which fault each backend has now."""

    now: dict[str, str] = field(default_factory=dict)
    fired: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often a fault met a request."""

    def at(self, backend: str) -> str:
        """The kind of fault of a backend that is asked now; "" for none."""
        kind = self.now.get(backend, "")
        if kind:
            self.fired[backend, kind] = self.fired.get((backend, kind), 0) + 1
        return kind


def artifact(*entries: tuple[str, bytes]) -> bytes:
    """A tar file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


FLAGS: Final = artifact(("flags/a.json", b'{"on": true}'), ("flags/b.json", b"{}"))
CLIMBING: Final = artifact(("../../climbed", b"out"), ("flags/a.json", b"{}"))
"""An archive that a person published: its digest is right."""
FILES: Final[Mapping[str, bytes]] = {"flags.tar": FLAGS, "climbing.tar": CLIMBING}


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Authority(CertificateAuthority):
    """A root with an intermediate. `now_s`: epoch seconds."""

    def __init__(self, weather: Weather, now_s: Callable[[], float]) -> None:
        self._weather, self._now_s = weather, now_s
        begin_s = now_s()
        self.root = cas.authority("root", begin_s, lasts_s=YEAR_S)
        self._good = self._pair(self.root, lasts_s=YEAR_S)
        self._expired = self._pair(self.root, lasts_s=3600.0 + 60.0)
        self._foreign = self._pair(cas.authority("other", begin_s, lasts_s=YEAR_S), lasts_s=YEAR_S)

    def _pair(self, root: cas.Ca, lasts_s: float) -> Pair:
        signing = cas.authority("signing", self._now_s(), above=root, lasts_s=lasts_s)
        return Pair((signing.certificate,), signing.key, root.pem)

    async def sign(self, csr: x509.CertificateSigningRequest, wanted: CertificateContent) -> bytes:
        kind, pair = self._weather.at("authority"), self._good
        if kind == "away":
            raise Away("OpenBao is sealed")
        if kind == "expired":
            pair = self._expired
        elif kind == "foreign root":
            pair = self._foreign
        elif kind == "foreign name":
            wanted = CertificateContent(
                SpiffeId(wanted.id.trust_domain, "ads", "admin"), wanted.lifetime_s
            )
        return authorities.issued(pair, csr, wanted, self._now_s())

    async def bundle(self) -> bytes:
        return self.root.pem

    async def close(self) -> None: ...


Answers = Callable[[Incoming], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class SignerLine:
    """The network between a pod and the signer, as `web.ask`."""

    weather: Weather
    answer: Answers

    async def __call__(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        context: ssl.SSLContext | None = None,
        within_s: float = 10.0,
        most: int = 1 << 20,
    ) -> Answer:
        kind = self.weather.at("signer")
        await reached(SIGNER, kind, within_s)
        if kind == "babbling":
            return Answer(200, {}, b'{"chain": ["x"], "bundle": 7}')

        async def read(_most: int) -> bytes:
            return body

        shown = (headers or {}).get("Authorization", "")
        asked = Incoming(
            method,
            url.removeprefix(SIGNER),
            authorization=shown,
            has_body=bool(body),
            read_body=read,
        )
        said = await self.answer(asked)
        return Answer(said.status, {}, said.body)


async def reached(where: str, kind: str, within_s: float) -> None:
    """Returns when a request has reached its server. Raises Unreached in the words of `web`."""
    if kind == "away":
        raise Unreached(f"{where} cannot be reached: ConnectionRefusedError: ")
    if kind == "slow":
        await asyncio.sleep(within_s)
        raise Unreached(f"no answer from {where} within {within_s:g} s")
    await asyncio.sleep(0.01)


@dataclass(slots=True)
class Store:
    """OpenBao with one secret, as far as pods ask it."""

    weather: Weather
    versions: list[str] = field(default_factory=lambda: [f"{CANARY}-1"])

    def rotate(self) -> None:
        self.versions.append(f"{CANARY}-{len(self.versions) + 1}")

    async def __call__(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        context: ssl.SSLContext | None = None,
        within_s: float = 10.0,
        most: int = 1 << 20,
    ) -> Answer:
        kind = self.weather.at("store")
        await reached(STORE, kind, within_s)
        path = url.removeprefix(f"{STORE}/v1/")
        if kind == "sealed":
            return _json(503, {"errors": ["Vault is sealed"]})
        if kind == "babbling":
            return Answer(
                200, {}, b'{"auth": {"client_token": 5}, "data": ["' + CANARY.encode() + b'"]}'
            )
        if path == "auth/cert/login":
            granted = {
                "client_token": f"{CANARY}-token",
                "lease_duration": 3600,
                "policies": ["ads"],
            }
            return _json(200, {"auth": granted})
        if kind == "denied":
            return _json(403, {"errors": ["permission denied"]})
        number = len(self.versions)
        if "/metadata/" in path:
            return _json(200, {"data": {"current_version": number, "versions": {str(number): {}}}})
        value = "x" * (2 << 20) if kind == "large" else self.versions[-1]
        data = {"data": {"password": value}, "metadata": {"version": number}}
        return _json(200, {"data": data})


def _json(status: int, document: Mapping[str, Any]) -> Answer:
    return Answer(status, {}, json.dumps(document).encode())


@dataclass(slots=True)
class Threads:
    """Work that pods do in threads: at once, and its result comes when it would have come."""

    spent_s: float = 0.0

    def run_in_executor(
        self, _executor: object, work: Callable[..., Any], *given: Any
    ) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        self.spent_s = 0.001
        try:
            result, bad = work(*given), None
        except Exception as raised:
            result, bad = None, raised

        def ends() -> None:
            if not outcome.cancelled():
                outcome.set_exception(bad) if bad is not None else outcome.set_result(result)

        loop.call_later(self.spent_s, ends)
        return outcome


@dataclass(frozen=True, slots=True)
class Line(Web):
    """The network between pods and the repository of artifacts."""

    context: Callable[[], ssl.SSLContext] = ssl.create_default_context
    weather: Weather = field(default_factory=Weather)
    threads: Threads = field(default_factory=Threads)

    @contextlib.contextmanager
    def opened(self, url: str, headers: Mapping[str, str]) -> Iterator[getting.Answer]:
        kind, data = self.weather.at("artifacts"), FILES[url.rpartition("/")[2]]
        if kind == "away":
            raise ServerAway(f"{ARTIFACTS} cannot be reached: ConnectionRefusedError: ")
        if kind == "silent":
            self.threads.spent_s += 10.0
            raise ServerAway(f"{ARTIFACTS} was silent for 10 s")
        sent = data
        if kind == "wrong bytes":
            sent = bytes(len(data))
        elif kind == "cut off":
            sent = data[: len(data) // 2]
        elif kind == "slow":
            self.threads.spent_s += TRICKLE_S
        heads = {"content-length": str(len(data))}
        yield getting.Answer(200, heads, iter((sent,)))


def store_of(line: Line, _scheme: str, _stopped: Callable[[], bool]) -> ArtifactStore:
    return HttpStore(line)


def named(name: str) -> Reference:
    return reference(f"https://{ARTIFACTS}/{name}")


@dataclass(slots=True)
class Backends:
    """All of them, and their faults."""

    epoch_s: float
    weather: Weather = field(default_factory=Weather)
    threads: Threads = field(default_factory=Threads)
    directory: Directory = field(default_factory=Directory)
    authority: Authority = field(init=False)
    store: Store = field(init=False)
    line: Line = field(init=False)

    def __post_init__(self) -> None:
        self.authority = Authority(self.weather, self.now_s)
        self.store = Store(self.weather)
        self.line = Line(weather=self.weather, threads=self.threads)

    def now_s(self) -> float:
        """Epoch seconds of a clock that is right."""
        return self.epoch_s + asyncio.get_running_loop().time()

    def begins(self, backend: str, kind: str) -> None:
        self.weather.now[backend] = kind
        if backend == "registry":
            self.weather.at(backend)
            match kind:
                case "away":
                    self.directory.leave()
                case "slow":
                    self.directory.delay_s = 6.0
                case _:
                    for session in list(self.directory.heard_s):
                        self.directory.expire(session)

    def ends(self, backend: str) -> None:
        del self.weather.now[backend]
        if backend == "registry":
            self.directory.delay_s = 0.0
            if self.directory.away:
                self.directory.come_back()

    def holds(self, chain: bytes, identity: SpiffeId) -> str:
        """Why a peer would not take a certificate now; "" if it does. A peer asks its library, and
        not us."""
        leaf, *above = x509.load_pem_x509_certificates(chain)
        now = datetime.datetime.fromtimestamp(self.now_s(), datetime.UTC)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if names.get_values_for_type(x509.UniformResourceIdentifier) != [str(identity)]:
            return f"it names {names}"
        roots = verification.Store([self.authority.root.certificate])
        try:
            policy = verification.PolicyBuilder().store(roots).time(now)
            policy.build_client_verifier().verify(leaf, above)
        except verification.VerificationError as bad:
            return str(bad)
        return ""


class Heard(logging.Handler):
    """Everything that is logged, scanned."""

    def __init__(self, scan: Callable[[str, str], None]) -> None:
        super().__init__(logging.DEBUG)
        self.scan = scan
        self.lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += 1
        self.scan("the log", f"{self.format(record)} {record.__dict__}")


@contextlib.contextmanager
def listening(scan: Callable[[str, str], None]) -> Iterator[Heard]:
    """What is logged meanwhile is scanned, and goes nowhere else."""
    heard, logger = Heard(scan), logging.getLogger("federator")
    before = logger.level, logger.propagate, logging.root.manager.disable
    logger.addHandler(heard)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logging.disable(logging.NOTSET)
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
        logger.setLevel(before[0])
        logger.propagate = before[1]
        logging.disable(before[2])
