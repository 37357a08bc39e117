"""The story of a run: what every process asked, what was answered, what failed, what was decided,
which rule broke.

Lines are put into words only when somebody reads them. Quiet ones (answers to reads, streams that
begin, heartbeats and Events that went well) are left out for a person and kept for the digest,
which two runs share only if they sent the same bytes at the same times.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from federator.kube.wire.transport import Request
from tests.faults.lives import Life

BODY_MOST = 160
"""Characters of a body that a line shows."""
_NOISE = ("apiVersion", "kind", "propagationPolicy")
_TOLD_OF_METADATA = ("name", "finalizers", "deletionTimestamp")


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault of one request: the n-th (from 0) of one process to one path, as an exact schedule
    repeats it.
    """

    fault: str
    process: str
    cluster: str
    method: str
    path: str
    nth: int


@dataclass(frozen=True, slots=True)
class Sent:
    """One request that reached an API server, with its answer."""

    at_s: float
    process: str
    life: Life
    cluster: str
    request: Request
    status: int

    @property
    def watches(self) -> bool:
        return ("watch", "true") in self.request.query

    @property
    def writes(self) -> bool:
        return self.request.method not in ("GET", "HEAD")

    @property
    def heartbeat(self) -> bool:
        return "/leases" in self.request.path

    @property
    def quiet(self) -> bool:
        """Nobody would miss it in a story."""
        well = self.status < 300
        return well and (not self.writes or self.heartbeat or self.request.path.endswith("/events"))

    def text(self) -> str:
        """One line with the whole path."""
        return (
            f"{self.at_s:9.3f} {self.life.name:12} {self.cluster:5} {self._verb:6} "
            f"{self.request.path} -> {self.status}"
        )

    def told(self) -> str:
        """One line for a person: what it is about, how it ended, what was written."""
        answer = str(self.status)
        if self.status >= 300:
            answer += f" {HTTPStatus(self.status).phrase}" if self.status in _PHRASES else ""
        body = f"  {_brief(self.request.body)}" if self.writes and self.request.body else ""
        about = short(self.request.path)
        return (
            f"{self.at_s:9.3f} {self.life.name:12} {self.cluster:5} {self._verb:6} {about:44} -> "
            f"{answer}{body}"
        )

    @property
    def _verb(self) -> str:
        return "WATCH" if self.watches else self.request.method


_PHRASES = frozenset(int(status) for status in HTTPStatus)


@dataclass(frozen=True, slots=True)
class Said:
    """Anything else that happened."""

    at_s: float
    words: str
    quiet: bool = False

    def text(self) -> str:
        return f"{self.at_s:9.3f} {self.words}"

    def told(self) -> str:
        return self.text()


class Story:
    """All of one run. `strikes` are the faults of single requests, in their order."""

    def __init__(self) -> None:
        self._lines: list[Sent | Said] = []
        self.strikes: list[Strike] = []
        self._over = False

    def add(self, line: Sent | Said) -> None:
        if not self._over:
            self._lines.append(line)

    def end(self) -> None:
        """The run is over. What its tasks still send while they are cancelled, in no order, is none
        of it.
        """
        self._over = True

    def told(self, *, everything: bool = False) -> Iterator[str]:
        """For a person."""
        return (line.told() for line in self._lines if everything or not line.quiet)

    def texts(self) -> Iterator[str]:
        """Every line with whole paths."""
        return (line.text() for line in self._lines)

    def digest(self) -> str:
        """Equal for two runs that sent the same bytes at the same times."""
        found = hashlib.blake2b(digest_size=12)
        for line in self._lines:
            found.update(line.text().encode())
            if isinstance(line, Sent):
                found.update(line.request.body)
        return found.hexdigest()


def short(path: str) -> str:
    """`pinterestservices feed/web/status` of a path of the API."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else parts
    if parts and parts[0] == "namespaces" and len(parts) > 2:
        parts = [parts[2], parts[1], *parts[3:]]
    return f"{parts[0]} {'/'.join(parts[1:])}".rstrip() if parts else path


def _brief(body: bytes) -> str:
    """The beginning of what is written, without what every object has."""
    try:
        found = json.loads(body)
    except ValueError:
        return repr(body[:BODY_MOST])
    if isinstance(found, dict):
        meta = found.pop("metadata", None) or {}
        found = {name: value for name, value in found.items() if name not in _NOISE}
        found |= {name: meta[name] for name in _TOLD_OF_METADATA if name in meta}
    text = json.dumps(found, separators=(",", ":"))
    return text if len(text) <= BODY_MOST else f"{text[:BODY_MOST]}..."
